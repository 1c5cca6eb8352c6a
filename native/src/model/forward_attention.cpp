// The attention of a forward pass: heads are prepared and cached, then scored page by page.
#include <algorithm>

#include "model/forward.h"
#include "model/forward_buffers.h"

namespace cerne {
namespace {

void prepare_head(float* head, const std::vector<float>& norm, float eps, const RopeTable& table,
                  size_t position, size_t head_dim) {
  const VectorKernels& kernels = vector_kernels();
  if (!norm.empty()) kernels.rms_norm(head, norm.data(), head_dim, eps, head);
  kernels.rotate(head, table.cosines(position), table.sines(position), head_dim);
}

void add_bias(float* values, const std::vector<float>& bias, size_t at, size_t size) {
  if (!bias.empty()) vector_kernels().add(values, bias.data() + at, size);
}

}  // namespace

// Bias, norm and rotation of all heads; keys and values go to their pages.
void Forward::project_heads(size_t thread, size_t layer_index) {
  Buffers& b = *buffers_;
  const ModelConfig& config = model_->config();
  const Layer& layer = model_->layers()[layer_index];
  const RopeTable& table = tables_[model_->table_of(layer_index)];
  const size_t e = config.head_dim;
  const Share share = share_of(tokens_->size() * config.kv_heads, thread, team_.size());
  for (size_t pair = share.begin; pair < share.end; ++pair) {
    const size_t t = pair / config.kv_heads;
    const size_t kv_head = pair % config.kv_heads;
    const BatchToken& token = (*tokens_)[t];
    const size_t at = kv_head * b.group * e;
    float* const q = b.q.data() + t * b.q_width + at;
    add_bias(q, layer.q_bias, at, b.group * e);
    for (size_t h = 0; h < b.group; ++h) {
      prepare_head(q + h * e, layer.q_norm, config.eps, table, token.position, e);
    }
    float* const k = b.k.data() + t * b.kv_width + kv_head * e;
    float* const v = b.v.data() + t * b.kv_width + kv_head * e;
    add_bias(k, layer.k_bias, kv_head * e, e);
    add_bias(v, layer.v_bias, kv_head * e, e);
    prepare_head(k, layer.k_norm, config.eps, table, token.position, e);
    cache_->store(token.pages[token.position / kPagePositions], layer_index, kv_head,
                  token.position % kPagePositions, k, v);
  }
}

size_t Forward::first_position(size_t layer, size_t position) const {
  const size_t window = model_->config().windows[layer];
  return window == 0 || position < window ? 0 : position + 1 - window;
}

// The heads of a group against the keys of one page that the token may see.
void Forward::score_page(size_t layer, size_t t, size_t kv_head, size_t page,
                         AttentionState* states, float* outputs) const {
  const Buffers& b = *buffers_;
  const ModelConfig& config = model_->config();
  const BatchToken& token = (*tokens_)[t];
  const size_t start = page * kPagePositions;
  const size_t from = std::max(start, first_position(layer, token.position));
  const size_t last = std::min(start + kPagePositions, token.position + 1);
  const PageView view = cache_->view(token.pages[page], layer, kv_head, from - start, last - start);
  const float* const q = b.q.data() + t * b.q_width + kv_head * b.group * config.head_dim;
  const VectorKernels& kernels = vector_kernels();
  const auto score = cache_->shape().half ? kernels.page_half : kernels.page_float;
  score(q, b.group, view, config.attention_scale, states, outputs);
}

void Forward::attend(size_t thread, size_t layer) {
  // Decided alike by every thread: it depends on the batch alone.
  const size_t pairs = tokens_->size() * model_->config().kv_heads;
  if (pairs <= kPairsPerThread * team_.size()) {
    attend_by_page(thread, layer);
  } else {
    attend_by_pair(thread, layer);
  }
}

// Many pairs of token and key/value head: each thread takes whole pairs.
void Forward::attend_by_pair(size_t thread, size_t layer) {
  Buffers& b = *buffers_;
  const size_t e = model_->config().head_dim;
  AttentionState* const states = b.states.data() + thread * 2 * b.group;
  AttentionState* const next_states = states + b.group;
  float* const next_outputs = b.next_outputs.data() + thread * b.group * e;
  for (size_t kv_head = 0; kv_head < model_->config().kv_heads; ++kv_head) {
    // Later tokens have more to do: every size()-th is a fair share.
    for (size_t t = thread; t < tokens_->size(); t += team_.size()) {
      const size_t position = (*tokens_)[t].position;
      const size_t first_page = first_position(layer, position) / kPagePositions;
      float* const out = b.mixed.data() + t * b.q_width + kv_head * b.group * e;
      score_page(layer, t, kv_head, first_page, states, out);
      for (size_t page = first_page + 1; page <= position / kPagePositions; ++page) {
        score_page(layer, t, kv_head, page, next_states, next_outputs);
        for (size_t h = 0; h < b.group; ++h) {
          vector_kernels().join(&states[h], out + h * e, next_states[h], next_outputs + h * e, e);
        }
      }
      for (size_t h = 0; h < b.group; ++h) {
        vector_kernels().finish(states[h], out + h * e, e, out + h * e);
      }
    }
  }
}

// Few pairs: the pages of all of them are shared out, and joined in order afterwards.
void Forward::attend_by_page(size_t thread, size_t layer) {
  Buffers& b = *buffers_;
  const size_t e = model_->config().head_dim;
  const size_t kv_heads = model_->config().kv_heads;
  const size_t pairs = tokens_->size() * kv_heads;
  const auto pages_of = [&](size_t pair) {
    const size_t position = (*tokens_)[pair / kv_heads].position;
    return Share{first_position(layer, position) / kPagePositions, position / kPagePositions + 1};
  };
  const auto state_of = [&](size_t pair, size_t page) {
    return b.page_states.data() + (pair * b.max_pages + page) * b.group;
  };
  const auto output_of = [&](size_t pair, size_t page) {
    return b.page_outputs.data() + (pair * b.max_pages + page) * b.group * e;
  };
  size_t total = 0;
  for (size_t pair = 0; pair < pairs; ++pair) total += pages_of(pair).end - pages_of(pair).begin;
  const Share share = share_of(total, thread, team_.size());
  size_t index = 0;
  for (size_t pair = 0; pair < pairs && index < share.end; ++pair) {
    const Share pages = pages_of(pair);
    for (size_t page = pages.begin; page < pages.end; ++page, ++index) {
      if (index < share.begin || index >= share.end) continue;
      score_page(layer, pair / kv_heads, pair % kv_heads, page, state_of(pair, page),
                 output_of(pair, page));
    }
  }
  team_.barrier();
  const Share own = share_of(pairs, thread, team_.size());
  for (size_t pair = own.begin; pair < own.end; ++pair) {
    const Share pages = pages_of(pair);
    AttentionState* const states = state_of(pair, pages.begin);
    float* const outputs = output_of(pair, pages.begin);
    float* const out = b.mixed.data() + pair / kv_heads * b.q_width + pair % kv_heads * b.group * e;
    for (size_t h = 0; h < b.group; ++h) {
      for (size_t page = pages.begin + 1; page < pages.end; ++page) {
        vector_kernels().join(&states[h], outputs + h * e, state_of(pair, page)[h],
                              output_of(pair, page) + h * e, e);
      }
      vector_kernels().finish(states[h], outputs + h * e, e, out + h * e);
    }
  }
}

void Forward::quantize_mixed(size_t thread) {
  const Buffers& b = *buffers_;
  const Share share = share_of(tokens_->size(), thread, team_.size());
  for (size_t t = share.begin; t < share.end; ++t) {
    quantize(t, b.q_width, 0, b.q_width / kActivationBlock, b.mixed.data() + t * b.q_width);
  }
}

}  // namespace cerne
