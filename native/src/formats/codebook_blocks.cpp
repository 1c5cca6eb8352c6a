// IQ4_NL: 32 values in 18 bytes, d[2] q[16]. The four-bit code q names one of 16 unevenly spaced
// levels; value = d * level[q], d binary16. Byte j holds value j in its low and value j + 16 in its
// high four bits.
#include "formats/codebook.h"
#include "formats/dequantize.h"
#include "formats/half.h"

namespace cerne {

void dequantize_iq4_nl(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, values += 32) {
    const float d = load_half(blocks);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * kIq4Levels[blocks[2 + i] & 15];
      values[i + 16] = d * kIq4Levels[blocks[2 + i] >> 4];
    }
  }
}

}  // namespace cerne
