// Sums over one block of 32 columns of a panel of codes, for a few tokens at once. To be included
// by files compiled for AVX2 only.
//
// A 256-bit register holds four columns of half a panel: eight rows. Products of unsigned codes
// and signed activations are added in pairs by vpmaddubsw, whose 16-bit saturation must never be
// reached:
//
//   4 bits   a pair is at most 2 * 15 * 127 = 3810, all 8 groups 30480
//   5 bits   7874, 4 groups 31496
//   6 bits   16002; with 32 taken from the code, 4 groups are within 32512, and sums that wrap
//            on the way there are right in the end
//   8 bits   |w| * sign(w) x: 2 * 128 * 127 = 32512, each pair is widened at once
#ifndef CERNE_SRC_KERNELS_MATMUL_CODES_AVX2_H_
#define CERNE_SRC_KERNELS_MATMUL_CODES_AVX2_H_

#include <immintrin.h>

#include <cstring>

#include "kernels/matmul.h"

namespace cerne {
namespace avx2 {

// Keeps a sum where it is written: GCC would turn the sums of a block into trees, whose parts do
// not fit the registers.
__attribute__((always_inline)) inline void pin(__m256i& sum) { __asm__("" : "+x"(sum)); }

// Bits of the codes as the sums see them: the levels of IQ4_NL have a sign.
constexpr int code_bits(WeightType type) {
  return type == WeightType::kIq4Nl ? 8 : layout_of(type).bits;
}

inline __m256i load_codes(const uint8_t* bytes) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
}

// Byte-wise x << count for bits that stay inside their byte after `mask`.
inline __m256i shifted_bits(__m256i x, int count, int mask) {
  const __m256i moved = count >= 0 ? _mm256_slli_epi16(x, count) : _mm256_srli_epi16(x, -count);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
}

// Codes as a panel keeps them.
template <WeightType kType>
struct PackedCodes {
  const uint8_t* codes;

  // Four columns of the two halves of the panel.
  __attribute__((always_inline)) void load(int group, __m256i* w) const {
    constexpr int kBits = layout_of(kType).bits;
    if constexpr (kBits == 8) {
      w[0] = load_codes(codes + 64 * group);
      w[1] = load_codes(codes + 64 * group + 32);
      return;
    }
    const __m256i both = load_codes(codes + 32 * group);
    w[0] = shifted_bits(both, 0, 15);
    w[1] = shifted_bits(both, -4, 15);
    const uint8_t* const planes = codes + 256;
    for (int half = 0; half < 2; ++half) {
      if constexpr (kBits == 5) {
        const __m256i plane = load_codes(planes + 32 * half);
        w[half] = _mm256_or_si256(w[half], shifted_bits(plane, 4 - group, 0x10));
      } else if constexpr (kBits == 6) {
        const __m256i plane = load_codes(planes + 64 * half + 32 * (group / 4));
        w[half] = _mm256_or_si256(w[half], shifted_bits(plane, 4 - 2 * (group % 4), 0x30));
      } else if constexpr (kType == WeightType::kIq4Nl) {
        const __m256i levels = _mm256_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25,
                                                38, 53, 69, 89, 113, -127, -104, -83, -65, -49, -35,
                                                -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        w[half] = _mm256_shuffle_epi8(levels, w[half]);
      }
    }
  }
};

// One byte for each code, [8 groups][16 lanes][4 columns].
struct UnpackedCodes {
  const uint8_t* codes;

  __attribute__((always_inline)) void load(int group, __m256i* w) const {
    w[0] = load_codes(codes + 64 * group);
    w[1] = load_codes(codes + 64 * group + 32);
  }
};

// Four activations of one token in every lane.
inline __m256i broadcast4(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}

// 32 times the activations of each half of a block, summed over its four groups: columns 0 and 1
// in the low 16 bits, 2 and 3 in the high ones; at most 32512. bias[half].
inline void sixth_bit_bias(const int8_t* x, int32_t* bias) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(32), codes);
  pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
  pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
  bias[0] = _mm256_cvtsi256_si32(pairs);
  bias[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(pairs, 1));
}

// Scales of Q6_K, [column half][panel half]: in each lane the scale of the row twice, as int16.
struct PairScales {
  __m256i of[2][2];
};

inline PairScales pair_scales(const uint8_t* scales) {
  PairScales out;
  for (int half = 0; half < 2; ++half) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(scales + 16 * half));
    const __m256i both = _mm256_cvtepi8_epi16(bytes);
    out.of[0][half] = _mm256_blend_epi16(both, _mm256_slli_epi32(both, 16), 0xaa);
    out.of[1][half] = _mm256_blend_epi16(_mm256_srli_epi32(both, 16), both, 0xaa);
  }
  return out;
}

