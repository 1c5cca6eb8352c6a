#include "model/source.h"

#include <string_view>

#include "formats/little_endian.h"
#include "gguf_cursor.h"
#include "status.h"

namespace cerne {
namespace {

double number_of(const GgufMetadata& entry) {
  switch (entry.type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return load<uint8_t>(entry.values);
    case GgufType::kInt8:
      return load<int8_t>(entry.values);
    case GgufType::kUint16:
      return load<uint16_t>(entry.values);
    case GgufType::kInt16:
      return load<int16_t>(entry.values);
    case GgufType::kUint32:
      return load<uint32_t>(entry.values);
    case GgufType::kInt32:
      return load<int32_t>(entry.values);
    case GgufType::kFloat32:
      return static_cast<double>(load<float>(entry.values));
    case GgufType::kUint64:
      return static_cast<double>(load<uint64_t>(entry.values));
    case GgufType::kInt64:
      return static_cast<double>(load<int64_t>(entry.values));
    default:
      return load<double>(entry.values);
  }
}

std::string text_of(const GgufMetadata& entry) {
  std::string text(static_cast<size_t>(entry.text_bytes), '\0');
  uint64_t offsets[2];
  copy_strings(entry, reinterpret_cast<uint8_t*>(text.data()), offsets);
  return text;
}

}  // namespace

ModelSource source_of(const GgufFile& file) {
  ModelSource source;
  for (const GgufMetadata& entry : file.metadata()) {
    if (entry.key == "general.architecture" && entry.type == GgufType::kString) {
      source.architecture = text_of(entry);
    }
  }
  if (source.architecture.empty()) throw invalid("the file has no general.architecture");
  source.neighbour_pairs = source.architecture == "llama";
  const std::string prefix = source.architecture + ".";
  for (const GgufMetadata& entry : file.metadata()) {
    if (entry.key.substr(0, prefix.size()) != prefix) continue;
    const std::string name(entry.key.substr(prefix.size()));
    if (entry.type == GgufType::kArray) {
      throw invalid(quoted(entry.key) + " is a list; this engine knows one number for all layers");
    }
    if (entry.type == GgufType::kString) {
      source.texts[name] = text_of(entry);
    } else {
      source.numbers[name] = number_of(entry);
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    source.tensors[std::string(tensor.name)] = {tensor.type, tensor.data, tensor.num_rows,
                                                tensor.dims[0]};
  }
  return source;
}

}  // namespace cerne
