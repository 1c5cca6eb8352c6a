// The C functions of GGUF files: argument checks around MappedFile and GgufFile.
#include <cstring>
#include <string>
#include <string_view>

#include "gguf_file.h"
#include "handle.h"
#include "mapped_file.h"

using cerne::alive;
using cerne::GgufFile;
using cerne::GgufMetadata;
using cerne::GgufTensor;
using cerne::GgufType;
using cerne::guarded;
using cerne::invalid;
using cerne::require;

struct cerne_gguf {
  explicit cerne_gguf(const std::string& path) : mapped(path), file(mapped.data(), mapped.size()) {}

  uint64_t magic = kMagic;
  cerne::MappedFile mapped;
  GgufFile file;

  static constexpr uint64_t kMagic = 0x6365726e67677566ull;
  static constexpr const char* kName = "GGUF";
};

namespace {

static_assert(CERNE_GGUF_UINT8 == static_cast<uint32_t>(GgufType::kUint8));
static_assert(CERNE_GGUF_FLOAT64 == static_cast<uint32_t>(GgufType::kFloat64));

template <typename T>
const T& at(const std::vector<T>& items, uint64_t index, const char* what) {
  if (index < items.size()) return items[static_cast<size_t>(index)];
  throw invalid(std::string(what) + " index " + std::to_string(index) + "; allowed: less than " +
                std::to_string(items.size()));
}

uint64_t statistic(const cerne_gguf& self, std::string_view name) {
  if (name == "version") return self.file.version();
  if (name == "alignment") return self.file.alignment();
  if (name == "file_bytes") return self.mapped.size();
  if (name == "data_offset") return self.file.data_offset();
  if (name == "metadata") return self.file.metadata().size();
  if (name == "tensors") return self.file.tensors().size();
  throw invalid("unknown statistic " + cerne::quoted(name) +
                "; known: version, alignment, file_bytes, data_offset, metadata, tensors");
}

// Writes the size that a buffer needs and says whether `capacity` is enough.
bool has_room(size_t needed, size_t capacity, size_t* size, const char* too_small) {
  *size = needed;
  if (needed <= capacity) return true;
  cerne::set_last_error(too_small);
  return false;
}

}  // namespace

