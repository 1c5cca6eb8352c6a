// Encoders of the formats with one scale, and in some a minimum, for 32 values; legacy_blocks.cpp
// shows their layouts.
#include <cmath>
#include <cstring>

#include "formats/fit.h"
#include "formats/quantize.h"

namespace cerne {
namespace {

constexpr int kValues = 32;

struct Block {
  float w[kValues];
  uint8_t codes[kValues];  // stored codes
};

// Codes of the stored scale and minimum; `offset` is what the format adds to them.
template <typename Codes>
void choose_codes(const float* x, Fit fit, float offset, uint8_t* codes) {
  const float inverse = fit.scale != 0 ? 1.0f / fit.scale : 0.0f;
  for (int i = 0; i < kValues; ++i) {
    const float q = Codes::nearest((x[i] - fit.min) * inverse);
    codes[i] = static_cast<uint8_t>(static_cast<int>(q + offset));
  }
}

// Value j in the low four bits of byte j, value j + 16 in the high ones.
void store_nibbles(const uint8_t* codes, uint8_t* bytes) {
  for (int j = 0; j < 16; ++j) {
    bytes[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
  }
}

// Bit j is the fifth bit of value j.
void store_fifth_bits(const uint8_t* codes, uint8_t* bytes) {
  uint32_t bits = 0;
  for (int j = 0; j < kValues; ++j) bits |= static_cast<uint32_t>(codes[j] >> 4 & 1) << j;
  store(bytes, bits);
}

// Without importance, four bits are too few for plain least squares: it clips the large weights,
// which matter most. sqrt(mean of squares + x^2) counts them more; perplexity is better for it.
void weigh_large_values(const float* x, float* w) {
  float squares = 0;
  for (int i = 0; i < kValues; ++i) squares += x[i] * x[i];
  if (!(squares > 0x1p-80f)) return;
  const float mean = squares * (1.0f / kValues);
  for (int i = 0; i < kValues; ++i) w[i] = std::sqrt(mean + x[i] * x[i]);
}

// Scales of one sign pattern cover -2^(bits-1) .. 2^(bits-1) - 1; the other sign is tried too.
template <int kBits>
void encode_scaled(const float* x, const float* importance, ScaleStarts starts, uint8_t* block) {
  constexpr int kHalf = 1 << (kBits - 1);
  using Codes = UniformCodes<-kHalf, kHalf - 1>;
  Block b;
  weights_of(importance, kValues, b.w);
  if (kBits == 4 && importance == nullptr) weigh_large_values(x, b.w);
  const Fit fit = fit_scale<kValues, Codes, true>(x, b.w, starts);
  choose_codes<Codes>(x, fit, kHalf, b.codes);
  store(block, float_to_half(fit.scale));
  if (kBits == 5) store_fifth_bits(b.codes, block + 2);
  store_nibbles(b.codes, block + (kBits == 5 ? 6 : 2));
}

template <int kBits>
void encode_affine(const float* x, const float* importance, AffineStarts starts, uint8_t* block) {
  using Codes = UniformCodes<0, (1 << kBits) - 1>;
  Block b;
  weights_of(importance, kValues, b.w);
  const Fit fit = fit_affine<kValues, Codes, true>(x, b.w, starts);
  choose_codes<Codes>(x, fit, 0, b.codes);
  store(block, float_to_half(fit.scale));
  store(block + 2, float_to_half(fit.min));
  if (kBits == 5) store_fifth_bits(b.codes, block + 4);
  store_nibbles(b.codes, block + (kBits == 5 ? 8 : 4));
}

const float* at(const float* importance, size_t block) {
  return importance == nullptr ? nullptr : importance + block * kValues;
}

}  // namespace

void encode_q8_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  using Codes = UniformCodes<-127, 127>;
  for (size_t i = 0; i < num_blocks; ++i, blocks += 34) {
    const float* const x = values + i * kValues;
    Block b;
    weights_of(at(importance, i), kValues, b.w);
    const Fit fit = fit_scale<kValues, Codes, true>(x, b.w, {126.0f, 0.25f, 8});
    choose_codes<Codes>(x, fit, 0, b.codes);
    store(blocks, float_to_half(fit.scale));
    std::memcpy(blocks + 2, b.codes, kValues);
  }
}

void encode_q4_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 18) {
    encode_scaled<4>(values + i * kValues, at(importance, i), {5.5f, 0.5f, 7}, blocks);
  }
}

void encode_q5_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 22) {
    encode_scaled<5>(values + i * kValues, at(importance, i), {12.0f, 1.0f, 6}, blocks);
  }
}

void encode_q4_1(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 20) {
    encode_affine<4>(values + i * kValues, at(importance, i), {-1.0f, 0.5f, 5}, blocks);
  }
}

void encode_q5_1(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 24) {
    encode_affine<5>(values + i * kValues, at(importance, i), {-1.5f, 0.5f, 5}, blocks);
  }
}

}  // namespace cerne
