// The formats with one scale for 32 values. q is the stored code, d and m are binary16:
//
//   format  bytes  layout                                    value
//   Q8_0    34     d[2] q[32], q signed 8 bits               d * q
//   Q4_0    18     d[2] q[16]                                d * (q - 8)
//   Q4_1    20     d[2] m[2] q[16]                           d * q + m
//   Q5_0    22     d[2] high[4] q[16]                        d * (q - 16)
//   Q5_1    24     d[2] m[2] high[4] q[16]                   d * q + m
//
// Byte j of the packed codes holds value j in its low and value j + 16 in its high four bits.
// Bit i of `high` (little-endian, 32 bits) is the fifth bit of value i.
#include "formats/dequantize.h"
#include "formats/half.h"

namespace cerne {
namespace {

constexpr int kValues = 32;

// The four-bit code of value i.
int nibble(const uint8_t* codes, int i) { return (codes[i % 16] >> (i / 16 * 4)) & 15; }

// The five-bit code of value i.
int five_bits(const uint8_t* codes, uint32_t high, int i) {
  return nibble(codes, i) | static_cast<int>((high >> i) & 1) << 4;
}

}  // namespace

void dequantize_q8_0(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 34, values += kValues) {
    const float d = load_half(blocks);
    for (int i = 0; i < kValues; ++i) {
      values[i] = d * static_cast<float>(static_cast<int8_t>(blocks[2 + i]));
    }
  }
}

void dequantize_q4_0(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, values += kValues) {
    const float d = load_half(blocks);
    for (int i = 0; i < kValues; ++i) {
      values[i] = d * static_cast<float>(nibble(blocks + 2, i) - 8);
    }
  }
}

void dequantize_q4_1(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 20, values += kValues) {
    const float d = load_half(blocks), m = load_half(blocks + 2);
    for (int i = 0; i < kValues; ++i) {
      values[i] = d * static_cast<float>(nibble(blocks + 4, i)) + m;
    }
  }
}

void dequantize_q5_0(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 22, values += kValues) {
    const float d = load_half(blocks);
    const auto high = load<uint32_t>(blocks + 2);
    for (int i = 0; i < kValues; ++i) {
      values[i] = d * static_cast<float>(five_bits(blocks + 6, high, i) - 16);
    }
  }
}

void dequantize_q5_1(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 24, values += kValues) {
    const float d = load_half(blocks), m = load_half(blocks + 2);
    const auto high = load<uint32_t>(blocks + 4);
    for (int i = 0; i < kValues; ++i) {
      values[i] = d * static_cast<float>(five_bits(blocks + 8, high, i)) + m;
    }
  }
}

}  // namespace cerne
