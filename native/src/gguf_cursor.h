// Reading a hostile byte string from front to back: every step is checked against what is left.
#ifndef CERNE_SRC_GGUF_CURSOR_H_
#define CERNE_SRC_GGUF_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/little_endian.h"
#include "status.h"

namespace cerne {

// Text of a file inside an error message: unprintable bytes as \xNN, cut after 64 bytes.
std::string quoted(std::string_view text);

// Where in the file the cursor is, for the message: "the key of metadata entry 3".
struct GgufPlace {
  const char* part;
  const char* list;
  uint64_t index;

  std::string text() const;
};

class GgufCursor {
 public:
  GgufCursor(const uint8_t* bytes, size_t size, size_t at) : bytes_(bytes), size_(size), at_(at) {}

  uint64_t offset() const { return at_; }
  uint64_t remaining() const { return size_ - at_; }

  // The next `count` items of `item_bytes` each. Throws when the file is shorter.
  const uint8_t* take(uint64_t count, uint64_t item_bytes, const GgufPlace& place) {
    // A division, because a hostile count would overflow the product.
    if (count > remaining() / item_bytes) throw ends_inside(count, item_bytes, place);
    const uint8_t* const start = bytes_ + at_;
    at_ += static_cast<size_t>(count * item_bytes);
    return start;
  }

  template <typename T>
  T number(const GgufPlace& place) {
    return load<T>(take(1, sizeof(T), place));
  }

  // A length of eight bytes, then that many bytes.
  std::string_view string(const GgufPlace& place) {
    const auto length = number<uint64_t>(place);
    const uint8_t* const text = take(length, 1, place);
    return {reinterpret_cast<const char*>(text), static_cast<size_t>(length)};
  }

 private:
  Error ends_inside(uint64_t count, uint64_t item_bytes, const GgufPlace& place) const;

  const uint8_t* bytes_;
  size_t size_;
  size_t at_;
};

}  // namespace cerne

#endif  // CERNE_SRC_GGUF_CURSOR_H_
