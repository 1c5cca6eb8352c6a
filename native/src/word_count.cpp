#include "word_count.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "hash.h"
#include "status.h"

namespace cerne {
namespace {

// Fixed sizes: where text is cut must not depend on threads or on the pieces it came in.
constexpr size_t kRoundBytes = size_t{1} << 22;
constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr size_t kMaxPending = size_t{1} << 26;
constexpr size_t kHeadBytes = 8;
constexpr size_t kLookahead = 4;
constexpr size_t kNoCut = ~size_t{0};

uint64_t load_head(const uint8_t* word, size_t size) {
  uint64_t head = 0;
  std::memcpy(&head, word, std::min(size, kHeadBytes));
  return head;
}

// The same value as load_head, where 8 bytes may be read whatever the size is.
uint64_t load_padded_head(const uint8_t* word, size_t size) {
  uint64_t head;
  std::memcpy(&head, word, kHeadBytes);
  if constexpr (std::endian::native == std::endian::big) return load_head(word, size);
  return size >= kHeadBytes ? head : head & ((uint64_t{1} << (size * 8)) - 1);
}

uint64_t hash_word(const uint8_t* word, size_t size, uint64_t head) {
  uint64_t hash = hash_pair(head, size);
  if (size <= kHeadBytes) return hash;
  for (size_t i = kHeadBytes; i + kHeadBytes < size; i += kHeadBytes) {
    hash = hash_pair(hash, load_head(word + i, kHeadBytes));
  }
  return hash_pair(hash, load_head(word + size - kHeadBytes, kHeadBytes));
}

// A letter before `at` and something else behind it: each pattern ends a pre-token there, without
// looking further, so the text may be counted in two parts.
bool is_cut(const uint8_t* text, size_t at, size_t size) {
  if (at == 0 || at + kLookahead > size || is_continuation(text[at])) return false;
  if (decode_char(text + at, text + size).cls == CharClass::kLetter) return false;
  for (size_t back = 1; back <= 4 && back <= at; ++back) {
    if (is_continuation(text[at - back])) continue;
    const Char before = decode_char(text + at - back, text + size);
    return before.size == back && before.cls == CharClass::kLetter;
  }
  return false;
}

}  // namespace

WordMap::WordMap() : table_(size_t{1} << 10) {}

void WordMap::add_with_head(const uint8_t* word, size_t size, uint64_t head, uint64_t count) {
  const size_t mask = table_.size() - 1;
  for (size_t at = hash_word(word, size, head) & mask;; at = (at + 1) & mask) {
    Entry& entry = table_[at];
    if (entry.count == 0) return insert(entry, word, size, head, count);
    if (entry.head == head && entry.size == size &&
        (size <= kHeadBytes || std::memcmp(arena_.data() + entry.offset, word, size) == 0)) {
      entry.count += count;
      return;
    }
  }
}

void WordMap::insert(Entry& entry, const uint8_t* word, size_t size, uint64_t head,
                     uint64_t count) {
  if (arena_.size() + size > UINT32_MAX) throw invalid("more than 4 GiB of distinct words");
  entry = {head, count, static_cast<uint32_t>(size), static_cast<uint32_t>(arena_.size())};
  arena_.insert(arena_.end(), word, word + size);
  if (++num_words_ * 2 > table_.size()) grow();
}

void WordMap::grow() {
  std::vector<Entry> old(table_.size() * 2);
  old.swap(table_);
  const size_t mask = table_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.count == 0) continue;
    size_t at = hash_word(arena_.data() + entry.offset, entry.size, entry.head) & mask;
    while (table_[at].count != 0) at = (at + 1) & mask;
    table_[at] = entry;
  }
}

void WordMap::add(const uint8_t* word, size_t size, uint64_t count) {
  if (size == 0 || count == 0) return;
  add_with_head(word, size, load_head(word, size), count);
}

void WordMap::add_one_padded(const uint8_t* word, size_t size) {
  add_with_head(word, size, load_padded_head(word, size), 1);
}

void WordMap::merge(const WordMap& other) {
  other.for_each(
      [this](const uint8_t* word, size_t size, uint64_t count) { add(word, size, count); });
}

uint64_t WordMap::drop_up_to(uint64_t limit) {
  WordMap kept;
  uint64_t dropped = 0;
  for_each([&](const uint8_t* word, size_t size, uint64_t count) {
    if (count > limit) {
      kept.add(word, size, count);
    } else {
      dropped += count;
    }
  });
  *this = std::move(kept);
  return dropped;
}

void WordMap::clear() { *this = WordMap(); }

WordCounter::WordCounter(Pattern pattern, size_t num_threads, WordLimits limits)
    : pattern_(pattern), limits_(limits) {
  if (num_threads > 1) pool_ = std::make_unique<ThreadPool>(num_threads);
}

