// One block of 32 at a time, with the operations of the scalar kernel.
#if defined(__AVX2__)
#include <immintrin.h>

#include "kernels/quantize_activations.h"

namespace cerne {
namespace {

uint32_t largest_magnitude(const __m256* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_and_si256(_mm256_castps_si256(x[0]), magnitude);
  for (int i = 1; i < 4; ++i) {
    largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
  }
  __m128i four =
      _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

int32_t sum_of(const __m256i* q) {
  const __m256i all = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

// 32 numbers that fit eight bits, in order.
__m256i narrow(const __m256i* q) {
  const __m256i first = _mm256_packs_epi32(q[0], q[1]);
  const __m256i second = _mm256_packs_epi32(q[2], q[3]);
  const __m256i mixed = _mm256_packs_epi16(first, second);
  return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

}  // namespace

void quantize_activations_avx2(const float* values, size_t width, int8_t* codes, float* scales,
                               int32_t* sums, float* scaled_sums) {
  constexpr uint32_t kSmallest = 0x0d800000u;  // 2^-100
  constexpr uint32_t kInfinity = 0x7f800000u;
  for (size_t block = 0; block < width / kActivationBlock; ++block) {
    __m256 x[4];
    for (size_t i = 0; i < 4; ++i) {
      x[i] = _mm256_loadu_ps(values + block * kActivationBlock + 8 * i);
    }
    auto* const out = reinterpret_cast<__m256i*>(codes + block * kActivationBlock);
    const uint32_t largest = largest_magnitude(x);
    if (largest >= kInfinity || largest < kSmallest) {
      const float scale =
          _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(largest >= kInfinity ? 0x7fc00000 : 0)));
      _mm256_storeu_si256(out, _mm256_setzero_si256());
      scales[block] = scale;
      sums[block] = 0;
      scaled_sums[block] = scale * 0.0f;
      continue;
    }
    const float a = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(largest))));
    const __m256 r = _mm256_set1_ps(127.0f / a);
    __m256i q[4];
    for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], r));
    _mm256_storeu_si256(out, narrow(q));
    scales[block] = a / 127.0f;
    sums[block] = sum_of(q);
    scaled_sums[block] = scales[block] * static_cast<float>(sums[block]);
  }
}

}  // namespace cerne

#endif