// What the sums of a block need besides the weights. Token t's activations: x + t * stride;
// `bias` (6 bits only): bias + t * bias_stride.
struct BlockInput {
  const int8_t* x;
  size_t stride;
  const int32_t* bias;
  size_t bias_stride;
};

// sums[t][half]: stored codes times activations, for 6 bits the whole integer of section 3.
template <int kBits, int kTokens, typename Codes>
__attribute__((always_inline)) inline void block_sums(const Codes& codes, const BlockInput& in,
                                                      const PairScales* scales,
                                                      __m256i (*sums)[2]) {
  constexpr int kGroups = kBits == 4 ? 8 : kBits == 8 ? 1 : 4;  // before widening
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int part = 0; part < 8 / kGroups; ++part) {
    __m256i pairs[kTokens][2];
#pragma GCC unroll 8
    for (int i = 0; i < kGroups; ++i) {
      const int group = part * kGroups + i;
      __m256i w[2];
      codes.load(group, w);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const __m256i x = broadcast4(in.x + t * in.stride + 4 * group);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          __m256i product;
          if constexpr (kBits == 8) {
            product = _mm256_maddubs_epi16(_mm256_abs_epi8(w[half]), _mm256_sign_epi8(x, w[half]));
          } else {
            product = _mm256_maddubs_epi16(w[half], x);
          }
          pairs[t][half] = i == 0 ? product : _mm256_add_epi16(pairs[t][half], product);
          pin(pairs[t][half]);
        }
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m256i factor = ones;
        if constexpr (kBits == 6) {
          const __m256i bias = _mm256_set1_epi32(in.bias[t * in.bias_stride + part]);
          pairs[t][half] = _mm256_sub_epi16(pairs[t][half], bias);
          factor = scales->of[part][half];
        }
        const __m256i sum = _mm256_madd_epi16(pairs[t][half], factor);
        sums[t][half] = part == 0 ? sum : _mm256_add_epi32(sums[t][half], sum);
        pin(sums[t][half]);
      }
    }
  }
}

// What is taken from each code after the sums. Q6_K's offset is in its bias.
constexpr int late_offset(WeightType type) {
  return code_bits(type) == 6 ? 0 : layout_of(type).offset;
}

// The sum of codes that are `kOffset` less.
template <int kOffset>
inline __m256i without_offset(__m256i sum, int32_t activation_sum) {
  if constexpr (kOffset == 0) return sum;
  constexpr int kShift = kOffset == 8 ? 3 : 4;
  return _mm256_sub_epi32(sum, _mm256_slli_epi32(_mm256_set1_epi32(activation_sum), kShift));
}

// Eight binary16 numbers.
inline __m256 load_halves(const uint8_t* bytes) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Eight bytes as floats.
inline __m256 load_bytes(const uint8_t* bytes) {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
}

// dw and m of the halves of a panel for one block, from the headers of its step and its own.
template <WeightType kType>
inline void block_scales(const uint8_t* step, const uint8_t* header, __m256* dw, __m256* m) {
  constexpr PanelLayout kLayout = layout_of(kType);
  for (int half = 0; half < 2; ++half) {
    dw[half] = load_halves(step + 16 * half);
    if constexpr (kLayout.minimum) m[half] = load_halves(step + 32 + 16 * half);
    if constexpr (kLayout.minimum && kLayout.columns == 256) {
      const __m256 min = _mm256_mul_ps(m[half], load_bytes(header + 16 + 8 * half));
      dw[half] = _mm256_mul_ps(dw[half], load_bytes(header + 8 * half));
      m[half] = _mm256_xor_ps(min, _mm256_set1_ps(-0.0f));
    }
  }
}

// acc + (dw * dx) * float(isum)
inline __m256 add_scaled(__m256 acc, __m256 dw, float dx, __m256i isum) {
  const __m256 scale = _mm256_mul_ps(dw, _mm256_set1_ps(dx));
  return _mm256_add_ps(acc, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(isum)));
}

// Stores `rows` (16, or fewer in the last panel) results of one token.
inline void store_rows(const __m256* values, size_t rows, float* output) {
  if (rows == kPanelRows) {
    _mm256_storeu_ps(output, values[0]);
    _mm256_storeu_ps(output + 8, values[1]);
    return;
  }
  alignas(32) float all[kPanelRows];
  _mm256_store_ps(all, values[0]);
  _mm256_store_ps(all + 8, values[1]);
  std::memcpy(output, all, rows * sizeof(float));
}

}  // namespace avx2
}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_MATMUL_CODES_AVX2_H_
