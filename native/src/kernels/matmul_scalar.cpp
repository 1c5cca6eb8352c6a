#include <algorithm>
#include <cmath>

#include "cpu.h"
#include "kernels/matmul.h"

namespace cerne {
namespace {

// Tokens that share one reading of the weights.
constexpr size_t kTokens = 32;

struct Sums {
  float acc[kTokens][kPanelRows];
  float low[kTokens][kPanelRows];
};

void add_block(const RowBlock* w, const Activations& x, size_t first_token, size_t tokens,
               size_t block, Sums* sums) {
  for (size_t i = 0; i < tokens; ++i) {
    const size_t t = first_token + i;
    const int8_t* const codes = x.codes + t * x.width + 32 * block;
    const float dx = x.scales[t * (x.width / 32) + block];
    const float sx = x.scaled_sums[t * (x.width / 32) + block];
    for (size_t lane = 0; lane < kPanelRows; ++lane) {
      int halves[2] = {};
      for (size_t k = 0; k < 32; ++k) halves[k / 16] += w[lane].codes[k] * codes[k];
      const int isum = w[lane].scales[0] * halves[0] + w[lane].scales[1] * halves[1];
      float& acc = sums->acc[i][lane];
      float& low = sums->low[i][lane];
      acc = acc + (w[lane].d * dx) * static_cast<float>(isum);
      low = low + w[lane].m * sx;
    }
  }
}

void add_column(const float* w, const Activations& x, size_t first_token, size_t tokens, size_t k,
                Sums* sums) {
  for (size_t i = 0; i < tokens; ++i) {
    const float value = x.values[(first_token + i) * x.width + k];
    for (size_t lane = 0; lane < kPanelRows; ++lane) {
      sums->acc[i][lane] = std::fma(w[lane], value, sums->acc[i][lane]);
    }
  }
}

void sum_panel(const PanelLayout& layout, const uint8_t* panel, const Activations& x,
               size_t first_token, size_t tokens, Sums* sums) {
  if (layout.is_float()) {
    for (size_t k = 0; k < x.width; ++k) {
      float weights[kPanelRows];
      for (size_t i = 0; i < kPanelRows; ++i) weights[i] = read_float(layout, panel, k, i);
      add_column(weights, x, first_token, tokens, k, sums);
    }
    return;
  }
  for (size_t block = 0; block < x.width / 32; ++block) {
    RowBlock weights[kPanelRows];
    for (size_t i = 0; i < kPanelRows; ++i) weights[i] = read_row_block(layout, panel, block, i);
    add_block(weights, x, first_token, tokens, block, sums);
  }
}

}  // namespace

void matmul_scalar(const PanelLayout& layout, const PanelRange& range, const Activations& x,
                   float* output, size_t stride) {
  const uint8_t* panel = range.panels;
  for (size_t n = range.first_row; n < range.end_row; n += kPanelRows) {
    const size_t rows = std::min(kPanelRows, range.end_row - n);
    for (size_t first = 0; first < x.tokens; first += kTokens) {
      const size_t tokens = std::min(kTokens, x.tokens - first);
      Sums sums = {};
      sum_panel(layout, panel, x, first, tokens, &sums);
      for (size_t i = 0; i < tokens; ++i) {
        for (size_t row = 0; row < rows; ++row) {
          const float acc = sums.acc[i][row];
          output[(first + i) * stride + n + row] = layout.minimum ? acc + sums.low[i][row] : acc;
        }
      }
    }
    panel += range.panel_bytes;
  }
}

void matmul(const PanelLayout& layout, const PanelRange& range, const Activations& x, float* output,
            size_t stride) {
#if defined(__x86_64__)
  if (isa() == Isa::kAvx2) return matmul_avx2(layout, range, x, output, stride);
#endif
  matmul_scalar(layout, range, x, output, stride);
}

}  // namespace cerne