void WordCounter::feed(const uint8_t* text, size_t size) {
  statistics_.text_bytes += size;
  while (size > 0) {
    const size_t piece = std::min(size, kRoundBytes);
    pending_.insert(pending_.end(), text, text + piece);
    text += piece;
    size -= piece;
    for (size_t end = find_round_end(); end != kNoCut; end = find_round_end()) count_round(end);
  }
}

void WordCounter::end_document() {
  statistics_.documents += 1;
  document_ends_.push_back(pending_.size());
}

void WordCounter::add_word(const uint8_t* word, size_t size, uint64_t count) {
  words_.add(word, size, count);
  prune();
}

void WordCounter::finish() {
  if (!pending_.empty()) count_round(pending_.size());
}

// The highest cut in (floor, target], inside the document that holds `target` or at its begin.
size_t WordCounter::find_cut_up_to(size_t floor, size_t target) const {
  const auto next = std::upper_bound(document_ends_.begin(), document_ends_.end(), target);
  const size_t begin = next == document_ends_.begin() ? 0 : *(next - 1);
  const size_t end = next == document_ends_.end() ? pending_.size() : *next;
  for (size_t at = target; at > std::max(begin, floor); --at) {
    if (is_cut(pending_.data() + begin, at - begin, end - begin)) return at;
  }
  return begin > floor ? begin : kNoCut;
}

// Where the next round of the pending text ends, or kNoCut: more text is needed.
size_t WordCounter::find_round_end() {
  if (pending_.size() < kRoundBytes + kLookahead) return kNoCut;
  if (searched_ == 0) {
    const size_t cut = find_cut_up_to(0, kRoundBytes);
    if (cut != kNoCut) return cut;
    searched_ = kRoundBytes;
  }
  if (!document_ends_.empty()) return document_ends_.front();
  const size_t last = std::min(pending_.size() - kLookahead, kMaxPending);
  while (searched_ < last) {
    if (is_cut(pending_.data(), ++searched_, pending_.size())) return searched_;
  }
  return searched_ == kMaxPending ? kMaxPending : kNoCut;
}

void WordCounter::count_round(size_t end) {
  // Heads of words are read 8 bytes at a time.
  pending_.resize(pending_.size() + kHeadBytes);
  if (pool_ == nullptr) {
    count_span(words_, 0, end);
  } else {
    std::vector<size_t> cuts{0};
    for (size_t target = kBlockBytes; target < end; target += kBlockBytes) {
      const size_t cut = find_cut_up_to(cuts.back(), target);
      if (cut != kNoCut) cuts.push_back(cut);
    }
    cuts.push_back(end);
    std::vector<WordMap> blocks(cuts.size() - 1);
    pool_->parallel_for(blocks.size(),
                        [&](size_t i) { count_span(blocks[i], cuts[i], cuts[i + 1]); });
    for (const WordMap& block : blocks) words_.merge(block);
  }
  pending_.resize(pending_.size() - kHeadBytes);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(end));
  const auto left = std::upper_bound(document_ends_.begin(), document_ends_.end(), end);
  document_ends_.erase(document_ends_.begin(), left);
  for (size_t& at : document_ends_) at -= end;
  searched_ = 0;
  prune();
}

void WordCounter::count_span(WordMap& map, size_t begin, size_t end) const {
  auto next = std::upper_bound(document_ends_.begin(), document_ends_.end(), begin);
  while (begin < end) {
    size_t stop = end;
    if (next != document_ends_.end() && *next < end) stop = *next++;
    for_each_pretoken(pattern_, pending_.data() + begin, stop - begin,
                      [&map](const uint8_t* word, size_t size) { map.add_one_padded(word, size); });
    begin = stop;
  }
}

void WordCounter::prune() {
  if (words_.num_words() <= limits_.max_words && words_.num_bytes() <= limits_.max_bytes) return;
  // Words and bytes by count; counts beyond the table share its last row and are dropped last.
  constexpr size_t kRows = size_t{1} << 16;
  std::vector<uint64_t> words(kRows, 0), bytes(kRows, 0);
  words_.for_each([&](const uint8_t*, size_t size, uint64_t count) {
    const size_t row = std::min<uint64_t>(count, kRows - 1);
    words[row] += 1;
    bytes[row] += size;
  });
  uint64_t words_left = words_.num_words(), bytes_left = words_.num_bytes();
  uint64_t limit = 0;
  while (words_left > limits_.max_words / 2 || bytes_left > limits_.max_bytes / 2) {
    ++limit;
    if (limit == kRows - 1) throw invalid("the word limits are too small for this text");
    words_left -= words[limit];
    bytes_left -= bytes[limit];
  }
  statistics_.pruned_words += words_.num_words() - words_left;
  statistics_.pruned_occurrences += words_.drop_up_to(limit);
  statistics_.pruned_up_to = std::max(statistics_.pruned_up_to, limit);
}

}  // namespace cerne
