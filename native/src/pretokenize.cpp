#include "pretokenize.h"

#include <string>

#include "status.h"

namespace cerne {

bool parse_pattern(std::string_view name, Pattern* pattern) {
  static constexpr std::pair<std::string_view, Pattern> kNames[] = {
      {"gpt2", Pattern::kGpt2},     {"gpt4", Pattern::kGpt4},     {"llama3", Pattern::kLlama3},
      {"qwen2", Pattern::kQwen2},   {"smollm", Pattern::kSmollm},
  };
  for (const auto& [known, value] : kNames) {
    if (name == known) {
      *pattern = value;
      return true;
    }
  }
  return false;
}

}  // namespace cerne

extern "C" cerne_status cerne_pretokenize(const char* pattern_name, size_t pattern_length,
                                          const uint8_t* text, size_t size, uint64_t* ends,
                                          size_t capacity, size_t* num_ends) {
  return cerne::guarded([&]() -> cerne_status {
    if (num_ends == nullptr || (text == nullptr && size != 0) || pattern_name == nullptr ||
        (ends == nullptr && capacity != 0)) {
      throw cerne::invalid("cerne_pretokenize: a required pointer is null");
    }
    cerne::Pattern pattern;
    const std::string name(pattern_name, pattern_length);
    if (!cerne::parse_pattern(name, &pattern)) {
      throw cerne::invalid("unknown pattern '" + name +
                           "'; allowed: gpt2, gpt4, llama3, qwen2, smollm");
    }
    size_t count = 0;
    cerne::for_each_pretoken(pattern, text, size, [&](const uint8_t* start, size_t length) {
      if (count < capacity) ends[count] = static_cast<uint64_t>(start - text) + length;
      ++count;
    });
    *num_ends = count;
    if (count <= capacity) return CERNE_OK;
    cerne::set_last_error("cerne_pretokenize: the buffer is too small");
    return CERNE_BUFFER_TOO_SMALL;
  });
}
