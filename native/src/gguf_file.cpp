#include "gguf_file.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>

namespace cerne {
namespace {

// The shortest entries: a key of one byte with a one-byte value; a name of one byte, one dimension.
constexpr uint64_t kLeastMetadataBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
// The format's own limits.
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint32_t kMaxDims = 4;

std::string number(uint64_t value) { return std::to_string(value); }

// Magic, version and the two counts.
constexpr size_t kHeaderBytes = 4 + 4 + 8 + 8;

uint32_t check_header(const uint8_t* bytes, size_t size) {
  if (size < 4 || std::memcmp(bytes, "GGUF", 4) != 0) {
    const size_t shown = std::min<size_t>(size, 4);
    throw invalid("not a GGUF file: it begins with " +
                  quoted({reinterpret_cast<const char*>(bytes), shown}) + "; allowed: 'GGUF'");
  }
  if (size < kHeaderBytes) {
    throw invalid("the file ends inside the header: " + number(size) +
                  " bytes; allowed: " + number(kHeaderBytes) + " or more");
  }
  const auto version = load<uint32_t>(bytes + 4);
  if (version == 2 || version == 3) return version;
  if (version == 0x02000000 || version == 0x03000000) {
    throw invalid("the file is big-endian; allowed: little-endian files");
  }
  throw invalid("GGUF version " + number(version) + "; allowed: 2 and 3");
}

void check_count(const char* what, uint64_t count, uint64_t least_bytes, const GgufCursor& cursor) {
  const uint64_t most = cursor.remaining() / least_bytes;
  if (count <= most) return;
  throw invalid("the file names " + number(count) + " " + what + "; allowed: at most " +
                number(most) + " in the " + number(cursor.remaining()) + " bytes that follow");
}

void check_bools(const uint8_t* values, uint64_t count, std::string_view key) {
  for (uint64_t i = 0; i < count; ++i) {
    if (values[i] > 1) {
      throw invalid("metadata " + quoted(key) + " holds a truth value of " + number(values[i]) +
                    "; allowed: 0 and 1");
    }
  }
}

GgufType read_type(GgufCursor& cursor, const GgufPlace& place, std::string_view key) {
  const auto type = cursor.number<uint32_t>(place);
  if (type <= static_cast<uint32_t>(GgufType::kFloat64)) return static_cast<GgufType>(type);
  throw invalid("metadata " + quoted(key) + " has value type " + number(type) +
                "; allowed: 0 to 12");
}

// A string that names something: not empty, not longer than the format allows.
std::string_view read_name(GgufCursor& cursor, const GgufPlace& place, uint64_t most) {
  const std::string_view name = cursor.string(place);
  if (!name.empty() && name.size() <= most) return name;
  throw invalid(place.text() + " has " + number(name.size()) + " bytes; allowed: 1 to " +
                number(most));
}

GgufMetadata read_entry(GgufCursor& cursor, uint64_t index) {
  const char* const list = "metadata entry";
  GgufMetadata entry{};
  entry.key = read_name(cursor, {"the key", list, index}, kMaxKeyBytes);
  entry.type = read_type(cursor, {"the type", list, index}, entry.key);
  entry.element = entry.type;
  entry.count = 1;
  const GgufPlace place{"the value", list, index};
  if (entry.type == GgufType::kArray) {
    entry.element = read_type(cursor, place, entry.key);
    if (entry.element == GgufType::kArray) {
      throw invalid("metadata " + quoted(entry.key) +
                    " is an array of arrays; allowed: arrays of numbers, truth values and strings");
    }
    entry.count = cursor.number<uint64_t>(place);
  }
  if (entry.element == GgufType::kString) {
    entry.values = cursor.take(0, 1, place);
    // A hostile count ends at the end of the file: every string takes eight bytes at least.
    for (uint64_t i = 0; i < entry.count; ++i) entry.text_bytes += cursor.string(place).size();
    return entry;
  }
  entry.values = cursor.take(entry.count, gguf_type_bytes(entry.element), place);
  if (entry.element == GgufType::kBool) check_bools(entry.values, entry.count, entry.key);
  return entry;
}

// The dimensions of a tensor, and from them its rows and bytes.
void read_shape(GgufCursor& cursor, uint64_t index, GgufTensor& tensor) {
  const GgufPlace place{"the dimensions", "tensor entry", index};
  tensor.num_dims = cursor.number<uint32_t>(place);
  if (tensor.num_dims < 1 || tensor.num_dims > kMaxDims) {
    throw invalid("tensor " + quoted(tensor.name) + " has " + number(tensor.num_dims) +
                  " dimensions; allowed: 1 to 4");
  }
  std::fill_n(tensor.dims, kMaxDims, uint64_t{1});
  uint64_t elements = 1;
  for (uint32_t i = 0; i < tensor.num_dims; ++i) {
    tensor.dims[i] = cursor.number<uint64_t>(place);
    // 2^59 values of eight bytes still fit into a signed 64-bit size.
    if (tensor.dims[i] < 1 || tensor.dims[i] > (uint64_t{1} << 59) / elements) {
      throw invalid("dimension " + number(i) + " of tensor " + quoted(tensor.name) + " is " +
                    number(tensor.dims[i]) + "; allowed: at least 1, and 2^59 values in all");
    }
    elements *= tensor.dims[i];
  }
  tensor.num_rows = elements / tensor.dims[0];
}

void read_tensor_type(GgufCursor& cursor, uint64_t index, GgufTensor& tensor) {
  const auto id = cursor.number<uint32_t>({"the type", "tensor entry", index});
  tensor.type = find_tensor_type(id);
  if (tensor.type == nullptr) {
    throw invalid("tensor " + quoted(tensor.name) + " has the unknown type " + number(id) +
                  "; decoded are " + decodable_types());
  }
  if (tensor.dims[0] % tensor.type->block_values != 0) {
    throw invalid("tensor " + quoted(tensor.name) + " has rows of " + number(tensor.dims[0]) +
                  " values; allowed for " + tensor.type->name + ": multiples of " +
                  number(tensor.type->block_values));
  }
  tensor.row_bytes = tensor.dims[0] / tensor.type->block_values * tensor.type->block_bytes;
}

// `names` are the keys or the tensors' names. Sorting, because a table of hashes can be made slow
// by whoever wrote the file.
void refuse_twins(std::vector<std::string_view> names, const char* what) {
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) {
    throw invalid(std::string(what) + " " + quoted(*twin) + " occurs twice; allowed: once");
  }
}

}  // namespace

