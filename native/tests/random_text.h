// Seeded hostile byte strings.
#ifndef CERNE_TESTS_RANDOM_TEXT_H_
#define CERNE_TESTS_RANDOM_TEXT_H_

#include <random>
#include <string>

namespace cerne_test {

// Pieces of every kind that a pattern treats apart, whole and broken UTF-8 included.
inline std::string random_text(std::mt19937& rng, size_t max_pieces) {
  static const char* const kPieces[] = {"a",
                                        "ab",
                                        "hello",
                                        "The",
                                        " ",
                                        "  ",
                                        "\t",
                                        "\n",
                                        "\r\n",
                                        "\n\n",
                                        " \n",
                                        "\v",
                                        "\f",
                                        "\r",
                                        "1",
                                        "12",
                                        "1234",
                                        "12345678",
                                        "'s",
                                        "'S",
                                        "'ll",
                                        "'VE",
                                        "'re",
                                        "'t",
                                        "'d",
                                        "'m",
                                        "'",
                                        "''",
                                        "'\xC5\xBF",
                                        "!",
                                        "!!",
                                        "...",
                                        "(",
                                        "\"",
                                        "-",
                                        "_",
                                        "\x01",
                                        "\x7F",
                                        "\xC3\xA9",
                                        "\xC3\x97",
                                        "\xC3\xB7",
                                        "\xC4\x80",
                                        "\xC9\xBF",
                                        "\xCA\x80",
                                        "\xD0\xBF",
                                        "\xD1\xBF",
                                        "\xD2\x81",
                                        "\xD2\x82",
                                        "\xC2\xA0",
                                        "\xC2\xBD",
                                        "\xE2\x80\x83",
                                        "\xE2\x80\xA8",
                                        "\xE3\x80\x80",
                                        "\xE4\xBD\xA0",
                                        "\xF0\x9F\x98\x80",
                                        "\xF0\x9D\x9F\x98",
                                        "\xE0\xA4\xB9",
                                        "\xCC\x81",
                                        "\x80",
                                        "\xC3",
                                        "\xE4\xBD",
                                        "\xF0\x9F\x98",
                                        "\xED\xA0\x80",
                                        "\xFF",
                                        "\xC0\xAF",
                                        "\xF4\x90\x80\x80"};
  constexpr size_t kCount = sizeof(kPieces) / sizeof(kPieces[0]);
  std::string text;
  for (size_t n = rng() % (max_pieces + 1); n > 0; --n) {
    const std::string piece = kPieces[rng() % kCount];
    for (size_t repeat = rng() % 8 == 0 ? rng() % 40 : 1; repeat > 0; --repeat) text += piece;
  }
  return text;
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_RANDOM_TEXT_H_
