// Panels of floats times any number of tokens. One result is one chain of fused additions, which
// wait for each other: several panels or tokens at once keep the units busy.
#if defined(__AVX2__)
#include <immintrin.h>

#include <cstring>

#include "kernels/matmul_parts_avx2.h"

namespace cerne {
namespace avx2 {
namespace {

template <WeightType kType>
__m256 load_weights(const uint8_t* column, int half) {
  if constexpr (kType == WeightType::kF32) {
    return _mm256_load_ps(reinterpret_cast<const float*>(column) + 8 * half);
  }
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(column) + half);
  if constexpr (kType == WeightType::kF16) return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// kPanels panels times kTokens tokens; the panel of the last rows may be cut.
template <WeightType kType, int kPanels, int kTokens>
void multiply_tile(const PanelRange& range, size_t row, const Activations& x, size_t token,
                   float* output, size_t stride) {
  constexpr size_t kColumnBytes = layout_of(kType).step_bytes();
  const uint8_t* const panels =
      range.panels + (row - range.first_row) / kPanelRows * range.panel_bytes;
  const float* const values = x.values + token * x.width;
  __m256 sums[kPanels][kTokens][2];
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) sums[p][t][0] = sums[p][t][1] = _mm256_setzero_ps();
  }
  for (size_t k = 0; k < x.width; ++k) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const uint8_t* const column = panels + p * range.panel_bytes + k * kColumnBytes;
      const __m256 low = load_weights<kType>(column, 0);
      const __m256 high = load_weights<kType>(column, 1);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const __m256 value = _mm256_set1_ps(values[t * x.width + k]);
        sums[p][t][0] = _mm256_fmadd_ps(low, value, sums[p][t][0]);
        sums[p][t][1] = _mm256_fmadd_ps(high, value, sums[p][t][1]);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    const size_t n = row + p * kPanelRows;
    for (int t = 0; t < kTokens; ++t) {
      alignas(32) float all[kPanelRows];
      _mm256_store_ps(all, sums[p][t][0]);
      _mm256_store_ps(all + 8, sums[p][t][1]);
      std::memcpy(output + (token + t) * stride + n, all, rows_of_panel(range, n) * sizeof(float));
    }
  }
}

// Some tokens at all panels, kPanels at a time, the rest in smaller tiles.
template <WeightType kType, int kPanels, int kTokens>
void multiply_rows(const PanelRange& range, size_t row, const Activations& x, size_t token,
                   float* output, size_t stride) {
  for (; row + (kPanels - 1) * kPanelRows < range.end_row; row += kPanels * kPanelRows) {
    multiply_tile<kType, kPanels, kTokens>(range, row, x, token, output, stride);
  }
  if constexpr (kPanels > 1) {
    multiply_rows<kType, kPanels / 2, kTokens>(range, row, x, token, output, stride);
  }
}

}  // namespace

template <WeightType kType>
void multiply_floats(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  constexpr size_t kTile = 6;
  switch (x.tokens) {
    case 0:
      return;
    case 1:
      return multiply_rows<kType, 4, 1>(range, range.first_row, x, 0, output, stride);
    case 2:
      return multiply_rows<kType, 2, 2>(range, range.first_row, x, 0, output, stride);
    case 3:
      return multiply_rows<kType, 2, 3>(range, range.first_row, x, 0, output, stride);
    default:
      break;
  }
  // Panel by panel, so that its weights come from a cache for all tokens but the first ones.
  for (size_t row = range.first_row; row < range.end_row; row += kPanelRows) {
    size_t token = 0;
    // The last tile steps back over tokens already done rather than being a small one.
    for (; token + kTile <= x.tokens; token += kTile) {
      multiply_tile<kType, 1, 6>(range, row, x, token, output, stride);
    }
    if (token == x.tokens) continue;
    if (x.tokens >= kTile) {
      multiply_tile<kType, 1, 6>(range, row, x, x.tokens - kTile, output, stride);
    } else if (x.tokens == 5) {
      multiply_tile<kType, 1, 5>(range, row, x, 0, output, stride);
    } else {
      multiply_tile<kType, 1, 4>(range, row, x, 0, output, stride);
    }
  }
}

template void multiply_floats<WeightType::kF32>(const PanelRange&, const Activations&, float*,
                                                size_t);
template void multiply_floats<WeightType::kF16>(const PanelRange&, const Activations&, float*,
                                                size_t);
template void multiply_floats<WeightType::kBf16>(const PanelRange&, const Activations&, float*,
                                                 size_t);

}  // namespace avx2
}  // namespace cerne

#endif
