#include "model/model.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "gguf_cursor.h"
#include "status.h"
#include "system_memory.h"
#include "thread_pool.h"

namespace cerne {
namespace {

// Hands out tensors by name and remembers which, so that none is left unread.
class Tensors {
 public:
  explicit Tensors(const ModelSource& source) : source_(source) {}

  const StoredTensor* find(const std::string& name) {
    const auto found = source_.tensors.find(name);
    if (found == source_.tensors.end()) return nullptr;
    read_.insert(name);
    return &found->second;
  }

  const StoredTensor& matrix(const std::string& name, size_t rows, size_t width) {
    const StoredTensor* const tensor = find(name);
    if (tensor == nullptr) throw invalid("the model has no tensor " + quoted(name));
    if (tensor->rows != rows || tensor->width != width) {
      throw invalid("tensor " + quoted(name) + " has " + std::to_string(tensor->rows) +
                    " rows of " + std::to_string(tensor->width) +
                    "; needed: " + std::to_string(rows) + " of " + std::to_string(width));
    }
    if (tensor->type->dequantize == nullptr) {
      throw invalid("tensor " + quoted(name) + " has type " + tensor->type->name +
                    "; this engine reads " + decodable_types());
    }
    return *tensor;
  }

  std::vector<float> vector(const std::string& name, size_t size) {
    const StoredTensor& tensor = matrix(name, 1, size);
    std::vector<float> values(size);
    tensor.type->dequantize(tensor.data, size / tensor.type->block_values, values.data());
    return values;
  }

  std::vector<float> optional_vector(const std::string& name, size_t size) {
    if (source_.tensors.count(name) == 0) return {};
    return vector(name, size);
  }

  void require_all_read() const {
    for (const auto& [name, tensor] : source_.tensors) {
      if (read_.count(name) == 0) {
        throw invalid("tensor " + quoted(name) + " has no place in the architecture " +
                      source_.architecture);
      }
    }
  }

