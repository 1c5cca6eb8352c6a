// exp, log, sine and cosine in binary64 from plain operations: docs/arithmetic.md, section 9.
// For tables that are made once; errors are around 1e-16, far below the binary32 results.
#ifndef CERNE_SRC_MATH64_H_
#define CERNE_SRC_MATH64_H_

namespace cerne {

double exp64(double x);  // |x| <= 700
double log64(double x);  // x > 0, finite, normal

struct SineCosine {
  double sine;
  double cosine;
};
SineCosine sine_cosine64(double t);  // |t| <= 2^31

}  // namespace cerne

#endif  // CERNE_SRC_MATH64_H_
