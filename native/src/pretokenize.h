// Splits text into pre-tokens: the pieces inside which BPE merges. Each pattern is the exact state
// machine of the regular expression beside its name, without a regular-expression engine. The
// machines need no memory beyond the start of the pre-token, so splitting can begin at any
// boundary. Invalid UTF-8 bytes are characters of class "other".
#ifndef CERNE_SRC_PRETOKENIZE_H_
#define CERNE_SRC_PRETOKENIZE_H_

#include <string_view>
#include <utility>

#include "unicode.h"

namespace cerne {

enum class Pattern {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // llama3 with one difference: white space at the end of the text is one piece (\s++$ comes before
  // \s*[\r\n]), as in tiktoken's cl100k_base.
  kGpt4,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
  //   |\s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  kQwen2,   // llama3 with \p{N} in place of \p{N}{1,3}
  kSmollm,  // each \p{N} splits first, then gpt2 on the text between
};

// False when the name is unknown.
bool parse_pattern(std::string_view name, Pattern* pattern);

namespace pretokenize_detail {

inline const uint8_t* skip_class(const uint8_t* p, const uint8_t* end, CharClass cls) {
  while (p < end) {
    const Char c = decode_char(p, end);
    if (c.cls != cls) break;
    p += c.size;
  }
  return p;
}

inline const uint8_t* skip_newlines(const uint8_t* p, const uint8_t* end) {
  while (p < end && (*p == '\r' || *p == '\n')) ++p;
  return p;
}

// Length of the contraction whose apostrophe is at p, or 0. Folding case, "s" also matches U+017F.
template <bool kFoldCase>
size_t contraction_size(const uint8_t* p, const uint8_t* end) {
  const ptrdiff_t left = end - p;
  if (left < 2) return 0;
  const uint8_t fold = kFoldCase ? 0x20 : 0;
  const uint8_t a = p[1] | fold;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (left < 3) return 0;
  if (kFoldCase && p[1] == 0xC5 && p[2] == 0xBF) return 3;
  const uint8_t b = p[2] | fold;
  if ((a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e')) return 3;
  return 0;
}

// White space from p on: the run's end, the start of its last character and its last line break.
struct SpaceRun {
  const uint8_t* end;
  const uint8_t* last;
  const uint8_t* after_newline;  // null when the run has no line break
  CharClass next;                // class of the character at `end` (kSpace at the end of text)
};

inline SpaceRun scan_spaces(const uint8_t* p, const uint8_t* end) {
  SpaceRun run{p, p, nullptr, CharClass::kSpace};
  while (run.end < end) {
    const Char c = decode_char(run.end, end);
    if (c.cls != CharClass::kSpace) {
      run.next = c.cls;
      break;
    }
    run.last = run.end;
    run.end += c.size;
    if (c.code_point == '\r' || c.code_point == '\n') run.after_newline = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ : all but the last character when something else follows, if there is a choice.
inline const uint8_t* end_of_spaces(const SpaceRun& run, const uint8_t* begin, bool at_end) {
  return at_end || run.last == begin ? run.end : run.last;
}

template <bool kSplitDigits>
const uint8_t* next_gpt2(const uint8_t* p, const uint8_t* end) {
  if (*p == '\'') {
    const size_t size = contraction_size<false>(p, end);
    if (size != 0) return p + size;
  }
  Char c = decode_char(p, end);
  const uint8_t* q = p + c.size;
  if (*p == ' ' && q < end) {
    const Char next = decode_char(q, end);
    const bool joins =
        next.cls != CharClass::kSpace && !(kSplitDigits && next.cls == CharClass::kNumber);
    if (joins) {
      c = next;
      q += next.size;
    }
  }
  if (c.cls != CharClass::kSpace) {
    if (kSplitDigits && c.cls == CharClass::kNumber) return q;
    return skip_class(q, end, c.cls);
  }
  const SpaceRun run = scan_spaces(p, end);
  const bool at_end = run.end == end || (kSplitDigits && run.next == CharClass::kNumber);
  return end_of_spaces(run, p, at_end);
}

template <int kMaxDigits, bool kTrailingSpaceWhole>
const uint8_t* next_gpt4(const uint8_t* p, const uint8_t* end) {
  if (*p == '\'') {
    const size_t size = contraction_size<true>(p, end);
    if (size != 0) return p + size;
  }
  const Char c = decode_char(p, end);
  const uint8_t* q = p + c.size;
  if (c.cls == CharClass::kLetter) return skip_class(q, end, CharClass::kLetter);
  if (c.cls == CharClass::kNumber) {
    for (int digits = 1; digits < kMaxDigits && q < end; ++digits) {
      const Char next = decode_char(q, end);
      if (next.cls != CharClass::kNumber) break;
      q += next.size;
    }
    return q;
  }
  if (q < end && *p != '\r' && *p != '\n') {
    const Char next = decode_char(q, end);
    if (next.cls == CharClass::kLetter) {
      return skip_class(q + next.size, end, CharClass::kLetter);
    }
    if (c.cls == CharClass::kOther || (*p == ' ' && next.cls == CharClass::kOther)) {
      return skip_newlines(skip_class(q, end, CharClass::kOther), end);
    }
  }
  if (c.cls == CharClass::kOther) return q;
  const SpaceRun run = scan_spaces(p, end);
  if (kTrailingSpaceWhole && run.end == end) return end;
  if (run.after_newline != nullptr) return run.after_newline;
  return end_of_spaces(run, p, run.end == end);
}

}  // namespace pretokenize_detail

// End of the pre-token that begins at p < end.
template <Pattern kPattern>
const uint8_t* next_pretoken(const uint8_t* p, const uint8_t* end) {
  using namespace pretokenize_detail;
  if constexpr (kPattern == Pattern::kGpt2) return next_gpt2<false>(p, end);
  if constexpr (kPattern == Pattern::kSmollm) return next_gpt2<true>(p, end);
  if constexpr (kPattern == Pattern::kGpt4) return next_gpt4<3, true>(p, end);
  if constexpr (kPattern == Pattern::kLlama3) return next_gpt4<3, false>(p, end);
  if constexpr (kPattern == Pattern::kQwen2) return next_gpt4<1, false>(p, end);
}

// Calls visitor.template operator()<kPattern>() for a pattern known at run time.
template <typename Visitor>
decltype(auto) with_pattern(Pattern pattern, Visitor&& visitor) {
  switch (pattern) {
    case Pattern::kGpt4:
      return visitor.template operator()<Pattern::kGpt4>();
    case Pattern::kLlama3:
      return visitor.template operator()<Pattern::kLlama3>();
    case Pattern::kQwen2:
      return visitor.template operator()<Pattern::kQwen2>();
    case Pattern::kSmollm:
      return visitor.template operator()<Pattern::kSmollm>();
    case Pattern::kGpt2:
      break;
  }
  return visitor.template operator()<Pattern::kGpt2>();
}

// The most pre-tokens that one step of `find_ends` writes.
constexpr size_t kMinEnds = 72;

// Writes where the pre-tokens from p on end, in order, until `capacity` (>= kMinEnds) may not hold
// another step or the text is over; returns their number and moves p to the last end. This is the
// fast path: windows of 64 bytes at a time where the text allows it.
size_t find_ends(Pattern pattern, const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                 size_t capacity);

// Calls f(start, size) for each pre-token of text[0 .. size), in order; they cover the text.
template <typename F>
void for_each_pretoken(Pattern pattern, const uint8_t* text, size_t size, F&& f) {
  constexpr size_t kCapacity = 256;
  const uint8_t* ends[kCapacity];
  const uint8_t* p = text;
  const uint8_t* start = text;
  while (p < text + size) {
    const size_t count = find_ends(pattern, p, text + size, ends, kCapacity);
    for (size_t i = 0; i < count; ++i) {
      f(start, static_cast<size_t>(ends[i] - start));
      start = ends[i];
    }
  }
}

}  // namespace cerne

#endif  // CERNE_SRC_PRETOKENIZE_H_
