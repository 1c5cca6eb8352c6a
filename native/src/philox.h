// Random numbers that are a pure function of a counter and a key: docs/sampling.md, "The draw".
#ifndef CERNE_SRC_PHILOX_H_
#define CERNE_SRC_PHILOX_H_

#include <array>
#include <cstdint>

namespace cerne {

// Philox4x32-10 of Salmon et al. (2011); words are least significant first.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product_0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t product_1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(product_1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(product_1),
         static_cast<uint32_t>(product_0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(product_0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// In [0, 1), with 53 random bits.
inline double uniform(uint64_t seed, uint32_t choice, uint64_t position) {
  const auto words = philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0}, seed);
  return ((words[0] >> 5) * 67108864.0 + (words[1] >> 6)) / 9007199254740992.0;
}

}  // namespace cerne

#endif  // CERNE_SRC_PHILOX_H_
