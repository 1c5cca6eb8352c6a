// The C functions of contexts: argument checks around Context.
#include <string>

#include "context_handle.h"
#include "gguf_cursor.h"

using cerne::alive;
using cerne::Context;
using cerne::guarded;
using cerne::invalid;
using cerne::quoted;
using cerne::require;
using cerne::running;

namespace {

size_t* option(cerne::ContextOptions& options, const std::string& name) {
  if (name == "threads") return &options.threads;
  if (name == "capacity") return &options.capacity;
  if (name == "max_sequences") return &options.max_sequences;
  if (name == "batch_tokens") return &options.batch_tokens;
  throw invalid("unknown option " + quoted(name) +
                "; known: threads, capacity, max_sequences, batch_tokens");
}

// Both functions that extend sequences; `missing` is what each says of a null pointer.
cerne_status extend(cerne_context* context, const uint64_t* sequences, const uint32_t* ids,
                    const uint8_t* wanted, size_t count, float* out, size_t capacity,
                    cerne::Rows kind, const char* missing) {
  return guarded([&]() -> cerne_status {
    alive(context);
    if (count == 0) return CERNE_OK;
    require(sequences != nullptr && ids != nullptr && wanted != nullptr, missing);
    Context& self = running(context);
    uint64_t rows = 0;
    for (size_t i = 0; i < count; ++i) rows += wanted[i] != 0;
    require(rows == 0 || out != nullptr, missing);
    const bool is_logits = kind == cerne::Rows::kLogits;
    const cerne::ModelConfig& config = self.model().config();
    const uint64_t row = is_logits ? config.vocab : config.width;
    if (rows > capacity / row) {
      throw invalid("there is room for " + std::to_string(capacity) +
                    (is_logits ? " logits" : " values") + "; needed: " + std::to_string(rows) +
                    " rows of " + std::to_string(row));
    }
    self.decode(sequences, ids, wanted, count, out, kind);
    return CERNE_OK;
  });
}

}  // namespace

extern "C" {

cerne_status cerne_context_create(const cerne_model* model, cerne_context** out) {
  return guarded([&]() -> cerne_status {
    const cerne_model& self = alive(model);
    require(self.model != nullptr, "the model is not built yet; call cerne_model_build");
    require(out != nullptr, "cerne_context_create: a required pointer is null");
    *out = new cerne_context(self.model);
    return CERNE_OK;
  });
}

void cerne_context_destroy(cerne_context* context) { cerne::destroy(context); }

cerne_status cerne_context_set_integer(cerne_context* context, const char* name, size_t name_length,
                                       int64_t value) {
  return guarded([&]() -> cerne_status {
    cerne_context& self = alive(context);
    require(name != nullptr, "cerne_context_set_integer: a required pointer is null");
    require(!self.running, "options are set before the first sequence");
    cerne::ContextOptions changed = self.options;
    *option(changed, std::string(name, name_length)) =
        value < 0 ? size_t{0} : static_cast<size_t>(value);
    cerne::check_options(changed, self.model->config());
    self.options = changed;
    return CERNE_OK;
  });
}

cerne_status cerne_context_start(cerne_context* context, uint64_t* sequence) {
  return guarded([&]() -> cerne_status {
    alive(context);
    require(sequence != nullptr, "cerne_context_start: a required pointer is null");
    *sequence = running(context).start();
    return CERNE_OK;
  });
}

cerne_status cerne_context_fork(cerne_context* context, uint64_t sequence, uint64_t* copy) {
  return guarded([&]() -> cerne_status {
    alive(context);
    require(copy != nullptr, "cerne_context_fork: a required pointer is null");
    *copy = running(context).fork(sequence);
    return CERNE_OK;
  });
}

cerne_status cerne_context_drop(cerne_context* context, uint64_t sequence) {
  return guarded([&]() -> cerne_status {
    running(context).drop(sequence);
    return CERNE_OK;
  });
}

cerne_status cerne_context_truncate(cerne_context* context, uint64_t sequence, uint64_t length) {
  return guarded([&]() -> cerne_status {
    running(context).truncate(sequence, length);
    return CERNE_OK;
  });
}

cerne_status cerne_context_length(cerne_context* context, uint64_t sequence, uint64_t* length) {
  return guarded([&]() -> cerne_status {
    alive(context);
    require(length != nullptr, "cerne_context_length: a required pointer is null");
    *length = running(context).length(sequence);
    return CERNE_OK;
  });
}

cerne_status cerne_context_decode(cerne_context* context, const uint64_t* sequences,
                                  const uint32_t* ids, const uint8_t* wanted, size_t count,
                                  float* logits, size_t capacity) {
  return extend(context, sequences, ids, wanted, count, logits, capacity, cerne::Rows::kLogits,
                "cerne_context_decode: a required pointer is null");
}

cerne_status cerne_context_embed(cerne_context* context, const uint64_t* sequences,
                                 const uint32_t* ids, const uint8_t* wanted, size_t count,
                                 float* hidden, size_t capacity) {
  return extend(context, sequences, ids, wanted, count, hidden, capacity, cerne::Rows::kHidden,
                "cerne_context_embed: a required pointer is null");
}

cerne_status cerne_context_stop(cerne_context* context) {
  return guarded([&]() -> cerne_status {
    alive(context).stop.store(true, std::memory_order_relaxed);
    return CERNE_OK;
  });
}

}  // extern "C"
