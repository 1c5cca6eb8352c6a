// Panels of codes times up to four tokens: the weights are read once, as they are stored. Several
// panels go side by side, since memory gives more to several streams than to one.
#if defined(__AVX2__)
#include "kernels/matmul_codes_avx2.h"
#include "kernels/matmul_parts_avx2.h"

namespace cerne {
namespace avx2 {
namespace {

constexpr size_t kPanels = 4;  // side by side

// Activations of some tokens at one block.
struct BlockActivations {
  const int8_t* codes;  // of token t: + t * width
  size_t width;
  const float* scales;  // of token t: + t * blocks, as those below
  const int32_t* sums;
  const float* scaled_sums;
  size_t blocks;
};

// Adds one block of one panel to acc and low of section 3, [token][half].
template <WeightType kType, int kTokens>
__attribute__((always_inline)) inline void add_block(const uint8_t* step, const uint8_t* header,
                                                     const BlockActivations& x,
                                                     const int32_t (*bias)[2], __m256 (*acc)[2],
                                                     __m256 (*low)[2]) {
  constexpr PanelLayout kLayout = layout_of(kType);
  constexpr int kBits = code_bits(kType);
  const PackedCodes<kType> packed = {header + kLayout.block_header_bytes};
  PairScales pairs{};
  if constexpr (kBits == 6) pairs = pair_scales(header);
  __m256i sums[kTokens][2];
  const BlockInput in = {x.codes, x.width, bias[0], 2};
  block_sums<kBits, kTokens>(packed, in, &pairs, sums);
  __m256 dw[2], m[2];
  block_scales<kType>(step, header, dw, m);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i isum = without_offset<late_offset(kType)>(sums[t][half], x.sums[t * x.blocks]);
      acc[t][half] = add_scaled(acc[t][half], dw[half], x.scales[t * x.blocks], isum);
      if constexpr (kLayout.minimum) {
        const __m256 sx = _mm256_set1_ps(x.scaled_sums[t * x.blocks]);
        low[t][half] = _mm256_add_ps(low[t][half], _mm256_mul_ps(m[half], sx));
      }
    }
  }
}

// Asks for a block of the panels that come next; past the last one it asks for nothing that is
// read, which is allowed. Worth a tenth and more when short panels come from memory, where the
// hardware begins anew at each; 8-bit codes arrive too fast for it to pay.
template <WeightType kType>
__attribute__((always_inline)) inline void prefetch_block(const uint8_t* header) {
  constexpr int kLines = layout_of(kType).bits == 8 ? 0 : layout_of(kType).block_bytes() / 64 + 1;
#pragma GCC unroll 8
  for (int i = 0; i < kLines; ++i) {
    _mm_prefetch(reinterpret_cast<const char*>(header + 64 * i), _MM_HINT_T0);
  }
}

// acc + low of up to kPanels panels, `panel_bytes` apart, [panel][token][half].
template <WeightType kType, int kTokens>
void multiply_panels(const uint8_t* panels, size_t count, size_t panel_bytes, const Activations& x,
                     __m256 (*acc)[kTokens][2]) {
  constexpr PanelLayout kLayout = layout_of(kType);
  constexpr size_t kStepBytes = kLayout.step_bytes();
  constexpr size_t kBlockBytes = kLayout.block_bytes();
  BlockActivations at = {x.codes, x.width, x.scales, x.sums, x.scaled_sums, x.width / 32};
  __m256 low[kPanels][kTokens][2];
  for (size_t p = 0; p < count; ++p) {
    for (int t = 0; t < kTokens; ++t) {
      acc[p][t][0] = acc[p][t][1] = low[p][t][0] = low[p][t][1] = _mm256_setzero_ps();
    }
  }
  const uint8_t* step = panels;
  for (size_t column = 0; column < x.width; column += kLayout.columns) {
    const uint8_t* header = step + kLayout.header_bytes;
    for (size_t block = 0; block < kLayout.columns; block += 32) {
      int32_t bias[kTokens][2];
      if constexpr (kLayout.bits == 6) {
        for (int t = 0; t < kTokens; ++t) sixth_bit_bias(at.codes + t * x.width, bias[t]);
      }
#pragma GCC unroll 1
      for (size_t p = 0; p < count; ++p) {
        const size_t offset = p * panel_bytes;
        prefetch_block<kType>(header + offset + count * panel_bytes);
        add_block<kType, kTokens>(step + offset, header + offset, at, bias, acc[p], low[p]);
      }
      header += kBlockBytes;
      at.codes += 32;
      ++at.scales;
      ++at.sums;
      ++at.scaled_sums;
    }
    step += kStepBytes;
  }
  if constexpr (!kLayout.minimum) return;
  for (size_t p = 0; p < count; ++p) {
    for (int t = 0; t < kTokens; ++t) {
      for (int half = 0; half < 2; ++half) {
        acc[p][t][half] = _mm256_add_ps(acc[p][t][half], low[p][t][half]);
      }
    }
  }
}

template <WeightType kType, int kTokens>
void multiply_tokens(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  const uint8_t* panels = range.panels;
  for (size_t row = range.first_row; row < range.end_row; row += kPanels * kPanelRows) {
    const size_t left = (range.end_row - row + kPanelRows - 1) / kPanelRows;
    const size_t count = left < kPanels ? left : kPanels;
    __m256 acc[kPanels][kTokens][2];
    multiply_panels<kType, kTokens>(panels, count, range.panel_bytes, x, acc);
    for (size_t p = 0; p < count; ++p) {
      const size_t n = row + p * kPanelRows;
      const size_t rows = rows_of_panel(range, n);
      for (int t = 0; t < kTokens; ++t) store_rows(acc[p][t], rows, output + t * stride + n);
    }
    panels += count * range.panel_bytes;
  }
}

}  // namespace

template <WeightType kType>
void multiply_few(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  switch (x.tokens) {
    case 0:
      return;
    case 1:
      return multiply_tokens<kType, 1>(range, x, output, stride);
    case 2:
      return multiply_tokens<kType, 2>(range, x, output, stride);
    case 3:
      return multiply_tokens<kType, 3>(range, x, output, stride);
    default:
      return multiply_tokens<kType, 4>(range, x, output, stride);
  }
}

template void multiply_few<WeightType::kQ8_0>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ4_0>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kIq4Nl>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_few<WeightType::kQ4_1>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ5_0>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ5_1>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ4_K>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ5_K>(const PanelRange&, const Activations&, float*,
                                              size_t);
template void multiply_few<WeightType::kQ6_K>(const PanelRange&, const Activations&, float*,
                                              size_t);

}  // namespace avx2
}  // namespace cerne

#endif
