// A GGUF file, version 2 or 3, little-endian: metadata and a table of tensors over mapped bytes.
//
//   "GGUF"  version u32  number of tensors u64  number of metadata entries u64
//   metadata entries: key string, value type u32, value
//   tensor entries: name string, number of dimensions u32, dimensions u64 each (row width first),
//                   type u32, offset u64 (from the beginning of the data)
//   padding to a multiple of general.alignment (32 when absent), then the tensors' data
//
// A string is a length u64 and bytes; an array is an element type u32, a count u64 and the
// elements. The file is untrusted: everything is checked before it is used, and the memory taken is
// at most a few times the size of the tables in the file. Leaves out arrays of arrays, which no
// model has.
#ifndef CERNE_SRC_GGUF_FILE_H_
#define CERNE_SRC_GGUF_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/tensor_type.h"
#include "gguf_cursor.h"

namespace cerne {

// The numbers are those of the format and of CERNE_GGUF_UINT8 and its neighbours in cerne.h.
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

struct GgufMetadata {
  std::string_view key;
  GgufType type;          // kArray for an array
  GgufType element;       // type of an array's elements; `type` for a single value
  uint64_t count;         // 1 for a single value
  const uint8_t* values;  // the elements as they lie in the file
  uint64_t text_bytes;    // of all strings together, without their lengths
};

struct GgufTensor {
  std::string_view name;
  const TensorType* type;
  uint32_t num_dims;
  uint64_t dims[4];  // row width first; 1 from num_dims on
  uint64_t num_rows;
  uint64_t row_bytes;
  const uint8_t* data;
};

// Bytes of one value; 0 for strings and arrays.
uint32_t gguf_type_bytes(GgufType type);

// Copies the strings of an entry one after the other: string i is bytes[offsets[i] ..
// offsets[i + 1]). Room: text_bytes, and count + 1 offsets.
void copy_strings(const GgufMetadata& entry, uint8_t* bytes, uint64_t* offsets);

class GgufFile {
 public:
  // `bytes` must outlive this. Throws an invalid-argument Error: what, value, allowed.
  GgufFile(const uint8_t* bytes, size_t size);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const { return data_offset_; }
  const std::vector<GgufMetadata>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  void read_metadata(GgufCursor& cursor, uint64_t count);
  void read_tensors(GgufCursor& cursor, uint64_t count);
  void read_alignment();
  void place_tensors(const std::vector<uint64_t>& offsets);

  const uint8_t* bytes_;
  size_t size_;
  uint32_t version_;
  uint64_t alignment_ = 32;
  uint64_t data_offset_ = 0;
  std::vector<GgufMetadata> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace cerne

#endif  // CERNE_SRC_GGUF_FILE_H_