 private:
  const ModelSource& source_;
  std::set<std::string> read_;
};

// A matrix that waits to be packed.
struct Job {
  const StoredTensor* tensor;
  const uint32_t* row_order;
  std::unique_ptr<const Linear>* out;
};

uint64_t stored_bytes(const StoredTensor& tensor) {
  return tensor.rows * (tensor.width / tensor.type->block_values) * tensor.type->block_bytes;
}

// Packed row h * E + i is stored row h * E + 2i, packed row h * E + E/2 + i is 2i + 1.
std::vector<uint32_t> halves_of_neighbours(size_t heads, size_t head_dim) {
  std::vector<uint32_t> order(heads * head_dim);
  for (size_t row = 0; row < order.size(); ++row) {
    const size_t i = row % head_dim;
    const size_t half = head_dim / 2;
    const size_t stored = i < half ? 2 * i : 2 * (i - half) + 1;
    order[row] = static_cast<uint32_t>(row - i + stored);
  }
  return order;
}

std::vector<float> reordered(const std::vector<float>& values, const std::vector<uint32_t>& order) {
  if (values.empty() || order.empty()) return values;
  std::vector<float> result;
  for (const uint32_t from : order) result.push_back(values[from]);
  return result;
}

double number_or(const ModelSource& source, const char* name, double otherwise) {
  const auto found = source.numbers.find(name);
  return found == source.numbers.end() ? otherwise : found->second;
}

RopeScaling scaling_of(const ModelSource& source) {
  RopeScaling scaling;
  const auto kind = source.texts.find("rope.scaling.type");
  if (kind != source.texts.end()) scaling.kind = kind->second;
  scaling.factor = number_or(source, "rope.scaling.factor", 1.0);
  scaling.original_context = number_or(source, "rope.scaling.original_context_length", 0.0);
  scaling.low_freq_factor = number_or(source, "rope.scaling.low_freq_factor", 1.0);
  scaling.high_freq_factor = number_or(source, "rope.scaling.high_freq_factor", 4.0);
  scaling.beta_fast = number_or(source, "rope.scaling.yarn_beta_fast", 32.0);
  scaling.beta_slow = number_or(source, "rope.scaling.yarn_beta_slow", 1.0);
  scaling.attention_factor = number_or(source, "rope.scaling.attn_factor", 1.0);
  scaling.truncate = number_or(source, "rope.scaling.truncate", 1.0) != 0.0;
  return scaling;
}

void require_memory(uint64_t bytes) {
  const uint64_t available = available_memory();
  if (available != 0 && bytes > available) {
    throw invalid("the model needs about " + std::to_string(bytes >> 20) +
                  " MiB of memory; this machine has " + std::to_string(available >> 20) +
                  " MiB left");
  }
}

}  // namespace

Model::Model(const ModelSource& source, size_t num_threads,
             const std::function<bool(uint64_t, uint64_t)>& progress)
    : config_(config_of(source)), layers_(config_.layers) {
  Tensors tensors(source);
  const size_t d = config_.width;
  const size_t q_rows = config_.heads * config_.head_dim;
  const size_t kv_rows = config_.kv_heads * config_.head_dim;
  std::vector<uint32_t> q_order;
  std::vector<uint32_t> k_order;
  if (source.neighbour_pairs) {
    q_order = halves_of_neighbours(config_.heads, config_.head_dim);
    k_order = halves_of_neighbours(config_.kv_heads, config_.head_dim);
  }
  std::vector<Job> jobs;
  const auto matrix = [&](const std::string& name, size_t rows, size_t width,
                          const std::vector<uint32_t>* order, auto* out) {
    const StoredTensor& tensor = tensors.matrix(name, rows, width);
    const bool moves = order != nullptr && !order->empty();
    jobs.push_back({&tensor, moves ? order->data() : nullptr, out});
  };

  const StoredTensor* const table = tensors.find("token_embd.weight");
  if (table == nullptr) throw invalid("the model has no tensor 'token_embd.weight'");
  if (table->rows == 0 || table->rows > (uint64_t{1} << 24)) {
    throw invalid("the vocabulary has " + std::to_string(table->rows) +
                  " tokens; allowed: 1 to 16777216");
  }
  config_.vocab = static_cast<size_t>(table->rows);
  matrix("token_embd.weight", config_.vocab, d, nullptr, &embedding_);
  if (source.tensors.count("output.weight") > 0) {
    matrix("output.weight", config_.vocab, d, nullptr, &head_);
  }
  output_norm_ = tensors.vector("output_norm.weight", d);
  for (size_t i = 0; i < config_.layers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    Layer& layer = layers_[i];
    layer.attention_norm = tensors.vector(at + "attn_norm.weight", d);
    layer.ffn_norm = tensors.vector(at + "ffn_norm.weight", d);
    layer.q_norm = tensors.optional_vector(at + "attn_q_norm.weight", config_.head_dim);
    layer.k_norm = tensors.optional_vector(at + "attn_k_norm.weight", config_.head_dim);
    layer.post_attention_norm = tensors.optional_vector(at + "post_attention_norm.weight", d);
    layer.post_ffn_norm = tensors.optional_vector(at + "post_ffw_norm.weight", d);
    layer.q_bias = reordered(tensors.optional_vector(at + "attn_q.bias", q_rows), q_order);
    layer.k_bias = reordered(tensors.optional_vector(at + "attn_k.bias", kv_rows), k_order);
    layer.v_bias = tensors.optional_vector(at + "attn_v.bias", kv_rows);
    layer.output_bias = tensors.optional_vector(at + "attn_output.bias", d);
    layer.gate_bias = tensors.optional_vector(at + "ffn_gate.bias", config_.ffn_width);
    layer.up_bias = tensors.optional_vector(at + "ffn_up.bias", config_.ffn_width);
    layer.down_bias = tensors.optional_vector(at + "ffn_down.bias", d);
    matrix(at + "attn_q.weight", q_rows, d, &q_order, &layer.q);
    matrix(at + "attn_k.weight", kv_rows, d, &k_order, &layer.k);
    matrix(at + "attn_v.weight", kv_rows, d, nullptr, &layer.v);
    matrix(at + "attn_output.weight", d, q_rows, nullptr, &layer.output);
    matrix(at + "ffn_gate.weight", config_.ffn_width, d, nullptr, &layer.gate);
    matrix(at + "ffn_up.weight", config_.ffn_width, d, nullptr, &layer.up);
    matrix(at + "ffn_down.weight", d, config_.ffn_width, nullptr, &layer.down);
  }
  const std::vector<float> divisors =
      tensors.optional_vector("rope_freqs.weight", config_.head_dim / 2);
  tensors.require_all_read();

  const double theta = number_or(source, "rope.freq_base", 10000.0);
  frequencies_.push_back(rope_frequencies(config_.head_dim, theta, scaling_of(source), divisors));
  if (config_.architecture == "gemma3") {
    const double local = number_or(source, "rope.freq_base_swa", 10000.0);
    frequencies_.push_back(rope_frequencies(config_.head_dim, local, {}, {}));
  }

  uint64_t total = 0;
  for (const Job& job : jobs) {
    total += stored_bytes(*job.tensor);
    half_cache_ = half_cache_ || std::string_view(job.tensor->type->name) != "F32";
  }
  require_memory(total);
  std::atomic<uint64_t> done{0};
  ThreadPool pool(num_threads);
  pool.parallel_for(jobs.size(), [&](size_t index) {
    const Job& job = jobs[index];
    *job.out = std::make_unique<const Linear>(
        *job.tensor->type, job.tensor->data, static_cast<size_t>(job.tensor->rows),
        static_cast<size_t>(job.tensor->width), job.row_order);
    const uint64_t now = done += stored_bytes(*job.tensor);
    if (progress && progress(now, total)) throw Error(CERNE_STOPPED, "loading was stopped");
  });
  for (const Job& job : jobs) weight_bytes_ += (*job.out)->size_bytes();
}

}  // namespace cerne
