// Panels of codes times up to four tokens: the weights are read once, as they are stored.
#if defined(__AVX2__)
#include "kernels/matmul_codes_avx2.h"
#include "kernels/matmul_parts_avx2.h"

namespace cerne {
namespace avx2 {
namespace {

template <WeightType kType, int kTokens>
void multiply_panel(const uint8_t* panel, const Activations& x, size_t first_token,
                    __m256 (*acc)[2]) {
  constexpr PanelLayout kLayout = layout_of(kType);
  constexpr int kBits = code_bits(kType);
  constexpr size_t kBlocks = kLayout.columns / 32;
  const size_t blocks = x.width / 32;
  const int8_t* const codes = x.codes + first_token * x.width;
  const float* const scales = x.scales + first_token * blocks;
  const int32_t* const x_sums = x.sums + first_token * blocks;
  const float* const scaled_sums = x.scaled_sums + first_token * blocks;
  __m256 low[kTokens][2];
  for (int t = 0; t < kTokens; ++t) {
    acc[t][0] = acc[t][1] = low[t][0] = low[t][1] = _mm256_setzero_ps();
  }
  for (size_t b = 0; b < blocks; ++b) {
    const uint8_t* const step = panel + b / kBlocks * kLayout.step_bytes();
    const uint8_t* const header = step + kLayout.header_bytes + b % kBlocks * kLayout.block_bytes();
    const PackedCodes<kType> packed = {header + kLayout.block_header_bytes};
    PairScales pairs;
    int32_t bias[kTokens][2];
    if constexpr (kBits == 6) {
      pairs = pair_scales(header);
      for (int t = 0; t < kTokens; ++t) sixth_bit_bias(codes + t * x.width + 32 * b, bias[t]);
    }
    __m256i sums[kTokens][2];
    const BlockInput in = {codes + 32 * b, x.width, bias[0], 2};
    block_sums<kBits, kTokens>(packed, in, &pairs, sums);
    __m256 dw[2], m[2];
    block_scales<kType>(step, header, dw, m);
    for (int t = 0; t < kTokens; ++t) {
      const size_t at = t * blocks + b;
      for (int half = 0; half < 2; ++half) {
        const __m256i isum = without_offset<kType>(sums[t][half], x_sums[at]);
        acc[t][half] = add_scaled(acc[t][half], dw[half], scales[at], isum);
        if constexpr (kLayout.minimum) {
          const __m256 part = _mm256_mul_ps(m[half], _mm256_set1_ps(scaled_sums[at]));
          low[t][half] = _mm256_add_ps(low[t][half], part);
        }
      }
    }
  }
  if constexpr (!kLayout.minimum) return;
  for (int t = 0; t < kTokens; ++t) {
    for (int half = 0; half < 2; ++half) acc[t][half] = _mm256_add_ps(acc[t][half], low[t][half]);
  }
}

template <WeightType kType, int kTokens>
void multiply_tokens(const PanelRange& range, const Activations& x, size_t first_token,
                     float* output, size_t stride) {
  const uint8_t* panel = range.panels;
  for (size_t n = range.first_row; n < range.end_row; n += kPanelRows) {
    __m256 acc[kTokens][2];
    multiply_panel<kType, kTokens>(panel, x, first_token, acc);
    const size_t rows = rows_of_panel(range, n);
    for (int t = 0; t < kTokens; ++t) {
      store_rows(acc[t], rows, output + (first_token + t) * stride + n);
    }
    panel += range.panel_bytes;
  }
}

}  // namespace

template <WeightType kType>
void multiply_few(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  switch (x.tokens) {
    case 1:
      return multiply_tokens<kType, 1>(range, x, 0, output, stride);
    case 2:
      return multiply_tokens<kType, 2>(range, x, 0, output, stride);
    case 3:
      return multiply_tokens<kType, 3>(range, x, 0, output, stride);
    default:
      return multiply_tokens<kType, 4>(range, x, 0, output, stride);
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
