#include "bpe_train.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "hash.h"
#include "status.h"

namespace cerne {
namespace {

constexpr uint32_t kSeparator = 0xFFFFFFFFu;
constexpr uint32_t kBigWeight = 0xFFFFFFFFu;
constexpr uint32_t kNoPair = 0xFFFFFFFFu;
constexpr uint64_t kFreeKey = ~uint64_t{0};
constexpr uint64_t kMergesPerReport = 64;

uint64_t pair_key(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

uint64_t hash_key(uint64_t key) { return hash_pair(key, 0); }

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

BpeTrainer::Change& BpeTrainer::Side::change(uint32_t neighbour) {
  Change& change = changes[neighbour];
  if (!change.seen) {
    change.seen = true;
    seen.push_back(neighbour);
  }
  return change;
}

void BpeTrainer::Side::add(uint32_t neighbour, uint64_t weight, uint32_t position) {
  Change& change = this->change(neighbour);
  change.lost += weight;
  change.gained += weight;
  change.number += 1;
  touches.push_back({neighbour, position});
}

BpeTrainer::BpeTrainer() {
  slots_.push_back({kSeparator, 0});
  for (uint32_t id = 0; id < 256; ++id) {
    tokens_.emplace_back(1, static_cast<char>(kBytes.byte[id]));
    token_ids_.emplace(tokens_.back(), id);
  }
}

void BpeTrainer::reserve(size_t num_words, size_t num_bytes) {
  slots_.reserve(slots_.size() + num_words + num_bytes);
}

void BpeTrainer::add_word(const uint8_t* bytes, size_t size, uint64_t count) {
  if (size < 2 || count == 0) return;
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

uint64_t BpeTrainer::reserve_positions(uint64_t number) {
  if (positions_used_ + number > positions_room_) {
    // Only duplicate merges can get here: they copy lists.
    positions_room_ += positions_room_ / 2 + number;
    std::unique_ptr<uint32_t[]> larger(new uint32_t[positions_room_]);
    std::memcpy(larger.get(), positions_.get(), positions_used_ * sizeof(uint32_t));
    positions_ = std::move(larger);
  }
  const uint64_t begin = positions_used_;
  positions_used_ += number;
  return begin;
}

uint32_t BpeTrainer::find_pair(uint64_t key) const {
  const uint64_t mask = table_keys_.size() - 1;
  for (uint64_t at = hash_key(key) & mask;; at = (at + 1) & mask) {
    if (table_keys_[at] == key) return table_pairs_[at];
    if (table_keys_[at] == kFreeKey) return kNoPair;
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

uint32_t BpeTrainer::add_pair(uint64_t key, uint64_t count, uint64_t list_begin,
                              uint64_t list_size) {
  if ((pairs_.size() + 1) * 2 > table_keys_.size()) grow_table();
  const uint32_t pair = static_cast<uint32_t>(pairs_.size());
  pairs_.push_back(
      {static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), count, list_begin, list_size});
  const uint64_t mask = table_keys_.size() - 1;
  uint64_t at = hash_key(key) & mask;
  while (table_keys_[at] != kFreeKey) at = (at + 1) & mask;
  table_keys_[at] = key;
  table_pairs_[at] = pair;
  return pair;
}

namespace {
struct LowerCandidate {
  template <typename C>
  bool operator()(const C& a, const C& b) const {
    return a.count != b.count ? a.count < b.count : a.key > b.key;
  }
};
}  // namespace

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
    next[key] = reserve_positions(number[key]);
    add_pair(pair_key(key >> 8, key & 255), count[key], next[key], number[key]);
  }
  for (uint32_t p = 1; p + 1 < size; ++p) {
    const uint32_t a = slots_[p].token, b = slots_[p + 1].token;
    if (a != kSeparator && b != kSeparator) positions_[next[a << 8 | b]++] = p;
  }
  for (uint32_t pair = 0; pair < pairs_.size(); ++pair) push_candidate(pair);
}

uint32_t BpeTrainer::token_for(uint32_t left, uint32_t right) {
  const uint32_t next = static_cast<uint32_t>(tokens_.size());
  const auto [entry, is_new] = token_ids_.emplace(tokens_[left] + tokens_[right], next);
  if (is_new) tokens_.push_back(entry->first);
  return entry->second;
}

// One pair appears, or appears again after a duplicate merge made one of its tokens a second time.
void BpeTrainer::gain(uint64_t key, uint64_t weight, uint64_t list_begin, uint64_t list_size) {
  uint32_t pair = find_pair(key);
  if (pair == kNoPair) {
    if (weight == 0) return;
    pair = add_pair(key, weight, list_begin, list_size);
  } else {
    Pair& record = pairs_[pair];
    record.count += weight;
    if (list_size == 0) return;
    const uint64_t begin = reserve_positions(record.list_size + list_size);
    uint32_t* base = positions_.get();
    std::merge(base + record.list_begin, base + record.list_begin + record.list_size,
               base + list_begin, base + list_begin + list_size, base + begin);
    record.list_begin = begin;
    record.list_size += list_size;
  }
  push_candidate(pair);
}

// Old pairs (neighbour, inner) lose weight; new pairs (neighbour, result) appear with their
// positions.
void BpeTrainer::settle(Side& side, bool is_left, uint32_t old_inner, uint32_t result) {
  for (uint32_t neighbour : side.seen) {
    Change& change = side.changes[neighbour];
    change.next = reserve_positions(change.number);
    if (change.lost == 0) continue;
    const uint32_t pair =
        find_pair(is_left ? pair_key(neighbour, old_inner) : pair_key(old_inner, neighbour));
    if (pair != kNoPair) pairs_[pair].count -= change.lost;
  }
  for (const Touch& touch : side.touches)
    positions_[side.changes[touch.neighbour].next++] = touch.position;
  for (uint32_t neighbour : side.seen) {
    Change& change = side.changes[neighbour];
    gain(is_left ? pair_key(neighbour, result) : pair_key(result, neighbour), change.gained,
         change.next - change.number, change.number);
    change = Change();
  }
  side.seen.clear();
  side.touches.clear();
}

void BpeTrainer::merge_everywhere(uint32_t pair, uint32_t result) {
  const uint32_t a = pairs_[pair].left, b = pairs_[pair].right;
  const uint32_t size_a = static_cast<uint32_t>(tokens_[a].size());
  const uint32_t size_b = static_cast<uint32_t>(tokens_[b].size());
  const uint32_t* list = positions_.get() + pairs_[pair].list_begin;
  const uint64_t list_size = pairs_[pair].list_size;
  pairs_[pair].list_size = 0;
  left_.changes.resize(tokens_.size());
  right_.changes.resize(tokens_.size());

  for (uint64_t i = 0; i < list_size; ++i) {
    const uint32_t p = list[i], q = p + size_a;
    if (slots_[p].token != a || slots_[q].token != b) continue;
    const uint32_t before = slots_[p - 1].token, after = slots_[q + size_b].token;
    slots_[p].token = slots_[q].token = slots_[q + size_b - 1].token = result;
    const uint64_t weight = weight_at(p);
    if (before == result) {
      // The pair (result, a) that the occurrence to the left announced becomes (result, result).
      right_.change(a).gained -= weight;
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
    const uint64_t begin = reserve_positions(self_positions_.size());
    std::copy(self_positions_.begin(), self_positions_.end(), positions_.get() + begin);
    gain(pair_key(result, result), self_weight_, begin, self_positions_.size());
    self_positions_.clear();
    self_weight_ = 0;
  }
}

BpeTrainStatus BpeTrainer::train(uint32_t vocab_size, uint64_t min_count, BpeProgress progress,
                                 void* user) {
  if (slots_.size() >= kSeparator) throw invalid("the distinct words are larger than 4 GiB");
  positions_room_ = 3 * uint64_t{slots_.size()};
  positions_.reset(new uint32_t[positions_room_]);
  grow_table();
  count_byte_pairs();

  bool duplicates = false;
  while (tokens_.size() < vocab_size) {
    if (heap_.empty()) break;
    const Candidate top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), LowerCandidate());
    heap_.pop_back();
    const Pair& record = pairs_[top.pair];
    if (record.list_size == 0) continue;
    if (record.count != top.count) {
      if (record.count >= min_count) push_candidate(top.pair);
      continue;
    }
    if (top.count < min_count) break;

    const size_t tokens_before = tokens_.size();
    const uint32_t result = token_for(record.left, record.right);
    duplicates |= tokens_.size() == tokens_before;
    merges_.push_back({record.left, record.right, result});
    merge_everywhere(top.pair, result);
    if (progress != nullptr && merges_.size() % kMergesPerReport == 0 &&
        progress(user, tokens_.size(), vocab_size) != 0) {
      return BpeTrainStatus::kStopped;
    }
  }
  if (duplicates) keep_last_of_equal_merges();
  return tokens_.size() < vocab_size ? BpeTrainStatus::kExhausted : BpeTrainStatus::kDone;
}

// A pair that a duplicate merge brought back is merged twice; its later rank is the one that
// counts.
void BpeTrainer::keep_last_of_equal_merges() {
  std::unordered_set<uint64_t> seen;
  std::vector<BpeMerge> kept;
  for (auto merge = merges_.rbegin(); merge != merges_.rend(); ++merge) {
    if (seen.insert(pair_key(merge->left, merge->right)).second) kept.push_back(*merge);
  }
  merges_.assign(kept.rbegin(), kept.rend());
}

}  // namespace cerne
