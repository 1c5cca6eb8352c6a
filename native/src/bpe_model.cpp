#include "bpe_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <queue>

#include "status.h"

namespace cerne {

PairTable::Slots::Slots(size_t num_pairs) {
  const size_t num_slots = std::bit_ceil(std::max<size_t>(2, num_pairs + num_pairs / 2));
  values = ZeroedArray<uint64_t>(num_slots);
  mask = num_slots - 1;
  shift = 64 - std::countr_zero(num_slots);
}

PairTable::PairTable(size_t num_pairs)
    : early_(std::min(num_pairs, kNumEarly)), late_(num_pairs - std::min(num_pairs, kNumEarly)) {
  const size_t num_words = std::bit_ceil(std::max<size_t>(2, num_pairs / 8));
  bits_ = ZeroedArray<uint64_t>(num_words);
  bit_shift_ = 64 - std::countr_zero(num_words);
}

void PairTable::insert(uint32_t left, uint32_t right, uint32_t rank) {
  const uint64_t key = key_of(left, right);
  const uint64_t hash = key * kMultiplier;
  bits_[hash >> bit_shift_] |= uint64_t{1} << ((hash >> 24) & 63);
  uint64_t* slot = &early_.slot_of(key, hash);
  if (*slot == 0 && rank >= kNumEarly) slot = &late_.slot_of(key, hash);
  *slot = key << kRankBits | (rank + 1);
}

void BpeModel::set_vocabulary(const uint8_t* bytes, const uint64_t* offsets, size_t num_tokens) {
  if (num_tokens == 0 || num_tokens > kMaxTokens) {
    throw invalid("the vocabulary has " + std::to_string(num_tokens) + " tokens; allowed: 1 to " +
                  std::to_string(kMaxTokens));
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      throw invalid("vocabulary offsets decrease at token " + std::to_string(i));
    }
  }
  BpeModel fresh;
  fresh.blob_.assign(bytes + offsets[0], bytes + offsets[num_tokens]);
  fresh.offsets_.resize(num_tokens + 1);
  for (size_t i = 0; i <= num_tokens; ++i) fresh.offsets_[i] = offsets[i] - offsets[0];
  fresh.ids_.reserve(num_tokens);
  for (uint32_t id = 0; id < num_tokens; ++id) {
    const std::string_view token = fresh.token(id);
    if (token.empty()) continue;
    const auto [place, added] = fresh.ids_.emplace(token, id);
    if (!added) {
      throw invalid("tokens " + std::to_string(place->second) + " and " + std::to_string(id) +
                    " have the same bytes");
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const uint32_t id = fresh.find_token(std::string_view(&c, 1));
    if (id == kNoToken) fresh.lacks_bytes_ = true;
    fresh.byte_ids_[byte] = id;
  }
  fresh.byte_pair_rank_.assign(256 * 256, kNoRank);
  *this = std::move(fresh);
}

void BpeModel::set_merges(const uint32_t* pairs, size_t num_merges) {
  if (num_merges >= kMaxTokens) {
    throw invalid(std::to_string(num_merges) + " merges; allowed: fewer than " +
                  std::to_string(kMaxTokens));
  }
  PairTable table(num_merges);
  std::vector<uint32_t> merged(num_merges);
  std::vector<uint32_t> byte_pair_rank(256 * 256, kNoRank);
  std::string joined;
  for (uint32_t rank = 0; rank < num_merges; ++rank) {
    const uint32_t left = pairs[2 * rank], right = pairs[2 * rank + 1];
    if (left >= num_tokens() || right >= num_tokens()) {
      throw invalid("merge " + std::to_string(rank) + " names id " +
                    std::to_string(std::max(left, right)) + "; the vocabulary has " +
                    std::to_string(num_tokens()) + " tokens");
    }
    joined.assign(token(left)).append(token(right));
    merged[rank] = find_token(joined);
    if (merged[rank] == kNoToken || token(left).empty() || token(right).empty()) {
      throw invalid("merge " + std::to_string(rank) + " (" + std::to_string(left) + ", " +
                    std::to_string(right) + ") does not make a token");
    }
    table.insert(left, right, rank);
    if (joined.size() == 2) {
      byte_pair_rank[static_cast<uint8_t>(joined[0]) * 256u + static_cast<uint8_t>(joined[1])] =
          rank;
    }
  }
  pairs_ = std::move(table);
  merged_follow_ = true;
  for (uint32_t rank = 0; rank < num_merges; ++rank) {
    merged_follow_ = merged_follow_ && merged[rank] == merged[0] + rank;
  }
  merged_ = std::move(merged);
  byte_pair_rank_ = std::move(byte_pair_rank);
}

size_t BpeModel::encode_word(const uint8_t* word, size_t size, uint32_t* out,
                             MergeScratch& scratch) const {
  if (ignore_merges_) {
    const uint32_t id = find_token(std::string_view(reinterpret_cast<const char*>(word), size));
    if (id != kNoToken) {
      out[0] = id;
      return 1;
    }
  }
  const size_t count = merge(word, size, out, scratch);
  if (!lacks_bytes_) return count;
  return static_cast<size_t>(std::remove(out, out + count, kNoToken) - out);
}

size_t BpeModel::merge(const uint8_t* word, size_t size, uint32_t* out,
                       MergeScratch& scratch) const {
  if (size == 1) {
    out[0] = byte_ids_[word[0]];
    return 1;
  }
  return size <= kShortWord ? merge_short(word, size, out) : merge_long(word, size, out, scratch);
}

size_t BpeModel::merge_short(const uint8_t* word, size_t size, uint32_t* out) const {
  uint32_t ids[kShortWord];
  uint32_t rank[kShortWord];  // rank[i]: of the pair (i, i + 1)
  size_t n = size;
  for (size_t i = 0; i < n; ++i) ids[i] = byte_ids_[word[i]];
  for (size_t i = 0; i + 1 < n; ++i) rank[i] = byte_pair_rank_[word[i] * 256u + word[i + 1]];
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (rank[i] < rank[best]) best = i;
    }
    if (rank[best] == kNoRank) break;
    ids[best] = merged_id(rank[best]);
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      rank[i - 1] = rank[i];
    }
    --n;
    if (best > 0) rank[best - 1] = pairs_.find(ids[best - 1], ids[best]);
    if (best + 1 < n) rank[best] = pairs_.find(ids[best], ids[best + 1]);
  }
  std::copy(ids, ids + n, out);
  return n;
}

