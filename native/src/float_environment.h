// The rounding and denormal behaviour that the arithmetic needs, set for a scope.
#ifndef CERNE_SRC_FLOAT_ENVIRONMENT_H_
#define CERNE_SRC_FLOAT_ENVIRONMENT_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cerne {

// Round to nearest, denormals kept, no traps, whatever another library of the process has set.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatEnvironment() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  FloatEnvironment() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    const uint64_t plain = 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(plain));
  }
  ~FloatEnvironment() { __asm__ volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  uint64_t saved_;
#else
  FloatEnvironment() {}
#endif

 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

}  // namespace cerne

#endif  // CERNE_SRC_FLOAT_ENVIRONMENT_H_
