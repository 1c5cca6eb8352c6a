#include "kernels/classify.h"

namespace cerne {
namespace {

bool leads_letter(uint8_t byte) {
  return (byte >= 0xC3 && byte <= 0xC9) || byte == 0xD0 || byte == 0xD1;
}

}  // namespace

void classify64_scalar(const uint8_t* bytes, ClassMasks* masks) {
  ClassMasks m{};
  for (int i = 0; i < 64; ++i) {
    const uint8_t byte = bytes[i];
    const uint64_t bit = uint64_t{1} << i;
    const uint8_t folded = byte | 0x20;
    if (folded >= 'a' && folded <= 'z') m.letter |= bit;
    if (byte >= '0' && byte <= '9') m.digit |= bit;
    if (byte == ' ' || (byte >= 9 && byte <= 13)) m.space |= bit;
    if (byte == ' ') m.blank |= bit;
    if (byte == '\r' || byte == '\n') m.newline |= bit;
    if (byte == '\'') m.apostrophe |= bit;
    if (byte < 0x80) continue;
    m.unknown |= bit;
    if (i == 63 || !leads_letter(byte)) continue;
    const uint8_t next = bytes[i + 1];
    const bool is_sign = byte == 0xC3 && (next == 0x97 || next == 0xB7);
    if (next < 0x80 || next > 0xBF || is_sign) continue;
    m.letter |= bit | bit << 1;
    m.unknown &= ~bit;
    ++i;
  }
  *masks = m;
}

}  // namespace cerne
