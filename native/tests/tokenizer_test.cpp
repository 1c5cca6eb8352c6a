#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "encode.h"
#include "plain_bpe.h"
#include "pretokenize.h"
#include "random_text.h"

using cerne_test::bytes_of;
using cerne_test::decode;
using cerne_test::encode;
using cerne_test::Vocabulary;

namespace {

std::vector<uint32_t> plain_encode(const cerne_test::PlainBpe& plain, std::string_view text) {
  std::vector<uint32_t> out;
  cerne::for_each_pretoken(
      cerne::Pattern::kGpt2, bytes_of(text), text.size(), [&](const uint8_t* start, size_t size) {
        const auto ids = plain.merge({reinterpret_cast<const char*>(start), size});
        out.insert(out.end(), ids.begin(), ids.end());
      });
  return out;
}

}  // namespace

CERNE_TEST(ids_equal_the_plain_definition) {
  std::mt19937 rng(3);
  for (int round = 0; round < 12; ++round) {
    const Vocabulary v = cerne_test::random_vocabulary(rng, "abehlotsT 1\n.", 300);
    const cerne_test::PlainBpe plain(v);
    // The smallest cache forgets all the time, the larger one never.
    cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", round % 2 == 0 ? 0 : 1 << 20);
    for (int i = 0; i < 25; ++i) {
      std::string text = cerne_test::random_text(rng, 20);
      for (int k = 0; k < 40; ++k) text += "abehlotsT"[rng() % 9];
      const std::vector<uint32_t> ids = encode(t, text);
      CHECK(ids == plain_encode(plain, text));
      CHECK(decode(t, ids) == text);
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(long_words_equal_the_plain_definition) {
  std::mt19937 rng(4);
  for (int round = 0; round < 30; ++round) {
    const std::string_view alphabet = round % 3 == 0 ? "a" : "abc";
    const Vocabulary v = cerne_test::random_vocabulary(rng, alphabet, 60);
    const cerne_test::PlainBpe plain(v);
    cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", 1 << 16);
    for (int i = 0; i < 6; ++i) {
      std::string word;
      for (size_t k = 40 + rng() % 260; k > 0; --k) word += alphabet[rng() % alphabet.size()];
      CHECK(encode(t, word) == plain.merge(word));
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(runs_of_one_byte_equal_the_plain_definition) {
  std::mt19937 rng(10);
  for (int round = 0; round < 40; ++round) {
    const Vocabulary v = cerne_test::random_vocabulary(rng, "a", 4 + rng() % 30);
    const cerne_test::PlainBpe plain(v);
    cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", 1 << 16);
    for (int i = 0; i < 20; ++i) {
      const std::string word(49 + rng() % 200, 'a');
      CHECK(encode(t, word) == plain.merge(word));
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(every_byte_string_survives) {
  std::mt19937 rng(5);
  const Vocabulary v = cerne_test::random_vocabulary(rng, "abcdefgh \x80\xC3\xA9", 200);
  for (const char* pattern : {"gpt2", "gpt4", "llama3", "qwen2", "smollm"}) {
    cerne_tokenizer* const t = cerne_test::make_tokenizer(v, pattern, 1 << 16);
    for (int i = 0; i < 300; ++i) {
      std::string text(rng() % 200, '\0');
      for (char& c : text) c = static_cast<char>(rng());
      CHECK(decode(t, encode(t, text)) == text);
    }
    cerne_tokenizer_destroy(t);
  }
}

CERNE_TEST(bytes_without_a_token_are_left_out_and_part_their_neighbours) {
  std::mt19937 rng(11);
  const Vocabulary whole = cerne_test::random_vocabulary(rng, "!?.", 40);
  Vocabulary v = whole;
  for (std::string& token : v.tokens) {
    if (token == "\x01" || token == "\xFF") token.clear();
  }
  const cerne_test::PlainBpe plain(whole);
  // All these are one pre-token of gpt2: characters of class other.
  cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", 1 << 16);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    std::vector<uint32_t> expected;
    for (size_t part = rng() % 4 + 1; part > 0; --part) {
      text += rng() % 2 == 0 ? "\x01" : "\xFF";
      std::string word;
      for (size_t k = rng() % 60; k > 0; --k) word += "!?."[rng() % 3];
      const std::vector<uint32_t> ids = word.empty() ? std::vector<uint32_t>() : plain.merge(word);
      expected.insert(expected.end(), ids.begin(), ids.end());
      text += word;
    }
    CHECK(encode(t, text) == expected);
  }
  CHECK(encode(t, "\x01").empty());
  CHECK(encode(t, "\x01").empty());
  CHECK(encode(t, std::string(99, '\x01')).empty());
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(a_small_buffer_gets_a_prefix_and_the_needed_size) {
  std::mt19937 rng(6);
  const Vocabulary v = cerne_test::random_vocabulary(rng, "abehlots ", 200);
  cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "llama3", 1 << 16);
  std::string text;
  while (text.size() < 3000) text += cerne_test::random_text(rng, 20);
  const std::vector<uint32_t> whole = encode(t, text);
  for (const size_t capacity :
       {size_t{0}, size_t{1}, size_t{100}, whole.size() - 1, whole.size()}) {
    std::vector<uint32_t> ids(capacity);
    size_t count = 0;
    const cerne_status status =
        cerne_tokenizer_encode(t, bytes_of(text), text.size(), ids.data(), capacity, &count);
    CHECK(status == (capacity < whole.size() ? CERNE_BUFFER_TOO_SMALL : CERNE_OK));
    CHECK(count == whole.size());
    CHECK(std::equal(ids.begin(), ids.end(), whole.begin()));
  }
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(batches_do_not_depend_on_threads) {
  std::mt19937 rng(7);
  const Vocabulary v = cerne_test::random_vocabulary(rng, "abehlots ", 200);
  cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "qwen2", 1 << 16);
  std::string blob;
  std::vector<uint64_t> offsets{0};
  for (int i = 0; i < 200; ++i) {
    blob += cerne_test::random_text(rng, 30);
    offsets.push_back(blob.size());
  }
  for (const size_t threads : {size_t{1}, size_t{2}, size_t{7}, size_t{0}}) {
    std::vector<uint32_t> ids(blob.size());
    std::vector<uint64_t> counts(200);
    CHECK(cerne_tokenizer_encode_batch(t, bytes_of(blob), offsets.data(), 200, threads, ids.data(),
                                       counts.data()) == CERNE_OK);
    for (size_t i = 0; i < 200; ++i) {
      const std::string_view text =
          std::string_view(blob).substr(offsets[i], offsets[i + 1] - offsets[i]);
      const std::vector<uint32_t> single = encode(t, text);
      CHECK(counts[i] == single.size());
      CHECK(std::equal(single.begin(), single.end(), ids.data() + offsets[i]));
    }
  }
  cerne_tokenizer_destroy(t);
}

CERNE_TEST(one_tokenizer_serves_many_threads) {
  std::mt19937 rng(8);
  const Vocabulary v = cerne_test::random_vocabulary(rng, "abehlots ", 200);
  cerne_tokenizer* const t = cerne_test::make_tokenizer(v, "gpt2", 1 << 12);
  std::string text;
  while (text.size() < 2000) text += cerne_test::random_text(rng, 20);
  const std::vector<uint32_t> whole = encode(t, text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 30; ++k) CHECK(encode(t, text) == whole);
    });
  }
  for (std::thread& thread : threads) thread.join();
  cerne_tokenizer_destroy(t);
}
