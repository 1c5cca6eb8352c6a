#include "tokenizer.h"

#include <unistd.h>

#include <algorithm>

#include "status.h"

namespace cerne {

namespace {

// Pre-tokens are found, hashed and looked up this many at a time, so that memory waits overlap.
constexpr size_t kBatch = 128;

constexpr size_t kShortMax = PretokenKey<2>::kMaxSize;
constexpr size_t kLongMax = PretokenKey<6>::kMaxSize;

}  // namespace

struct Tokenizer::Piece {
  const uint8_t* start;
  size_t size;
};

Tokenizer::Worker::Worker(const Tokenizer& tokenizer) : cache(tokenizer.options_.cache_bytes) {}

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
    std::lock_guard<std::mutex> lock(tokenizer_.workers_mutex_);
    tokenizer_.idle_workers_.push_back(std::move(worker_));
  }
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  Worker& operator*() { return *worker_; }

 private:
  Tokenizer& tokenizer_;
  std::unique_ptr<Worker> worker_;
};

Tokenizer::Tokenizer(BpeModel model, const TokenizerOptions& options)
    : model_(std::move(model)), options_(options) {}

Tokenizer::~Tokenizer() = default;

size_t Tokenizer::encode_word(Worker& worker, const uint8_t* word, size_t size,
                              uint32_t* ids) const {
  if (options_.ignore_merges) {
    const uint32_t id =
        model_.find_token(std::string_view(reinterpret_cast<const char*>(word), size));
    if (id != kNoToken) {
      ids[0] = id;
      return 1;
    }
  }
  return model_.merge(word, size, ids, worker.scratch);
}

size_t Tokenizer::encode_pieces(Worker& worker, const Piece* pieces, size_t num_pieces,
                                uint32_t* ids, const uint32_t* ids_end) const {
  using Short = PretokenCache::Short;
  using Long = PretokenCache::Long;
  uint32_t* out = ids;
  const uint8_t* const text_end = pieces[num_pieces - 1].start + pieces[num_pieces - 1].size;
  Short::Key keys[kBatch];
  Short::Entry* sets[kBatch];
  for (size_t i = 0; i < num_pieces; ++i) {
    const Piece piece = pieces[i];
    if (piece.size > kShortMax) continue;
    keys[i] = make_key<2>(piece.start, piece.size, static_cast<size_t>(text_end - piece.start));
    sets[i] = worker.cache.small.set_of(keys[i].hash());
    __builtin_prefetch(sets[i]);
  }
  for (size_t i = 0; i < num_pieces; ++i) {
    const Piece piece = pieces[i];
    if (piece.size <= kShortMax) {
      if (const Short::Entry* entry = Short::find(sets[i], keys[i])) {
        const uint32_t count = entry->count();
        if (ids_end - out >= 4) {
          std::memcpy(out, entry->ids, sizeof(entry->ids));
          out[0] &= kMaxTokens - 1;
        } else {
          for (uint32_t k = 0; k < count; ++k) out[k] = entry->ids[k] & (kMaxTokens - 1);
        }
        out += count;
        continue;
      }
      const size_t count = encode_word(worker, piece.start, piece.size, out);
      Short::insert(sets[i], keys[i], out, count);
      out += count;
    } else if (piece.size <= kLongMax) {
      const Long::Key key = make_key<6>(piece.start, piece.size, piece.size);
      Long::Entry* const set = worker.cache.large.set_of(key.hash());
      if (const Long::Entry* entry = Long::find(set, key)) {
        const uint32_t count = entry->count();
        for (uint32_t k = 0; k < count; ++k) out[k] = entry->ids[k];
        out[0] &= kMaxTokens - 1;
        out += count;
        continue;
      }
      const size_t count = encode_word(worker, piece.start, piece.size, out);
      Long::insert(set, key, out, count);
      out += count;
    } else {
      out += encode_word(worker, piece.start, piece.size, out);
    }
  }
  return static_cast<size_t>(out - ids);
}

size_t Tokenizer::encode(const uint8_t* text, size_t size, uint32_t* ids, size_t capacity) {
  if (size == 0) return 0;
  WorkerLease lease(*this);
  Worker& worker = *lease;
  size_t total = 0;
  const auto flush = [&](const Piece* pieces, size_t num_pieces) {
    const uint8_t* const end = pieces[num_pieces - 1].start + pieces[num_pieces - 1].size;
    const size_t worst = static_cast<size_t>(end - pieces[0].start);
    if (total <= capacity && capacity - total >= worst) {
      total += encode_pieces(worker, pieces, num_pieces, ids + total, ids + capacity);
      return;
    }
    worker.overflow.resize(worst);
    uint32_t* const buffer = worker.overflow.data();
    const size_t count = encode_pieces(worker, pieces, num_pieces, buffer, buffer + worst);
    if (total < capacity) std::copy_n(buffer, std::min(count, capacity - total), ids + total);
    total += count;
  };
  with_pattern(options_.pattern, [&]<Pattern kPattern>() {
    Piece pieces[kBatch];
    const uint8_t* p = text;
    const uint8_t* const end = text + size;
    while (p < end) {
      size_t count = 0;
      while (p < end && count < kBatch) {
        const uint8_t* const q = next_pretoken<kPattern>(p, end);
        pieces[count++] = {p, static_cast<size_t>(q - p)};
        p = q;
      }
      flush(pieces, count);
    }
  });
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
