// Training against a trainer that recounts everything, and counts beyond 32 bits.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpe_train.h"
#include "check.h"
#include "plain_bpe.h"
#include "word_count.h"

using cerne::BpeTrainer;
using cerne::BpeTrainStatus;
using cerne_test::bytes_of;

namespace {

using Words = std::map<std::string, uint64_t>;
using Pair = std::pair<uint32_t, uint32_t>;

std::vector<Pair> train(const Words& words, uint32_t vocab_size, BpeTrainStatus expected) {
  BpeTrainer trainer;
  for (const auto& [word, count] : words) trainer.add_word(bytes_of(word), word.size(), count);
  CHECK(trainer.train(vocab_size, 1, nullptr, nullptr) == expected);
  std::vector<Pair> merges;
  for (const cerne::BpeMerge& merge : trainer.merges())
    merges.emplace_back(merge.left, merge.right);
  CHECK(trainer.tokens().size() == 256 + merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    CHECK(trainer.tokens()[256 + i] ==
          trainer.tokens()[merges[i].first] + trainer.tokens()[merges[i].second]);
  }
  return merges;
}

// Recounts every pair of every word at each step; ids of bytes come from a fresh trainer.
std::vector<Pair> plain_train(const Words& words, uint32_t vocab_size) {
  const BpeTrainer bytes;
  std::map<char, uint32_t> id_of_byte;
  for (uint32_t id = 0; id < 256; ++id) id_of_byte[bytes.tokens()[id][0]] = id;
  std::map<std::string, std::vector<uint32_t>> split;
  for (const auto& [word, count] : words) {
    for (const char byte : word) split[word].push_back(id_of_byte[byte]);
  }
  std::vector<Pair> merges;
  while (256 + merges.size() < vocab_size) {
    std::map<Pair, uint64_t> counts;
    for (const auto& [word, ids] : split) {
      for (size_t i = 1; i < ids.size(); ++i) counts[{ids[i - 1], ids[i]}] += words.at(word);
    }
    Pair best;
    uint64_t most = 0;
    for (const auto& [pair, count] : counts) {
      if (count > most) {
        best = pair;
        most = count;
      }
    }
    if (most == 0) break;
    const uint32_t result = 256 + static_cast<uint32_t>(merges.size());
    for (auto& [word, ids] : split) {
      size_t kept = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool joins = i + 1 < ids.size() && Pair(ids[i], ids[i + 1]) == best;
        ids[kept++] = joins ? result : ids[i];
        i += joins;
      }
      ids.resize(kept);
    }
    merges.push_back(best);
  }
  return merges;
}

}  // namespace

CERNE_TEST(training_equals_recounting) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    Words words;
    const size_t letters = 1 + random() % 4;
    for (size_t n = random() % 12; n > 0; --n) {
      std::string word;
      for (size_t i = random() % 16; i > 0; --i) word += "abcd"[random() % (letters)];
      words[word] = random() % 6;
    }
    const uint32_t vocab_size = 257 + static_cast<uint32_t>(random() % 40);
    const std::vector<Pair> expected = plain_train(words, vocab_size);
    const bool full = 256 + expected.size() == vocab_size;
    CHECK(train(words, vocab_size, full ? BpeTrainStatus::kDone : BpeTrainStatus::kExhausted) ==
          expected);
  }
}

CERNE_TEST(counts_beyond_32_bits_keep_their_order) {
  // In 32 bits "ab" would count 1 and "the" would lose to "zz".
  const Words words{{"ab", (uint64_t{1} << 32) + 1},
                    {"the", (uint64_t{1} << 33) + 7},
                    {"zz", 0xFFFFFFFFu},
                    {"yy", 0xFFFFFFFEu},
                    {"cc", 5}};
  CHECK(train(words, 261, BpeTrainStatus::kDone) == plain_train(words, 261));
  const auto merges = train(words, 258, BpeTrainStatus::kDone);
  const BpeTrainer bytes;
  CHECK(bytes.tokens()[merges[0].first] == "h" && bytes.tokens()[merges[0].second] == "e");
  CHECK(bytes.tokens()[merges[1].first] == "t" && merges[1].second == 256);
}

CERNE_TEST(counts_that_could_pass_64_bits_are_refused) {
  BpeTrainer trainer;
  trainer.add_word(bytes_of("ab"), 2, uint64_t{1} << 62);
  bool refused = false;
  try {
    trainer.add_word(bytes_of("abc"), 3, uint64_t{1} << 63);
  } catch (const std::exception&) {
    refused = true;
  }
  CHECK(refused);
}

CERNE_TEST(words_are_counted_alike_in_any_pieces_on_any_threads) {
  std::string text;
  std::mt19937 random(2);
  while (text.size() < (size_t{5} << 20)) {
    text += " word" + std::to_string(random() % 5000);
    if (random() % 9 == 0) text += "\n  x\xC3\xA9y \xFF!";
  }
  auto count = [&](size_t threads, size_t piece) {
    cerne::WordCounter counter(cerne::Pattern::kQwen2, threads, {});
    for (size_t at = 0; at < text.size(); at += piece) {
      const std::string_view part = std::string_view(text).substr(at, piece);
      counter.feed(bytes_of(part), part.size());
    }
    counter.end_document();
    counter.finish();
    Words words;
    counter.words().for_each([&](const uint8_t* word, size_t size, uint64_t number) {
      words[std::string(reinterpret_cast<const char*>(word), size)] = number;
    });
    return words;
  };
  Words expected;
  cerne::for_each_pretoken(cerne::Pattern::kQwen2, bytes_of(text), text.size(),
                           [&](const uint8_t* word, size_t size) {
                             ++expected[std::string(reinterpret_cast<const char*>(word), size)];
                           });
  CHECK(count(1, 65537) == expected);
  CHECK(count(3, 1000003) == expected);
}
