// What makes ids of the words of a text: a vocabulary with its rule. BpeModel and SpmModel are the
// two kinds; Tokenizer does the rest for both.
#ifndef CERNE_SRC_TOKEN_MODEL_H_
#define CERNE_SRC_TOKEN_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cerne {

constexpr uint32_t kNoToken = UINT32_MAX;
// Ids and merge ranks of the pair table share one word; the last number stands for no token.
constexpr uint32_t kMaxTokens = (1u << 21) - 1;

// Buffers that encoding keeps between words.
struct MergeScratch {
  std::vector<uint32_t> ids, rank, next, previous;
  std::vector<uint32_t> bucket_of_rank;
  std::vector<std::vector<uint32_t>> buckets;

  // SpmModel: a pair that may merge; `size` tells a pair that has changed since.
  struct Candidate {
    float score;
    uint32_t left, size;
  };
  std::vector<uint32_t> start;
  std::vector<Candidate> candidates;
  std::string text;
};

// Immutable once it encodes, so any number of threads may use it.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  virtual size_t num_tokens() const = 0;
  // The bytes that an id decodes to.
  virtual std::string_view token(uint32_t id) const = 0;

  // Writes where the words from p on end, in order, up to `capacity` of them; moves p to the last.
  // No merge reaches across an end.
  virtual size_t find_ends(const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                           size_t capacity) const = 0;

  // Ids of one word of `size` >= 1 bytes; `out` has room for `size` of them. Returns their number.
  virtual size_t encode_word(const uint8_t* word, size_t size, uint32_t* out,
                             MergeScratch& scratch) const = 0;

  // Whether trying all tokens beforehand is worth it: text consists mostly of whole tokens.
  virtual bool words_are_tokens() const = 0;
};

}  // namespace cerne

#endif  // CERNE_SRC_TOKEN_MODEL_H_
