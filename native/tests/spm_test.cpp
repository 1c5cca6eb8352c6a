// SentencePiece vocabularies: ids equal the plain definition, and what is wrong is refused.
#include <limits>

#include "encode.h"
#include "plain_spm.h"
#include "random_text.h"
#include "refused.h"

using cerne_test::decode;
using cerne_test::encode;
using cerne_test::Pieces;
using cerne_test::refused;

namespace {

const std::vector<std::string> kAlphabet = {"a", "b", ">", "\n", "\xC3\xA9", "\xE4\xBD\xA0", "."};

// Characters of the alphabet, spaces and some that no piece holds.
std::string some_text(std::mt19937& rng, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    const size_t kind = rng() % (kAlphabet.size() + 4);
    text += kind < kAlphabet.size() ? kAlphabet[kind] : kind < kAlphabet.size() + 3 ? " " : "Z";
  }
  return text;
}

}  // namespace

CERNE_TEST(spm_ids_equal_the_plain_definition) {
  std::mt19937 rng(21);
  for (int round = 0; round < 40; ++round) {
    const Pieces p = cerne_test::random_pieces(rng, kAlphabet, 20 + rng() % 150);
    const cerne_test::PlainSpm plain(p);
    cerne_tokenizer* const t = cerne_test::make_spm(p, round % 2 == 0 ? 0 : 1 << 20);
    for (int i = 0; i < 25; ++i) {
      const std::string text = some_text(rng, rng() % 120);
      CHECK(encode(t, text) == plain.encode(text));
      CHECK(decode(t, encode(t, text)) == text);
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(spm_long_words_equal_the_plain_definition) {
  std::mt19937 rng(22);
  for (int round = 0; round < 30; ++round) {
    const std::vector<std::string> alphabet(kAlphabet.begin(), kAlphabet.begin() + 1 + round % 3);
    const Pieces p = cerne_test::random_pieces(rng, alphabet, 30);
    const cerne_test::PlainSpm plain(p);
    cerne_tokenizer* const t = cerne_test::make_spm(p, 1 << 16);
    for (int i = 0; i < 6; ++i) {
      std::string word;
      for (size_t k = 33 + rng() % 260; k > 0; --k) word += alphabet[rng() % alphabet.size()];
      CHECK(encode(t, word) == plain.encode(word));
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(spm_every_byte_string_survives) {
  std::mt19937 rng(23);
  const Pieces p = cerne_test::random_pieces(rng, kAlphabet, 120);
  cerne_tokenizer* const t = cerne_test::make_spm(p, 1 << 16);
  for (int i = 0; i < 500; ++i) {
    std::string text = i % 2 == 0 ? cerne_test::random_text(rng, 30) : std::string(rng() % 90, 'a');
    if (i % 2 == 1) {
      for (char& c : text) c = static_cast<char>(rng());
    }
    if (text.find(cerne_test::kPieceSpace) != std::string::npos) continue;
    CHECK(decode(t, encode(t, text)) == text);
  }
  // U+2581 is the space.
  CHECK(encode(t, "a\xE2\x96\x81 b") == encode(t, "a  b"));
  // The names of byte tokens and the empty special token are no text.
  const std::vector<uint32_t> named = encode(t, "<0x41>");
  CHECK(named.size() == 6);
  CHECK(decode(t, {0x42}) == "A");
  CHECK(decode(t, {0}).empty());
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(spm_a_million_characters_take_a_moment) {
  std::mt19937 rng(24);
  const Pieces p = cerne_test::random_pieces(rng, {"a"}, 12);
  cerne_tokenizer* const t = cerne_test::make_spm(p, 1 << 16);
  for (const char* unit : {"a", "\xC3\xA9", "a "}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    CHECK(decode(t, encode(t, text)) == text);
  }
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(spm_wrong_vocabularies_are_refused) {
  std::mt19937 rng(25);
  const Pieces right = cerne_test::random_pieces(rng, kAlphabet, 20);
  cerne_tokenizer* t = cerne_test::new_spm();
  refused(cerne_tokenizer_set_scores(t, right.scores.data(), right.scores.size()), "vocabulary");
  refused(cerne_tokenizer_set_merges(t, nullptr, 0), "bpe");
  refused(cerne_tokenizer_set_string(t, "pattern", 7, "gpt2", 4), "bpe");
  refused(cerne_tokenizer_set_integer(t, "ignore_merges", 13, 1), "bpe");
  refused(cerne_tokenizer_set_string(t, "model", 5, "unigram", 7), "allowed: bpe, spm");

  Pieces wrong = right;
  wrong.pieces[1 + 0x41] = "x";
  refused(cerne_test::set_pieces(t, wrong), "no token for byte 65");
  wrong = right;
  wrong.pieces.push_back(wrong.pieces[300 % wrong.pieces.size()]);
  wrong.pieces.back() = wrong.pieces[260];
  refused(cerne_test::set_pieces(t, wrong), "the same piece");
  wrong = right;
  for (std::string& piece : wrong.pieces) {
    if (piece == cerne_test::kPieceSpace) piece = "y";
  }
  refused(cerne_test::set_pieces(t, wrong), "U+2581");

  CHECK(cerne_test::set_pieces(t, right) == CERNE_OK);
  refused(cerne_tokenizer_set_string(t, "model", 5, "bpe", 3), "before the vocabulary");
  refused(cerne_tokenizer_build(t), "no scores");
  refused(cerne_tokenizer_set_scores(t, right.scores.data(), 3), "3 scores");
  refused(cerne_tokenizer_set_scores(t, nullptr, right.scores.size()), "null");
  std::vector<float> scores = right.scores;
  scores[7] = std::numeric_limits<float>::quiet_NaN();
  refused(cerne_tokenizer_set_scores(t, scores.data(), scores.size()), "token 7 is NaN");
  CHECK(cerne_tokenizer_set_scores(t, right.scores.data(), right.scores.size()) == CERNE_OK);
  CHECK(cerne_tokenizer_build(t) == CERNE_OK);
  refused(cerne_tokenizer_set_scores(t, right.scores.data(), right.scores.size()), "built already");
  cerne_tokenizer_destroy(t);

  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  refused(cerne_tokenizer_set_scores(t, right.scores.data(), right.scores.size()), "spm");
  cerne_tokenizer_destroy(t);
}
