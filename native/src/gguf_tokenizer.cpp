#include "gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "bpe_model.h"
#include "formats/little_endian.h"
#include "spm_model.h"
#include "status.h"

namespace cerne {

namespace {

enum TokenKind : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused };

struct PreTokenizer {
  Pattern pattern;
  bool ignore_merges, add_bos;
  std::vector<std::string_view> names;
};

// cerne/tokenizer/gguf_names.py; a test compares.
const std::vector<PreTokenizer>& pre_tokenizers() {
  static const std::vector<PreTokenizer> known = {
      {Pattern::kGpt2,
       false,
       false,
       {"gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion",
        "granite-docling", "exaone4"}},
      {Pattern::kSmollm,
       false,
       false,
       {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
        "mellum2"}},
      {Pattern::kLlama3,
       true,
       true,
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
      {Pattern::kLlama3, false, false, {"dbrx", "smaug-bpe", "chatglm-bpe"}},
      {Pattern::kLlama3, true, false, {"glm4", "glm5"}},
      {Pattern::kQwen2,
       false,
       false,
       {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open",
        "megrez", "grok-2"}}};
  return known;
}

constexpr std::string_view kEndOfTurn[] = {"<|end|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>",
                                           "<|eot|>"};
// Some files mark these as plain tokens, and any text could then end a turn.
constexpr std::string_view kAlwaysControl[] = {
    "<|endoftext|>",  "<|end_of_text|>", "<|eom_id|>",         "<|im_start|>",   "<start_of_turn>",
    "<|return|>",     "<|call|>",        "<end_of_utterance>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>",     "<|repo_name|>",      "<|file_sep|>"};

template <size_t N>
bool is_one_of(std::string_view text, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

// The metadata of tokenizer.ggml.*, each checked for its type.
class Fields {
 public:
  explicit Fields(const GgufFile& file) : file_(file) {}

  const GgufMetadata* find(const std::string& name) const {
    const std::string key = "tokenizer.ggml." + name;
    for (const GgufMetadata& entry : file_.metadata()) {
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }

  std::optional<std::string_view> text(const std::string& name) const {
    const GgufMetadata* const entry = find(name);
    if (entry == nullptr) return std::nullopt;
    if (entry->type != GgufType::kString) throw wrong_type(name, "a text");
    return string_at(entry->values);
  }

  bool truth(const std::string& name, bool otherwise) const {
    const GgufMetadata* const entry = find(name);
    if (entry == nullptr) return otherwise;
    if (entry->type != GgufType::kBool) throw wrong_type(name, "a truth value");
    return load<uint8_t>(entry->values) != 0;
  }

  // An id below `count`; files write "no such token" as -1, also in an unsigned field.
  uint32_t id(const std::string& name, size_t count) const {
    const GgufMetadata* const entry = find(name);
    if (entry == nullptr) return kNoToken;
    const int64_t value = whole(name, entry->type, entry->values);
    if (value == -1 || value == int64_t{UINT32_MAX}) return kNoToken;
    if (value < 0 || value >= static_cast<int64_t>(count)) {
      throw invalid("tokenizer.ggml." + name + " is " + std::to_string(value) +
                    ", outside the vocabulary of " + std::to_string(count));
    }
    return static_cast<uint32_t>(value);
  }

  std::vector<std::string_view> texts(const std::string& name) const {
    const GgufMetadata* const entry = find(name);
    if (entry == nullptr || entry->type != GgufType::kArray ||
        entry->element != GgufType::kString || entry->count == 0) {
      throw invalid("the file lacks the list of texts tokenizer.ggml." + name);
    }
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(entry->count));
    const uint8_t* at = entry->values;
    for (uint64_t i = 0; i < entry->count; ++i) {
      texts.push_back(string_at(at));
      at += 8 + texts.back().size();
    }
    return texts;
  }

  const GgufMetadata& numbers(const std::string& name, size_t count) const {
    const GgufMetadata* const entry = find(name);
    if (entry == nullptr || entry->type != GgufType::kArray) {
      throw invalid("the file lacks the list of numbers tokenizer.ggml." + name);
    }
    if (entry->count != count) {
      throw invalid("tokenizer.ggml." + name + " has " + std::to_string(entry->count) +
                    " entries for " + std::to_string(count) + " tokens");
    }
    return *entry;
  }

  std::vector<int64_t> kinds(size_t count) const {
    std::vector<int64_t> kinds(count, kNormal);
    if (find("token_type") == nullptr) return kinds;
    const GgufMetadata& entry = numbers("token_type", count);
    const uint32_t bytes = gguf_type_bytes(entry.element);
    for (size_t i = 0; i < count; ++i) {
      kinds[i] = whole("token_type", entry.element, entry.values + i * bytes);
    }
    return kinds;
  }

 private:
  static Error wrong_type(const std::string& name, const char* wanted) {
    return invalid("tokenizer.ggml." + name + " is no " + (wanted + 2));
  }

  static std::string_view string_at(const uint8_t* at) {
    return {reinterpret_cast<const char*>(at + 8), static_cast<size_t>(load<uint64_t>(at))};
  }

  static int64_t whole(const std::string& name, GgufType type, const uint8_t* at) {
    switch (type) {
      case GgufType::kUint8:
        return load<uint8_t>(at);
      case GgufType::kInt8:
        return load<int8_t>(at);
      case GgufType::kUint16:
        return load<uint16_t>(at);
      case GgufType::kInt16:
        return load<int16_t>(at);
      case GgufType::kUint32:
        return load<uint32_t>(at);
      case GgufType::kInt32:
        return load<int32_t>(at);
      case GgufType::kInt64:
        return load<int64_t>(at);
      case GgufType::kUint64:
        // Beyond 2^63 is no id; as a negative number it is refused.
        return std::max<int64_t>(static_cast<int64_t>(load<uint64_t>(at)), -2);
      default:
        throw wrong_type(name, "a whole number");
    }
  }

  const GgufFile& file_;
};

// What both kinds have.
struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<int64_t> kinds;
};

Tokens read_tokens(const Fields& fields, bool add_bos, uint32_t default_bos, uint32_t default_eos,
                   GgufTokenizer& out) {
  Tokens tokens{fields.texts("tokens"), {}};
  const size_t count = tokens.texts.size();
  tokens.kinds = fields.kinds(count);
  const bool says_bos = fields.find("add_bos_token") != nullptr;
  add_bos = fields.truth("add_bos_token", add_bos);
  out.bos = fields.id("bos_token_id", count);
  out.eos = fields.id("eos_token_id", count);
  out.pad = fields.id("padding_token_id", count);
  out.end_of_turn = fields.id("eot_token_id", count);
  const auto fill = [&](uint32_t& id, const char* name, uint32_t value) {
    if (value < count && fields.find(name) == nullptr) id = value;
  };
  fill(out.bos, "bos_token_id", default_bos);
  fill(out.eos, "eos_token_id", default_eos);
  // Some files name a common token, ",", as a begin or padding that nobody uses.
  const bool has_kinds = fields.find("token_type") != nullptr;
  const auto forget = [&](uint32_t& id) {
    if (id != kNoToken && has_kinds && tokens.kinds[id] == kNormal) id = kNoToken;
  };
  forget(out.pad);
  if (!add_bos) forget(out.bos);

  uint32_t* const roles[] = {&out.bos, &out.eos, &out.pad, &out.end_of_turn};
  for (uint32_t id = 0; id < count; ++id) {
    const std::string_view text = tokens.texts[id];
    const int64_t kind = tokens.kinds[id];
    bool control = kind == kUnknown || kind == kControl || is_one_of(text, kEndOfTurn) ||
                   is_one_of(text, kAlwaysControl);
    for (const uint32_t* const role : roles) control |= *role == id;
    if (text.empty() || !(control || kind == kUserDefined)) continue;
    out.added.add(id, text, control);
  }
  out.added.rank();
  for (uint32_t* const role : roles) {
    if (*role != kNoToken && tokens.texts[*role].empty()) *role = kNoToken;
  }
  for (const std::string_view name : kEndOfTurn) {
    if (out.end_of_turn == kNoToken) out.end_of_turn = out.added.find_control(name);
  }
  out.add_bos = add_bos && (says_bos || out.bos != kNoToken);
  out.add_eos = fields.truth("add_eos_token", false);
  if (out.add_bos && out.bos == kNoToken)
    throw invalid("add_bos is set, but there is no bos token");
  if (out.add_eos && out.eos == kNoToken)
    throw invalid("add_eos is set, but there is no eos token");
  return tokens;
}

// The byte behind each of GPT-2's characters, which lie below 324; -1: none.
std::array<int, 324> bytes_of_characters() {
  std::array<int, 324> bytes{};
  bytes.fill(-1);
  size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte < 0x7F) || (byte >= 0xA1 && byte != 0xAD);
    bytes[printable ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

// The bytes that a written token stands for; false when a character stands for none.
bool to_bytes(std::string_view written, std::string& out) {
  static const std::array<int, 324> bytes = bytes_of_characters();
  out.clear();
  for (size_t i = 0; i < written.size(); ++i) {
    uint32_t character = static_cast<uint8_t>(written[i]);
    if (character >= 0x80) {
      const uint32_t next = i + 1 < written.size() ? static_cast<uint8_t>(written[i + 1]) : 0;
      if ((character & 0xE0) != 0xC0 || (next & 0xC0) != 0x80) return false;
      character = (character & 0x1F) << 6 | (next & 0x3F);
      if (character < 0x80) return false;
      ++i;
    }
    if (character >= bytes.size() || bytes[character] < 0) return false;
    out.push_back(static_cast<char>(bytes[character]));
  }
  return true;
}

// Tokens one after the other, as the models take them.
struct Blob {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> offsets{0};

  void add(std::string_view token) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(bytes.size());
  }
  // Never null.
  const uint8_t* data() {
    if (bytes.empty()) bytes.reserve(1);
    return bytes.data();
  }
};

using Ids = std::unordered_map<std::string_view, uint32_t>;

// Pairs of ids in order of priority; the first of equal pairs counts.
std::vector<uint32_t> read_merges(const std::vector<std::string_view>& merges, const Ids& ids) {
  std::vector<uint32_t> pairs;
  std::unordered_set<uint64_t> seen;
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t at = merge.find(' ');
    if (at == 0 || at == std::string_view::npos || at + 1 == merge.size()) {
      throw invalid("merge " + std::to_string(rank) + " is no pair of tokens: " + quoted(merge));
    }
    const std::string_view left = merge.substr(0, at), right = merge.substr(at + 1);
    joined.assign(left).append(right);
    for (const std::string_view token : {left, right, std::string_view(joined)}) {
      if (ids.find(token) != ids.end()) continue;
      throw invalid("merge " + std::to_string(rank) +
                    " names an unknown or added token: " + quoted(token));
    }
    const uint32_t a = ids.at(left), b = ids.at(right);
    if (!seen.insert(uint64_t{a} << 32 | b).second) continue;
    pairs.push_back(a);
    pairs.push_back(b);
  }
  return pairs;
}

void read_byte_level(const Fields& fields, GgufTokenizer& out) {
  const std::optional<std::string_view> name = fields.text("pre");
  if (!name) throw invalid("the file names no pre-tokenizer; convert the model again");
  const PreTokenizer* pre = nullptr;
  for (const PreTokenizer& one : pre_tokenizers()) {
    if (std::find(one.names.begin(), one.names.end(), *name) != one.names.end()) pre = &one;
  }
  if (pre == nullptr) throw invalid("the pre-tokenizer " + quoted(*name) + " is not supported");
  const Tokens tokens = read_tokens(fields, pre->add_bos, kNoToken, kNoToken, out);
  const size_t count = tokens.texts.size();
  Ids ids;
  for (uint32_t id = 0; id < count; ++id) {
    const std::string_view text = tokens.texts[id];
    if (text.empty() || out.added.holds(id)) continue;
    if (!ids.emplace(text, id).second) throw invalid("token " + quoted(text) + " occurs twice");
  }
  const std::vector<uint32_t> pairs = read_merges(fields.texts("merges"), ids);
  const std::unordered_set<uint32_t> used(pairs.begin(), pairs.end());
  Blob blob;
  std::string bytes;
  bool has_byte = false;
  for (uint32_t id = 0; id < count; ++id) {
    const std::string_view text = tokens.texts[id];
    // What is not made of the byte alphabet, or fills the vocabulary up, no text becomes.
    const bool is_used = used.find(id) != used.end();
    const bool written = !out.added.holds(id) && to_bytes(text, bytes);
    if (is_used && !written) {
      throw invalid("token " + quoted(text) + " holds a character that stands for no byte");
    }
    const bool counts = written && (is_used || tokens.kinds[id] != kUnused);
    blob.add(counts ? std::string_view(bytes) : std::string_view());
    has_byte |= counts && bytes.size() == 1;
  }
  if (!has_byte) throw invalid("the vocabulary has no token for any single byte");
  auto model = std::make_unique<BpeModel>();
  model->set_vocabulary(blob.data(), blob.offsets.data(), count);
  model->set_merges(pairs.data(), pairs.size() / 2);
  model->set_rules(pre->pattern, pre->ignore_merges);
  out.model = std::move(model);
}

bool names_byte(std::string_view text) {
  return text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>';
}

void read_sentence_piece(const Fields& fields, GgufTokenizer& out) {
  const Tokens tokens = read_tokens(fields, true, 1, 2, out);
  const size_t count = tokens.texts.size();
  const GgufMetadata& entry = fields.numbers("scores", count);
  if (entry.element != GgufType::kFloat32) {
    throw invalid("tokenizer.ggml.scores is no list of float32 numbers");
  }
  std::vector<float> scores(count);
  std::memcpy(scores.data(), entry.values, count * sizeof(float));
  Blob blob;
  for (uint32_t id = 0; id < count; ++id) {
    const std::string_view text = tokens.texts[id];
    blob.add(out.added.holds(id) && !names_byte(text) ? std::string_view() : text);
  }
  auto model = std::make_unique<SpmModel>();
  model->set_vocabulary(blob.data(), blob.offsets.data(), count);
  model->set_scores(scores.data(), count);
  out.model = std::move(model);
  out.added.space_prefix = fields.truth("add_space_prefix", true);
}

}  // namespace

GgufTokenizer tokenizer_of(const GgufFile& file) {
  const Fields fields(file);
  const std::optional<std::string_view> kind = fields.text("model");
  if (!kind) throw invalid("the file has no tokenizer");
  GgufTokenizer out;
  if (*kind == "gpt2") {
    read_byte_level(fields, out);
  } else if (*kind == "llama") {
    read_sentence_piece(fields, out);
  } else {
    throw invalid("the tokenizer " + quoted(*kind) + " is not supported; allowed: gpt2, llama");
  }
  return out;
}

}  // namespace cerne
