// From the numbers of a stored model to its configuration, with each number checked.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "gguf_cursor.h"
#include "model/model.h"
#include "status.h"

namespace cerne {
namespace {

const char* const kArchitectures = "llama, qwen2, qwen3, gemma3";

std::string plain(double value) {
  std::string text = std::to_string(value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

class Numbers {
 public:
  explicit Numbers(const ModelSource& source) : source_(source) {}

  bool has(const char* name) const { return source_.numbers.count(name) > 0; }

  double number(const char* name, double otherwise) const {
    const auto found = source_.numbers.find(name);
    return found == source_.numbers.end() ? otherwise : found->second;
  }

  size_t size(const char* name, size_t highest) const {
    const auto found = source_.numbers.find(name);
    if (found == source_.numbers.end()) {
      throw invalid("the model has no " + source_.architecture + "." + name);
    }
    const double value = found->second;
    if (!(value >= 1.0 && value <= static_cast<double>(highest)) || value != std::floor(value)) {
      throw invalid(source_.architecture + "." + name + " is " + plain(value) +
                    "; allowed: a whole number from 1 to " + std::to_string(highest));
    }
    return static_cast<size_t>(value);
  }

  size_t size(const char* name, size_t highest, size_t otherwise) const {
    return has(name) ? size(name, highest) : otherwise;
  }

 private:
  const ModelSource& source_;
};

// Every number that is read here or in model.cpp, and those that change nothing.
const char* const kKnown[] = {"vocab_size",
                              "context_length",
                              "block_count",
                              "embedding_length",
                              "feed_forward_length",
                              "attention.head_count",
                              "attention.head_count_kv",
                              "attention.key_length",
                              "attention.value_length",
                              "attention.layer_norm_rms_epsilon",
                              "attention.sliding_window",
                              "attention.sliding_window_pattern",
                              "expert_count",
                              "expert_used_count",
                              "rope.dimension_count",
                              "rope.freq_base",
                              "rope.freq_base_swa",
                              "rope.scaling.factor",
                              "rope.scaling.original_context_length",
                              "rope.scaling.low_freq_factor",
                              "rope.scaling.high_freq_factor",
                              "rope.scaling.yarn_beta_fast",
                              "rope.scaling.yarn_beta_slow",
                              "rope.scaling.attn_factor",
                              "rope.scaling.truncate",
                              "rope.scaling.finetuned"};

// A number without a reader would be ignored in silence, and the answers would be wrong.
void require_known(const ModelSource& source) {
  for (const auto& [name, value] : source.numbers) {
    const auto same = [&](const char* known) { return name == known; };
    if (std::none_of(std::begin(kKnown), std::end(kKnown), same)) {
      throw invalid("the model has " + source.architecture + "." + name + " = " + plain(value) +
                    ", which this engine does not know");
    }
  }
}

constexpr size_t kMaxWidth = size_t{1} << 20;
constexpr size_t kMaxContext = size_t{1} << 30;

void read_windows(const Numbers& numbers, const ModelSource& source, ModelConfig* config) {
  config->windows.assign(config->layers, 0);
  if (!numbers.has("attention.sliding_window")) return;
  if (numbers.number("attention.sliding_window", 0.0) == 0.0) return;
  const size_t window = numbers.size("attention.sliding_window", kMaxContext);
  // Gemma 3: five layers with a window, then one without. Others name the pattern or have one kind.
  const size_t pattern = numbers.size("attention.sliding_window_pattern", 1000,
                                      source.architecture == "gemma3" ? size_t{6} : size_t{0});
  for (size_t i = 0; i < config->layers; ++i) {
    if (pattern == 0 || i % pattern != pattern - 1) config->windows[i] = window;
  }
}

}  // namespace

ModelConfig config_of(const ModelSource& source) {
  const std::string& kind = source.architecture;
  if (kind != "llama" && kind != "qwen2" && kind != "qwen3" && kind != "gemma3") {
    throw invalid("the architecture is " + quoted(kind) + "; this engine runs " + kArchitectures);
  }
  require_known(source);
  const Numbers numbers(source);
  if (numbers.number("expert_count", 0.0) != 0.0) {
    throw invalid("the model is a mixture of experts, which this engine does not run");
  }
  ModelConfig config;
  config.architecture = kind;
  config.context = numbers.size("context_length", kMaxContext);
  config.layers = numbers.size("block_count", 10000);
  config.width = numbers.size("embedding_length", kMaxWidth);
  config.ffn_width = numbers.size("feed_forward_length", kMaxWidth);
  config.heads = numbers.size("attention.head_count", 10000);
  config.kv_heads = numbers.size("attention.head_count_kv", 10000, config.heads);
  if (config.heads % config.kv_heads != 0) {
    throw invalid("attention.head_count " + std::to_string(config.heads) +
                  " is no multiple of attention.head_count_kv " + std::to_string(config.kv_heads));
  }
  config.head_dim = numbers.size("attention.key_length", 4096, config.width / config.heads);
  if (numbers.size("attention.value_length", 4096, config.head_dim) != config.head_dim) {
    throw invalid("attention.value_length differs from attention.key_length; allowed: equal");
  }
  if (config.head_dim % 2 != 0 || config.head_dim == 0) {
    throw invalid("the head width is " + std::to_string(config.head_dim) +
                  "; allowed: an even number");
  }
  if (numbers.size("rope.dimension_count", 4096, config.head_dim) != config.head_dim) {
    throw invalid("rope.dimension_count differs from the head width: partial rotation is unknown");
  }
  const double eps = numbers.number("attention.layer_norm_rms_epsilon", 1e-6);
  if (!(eps > 0.0 && eps < 1.0)) {
    throw invalid("attention.layer_norm_rms_epsilon is " + std::to_string(eps) +
                  "; allowed: above 0, below 1");
  }
  config.eps = static_cast<float>(eps);
  const bool gemma = kind == "gemma3";
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.embedding_scale = gemma ? std::sqrt(static_cast<float>(config.width)) : 1.0f;
  config.gate = gemma ? Gate::kGelu : Gate::kSilu;
  read_windows(numbers, source, &config);
  return config;
}

}  // namespace cerne
