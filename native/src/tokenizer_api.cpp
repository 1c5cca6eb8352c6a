// The C functions of the tokenizer: argument checks around Tokenizer and the two models.
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bpe_model.h"
#include "handle.h"
#include "spm_model.h"
#include "tokenizer.h"

using cerne::alive;
using cerne::BpeModel;
using cerne::guarded;
using cerne::invalid;
using cerne::require;
using cerne::SpmModel;
using cerne::Tokenizer;
using cerne::TokenModel;

struct cerne_tokenizer {
  uint64_t magic = kMagic;
  bool is_spm = false;
  BpeModel bpe;
  SpmModel spm;
  cerne::Pattern pattern = cerne::Pattern::kGpt2;
  bool ignore_merges = false;
  size_t cache_bytes = size_t{1} << 25;
  bool has_vocabulary = false;
  std::unique_ptr<Tokenizer> tokenizer;

  static constexpr uint64_t kMagic = 0x6365726e65746f6bull;
  static constexpr const char* kName = "tokenizer";
};

namespace {

template <typename Handle>
auto& built(Handle* handle) {
  auto& self = alive(handle);
  require(self.tokenizer != nullptr, "the tokenizer is not built yet; call cerne_tokenizer_build");
  return *self.tokenizer;
}

cerne_tokenizer& open_for_setting(cerne_tokenizer* handle) {
  cerne_tokenizer& self = alive(handle);
  require(self.tokenizer == nullptr, "the tokenizer is built already and cannot change");
  return self;
}

void require_kind(const cerne_tokenizer& self, bool spm, const char* what) {
  if (self.is_spm != spm) {
    throw invalid(std::string(what) + " belong to a tokenizer of model " + (spm ? "spm" : "bpe"));
  }
}

void set_model(cerne_tokenizer& self, const std::string& name) {
  require(!self.has_vocabulary, "the model is chosen before the vocabulary is set");
  if (name != "bpe" && name != "spm") {
    throw invalid("unknown model '" + name + "'; allowed: bpe, spm");
  }
  self.is_spm = name == "spm";
}

void check_ids(const TokenModel& model, const uint32_t* ids, size_t num_ids) {
  require(ids != nullptr || num_ids == 0, "the ids are null");
  for (size_t i = 0; i < num_ids; ++i) {
    if (ids[i] >= model.num_tokens()) {
      throw invalid("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                    " is outside the vocabulary of " + std::to_string(model.num_tokens()));
    }
  }
}

}  // namespace

extern "C" {

cerne_status cerne_tokenizer_create(cerne_tokenizer** out) {
  return guarded([&]() -> cerne_status {
    require(out != nullptr, "cerne_tokenizer_create: out is null");
    *out = new cerne_tokenizer();
    return CERNE_OK;
  });
}

void cerne_tokenizer_destroy(cerne_tokenizer* tokenizer) { cerne::destroy(tokenizer); }

cerne_status cerne_tokenizer_set_string(cerne_tokenizer* tokenizer, const char* name,
                                        size_t name_length, const char* value,
                                        size_t value_length) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require(name != nullptr && (value != nullptr || value_length == 0),
            "cerne_tokenizer_set_string: a required pointer is null");
    const std::string option(name, name_length);
    const std::string text(value_length == 0 ? "" : value, value_length);
    if (option == "model") {
      set_model(self, text);
    } else if (option == "pattern") {
      require_kind(self, false, "patterns");
      if (!cerne::parse_pattern(text, &self.pattern)) {
        throw invalid("unknown pattern '" + text + "'; allowed: gpt2, gpt4, llama3, qwen2, smollm");
      }
    } else {
      throw invalid("unknown text option '" + option + "'; known: model, pattern");
    }
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_set_integer(cerne_tokenizer* tokenizer, const char* name,
                                         size_t name_length, int64_t value) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require(name != nullptr, "cerne_tokenizer_set_integer: the name is null");
    const std::string option(name, name_length);
    if (option == "ignore_merges") {
      require_kind(self, false, "merges");
      require(value == 0 || value == 1, "ignore_merges must be 0 or 1");
      self.ignore_merges = value == 1;
    } else if (option == "cache_bytes") {
      require(value >= 0 && value <= (int64_t{1} << 30), "cache_bytes must be 0 to 2^30");
      self.cache_bytes = static_cast<size_t>(value);
    } else {
      throw invalid("unknown integer option '" + option + "'; known: ignore_merges, cache_bytes");
    }
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_set_vocabulary(cerne_tokenizer* tokenizer, const uint8_t* bytes,
                                            const uint64_t* offsets, size_t num_tokens) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require(bytes != nullptr && offsets != nullptr,
            "cerne_tokenizer_set_vocabulary: a required pointer is null");
    if (self.is_spm) {
      self.spm.set_vocabulary(bytes, offsets, num_tokens);
    } else {
      self.bpe.set_vocabulary(bytes, offsets, num_tokens);
    }
    self.has_vocabulary = true;
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_set_merges(cerne_tokenizer* tokenizer, const uint32_t* pairs,
                                        size_t num_merges) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require_kind(self, false, "merges");
    require(self.has_vocabulary, "the merges need the vocabulary first");
    require(pairs != nullptr || num_merges == 0, "cerne_tokenizer_set_merges: the pairs are null");
    self.bpe.set_merges(pairs, num_merges);
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_set_scores(cerne_tokenizer* tokenizer, const float* scores,
                                        size_t num_scores) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require_kind(self, true, "scores");
    require(self.has_vocabulary, "the scores need the vocabulary first");
    require(scores != nullptr || num_scores == 0, "cerne_tokenizer_set_scores: scores is null");
    self.spm.set_scores(scores, num_scores);
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_build(cerne_tokenizer* tokenizer) {
  return guarded([&]() -> cerne_status {
    cerne_tokenizer& self = open_for_setting(tokenizer);
    require(self.has_vocabulary, "the tokenizer has no vocabulary");
    std::unique_ptr<TokenModel> model;
    if (self.is_spm) {
      require(self.spm.has_scores(), "the tokenizer has no scores");
      model = std::make_unique<SpmModel>(std::move(self.spm));
    } else {
      self.bpe.set_rules(self.pattern, self.ignore_merges);
      model = std::make_unique<BpeModel>(std::move(self.bpe));
    }
    self.tokenizer = std::make_unique<Tokenizer>(std::move(model), self.cache_bytes);
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_encode(cerne_tokenizer* tokenizer, const uint8_t* text, size_t size,
                                    uint32_t* ids, size_t capacity, size_t* num_ids) {
  return guarded([&]() -> cerne_status {
    Tokenizer& self = built(tokenizer);
    require(
        (text != nullptr || size == 0) && (ids != nullptr || capacity == 0) && num_ids != nullptr,
        "cerne_tokenizer_encode: a required pointer is null");
    *num_ids = self.encode(text, size, ids, capacity);
    if (*num_ids <= capacity) return CERNE_OK;
    cerne::set_last_error("cerne_tokenizer_encode: the buffer is too small");
    return CERNE_BUFFER_TOO_SMALL;
  });
}

cerne_status cerne_tokenizer_encode_batch(cerne_tokenizer* tokenizer, const uint8_t* bytes,
                                          const uint64_t* offsets, size_t num_texts,
                                          size_t num_threads, uint32_t* ids, uint64_t* counts) {
  return guarded([&]() -> cerne_status {
    Tokenizer& self = built(tokenizer);
    if (num_texts == 0) return CERNE_OK;
    require(offsets != nullptr && counts != nullptr,
            "cerne_tokenizer_encode_batch: a required pointer is null");
    for (size_t i = 0; i < num_texts; ++i) {
      if (offsets[i + 1] < offsets[i]) {
        throw invalid("batch offsets decrease at text " + std::to_string(i));
      }
    }
    require(offsets[num_texts] == offsets[0] || (bytes != nullptr && ids != nullptr),
            "cerne_tokenizer_encode_batch: a required pointer is null");
    self.encode_batch(bytes, offsets, num_texts, num_threads, ids, counts);
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_token_lengths(const cerne_tokenizer* tokenizer, const uint32_t* ids,
                                           size_t num_ids, uint32_t* lengths) {
  return guarded([&]() -> cerne_status {
    const TokenModel& model = built(tokenizer).model();
    require(lengths != nullptr || num_ids == 0, "cerne_tokenizer_token_lengths: lengths is null");
    check_ids(model, ids, num_ids);
    for (size_t i = 0; i < num_ids; ++i) {
      lengths[i] = static_cast<uint32_t>(model.token(ids[i]).size());
    }
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_decode(const cerne_tokenizer* tokenizer, const uint32_t* ids,
                                    size_t num_ids, uint8_t* bytes, size_t capacity,
                                    size_t* num_bytes) {
  return guarded([&]() -> cerne_status {
    const TokenModel& model = built(tokenizer).model();
    require((bytes != nullptr || capacity == 0) && num_bytes != nullptr,
            "cerne_tokenizer_decode: a required pointer is null");
    check_ids(model, ids, num_ids);
    size_t needed = 0;
    for (size_t i = 0; i < num_ids; ++i) needed += model.token(ids[i]).size();
    *num_bytes = needed;
    if (needed > capacity) {
      cerne::set_last_error("cerne_tokenizer_decode: the buffer is too small");
      return CERNE_BUFFER_TOO_SMALL;
    }
    for (size_t i = 0; i < num_ids; ++i) {
      const std::string_view token = model.token(ids[i]);
      if (!token.empty()) std::memcpy(bytes, token.data(), token.size());
      bytes += token.size();
    }
    return CERNE_OK;
  });
}

}  // extern "C"
