// A byte-level BPE vocabulary with its merges, and the merging of one pre-token. Immutable after
// construction, so any number of threads may read it.
#ifndef CERNE_SRC_BPE_MODEL_H_
#define CERNE_SRC_BPE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pretokenize.h"
#include "token_model.h"
#include "zeroed_memory.h"

namespace cerne {

constexpr uint32_t kNoRank = UINT32_MAX;

// (left id, right id) -> rank of the merge, laid out for the near caches: a bit per hash answers
// most of the look-ups that fail, and the early merges, which most words need, have a small table.
class PairTable {
 public:
  PairTable() : PairTable(0) {}
  explicit PairTable(size_t num_pairs);

  // A pair that is there already takes the new rank.
  void insert(uint32_t left, uint32_t right, uint32_t rank);

  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    const uint64_t hash = key * kMultiplier;
    if ((bits_[hash >> bit_shift_] >> ((hash >> 24) & 63) & 1) == 0) return kNoRank;
    uint64_t slot = early_.slot_of(key, hash);
    if (slot == 0) slot = late_.slot_of(key, hash);
    // An empty slot gives 0 - 1, which is kNoRank.
    return static_cast<uint32_t>(slot & kRankMask) - 1;
  }

 private:
  static constexpr int kIdBits = 21;
  static constexpr int kRankBits = 64 - 2 * kIdBits;
  static constexpr uint64_t kRankMask = (uint64_t{1} << kRankBits) - 1;
  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  static constexpr size_t kNumEarly = 8192;
  // kNoToken beside any id is then no pair that could be there.
  static_assert(kMaxTokens < uint32_t{1} << kIdBits);

  static uint64_t key_of(uint32_t left, uint32_t right) {
    return static_cast<uint64_t>(left) << kIdBits | right;
  }

  // Open addressing with linear probing, at most two thirds full.
  struct Slots {
    explicit Slots(size_t num_pairs);

    // The slot that holds the key, or the empty one where it would go.
    uint64_t& slot_of(uint64_t key, uint64_t hash) const {
      for (size_t i = hash >> shift;; ++i) {
        uint64_t& slot = values.data()[i & mask];
        if (slot >> kRankBits == key || slot == 0) return slot;
      }
    }

    ZeroedArray<uint64_t> values;  // key << 22 | (rank + 1); 0 is empty
    size_t mask;
    int shift;
  };

  Slots early_, late_;
  ZeroedArray<uint64_t> bits_;  // at most one bit in eight is set
  int bit_shift_ = 63;
};

class BpeModel final : public TokenModel {
 public:
  // Throws Error when there is no token, a token occurs twice or an offset is out of order. Bytes
  // that have no token are left out of every encoding, and nothing merges across them.
  void set_vocabulary(const uint8_t* bytes, const uint64_t* offsets, size_t num_tokens);
  // Throws Error when an id is unknown or the joined bytes are no token.
  void set_merges(const uint32_t* pairs, size_t num_merges);
  // ignore_merges: a pre-token that is a whole token is emitted as it is.
  void set_rules(Pattern pattern, bool ignore_merges) {
    pattern_ = pattern;
    ignore_merges_ = ignore_merges;
  }

  size_t num_tokens() const override { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  std::string_view token(uint32_t id) const override {
    return {blob_.data() + offsets_[id], static_cast<size_t>(offsets_[id + 1] - offsets_[id])};
  }
  // The id of a whole token, or kNoToken.
  uint32_t find_token(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found == ids_.end() ? kNoToken : found->second;
  }

  size_t find_ends(const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                   size_t capacity) const override {
    return cerne::find_ends(pattern_, p, end, ends, capacity);
  }
  size_t encode_word(const uint8_t* word, size_t size, uint32_t* out,
                     MergeScratch& scratch) const override;
  bool words_are_tokens() const override { return true; }

 private:
  static constexpr size_t kShortWord = 48;

  // By the merges alone: the pair of lowest rank first, the leftmost of equals.
  size_t merge(const uint8_t* word, size_t size, uint32_t* out, MergeScratch& scratch) const;

  uint32_t merged_id(uint32_t rank) const {
    return merged_follow_ ? merged_[0] + rank : merged_[rank];
  }
  size_t merge_short(const uint8_t* word, size_t size, uint32_t* out) const;
  // Encodes `size` times the same byte; 0 when the order of merges needs the general way.
  size_t merge_run(uint8_t byte, size_t size, uint32_t* out) const;
  size_t merge_long(const uint8_t* word, size_t size, uint32_t* out, MergeScratch& scratch) const;

  std::vector<char> blob_;
  std::vector<uint64_t> offsets_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  Pattern pattern_ = Pattern::kGpt2;
  bool ignore_merges_ = false;
  bool lacks_bytes_ = false;
  uint32_t byte_ids_[256] = {};
  std::vector<uint32_t> byte_pair_rank_;  // [256 * 256], rank of two single bytes
  PairTable pairs_;
  std::vector<uint32_t> merged_;  // rank -> id
  bool merged_follow_ = false;  // merged_[rank] == merged_[0] + rank, as most vocabularies have it
};

}  // namespace cerne

#endif  // CERNE_SRC_BPE_MODEL_H_
