// A second, plain implementation of BPE to hold the fast one against, and small vocabularies.
#ifndef CERNE_TESTS_PLAIN_BPE_H_
#define CERNE_TESTS_PLAIN_BPE_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cerne.h"
#include "check.h"

namespace cerne_test {

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<uint32_t> pairs;  // left, right, left, right, ...
};

// 256 bytes in a shuffled order, a special token, and random merges over a small alphabet, so that
// tokens are reached in several ways and some are never what their own bytes encode to.
inline Vocabulary random_vocabulary(std::mt19937& rng, std::string_view alphabet,
                                    size_t num_merges) {
  Vocabulary v;
  for (int byte = 0; byte < 256; ++byte) v.tokens.emplace_back(1, static_cast<char>(byte));
  for (size_t i = 255; i > 0; --i) std::swap(v.tokens[i], v.tokens[rng() % (i + 1)]);
  v.tokens.emplace_back();
  std::map<std::string, uint32_t> ids;
  std::vector<uint32_t> usable;
  for (uint32_t id = 0; id < 256; ++id) {
    ids[v.tokens[id]] = id;
    if (alphabet.find(v.tokens[id][0]) != std::string_view::npos) usable.push_back(id);
  }
  std::map<std::pair<uint32_t, uint32_t>, bool> seen;
  for (size_t attempts = 0; attempts < 20 * num_merges && v.pairs.size() < 2 * num_merges;
       ++attempts) {
    const uint32_t left = usable[rng() % usable.size()], right = usable[rng() % usable.size()];
    const std::string joined = v.tokens[left] + v.tokens[right];
    if (joined.size() > 24 || !seen.emplace(std::make_pair(left, right), true).second) continue;
    if (ids.emplace(joined, static_cast<uint32_t>(v.tokens.size())).second) {
      usable.push_back(static_cast<uint32_t>(v.tokens.size()));
      v.tokens.push_back(joined);
    }
    v.pairs.push_back(left);
    v.pairs.push_back(right);
  }
  return v;
}

class PlainBpe {
 public:
  explicit PlainBpe(const Vocabulary& v) : tokens_(v.tokens) {
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].empty()) ids_[tokens_[id]] = id;
    }
    for (size_t i = 0; 2 * i < v.pairs.size(); ++i) {
      ranks_[{v.pairs[2 * i], v.pairs[2 * i + 1]}] = i;
    }
  }

  // By the definition: the lowest rank, the leftmost of equals, one merge at a time.
  std::vector<uint32_t> merge(std::string_view word) const {
    std::vector<uint32_t> out;
    for (const char c : word) out.push_back(ids_.at(std::string(1, c)));
    for (;;) {
      size_t best = SIZE_MAX, place = 0;
      for (size_t i = 0; i + 1 < out.size(); ++i) {
        const auto found = ranks_.find({out[i], out[i + 1]});
        if (found != ranks_.end() && found->second < best) {
          best = found->second;
          place = i;
        }
      }
      if (best == SIZE_MAX) return out;
      out[place] = ids_.at(tokens_[out[place]] + tokens_[out[place + 1]]);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

 private:
  std::vector<std::string> tokens_;
  std::map<std::string, uint32_t> ids_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> ranks_;
};

inline const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

inline cerne_tokenizer* make_tokenizer(const Vocabulary& v, std::string_view pattern,
                                       int64_t cache_bytes) {
  std::string blob;
  std::vector<uint64_t> offsets{0};
  for (const std::string& token : v.tokens) {
    blob += token;
    offsets.push_back(blob.size());
  }
  cerne_tokenizer* t = nullptr;
  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  CHECK(cerne_tokenizer_set_string(t, "pattern", 7, pattern.data(), pattern.size()) == CERNE_OK);
  CHECK(cerne_tokenizer_set_integer(t, "cache_bytes", 11, cache_bytes) == CERNE_OK);
  CHECK(cerne_tokenizer_set_vocabulary(t, bytes_of(blob), offsets.data(), v.tokens.size()) ==
        CERNE_OK);
  CHECK(cerne_tokenizer_set_merges(t, v.pairs.data(), v.pairs.size() / 2) == CERNE_OK);
  CHECK(cerne_tokenizer_build(t) == CERNE_OK);
  return t;
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_PLAIN_BPE_H_
