// IQ4_NL: 32 values in 18 bytes, d[2] q[16]. The four-bit code q names one of 16 unevenly spaced
// levels; value = d * level[q], d binary16. Byte j holds value j in its low and value j + 16 in its
// high four bits.
#include "formats/dequantize.h"
#include "formats/half.h"

namespace cerne {
namespace {

// Closer together near zero, where most weights are. Fixed by the format.
constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace

void dequantize_iq4_nl(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, values += 32) {
    const float d = load_half(blocks);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * kLevels[blocks[2 + i] & 15];
      values[i + 16] = d * kLevels[blocks[2 + i] >> 4];
    }
  }
}

}  // namespace cerne
