#include "pretokenize.h"

#include <cstring>
#include <vector>

#include "check.h"
#include "cpu.h"
#include "kernels/classify.h"
#include "plain_bpe.h"
#include "random_text.h"

using cerne::Pattern;
using cerne_test::bytes_of;

namespace {

constexpr Pattern kPatterns[] = {Pattern::kGpt2, Pattern::kGpt4, Pattern::kLlama3, Pattern::kQwen2,
                                 Pattern::kSmollm};

std::vector<std::string> split(Pattern pattern, std::string_view text) {
  std::vector<std::string> out;
  cerne::for_each_pretoken(pattern, bytes_of(text), text.size(),
                           [&](const uint8_t* start, size_t size) {
                             out.emplace_back(reinterpret_cast<const char*>(start), size);
                           });
  return out;
}

// One character at a time, never through windows.
std::vector<std::string> split_plainly(Pattern pattern, std::string_view text) {
  return cerne::with_pattern(pattern, [&]<Pattern kPattern>() {
    std::vector<std::string> out;
    const uint8_t* p = bytes_of(text);
    const uint8_t* const end = p + text.size();
    while (p < end) {
      const uint8_t* const q = cerne::next_pretoken<kPattern>(p, end);
      CHECK(q > p && q <= end);
      out.emplace_back(reinterpret_cast<const char*>(p), static_cast<size_t>(q - p));
      p = q;
    }
    return out;
  });
}

}  // namespace

CERNE_TEST(pretokens_of_known_text) {
  using Pieces = std::vector<std::string>;
  const std::string text = "I'll pay  $1234.\n\n ok'S";
  CHECK(split(Pattern::kGpt2, text) ==
        (Pieces{"I", "'ll", " pay", " ", " $", "1234", ".", "\n\n", " ok", "'", "S"}));
  CHECK(split(Pattern::kLlama3, text) ==
        (Pieces{"I", "'ll", " pay", " ", " $", "123", "4", ".\n\n", " ok", "'S"}));
  CHECK(split(Pattern::kQwen2, text) ==
        (Pieces{"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".\n\n", " ok", "'S"}));
  CHECK(split(Pattern::kSmollm, "a 12") == (Pieces{"a", " ", "1", "2"}));
  CHECK(split(Pattern::kLlama3, "a\n \t") == (Pieces{"a", "\n", " \t"}));
  CHECK(split(Pattern::kGpt4, "a\n \t") == (Pieces{"a", "\n \t"}));
}

CERNE_TEST(windows_equal_one_character_at_a_time) {
  std::mt19937 rng(1);
  for (int round = 0; round < 1500; ++round) {
    const std::string text = cerne_test::random_text(rng, 60);
    for (const Pattern pattern : kPatterns) {
      CHECK(split(pattern, text) == split_plainly(pattern, text));
    }
  }
}

CERNE_TEST(classes_are_the_same_on_every_instruction_set) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") == 0) return;
  std::mt19937 rng(2);
  for (int round = 0; round < 2000; ++round) {
    std::string text = cerne_test::random_text(rng, 60);
    text.resize(64, static_cast<char>(rng()));
    cerne::ClassMasks plain, fast;
    cerne::classify64_scalar(bytes_of(text), &plain);
    cerne::classify64_avx2(bytes_of(text), &fast);
    CHECK(std::memcmp(&plain, &fast, sizeof(plain)) == 0);
  }
#endif
}

CERNE_TEST(two_byte_letters_of_the_kernels_are_letters) {
  for (uint32_t point = 0x80; point < 0x800; ++point) {
    uint8_t bytes[64] = {static_cast<uint8_t>(0xC0 | point >> 6),
                         static_cast<uint8_t>(0x80 | (point & 0x3F))};
    cerne::ClassMasks masks;
    cerne::classify64_scalar(bytes, &masks);
    const bool fast = masks.unknown == 0;
    CHECK((masks.letter & 3) == (fast ? 3u : 0u));
    if (fast) CHECK(cerne::class_of(point) == cerne::CharClass::kLetter);
  }
}
