// Contexts through the C interface: how tokens are cut, batched, forked or threaded changes no bit.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cerne.h"
#include "check.h"
#include "refused.h"
#include "small_model.h"

using cerne_test::kContext;
using cerne_test::kVocab;
using cerne_test::refused;
using cerne_test::set_option;

namespace {

using Logits = std::vector<float>;

std::vector<uint32_t> random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % kVocab);
  return ids;
}

class Context {
 public:
  Context(const cerne_model* model, int64_t threads, int64_t max_sequences, int64_t batch_tokens) {
    CHECK(cerne_context_create(model, &context_) == CERNE_OK);
    CHECK(set_option(context_, "threads", threads) == CERNE_OK);
    CHECK(set_option(context_, "capacity", kContext) == CERNE_OK);
    CHECK(set_option(context_, "max_sequences", max_sequences) == CERNE_OK);
    CHECK(set_option(context_, "batch_tokens", batch_tokens) == CERNE_OK);
  }
  ~Context() { cerne_context_destroy(context_); }

  cerne_context* get() { return context_; }

  uint64_t start() {
    uint64_t sequence = 0;
    CHECK(cerne_context_start(context_, &sequence) == CERNE_OK);
    return sequence;
  }

  uint64_t length(uint64_t sequence) {
    uint64_t length = 0;
    CHECK(cerne_context_length(context_, sequence, &length) == CERNE_OK);
    return length;
  }

  // Appends ids to one sequence; the logits after every token.
  Logits read(uint64_t sequence, const std::vector<uint32_t>& ids) {
    Logits logits(ids.size() * kVocab);
    const std::vector<uint64_t> sequences(ids.size(), sequence);
    const std::vector<uint8_t> wanted(ids.size(), 1);
    CHECK(cerne_context_decode(context_, sequences.data(), ids.data(), wanted.data(), ids.size(),
                               logits.data(), logits.size()) == CERNE_OK);
    return logits;
  }

 private:
  cerne_context* context_ = nullptr;
};

