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

#include "hash.h"

namespace cerne {

constexpr uint32_t kNoRank = UINT32_MAX;
constexpr uint32_t kNoToken = UINT32_MAX;
// Ids must leave a byte free in the entries of the pre-token cache.
constexpr uint32_t kMaxTokens = 1u << 24;

// (left id, right id) -> rank of the merge. Open addressing, linear probing, at most half full.
class PairTable {
 public:
  PairTable() : slots_(2) {}
  explicit PairTable(size_t num_pairs);

  // A pair that is there already takes the new rank.
  void insert(uint32_t left, uint32_t right, uint32_t rank);

  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(key);; ++i) {
      const Slot& slot = slots_[i & mask_];
      if (slot.key == key) return slot.rank;
      if (slot.key == kEmpty) return kNoRank;
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no key: ids are < 2^24
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = kNoRank;
  };

  static uint64_t key_of(uint32_t left, uint32_t right) {
    return static_cast<uint64_t>(left) << 32 | right;
  }
  size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  std::vector<Slot> slots_;
  size_t mask_ = 1;
  int shift_ = 63;
};

// Buffers of the long-word path, kept between calls.
struct MergeScratch {
  std::vector<uint32_t> ids, rank, next, previous;
  std::vector<uint32_t> bucket_of_rank;
  std::vector<std::vector<uint32_t>> buckets;
};

class BpeModel {
 public:
  // Throws Error when a byte has no token, a token occurs twice or an offset is out of order.
  void set_vocabulary(const uint8_t* bytes, const uint64_t* offsets, size_t num_tokens);
  // Throws Error when an id is unknown or the joined bytes are no token.
  void set_merges(const uint32_t* pairs, size_t num_merges);

  size_t num_tokens() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  std::string_view token(uint32_t id) const {
    return {blob_.data() + offsets_[id], static_cast<size_t>(offsets_[id + 1] - offsets_[id])};
  }
  // The id of a whole token, or kNoToken.
  uint32_t find_token(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found == ids_.end() ? kNoToken : found->second;
  }

  // Encodes one pre-token of `size` >= 1 bytes by its merges alone: the pair of lowest rank first,
  // the leftmost of equals. `out` has room for `size` ids; the number of ids is returned.
  size_t merge(const uint8_t* word, size_t size, uint32_t* out, MergeScratch& scratch) const;

 private:
  static constexpr size_t kShortWord = 48;

  size_t merge_short(const uint8_t* word, size_t size, uint32_t* out) const;
  size_t merge_long(const uint8_t* word, size_t size, uint32_t* out, MergeScratch& scratch) const;

  std::string blob_;
  std::vector<uint64_t> offsets_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  uint32_t byte_ids_[256] = {};
  std::vector<uint32_t> byte_pair_rank_;  // [256 * 256], rank of two single bytes
  PairTable pairs_;
  std::vector<uint32_t> merged_;  // rank -> id
};

}  // namespace cerne

#endif  // CERNE_SRC_BPE_MODEL_H_
