// Character classes of 64 bytes as bit masks, one bit a byte: the part of pre-tokenization that
// depends on the instruction set.
#ifndef CERNE_SRC_KERNELS_CLASSIFY_H_
#define CERNE_SRC_KERNELS_CLASSIFY_H_

#include <cstdint>

namespace cerne {

struct ClassMasks {
  uint64_t letter;      // ASCII letters, and both bytes of the two-byte letters named below
  uint64_t digit;       // 0-9
  uint64_t space;       // ASCII white space: 9 to 13 and 32
  uint64_t blank;       // 32 alone
  uint64_t newline;     // \r and \n
  uint64_t apostrophe;  // '
  uint64_t unknown;     // bytes >= 0x80 that are not in `letter`: to be decoded one by one
};

// Two-byte letters that are recognised: U+00C0 to U+027F without the signs U+00D7 and U+00F7, and
// U+0400 to U+047F; all of these are letters. A sequence cut by the end of the window is unknown.
void classify64_scalar(const uint8_t* bytes, ClassMasks* masks);
void classify64_avx2(const uint8_t* bytes, ClassMasks* masks);

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_CLASSIFY_H_
