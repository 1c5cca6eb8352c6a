// F32, F16 and BF16: one value is one block.
#include <cstring>

#include "formats/dequantize.h"
#include "formats/half.h"

namespace cerne {

void dequantize_f32(const uint8_t* blocks, size_t num_blocks, float* values) {
  std::memcpy(values, blocks, num_blocks * sizeof(float));
}

void dequantize_f16(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (size_t i = 0; i < num_blocks; ++i) values[i] = load_half(blocks + 2 * i);
}

void dequantize_bf16(const uint8_t* blocks, size_t num_blocks, float* values) {
  for (size_t i = 0; i < num_blocks; ++i) {
    values[i] = bfloat16_to_float(load<uint16_t>(blocks + 2 * i));
  }
}

}  // namespace cerne
