// A decoder-only transformer ready to run: sizes, and weights in the layout of the kernels.
#ifndef CERNE_SRC_MODEL_MODEL_H_
#define CERNE_SRC_MODEL_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/vector.h"
#include "model/linear.h"
#include "model/rope.h"
#include "model/source.h"

namespace cerne {

struct ModelConfig {
  std::string architecture;
  size_t context;    // positions it was made for
  size_t layers;     // L
  size_t width;      // D
  size_t ffn_width;  // F
  size_t heads;      // H
  size_t kv_heads;   // K
  size_t head_dim;   // E
  size_t vocab;      // V
  float eps;
  float attention_scale;
  float embedding_scale;
  Gate gate;
  // Keys that a query of each layer may see, its own included; 0: all. Layers with a window use
  // the second table of frequencies where a model has two.
  std::vector<size_t> windows;
};

struct Layer {
  std::vector<float> attention_norm;
  std::vector<float> ffn_norm;
  // Empty where the architecture has none.
  std::vector<float> q_norm, k_norm, post_attention_norm, post_ffn_norm;
  std::vector<float> q_bias, k_bias, v_bias, output_bias, gate_bias, up_bias, down_bias;
  std::unique_ptr<const Linear> q, k, v, output, gate, up, down;
};

class Model {
 public:
  // Packs the weights on `num_threads` threads; the source is not needed afterwards. `progress`
  // (may be empty) hears of bytes done and wanted and stops the work by returning true.
  // Throws an invalid-argument Error for what is missing, unknown, of another shape, or too large
  // for the memory that the machine has.
  Model(const ModelSource& source, size_t num_threads,
        const std::function<bool(uint64_t done, uint64_t total)>& progress);

  const ModelConfig& config() const { return config_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Linear& embedding() const { return *embedding_; }
  const Linear& head() const { return head_ ? *head_ : *embedding_; }
  const std::vector<float>& output_norm() const { return output_norm_; }
  const RopeFrequencies& frequencies(size_t layer) const {
    return frequencies_[uses_local(layer) ? 1 : 0];
  }
  // Which of the tables (one or two) a layer reads.
  size_t table_of(size_t layer) const { return uses_local(layer) ? 1 : 0; }
  const std::vector<RopeFrequencies>& all_frequencies() const { return frequencies_; }
  // Keys and values are kept as binary16: some weight matrix has fewer than 32 bits.
  bool half_cache() const { return half_cache_; }
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  bool uses_local(size_t layer) const {
    return frequencies_.size() > 1 && config_.windows[layer] > 0;
  }

  ModelConfig config_;
  std::vector<Layer> layers_;
  std::unique_ptr<const Linear> embedding_;
  std::unique_ptr<const Linear> head_;  // null: tied to the embedding
  std::vector<float> output_norm_;
  std::vector<RopeFrequencies> frequencies_;
  bool half_cache_ = false;
  uint64_t weight_bytes_ = 0;
};

// Sizes and switches of a stored model. Throws an invalid-argument Error.
ModelConfig config_of(const ModelSource& source);

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_MODEL_H_
