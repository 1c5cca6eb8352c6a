#include "kernels/quantize_activations.h"

#include <algorithm>

#include "check.h"
#include "cpu.h"
#include "linear_cases.h"

namespace {

using cerne_test::bits_of;
using cerne_test::Mood;

struct Quantized {
  int8_t codes[32];
  float scale;
  int32_t sum;
  float scaled_sum;
};

// Section 2 of docs/arithmetic.md, one block.
Quantized plain_quantize(const float* x) {
  uint32_t a = 0;
  for (int i = 0; i < 32; ++i) a = std::max(a, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  Quantized out = {};
  const float largest = std::bit_cast<float>(a);
  if (a >= 0x7f800000u) {
    out.scale = std::bit_cast<float>(0x7fc00000u);
  } else if (largest >= 0x1p-100f) {
    out.scale = largest / 127;
    const float r = 127 / largest;
    for (int i = 0; i < 32; ++i) {
      const auto code = static_cast<int>(std::nearbyintf(x[i] * r));
      CHECK(code >= -127 && code <= 127);
      out.codes[i] = static_cast<int8_t>(code);
      out.sum += code;
    }
  }
  out.scaled_sum = out.scale * static_cast<float>(out.sum);
  return out;
}

using Quantize = void (*)(const float*, size_t, int8_t*, float*, int32_t*, float*);

void check_quantize(Quantize quantize, const std::vector<float>& x) {
  const size_t blocks = x.size() / 32;
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales(blocks), scaled_sums(blocks);
  std::vector<int32_t> sums(blocks);
  quantize(x.data(), x.size(), codes.data(), scales.data(), sums.data(), scaled_sums.data());
  for (size_t b = 0; b < blocks; ++b) {
    const Quantized wanted = plain_quantize(&x[32 * b]);
    CHECK(std::memcmp(&codes[32 * b], wanted.codes, 32) == 0);
    CHECK(bits_of(scales[b]) == bits_of(wanted.scale));
    CHECK(sums[b] == wanted.sum);
    CHECK(bits_of(scaled_sums[b]) == bits_of(wanted.scaled_sum));
  }
}

}  // namespace

CERNE_TEST(activations_are_quantized_as_specified) {
  std::mt19937 random(5);
  std::vector<float> x;
  for (int block = 0; block < 3000; ++block) {
    const Mood mood = block % 3 == 0 ? Mood::kWild : block % 3 == 1 ? Mood::kTame : Mood::kExtreme;
    for (int i = 0; i < 32; ++i) x.push_back(cerne_test::random_float(random, mood));
  }
  // Halves of a step, which go to the even code; zeros of both signs; the edges of the rules.
  const float edges[] = {127.0f,          0x1p-100f, std::nextafterf(0x1p-100f, 0.0f), 0.0f, -0.0f,
                         0x1.fffffep127f, 0x1p-149f};
  for (const float edge : edges) {
    for (int i = 0; i < 32; ++i) {
      const float part = (static_cast<float>(i) + 0.5f) / 127.0f;
      x.push_back(i == 7 ? edge : edge * part * (i % 2 == 0 ? 1.0f : -1.0f));
    }
  }
  check_quantize(cerne::quantize_activations, x);
  check_quantize(cerne::quantize_activations_scalar, x);
#if defined(__x86_64__)
  if (cerne::isa() == cerne::Isa::kAvx2) check_quantize(cerne::quantize_activations_avx2, x);
#endif
}
