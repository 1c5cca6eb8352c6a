// Fitting the scale (and minimum) of one group of values: the search that all encoders share.
//
// One pass takes the values with a trial scale, chooses the nearest code of each and sums up the
// error and the moments of the codes. From the moments follow the scale and minimum that are best
// for these codes (least squares), which make the next trial. A search starts from several scales,
// because alternating between codes and scale only finds the nearest valley.
//
// Sums run over eight lanes: lane l adds the values l, l + 8, l + 16, ... in order, then lanes are
// added in the order of `total`. The loops are written so that compilers turn lanes into vectors.
#ifndef CERNE_SRC_FORMATS_FIT_H_
#define CERNE_SRC_FORMATS_FIT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/half.h"

namespace cerne {

// Four lanes; the compiler's own vectors are the same on every processor it knows.
typedef float Float4 __attribute__((vector_size(16)));

inline constexpr int kFitLanes = 8;
// Trials from one start; more change the error by less than 0.01 %.
inline constexpr int kFitRounds = 3;

inline Float4 load4(const float* x) {
  Float4 v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

// Sum of eight lanes: 0 .. 3 in `first`, 4 .. 7 in `second`.
inline float total(Float4 first, Float4 second) {
  const Float4 v = first + second;
  return (v[0] + v[2]) + (v[1] + v[3]);
}

// Nearest integer, ties to even, of |x| < 2^22.
template <typename T>
T nearest_integer(T x) {
  return (x + 12582912.0f) - 12582912.0f;
}

inline float clamped(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

inline Float4 clamped(Float4 x, float low, float high) {
  const Float4 lows = {low, low, low, low}, highs = {high, high, high, high};
  const Float4 raised = x < lows ? lows : x;
  return raised > highs ? highs : raised;
}

// The binary16 number nearest to x, the largest finite one beyond.
inline float as_half(float x) {
  return half_to_float(float_to_half(clamped(x, -65504.0f, 65504.0f)));
}

// The same for the scale of a trial, which is not 0: the smallest number takes its place.
inline float as_scale(float x) {
  const float half = as_half(x);
  if (half != 0) return half;
  return x < 0 ? -0x1p-24f : 0x1p-24f;
}

// Weights of n values from the importance of their columns; all equal when none counts.
inline void weights_of(const float* importance, int n, float* w) {
  float largest = 0;
  for (int i = 0; importance != nullptr && i < n; ++i) {
    w[i] = importance[i];
    largest = w[i] > largest ? w[i] : largest;
  }
  if (largest > 0) return;
  for (int i = 0; i < n; ++i) w[i] = 1;
}

// Codes low .. high, evenly spaced.
template <int kLowCode, int kHighCode>
struct UniformCodes {
  static constexpr float kLow = kLowCode, kHigh = kHighCode;
  template <typename T>
  static T nearest(T x) {
    return nearest_integer(clamped(x, kLow, kHigh));
  }
};

// Sums over a group with codes q: error of w * (x - value)^2, and w * q, w * q * q, w * q * x.
struct Moments {
  float error, q, qq, qx;
};

// value = scale * q + min. A scale of 0 makes all codes those of 0.
template <int kValues, typename Codes>
Moments fit_pass(const float* x, const float* w, float scale, float min) {
  static_assert(kValues % kFitLanes == 0);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  Float4 error[2] = {}, q1[2] = {}, q2[2] = {}, qx[2] = {};
  for (int i = 0; i < kValues; i += kFitLanes) {
    for (int half = 0; half < 2; ++half) {
      const Float4 value = load4(x + i + 4 * half), weight = load4(w + i + 4 * half);
      const Float4 q = Codes::nearest((value - min) * inverse);
      const Float4 off = value - (scale * q + min);
      const Float4 wq = weight * q;
      error[half] += weight * (off * off);
      q1[half] += wq;
      q2[half] += wq * q;
      qx[half] += wq * value;
    }
  }
  return {total(error[0], error[1]), total(q1[0], q1[1]), total(q2[0], q2[1]), total(qx[0], qx[1])};
}

struct Fit {
  float scale, min, error;
};

// Largest magnitude of n values.
inline float peak_of(const float* x, int n) {
  float peak = 0;
  for (int i = 0; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    peak = magnitude > peak ? magnitude : peak;
  }
  return peak;
}

// Trial scales: the largest magnitude of the group divided by `first` + i * `step`, i < count.
struct ScaleStarts {
  float first, step;
  int count;
};

// The best scale without a minimum, as a binary16 number (kStored) or a real one. Both signs are
// tried where the codes are not symmetric.
template <int kValues, typename Codes, bool kStored>
Fit fit_scale(const float* x, const float* w, ScaleStarts starts) {
  constexpr int kSigns = Codes::kLow == -Codes::kHigh ? 1 : 2;
  Fit best{0, 0, fit_pass<kValues, Codes>(x, w, 0, 0).error};
  const float peak = peak_of(x, kValues);
  if (peak == 0) return best;
  for (int start = 0; start < kSigns * starts.count; ++start) {
    const float t = starts.first + starts.step * static_cast<float>(start / kSigns);
    float scale = (start % kSigns == 0 ? peak : -peak) / t;
    if (kStored) scale = as_scale(scale);
    for (int round = 0; round < kFitRounds; ++round) {
      const Moments sums = fit_pass<kValues, Codes>(x, w, scale, 0);
      if (sums.error < best.error) best = {scale, 0, sums.error};
      if (!(sums.qq > 0)) break;
      const float next = kStored ? as_half(sums.qx / sums.qq) : sums.qx / sums.qq;
      if (next == scale) break;
      scale = next;
    }
  }
  return best;
}

// A start for fit_affine: the range of the values divided by kHigh + t for t from `first` on.
struct AffineStarts {
  float first, step;
  int count;
};

// The best scale and minimum as binary16 numbers (kStored), or as real numbers with a minimum <= 0,
// as the groups of the K formats have.
template <int kValues, typename Codes, bool kStored>
Fit fit_affine(const float* x, const float* w, AffineStarts starts) {
  float low = x[0], high = x[0], sum_w = 0, sum_x = 0;
  for (int i = 0; i < kValues; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum_w += w[i];
    sum_x += w[i] * x[i];
  }
  if (!kStored && low > 0) low = 0;
  const float middle = kStored ? as_half(sum_x / sum_w) : (sum_x < 0 ? sum_x / sum_w : 0.0f);
  Fit best{0, middle, fit_pass<kValues, Codes>(x, w, 0, middle).error};
  if (!(high > low)) return best;
  for (int start = 0; start < starts.count; ++start) {
    const float t = Codes::kHigh + (starts.first + starts.step * static_cast<float>(start));
    float scale = (high - low) / t;
    float min = (low + high) * 0.5f - scale * (Codes::kHigh * 0.5f);
    for (int round = 0; round < kFitRounds; ++round) {
      if (kStored) {
        scale = as_scale(scale);
        min = as_half(min);
      } else if (min > 0) {
        min = 0;
      }
      const Moments sums = fit_pass<kValues, Codes>(x, w, scale, min);
      if (sums.error < best.error) best = {scale, min, sums.error};
      const float det = sum_w * sums.qq - sums.q * sums.q;
      if (!(det > 0)) break;
      scale = (sum_w * sums.qx - sums.q * sum_x) / det;
      if (kStored) scale = as_half(scale);
      min = (sum_x - scale * sums.q) / sum_w;
      if (!kStored && min > 0) scale = sums.qx / sums.qq;
      if (!(scale > 0)) break;
    }
  }
  return best;
}

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_FIT_H_
