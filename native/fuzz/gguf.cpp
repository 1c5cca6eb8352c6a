// A GGUF file of any bytes: either refused, or all of it can be read.
#include <vector>

#include "gguf_file.h"
#include "targets.h"

namespace {

// Longer rows are only decoded in part, so that one input takes little time.
constexpr uint64_t kMostBlocks = 64;

void read_values(const cerne::GgufMetadata& entry) {
  if (entry.element == cerne::GgufType::kString) {
    std::vector<uint8_t> text(entry.text_bytes);
    std::vector<uint64_t> offsets(entry.count + 1);
    cerne::copy_strings(entry, text.data(), offsets.data());
    return;
  }
  const std::vector<uint8_t> copy(
      entry.values, entry.values + entry.count * cerne::gguf_type_bytes(entry.element));
}

void decode_ends(const cerne::GgufTensor& tensor) {
  const uint64_t blocks = tensor.num_rows * (tensor.dims[0] / tensor.type->block_values);
  const uint64_t some = blocks < kMostBlocks ? blocks : kMostBlocks;
  const uint8_t* const last = tensor.data + (blocks - some) * tensor.type->block_bytes;
  std::vector<float> values(some * tensor.type->block_values);
  tensor.type->dequantize(tensor.data, some, values.data());
  tensor.type->dequantize(last, some, values.data());
}

}  // namespace

void cerne_fuzz::gguf(const uint8_t* bytes, size_t size) {
  try {
    const cerne::GgufFile file(bytes, size);
    for (const cerne::GgufMetadata& entry : file.metadata()) read_values(entry);
    for (const cerne::GgufTensor& tensor : file.tensors()) {
      if (tensor.type->dequantize != nullptr) decode_ends(tensor);
    }
  } catch (const cerne::Error&) {
    // Refused with a sentence, which is what a damaged file deserves.
  }
}
