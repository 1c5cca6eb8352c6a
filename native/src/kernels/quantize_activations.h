// Activations as 8-bit codes in blocks of 32, section 2 of docs/arithmetic.md.
#ifndef CERNE_SRC_KERNELS_QUANTIZE_ACTIVATIONS_H_
#define CERNE_SRC_KERNELS_QUANTIZE_ACTIVATIONS_H_

#include <cstddef>
#include <cstdint>

namespace cerne {

// Values that share a scale.
inline constexpr size_t kActivationBlock = 32;

// `width` values, a multiple of 32, become `width` codes and width / 32 scales, sums of the codes
// and sums times their scale.
void quantize_activations(const float* values, size_t width, int8_t* codes, float* scales,
                          int32_t* sums, float* scaled_sums);

// The same on each instruction set.
void quantize_activations_scalar(const float* values, size_t width, int8_t* codes, float* scales,
                                 int32_t* sums, float* scaled_sums);
void quantize_activations_avx2(const float* values, size_t width, int8_t* codes, float* scales,
                               int32_t* sums, float* scaled_sums);

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_QUANTIZE_ACTIVATIONS_H_
