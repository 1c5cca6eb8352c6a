#include "math64.h"

#include <bit>
#include <cstdint>

namespace cerne {
namespace {

// The nearest integer, ties to even, of |x| < 2^51.
double nearest(double x) {
  const double rounder = 6755399441055744.0;  // 1.5 * 2^52
  return (x + rounder) - rounder;
}

}  // namespace

double exp64(double x) {
  const double n = nearest(x * 1.4426950408889634);
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0;
  for (int j = 13; j > 0; --j) p = p * r / j + 1.0;
  const uint64_t exponent = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  return p * std::bit_cast<double>(exponent << 52);
}

double log64(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits >> 52) - 1023;
  double y = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (y >= 1.4142135623730951) {
    y = y / 2.0;
    ++k;
  }
  const double s = (y - 1.0) / (y + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int j = 25; j > 0; j -= 2) sum = sum * square + 1.0 / j;
  return 2.0 * (s * sum) + static_cast<double>(k) * 0.69314718055994530942;
}

SineCosine sine_cosine64(double t) {
  const double n = nearest(t * 0.63661977236758134308);
  const double r = ((t - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) -
                   n * 2.02226624879595063154e-21;
  const double square = r * r;
  double sine = 1.0;
  for (int j = 16; j > 0; j -= 2) sine = 1.0 - sine * square / (j * (j + 1));
  sine = sine * r;
  double cosine = 1.0;
  for (int j = 15; j > 0; j -= 2) cosine = 1.0 - cosine * square / (j * (j + 1));
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace cerne
