// Random and hostile weights and activations, and the products of docs/arithmetic.md written down
// as plainly as possible from the stored blocks.
#ifndef CERNE_TESTS_LINEAR_CASES_H_
#define CERNE_TESTS_LINEAR_CASES_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "formats/half.h"
#include "formats/tensor_type.h"
#include "kernels/matmul.h"

namespace cerne_test {

// Tame: ordinary numbers. Wild: any bits. Extreme: the largest codes everywhere.
enum class Mood { kTame, kWild, kExtreme };

inline uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
}

// Where a stored block keeps d and, or 0, m or dmin.
struct ScaleFields {
  size_t d;
  size_t min;
};

inline ScaleFields scale_fields(const std::string& name) {
  if (name == "Q6_K") return {208, 0};
  if (name == "Q4_1" || name == "Q5_1" || name == "Q4_K" || name == "Q5_K") return {0, 2};
  return {0, 0};
}

inline bool is_float(const std::string& name) {
  return name == "F32" || name == "F16" || name == "BF16";
}

inline float random_float(std::mt19937& random, Mood mood) {
  if (mood == Mood::kTame) return std::normal_distribution<float>(0.0f, 2.0f)(random);
  if (mood == Mood::kExtreme) return random() % 2 == 0 ? 3.0f : -3.0f;
  constexpr uint32_t kSmall[] = {0,          0x80000000, 1,          0x807fffff,
                                 0x00800000, 0x0d800000, 0x0d7fffff, 0x3f800000};
  constexpr uint32_t kLarge[] = {0x7f7fffff, 0xff7fffff, 0xff800000, 0x7f800000, 0x7fc00001};
  // Seldom what makes a whole row infinite or NaN, or nothing else would be compared.
  const auto dice = static_cast<uint32_t>(random() % 40000);
  if (dice < 5) return std::bit_cast<float>(kLarge[dice]);
  if (dice < 40) return std::bit_cast<float>(static_cast<uint32_t>(random()));
  if (dice < 800) return std::bit_cast<float>(kSmall[dice % 8]);
  return std::ldexp(static_cast<float>(static_cast<int32_t>(random())),
                    static_cast<int>(random() % 40) - 50);
}

inline std::vector<uint8_t> random_weights(const cerne::TensorType& type, size_t rows, size_t width,
                                           Mood mood, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(rows * (width / type.block_values) * type.block_bytes);
  const std::string name = type.name;
  if (name == "F32") {
    for (size_t i = 0; i < bytes.size(); i += 4)
      cerne::store(&bytes[i], random_float(random, mood));
    return bytes;
  }
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  if (is_float(name)) {
    for (size_t i = 0; i < bytes.size(); i += 2) {
      // Without the exponent's highest bit there is no infinity, no NaN, no huge number.
      if (mood == Mood::kWild && random() % 10000 == 0) continue;
      cerne::store(&bytes[i], static_cast<uint16_t>(cerne::load<uint16_t>(&bytes[i]) & ~0x4000));
    }
    return bytes;
  }
  const ScaleFields fields = scale_fields(name);
  for (size_t at = 0; at < bytes.size(); at += type.block_bytes) {
    uint8_t* const block = &bytes[at];
    if (mood == Mood::kExtreme) {
      constexpr uint8_t kFill[] = {0x00, 0xff, 0x80, 0x7f};
      std::memset(block, kFill[random() % 4], type.block_bytes);
    }
    for (const size_t field : {fields.d, fields.min}) {
      const uint16_t any = static_cast<uint16_t>(random());
      // One block in sixteen keeps any bits: NaN, infinite, denormal, negative.
      const bool keep = mood == Mood::kWild && random() % 16 == 0;
      const uint16_t small = static_cast<uint16_t>((any & 0x83ff) | 0x2000 | (any >> 4 & 0x0400));
      if (field == fields.d || field != 0) cerne::store(block + field, keep ? any : small);
    }
  }
  return bytes;
}

// What section 3 takes from 32 stored weights.
struct PlainBlock {
  float dw;
  float m;
  int scales[2];
  int codes[32];
};

// Codes come out of the decoder of the type, from a block whose scales are made 1 and minima 0.
inline PlainBlock plain_block(const cerne::TensorType& type, const uint8_t* stored, size_t part) {
  const std::string name = type.name;
  const ScaleFields fields = scale_fields(name);
  std::vector<uint8_t> unit(stored, stored + type.block_bytes);
  std::vector<float> values(type.block_values);
  constexpr uint16_t kOne = 0x3c00;
  cerne::store(&unit[fields.d], kOne);
  if (fields.min != 0) cerne::store(&unit[fields.min], uint16_t{0});
  PlainBlock out = {};
  out.dw = cerne::load_half(stored + fields.d);
  if (fields.min != 0) out.m = cerne::load_half(stored + fields.min);
  out.scales[0] = out.scales[1] = 1;
  if (name == "Q6_K") {
    for (size_t half = 0; half < 2; ++half) {
      out.scales[half] = static_cast<int8_t>(stored[192 + 2 * part + half]);
    }
    std::memset(&unit[192], 1, 16);
  } else if (type.block_values == 256) {
    std::vector<uint8_t> ones = unit;
    std::memset(&ones[16], 0xff, type.block_bytes - 16);
    type.dequantize(ones.data(), 1, values.data());
    out.dw = out.dw * (values[32 * part] / (name == "Q4_K" ? 15.0f : 31.0f));
    cerne::store(&ones[fields.d], uint16_t{0});
    cerne::store(&ones[fields.min], kOne);
    type.dequantize(ones.data(), 1, values.data());
    out.m = -(out.m * -values[32 * part]);
    constexpr uint8_t kUnitScales[12] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1};
    std::memcpy(&unit[4], kUnitScales, 12);
  }
  type.dequantize(unit.data(), 1, values.data());
  for (size_t i = 0; i < 32; ++i) out.codes[i] = static_cast<int>(values[32 * part + i]);
  return out;
}

// One row times the activations of the first `tokens` tokens.
inline std::vector<float> plain_products(const cerne::TensorType& type, const uint8_t* row,
                                         const cerne::Activations& x) {
  std::vector<float> products(x.tokens);
  if (is_float(type.name)) {
    std::vector<float> w(x.width);
    type.dequantize(row, x.width, w.data());
    for (size_t t = 0; t < x.tokens; ++t) {
      float& y = products[t];
      for (size_t k = 0; k < x.width; ++k) y = std::fma(w[k], x.values[t * x.width + k], y);
    }
    return products;
  }
  const size_t parts = type.block_values / 32;
  std::vector<float> low(x.tokens);
  for (size_t b = 0; b < x.width / 32; ++b) {
    const PlainBlock w = plain_block(type, row + b / parts * type.block_bytes, b % parts);
    for (size_t t = 0; t < x.tokens; ++t) {
      int isum = 0;
      for (size_t i = 0; i < 32; ++i) {
        isum += w.scales[i / 16] * w.codes[i] * x.codes[t * x.width + 32 * b + i];
      }
      const size_t at = t * (x.width / 32) + b;
      products[t] = products[t] + (w.dw * x.scales[at]) * static_cast<float>(isum);
      low[t] = low[t] + w.m * x.scaled_sums[at];
    }
  }
  if (scale_fields(type.name).min == 0) return products;
  for (size_t t = 0; t < x.tokens; ++t) products[t] = products[t] + low[t];
  return products;
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_LINEAR_CASES_H_
