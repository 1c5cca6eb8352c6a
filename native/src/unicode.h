// UTF-8 decoding and the four character classes that pre-tokenization needs.
#ifndef CERNE_SRC_UNICODE_H_
#define CERNE_SRC_UNICODE_H_

#include <cstddef>
#include <cstdint>

namespace cerne {

enum class CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Two-stage table (unicode_tables.cpp): block of 256 code points -> 64 bytes of 2-bit classes.
extern const uint8_t kClassBlock[0x1100];
extern const uint8_t kClassBits[];

inline CharClass class_of(uint32_t code_point) {
  const size_t block = kClassBlock[code_point >> 8];
  const uint32_t low = code_point & 0xFF;
  return static_cast<CharClass>(kClassBits[block * 64 + (low >> 2)] >> ((low & 3) * 2) & 3);
}

struct Char {
  uint32_t code_point;
  uint32_t size;  // bytes, at least 1
  CharClass cls;
};

inline bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Decodes the character at p < end. A byte that does not begin a well-formed sequence (Unicode
// table 3-7) counts as one character of class other, so every byte string can be walked.
inline Char decode_char(const uint8_t* p, const uint8_t* end) {
  const uint32_t lead = *p;
  if (lead < 0x80) return {lead, 1, class_of(lead)};
  const ptrdiff_t left = end - p;
  constexpr Char kInvalid{0xFFFD, 1, CharClass::kOther};
  if (lead < 0xC2 || lead > 0xF4) return kInvalid;
  if (left < 2 || !is_continuation(p[1])) return kInvalid;
  if (lead < 0xE0) {
    const uint32_t point = (lead & 0x1F) << 6 | (p[1] & 0x3Fu);
    return {point, 2, class_of(point)};
  }
  if (left < 3 || !is_continuation(p[2])) return kInvalid;
  if (lead < 0xF0) {
    const uint32_t point = (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    if (point < 0x800 || (point >= 0xD800 && point < 0xE000)) return kInvalid;
    return {point, 3, class_of(point)};
  }
  if (left < 4 || !is_continuation(p[3])) return kInvalid;
  const uint32_t point =
      (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  if (point < 0x10000 || point > 0x10FFFF) return kInvalid;
  return {point, 4, class_of(point)};
}

}  // namespace cerne

#endif  // CERNE_SRC_UNICODE_H_
