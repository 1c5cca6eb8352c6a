#include "bpe_train.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hash.h"
#include "status.h"

namespace cerne {
namespace {

constexpr uint32_t kSeparator = 0xFFFFFFFFu;
constexpr uint32_t kBigWeight = 0xFFFFFFFFu;
constexpr uint64_t kFreeKey = ~uint64_t{0};
constexpr uint64_t kMergesPerReport = 64;

uint64_t pair_key(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

uint64_t hash_key(uint64_t key) { return hash_pair(key, 0); }

struct LowerCandidate {
  template <typename C>
  bool operator()(const C& a, const C& b) const {
    return a.count != b.count ? a.count < b.count : a.key > b.key;
  }
};

// GPT-2's order of the bytes: the printable ones of Latin-1 first, then the rest.
struct ByteTable {
  uint8_t byte[256];
  uint8_t id[256];
  ByteTable() {
    uint32_t next = 0;
    auto printable = [](uint32_t b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    };
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t b = 0; b < 256; ++b) {
        if (printable(b) != (pass == 0)) continue;
        byte[next] = static_cast<uint8_t>(b);
        id[b] = static_cast<uint8_t>(next++);
      }
    }
  }
};

const ByteTable kBytes;

}  // namespace

void BpeTrainer::Side::add(uint32_t neighbour, uint64_t weight, uint32_t position) {
  Change& change = changes[neighbour];
  if (change.number == 0) seen.push_back(neighbour);
  change.lost += weight;
  change.gained += weight;
  change.number += 1;
  touches.push_back({neighbour, position});
}

BpeTrainer::BpeTrainer() {
  slots_.push_back({kSeparator, 0});
  for (uint32_t id = 0; id < 256; ++id) {
    tokens_.emplace_back(1, static_cast<char>(kBytes.byte[id]));
  }
}

void BpeTrainer::reserve(size_t num_words, size_t num_bytes) {
  slots_.reserve(slots_.size() + num_words + num_bytes);
}

void BpeTrainer::add_word(const uint8_t* bytes, size_t size, uint64_t count) {
  if (size < 2 || count == 0) return;
  uint64_t weight_of_word = 0;
  if (__builtin_mul_overflow(count, uint64_t{size}, &weight_of_word) ||
      __builtin_add_overflow(total_weight_, weight_of_word, &total_weight_)) {
    throw invalid("the counts of all words add up to more than 2^64");
  }
  const bool big = count >= kBigWeight;
  if (big) big_words_.push_back({slots_.size(), count});
  const uint32_t weight = big ? kBigWeight : static_cast<uint32_t>(count);
  for (size_t i = 0; i < size; ++i) slots_.push_back({kBytes.id[bytes[i]], weight});
  slots_.push_back({kSeparator, 0});
}

uint64_t BpeTrainer::weight_at(uint32_t position) const {
  const uint32_t weight = slots_[position].weight;
  if (weight != kBigWeight) return weight;
  auto after = std::upper_bound(big_words_.begin(), big_words_.end(), position,
                                [](uint64_t at, const BigWord& word) { return at < word.begin; });
  return (after - 1)->count;
}

uint32_t BpeTrainer::find_pair(uint64_t key) const {
  const uint64_t mask = table_keys_.size() - 1;
  for (uint64_t at = hash_key(key) & mask;; at = (at + 1) & mask) {
    if (table_keys_[at] == key) return table_pairs_[at];
    if (table_keys_[at] == kFreeKey) throw Error(CERNE_INTERNAL, "a pair was lost in training");
  }
}

void BpeTrainer::grow_table() {
  const size_t size = table_keys_.empty() ? size_t{1} << 16 : table_keys_.size() * 2;
  table_keys_.assign(size, kFreeKey);
  table_pairs_.assign(size, 0);
  for (uint32_t pair = 0; pair < pairs_.size(); ++pair) {
    const uint64_t key = pair_key(pairs_[pair].left, pairs_[pair].right);
    uint64_t at = hash_key(key) & (size - 1);
    while (table_keys_[at] != kFreeKey) at = (at + 1) & (size - 1);
    table_keys_[at] = key;
    table_pairs_[at] = pair;
  }
}

// Adds a new pair and makes it a candidate.
void BpeTrainer::add_pair(uint64_t key, uint64_t count, uint64_t list_begin, uint64_t list_size) {
  if ((pairs_.size() + 1) * 2 > table_keys_.size()) grow_table();
  const uint32_t pair = static_cast<uint32_t>(pairs_.size());
  pairs_.push_back(
      {static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), count, list_begin, list_size});
  const uint64_t mask = table_keys_.size() - 1;
  uint64_t at = hash_key(key) & mask;
  while (table_keys_[at] != kFreeKey) at = (at + 1) & mask;
  table_keys_[at] = key;
  table_pairs_[at] = pair;
  push_candidate(pair);
}

void BpeTrainer::push_candidate(uint32_t pair) {
  const Pair& record = pairs_[pair];
  heap_.push_back({record.count, pair_key(record.left, record.right), pair});
  std::push_heap(heap_.begin(), heap_.end(), LowerCandidate());
}

