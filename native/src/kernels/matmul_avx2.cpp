#if defined(__AVX2__)
#include "kernels/matmul_parts_avx2.h"

namespace cerne {
namespace {

template <WeightType kType>
void multiply_codes(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  if (x.tokens == 0) return;
  if (x.tokens <= avx2::kFewTokens) return avx2::multiply_few<kType>(range, x, output, stride);
  avx2::multiply_many<kType>(range, x, output, stride);
}

}  // namespace

void matmul_avx2(const PanelLayout& layout, const PanelRange& range, const Activations& x,
                 float* output, size_t stride) {
  switch (layout.type) {
    case WeightType::kF32:
      return avx2::multiply_floats<WeightType::kF32>(range, x, output, stride);
    case WeightType::kF16:
      return avx2::multiply_floats<WeightType::kF16>(range, x, output, stride);
    case WeightType::kBf16:
      return avx2::multiply_floats<WeightType::kBf16>(range, x, output, stride);
    case WeightType::kQ8_0:
      return multiply_codes<WeightType::kQ8_0>(range, x, output, stride);
    case WeightType::kQ4_0:
      return multiply_codes<WeightType::kQ4_0>(range, x, output, stride);
    case WeightType::kIq4Nl:
      return multiply_codes<WeightType::kIq4Nl>(range, x, output, stride);
    case WeightType::kQ4_1:
      return multiply_codes<WeightType::kQ4_1>(range, x, output, stride);
    case WeightType::kQ5_0:
      return multiply_codes<WeightType::kQ5_0>(range, x, output, stride);
    case WeightType::kQ5_1:
      return multiply_codes<WeightType::kQ5_1>(range, x, output, stride);
    case WeightType::kQ4_K:
      return multiply_codes<WeightType::kQ4_K>(range, x, output, stride);
    case WeightType::kQ5_K:
      return multiply_codes<WeightType::kQ5_K>(range, x, output, stride);
    case WeightType::kQ6_K:
      return multiply_codes<WeightType::kQ6_K>(range, x, output, stride);
  }
}

}  // namespace cerne

#endif
