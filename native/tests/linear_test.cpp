#include "model/linear.h"

#include <algorithm>

#include "check.h"
#include "cpu.h"
#include "linear_cases.h"

namespace {

using cerne::Activations;
using cerne::kPanelRows;
using cerne::TensorType;
using cerne_test::bits_of;
using cerne_test::Mood;

constexpr const char* kTypes[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",
                                  "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"};
constexpr Mood kMoods[] = {Mood::kTame, Mood::kWild, Mood::kExtreme};
constexpr size_t kTokenCounts[] = {1, 2, 3, 4, 5, 7, 8, 16, 33, 131};
constexpr size_t kMostTokens = 131;
constexpr float kUntouched = 12345.0f;

// Activations with the memory that they point to.
struct Vectors {
  Vectors(size_t tokens, size_t k, Mood mood, uint32_t seed)
      : values(tokens * k),
        codes(tokens * k),
        scales(tokens * (k / 32)),
        sums(scales.size()),
        scaled_sums(scales.size()),
        width(k) {
    std::mt19937 random(seed);
    for (float& value : values) value = cerne_test::random_float(random, mood);
    if (width % 32 != 0) return;
    cerne::quantize_activations(values.data(), values.size(), codes.data(), scales.data(),
                                sums.data(), scaled_sums.data());
  }

  Activations view(size_t tokens) const {
    return {tokens,        width,       values.data(),     codes.data(),
            scales.data(), sums.data(), scaled_sums.data()};
  }

  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> scaled_sums;
  size_t width;
};

// Runs `multiply` for every number of tokens and compares with `expected` [kMostTokens][rows].
template <typename Multiply>
void check_products(const char* what, const TensorType& type, const Vectors& x, size_t rows,
                    const std::vector<float>& expected, const Multiply& multiply) {
  for (const size_t tokens : kTokenCounts) {
    const size_t stride = rows + 3;
    std::vector<float> output(tokens * stride, kUntouched);
    multiply(x.view(tokens), output.data(), stride);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t n = 0; n < stride; ++n) {
        const float wanted = n < rows ? expected[t * rows + n] : kUntouched;
        const float got = output[t * stride + n];
        if (bits_of(got) == bits_of(wanted)) continue;
        std::fprintf(stderr, "%s %s: %zu rows, width %zu, %zu tokens: [%zu][%zu] %a, wanted %a\n",
                     what, type.name, rows, x.width, tokens, t, n, static_cast<double>(got),
                     static_cast<double>(wanted));
        CHECK(bits_of(got) == bits_of(wanted));
      }
    }
  }
}

void check_type(const TensorType& type, size_t rows, size_t width, Mood mood, uint32_t seed) {
  const std::vector<uint8_t> weights = cerne_test::random_weights(type, rows, width, mood, seed);
  const Vectors x(kMostTokens, width, mood, seed + 1);
  const size_t row_bytes = weights.size() / rows;
  std::vector<float> expected(kMostTokens * rows);
  for (size_t n = 0; n < rows; ++n) {
    const std::vector<float> products =
        cerne_test::plain_products(type, weights.data() + n * row_bytes, x.view(kMostTokens));
    for (size_t t = 0; t < kMostTokens; ++t) expected[t * rows + n] = products[t];
  }
  const cerne::Linear linear(type, weights.data(), rows, width, nullptr);
  CHECK(linear.reads_codes() == !cerne_test::is_float(type.name));
  const auto by_panels = [&](const Activations& a, float* output, size_t stride) {
    const size_t middle = linear.num_panels() / 2;
    linear.multiply(a, middle, linear.num_panels(), output, stride);
    linear.multiply(a, 0, middle, output, stride);
  };
  check_products("Linear", type, x, rows, expected, by_panels);
}

}  // namespace

CERNE_TEST(products_have_the_bits_of_the_specification) {
  uint32_t seed = 1;
  for (const char* const name : kTypes) {
    const TensorType& type = *cerne::find_tensor_type(name);
    const size_t block = std::max<size_t>(type.block_values, 32);
    for (const Mood mood : kMoods) {
      check_type(type, 1, block, mood, seed += 10);
      check_type(type, 37, 3 * block, mood, seed += 10);
    }
  }
}
