// The tensor types of GGUF files: name, geometry and decoder of each.
#ifndef CERNE_SRC_FORMATS_TENSOR_TYPE_H_
#define CERNE_SRC_FORMATS_TENSOR_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace cerne {

// Decodes num_blocks blocks into num_blocks * block_values floats.
using Dequantize = void (*)(const uint8_t* blocks, size_t num_blocks, float* values);

struct TensorType {
  uint32_t id;            // as stored in the file
  const char* name;       // as everybody writes it: "Q4_K"
  uint32_t block_values;  // a row holds a whole number of blocks of this many values
  uint32_t block_bytes;
  Dequantize dequantize;  // null: the type is known by size and name only
};

// The type with this id, or null.
const TensorType* find_tensor_type(uint32_t id);

// The type with this name, or null.
const TensorType* find_tensor_type(const std::string& name);

// Names of the types that have a decoder: "F32, F16, ...".
std::string decodable_types();

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_TENSOR_TYPE_H_
