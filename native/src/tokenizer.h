// Text to ids: words through a bounded cache of what they encode to, misses through the model.
#ifndef CERNE_SRC_TOKENIZER_H_
#define CERNE_SRC_TOKENIZER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "pretoken_cache.h"
#include "thread_pool.h"
#include "token_model.h"

namespace cerne {

class Tokenizer {
 public:
  // `cache_bytes` bounds the cache of one running thread.
  Tokenizer(std::unique_ptr<const TokenModel> model, size_t cache_bytes);
  ~Tokenizer();

  const TokenModel& model() const { return *model_; }

  // Writes the first min(capacity, needed) ids and returns the needed number. Thread-safe.
  size_t encode(const uint8_t* text, size_t size, uint32_t* ids, size_t capacity);

  // As cerne_tokenizer_encode_batch.
  void encode_batch(const uint8_t* bytes, const uint64_t* offsets, size_t num_texts,
                    size_t num_threads, uint32_t* ids, uint64_t* counts);

 private:
  // What one running thread needs; recycled, so there are as many as calls ever ran at once.
  struct Worker {
    explicit Worker(const Tokenizer& tokenizer);
    void remember_tokens(const Tokenizer& tokenizer);
    void release_large_buffers();

    PretokenCache cache;
    MergeScratch scratch;
    std::vector<uint32_t> overflow;  // ids of one batch when the caller's buffer may not hold it
  };
  class WorkerLease;

  // Encodes the words from `start` on that end at ends[0 .. num_pieces). Bytes up to text_end
  // may be read, ids up to ids_end written.
  size_t encode_pieces(Worker& worker, const uint8_t* start, const uint8_t* const* ends,
                       size_t num_pieces, const uint8_t* text_end, uint32_t* ids,
                       const uint32_t* ids_end) const;
  ThreadPool& pool_of(size_t num_threads);

  std::unique_ptr<const TokenModel> model_;
  size_t cache_bytes_;
  std::vector<uint32_t> whole_tokens_;  // short tokens that their own bytes encode to
  std::mutex workers_mutex_;
  std::vector<std::unique_ptr<Worker>> idle_workers_;
  std::mutex pool_mutex_;
  std::unique_ptr<ThreadPool> pool_;
  long pool_process_ = 0;
};

}  // namespace cerne

#endif  // CERNE_SRC_TOKENIZER_H_
