#include "pretokenize.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "cpu.h"
#include "pretokenize_window.h"
#include "status.h"

namespace cerne {

bool parse_pattern(std::string_view name, Pattern* pattern) {
  static constexpr std::pair<std::string_view, Pattern> kNames[] = {
      {"gpt2", Pattern::kGpt2},   {"gpt4", Pattern::kGpt4},     {"llama3", Pattern::kLlama3},
      {"qwen2", Pattern::kQwen2}, {"smollm", Pattern::kSmollm},
  };
  for (const auto& [known, value] : kNames) {
    if (name == known) {
      *pattern = value;
      return true;
    }
  }
  return false;
}

namespace {

using Classify = void (*)(const uint8_t*, ClassMasks*);

// Windows shorter than this are not worth their set-up.
constexpr int kMinWindow = 8;

template <Pattern kPattern>
size_t find_ends_windowed(const uint8_t*& p, const uint8_t* const end, const uint8_t** ends,
                          size_t capacity, Classify classify) {
  size_t count = 0;
  while (p < end && capacity - count >= kMinEnds) {
    int size = static_cast<int>(std::min<ptrdiff_t>(end - p, 64));
    if (size >= kMinWindow) {
      ClassMasks masks;
      uint8_t padded[64];
      const uint8_t* bytes = p;
      if (size < 64) {
        std::memset(padded, 0, sizeof(padded));
        std::memcpy(padded, p, static_cast<size_t>(size));
        bytes = padded;
      }
      classify(bytes, &masks);
      if (masks.unknown != 0) size = std::min(size, std::countr_zero(masks.unknown));
      if (size >= kMinWindow) {
        uint64_t starts = pretokenize_detail::window_starts<kPattern>(bytes, masks, size);
        const size_t found = static_cast<size_t>(std::popcount(starts)) - 1;
        starts &= starts - 1;
        // Four at a time without asking: the spare slots are overwritten by the next window.
        for (size_t i = 0; i < found; i += 4) {
          for (size_t k = 0; k < 4; ++k) {
            ends[count + i + k] = p + std::countr_zero(starts);
            starts &= starts - 1;
          }
        }
        if (found != 0) {
          count += found;
          p = ends[count - 1];
          continue;
        }
      }
    }
    p = next_pretoken<kPattern>(p, end);
    ends[count++] = p;
  }
  return count;
}

template <Pattern kPattern>
size_t find_ends_plain(const uint8_t*& p, const uint8_t* const end, const uint8_t** ends,
                       size_t capacity) {
  size_t count = 0;
  while (p < end && count < capacity) {
    p = next_pretoken<kPattern>(p, end);
    ends[count++] = p;
  }
  return count;
}

}  // namespace

size_t find_ends(Pattern pattern, const uint8_t*& p, const uint8_t* end, const uint8_t** ends,
                 size_t capacity) {
  return with_pattern(pattern, [&]<Pattern kPattern>() {
#if defined(__x86_64__)
    if (isa() == Isa::kAvx2) {
      return find_ends_windowed<kPattern>(p, end, ends, capacity, classify64_avx2);
    }
#endif
    return find_ends_plain<kPattern>(p, end, ends, capacity);
  });
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
