// The vector kernels on AVX2: eight floats at a time, the order of operations of the scalar ones.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>

#include "formats/half.h"
#include "kernels/math.h"
#include "kernels/vector.h"

namespace cerne {
namespace {

constexpr size_t kLanes = 16;

__m256 exp8(__m256 x) {
  const __m256 rounder = _mm256_set1_ps(exp32::kRounder);
  const __m256 scaled = _mm256_mul_ps(x, _mm256_set1_ps(exp32::kLog2E));
  const __m256 n = _mm256_sub_ps(_mm256_add_ps(scaled, rounder), rounder);
  const __m256 high = _mm256_sub_ps(x, _mm256_mul_ps(n, _mm256_set1_ps(exp32::kLn2High)));
  const __m256 r = _mm256_sub_ps(high, _mm256_mul_ps(n, _mm256_set1_ps(exp32::kLn2Low)));
  __m256 p = _mm256_set1_ps(exp32::kSeries[0]);
  for (int i = 1; i < 6; ++i) {
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(exp32::kSeries[i]));
  }
  p = _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(p, r), r), r);
  p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  __m256 result =
      _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
  const __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(exp32::kOverflow), _CMP_GT_OQ);
  const __m256 under = _mm256_cmp_ps(x, _mm256_set1_ps(exp32::kUnderflow), _CMP_LT_OQ);
  const __m256 unordered = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  const __m256 infinity = _mm256_set1_ps(std::numeric_limits<float>::infinity());
  result = _mm256_blendv_ps(result, infinity, over);
  result = _mm256_andnot_ps(under, result);
  return _mm256_blendv_ps(result, x, unordered);
}

__m256 negate(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

__m256 gate8(Gate function, __m256 x) {
  __m256 argument;
  if (function == Gate::kSilu) {
    argument = negate(x);
  } else {
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
    const __m256 sum = _mm256_add_ps(x, _mm256_mul_ps(_mm256_set1_ps(gelu32::kCube), cube));
    const __m256 u = _mm256_mul_ps(_mm256_set1_ps(gelu32::kScale), sum);
    argument = _mm256_mul_ps(_mm256_set1_ps(-2.0f), u);
  }
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exp8(argument)));
}

// Lanes 0 to 7 and 8 to 15 of a sum of section 5.
float fold(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

void rms_norm(const float* x, const float* weight, size_t size, float eps, float* out) {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + i + 8);
    low = _mm256_add_ps(low, _mm256_mul_ps(a, a));
    high = _mm256_add_ps(high, _mm256_mul_ps(b, b));
  }
  if (i < size) {
    // A lane without an element adds +0 to a sum that is never -0: it stays as it is.
    float tail[kLanes] = {};
    for (size_t k = i; k < size; ++k) tail[k - i] = x[k];
    const __m256 a = _mm256_loadu_ps(tail);
    const __m256 b = _mm256_loadu_ps(tail + 8);
    low = _mm256_add_ps(low, _mm256_mul_ps(a, a));
    high = _mm256_add_ps(high, _mm256_mul_ps(b, b));
  }
  const float mean = fold(low, high) / static_cast<float>(size);
  const float r = 1.0f / std::sqrt(mean + eps);
  const __m256 r8 = _mm256_set1_ps(r);
  for (i = 0; i + 8 <= size; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), r8);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  for (; i < size; ++i) out[i] = (x[i] * r) * weight[i];
}

void gated(Gate function, float* gate, const float* up, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m256 g = gate8(function, _mm256_loadu_ps(gate + i));
    _mm256_storeu_ps(gate + i, _mm256_mul_ps(g, _mm256_loadu_ps(up + i)));
  }
  for (; i < size; ++i) {
    gate[i] = (function == Gate::kSilu ? silu(gate[i]) : gelu(gate[i])) * up[i];
  }
}

void add(float* x, const float* y, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < size; ++i) x[i] = x[i] + y[i];
}

