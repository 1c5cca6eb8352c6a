// The functions of docs/arithmetic.md, section 6, one operation at a time: their definition.
// `static`: a copy compiled for one instruction set must never serve another's callers.
#ifndef CERNE_SRC_KERNELS_MATH_H_
#define CERNE_SRC_KERNELS_MATH_H_

#include <bit>
#include <cstdint>
#include <limits>

namespace cerne {

// Constants that the kernels of every instruction set share.
namespace exp32 {
inline constexpr float kOverflow = 88.5f;
inline constexpr float kUnderflow = -87.0f;
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
inline constexpr float kLn2High = 0.693145752f;
inline constexpr float kLn2Low = 1.42860677e-6f;
inline constexpr float kSeries[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                    4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
}  // namespace exp32

namespace gelu32 {
inline constexpr float kScale = 0.797884583f;
inline constexpr float kCube = 0.0447150011f;
}  // namespace gelu32

// 2^n for n in -126 .. 127.
static inline float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

static inline float exp(float x) {
  if (x > exp32::kOverflow) return std::numeric_limits<float>::infinity();
  if (x < exp32::kUnderflow) return 0.0f;
  if (x != x) return x;
  const float n = (x * exp32::kLog2E + exp32::kRounder) - exp32::kRounder;
  const float r = (x - n * exp32::kLn2High) - n * exp32::kLn2Low;
  float p = exp32::kSeries[0];
  for (int i = 1; i < 6; ++i) p = p * r + exp32::kSeries[i];
  p = ((p * r) * r + r) + 1.0f;
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  return (p * power_of_two(half)) * power_of_two(whole - half);
}

static inline float silu(float x) { return x / (1.0f + exp(-x)); }

static inline float gelu(float x) {
  const float u = gelu32::kScale * (x + gelu32::kCube * ((x * x) * x));
  return x / (1.0f + exp(-2.0f * u));
}

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_MATH_H_
