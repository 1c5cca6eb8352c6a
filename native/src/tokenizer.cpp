#include "tokenizer.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "status.h"

namespace cerne {

namespace {

// Pre-tokens are found, hashed and looked up this many at a time, so that memory waits overlap.
constexpr size_t kBatch = 256;

constexpr size_t kShortMax = PretokenKey<2>::kMaxSize;
constexpr size_t kLongMax = PretokenKey<6>::kMaxSize;

}  // namespace

Tokenizer::Worker::Worker(const Tokenizer& tokenizer) : cache(tokenizer.cache_bytes_) {
  remember_tokens(tokenizer);
}

// Whole tokens are the commonest pre-tokens: knowing them spares most first-time merges.
void Tokenizer::Worker::remember_tokens(const Tokenizer& tokenizer) {
  size_t room = cache.small.capacity() / 8 * 5;
  for (const uint32_t id : tokenizer.whole_tokens_) {
    if (room-- == 0) return;
    const std::string_view token = tokenizer.model_->token(id);
    const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(token.data());
    const auto key = make_key<2>(bytes, token.size(), token.size());
    cache.small.insert(key.hash(), key, &id, 1);
  }
}

// One huge pre-token must not hold its memory for good.
void Tokenizer::Worker::release_large_buffers() {
  constexpr size_t kKept = size_t{1} << 20;
  if (std::max(scratch.ids.capacity(), scratch.text.capacity()) > kKept) scratch = MergeScratch();
  if (overflow.capacity() > kKept) overflow = std::vector<uint32_t>();
}

// Takes an idle worker or makes one; gives it back at the end of the scope.
class Tokenizer::WorkerLease {
 public:
  explicit WorkerLease(Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    {
      std::lock_guard<std::mutex> lock(tokenizer_.workers_mutex_);
      if (!tokenizer_.idle_workers_.empty()) {
        worker_ = std::move(tokenizer_.idle_workers_.back());
        tokenizer_.idle_workers_.pop_back();
      }
    }
    if (worker_ == nullptr) worker_ = std::make_unique<Worker>(tokenizer_);
  }
  ~WorkerLease() {
    // After a failure (out of memory) the worker's buffers may be half written: it goes.
    if (std::uncaught_exceptions() > exceptions_before_) return;
    worker_->release_large_buffers();
    std::lock_guard<std::mutex> lock(tokenizer_.workers_mutex_);
    tokenizer_.idle_workers_.push_back(std::move(worker_));
  }
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  Worker& operator*() { return *worker_; }

