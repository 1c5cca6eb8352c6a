// The tables of binary64 functions against the C library's, and each kind of rotary scaling.
#include "model/rope.h"

#include <cmath>

#include "check.h"
#include "math64.h"
#include "refused.h"
#include "status.h"

namespace {

using cerne::RopeFrequencies;
using cerne::RopeScaling;

bool near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::fmax(1.0, std::fabs(b));
}

CERNE_TEST(functions_of_binary64_are_exact_enough) {
  for (double x = 1e-9; x < 1e12; x *= 1.37) CHECK(near(cerne::log64(x), std::log(x), 1e-15));
  for (double x = -60.0; x < 60.0; x += 0.173) {
    CHECK(std::fabs(cerne::exp64(x) / std::exp(x) - 1.0) < 1e-15);
  }
  for (double t = 0.0; t < 200000.0; t = t * 1.01 + 0.0371) {
    const cerne::SineCosine both = cerne::sine_cosine64(t);
    CHECK(std::fabs(both.sine - std::sin(t)) < 1e-11 &&
          std::fabs(both.cosine - std::cos(t)) < 1e-11);
  }
}

CERNE_TEST(rope_frequencies_of_each_kind) {
  const RopeFrequencies plain = cerne::rope_frequencies(64, 10000.0, {}, {});
  CHECK(plain.values.size() == 32 && plain.values[0] == 1.0f && plain.magnitude == 1.0f);
  CHECK(near(plain.values[16], 0.01, 1e-7));

  RopeScaling linear;
  linear.kind = "linear";
  linear.factor = 4.0;
  CHECK(cerne::rope_frequencies(64, 10000.0, linear, {}).values[0] == 0.25f);

  RopeScaling llama3;
  llama3.kind = "llama3";
  llama3.factor = 8.0;
  llama3.original_context = 8192.0;
  const RopeFrequencies scaled = cerne::rope_frequencies(64, 500000.0, llama3, {});
  const RopeFrequencies base = cerne::rope_frequencies(64, 500000.0, {}, {});
  CHECK(scaled.values[0] == base.values[0]);  // short wavelengths stay
  CHECK(near(scaled.values[31] * 8.0, base.values[31], 1e-6));

  RopeScaling yarn;
  yarn.kind = "yarn";
  yarn.factor = 4.0;
  yarn.original_context = 2048.0;
  const RopeFrequencies ramp = cerne::rope_frequencies(64, 10000.0, yarn, {});
  CHECK(ramp.values[0] == 1.0f && near(ramp.values[31] * 4.0, plain.values[31], 1e-6));
  CHECK(near(ramp.magnitude, 0.1 * std::log(4.0) + 1.0, 1e-6));

  const std::vector<float> divisors(32, 2.0f);
  CHECK(cerne::rope_frequencies(64, 10000.0, {}, divisors).values[0] == 0.5f);
}

template <typename Body>
cerne_status status_of(Body body) {
  return cerne::guarded([&]() -> cerne_status {
    body();
    return CERNE_OK;
  });
}

CERNE_TEST(rope_refuses_wrong_numbers) {
  RopeScaling unknown;
  unknown.kind = "longrope";
  cerne_test::refused(status_of([&] { cerne::rope_frequencies(64, 10000.0, unknown, {}); }),
                      "longrope");
  cerne_test::refused(status_of([&] { cerne::rope_frequencies(63, 10000.0, {}, {}); }), "odd");
  cerne_test::refused(status_of([&] { cerne::rope_frequencies(64, NAN, {}, {}); }), "freq_base");
  cerne_test::refused(status_of([&] { cerne::rope_frequencies(64, 1e4, {}, {1.0f}); }),
                      "rope_freqs");
}

CERNE_TEST(rope_table_grows_without_changing) {
  cerne::RopeTable small(cerne::rope_frequencies(16, 10000.0, {}, {}));
  cerne::RopeTable large(cerne::rope_frequencies(16, 10000.0, {}, {}));
  small.reach(3);
  small.reach(100);
  large.reach(1000);
  for (size_t p = 0; p < 100; ++p) {
    for (size_t i = 0; i < 8; ++i) {
      CHECK(small.cosines(p)[i] == large.cosines(p)[i]);
      CHECK(small.sines(p)[i] == large.sines(p)[i]);
    }
  }
  CHECK(std::fabs(large.cosines(999)[0] - std::cos(999.0)) < 1e-7);
}

}  // namespace
