// A model as it is stored: numbers, texts and tensors by name, whatever file they come from.
//
// Names are those of GGUF files, metadata without the architecture in front ("block_count",
// "blk.0.attn_q.weight"), so that a file maps onto this one to one.
#ifndef CERNE_SRC_MODEL_SOURCE_H_
#define CERNE_SRC_MODEL_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>

#include "formats/tensor_type.h"
#include "gguf_file.h"

namespace cerne {

struct StoredTensor {
  const TensorType* type;
  const uint8_t* data;  // rows one after the other
  uint64_t rows;
  uint64_t width;
};

struct ModelSource {
  std::string architecture;
  // Whether a head's rotated pairs are neighbours (GGUF files of the llama architecture), not
  // element i of the first half with element i of the second.
  bool neighbour_pairs = false;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, StoredTensor> tensors;
};

// What an open file holds; the data stay in the file. Throws an invalid-argument Error when the
// file names no architecture.
ModelSource source_of(const GgufFile& file);

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_SOURCE_H_