// The word is always one id `count` times and a short tail, so each round of merges is one step.
size_t BpeModel::merge_run(uint8_t byte, size_t size, uint32_t* out) const {
  uint32_t head = byte_ids_[byte];
  size_t count = size;
  std::vector<uint32_t> tail;
  for (;;) {
    // The leftmost pair of lowest rank: in the run, where the tail begins, or inside the tail.
    const uint32_t run_rank = count >= 2 ? pairs_.find(head, head) : kNoRank;
    uint32_t best = run_rank;
    size_t place = SIZE_MAX;  // index in the tail of the pair's right side
    for (size_t i = 0; i < tail.size(); ++i) {
      if (i == 0 && count == 0) continue;
      const uint32_t rank = pairs_.find(i == 0 ? head : tail[i - 1], tail[i]);
      if (rank < best) {
        best = rank;
        place = i;
      }
    }
    if (best == kNoRank) break;
    const uint32_t merged = merged_id(best);
    if (place == SIZE_MAX) {
      // Half-way through the round these pairs exist; ranked earlier, they would go first.
      if (pairs_.find(merged, head) < best || pairs_.find(merged, merged) < best) return 0;
      if (count % 2 == 1) tail.insert(tail.begin(), head);
      head = merged;
      count /= 2;
    } else {
      tail[place] = merged;
      if (place == 0) {
        --count;
      } else {
        tail.erase(tail.begin() + static_cast<std::ptrdiff_t>(place) - 1);
      }
    }
    while (count > 0 && !tail.empty() && tail[0] == head) {
      tail.erase(tail.begin());
      ++count;
    }
  }
  std::fill_n(out, count, head);
  std::copy(tail.begin(), tail.end(), out + count);
  return count + tail.size();
}

