#include "model/context.h"

#include <algorithm>
#include <string>
#include <utility>

#include "status.h"

namespace cerne {
namespace {

size_t pages_for(size_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

void require_range(const char* name, size_t value, size_t lowest, size_t highest) {
  if (value >= lowest && value <= highest) return;
  throw invalid(std::string(name) + " is " + std::to_string(value) +
                "; allowed: " + std::to_string(lowest) + " to " + std::to_string(highest));
}

const ContextOptions& checked(const ContextOptions& options, const ModelConfig& config) {
  check_options(options, config);
  return options;
}

}  // namespace

void check_options(const ContextOptions& options, const ModelConfig& config) {
  require_range("threads", options.threads, 1, 1024);
  require_range("capacity", options.capacity, 1, config.context);
  require_range("max_sequences", options.max_sequences, 1, 65536);
  require_range("batch_tokens", options.batch_tokens, 1, 65536);
}

Context::Context(std::shared_ptr<const Model> model, const ContextOptions& options,
                 std::atomic<bool>& stop)
    : model_(std::move(model)),
      options_(checked(options, model_->config())),
      team_(options.threads),
      cache_({model_->config().layers, model_->config().kv_heads, model_->config().head_dim,
              model_->half_cache()},
             options.max_sequences * pages_for(options.capacity)),
      forward_(model_, team_, options.batch_tokens, options.capacity),
      stop_(stop) {}

Context::Sequence& Context::find(uint64_t sequence) {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) {
    throw invalid("there is no sequence " + std::to_string(sequence) + "; was it dropped?");
  }
  return found->second;
}

uint64_t Context::start() {
  if (sequences_.size() == options_.max_sequences) {
    throw invalid(
        "there are " + std::to_string(sequences_.size()) +
        " sequences already; allowed: max_sequences = " + std::to_string(options_.max_sequences));
  }
  sequences_[next_];
  return next_++;
}

uint64_t Context::fork(uint64_t sequence) {
  find(sequence);
  const uint64_t copy = start();
  const Sequence& source = find(sequence);
  Sequence& target = find(copy);
  target = source;
  for (const uint32_t page : target.pages) cache_.share(page);
  return copy;
}

void Context::drop(uint64_t sequence) {
  cut(find(sequence), 0);
  sequences_.erase(sequence);
}

size_t Context::length(uint64_t sequence) const {
  return const_cast<Context*>(this)->find(sequence).length;
}

void Context::truncate(uint64_t sequence, uint64_t length) {
  Sequence& found = find(sequence);
  if (length > found.length) {
    throw invalid("the sequence holds " + std::to_string(found.length) +
                  " tokens; it cannot be cut to " + std::to_string(length));
  }
  cut(found, static_cast<size_t>(length));
}

void Context::cut(Sequence& sequence, size_t length) {
  const size_t keep = pages_for(length);
  while (sequence.pages.size() > keep) {
    cache_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.length = length;
}

// Pages for `tokens` more tokens, none of which another sequence will see change.
void Context::make_room(Sequence& sequence, size_t tokens) {
  const size_t end = sequence.length + tokens;
  if (sequence.length % kPagePositions != 0) {
    sequence.pages.back() = cache_.own(sequence.pages.back());
  }
  while (sequence.pages.size() < pages_for(end)) sequence.pages.push_back(cache_.take());
}

void Context::check(const uint64_t* sequences, const uint32_t* ids, size_t count) {
  std::map<uint64_t, size_t> added;
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] >= model_->config().vocab) {
      throw invalid("token id " + std::to_string(ids[i]) + "; allowed: less than " +
                    std::to_string(model_->config().vocab));
    }
    ++added[sequences[i]];
  }
  for (const auto& [handle, tokens] : added) {
    const size_t held = find(handle).length;
    if (tokens > options_.capacity - held) {
      throw invalid("the sequence is full: it holds " + std::to_string(held) + " tokens and gets " +
                    std::to_string(tokens) + "; allowed: " + std::to_string(options_.capacity));
    }
  }
}

void Context::decode(const uint64_t* sequences, const uint32_t* ids, const uint8_t* wanted,
                     size_t count, float* out, Rows rows) {
  check(sequences, ids, count);
  std::map<uint64_t, size_t> before;
  for (size_t i = 0; i < count; ++i) before.emplace(sequences[i], find(sequences[i]).length);
  const ModelConfig& config = model_->config();
  const size_t row = rows == Rows::kLogits ? config.vocab : config.width;
  try {
    size_t done = 0;
    while (done < count) {
      const size_t some = std::min(count - done, options_.batch_tokens);
      run(sequences + done, ids + done, wanted + done, some, out, rows);
      for (size_t i = 0; i < some; ++i) {
        if (wanted[done + i] != 0) out += row;
      }
      done += some;
    }
  } catch (...) {
    for (const auto& [handle, length] : before) cut(find(handle), length);
    throw;
  }
}

void Context::run(const uint64_t* sequences, const uint32_t* ids, const uint8_t* wanted,
                  size_t count, float* out, Rows rows) {
  batch_.clear();
  wanted_.clear();
  // Pages first: a list of pages may move while it grows.
  for (size_t i = 0; i < count; ++i) {
    Sequence& sequence = find(sequences[i]);
    make_room(sequence, 1);
    batch_.push_back({ids[i], sequence.length, nullptr});
    ++sequence.length;
    if (wanted[i] != 0) wanted_.push_back(i);
  }
  for (size_t i = 0; i < count; ++i) batch_[i].pages = find(sequences[i]).pages.data();
  if (!forward_.run(batch_, wanted_, cache_, stop_, rows, out)) {
    stop_.store(false, std::memory_order_relaxed);
    throw Error(CERNE_STOPPED, "decoding was stopped");
  }
}

}  // namespace cerne
