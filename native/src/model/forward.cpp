#include "model/forward.h"

#include <utility>

#include "model/forward_buffers.h"

namespace cerne {

// One matrix of a phase, and where its product goes.
struct Forward::Product {
  const Linear* weight;
  float* out;
};

Forward::Forward(std::shared_ptr<const Model> model, Team& team, size_t max_tokens,
                 size_t max_positions)
    : model_(std::move(model)),
      team_(team),
      buffers_(std::make_unique<Buffers>(model_->config(), max_tokens, team.size(),
                                         (max_positions + kPagePositions - 1) / kPagePositions)) {
  for (const RopeFrequencies& each : model_->all_frequencies()) tables_.emplace_back(each);
}

Forward::~Forward() = default;

bool Forward::run(const std::vector<BatchToken>& tokens, const std::vector<size_t>& wanted,
                  const KvCache& cache, const std::atomic<bool>& stop, Rows rows, float* out) {
  size_t end = 0;
  for (const BatchToken& token : tokens) end = std::max(end, token.position + 1);
  for (RopeTable& table : tables_) table.reach(end);
  tokens_ = &tokens;
  wanted_ = &wanted;
  cache_ = &cache;
  stop_ = &stop;
  rows_ = rows;
  out_ = out;
  stopped_ = false;
  team_.run([this](size_t thread) { work(thread); });
  return !stopped_;
}

void Forward::work(size_t thread) {
  Buffers& b = *buffers_;
  const size_t tokens = tokens_->size();
  const ModelConfig& config = model_->config();
  embed(thread);
  for (size_t i = 0; i < config.layers; ++i) {
    const Layer& layer = model_->layers()[i];
    if (thread == 0) stopped_ = stop_->load(std::memory_order_relaxed);
    normalize(thread, layer.attention_norm);
    team_.barrier();
    // Written before the barrier, read after it: all leave together.
    if (stopped_) return;
    const Product heads[] = {
        {layer.q.get(), b.q.data()}, {layer.k.get(), b.k.data()}, {layer.v.get(), b.v.data()}};
    multiply(thread, tokens, b.hidden.data(), config.width, heads, 3);
    team_.barrier();
    project_heads(thread, i);
    team_.barrier();
    attend(thread, i);
    team_.barrier();
    quantize_mixed(thread);
    team_.barrier();
    const Product output[] = {{layer.output.get(), b.product.data()}};
    multiply(thread, tokens, b.mixed.data(), b.q_width, output, 1);
    team_.barrier();
    add_product(thread, layer.output_bias, layer.post_attention_norm);
    normalize(thread, layer.ffn_norm);
    team_.barrier();
    const Product inner[] = {{layer.gate.get(), b.gate.data()}, {layer.up.get(), b.up.data()}};
    multiply(thread, tokens, b.hidden.data(), config.width, inner, 2);
    team_.barrier();
    gate(thread, layer);
    team_.barrier();
    const Product down[] = {{layer.down.get(), b.product.data()}};
    multiply(thread, tokens, b.gate.data(), config.ffn_width, down, 1);
    team_.barrier();
    add_product(thread, layer.down_bias, layer.post_ffn_norm);
  }
  write_rows(thread);
}

void Forward::embed(size_t thread) {
  const size_t d = model_->config().width;
  const float scale = model_->config().embedding_scale;
  const Share share = share_of(tokens_->size(), thread, team_.size());
  for (size_t t = share.begin; t < share.end; ++t) {
    float* const x = buffers_->residual.data() + t * d;
    model_->embedding().row((*tokens_)[t].id, x);
    if (scale == 1.0f) continue;
    for (size_t i = 0; i < d; ++i) x[i] = x[i] * scale;
  }
}

// Blocks [begin, end) of a token's `width` values.
void Forward::quantize(size_t token, size_t width, size_t begin, size_t end, const float* values) {
  // Rows of a quantized matrix are whole blocks: no other width has a reader.
  if (width % kActivationBlock != 0) return;
  Buffers& b = *buffers_;
  const size_t first = token * (width / kActivationBlock) + begin;
  quantize_activations(values + begin * kActivationBlock, (end - begin) * kActivationBlock,
                       b.codes.data() + first * kActivationBlock, b.scales.data() + first,
                       b.sums.data() + first, b.scaled_sums.data() + first);
}

void Forward::normalize(size_t thread, const std::vector<float>& weight) {
  const size_t d = model_->config().width;
  const Share share = share_of(tokens_->size(), thread, team_.size());
  for (size_t t = share.begin; t < share.end; ++t) {
    float* const h = buffers_->hidden.data() + t * d;
    vector_kernels().rms_norm(buffers_->residual.data() + t * d, weight.data(), d,
                              model_->config().eps, h);
    quantize(t, d, 0, d / kActivationBlock, h);
  }
}

// This thread's panels of all products of a phase.
void Forward::multiply(size_t thread, size_t tokens, const float* values, size_t width,
                       const Product* products, size_t count) {
  Buffers& b = *buffers_;
  const Activations x{
      tokens, width, values, b.codes.data(), b.scales.data(), b.sums.data(), b.scaled_sums.data()};
  size_t panels = 0;
  for (size_t i = 0; i < count; ++i) panels += products[i].weight->num_panels();
  const Share share = share_of(panels, thread, team_.size());
  size_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    const Linear& weight = *products[i].weight;
    const size_t begin = std::max(share.begin, before);
    const size_t end = std::min(share.end, before + weight.num_panels());
    if (begin < end) {
      weight.multiply(x, begin - before, end - before, products[i].out, weight.num_rows());
    }
    before += weight.num_panels();
  }
}

