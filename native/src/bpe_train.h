// Byte-pair-encoding training on weighted words.
//
// In:  distinct words (byte strings) with 64-bit counts, a target vocabulary size.
// Out: merges in rank order. Ids 0-255 are the bytes in GPT-2's order; each merge makes the next
//      id. No two merges make the same bytes: merges act alike on all occurrences of a byte string
//      that no token straddles, so a string has one derivation.
// Order: highest pair count first; equal counts: smallest (left id, right id). This is the order of
//      the BpeTrainer of the `tokenizers` package.
// Left out: pre-tokenization and counting (word_count.h), special tokens.
#ifndef CERNE_SRC_BPE_TRAIN_H_
#define CERNE_SRC_BPE_TRAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cerne {

struct BpeMerge {
  uint32_t left;
  uint32_t right;
};

enum class BpeTrainStatus { kDone, kExhausted, kStopped };

// Called with (tokens so far, tokens wanted); a non-zero return stops the training.
using BpeProgress = int32_t (*)(void* user, uint64_t done, uint64_t total);

// One training run: add every word, then train once. Not thread safe.
// Memory: at most 20 bytes per byte of distinct words, plus about 90 bytes per distinct pair.
class BpeTrainer {
 public:
  BpeTrainer();

  // Room for words that add up to num_bytes bytes.
  void reserve(size_t num_words, size_t num_bytes);

  // Words of fewer than two bytes and words of count 0 hold no pair and are skipped. Throws Error
  // when counts could pass 2^64.
  void add_word(const uint8_t* bytes, size_t size, uint64_t count);

  // Merges until the vocabulary holds vocab_size tokens (kDone) or no pair reaches min_count
  // (kExhausted). Throws Error when the words need 2^32 positions or more.
  BpeTrainStatus train(uint32_t vocab_size, uint64_t min_count, BpeProgress progress, void* user);

  const std::vector<BpeMerge>& merges() const { return merges_; }
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Slot {
    uint32_t token;   // valid at the first and the last byte of a token
    uint32_t weight;  // count of the word; kBigWeight: look it up in big_words_
  };
  struct BigWord {
    size_t begin;
    uint64_t count;
  };
  struct Pair {
    uint32_t left;
    uint32_t right;
    uint64_t count;
    uint64_t list_begin;  // where its occurrences were when they appeared; stale ones are skipped
    uint64_t list_size;
  };
  struct Candidate {
    uint64_t count;
    uint64_t key;
    uint32_t pair;
  };
  struct Touch {
    uint32_t neighbour;
    uint32_t position;
  };
  struct Change {
    uint64_t lost = 0;    // weight of the old pair that disappears
    uint64_t gained = 0;  // weight of the new pair that appears
    uint64_t number = 0;  // occurrences of the new pair
    uint64_t next = 0;    // where its next position is written
  };
  // What one merge does to the pairs on one side of it, by neighbour token.
  struct Side {
    std::vector<Change> changes;
    std::vector<uint32_t> seen;
    std::vector<Touch> touches;
    void add(uint32_t neighbour, uint64_t weight, uint32_t position);
  };

  uint64_t weight_at(uint32_t position) const;
  void count_byte_pairs();
  void merge_everywhere(const Pair& pair, uint32_t result);
  void settle(Side& side, bool is_left, uint32_t old_inner, uint32_t result);
  uint32_t find_pair(uint64_t key) const;
  void add_pair(uint64_t key, uint64_t count, uint64_t list_begin, uint64_t list_size);
  void grow_table();
  void push_candidate(uint32_t pair);

  std::vector<Slot> slots_;
  std::vector<BigWord> big_words_;
  uint64_t total_weight_ = 0;  // of all bytes of all words: bounds every pair count
  std::unique_ptr<uint32_t[]> positions_;
  uint64_t positions_used_ = 0;
  std::vector<Pair> pairs_;
  std::vector<uint64_t> table_keys_;
  std::vector<uint32_t> table_pairs_;
  std::vector<Candidate> heap_;
  std::vector<std::string> tokens_;
  std::vector<BpeMerge> merges_;
  Side left_, right_;
  std::vector<uint32_t> self_positions_;
  uint64_t self_weight_ = 0;
};

}  // namespace cerne

#endif  // CERNE_SRC_BPE_TRAIN_H_
