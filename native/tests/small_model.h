// A model of a few thousand random weights, made through the C interface.
#ifndef CERNE_TESTS_SMALL_MODEL_H_
#define CERNE_TESTS_SMALL_MODEL_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cerne.h"
#include "check.h"

namespace cerne_test {

inline constexpr uint32_t kVocab = 40;
inline constexpr uint32_t kContext = 200;

inline cerne_status set_number(cerne_model* model, const std::string& name, double value) {
  return cerne_model_set_number(model, name.data(), name.size(), value);
}

inline cerne_status set_string(cerne_model* model, const std::string& name,
                               const std::string& value) {
  return cerne_model_set_string(model, name.data(), name.size(), value.data(), value.size());
}

struct NamedTensor {
  std::string name;
  uint64_t rows;
  uint64_t width;
  std::vector<float> values;
};

// The tensors of a llama with D 32, H 4, K 2, E 8, F 64 and two layers.
inline std::vector<NamedTensor> small_tensors() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, uint64_t rows, uint64_t width) {
    std::vector<float> values(rows * width);
    for (float& value : values) value = normal(random) + (rows == 1 ? 1.0f : 0.0f);
    tensors.push_back({name, rows, width, std::move(values)});
  };
  add("token_embd.weight", kVocab, 32);
  add("output_norm.weight", 1, 32);
  for (const std::string at : {"blk.0.", "blk.1."}) {
    add(at + "attn_norm.weight", 1, 32);
    add(at + "ffn_norm.weight", 1, 32);
    add(at + "attn_q.weight", 32, 32);
    add(at + "attn_k.weight", 16, 32);
    add(at + "attn_v.weight", 16, 32);
    add(at + "attn_output.weight", 32, 32);
    add(at + "ffn_gate.weight", 64, 32);
    add(at + "ffn_up.weight", 64, 32);
    add(at + "ffn_down.weight", 32, 64);
  }
  return tensors;
}

inline const std::vector<std::pair<std::string, double>>& small_numbers() {
  static const std::vector<std::pair<std::string, double>> numbers = {
      {"context_length", kContext},
      {"block_count", 2},
      {"embedding_length", 32},
      {"feed_forward_length", 64},
      {"attention.head_count", 4},
      {"attention.head_count_kv", 2},
      {"attention.layer_norm_rms_epsilon", 1e-5},
      {"rope.freq_base", 10000}};
  return numbers;
}

inline cerne_status add_tensor(cerne_model* model, const NamedTensor& tensor) {
  return cerne_model_add_tensor(
      model, tensor.name.data(), tensor.name.size(), "F32", 3, tensor.rows, tensor.width,
      reinterpret_cast<const uint8_t*>(tensor.values.data()), tensor.values.size() * sizeof(float));
}

inline void fill(cerne_model* model, const std::vector<NamedTensor>& tensors) {
  CHECK(set_string(model, "architecture", "llama") == CERNE_OK);
  for (const auto& [name, value] : small_numbers()) {
    CHECK(set_number(model, name, value) == CERNE_OK);
  }
  for (const NamedTensor& tensor : tensors) CHECK(add_tensor(model, tensor) == CERNE_OK);
}

inline cerne_model* small_model() {
  cerne_model* model = nullptr;
  CHECK(cerne_model_create(&model) == CERNE_OK);
  const std::vector<NamedTensor> tensors = small_tensors();
  fill(model, tensors);
  CHECK(cerne_model_build(model, 2, nullptr, nullptr) == CERNE_OK);
  return model;
}

inline cerne_status set_option(cerne_context* context, const char* name, int64_t value) {
  return cerne_context_set_integer(context, name, std::strlen(name), value);
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_SMALL_MODEL_H_
