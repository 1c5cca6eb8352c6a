// From logits to a token, as docs/sampling.md says: transforms in a fixed order, then one draw from
// a counter-based generator. binary64, one operation at a time, ties to the lowest id. Leaves out
// log-probabilities and beam search.
#ifndef CERNE_SRC_SAMPLER_H_
#define CERNE_SRC_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace cerne {

// The values that change nothing are the defaults. set_* throw an invalid-argument Error for an
// unknown name or a value out of range.
struct SamplingParams {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0;
  double repetition_penalty = 1.0, presence_penalty = 0.0, frequency_penalty = 0.0;
  uint64_t top_k = 0, seed = 0;

  void set_integer(const std::string& name, int64_t value);
  void set_number(const std::string& name, double value);
};

class Sampler {
 public:
  SamplingParams params;

  // Adds `bias` to the logit of a token; -infinity forbids it. The last one for a token counts.
  void add_bias(uint32_t token, double bias);
  // Remembers a token for the penalties; `generated` is false for the prompt's.
  void accept(uint32_t token, bool generated);
  void reset() { counts_.clear(); }

  // The token after logits [V]. `position` is the one that it will take, `choice` the index of the
  // answer among those to the same prompt. Throws an invalid-argument Error when a NaN or +infinity
  // is there, no token is left, or a token to change is outside the vocabulary.
  uint32_t choose(const float* logits, size_t size, uint32_t choice, uint64_t position) const;

 private:
  bool shifts() const;
  void shift(std::vector<double>& logits) const;

  std::map<uint32_t, double> bias_;
  std::unordered_map<uint32_t, uint64_t> counts_;  // token -> how often it was generated
};

}  // namespace cerne

#endif  // CERNE_SRC_SAMPLER_H_