void BpeTrainer::count_byte_pairs() {
  std::vector<uint64_t> count(65536, 0), number(65536, 0);
  const uint32_t size = static_cast<uint32_t>(slots_.size());
  for (uint32_t p = 1; p + 1 < size; ++p) {
    const uint32_t a = slots_[p].token, b = slots_[p + 1].token;
    if (a == kSeparator || b == kSeparator) continue;
    count[a << 8 | b] += weight_at(p);
    number[a << 8 | b] += 1;
  }
  std::vector<uint64_t> next(65536, 0);
  for (uint32_t key = 0; key < 65536; ++key) {
    if (number[key] == 0) continue;
    next[key] = positions_used_;
    positions_used_ += number[key];
    add_pair(pair_key(key >> 8, key & 255), count[key], next[key], number[key]);
  }
  for (uint32_t p = 1; p + 1 < size; ++p) {
    const uint32_t a = slots_[p].token, b = slots_[p + 1].token;
    if (a != kSeparator && b != kSeparator) positions_[next[a << 8 | b]++] = p;
  }
}

// Old pairs (neighbour, inner) lose weight; new pairs (neighbour, result) appear.
void BpeTrainer::settle(Side& side, bool is_left, uint32_t old_inner, uint32_t result) {
  for (uint32_t neighbour : side.seen) {
    Change& change = side.changes[neighbour];
    change.next = positions_used_;
    positions_used_ += change.number;
    const uint64_t old_key =
        is_left ? pair_key(neighbour, old_inner) : pair_key(old_inner, neighbour);
    pairs_[find_pair(old_key)].count -= change.lost;
  }
  for (const Touch& touch : side.touches) {
    positions_[side.changes[touch.neighbour].next++] = touch.position;
  }
  for (uint32_t neighbour : side.seen) {
    Change& change = side.changes[neighbour];
    const uint64_t new_key = is_left ? pair_key(neighbour, result) : pair_key(result, neighbour);
    if (change.gained != 0) {
      add_pair(new_key, change.gained, change.next - change.number, change.number);
    }
    change = Change();
  }
  side.seen.clear();
  side.touches.clear();
}

void BpeTrainer::merge_everywhere(const Pair& pair, uint32_t result) {
  const uint32_t a = pair.left, b = pair.right;
  const uint32_t size_a = static_cast<uint32_t>(tokens_[a].size());
  const uint32_t size_b = static_cast<uint32_t>(tokens_[b].size());
  const uint32_t* list = positions_.get() + pair.list_begin;
  left_.changes.resize(tokens_.size());
  right_.changes.resize(tokens_.size());

  for (uint64_t i = 0; i < pair.list_size; ++i) {
    const uint32_t p = list[i], q = p + size_a;
    if (slots_[p].token != a || slots_[q].token != b) continue;
    const uint32_t before = slots_[p - 1].token, after = slots_[q + size_b].token;
    slots_[p].token = slots_[q].token = slots_[q + size_b - 1].token = result;
    const uint64_t weight = weight_at(p);
    if (before == result) {
      // The pair (result, a) that the occurrence to the left announced becomes (result, result).
      right_.changes[a].gained -= weight;
      self_weight_ += weight;
      self_positions_.push_back(p - size_a - size_b);
    } else if (before != kSeparator) {
      left_.add(before, weight, p - static_cast<uint32_t>(tokens_[before].size()));
    }
    if (after != kSeparator) right_.add(after, weight, p);
  }
  settle(left_, true, a, result);
  settle(right_, false, b, result);
  if (!self_positions_.empty()) {
    std::copy(self_positions_.begin(), self_positions_.end(), positions_.get() + positions_used_);
    add_pair(pair_key(result, result), self_weight_, positions_used_, self_positions_.size());
    positions_used_ += self_positions_.size();
    self_positions_.clear();
    self_weight_ = 0;
  }
}

BpeTrainStatus BpeTrainer::train(uint32_t vocab_size, uint64_t min_count, BpeProgress progress,
                                 void* user) {
  if (slots_.size() >= kSeparator) throw invalid("the distinct words are larger than 4 GiB");
  // Each byte begins at most one initial pair, and each merge of two symbols into one adds at most
  // two positions. Pages that stay unused cost nothing.
  positions_.reset(new uint32_t[3 * slots_.size()]);
  grow_table();
  count_byte_pairs();

  while (tokens_.size() < vocab_size && !heap_.empty()) {
    const Candidate top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), LowerCandidate());
    heap_.pop_back();
    const Pair record = pairs_[top.pair];
    if (record.count != top.count) {
      // Counts only fall, so a candidate that was pushed too high waits at its new place.
      if (record.count >= min_count) push_candidate(top.pair);
      continue;
    }
    if (top.count < min_count) break;

    tokens_.push_back(tokens_[record.left] + tokens_[record.right]);
    merges_.push_back({record.left, record.right});
    merge_everywhere(record, static_cast<uint32_t>(tokens_.size() - 1));
    if (progress != nullptr && merges_.size() % kMergesPerReport == 0 &&
        progress(user, tokens_.size(), vocab_size) != 0) {
      return BpeTrainStatus::kStopped;
    }
  }
  return tokens_.size() < vocab_size ? BpeTrainStatus::kExhausted : BpeTrainStatus::kDone;
}

}  // namespace cerne
