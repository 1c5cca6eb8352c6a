#include "gguf_cursor.h"

namespace cerne {

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 64;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      const auto byte = static_cast<uint8_t>(c);
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

std::string GgufPlace::text() const {
  return std::string(part) + " of " + list + " " + std::to_string(index);
}

Error GgufCursor::ends_inside(uint64_t count, uint64_t item_bytes, const GgufPlace& place) const {
  // Not the product, which may overflow.
  const std::string times = count == 1 ? "" : std::to_string(count) + " x ";
  return invalid("the file ends inside " + place.text() + ": " + times +
                 std::to_string(item_bytes) + " bytes wanted at offset " + std::to_string(at_) +
                 ", " + std::to_string(remaining()) + " left");
}

}  // namespace cerne
