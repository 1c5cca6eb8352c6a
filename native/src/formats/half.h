// The two 16-bit float formats as binary32; both conversions are exact.
#ifndef CERNE_SRC_FORMATS_HALF_H_
#define CERNE_SRC_FORMATS_HALF_H_

#include <bit>
#include <cstdint>

#include "formats/little_endian.h"

namespace cerne {

// IEEE-754 binary16. A signalling NaN becomes quiet and keeps its payload, as in hardware.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t fraction = half & 1023;
  if (exponent == 0) {
    // Zero or a denormal: a multiple of 2^-24, which is a normal number in binary32.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// bfloat16 is the upper half of a binary32.
inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The scale or the minimum of a block.
inline float load_half(const uint8_t* bytes) { return half_to_float(load<uint16_t>(bytes)); }

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_HALF_H_
