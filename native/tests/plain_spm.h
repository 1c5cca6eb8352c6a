// A second, plain implementation of SentencePiece's merging by scores, and small vocabularies.
#ifndef CERNE_TESTS_PLAIN_SPM_H_
#define CERNE_TESTS_PLAIN_SPM_H_

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cerne.h"
#include "check.h"

namespace cerne_test {

struct Pieces {
  std::vector<std::string> pieces;
  std::vector<float> scores;
};

inline const char* const kPieceSpace = "\xE2\x96\x81";

inline std::string with_piece_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += kPieceSpace;
    } else {
      out += c;
    }
  }
  return out;
}

// A special token, the byte tokens, most characters of the alphabet and joined pieces. Scores are
// few, so many pairs tie; some pieces are never reached, some hold a space inside.
inline Pieces random_pieces(std::mt19937& rng, const std::vector<std::string>& alphabet,
                            size_t num_pieces) {
  Pieces p;
  p.pieces.emplace_back();
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    p.pieces.emplace_back(name);
  }
  std::map<std::string, bool> there;
  std::vector<std::string> parts;
  const auto add = [&](const std::string& text) {
    parts.push_back(text);
    if (there.emplace(with_piece_spaces(text), true).second) {
      p.pieces.push_back(with_piece_spaces(text));
    }
  };
  add(" ");
  for (const std::string& character : alphabet) {
    // A character may be no piece by itself and yet merge.
    if (rng() % 8 == 0) {
      parts.push_back(character);
    } else {
      add(character);
    }
  }
  while (p.pieces.size() < 258 + num_pieces) {
    const std::string joined = parts[rng() % parts.size()] + parts[rng() % parts.size()];
    if (joined.size() <= 20) add(joined);
  }
  for (size_t i = 0; i < p.pieces.size(); ++i) {
    p.scores.push_back(-static_cast<float>(rng() % 12) / 2);
  }
  return p;
}

class PlainSpm {
 public:
  explicit PlainSpm(const Pieces& p) : scores_(p.scores) {
    for (uint32_t id = 0; id < p.pieces.size(); ++id) ids_[p.pieces[id]] = id;
  }

  // By the definition, on valid UTF-8: one merge at a time over the whole text.
  std::vector<uint32_t> encode(std::string_view text) const {
    const std::string escaped = with_piece_spaces(text);
    std::vector<std::string> symbols;
    for (const char c : escaped) {
      if ((static_cast<uint8_t>(c) & 0xC0) == 0x80) {
        symbols.back() += c;
      } else {
        symbols.emplace_back(1, c);
      }
    }
    for (;;) {
      size_t best = SIZE_MAX;
      float best_score = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ids_.find(symbols[i] + symbols[i + 1]);
        if (found == ids_.end()) continue;
        if (best == SIZE_MAX || scores_[found->second] > best_score) {
          best = i;
          best_score = scores_[found->second];
        }
      }
      if (best == SIZE_MAX) break;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<uint32_t> out;
    for (const std::string& symbol : symbols) {
      const auto found = ids_.find(symbol);
      if (found != ids_.end()) {
        out.push_back(found->second);
        continue;
      }
      for (const char c : symbol) out.push_back(1 + static_cast<uint8_t>(c));
    }
    return out;
  }

 private:
  std::vector<float> scores_;
  std::map<std::string, uint32_t> ids_;
};

inline cerne_status set_pieces(cerne_tokenizer* t, const Pieces& p) {
  std::string blob;
  std::vector<uint64_t> offsets{0};
  for (const std::string& piece : p.pieces) {
    blob += piece;
    offsets.push_back(blob.size());
  }
  return cerne_tokenizer_set_vocabulary(t, reinterpret_cast<const uint8_t*>(blob.data()),
                                        offsets.data(), p.pieces.size());
}

inline cerne_tokenizer* new_spm() {
  cerne_tokenizer* t = nullptr;
  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  CHECK(cerne_tokenizer_set_string(t, "model", 5, "spm", 3) == CERNE_OK);
  return t;
}

inline cerne_tokenizer* make_spm(const Pieces& p, int64_t cache_bytes) {
  cerne_tokenizer* const t = new_spm();
  CHECK(cerne_tokenizer_set_integer(t, "cache_bytes", 11, cache_bytes) == CERNE_OK);
  CHECK(set_pieces(t, p) == CERNE_OK);
  CHECK(cerne_tokenizer_set_scores(t, p.scores.data(), p.scores.size()) == CERNE_OK);
  CHECK(cerne_tokenizer_build(t) == CERNE_OK);
  return t;
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_PLAIN_SPM_H_
