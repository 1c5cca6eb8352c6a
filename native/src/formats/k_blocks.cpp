// The K formats: super-blocks of 256 values whose groups have small integer scales of their own.
// d and dmin are binary16; scale and min are the six-bit or eight-bit integers of the group.
//
//   format  bytes  layout                                       value
//   Q4_K    144    d[2] dmin[2] scales[12] q[128]               (d * scale) * q - (dmin * min)
//   Q5_K    176    d[2] dmin[2] scales[12] high[32] q[128]      (d * scale) * q - (dmin * min)
//   Q6_K    210    q[128] high[64] scales[16] d[2]              (d * scale) * (q - 32)
//
// Q4_K and Q5_K have 8 groups of 32 values. Groups 2c and 2c + 1 share the bytes q[32c .. 32c +
// 32): low four bits the first, high four bits the second. Bit g of high[i] is the fifth bit of
// value i of group g. Q6_K has 16 groups of 16 values with signed scales. Each half of 128 values
// has 64 bytes of q and 32 of high: the value at 32 * part + i (part 0 .. 3) takes four bits of
// q[32 * (part % 2) + i], the low ones for part 0 and 1, and bits 2 * part and 2 * part + 1 of
// high[i].
#include "formats/dequantize.h"
#include "formats/half.h"

namespace cerne {
namespace {

constexpr int kValues = 256;

struct ScaleAndMin {
  float scale;
  float min;
};

// Six-bit scale and min of group g (0 .. 7). Groups 0 to 3: the low six bits of bytes g and g + 4.
// Groups 4 to 7: four bits in byte g + 4 (scale low, min high) under the spare two bits of byte
// g - 4 (scale) and byte g (min).
ScaleAndMin group_scales(const uint8_t* packed, int g) {
  if (g < 4) {
    return {static_cast<float>(packed[g] & 63), static_cast<float>(packed[g + 4] & 63)};
  }
  const int scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
  const int min = (packed[g + 4] >> 4) | (packed[g] >> 6) << 4;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

}  // namespace

void dequantize_q4_k(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 144, values += kValues) {
    const float d = load_half(blocks), dmin = load_half(blocks + 2);
    for (int g = 0; g < 8; ++g) {
      const ScaleAndMin group = group_scales(blocks + 4, g);
      const float scale = d * group.scale, min = dmin * group.min;
      const uint8_t* const codes = blocks + 16 + g / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int q = (codes[i] >> (g % 2 * 4)) & 15;
        values[32 * g + i] = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void dequantize_q5_k(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 176, values += kValues) {
    const float d = load_half(blocks), dmin = load_half(blocks + 2);
    const uint8_t* const high = blocks + 16;
    for (int g = 0; g < 8; ++g) {
      const ScaleAndMin group = group_scales(blocks + 4, g);
      const float scale = d * group.scale, min = dmin * group.min;
      const uint8_t* const codes = blocks + 48 + g / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int q = ((codes[i] >> (g % 2 * 4)) & 15) | ((high[i] >> g) & 1) << 4;
        values[32 * g + i] = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void dequantize_q6_k(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 210, values += kValues) {
    const float d = load_half(blocks + 208);
    for (int at = 0; at < kValues; ++at) {
      const int half = at / 128, part = at / 32 % 4, i = at % 32;
      const int low = blocks[64 * half + 32 * (part % 2) + i] >> (part / 2 * 4) & 15;
      const int high = blocks[128 + 32 * half + i] >> (2 * part) & 3;
      const auto scale = static_cast<float>(static_cast<int8_t>(blocks[192 + at / 16]));
      values[at] = (d * scale) * static_cast<float>((low | high << 4) - 32);
    }
  }
}

}  // namespace cerne