extern "C" {

cerne_status cerne_gguf_open(const char* path, size_t path_length, cerne_gguf** out) {
  return guarded([&]() -> cerne_status {
    require(path != nullptr && out != nullptr, "cerne_gguf_open: a required pointer is null");
    const std::string name(path, path_length);
    require(name.find('\0') == std::string::npos, "cerne_gguf_open: the path holds a zero byte");
    *out = new cerne_gguf(name);
    return CERNE_OK;
  });
}

void cerne_gguf_destroy(cerne_gguf* gguf) { cerne::destroy(gguf); }

cerne_status cerne_gguf_statistic(const cerne_gguf* gguf, const char* name, size_t name_length,
                                  uint64_t* value) {
  return guarded([&]() -> cerne_status {
    const cerne_gguf& self = alive(gguf);
    require(name != nullptr && value != nullptr,
            "cerne_gguf_statistic: a required pointer is null");
    *value = statistic(self, {name, name_length});
    return CERNE_OK;
  });
}

cerne_status cerne_gguf_metadata(const cerne_gguf* gguf, uint64_t index, const char** key,
                                 size_t* key_length, uint32_t* type, uint32_t* element_type,
                                 uint64_t* count) {
  return guarded([&]() -> cerne_status {
    const GgufMetadata& entry = at(alive(gguf).file.metadata(), index, "metadata");
    require(key != nullptr && key_length != nullptr && type != nullptr && element_type != nullptr &&
                count != nullptr,
            "cerne_gguf_metadata: a required pointer is null");
    *key = entry.key.data();
    *key_length = entry.key.size();
    *type = static_cast<uint32_t>(entry.type);
    *element_type = static_cast<uint32_t>(entry.element);
    *count = entry.count;
    return CERNE_OK;
  });
}

cerne_status cerne_gguf_values(const cerne_gguf* gguf, uint64_t index, uint8_t* bytes,
                               size_t capacity, size_t* num_bytes) {
  return guarded([&]() -> cerne_status {
    const GgufMetadata& entry = at(alive(gguf).file.metadata(), index, "metadata");
    require((bytes != nullptr || capacity == 0) && num_bytes != nullptr,
            "cerne_gguf_values: a required pointer is null");
    require(entry.element != GgufType::kString,
            "cerne_gguf_values: the values are strings; use cerne_gguf_strings");
    const auto size = static_cast<size_t>(entry.count * cerne::gguf_type_bytes(entry.element));
    if (!has_room(size, capacity, num_bytes, "cerne_gguf_values: the buffer is too small")) {
      return CERNE_BUFFER_TOO_SMALL;
    }
    if (size > 0) std::memcpy(bytes, entry.values, size);
    return CERNE_OK;
  });
}

cerne_status cerne_gguf_strings(const cerne_gguf* gguf, uint64_t index, uint8_t* bytes,
                                size_t capacity, size_t* num_bytes, uint64_t* offsets) {
  return guarded([&]() -> cerne_status {
    const GgufMetadata& entry = at(alive(gguf).file.metadata(), index, "metadata");
    require((bytes != nullptr || capacity == 0) && num_bytes != nullptr && offsets != nullptr,
            "cerne_gguf_strings: a required pointer is null");
    require(entry.element == GgufType::kString,
            "cerne_gguf_strings: the values are not strings; use cerne_gguf_values");
    if (!has_room(static_cast<size_t>(entry.text_bytes), capacity, num_bytes,
                  "cerne_gguf_strings: the buffer is too small")) {
      return CERNE_BUFFER_TOO_SMALL;
    }
    cerne::copy_strings(entry, bytes, offsets);
    return CERNE_OK;
  });
}

cerne_status cerne_gguf_tensor(const cerne_gguf* gguf, uint64_t index, const char** name,
                               size_t* name_length, const char** type, uint32_t* num_dims,
                               uint64_t* dims, uint64_t* num_bytes) {
  return guarded([&]() -> cerne_status {
    const GgufTensor& tensor = at(alive(gguf).file.tensors(), index, "tensor");
    require(name != nullptr && name_length != nullptr && type != nullptr && num_dims != nullptr &&
                dims != nullptr && num_bytes != nullptr,
            "cerne_gguf_tensor: a required pointer is null");
    *name = tensor.name.data();
    *name_length = tensor.name.size();
    *type = tensor.type->name;
    *num_dims = tensor.num_dims;
    std::memcpy(dims, tensor.dims, sizeof(tensor.dims));
    *num_bytes = tensor.row_bytes * tensor.num_rows;
    return CERNE_OK;
  });
}

cerne_status cerne_gguf_dequantize(const cerne_gguf* gguf, uint64_t index, uint64_t first_row,
                                   uint64_t num_rows, float* values, size_t capacity,
                                   size_t* num_values) {
  return guarded([&]() -> cerne_status {
    const GgufTensor& tensor = at(alive(gguf).file.tensors(), index, "tensor");
    require((values != nullptr || capacity == 0) && num_values != nullptr,
            "cerne_gguf_dequantize: a required pointer is null");
    if (tensor.type->dequantize == nullptr) {
      throw invalid("tensor " + cerne::quoted(tensor.name) + " has type " + tensor.type->name +
                    "; allowed: " + cerne::decodable_types());
    }
    if (first_row > tensor.num_rows || num_rows > tensor.num_rows - first_row) {
      throw invalid("rows " + std::to_string(first_row) + " and " + std::to_string(num_rows) +
                    " on of tensor " + cerne::quoted(tensor.name) + "; allowed: inside its " +
                    std::to_string(tensor.num_rows) + " rows");
    }
    const uint64_t blocks = tensor.dims[0] / tensor.type->block_values * num_rows;
    if (!has_room(static_cast<size_t>(tensor.dims[0] * num_rows), capacity, num_values,
                  "cerne_gguf_dequantize: the buffer is too small")) {
      return CERNE_BUFFER_TOO_SMALL;
    }
    if (blocks > 0) {
      tensor.type->dequantize(tensor.data + first_row * tensor.row_bytes,
                              static_cast<size_t>(blocks), values);
    }
    return CERNE_OK;
  });
}

}  // extern "C"
