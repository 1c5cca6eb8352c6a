// One forward pass over a batch of tokens of any mixture of sequences, by a team of threads.
//
// The order of every operation on a number is that of docs/arithmetic.md; how tokens, rows and
// pages are shared out between threads changes no result.
#ifndef CERNE_SRC_MODEL_FORWARD_H_
#define CERNE_SRC_MODEL_FORWARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/kv_cache.h"
#include "model/model.h"
#include "team.h"

namespace cerne {

// One token of a batch. `pages` lists the pages of its sequence up to that of its position.
struct BatchToken {
  uint32_t id;
  size_t position;
  const uint32_t* pages;
};

// What a pass gives for a token: logits [V], or the hidden state behind the last norm [D].
enum class Rows { kLogits, kHidden };

class Forward {
 public:
  // Room for `max_tokens` tokens a pass, whose positions are below `max_positions`.
  Forward(std::shared_ptr<const Model> model, Team& team, size_t max_tokens, size_t max_positions);
  ~Forward();

  // Reads the tokens, writes their keys and values into the cache, and what `rows` says of the
  // tokens whose indices are in `wanted` into out[0 .. wanted.size())[V or D]. Of one sequence,
  // earlier tokens come first. Returns false, at most a layer late, once `stop` is set.
  bool run(const std::vector<BatchToken>& tokens, const std::vector<size_t>& wanted,
           const KvCache& cache, const std::atomic<bool>& stop, Rows rows, float* out);

 private:
  struct Buffers;
  struct Product;

  void work(size_t thread);
  void embed(size_t thread);
  void normalize(size_t thread, const std::vector<float>& weight);
  void project_heads(size_t thread, size_t layer);
  void attend(size_t thread, size_t layer);
  void attend_by_pair(size_t thread, size_t layer);
  void attend_by_page(size_t thread, size_t layer);
  void quantize_mixed(size_t thread);
  void gate(size_t thread, const Layer& layer);
  void add_product(size_t thread, const std::vector<float>& bias, const std::vector<float>& norm);
  void write_rows(size_t thread);
  void multiply(size_t thread, size_t tokens, const float* values, size_t width,
                const Product* products, size_t count);
  void quantize(size_t token, size_t width, size_t begin, size_t end, const float* values);
  void score_page(size_t layer, size_t token, size_t kv_head, size_t page, AttentionState* states,
                  float* outputs) const;
  size_t first_position(size_t layer, size_t position) const;

  std::shared_ptr<const Model> model_;
  Team& team_;
  std::vector<RopeTable> tables_;
  std::unique_ptr<Buffers> buffers_;
  // Of the pass that runs.
  const std::vector<BatchToken>* tokens_ = nullptr;
  const std::vector<size_t>* wanted_ = nullptr;
  const KvCache* cache_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  Rows rows_ = Rows::kLogits;
  float* out_ = nullptr;
  bool stopped_ = false;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_FORWARD_H_
