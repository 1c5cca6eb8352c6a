#include "spm_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "hash.h"
#include "status.h"
#include "unicode.h"

namespace cerne {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left > 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = hash_pair(hash, word);
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  return hash_pair(hash, word);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte that "<0xAB>" names, or -1.
int named_byte(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
  const int high = hex_digit(piece[3]), low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// The text with each U+2581 as a space.
void append_with_spaces(std::string_view text, std::vector<char>& out) {
  while (!text.empty()) {
    const size_t at = std::min(text.find(kSpace), text.size());
    out.insert(out.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at));
    if (at == text.size()) return;
    out.push_back(' ');
    text.remove_prefix(at + kSpace.size());
  }
}

}  // namespace

size_t SpmModel::slot_of(std::string_view piece) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash_bytes(piece) & mask;; i = (i + 1) & mask) {
    if (slots_[i] == kNoToken || token(slots_[i]) == piece) return i;
  }
}

void SpmModel::set_vocabulary(const uint8_t* bytes, const uint64_t* offsets, size_t num_tokens) {
  if (num_tokens == 0 || num_tokens > kMaxTokens) {
    throw invalid("the vocabulary has " + std::to_string(num_tokens) + " tokens; allowed: 1 to " +
                  std::to_string(kMaxTokens));
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      throw invalid("vocabulary offsets decrease at token " + std::to_string(i));
    }
  }
  SpmModel fresh;
  std::fill_n(fresh.byte_ids_, 256, kNoToken);
  fresh.slots_.assign(std::bit_ceil(2 * num_tokens), kNoToken);
  fresh.text_.reserve(static_cast<size_t>(offsets[num_tokens] - offsets[0]));
  fresh.offsets_.reserve(num_tokens + 1);
  fresh.offsets_.push_back(0);
  // The last byte of a space in text, when it is written as U+2581.
  fresh.joins_space_[static_cast<uint8_t>(kSpace.back())] = true;
  for (uint32_t id = 0; id < num_tokens; ++id) {
    const std::string_view piece(reinterpret_cast<const char*>(bytes) + offsets[id],
                                 static_cast<size_t>(offsets[id + 1] - offsets[id]));
    const int byte = named_byte(piece);
    if (byte >= 0) {
      fresh.text_.push_back(static_cast<char>(byte));
      fresh.offsets_.push_back(fresh.text_.size());
      if (fresh.byte_ids_[byte] == kNoToken) fresh.byte_ids_[byte] = id;
      continue;
    }
    append_with_spaces(piece, fresh.text_);
    fresh.offsets_.push_back(fresh.text_.size());
    const std::string_view text = fresh.token(id);
    if (text.empty()) continue;
    uint32_t& slot = fresh.slots_[fresh.slot_of(text)];
    if (slot != kNoToken) {
      throw invalid("tokens " + std::to_string(slot) + " and " + std::to_string(id) +
                    " are the same piece");
    }
    slot = id;
    fresh.max_piece_ = std::max(fresh.max_piece_, text.size());
    for (size_t i = 1; i < text.size(); ++i) {
      if (text[i] == ' ') fresh.joins_space_[static_cast<uint8_t>(text[i - 1])] = true;
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (fresh.byte_ids_[byte] == kNoToken) {
      throw invalid("the vocabulary has no token for byte " + std::to_string(byte));
    }
  }
  if (fresh.find_piece(reinterpret_cast<const uint8_t*>(" "), 1) == kNoToken) {
    throw invalid("the vocabulary has no token for the space, U+2581");
  }
  *this = std::move(fresh);
}

void SpmModel::set_scores(const float* scores, size_t num_scores) {
  if (num_scores != num_tokens()) {
    throw invalid(std::to_string(num_scores) + " scores for a vocabulary of " +
                  std::to_string(num_tokens()) + " tokens");
  }
  for (size_t i = 0; i < num_scores; ++i) {
    if (std::isnan(scores[i])) throw invalid("the score of token " + std::to_string(i) + " is NaN");
  }
  scores_.assign(scores, scores + num_scores);
}

// Before each space, or run of spaces, that no piece joins to what stands before.
size_t SpmModel::find_ends(const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                           size_t capacity) const {
  size_t count = 0;
  while (count < capacity && p < end) {
    const uint8_t* q = p + 1;
    while (q < end) {
      q = static_cast<const uint8_t*>(std::memchr(q, ' ', static_cast<size_t>(end - q)));
      if (q == nullptr) q = end;
      if (q == end || (q[-1] != ' ' && !joins_space_[q[-1]])) break;
      ++q;
    }
    ends[count++] = p = q;
  }
  return count;
}

