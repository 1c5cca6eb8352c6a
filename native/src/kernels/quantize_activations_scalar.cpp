#include <algorithm>
#include <bit>

#include "cpu.h"
#include "kernels/quantize_activations.h"

namespace cerne {

void quantize_activations_scalar(const float* values, size_t width, int8_t* codes, float* scales,
                                 int32_t* sums, float* scaled_sums) {
  constexpr uint32_t kSmallest = std::bit_cast<uint32_t>(0x1p-100f);
  constexpr uint32_t kInfinity = 0x7f800000u;
  // Adding it rounds a small number to the nearest integer, ties to even.
  constexpr float kRounder = 0x1.8p23f;
  for (size_t block = 0; block < width / kActivationBlock; ++block) {
    const float* const x = values + block * kActivationBlock;
    int8_t* const q = codes + block * kActivationBlock;
    uint32_t largest = 0;
    for (size_t i = 0; i < kActivationBlock; ++i) {
      largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
    }
    int32_t sum = 0;
    if (largest >= kInfinity || largest < kSmallest) {
      for (size_t i = 0; i < kActivationBlock; ++i) q[i] = 0;
      scales[block] = largest >= kInfinity ? std::bit_cast<float>(0x7fc00000u) : 0.0f;
    } else {
      const float a = std::bit_cast<float>(largest);
      const float r = 127.0f / a;
      for (size_t i = 0; i < kActivationBlock; ++i) {
        q[i] = static_cast<int8_t>((x[i] * r + kRounder) - kRounder);
        sum += q[i];
      }
      scales[block] = a / 127.0f;
    }
    sums[block] = sum;
    scaled_sums[block] = scales[block] * static_cast<float>(sum);
  }
}

void quantize_activations(const float* values, size_t width, int8_t* codes, float* scales,
                          int32_t* sums, float* scaled_sums) {
#if defined(__x86_64__)
  if (isa() == Isa::kAvx2) {
    return quantize_activations_avx2(values, width, codes, scales, sums, scaled_sums);
  }
#endif
  quantize_activations_scalar(values, width, codes, scales, sums, scaled_sums);
}

}  // namespace cerne