// Positions wait in one bucket per rank; a heap holds the ranks that are waiting. A run of one
// character has a handful of ranks, so the work is near linear, and n log n at worst.
size_t BpeModel::merge_long(const uint8_t* word, size_t size, uint32_t* out,
                            MergeScratch& scratch) const {
  if (size >= UINT32_MAX) throw invalid("one pre-token of 4 GiB or more");
  if (std::memcmp(word, word + 1, size - 1) == 0) {
    const size_t count = merge_run(word[0], size, out);
    if (count != 0) return count;
  }
  const uint32_t n = static_cast<uint32_t>(size);
  constexpr uint32_t kNone = UINT32_MAX;
  auto& ids = scratch.ids;
  auto& rank = scratch.rank;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& bucket_of_rank = scratch.bucket_of_rank;
  auto& buckets = scratch.buckets;
  ids.resize(n);
  rank.resize(n);
  next.resize(n);
  previous.resize(n);
  if (bucket_of_rank.size() != merged_.size()) bucket_of_rank.assign(merged_.size(), kNone);

  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> waiting;
  std::vector<uint32_t> free_buckets;
  size_t num_buckets = 0;
  const auto enqueue = [&](uint32_t position, uint32_t pair_rank) {
    rank[position] = pair_rank;
    if (pair_rank == kNoRank) return;
    uint32_t& bucket = bucket_of_rank[pair_rank];
    if (bucket == kNone) {
      if (free_buckets.empty()) {
        bucket = static_cast<uint32_t>(num_buckets++);
        if (buckets.size() < num_buckets) buckets.emplace_back();
      } else {
        bucket = free_buckets.back();
        free_buckets.pop_back();
      }
      waiting.push(pair_rank);
    }
    buckets[bucket].push_back(position);
  };

  // In a run of one character the same pairs come again and again.
  uint32_t known[2][2] = {};
  uint32_t known_rank[2] = {pairs_.find(0, 0), pairs_.find(0, 0)};
  const auto find = [&](int side, uint32_t left, uint32_t right) {
    if (known[side][0] != left || known[side][1] != right) {
      known[side][0] = left;
      known[side][1] = right;
      known_rank[side] = pairs_.find(left, right);
    }
    return known_rank[side];
  };

  for (uint32_t i = 0; i < n; ++i) {
    ids[i] = byte_ids_[word[i]];
    next[i] = i + 1;
    previous[i] = i - 1;  // kNone for the first
  }
  rank[n - 1] = kNoRank;
  for (uint32_t i = 0; i + 1 < n; ++i) enqueue(i, byte_pair_rank_[word[i] * 256u + word[i + 1]]);

  std::vector<uint32_t> positions;
  while (!waiting.empty()) {
    const uint32_t current = waiting.top();
    waiting.pop();
    const uint32_t bucket = bucket_of_rank[current];
    positions.clear();
    positions.swap(buckets[bucket]);
    bucket_of_rank[current] = kNone;
    if (!std::is_sorted(positions.begin(), positions.end())) {
      std::sort(positions.begin(), positions.end());
    }
    const uint32_t merged = merged_id(current);
    for (size_t k = 0; k < positions.size(); ++k) {
      const uint32_t left = positions[k];
      if (rank[left] != current) continue;  // merged away or changed since it was queued
      const uint32_t right = next[left];
      const uint32_t after = next[right];
      ids[left] = merged;
      next[left] = after;
      rank[right] = kNoRank;
      if (after < n) {
        previous[after] = left;
        enqueue(left, find(0, merged, ids[after]));
      } else {
        rank[left] = kNoRank;
      }
      const uint32_t before = previous[left];
      if (before != kNone) enqueue(before, find(1, ids[before], merged));
      // A merge may create a pair that ranks before its own parts: that one goes first.
      if (!waiting.empty() && waiting.top() < current) {
        for (size_t rest = k + 1; rest < positions.size(); ++rest) {
          if (rank[positions[rest]] == current) enqueue(positions[rest], current);
        }
        break;
      }
    }
    // Nobody else has had this bucket meanwhile; it keeps the larger storage.
    positions.clear();
    positions.swap(buckets[bucket]);
    free_buckets.push_back(bucket);
  }

  size_t count = 0;
  for (uint32_t i = 0; i < n; i = next[i]) out[count++] = ids[i];
  return count;
}

}  // namespace cerne
