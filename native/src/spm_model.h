// A SentencePiece vocabulary of the BPE kind: pieces with scores, no list of merges. Of all
// neighbours whose joined text is a piece the pair of highest score merges first, the leftmost of
// equals; what is no piece in the end becomes one byte token per byte. A space is U+2581 in pieces.
#ifndef CERNE_SRC_SPM_MODEL_H_
#define CERNE_SRC_SPM_MODEL_H_

#include "token_model.h"

namespace cerne {

class SpmModel final : public TokenModel {
 public:
  // Pieces as they are in the file: piece i is bytes[offsets[i] .. offsets[i + 1]). "<0xAB>" is the
  // token of byte 0xAB, which text never becomes by its name; an empty piece is a special token.
  // Throws Error when a byte or the space has no token, or a piece occurs twice.
  void set_vocabulary(const uint8_t* bytes, const uint64_t* offsets, size_t num_tokens);
  // One score for each token. Throws Error for another number of them or a score that is NaN.
  void set_scores(const float* scores, size_t num_scores);
  bool has_scores() const { return !scores_.empty(); }

  size_t num_tokens() const override { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  std::string_view token(uint32_t id) const override {
    return {text_.data() + offsets_[id], static_cast<size_t>(offsets_[id + 1] - offsets_[id])};
  }
  size_t find_ends(const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                   size_t capacity) const override;
  size_t encode_word(const uint8_t* word, size_t size, uint32_t* out,
                     MergeScratch& scratch) const override;
  // A piece is mostly what its bytes encode to, but trying all of them takes a while.
  bool words_are_tokens() const override { return false; }

 private:
  static constexpr uint32_t kShortWord = 32;

  // The slot that holds the piece, or the empty one where it would go.
  size_t slot_of(std::string_view piece) const;
  uint32_t find_piece(const uint8_t* text, size_t size) const {
    if (size > max_piece_) return kNoToken;
    return slots_[slot_of({reinterpret_cast<const char*>(text), size})];
  }
  uint32_t merge_short(const uint8_t* text, MergeScratch& scratch, uint32_t num_symbols) const;
  uint32_t merge_long(const uint8_t* text, MergeScratch& scratch, uint32_t num_symbols) const;

  std::vector<char> text_;  // what tokens decode to
  std::vector<uint64_t> offsets_;
  std::vector<float> scores_;
  std::vector<uint32_t> slots_;  // open addressing, at most half full; kNoToken is empty
  size_t max_piece_ = 0;
  uint32_t byte_ids_[256] = {};
  // A word may not end behind this byte: some piece has it before a space.
  bool joins_space_[256] = {};
};

}  // namespace cerne

#endif  // CERNE_SRC_SPM_MODEL_H_
