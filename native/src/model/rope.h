// Tables of rotary position embeddings, grown as positions are reached.
#ifndef CERNE_SRC_MODEL_ROPE_H_
#define CERNE_SRC_MODEL_ROPE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cerne {

// How the frequencies of a model differ from theta^(-2i/E).
struct RopeScaling {
  std::string kind = "none";  // none, linear, yarn, llama3
  double factor = 1.0;
  double original_context = 0.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  double attention_factor = 1.0;  // yarn: multiplies the magnitude 0.1 ln(factor) + 1
  bool truncate = true;           // yarn: whole dimensions as the ends of its ramp
};

struct RopeFrequencies {
  std::vector<float> values;  // f[i], i < E / 2
  float magnitude = 1.0f;     // cosines and sines are multiplied by this
};

// `divisors` (E / 2 values, or empty) divide the frequencies, as a file's rope_freqs tensor does.
// Throws an invalid-argument Error for an unknown kind or a number out of range.
RopeFrequencies rope_frequencies(size_t head_dim, double theta, const RopeScaling& scaling,
                                 const std::vector<float>& divisors);

class RopeTable {
 public:
  explicit RopeTable(RopeFrequencies frequencies) : frequencies_(std::move(frequencies)) {}

  // Makes the tables of positions 0 .. end - 1. Not while another thread reads.
  void reach(size_t end);

  const float* cosines(size_t position) const { return cosines_.data() + position * half(); }
  const float* sines(size_t position) const { return sines_.data() + position * half(); }

 private:
  size_t half() const { return frequencies_.values.size(); }

  RopeFrequencies frequencies_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_ROPE_H_
