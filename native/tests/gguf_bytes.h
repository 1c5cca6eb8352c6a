// Builds the bytes of small GGUF files, right and wrong ones.
#ifndef CERNE_TESTS_GGUF_BYTES_H_
#define CERNE_TESTS_GGUF_BYTES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace cerne_test {

class GgufBytes {
 public:
  explicit GgufBytes(uint64_t num_tensors, uint64_t num_metadata, uint32_t version = 3) {
    raw("GGUF").add(version).add(num_tensors).add(num_metadata);
  }

  template <typename T>
  GgufBytes& add(T value) {
    char raw_value[sizeof(value)];
    std::memcpy(raw_value, &value, sizeof(value));
    return raw({raw_value, sizeof(value)});
  }

  GgufBytes& raw(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<uint8_t>(c));
    return *this;
  }

  GgufBytes& string(std::string_view text) { return add(uint64_t{text.size()}).raw(text); }

  GgufBytes& key(std::string_view name, uint32_t type) { return string(name).add(type); }

  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                    uint64_t offset) {
    string(name).add(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) add(dim);
    return add(type).add(offset);
  }

  GgufBytes& pad(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Every value type, an array of each kind, three tensors of three block formats.
inline std::vector<uint8_t> small_gguf() {
  GgufBytes file(3, 15);
  file.key("general.architecture", 8).string("llama");
  file.key("general.alignment", 4).add(uint32_t{64});
  file.key("u8", 0).add(uint8_t{200}).key("i8", 1).add(int8_t{-7});
  file.key("u16", 2).add(uint16_t{60000}).key("i16", 3).add(int16_t{-300});
  file.key("i32", 5).add(int32_t{-70000}).key("f32", 6).add(1.5f);
  file.key("bool", 7).add(uint8_t{1}).key("u64", 10).add(uint64_t{1} << 60);
  file.key("i64", 11).add(-(int64_t{1} << 60)).key("f64", 12).add(0.1);
  file.key("tokens", 9).add(uint32_t{8}).add(uint64_t{3});
  file.string("a").string("").string("bc");
  file.key("scores", 9).add(uint32_t{6}).add(uint64_t{2}).add(0.25f).add(-4.0f);
  file.key("flags", 9).add(uint32_t{7}).add(uint64_t{2}).add(uint8_t{0}).add(uint8_t{1});
  file.tensor("w", {32, 2}, 2, 0).tensor("b", {3}, 0, 64).tensor("h", {2, 1, 2}, 1, 128);
  file.pad(64);
  for (int i = 0; i < 36; ++i) file.add(static_cast<uint8_t>(7 * i));
  file.pad(64).add(1.0f).add(-2.0f).add(0.5f).pad(64);
  for (const int half : {0x3c00, 0xc000, 0x0001, 0x7c00}) file.add(static_cast<uint16_t>(half));
  return file.bytes();
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_GGUF_BYTES_H_
