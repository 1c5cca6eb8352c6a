// F16 and BF16: each value rounded to nearest, ties to even.
#include "formats/half.h"
#include "formats/little_endian.h"
#include "formats/quantize.h"

namespace cerne {

void encode_f16(const float* values, size_t num_blocks, const float*, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i) store(blocks + 2 * i, float_to_half(values[i]));
}

void encode_bf16(const float* values, size_t num_blocks, const float*, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    store(blocks + 2 * i, static_cast<uint16_t>(rounded));
  }
}

}  // namespace cerne