void rotate(float* head, const float* cosines, const float* sines, size_t head_dim) {
  const size_t half = head_dim / 2;
  size_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 first = _mm256_loadu_ps(head + i);
    const __m256 second = _mm256_loadu_ps(head + i + half);
    const __m256 c = _mm256_loadu_ps(cosines + i);
    const __m256 s = _mm256_loadu_ps(sines + i);
    const __m256 low = _mm256_sub_ps(_mm256_mul_ps(first, c), _mm256_mul_ps(second, s));
    const __m256 high = _mm256_add_ps(_mm256_mul_ps(second, c), _mm256_mul_ps(first, s));
    _mm256_storeu_ps(head + i, low);
    _mm256_storeu_ps(head + i + half, high);
  }
  for (; i < half; ++i) {
    const float first = head[i];
    const float second = head[i + half];
    head[i] = first * cosines[i] - second * sines[i];
    head[i + half] = second * cosines[i] + first * sines[i];
  }
}

__m256 load8(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
__m256 load8(const float* from) { return _mm256_loadu_ps(from); }

uint16_t narrow(float value, const uint16_t*) {
  return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}
float narrow(float value, const float*) { return value; }

template <typename T>
void store(const float* key, const float* value, size_t head_dim, size_t at, T* keys, T* values) {
  T* const lane = keys + at / kLanes * head_dim * kLanes + at % kLanes;
  for (size_t e = 0; e < head_dim; ++e) {
    lane[e * kLanes] = narrow(key[e], lane);
    values[at * head_dim + e] = narrow(value[e], values);
  }
}

// Scores of 16 neighbouring positions for kHeads queries: each lane is one position.
template <typename T, int kHeads>
void score16(const float* queries, const T* keys, size_t head_dim, float scale, size_t at,
             float (*weights)[kPagePositions]) {
  __m256 low[kHeads];
  __m256 high[kHeads];
  for (int h = 0; h < kHeads; ++h) low[h] = high[h] = _mm256_setzero_ps();
  for (size_t e = 0; e < head_dim; ++e) {
    const __m256 a = load8(keys + e * kLanes);
    const __m256 b = load8(keys + e * kLanes + 8);
    for (int h = 0; h < kHeads; ++h) {
      const __m256 q = _mm256_broadcast_ss(queries + h * head_dim + e);
      low[h] = _mm256_add_ps(low[h], _mm256_mul_ps(q, a));
      high[h] = _mm256_add_ps(high[h], _mm256_mul_ps(q, b));
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    _mm256_storeu_ps(weights[h] + at, _mm256_mul_ps(low[h], _mm256_set1_ps(scale)));
    _mm256_storeu_ps(weights[h] + at + 8, _mm256_mul_ps(high[h], _mm256_set1_ps(scale)));
  }
}

// Turns scores into weights; those outside first .. last - 1 become +0. Returns maximum and sum.
AttentionState soften(float* weights, size_t first, size_t last) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const size_t begin = first / kLanes * kLanes;
  const size_t end = (last + kLanes - 1) / kLanes * kLanes;
  for (size_t j = begin; j < first; ++j) weights[j] = lowest;
  for (size_t j = last; j < end; ++j) weights[j] = lowest;
  __m256 top = _mm256_set1_ps(lowest);
  for (size_t j = begin; j < end; j += 8) top = _mm256_max_ps(_mm256_loadu_ps(weights + j), top);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  const float highest = _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
  const __m256 highest8 = _mm256_set1_ps(highest);
  for (size_t j = begin; j < end; j += 8) {
    const __m256 shifted = _mm256_sub_ps(_mm256_loadu_ps(weights + j), highest8);
    _mm256_storeu_ps(weights + j, exp8(shifted));
  }
  // Not left to exp: where every score is infinite the difference is a NaN.
  for (size_t j = begin; j < first; ++j) weights[j] = 0.0f;
  for (size_t j = last; j < end; ++j) weights[j] = 0.0f;
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  for (size_t j = begin; j < end; j += kLanes) {
    low = _mm256_add_ps(low, _mm256_loadu_ps(weights + j));
    high = _mm256_add_ps(high, _mm256_loadu_ps(weights + j + 8));
  }
  return {highest, fold(low, high)};
}

// outputs[h][e .. e + 8 * kColumns) of kHeads heads: columns are lanes, positions follow in order.
template <typename T, int kHeads, int kColumns>
void mix(const float (*weights)[kPagePositions], const T* values, size_t head_dim, size_t first,
         size_t last, size_t e, float* outputs) {
  __m256 sums[kHeads][kColumns];
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kColumns; ++c) sums[h][c] = _mm256_setzero_ps();
  }
  for (size_t j = first; j < last; ++j) {
    const T* const row = values + j * head_dim + e;
    __m256 v[kColumns];
    for (int c = 0; c < kColumns; ++c) v[c] = load8(row + 8 * c);
    for (int h = 0; h < kHeads; ++h) {
      const __m256 w = _mm256_broadcast_ss(&weights[h][j]);
      for (int c = 0; c < kColumns; ++c) {
        sums[h][c] = _mm256_add_ps(sums[h][c], _mm256_mul_ps(w, v[c]));
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kColumns; ++c) {
      _mm256_storeu_ps(outputs + h * head_dim + e + 8 * c, sums[h][c]);
    }
  }
}