size_t SpmModel::encode_word(const uint8_t* word, size_t size, uint32_t* out,
                             MergeScratch& scratch) const {
  if (size >= UINT32_MAX) throw invalid("one word of 4 GiB or more");
  std::string_view text(reinterpret_cast<const char*>(word), size);
  if (text.find(kSpace) != std::string_view::npos) {
    std::vector<char> spaced;
    append_with_spaces(text, spaced);
    scratch.text.assign(spaced.begin(), spaced.end());
    text = scratch.text;
  }
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = bytes + text.size();
  auto& start = scratch.start;
  start.clear();
  for (const uint8_t* p = bytes; p < end; p += decode_char(p, end).size) {
    start.push_back(static_cast<uint32_t>(p - bytes));
  }
  const uint32_t num_characters = static_cast<uint32_t>(start.size());
  start.push_back(static_cast<uint32_t>(text.size()));
  const uint32_t num_symbols = num_characters <= kShortWord
                                   ? merge_short(bytes, scratch, num_characters)
                                   : merge_long(bytes, scratch, num_characters);
  size_t count = 0;
  for (uint32_t i = 0; i < num_symbols; ++i) {
    const uint32_t id = find_piece(bytes + start[i], start[i + 1] - start[i]);
    if (id != kNoToken) {
      out[count++] = id;
      continue;
    }
    for (uint32_t at = start[i]; at < start[i + 1]; ++at) out[count++] = byte_ids_[bytes[at]];
  }
  return count;
}

// Both leave the beginnings of the symbols, and the end of the text, in scratch.start.
uint32_t SpmModel::merge_short(const uint8_t* text, MergeScratch& scratch, uint32_t n) const {
  uint32_t* const start = scratch.start.data();
  float score[kShortWord];
  bool merges[kShortWord];  // the pair (i, i + 1)
  const auto look = [&](uint32_t i) {
    const uint32_t id = find_piece(text + start[i], start[i + 2] - start[i]);
    merges[i] = id != kNoToken;
    score[i] = merges[i] ? scores_[id] : 0;
  };
  for (uint32_t i = 0; i + 1 < n; ++i) look(i);
  while (n > 1) {
    uint32_t best = n;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      if (merges[i] && (best == n || score[i] > score[best])) best = i;
    }
    if (best == n) break;
    for (uint32_t i = best + 1; i < n; ++i) start[i] = start[i + 1];
    for (uint32_t i = best + 1; i + 2 < n; ++i) {
      merges[i] = merges[i + 1];
      score[i] = score[i + 1];
    }
    --n;
    if (best > 0) look(best - 1);
    if (best + 1 < n) look(best);
  }
  return n;
}

uint32_t SpmModel::merge_long(const uint8_t* text, MergeScratch& scratch, uint32_t n) const {
  using Candidate = MergeScratch::Candidate;
  // Of a heap's two, the one that waits longer.
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  };
  auto& start = scratch.start;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& heap = scratch.candidates;
  next.resize(n + 1);
  previous.resize(n + 1);
  heap.clear();
  const auto offer = [&](uint32_t left, uint32_t size) {
    const uint32_t id = find_piece(text + start[left], size);
    if (id != kNoToken) heap.push_back({scores_[id], left, size});
    return id != kNoToken;
  };
  const auto push = [&](uint32_t left, uint32_t stop) {
    if (offer(left, start[stop] - start[left])) std::push_heap(heap.begin(), heap.end(), later);
  };
  for (uint32_t i = 0; i <= n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (uint32_t i = 0; i + 1 < n; ++i) offer(i, start[i + 2] - start[i]);
  std::make_heap(heap.begin(), heap.end(), later);
  constexpr uint32_t kGone = UINT32_MAX;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const auto [score, left, size] = heap.back();
    heap.pop_back();
    const uint32_t right = next[left];
    // Merged away, the last, or one of the two has grown since.
    if (right == kGone || right >= n || start[next[right]] - start[left] != size) continue;
    const uint32_t after = next[right];
    next[left] = after;
    next[right] = kGone;
    previous[after] = left;
    if (after < n) push(left, next[after]);
    if (left > 0) push(previous[left], after);
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i = next[i]) start[count++] = start[i];
  start[count] = start[n];
  return count;
}

}  // namespace cerne
