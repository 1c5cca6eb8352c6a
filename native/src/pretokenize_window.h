// Pre-token boundaries of a window of at most 64 bytes by bit arithmetic: bit i stands for byte i.
// The window begins at a boundary. Where the masks cannot tell (the last pre-token, a character to
// be decoded, white space that reaches the end or has a line break late) the boundaries stop short
// and the caller goes on with next_pretoken.
#ifndef CERNE_SRC_PRETOKENIZE_WINDOW_H_
#define CERNE_SRC_PRETOKENIZE_WINDOW_H_

#include <bit>

#include "kernels/classify.h"
#include "pretokenize.h"

namespace cerne {
namespace pretokenize_detail {

// Bits 0 to i.
inline uint64_t bits_through(int i) { return ~uint64_t{0} >> (63 - i); }

// Highest bit of `starts` that is not above bit i.
inline int last_at(uint64_t starts, int i) {
  return 63 - std::countl_zero(starts & bits_through(i));
}

// gpt2 and smollm: where pre-tokens start, contractions aside.
template <bool kSplitDigits>
uint64_t starts_gpt2(const ClassMasks& m, uint64_t other) {
  const uint64_t space = m.space;
  uint64_t run_starts = (m.letter & ~(m.letter << 1)) | (other & ~(other << 1));
  uint64_t last_space = space & ~(space >> 1);
  if (kSplitDigits) {
    last_space &= ~(m.digit >> 1);
  } else {
    run_starts |= m.digit & ~(m.digit << 1);
  }
  uint64_t starts = (run_starts & ~(m.blank << 1)) | (space & ~(space << 1)) | last_space;
  if (kSplitDigits) starts |= m.digit;
  return starts;
}

// gpt4, llama3 and qwen2: the same; `limit` is lowered to where white space needs decoding.
template <int kMaxDigits>
uint64_t starts_gpt4(const ClassMasks& m, uint64_t other, int* limit) {
  // Line breaks right after "other" characters belong to them: a carry runs through each such run.
  const uint64_t eaten = m.newline & ~(m.newline + (m.newline & other << 1));
  const uint64_t space = m.space & ~eaten;
  const uint64_t inline_space = space & ~m.newline;
  const uint64_t space_starts = space & ~(space << 1);
  const uint64_t late_newline = inline_space & (m.newline >> 1);
  if (late_newline != 0) {
    const int run = last_at(space_starts, std::countr_zero(late_newline));
    if (run < *limit) *limit = run;
  }
  // One "other" character that starts a pre-token joins the letters after it.
  const uint64_t other_starts = other & ~(other << 1) & ~(m.blank << 1);
  const uint64_t prefix = inline_space | (other_starts & (m.letter >> 1));
  uint64_t starts = (m.letter & ~(m.letter << 1) & ~(prefix << 1)) | other_starts | space_starts |
                    (inline_space & (m.newline << 1)) | (inline_space & ~(m.space >> 1));
  if (kMaxDigits == 1) return starts | m.digit;
  uint64_t group = m.digit & ~(m.digit << 1);
  const uint64_t third = m.digit & m.digit << 1 & m.digit << 2;
  while (group != 0) {
    starts |= group;
    group = group << 3 & third & m.digit << 3;
  }
  return starts;
}

// Start bits of the pre-tokens in bytes p[0 .. size), size 2 to 64; bit 0 is always one. The
// highest bit is where the caller goes on.
template <Pattern kPattern>
uint64_t window_starts(const uint8_t* p, const ClassMasks& m, int size) {
  constexpr bool kGpt2Like = kPattern == Pattern::kGpt2 || kPattern == Pattern::kSmollm;
  const uint64_t known = bits_through(size - 1);
  const uint64_t other = ~(m.letter | m.digit | m.space) & known;
  // A white-space run that reaches the end may go on: nothing after its start is decided.
  int limit = size - 1;
  if (m.space >> limit & 1) limit = last_at(~m.space, limit) + 1;
  uint64_t starts;
  if constexpr (kGpt2Like) {
    starts = starts_gpt2<kPattern == Pattern::kSmollm>(m, other);
  } else {
    starts = starts_gpt4<kPattern == Pattern::kQwen2 ? 1 : 3>(m, other, &limit);
  }
  starts = (starts | 1) & bits_through(limit);
  uint64_t quotes = starts & m.apostrophe & (m.letter >> 1);
  while (quotes != 0) {
    const int i = std::countr_zero(quotes);
    if (i + 3 > limit) return starts & bits_through(i);
    const size_t length = contraction_size<!kGpt2Like>(p + i, p + size);
    if (length != 0) {
      starts &= ~(uint64_t{6} << i);
      starts |= uint64_t{1} << i << length;
    }
    quotes &= quotes - 1;
  }
  return starts;
}

}  // namespace pretokenize_detail
}  // namespace cerne

#endif  // CERNE_SRC_PRETOKENIZE_WINDOW_H_
