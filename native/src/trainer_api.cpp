// The C functions of BPE training: argument checks around WordCounter and BpeTrainer.
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "bpe_train.h"
#include "handle.h"
#include "word_count.h"

using cerne::alive;
using cerne::guarded;
using cerne::invalid;
using cerne::require;

struct cerne_trainer {
  uint64_t magic = kMagic;
  cerne::Pattern pattern = cerne::Pattern::kQwen2;
  size_t num_threads = 1;
  cerne::WordLimits limits;
  uint64_t min_count = 1;
  std::unique_ptr<cerne::WordCounter> counter;  // made with the first text
  cerne::BpeTrainer trainer;
  cerne::WordStatistics statistics;
  uint64_t num_words = 0;
  uint64_t num_word_bytes = 0;
  bool trained = false;

  static constexpr uint64_t kMagic = 0x6365726e65747261ull;
  static constexpr const char* kName = "trainer";
};

namespace {

constexpr uint32_t kMaxVocabulary = 1u << 24;

cerne_trainer& open_for_setting(cerne_trainer* handle) {
  cerne_trainer& self = alive(handle);
  require(!self.trained && self.counter == nullptr, "options are set before the first text");
  return self;
}

cerne::WordCounter& open_for_text(cerne_trainer* handle) {
  cerne_trainer& self = alive(handle);
  require(!self.trained, "the training is over; make another trainer");
  if (self.counter == nullptr) {
    self.counter =
        std::make_unique<cerne::WordCounter>(self.pattern, self.num_threads, self.limits);
  }
  return *self.counter;
}

std::string_view view(const char* text, size_t length) {
  require(text != nullptr || length == 0, "a name is null");
  return {text, length};
}

int64_t in_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return value;
  throw invalid("option " + std::string(name) + " is " + std::to_string(value) +
                "; allowed: " + std::to_string(low) + " .. " + std::to_string(high));
}

uint64_t total_token_bytes(const cerne::BpeTrainer& trainer) {
  uint64_t total = 0;
  for (const std::string& token : trainer.tokens()) total += token.size();
  return total;
}

uint64_t statistic(const cerne_trainer& self, std::string_view name) {
  const bool counting = self.counter != nullptr;
  const cerne::WordStatistics& counted = counting ? self.counter->statistics() : self.statistics;
  if (name == "documents") return counted.documents;
  if (name == "text_bytes") return counted.text_bytes;
  if (name == "words") return counting ? self.counter->words().num_words() : self.num_words;
  if (name == "word_bytes") {
    return counting ? self.counter->words().num_bytes() : self.num_word_bytes;
  }
  if (name == "pruned_words") return counted.pruned_words;
  if (name == "pruned_occurrences") return counted.pruned_occurrences;
  if (name == "pruned_up_to") return counted.pruned_up_to;
  if (name == "tokens") return self.trainer.tokens().size();
  if (name == "merges") return self.trainer.merges().size();
  if (name == "token_bytes") return total_token_bytes(self.trainer);
  throw invalid("unknown statistic '" + std::string(name) + "'");
}

// Moves the counted words into the trainer; the counter's memory goes before the training begins.
void hand_over_words(cerne_trainer& self) {
  if (self.counter == nullptr) return;
  self.counter->finish();
  self.statistics = self.counter->statistics();
  self.num_words = self.counter->words().num_words();
  self.num_word_bytes = self.counter->words().num_bytes();
  self.trainer.reserve(self.num_words, self.num_word_bytes);
  self.counter->words().for_each([&](const uint8_t* word, size_t size, uint64_t count) {
    self.trainer.add_word(word, size, count);
  });
  self.counter.reset();
}

}  // namespace