template <typename T, int kHeads>
void page_of_heads(const float* queries, const PageView& view, float scale, AttentionState* states,
                   float* outputs) {
  const T* const keys = static_cast<const T*>(view.keys);
  const T* const values = static_cast<const T*>(view.values);
  const size_t head_dim = view.head_dim;
  alignas(32) float weights[kHeads][kPagePositions];
  for (size_t at = view.first / kLanes * kLanes; at < view.last; at += kLanes) {
    score16<T, kHeads>(queries, keys + at * head_dim, head_dim, scale, at, weights);
  }
  for (int h = 0; h < kHeads; ++h) states[h] = soften(weights[h], view.first, view.last);
  size_t e = 0;
  for (; e + 16 <= head_dim; e += 16) {
    mix<T, kHeads, 2>(weights, values, head_dim, view.first, view.last, e, outputs);
  }
  for (; e < head_dim; e += 8) {
    mix<T, kHeads, 1>(weights, values, head_dim, view.first, view.last, e, outputs);
  }
}

// Heads of a group together, at most four at a time: each key and value is loaded once for them.
template <typename T>
void page(const float* queries, size_t num_heads, const PageView& view, float scale,
          AttentionState* states, float* outputs) {
  if (view.head_dim % 8 != 0) {
    constexpr bool kHalf = sizeof(T) == 2;
    const VectorKernels& plain = kScalarVectorKernels;
    const auto score = kHalf ? plain.page_half : plain.page_float;
    score(queries, num_heads, view, scale, states, outputs);
    return;
  }
  while (num_heads > 0) {
    const size_t some = num_heads < 4 ? num_heads : 4;
    if (some == 4) page_of_heads<T, 4>(queries, view, scale, states, outputs);
    if (some == 3) page_of_heads<T, 3>(queries, view, scale, states, outputs);
    if (some == 2) page_of_heads<T, 2>(queries, view, scale, states, outputs);
    if (some == 1) page_of_heads<T, 1>(queries, view, scale, states, outputs);
    queries += some * view.head_dim;
    outputs += some * view.head_dim;
    states += some;
    num_heads -= some;
  }
}

void join(AttentionState* state, float* output, const AttentionState& next_state,
          const float* next_output, size_t head_dim) {
  const float highest = next_state.highest > state->highest ? next_state.highest : state->highest;
  const float a = exp(state->highest - highest);
  const float b = exp(next_state.highest - highest);
  state->sum = state->sum * a + next_state.sum * b;
  state->highest = highest;
  const __m256 a8 = _mm256_set1_ps(a);
  const __m256 b8 = _mm256_set1_ps(b);
  size_t e = 0;
  for (; e + 8 <= head_dim; e += 8) {
    const __m256 old = _mm256_mul_ps(_mm256_loadu_ps(output + e), a8);
    const __m256 next = _mm256_mul_ps(_mm256_loadu_ps(next_output + e), b8);
    _mm256_storeu_ps(output + e, _mm256_add_ps(old, next));
  }
  for (; e < head_dim; ++e) output[e] = output[e] * a + next_output[e] * b;
}

void finish(const AttentionState& state, const float* output, size_t head_dim, float* out) {
  const __m256 sum = _mm256_set1_ps(state.sum);
  size_t e = 0;
  for (; e + 8 <= head_dim; e += 8) {
    _mm256_storeu_ps(out + e, _mm256_div_ps(_mm256_loadu_ps(output + e), sum));
  }
  for (; e < head_dim; ++e) out[e] = output[e] / state.sum;
}

}  // namespace

const VectorKernels kAvx2VectorKernels = {
    rms_norm,     gated,          add,         rotate, store<uint16_t>,
    store<float>, page<uint16_t>, page<float>, join,   finish,
};

}  // namespace cerne

#endif
