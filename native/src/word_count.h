// Counts distinct pre-tokens ("words") of text that streams in, with bounded memory.
//
// In:  documents in pieces of any size. The piece size and the number of threads never change the
//      result.
// Out: every distinct word with a 64-bit count; what was pruned to stay within the limits.
// Left out: merging (bpe_train.h).
#ifndef CERNE_SRC_WORD_COUNT_H_
#define CERNE_SRC_WORD_COUNT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pretokenize.h"
#include "thread_pool.h"

namespace cerne {

// Word -> count: open addressing over one arena of bytes.
class WordMap {
 public:
  WordMap();
  void add(const uint8_t* word, size_t size, uint64_t count);
  // The same for count 1, where 8 bytes from `word` on may be read whatever the size is.
  void add_one_padded(const uint8_t* word, size_t size);
  void merge(const WordMap& other);
  void clear();

  // Drops every word counted at most `limit` times; returns how many occurrences went.
  uint64_t drop_up_to(uint64_t limit);

  size_t num_words() const { return num_words_; }
  size_t num_bytes() const { return arena_.size(); }

  // Calls f(bytes, size, count) for every word, in no order that means anything.
  template <typename F>
  void for_each(F&& f) const {
    for (const Entry& entry : table_) {
      if (entry.count != 0) f(arena_.data() + entry.offset, size_t{entry.size}, entry.count);
    }
  }

 private:
  struct Entry {
    uint64_t head;   // the first 8 bytes, zero-padded
    uint64_t count;  // 0: free
    uint32_t size;
    uint32_t offset;
  };
  void add_with_head(const uint8_t* word, size_t size, uint64_t head, uint64_t count);
  void insert(Entry& entry, const uint8_t* word, size_t size, uint64_t head, uint64_t count);
  void grow();

  std::vector<Entry> table_;
  std::vector<uint8_t> arena_;
  size_t num_words_ = 0;
};

struct WordLimits {
  size_t max_words = size_t{1} << 22;
  size_t max_bytes = size_t{1} << 26;  // of all distinct words together
};

struct WordStatistics {
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
  uint64_t pruned_words = 0;
  uint64_t pruned_occurrences = 0;
  uint64_t pruned_up_to = 0;  // the highest count that was pruned
};

// Memory: the distinct words up to the limits plus those of one round of text (4 MiB), and the
// pending text: one round, or up to 64 MiB while no letter is followed by a non-letter.
class WordCounter {
 public:
  WordCounter(Pattern pattern, size_t num_threads, WordLimits limits);

  // More text of the current document.
  void feed(const uint8_t* text, size_t size);
  // The current document is complete; words never reach across.
  void end_document();
  // Counts a ready word.
  void add_word(const uint8_t* word, size_t size, uint64_t count);
  // Counts what is pending. Call before reading words().
  void finish();

  const WordMap& words() const { return words_; }
  const WordStatistics& statistics() const { return statistics_; }

 private:
  size_t find_cut_up_to(size_t floor, size_t target) const;
  size_t find_round_end();
  void count_round(size_t end);
  void count_span(WordMap& map, size_t begin, size_t end) const;
  void prune();

  Pattern pattern_;
  WordLimits limits_;
  std::unique_ptr<ThreadPool> pool_;  // null: one thread
  std::vector<uint8_t> pending_;
  std::vector<size_t> document_ends_;  // offsets in pending_
  size_t searched_ = 0;                // no cut lies between kRoundBytes and here
  WordMap words_;
  std::vector<WordMap> partial_;  // one a block of a round
  WordStatistics statistics_;
};

}  // namespace cerne

#endif  // CERNE_SRC_WORD_COUNT_H_
