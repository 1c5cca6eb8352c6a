// The two 16-bit float formats as binary32, which is exact, and the way back to binary16.
// `static`: a copy compiled for one instruction set must never serve another's callers.
#ifndef CERNE_SRC_FORMATS_HALF_H_
#define CERNE_SRC_FORMATS_HALF_H_

#include <bit>
#include <cstdint>

#include "formats/little_endian.h"

namespace cerne {

// IEEE-754 binary16. A signalling NaN becomes quiet and keeps its payload, as in hardware.
static inline float half_to_float(uint16_t half) {
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

// Rounded to nearest, ties to even, as the hardware does; too large becomes infinite, a NaN becomes
// quiet and keeps the upper part of its payload.
static inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  uint32_t half;
  if (magnitude >= 0x38800000u) {
    // Normal: move the exponent, then round the 13 bits that go; a carry moves on by itself.
    half = magnitude - 0x38000000u;
    half = (half + 0xfffu + ((half >> 13) & 1u)) >> 13;
  } else {
    // A multiple of 2^-24: the addition rounds it into the low bits of 0.5.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | half);
}

// bfloat16 is the upper half of a binary32.
static inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The scale or the minimum of a block.
static inline float load_half(const uint8_t* bytes) { return half_to_float(load<uint16_t>(bytes)); }

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_HALF_H_
