#include "model/linear.h"

#include <algorithm>

#include "check.h"
#include "cpu.h"
#include "linear_cases.h"
#include "zeroed_memory.h"

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
    quantize();
  }

  void quantize() {
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

const cerne::PanelLayout& layout_named(const char* name) {
  for (const cerne::PanelLayout& layout : cerne::kPanelLayouts) {
    if (std::strcmp(layout.name, name) == 0) return layout;
  }
  std::abort();
}

// The panels that a Linear keeps to itself.
cerne::ZeroedArray<uint8_t> packed(const cerne::PanelLayout& layout,
                                   const std::vector<uint8_t>& weights, size_t rows, size_t width) {
  const size_t count = (rows + kPanelRows - 1) / kPanelRows;
  cerne::ZeroedArray<uint8_t> panels(count * layout.panel_bytes(width));
  for (size_t p = 0; p < count; ++p) {
    const uint8_t* pointers[kPanelRows] = {};
    for (size_t i = 0; i < kPanelRows && p * kPanelRows + i < rows; ++i) {
      pointers[i] = weights.data() + (p * kPanelRows + i) * (weights.size() / rows);
    }
    cerne::pack_panel(layout, pointers, width, panels.data() + p * layout.panel_bytes(width));
  }
  return panels;
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
  // Most results must be numbers, or nothing would be compared.
  const auto finite = std::count_if(expected.begin(), expected.end(),
                                    [](float value) { return std::isfinite(value); });
  CHECK(static_cast<size_t>(finite) * 10 >= expected.size());

  const cerne::Linear linear(type, weights.data(), rows, width, nullptr);
  CHECK(linear.reads_codes() == !cerne_test::is_float(type.name));
  const cerne::PanelLayout& layout = layout_named(type.name);
  const size_t panel_bytes = layout.panel_bytes(width);
  CHECK(linear.size_bytes() == linear.num_panels() * panel_bytes);
  const cerne::ZeroedArray<uint8_t> panels = packed(layout, weights, rows, width);
  const cerne::PanelRange range = {panels.data(), panel_bytes, 0, rows};
  check_products("scalar", type, x, rows, expected,
                 [&](const Activations& a, float* output, size_t stride) {
                   cerne::matmul_scalar(layout, range, a, output, stride);
                 });
#if defined(__x86_64__)
  if (cerne::isa() == cerne::Isa::kAvx2) {
    check_products("avx2", type, x, rows, expected,
                   [&](const Activations& a, float* output, size_t stride) {
                     cerne::matmul_avx2(layout, range, a, output, stride);
                   });
  }
#endif
  check_products("split", type, x, rows, expected,
                 [&](const Activations& a, float* output, size_t stride) {
                   const size_t middle = linear.num_panels() / 2;
                   linear.multiply(a, middle, linear.num_panels(), output, stride);
                   linear.multiply(a, 0, middle, output, stride);
                 });
}

}  // namespace

CERNE_TEST(products_have_the_bits_of_the_specification) {
  uint32_t seed = 1;
  for (const char* const name : kTypes) {
    const TensorType& type = *cerne::find_tensor_type(name);
    const size_t block = std::max<size_t>(type.block_values, 32);
    for (const Mood mood : kMoods) {
      check_type(type, 1, block, mood, seed += 10);
      check_type(type, 16, 3 * block, mood, seed += 10);
      check_type(type, 20, 1280, mood, seed += 10);
      check_type(type, 103, block, mood, seed += 10);
      if (cerne_test::is_float(name)) check_type(type, 33, 5, mood, seed += 10);
    }
  }
}

// Every code against +-127, in the order that makes 16-bit sums as large as they can get.
CERNE_TEST(sums_of_the_largest_codes_are_exact) {
  for (const char* const name :
       {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"}) {
    const TensorType& type = *cerne::find_tensor_type(name);
    const cerne_test::ScaleFields fields = cerne_test::scale_fields(name);
    for (int fill = 0; fill < 256; ++fill) {
      std::vector<uint8_t> row(type.block_bytes, static_cast<uint8_t>(fill));
      cerne::store(&row[fields.d], uint16_t{0x3c00});
      if (fields.min != 0) cerne::store(&row[fields.min], uint16_t{0x3c00});
      for (const float sign : {1.0f, -1.0f}) {
        Vectors x(5, type.block_values, Mood::kTame, 1);
        for (float& value : x.values) value = sign;
        x.quantize();
        const cerne::Linear linear(type, row.data(), 1, type.block_values, nullptr);
        for (const size_t tokens : {size_t{1}, size_t{5}}) {
          float output[5];
          linear.multiply(x.view(tokens), 0, 1, output, 1);
          const std::vector<float> wanted =
              cerne_test::plain_products(type, row.data(), x.view(tokens));
          for (size_t t = 0; t < tokens; ++t) CHECK(bits_of(output[t]) == bits_of(wanted[t]));
        }
      }
    }
  }
}

CERNE_TEST(rows_decode_as_in_the_file_and_in_the_order_asked_for) {
  constexpr size_t kRows = 37;
  constexpr size_t kWidth = 512;
  std::vector<uint32_t> order(kRows);
  for (size_t n = 0; n < kRows; ++n) order[n] = static_cast<uint32_t>(n * 5 % kRows);
  for (const char* const name : kTypes) {
    const TensorType& type = *cerne::find_tensor_type(name);
    for (const Mood mood : kMoods) {
      const std::vector<uint8_t> weights =
          cerne_test::random_weights(type, kRows, kWidth, mood, 77);
      const cerne::Linear linear(type, weights.data(), kRows, kWidth, order.data());
      for (size_t n = 0; n < kRows; ++n) {
        std::vector<float> got(kWidth), wanted(kWidth);
        linear.row(n, got.data());
        type.dequantize(weights.data() + order[n] * (weights.size() / kRows),
                        kWidth / type.block_values, wanted.data());
        for (size_t k = 0; k < kWidth; ++k) CHECK(bits_of(got[k]) == bits_of(wanted[k]));
      }
    }
  }
}
