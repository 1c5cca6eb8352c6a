// Products of a weight matrix in panels (panel_layout.h) with the vectors of some tokens, for each
// instruction set. docs/arithmetic.md, sections 3 and 4, defines every result.
#ifndef CERNE_SRC_KERNELS_MATMUL_H_
#define CERNE_SRC_KERNELS_MATMUL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/panel_layout.h"

namespace cerne {

// Vectors of `width` values, one for each token, and what quantize_activations makes of them.
// Matrices of floats read `values` alone, the others everything else.
struct Activations {
  size_t tokens;             // T
  size_t width;              // K
  const float* values;       // [T][K]
  const int8_t* codes;       // [T][K]
  const float* scales;       // [T][K / 32]
  const int32_t* sums;       // [T][K / 32]
  const float* scaled_sums;  // [T][K / 32]
};

// Some panels of a matrix: rows first_row .. end_row - 1, of which the first begins a panel.
struct PanelRange {
  const uint8_t* panels;  // the first of them
  size_t panel_bytes;
  size_t first_row;
  size_t end_row;
};

// output[t * stride + n] for every token t and row n of the range.
void matmul(const PanelLayout& layout, const PanelRange& range, const Activations& x, float* output,
            size_t stride);

// The same on each instruction set.
void matmul_scalar(const PanelLayout& layout, const PanelRange& range, const Activations& x,
                   float* output, size_t stride);
void matmul_avx2(const PanelLayout& layout, const PanelRange& range, const Activations& x,
                 float* output, size_t stride);

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_MATMUL_H_
