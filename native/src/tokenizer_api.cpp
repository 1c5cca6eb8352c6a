// The C functions of the tokenizer: argument checks around Tokenizer and the two models.
#include <cstring>
#include <memory>
#include <string>

#include "gguf_cursor.h"
#include "mapped_file.h"
#include "tokenizer_handle.h"

using cerne::alive;
using cerne::BpeModel;
using cerne::built_tokenizer;
using cerne::guarded;
using cerne::invalid;
using cerne::require;
using cerne::SpmModel;
using cerne::Tokenizer;
using cerne::TokenModel;
using cerne::TokenText;

namespace {

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

// Plain added tokens are cut out first, and each stretch between them may get a space before it.
size_t encode_split(cerne_tokenizer& self, const uint8_t* text, size_t size, uint32_t* ids,
                    size_t capacity) {
  const cerne::AddedTokens& added = self.file->added;
  const std::string_view whole(reinterpret_cast<const char*>(text), size);
  std::string spaced;
  size_t needed = 0;
  for (cerne::AddedTokens::Piece piece : added.split(whole)) {
    uint32_t* const out = needed < capacity ? ids + needed : nullptr;
    const size_t room = needed < capacity ? capacity - needed : 0;
    if (piece.id != cerne::kNoToken) {
      if (room > 0) *out = piece.id;
      ++needed;
      continue;
    }
    if (added.space_prefix) {
      spaced.assign(1, ' ').append(piece.text);
      piece.text = spaced;
    }
    const auto* const bytes = reinterpret_cast<const uint8_t*>(piece.text.data());
    needed += self.tokenizer->encode(bytes, piece.text.size(), out, room);
  }
  return needed;
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

cerne_status cerne_tokenizer_open_gguf(const char* path, size_t path_length,
                                       cerne_tokenizer** out) {
  return guarded([&]() -> cerne_status {
    require(path != nullptr && out != nullptr,
            "cerne_tokenizer_open_gguf: a required pointer is null");
    const std::string name(path, path_length);
    require(name.find('\0') == std::string::npos,
            "cerne_tokenizer_open_gguf: the path holds a zero byte");
    const cerne::MappedFile mapped(name);
    const cerne::GgufFile file(mapped.data(), mapped.size());
    auto made = std::make_unique<cerne_tokenizer>();
    made->file = std::make_unique<cerne::GgufTokenizer>(cerne::tokenizer_of(file));
    made->tokenizer = std::make_unique<Tokenizer>(std::move(made->file->model), made->cache_bytes);
    *out = made.release();
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
    Tokenizer& self = built_tokenizer(tokenizer);
    require(
        (text != nullptr || size == 0) && (ids != nullptr || capacity == 0) && num_ids != nullptr,
        "cerne_tokenizer_encode: a required pointer is null");
    *num_ids = tokenizer->splits() ? encode_split(*tokenizer, text, size, ids, capacity)
                                   : self.encode(text, size, ids, capacity);
    if (*num_ids <= capacity) return CERNE_OK;
    cerne::set_last_error("cerne_tokenizer_encode: the buffer is too small");
    return CERNE_BUFFER_TOO_SMALL;
  });
}

cerne_status cerne_tokenizer_encode_batch(cerne_tokenizer* tokenizer, const uint8_t* bytes,
                                          const uint64_t* offsets, size_t num_texts,
                                          size_t num_threads, uint32_t* ids, uint64_t* counts) {
  return guarded([&]() -> cerne_status {
    Tokenizer& self = built_tokenizer(tokenizer);
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
    if (tokenizer->splits()) {
      require(!tokenizer->file->added.space_prefix,
              "a text may have more ids than bytes in this vocabulary; encode one at a time");
      for (size_t i = 0; i < num_texts; ++i) {
        const size_t size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
        counts[i] = encode_split(*tokenizer, size == 0 ? nullptr : bytes + offsets[i], size,
                                 ids + (offsets[i] - offsets[0]), size);
      }
      return CERNE_OK;
    }
    self.encode_batch(bytes, offsets, num_texts, num_threads, ids, counts);
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_token_lengths(const cerne_tokenizer* tokenizer, const uint32_t* ids,
                                           size_t num_ids, uint32_t* lengths) {
  return guarded([&]() -> cerne_status {
    const TokenModel& model = built_tokenizer(tokenizer).model();
    require(lengths != nullptr || num_ids == 0, "cerne_tokenizer_token_lengths: lengths is null");
    check_ids(model, ids, num_ids);
    for (size_t i = 0; i < num_ids; ++i) {
      const bool added = tokenizer->file && tokenizer->file->added.holds(ids[i]);
      const std::string_view text =
          added ? tokenizer->file->added.text(ids[i]) : model.token(ids[i]);
      lengths[i] = static_cast<uint32_t>(text.size());
    }
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_decode(const cerne_tokenizer* tokenizer, const uint32_t* ids,
                                    size_t num_ids, uint8_t* bytes, size_t capacity,
                                    size_t* num_bytes) {
  return guarded([&]() -> cerne_status {
    const TokenModel& model = built_tokenizer(tokenizer).model();
    require((bytes != nullptr || capacity == 0) && num_bytes != nullptr,
            "cerne_tokenizer_decode: a required pointer is null");
    check_ids(model, ids, num_ids);
    size_t needed = 0;
    TokenText sizes(model, tokenizer->added());
    for (size_t i = 0; i < num_ids; ++i) needed += sizes.next(ids[i]).size();
    *num_bytes = needed;
    if (needed > capacity) {
      cerne::set_last_error("cerne_tokenizer_decode: the buffer is too small");
      return CERNE_BUFFER_TOO_SMALL;
    }
    TokenText texts(model, tokenizer->added());
    for (size_t i = 0; i < num_ids; ++i) {
      const std::string_view token = texts.next(ids[i]);
      if (!token.empty()) std::memcpy(bytes, token.data(), token.size());
      bytes += token.size();
    }
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_special(const cerne_tokenizer* tokenizer, const char* name,
                                     size_t name_length, uint32_t* id) {
  return guarded([&]() -> cerne_status {
    built_tokenizer(tokenizer);
    require(name != nullptr && id != nullptr,
            "cerne_tokenizer_special: a required pointer is null");
    const std::string text(name, name_length);
    const uint32_t found =
        tokenizer->file ? tokenizer->file->added.find_control(text) : cerne::kNoToken;
    if (found == cerne::kNoToken)
      throw invalid("no control token is called " + cerne::quoted(text));
    *id = found;
    return CERNE_OK;
  });
}

cerne_status cerne_tokenizer_statistic(const cerne_tokenizer* tokenizer, const char* name,
                                       size_t name_length, int64_t* value) {
  return guarded([&]() -> cerne_status {
    const TokenModel& model = built_tokenizer(tokenizer).model();
    require(name != nullptr && value != nullptr,
            "cerne_tokenizer_statistic: a required pointer is null");
    const cerne::GgufTokenizer nothing;
    const cerne::GgufTokenizer& file = tokenizer->file ? *tokenizer->file : nothing;
    const auto role = [](uint32_t id) { return id == cerne::kNoToken ? int64_t{-1} : id; };
    const std::pair<const char*, int64_t> known[] = {
        {"vocab_size", static_cast<int64_t>(model.num_tokens())},
        {"bos", role(file.bos)},
        {"eos", role(file.eos)},
        {"pad", role(file.pad)},
        {"end_of_turn", role(file.end_of_turn)},
        {"add_bos", file.add_bos},
        {"add_eos", file.add_eos}};
    const std::string key(name, name_length);
    for (const auto& [known_name, number] : known) {
      if (key != known_name) continue;
      *value = number;
      return CERNE_OK;
    }
    throw invalid("unknown statistic " + cerne::quoted(key) +
                  "; known: vocab_size, bos, eos, pad, end_of_turn, add_bos, add_eos");
  });
}

}  // extern "C"