void Forward::gate(size_t thread, const Layer& layer) {
  Buffers& b = *buffers_;
  const ModelConfig& config = model_->config();
  const size_t width = config.ffn_width;
  const size_t blocks = (width + kActivationBlock - 1) / kActivationBlock;
  Share share = share_of(tokens_->size() * blocks, thread, team_.size());
  while (share.begin < share.end) {
    const size_t t = share.begin / blocks;
    const size_t begin = share.begin % blocks;
    const size_t end = std::min(blocks, begin + (share.end - share.begin));
    const size_t first = begin * kActivationBlock;
    const size_t size = std::min(width, end * kActivationBlock) - first;
    float* const g = b.gate.data() + t * width;
    float* const u = b.up.data() + t * width;
    if (!layer.gate_bias.empty()) {
      vector_kernels().add(g + first, layer.gate_bias.data() + first, size);
    }
    if (!layer.up_bias.empty()) {
      vector_kernels().add(u + first, layer.up_bias.data() + first, size);
    }
    vector_kernels().gated(config.gate, g + first, u + first, size);
    quantize(t, width, begin, end, g);
    share.begin += end - begin;
  }
}

// x = x + norm(product + bias), the norm and the bias where the model has them.
void Forward::add_product(size_t thread, const std::vector<float>& bias,
                          const std::vector<float>& norm) {
  const size_t d = model_->config().width;
  const VectorKernels& kernels = vector_kernels();
  const Share share = share_of(tokens_->size(), thread, team_.size());
  for (size_t t = share.begin; t < share.end; ++t) {
    float* const y = buffers_->product.data() + t * d;
    if (!bias.empty()) kernels.add(y, bias.data(), d);
    if (!norm.empty()) kernels.rms_norm(y, norm.data(), d, model_->config().eps, y);
    kernels.add(buffers_->residual.data() + t * d, y, d);
  }
}

void Forward::write_rows(size_t thread) {
  if (wanted_->empty()) return;
  Buffers& b = *buffers_;
  const size_t d = model_->config().width;
  team_.barrier();
  const Share share = share_of(wanted_->size(), thread, team_.size());
  for (size_t i = share.begin; i < share.end; ++i) {
    float* const h = (rows_ == Rows::kHidden ? out_ : b.hidden.data()) + i * d;
    vector_kernels().rms_norm(b.residual.data() + (*wanted_)[i] * d, model_->output_norm().data(),
                              d, model_->config().eps, h);
    if (rows_ == Rows::kLogits) quantize(i, d, 0, d / kActivationBlock, h);
  }
  if (rows_ == Rows::kHidden) return;
  team_.barrier();
  const Product head[] = {{&model_->head(), out_}};
  multiply(thread, wanted_->size(), b.hidden.data(), d, head, 1);
}

}  // namespace cerne
