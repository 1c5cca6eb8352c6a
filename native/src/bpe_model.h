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

#include "zeroed_memory.h"

namespace cerne {

constexpr uint32_t kNoRank = UINT32_MAX;
constexpr uint32_t kNoToken = UINT32_MAX;
// Ids must leave a byte free in the entries of the pre-token cache.
constexpr uint32_t kMaxTokens = 1u << 24;

struct Merge {
  uint32_t left, right, merged;
};

// (left id, right id) -> rank of the merge. Most look-ups fail, so the table holds 4-byte slots (8
// bits of the hash and the rank) and looks at the merge itself only when those bits agree.
class PairTable {
 public:
  PairTable() : slots_(1) {}
  explicit PairTable(size_t num_pairs);

  // A pair that is there already takes the new rank; merges[rank] is the pair.
  void insert(const Merge* merges, uint32_t rank);

  uint32_t find(const Merge* merges, uint32_t left, uint32_t right) const {
    const uint64_t hash = hash_of(left, right);
    const uint32_t tag = tag_of(hash);
    for (size_t i = hash >> shift_;; ++i) {
      const uint32_t slot = slots_[i & mask_];
      if (slot == 0) return kNoRank;
      if ((slot & 0xFF) != tag) continue;
      const uint32_t rank = (slot >> 8) - 1;
      if (merges[rank].left == left && merges[rank].right == right) return rank;
    }
  }

 private:
  static uint64_t hash_of(uint32_t left, uint32_t right) {
    return (static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15ull;
  }
  // Bits that the slot's index does not use: tables have at most 2^26 slots.
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 28) & 0xFF; }

  ZeroedArray<uint32_t> slots_;  // (rank + 1) << 8 | tag; 0 is empty
  size_t mask_ = 0;
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
  std::vector<Merge> merges_;  // by rank
};

}  // namespace cerne

#endif  // CERNE_SRC_BPE_MODEL_H_
