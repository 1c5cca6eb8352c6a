// Pre-token -> ids, in memory that never grows. Two tables by length; a table that is half full
// forgets everything and begins anew. Not thread-safe: each running thread has its own.
#ifndef CERNE_SRC_PRETOKEN_CACHE_H_
#define CERNE_SRC_PRETOKEN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hash.h"
#include "zeroed_memory.h"

namespace cerne {

// A pre-token of at most 8 * kWords - 1 bytes, zero-padded, its length in the last byte.
template <int kWords>
struct PretokenKey {
  uint64_t word[kWords];

  static constexpr size_t kMaxSize = 8 * kWords - 1;

  bool operator==(const PretokenKey& other) const {
    uint64_t difference = 0;
    for (int i = 0; i < kWords; ++i) difference |= word[i] ^ other.word[i];
    return difference == 0;
  }
  uint64_t hash() const {
    uint64_t h = hash_pair(word[0], word[1]);
    for (int i = 2; i < kWords; ++i) h = hash_pair(h, word[i]);
    return h;
  }
};

// Loads the key of bytes p[0 .. size); `readable` bytes may be touched from p on.
template <int kWords>
PretokenKey<kWords> make_key(const uint8_t* p, size_t size, size_t readable) {
  PretokenKey<kWords> key;
  if (kWords == 2 && readable >= 16) {
    uint64_t low, high;
    std::memcpy(&low, p, 8);
    std::memcpy(&high, p + 8, 8);
    // Shift counts stay below 64: size 0 does not occur and the top byte is the length.
    const uint64_t low_bits = size >= 8 ? 64 : 8 * size;
    const uint64_t high_bits = size >= 8 ? 8 * (size - 8) : 0;
    key.word[0] = low & (~uint64_t{0} >> (64 - low_bits));
    key.word[1] = (high & ((uint64_t{1} << high_bits) - 1)) | static_cast<uint64_t>(size) << 56;
    return key;
  }
  uint8_t padded[8 * kWords] = {};
  std::memcpy(padded, p, size);
  padded[8 * kWords - 1] = static_cast<uint8_t>(size);
  std::memcpy(key.word, padded, sizeof(padded));
  return key;
}

// One table. An entry holds up to kIds ids, the number of them in the top byte of the first.
template <int kWords, int kIds>
class CacheTable {
 public:
  using Key = PretokenKey<kWords>;
  struct Entry {
    Key key;
    uint32_t ids[kIds];

    uint32_t count() const { return ids[0] >> 24; }  // 0: empty

    // Copies the ids to `out` and returns their number. Copies whole vectors where ids_end allows.
    uint32_t copy_ids(uint32_t* out, const uint32_t* ids_end) const {
      const uint32_t first = ids[0];
      const uint32_t num_ids = first >> 24;
      if (ids_end - out >= kIds) {
        std::memcpy(out, ids, sizeof(ids));
      } else {
        for (uint32_t i = 0; i < num_ids; ++i) out[i] = ids[i];
      }
      out[0] = first & 0xFFFFFF;
      return num_ids;
    }
  };

  explicit CacheTable(size_t bytes) {
    size_t pairs = 1;
    while (2 * pairs * sizeof(Pair) <= bytes) pairs *= 2;
    mask_ = pairs - 1;
    pairs_ = ZeroedArray<Pair>(pairs);
  }

  size_t capacity() const { return mask_ + 1; }  // entries that are kept: half of the slots

  // Where the search for a key of this hash begins.
  const void* line_of(uint64_t hash) const { return &pairs_[hash & mask_]; }

  const Entry* find(uint64_t hash, const Key& key) const {
    for (size_t i = hash;; ++i) {
      const Pair& pair = pairs_[i & mask_];
      if (pair.entry[0].key == key) return &pair.entry[0];
      if (pair.entry[1].key == key) return &pair.entry[1];
      if (pair.entry[1].count() == 0) return nullptr;
    }
  }

  // Keeps a key that is not there, unless it has no or too many ids. True when the table was
  // emptied.
  bool insert(uint64_t hash, const Key& key, const uint32_t* ids, size_t count) {
    if (count == 0 || count > static_cast<size_t>(kIds)) return false;
    const bool full = num_entries_ == capacity();
    if (full) {
      std::memset(static_cast<void*>(pairs_.data()), 0, (mask_ + 1) * sizeof(Pair));
      num_entries_ = 0;
    }
    ++num_entries_;
    for (size_t i = hash;; ++i) {
      for (Entry& entry : pairs_[i & mask_].entry) {
        if (entry.count() != 0) continue;
        entry.key = key;
        std::memcpy(entry.ids, ids, count * sizeof(uint32_t));
        entry.ids[0] |= static_cast<uint32_t>(count) << 24;
        return full;
      }
    }
  }

 private:
  // Two short entries share a cache line.
  struct Pair {
    Entry entry[2];
  };

  ZeroedArray<Pair> pairs_;
  size_t mask_ = 0;
  size_t num_entries_ = 0;
};

struct PretokenCache {
  using Short = CacheTable<2, 4>;  // 32-byte entries: up to 15 bytes, 4 ids
  using Long = CacheTable<6, 20>;  // 128-byte entries: up to 47 bytes, 20 ids

  explicit PretokenCache(size_t bytes) : small(bytes / 2), large(bytes / 4) {}

  Short small;
  Long large;
};

}  // namespace cerne

#endif  // CERNE_SRC_PRETOKEN_CACHE_H_