 private:
  Tokenizer& tokenizer_;
  const int exceptions_before_ = std::uncaught_exceptions();
  std::unique_ptr<Worker> worker_;
};

Tokenizer::Tokenizer(std::unique_ptr<const TokenModel> model, size_t cache_bytes)
    : model_(std::move(model)), cache_bytes_(cache_bytes) {
  if (!model_->words_are_tokens()) return;
  // A token need not be what its bytes encode to, so each is tried.
  MergeScratch scratch;
  uint32_t ids[kShortMax];
  for (uint32_t id = 0; id < model_->num_tokens(); ++id) {
    const std::string_view token = model_->token(id);
    if (token.empty() || token.size() > kShortMax) continue;
    const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(token.data());
    if (model_->encode_word(bytes, token.size(), ids, scratch) == 1 && ids[0] == id) {
      whole_tokens_.push_back(id);
    }
  }
}

Tokenizer::~Tokenizer() = default;

size_t Tokenizer::encode_pieces(Worker& worker, const uint8_t* start, const uint8_t* const* ends,
                                size_t num_pieces, const uint8_t* text_end, uint32_t* ids,
                                const uint32_t* ids_end) const {
  using Short = PretokenCache::Short;
  using Long = PretokenCache::Long;
  uint32_t* out = ids;
  Short::Key keys[kBatch];
  uint64_t hashes[kBatch];
  const uint8_t* piece = start;
  for (size_t i = 0; i < num_pieces; ++i) {
    const size_t size = static_cast<size_t>(ends[i] - piece);
    if (size <= kShortMax) {
      keys[i] = make_key<2>(piece, size, static_cast<size_t>(text_end - piece));
      hashes[i] = keys[i].hash();
      __builtin_prefetch(worker.cache.small.line_of(hashes[i]));
    }
    piece = ends[i];
  }
  piece = start;
  for (size_t i = 0; i < num_pieces; ++i) {
    const uint8_t* const word = piece;
    const size_t size = static_cast<size_t>(ends[i] - word);
    piece = ends[i];
    if (size <= kShortMax) {
      if (const Short::Entry* entry = worker.cache.small.find(hashes[i], keys[i])) {
        out += entry->copy_ids(out, ids_end);
        continue;
      }
      const size_t count = model_->encode_word(word, size, out, worker.scratch);
      const bool emptied = worker.cache.small.insert(hashes[i], keys[i], out, count);
      if (emptied) worker.remember_tokens(*this);
      out += count;
    } else if (size <= kLongMax) {
      const Long::Key key = make_key<6>(word, size, size);
      const uint64_t hash = key.hash();
      if (const Long::Entry* entry = worker.cache.large.find(hash, key)) {
        out += entry->copy_ids(out, ids_end);
        continue;
      }
      const size_t count = model_->encode_word(word, size, out, worker.scratch);
      worker.cache.large.insert(hash, key, out, count);
      out += count;
    } else {
      out += model_->encode_word(word, size, out, worker.scratch);
    }
  }
  return static_cast<size_t>(out - ids);
}

size_t Tokenizer::encode(const uint8_t* text, size_t size, uint32_t* ids, size_t capacity) {
  if (size == 0) return 0;
  WorkerLease lease(*this);
  Worker& worker = *lease;
  size_t total = 0;
  const uint8_t* p = text;
  const uint8_t* const end = text + size;
  const uint8_t* ends[kBatch];
  while (p < end) {
    const uint8_t* const start = p;
    const size_t num_pieces = model_->find_ends(p, end, ends, kBatch);
    const size_t worst = static_cast<size_t>(p - start);
    if (total <= capacity && capacity - total >= worst) {
      total += encode_pieces(worker, start, ends, num_pieces, end, ids + total, ids + capacity);
      continue;
    }
    worker.overflow.resize(worst);
    uint32_t* const buffer = worker.overflow.data();
    const size_t count =
        encode_pieces(worker, start, ends, num_pieces, end, buffer, buffer + worst);
    if (total < capacity) std::copy_n(buffer, std::min(count, capacity - total), ids + total);
    total += count;
  }
  return total;
}

ThreadPool& Tokenizer::pool_of(size_t num_threads) {
  // After a fork the threads are gone: the old pool is left alone, joining it would hang.
  const long process = static_cast<long>(getpid());
  if (pool_ != nullptr && pool_process_ != process) static_cast<void>(pool_.release());
  if (pool_ == nullptr || pool_->num_threads() != num_threads) {
    pool_ = std::make_unique<ThreadPool>(num_threads);
    pool_process_ = process;
  }
  return *pool_;
}

void Tokenizer::encode_batch(const uint8_t* bytes, const uint64_t* offsets, size_t num_texts,
                             size_t num_threads, uint32_t* ids, uint64_t* counts) {
  const auto encode_one = [&](size_t i) {
    const size_t begin = static_cast<size_t>(offsets[i] - offsets[0]);
    const size_t size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    counts[i] = encode(bytes + offsets[i], size, ids + begin, size);
  };
  constexpr size_t kMaxThreads = 1024;
  const size_t wanted = num_threads == 0 ? hardware_threads() : num_threads;
  const size_t threads = std::min({wanted, num_texts, kMaxThreads});
  if (threads <= 1) {
    for (size_t i = 0; i < num_texts; ++i) encode_one(i);
    return;
  }
  std::lock_guard<std::mutex> lock(pool_mutex_);
  pool_of(threads).parallel_for(num_texts, encode_one);
}

}  // namespace cerne