uint32_t gguf_type_bytes(GgufType type) {
  constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

void copy_strings(const GgufMetadata& entry, uint8_t* bytes, uint64_t* offsets) {
  const uint8_t* in = entry.values;
  uint64_t end = 0;
  offsets[0] = 0;
  for (uint64_t i = 0; i < entry.count; ++i) {
    const auto length = load<uint64_t>(in);
    if (length > 0) std::memcpy(bytes + end, in + 8, static_cast<size_t>(length));
    in += 8 + length;
    end += length;
    offsets[i + 1] = end;
  }
}

GgufFile::GgufFile(const uint8_t* bytes, size_t size)
    : bytes_(bytes), size_(size), version_(check_header(bytes, size)) {
  const auto num_tensors = load<uint64_t>(bytes + 8), num_metadata = load<uint64_t>(bytes + 16);
  GgufCursor cursor(bytes, size, kHeaderBytes);
  check_count("metadata entries", num_metadata, kLeastMetadataBytes, cursor);
  read_metadata(cursor, num_metadata);
  read_alignment();
  check_count("tensors", num_tensors, kLeastTensorBytes, cursor);
  read_tensors(cursor, num_tensors);
}

void GgufFile::read_metadata(GgufCursor& cursor, uint64_t count) {
  metadata_.reserve(static_cast<size_t>(count));
  std::vector<std::string_view> keys;
  keys.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    metadata_.push_back(read_entry(cursor, i));
    keys.push_back(metadata_.back().key);
  }
  refuse_twins(std::move(keys), "metadata key");
}

void GgufFile::read_alignment() {
  for (const GgufMetadata& entry : metadata_) {
    if (entry.key != "general.alignment") continue;
    if (entry.type != GgufType::kUint32) {
      throw invalid("general.alignment has value type " +
                    number(static_cast<uint32_t>(entry.type)) + "; allowed: 4 (uint32)");
    }
    alignment_ = load<uint32_t>(entry.values);
    if (alignment_ < 8 || !std::has_single_bit(alignment_)) {
      throw invalid("general.alignment is " + number(alignment_) +
                    "; allowed: a power of two, 8 or more");
    }
  }
}

void GgufFile::read_tensors(GgufCursor& cursor, uint64_t count) {
  tensors_.reserve(static_cast<size_t>(count));
  std::vector<std::string_view> names;
  std::vector<uint64_t> offsets;
  names.reserve(static_cast<size_t>(count));
  offsets.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor{};
    tensor.name = read_name(cursor, {"the name", "tensor entry", i}, kMaxNameBytes);
    read_shape(cursor, i, tensor);
    read_tensor_type(cursor, i, tensor);
    offsets.push_back(cursor.number<uint64_t>({"the offset", "tensor entry", i}));
    tensors_.push_back(tensor);
    names.push_back(tensor.name);
  }
  refuse_twins(std::move(names), "tensor name");
  data_offset_ = (cursor.offset() + alignment_ - 1) & ~(alignment_ - 1);
  place_tensors(offsets);
}

// Points each tensor at its data, inside the file and apart from the others.
void GgufFile::place_tensors(const std::vector<uint64_t>& offsets) {
  const uint64_t available = size_ > data_offset_ ? size_ - data_offset_ : 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    if (offsets[i] % alignment_ != 0) {
      throw invalid("the data of tensor " + quoted(tensor.name) + " begin at offset " +
                    number(offsets[i]) + "; allowed: multiples of the alignment " +
                    number(alignment_));
    }
    const uint64_t num_bytes = tensor.row_bytes * tensor.num_rows;
    if (num_bytes > available || offsets[i] > available - num_bytes) {
      throw invalid("the data of tensor " + quoted(tensor.name) + " need " + number(num_bytes) +
                    " bytes at offset " + number(offsets[i]) + "; allowed: inside the " +
                    number(available) + " bytes of data in the file");
    }
    tensor.data = bytes_ + data_offset_ + offsets[i];
  }
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors_[a].data < tensors_[b].data; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor &before = tensors_[order[i - 1]], &after = tensors_[order[i]];
    if (before.data + before.row_bytes * before.num_rows > after.data) {
      throw invalid("the data of tensors " + quoted(before.name) + " and " + quoted(after.name) +
                    " overlap at offset " + number(offsets[order[i]]) +
                    "; allowed: each apart from the others");
    }
  }
}

}  // namespace cerne
