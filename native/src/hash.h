// Fast non-cryptographic hashes of fixed-size keys (multiply-fold, as in wyhash).
#ifndef CERNE_SRC_HASH_H_
#define CERNE_SRC_HASH_H_

#include <cstdint>

namespace cerne {

// __extension__: ISO C++ has no 128-bit integer, every compiler we target has.
__extension__ typedef unsigned __int128 uint128;

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const uint128 product = static_cast<uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_pair(uint64_t a, uint64_t b) {
  return fold_multiply(a ^ 0x2d358dccaa6c78a5ull, b ^ 0x8bb84b93962eacc9ull);
}

}  // namespace cerne

#endif  // CERNE_SRC_HASH_H_
