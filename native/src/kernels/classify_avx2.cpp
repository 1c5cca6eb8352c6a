// Nothing but intrinsics here: an inline function shared with other files could be compiled for
// AVX2 and then be the copy that the linker keeps for every CPU.
#include "kernels/classify.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace cerne {
namespace {

struct Window {
  __m256i low, high;
};

inline uint64_t bits(__m256i low, __m256i high) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32;
}

// 0xFF where first <= byte <= last, unsigned.
inline __m256i between(__m256i bytes, uint8_t first, uint8_t last) {
  const __m256i above = _mm256_sub_epi8(bytes, _mm256_set1_epi8(static_cast<char>(first)));
  const __m256i span = _mm256_set1_epi8(static_cast<char>(last - first));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(above, span), above);
}

inline uint64_t between(const Window& w, uint8_t first, uint8_t last) {
  return bits(between(w.low, first, last), between(w.high, first, last));
}

inline uint64_t equal(const Window& w, uint8_t byte) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(byte));
  return bits(_mm256_cmpeq_epi8(w.low, wanted), _mm256_cmpeq_epi8(w.high, wanted));
}

}  // namespace

void classify64_avx2(const uint8_t* bytes, ClassMasks* masks) {
  const Window w{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)),
                 _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32))};
  const __m256i fold = _mm256_set1_epi8(0x20);
  const Window folded{_mm256_or_si256(w.low, fold), _mm256_or_si256(w.high, fold)};
  uint64_t letter = between(folded, 'a', 'z');
  const uint64_t blank = equal(w, ' ');
  uint64_t unknown = bits(w.low, w.high);
  if (unknown != 0) {
    const uint64_t continuation = between(w, 0x80, 0xBF);
    uint64_t lead = between(w, 0xC3, 0xC9) | between(w, 0xD0, 0xD1);
    const uint64_t sign = equal(w, 0x97) | equal(w, 0xB7);
    lead &= continuation >> 1;
    lead &= ~(equal(w, 0xC3) & (sign >> 1));
    const uint64_t both = lead | lead << 1;
    letter |= both;
    unknown &= ~both;
  }
  masks->letter = letter;
  masks->digit = between(w, '0', '9');
  masks->space = between(w, 9, 13) | blank;
  masks->blank = blank;
  masks->newline = equal(w, '\n') | equal(w, '\r');
  masks->apostrophe = equal(w, '\'');
  masks->unknown = unknown;
}

}  // namespace cerne
#endif