extern "C" {

cerne_status cerne_trainer_create(cerne_trainer** out) {
  return guarded([&]() -> cerne_status {
    require(out != nullptr, "cerne_trainer_create: out is null");
    *out = new cerne_trainer();
    return CERNE_OK;
  });
}

void cerne_trainer_destroy(cerne_trainer* trainer) { cerne::destroy(trainer); }

cerne_status cerne_trainer_set_string(cerne_trainer* trainer, const char* name, size_t name_length,
                                      const char* value, size_t value_length) {
  return guarded([&]() -> cerne_status {
    cerne_trainer& self = open_for_setting(trainer);
    const std::string_view option = view(name, name_length), text = view(value, value_length);
    if (option != "pattern") throw invalid("unknown option '" + std::string(option) + "'");
    if (!cerne::parse_pattern(text, &self.pattern)) {
      throw invalid("unknown pattern '" + std::string(text) +
                    "'; allowed: gpt2, gpt4, llama3, qwen2, smollm");
    }
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_set_integer(cerne_trainer* trainer, const char* name, size_t name_length,
                                       int64_t value) {
  return guarded([&]() -> cerne_status {
    cerne_trainer& self = open_for_setting(trainer);
    const std::string_view option = view(name, name_length);
    constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
    if (option == "threads") {
      const auto threads = static_cast<size_t>(in_range(option, value, 0, 1024));
      self.num_threads = threads == 0 ? cerne::hardware_threads() : threads;
    } else if (option == "max_words") {
      self.limits.max_words = static_cast<size_t>(in_range(option, value, 2, kAny));
    } else if (option == "max_word_bytes") {
      self.limits.max_bytes = static_cast<size_t>(in_range(option, value, 2, kAny));
    } else if (option == "min_count") {
      self.min_count = static_cast<uint64_t>(in_range(option, value, 1, kAny));
    } else {
      throw invalid("unknown option '" + std::string(option) + "'");
    }
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_feed(cerne_trainer* trainer, const uint8_t* text, size_t size) {
  return guarded([&]() -> cerne_status {
    cerne::WordCounter& counter = open_for_text(trainer);
    require(text != nullptr || size == 0, "cerne_trainer_feed: text is null");
    counter.feed(text, size);
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_end_document(cerne_trainer* trainer) {
  return guarded([&]() -> cerne_status {
    open_for_text(trainer).end_document();
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_add_word(cerne_trainer* trainer, const uint8_t* word, size_t size,
                                    uint64_t count) {
  return guarded([&]() -> cerne_status {
    cerne::WordCounter& counter = open_for_text(trainer);
    require(word != nullptr || size == 0, "cerne_trainer_add_word: word is null");
    counter.add_word(word, size, count);
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_train(cerne_trainer* trainer, uint32_t vocab_size,
                                 cerne_progress progress, void* user) {
  return guarded([&]() -> cerne_status {
    cerne_trainer& self = alive(trainer);
    require(!self.trained, "the training is over; make another trainer");
    in_range("vocab_size", vocab_size, 256, kMaxVocabulary);
    hand_over_words(self);
    self.trained = true;
    if (self.trainer.train(vocab_size, self.min_count, progress, user) ==
        cerne::BpeTrainStatus::kStopped) {
      cerne::set_last_error("the progress function stopped the training");
      return CERNE_STOPPED;
    }
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_statistic(cerne_trainer* trainer, const char* name, size_t name_length,
                                     uint64_t* value) {
  return guarded([&]() -> cerne_status {
    cerne_trainer& self = alive(trainer);
    require(value != nullptr, "cerne_trainer_statistic: value is null");
    if (self.counter != nullptr) self.counter->finish();
    *value = statistic(self, view(name, name_length));
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_tokens(const cerne_trainer* trainer, uint8_t* bytes, uint64_t* offsets) {
  return guarded([&]() -> cerne_status {
    const cerne_trainer& self = alive(trainer);
    require(bytes != nullptr && offsets != nullptr, "cerne_trainer_tokens: a buffer is null");
    uint64_t at = 0;
    for (const std::string& token : self.trainer.tokens()) {
      *offsets++ = at;
      std::memcpy(bytes + at, token.data(), token.size());
      at += token.size();
    }
    *offsets = at;
    return CERNE_OK;
  });
}

cerne_status cerne_trainer_merges(const cerne_trainer* trainer, uint32_t* pairs) {
  return guarded([&]() -> cerne_status {
    const cerne_trainer& self = alive(trainer);
    require(pairs != nullptr || self.trainer.merges().empty(),
            "cerne_trainer_merges: pairs is null");
    for (const cerne::BpeMerge& merge : self.trainer.merges()) {
      *pairs++ = merge.left;
      *pairs++ = merge.right;
    }
    return CERNE_OK;
  });
}

}  // extern "C"
