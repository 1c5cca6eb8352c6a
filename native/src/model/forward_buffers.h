// The working memory of a forward pass, made once.
#ifndef CERNE_SRC_MODEL_FORWARD_BUFFERS_H_
#define CERNE_SRC_MODEL_FORWARD_BUFFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "model/forward.h"
#include "zeroed_memory.h"

namespace cerne {

// With fewer (token, key/value head) pairs than this for each thread, pages are shared out.
inline constexpr size_t kPairsPerThread = 8;

// [T][...] arrays: D width, Q query width H * E, K key width, F feed-forward width.
struct Forward::Buffers {
  Buffers(const ModelConfig& config, size_t tokens, size_t threads, size_t pages)
      : group(config.heads / config.kv_heads),
        q_width(config.heads * config.head_dim),
        kv_width(config.kv_heads * config.head_dim),
        widest(std::max({config.width, q_width, config.ffn_width})),
        max_pages(pages),
        residual(tokens * config.width),
        hidden(tokens * config.width),
        product(tokens * config.width),
        q(tokens * q_width),
        k(tokens * kv_width),
        v(tokens * kv_width),
        mixed(tokens * q_width),
        gate(tokens * config.ffn_width),
        up(tokens * config.ffn_width),
        codes(tokens * widest),
        scales(tokens * (widest / kActivationBlock + 1)),
        sums(tokens * (widest / kActivationBlock + 1)),
        scaled_sums(tokens * (widest / kActivationBlock + 1)),
        page_states(kPairsPerThread * threads * group * pages),
        page_outputs(kPairsPerThread * threads * group * pages * config.head_dim),
        states(threads * 2 * group),
        next_outputs(threads * group * config.head_dim) {}

  size_t group;  // query heads of a key/value head
  size_t q_width, kv_width, widest, max_pages;
  ZeroedArray<float> residual, hidden, product;  // D
  ZeroedArray<float> q, k, v, mixed;             // Q, K, K, Q
  ZeroedArray<float> gate, up;                   // F
  // The quantized activations that the next matrices read.
  ZeroedArray<int8_t> codes;
  ZeroedArray<float> scales;
  ZeroedArray<int32_t> sums;
  ZeroedArray<float> scaled_sums;
  // Where pages are shared out: [pair][page][group], outputs with E behind.
  ZeroedArray<AttentionState> page_states;
  ZeroedArray<float> page_outputs;
  // Where pairs are: of each thread, the state so far, then the next page's.
  ZeroedArray<AttentionState> states;
  ZeroedArray<float> next_outputs;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_FORWARD_BUFFERS_H_
