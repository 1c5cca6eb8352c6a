// Wrong arguments and orders of calls give a status and a sentence, never a crash.
#include <limits>
#include <vector>

#include "check.h"
#include "plain_bpe.h"
#include "refused.h"

using cerne_test::bytes_of;
using cerne_test::refused;
using cerne_test::Vocabulary;

namespace {

std::vector<uint64_t> byte_offsets() {
  std::vector<uint64_t> offsets(257);
  for (size_t i = 0; i <= 256; ++i) offsets[i] = i;
  return offsets;
}

std::string all_bytes() {
  std::string bytes(256, '\0');
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

}  // namespace

CERNE_TEST(null_and_unbuilt_handles_are_refused) {
  size_t count = 0;
  uint32_t id = 0;
  refused(cerne_tokenizer_create(nullptr), "null");
  refused(cerne_tokenizer_encode(nullptr, nullptr, 0, &id, 1, &count), "null");
  refused(cerne_tokenizer_build(nullptr), "null");
  cerne_tokenizer_destroy(nullptr);

  cerne_tokenizer* t = nullptr;
  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  refused(cerne_tokenizer_encode(t, nullptr, 0, &id, 1, &count), "not built");
  refused(cerne_tokenizer_build(t), "no vocabulary");
  refused(cerne_tokenizer_set_merges(t, &id, 0), "vocabulary first");
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(wrong_options_are_refused) {
  cerne_tokenizer* t = nullptr;
  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  refused(cerne_tokenizer_set_string(t, "patern", 6, "gpt2", 4), "patern");
  refused(cerne_tokenizer_set_string(t, "pattern", 7, "gpt5", 4), "gpt5");
  refused(cerne_tokenizer_set_string(t, nullptr, 7, "gpt2", 4), "null");
  refused(cerne_tokenizer_set_integer(t, "cache", 5, 1), "cache");
  refused(cerne_tokenizer_set_integer(t, "cache_bytes", 11, -1), "cache_bytes");
  refused(cerne_tokenizer_set_integer(t, "ignore_merges", 13, 2), "ignore_merges");
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(wrong_vocabularies_and_merges_are_refused) {
  const std::string bytes = all_bytes();
  std::vector<uint64_t> offsets = byte_offsets();
  cerne_tokenizer* t = nullptr;
  CHECK(cerne_tokenizer_create(&t) == CERNE_OK);
  const auto set = [&](std::string_view blob, const std::vector<uint64_t>& at) {
    return cerne_tokenizer_set_vocabulary(t, bytes_of(blob), at.data(), at.size() - 1);
  };
  refused(cerne_tokenizer_set_vocabulary(t, nullptr, nullptr, 256), "null");
  refused(cerne_tokenizer_set_vocabulary(t, bytes_of(bytes), offsets.data(), 0), "0 tokens");
  refused(cerne_tokenizer_set_vocabulary(t, bytes_of(bytes), offsets.data(), size_t{1} << 40),
          "tokens");
  refused(set(std::string(255, 'x') + "y", offsets), "same bytes");
  offsets[7] = 300;
  refused(set(bytes, offsets), "decrease");
  offsets = byte_offsets();
  CHECK(set(bytes, offsets) == CERNE_OK);

  const uint32_t unknown[] = {1, 256}, no_token[] = {1, 2};
  refused(cerne_tokenizer_set_merges(t, unknown, 1), "256");
  refused(cerne_tokenizer_set_merges(t, no_token, 1), "does not make a token");
  refused(cerne_tokenizer_set_merges(t, nullptr, 1), "null");
  CHECK(cerne_tokenizer_build(t) == CERNE_OK);
  refused(cerne_tokenizer_build(t), "built already");
  refused(set(bytes, offsets), "built already");
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(wrong_calls_after_build_are_refused) {
  std::mt19937 rng(9);
  const Vocabulary v = cerne_test::random_vocabulary(rng, "ab", 10);
  cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", 0);
  uint32_t ids[4] = {0, 1, std::numeric_limits<uint32_t>::max(), 2};
  uint32_t lengths[4];
  size_t size = 0;
  uint8_t out[16];
  refused(cerne_tokenizer_decode(t, ids, 4, out, sizeof(out), &size), "4294967295");
  refused(cerne_tokenizer_token_lengths(t, ids, 4, lengths), "position 2");
  refused(cerne_tokenizer_decode(t, nullptr, 1, out, sizeof(out), &size), "null");
  refused(cerne_tokenizer_encode(t, nullptr, 1, ids, 4, &size), "null");
  refused(cerne_tokenizer_encode(t, out, 1, ids, 4, nullptr), "null");
  const uint64_t backwards[] = {2, 1};
  uint64_t counts[1];
  refused(cerne_tokenizer_encode_batch(t, out, backwards, 1, 1, ids, counts), "decrease");
  refused(cerne_pretokenize("nope", 4, out, 0, nullptr, 0, &size), "nope");
  CHECK(cerne_tokenizer_encode(t, nullptr, 0, nullptr, 0, &size) == CERNE_OK && size == 0);
  CHECK(cerne_tokenizer_encode_batch(t, nullptr, nullptr, 0, 1, nullptr, nullptr) == CERNE_OK);
  cerne_tokenizer_destroy(t);
}