bool same(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

CERNE_TEST(hidden_states_do_not_depend_on_threads_or_pieces_and_refusals_change_nothing) {
  constexpr size_t kWidth = 32;
  cerne_model* const model = cerne_test::small_model();
  const std::vector<uint32_t> ids = random_ids(20, 2);
  const std::vector<uint8_t> wanted(ids.size(), 1);
  Logits states[2];
  for (const size_t piece : {size_t{1}, size_t{20}}) {
    Context context(model, piece == 1 ? 1 : 3, 1, 7);
    const uint64_t sequence = context.start();
    const std::vector<uint64_t> sequences(ids.size(), sequence);
    Logits& out = states[piece == 1];
    out.resize(ids.size() * kWidth);
    refused(cerne_context_embed(context.get(), sequences.data(), ids.data(), wanted.data(),
                                ids.size(), out.data(), out.size() - 1),
            "20 rows of 32");
    refused(cerne_context_embed(context.get(), sequences.data(), ids.data(), wanted.data(),
                                ids.size(), nullptr, out.size()),
            "cerne_context_embed: a required pointer is null");
    CHECK(context.length(sequence) == 0);
    for (size_t i = 0; i < ids.size(); i += piece) {
      CHECK(cerne_context_embed(context.get(), sequences.data(), &ids[i], wanted.data(), piece,
                                &out[i * kWidth], piece * kWidth) == CERNE_OK);
    }
    CHECK(context.length(sequence) == ids.size());
  }
  CHECK(same(states[0], states[1]));
  cerne_model_destroy(model);
}

CERNE_TEST(logits_do_not_depend_on_threads_or_pieces) {
  cerne_model* const model = cerne_test::small_model();
  const std::vector<uint32_t> ids = random_ids(190, 1);
  Context plain(model, 1, 1, 512);
  const Logits expected = plain.read(plain.start(), ids);
  for (const int64_t threads : {1, 2, 3, 8}) {
    for (const int64_t batch : {1, 7, 64, 512}) {
      Context context(model, threads, 1, batch);
      CHECK(same(context.read(context.start(), ids), expected));
    }
    Context context(model, threads, 1, 512);
    const uint64_t sequence = context.start();
    Logits joined;
    for (const uint32_t id : ids) {
      const Logits one = context.read(sequence, {id});
      joined.insert(joined.end(), one.begin(), one.end());
    }
    CHECK(same(joined, expected));
  }
  cerne_model_destroy(model);
}

CERNE_TEST(logits_do_not_depend_on_neighbours) {
  cerne_model* const model = cerne_test::small_model();
  const std::vector<uint32_t> ids = random_ids(150, 2);
  Context plain(model, 1, 1, 512);
  const Logits expected = plain.read(plain.start(), ids);
  std::mt19937 random(3);
  for (const size_t neighbours : {1, 2, 6, 15}) {
    Context context(model, 2, 16, 512);
    const uint64_t mine = context.start();
    std::vector<uint64_t> others;
    for (size_t i = 0; i < neighbours; ++i) others.push_back(context.start());
    Logits joined;
    for (const uint32_t id : ids) {
      std::vector<uint64_t> sequences = {mine};
      std::vector<uint32_t> tokens = {id};
      for (const uint64_t other : others) {
        // Some steps leave a neighbour out, some add two tokens of it.
        for (size_t k = random() % 3; k > 0 && context.length(other) + k < kContext; --k) {
          sequences.push_back(other);
          tokens.push_back(static_cast<uint32_t>(random() % kVocab));
        }
      }
      const size_t place = random() % sequences.size();
      std::swap(sequences[0], sequences[place]);
      std::swap(tokens[0], tokens[place]);
      std::vector<uint8_t> wanted(sequences.size(), 0);
      wanted[place] = 1;
      Logits logits(kVocab);
      CHECK(cerne_context_decode(context.get(), sequences.data(), tokens.data(), wanted.data(),
                                 sequences.size(), logits.data(), logits.size()) == CERNE_OK);
      joined.insert(joined.end(), logits.begin(), logits.end());
    }
    CHECK(same(joined, expected));
  }
  cerne_model_destroy(model);
}

CERNE_TEST(a_fork_goes_its_own_way) {
  cerne_model* const model = cerne_test::small_model();
  const std::vector<uint32_t> head = random_ids(100, 4);
  const std::vector<uint32_t> left = random_ids(50, 5);
  const std::vector<uint32_t> right = random_ids(50, 6);
  const auto whole = [&](const std::vector<uint32_t>& tail) {
    Context context(model, 1, 1, 512);
    const uint64_t sequence = context.start();
    context.read(sequence, head);
    return context.read(sequence, tail);
  };
  Context context(model, 2, 3, 512);
  const uint64_t first = context.start();
  context.read(first, head);
  uint64_t second = 0;
  CHECK(cerne_context_fork(context.get(), first, &second) == CERNE_OK);
  CHECK(context.length(second) == head.size());
  CHECK(same(context.read(first, left), whole(left)));
  CHECK(same(context.read(second, right), whole(right)));
  // Cut back into what both share, then on again.
  uint64_t third = 0;
  CHECK(cerne_context_fork(context.get(), second, &third) == CERNE_OK);
  CHECK(cerne_context_truncate(context.get(), third, head.size()) == CERNE_OK);
  CHECK(cerne_context_drop(context.get(), second) == CERNE_OK);
  CHECK(same(context.read(third, left), whole(left)));
  refused(cerne_context_truncate(context.get(), third, 1000), "cannot be cut");
  cerne_model_destroy(model);
}

CERNE_TEST(a_refused_decode_changes_nothing) {
  cerne_model* const model = cerne_test::small_model();
  Context context(model, 2, 2, 16);
  const uint64_t sequence = context.start();
  const uint64_t other = context.start();
  const std::vector<uint32_t> ids = random_ids(kContext, 8);
  context.read(sequence, {ids.begin(), ids.begin() + 150});
  const std::vector<uint64_t> full(60, sequence);
  const std::vector<uint8_t> none(60, 0);
  refused(cerne_context_decode(context.get(), full.data(), ids.data(), none.data(), 60, nullptr, 0),
          "holds 150 tokens and gets 60; allowed: 200");
  const uint32_t outside[] = {1, kVocab};
  const uint64_t both[] = {other, sequence};
  refused(cerne_context_decode(context.get(), both, outside, none.data(), 2, nullptr, 0),
          "token id 40; allowed: less than 40");
  const uint64_t unknown[] = {sequence, 99};
  refused(cerne_context_decode(context.get(), unknown, ids.data(), none.data(), 2, nullptr, 0),
          "no sequence 99");
  const uint8_t wanted[] = {1};
  float room[kVocab];
  refused(cerne_context_decode(context.get(), &sequence, ids.data(), wanted, 1, room, kVocab - 1),
          "room for 39 logits");
  uint64_t third = 0;
  refused(cerne_context_start(context.get(), &third), "max_sequences = 2");
  CHECK(context.length(sequence) == 150 && context.length(other) == 0);
  cerne_model_destroy(model);
}

CERNE_TEST(a_stopped_decode_changes_nothing) {
  cerne_model* const model = cerne_test::small_model();
  Context context(model, 2, 1, 4);
  const uint64_t sequence = context.start();
  const std::vector<uint32_t> ids = random_ids(150, 9);
  context.read(sequence, {ids.begin(), ids.begin() + 10});
  const std::vector<uint64_t> sequences(100, sequence);
  const std::vector<uint8_t> none(100, 0);
  CHECK(cerne_context_stop(context.get()) == CERNE_OK);
  CHECK(cerne_context_decode(context.get(), sequences.data(), ids.data(), none.data(), 100, nullptr,
                             0) == CERNE_STOPPED);
  CHECK(context.length(sequence) == 10);
  // From another thread, at whatever moment: stopped or done, never in between.
  for (int i = 0; i < 20; ++i) {
    std::thread stopper([&] { cerne_context_stop(context.get()); });
    const cerne_status status = cerne_context_decode(context.get(), sequences.data(), ids.data(),
                                                     none.data(), 100, nullptr, 0);
    stopper.join();
    CHECK(status == CERNE_OK || status == CERNE_STOPPED);
    CHECK(context.length(sequence) == (status == CERNE_OK ? 110 : 10));
    CHECK(cerne_context_truncate(context.get(), sequence, 10) == CERNE_OK);
    // A stop that came too late ends this one instead.
    const uint8_t no = 0;
    cerne_context_decode(context.get(), &sequence, ids.data() + 10, &no, 1, nullptr, 0);
    CHECK(cerne_context_truncate(context.get(), sequence, 10) == CERNE_OK);
  }
  Context plain(model, 1, 1, 512);
  const uint64_t fresh = plain.start();
  plain.read(fresh, {ids.begin(), ids.begin() + 10});
  const std::vector<uint32_t> tail(ids.begin() + 10, ids.begin() + 30);
  CHECK(same(context.read(sequence, tail), plain.read(fresh, tail)));
  cerne_model_destroy(model);
}

}  // namespace
