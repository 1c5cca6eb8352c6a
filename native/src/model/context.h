// Sequences of tokens that a model runs: their key/value memory and one call to extend them.
#ifndef CERNE_SRC_MODEL_CONTEXT_H_
#define CERNE_SRC_MODEL_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "model/forward.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "team.h"

namespace cerne {

struct ContextOptions {
  size_t threads;
  size_t capacity;       // tokens that a sequence may hold
  size_t max_sequences;  // alive at once
  size_t batch_tokens;   // read in one pass; more are cut into passes
};

// Throws an invalid-argument Error for an option out of range.
void check_options(const ContextOptions& options, const ModelConfig& config);

class Context {
 public:
  // `stop` may be set by any thread: the decode that runs, or the next one, then ends within a
  // layer's time and clears it. Throws an invalid-argument Error for an option out of range.
  Context(std::shared_ptr<const Model> model, const ContextOptions& options,
          std::atomic<bool>& stop);

  const Model& model() const { return *model_; }
  const ContextOptions& options() const { return options_; }
  uint64_t cache_bytes() const { return cache_.pages_in_use() * cache_.page_bytes(); }

  // Handles of sequences are never used twice. All of these throw an invalid-argument Error for a
  // handle that is not alive.
  uint64_t start();
  uint64_t fork(uint64_t sequence);
  void drop(uint64_t sequence);
  // Forgets all but the first `length` tokens; throws when it holds fewer.
  void truncate(uint64_t sequence, uint64_t length);
  size_t length(uint64_t sequence) const;

  // Appends token ids[i] to sequences[i], in order, and writes the logits [V] (or hidden state
  // [D]) of each token with wanted[i] != 0 to the next row of `out`. Checked before anything is
  // done; an Error leaves every sequence as it was, and so does `stop`, after which this throws a
  // stopped Error.
  void decode(const uint64_t* sequences, const uint32_t* ids, const uint8_t* wanted, size_t count,
              float* out, Rows rows = Rows::kLogits);

 private:
  struct Sequence {
    std::vector<uint32_t> pages;
    size_t length = 0;
  };

  Sequence& find(uint64_t sequence);
  void check(const uint64_t* sequences, const uint32_t* ids, size_t count);
  void make_room(Sequence& sequence, size_t tokens);
  void cut(Sequence& sequence, size_t length);
  void run(const uint64_t* sequences, const uint32_t* ids, const uint8_t* wanted, size_t count,
           float* out, Rows rows);

  std::shared_ptr<const Model> model_;
  ContextOptions options_;
  Team team_;
  KvCache cache_;
  Forward forward_;
  std::map<uint64_t, Sequence> sequences_;
  uint64_t next_ = 1;
  std::atomic<bool>& stop_;
  // Of one pass; kept so that a step allocates nothing.
  std::vector<BatchToken> batch_;
  std::vector<size_t> wanted_;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_CONTEXT_H_
