// The parts of matmul_avx2: each multiplies the panels of a range by some number of tokens.
#ifndef CERNE_SRC_KERNELS_MATMUL_PARTS_AVX2_H_
#define CERNE_SRC_KERNELS_MATMUL_PARTS_AVX2_H_

#include "kernels/matmul.h"

namespace cerne {
namespace avx2 {

inline constexpr size_t kFewTokens = 4;

// Of the panel that begins with row n. (No std::min: a copy of it made for AVX2 must not reach
// the other files.)
inline size_t rows_of_panel(const PanelRange& range, size_t n) {
  return range.end_row - n < kPanelRows ? range.end_row - n : kPanelRows;
}

// Codes, 1 .. kFewTokens tokens.
template <WeightType kType>
void multiply_few(const PanelRange& range, const Activations& x, float* output, size_t stride);

// Codes, any number of tokens.
template <WeightType kType>
void multiply_many(const PanelRange& range, const Activations& x, float* output, size_t stride);

// Floats, any number of tokens.
template <WeightType kType>
void multiply_floats(const PanelRange& range, const Activations& x, float* output, size_t stride);

}  // namespace avx2
}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_MATMUL_PARTS_AVX2_H_
