// One call from a prompt to an answer: the decoding loop of one sequence.
#include <algorithm>
#include <string>
#include <vector>

#include "context_handle.h"
#include "sampler_handle.h"
#include "tokenizer_handle.h"

using cerne::alive;
using cerne::Context;
using cerne::guarded;
using cerne::invalid;
using cerne::require;

namespace {

// A sequence that is forgotten at the end, whatever the end is.
class Lease {
 public:
  explicit Lease(Context& context) : context_(context), handle_(context.start()) {}
  ~Lease() { context_.drop(handle_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Appends the tokens; the logits after the last one.
  void decode(const uint32_t* ids, size_t count, std::vector<float>& logits) {
    const std::vector<uint64_t> sequences(count, handle_);
    std::vector<uint8_t> wanted(count, 0);
    wanted.back() = 1;
    context_.decode(sequences.data(), ids, wanted.data(), count, logits.data());
  }

 private:
  Context& context_;
  uint64_t handle_;
};

void check_room(const Context& context, size_t prompt, size_t answer) {
  const size_t capacity = context.options().capacity;
  if (prompt <= capacity && answer <= capacity - prompt) return;
  throw invalid("a prompt of " + std::to_string(prompt) + " tokens and an answer of " +
                std::to_string(answer) + " do not fit a sequence; its capacity is " +
                std::to_string(capacity));
}

}  // namespace

extern "C" {

cerne_status cerne_generate(cerne_context* context, cerne_sampler* sampler,
                            const cerne_tokenizer* tokenizer, const uint32_t* prompt,
                            size_t num_prompt, const uint32_t* stop_ids, size_t num_stop_ids,
                            uint32_t choice, cerne_on_token on_token, void* user, uint32_t* ids,
                            size_t capacity, size_t* num_ids) {
  return guarded([&]() -> cerne_status {
    alive(context);
    cerne::Sampler& draws = alive(sampler).sampler;
    require(num_ids != nullptr && ids != nullptr && prompt != nullptr &&
                (stop_ids != nullptr || num_stop_ids == 0),
            "cerne_generate: a required pointer is null");
    require(num_prompt > 0, "cerne_generate: the prompt has no tokens");
    require(capacity > 0, "cerne_generate: there is no room for a token");
    Context& self = cerne::running(context);
    check_room(self, num_prompt, capacity);
    const size_t vocab = self.model().config().vocab;
    std::optional<cerne::TokenText> text;
    if (tokenizer != nullptr) {
      const cerne::TokenModel& tokens = cerne::built_tokenizer(tokenizer).model();
      require(tokens.num_tokens() >= vocab,
              "cerne_generate: the tokenizer has fewer tokens than the model");
      text.emplace(tokens, tokenizer->added());
    }
    std::vector<float> logits(vocab);
    Lease sequence(self);
    *num_ids = 0;
    draws.reset();
    for (size_t i = 0; i < num_prompt; ++i) draws.accept(prompt[i], false);
    sequence.decode(prompt, num_prompt, logits);
    for (size_t count = 0;; sequence.decode(&ids[count++], 1, logits)) {
      const uint32_t id = draws.choose(logits.data(), vocab, choice, num_prompt + count);
      draws.accept(id, true);
      ids[count] = id;
      *num_ids = count + 1;
      const bool ends = std::find(stop_ids, stop_ids + num_stop_ids, id) != stop_ids + num_stop_ids;
      if (on_token != nullptr) {
        const std::string_view bytes = text && !ends ? text->next(id) : std::string_view();
        const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
        if (on_token(user, id, data, bytes.size()) != 0) {
          cerne::set_last_error("cerne_generate: the callback asked to stop");
          return CERNE_STOPPED;
        }
      }
      if (ends || count + 1 == capacity) return CERNE_OK;
    }
  });
}

}  // extern "C"
