// The definition of the vector kernels: docs/arithmetic.md, sections 5 to 8, as plain loops.
#include <cmath>

#include "formats/half.h"
#include "kernels/math.h"
#include "kernels/vector.h"

namespace cerne {
namespace {

constexpr size_t kLanes = 16;

float fold(float* lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

void rms_norm(const float* x, const float* weight, size_t size, float eps, float* out) {
  float lanes[kLanes] = {};
  for (size_t i = 0; i < size; ++i) lanes[i % kLanes] = lanes[i % kLanes] + x[i] * x[i];
  const float mean = fold(lanes) / static_cast<float>(size);
  const float r = 1.0f / std::sqrt(mean + eps);
  for (size_t i = 0; i < size; ++i) out[i] = (x[i] * r) * weight[i];
}

void gated(Gate function, float* gate, const float* up, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    gate[i] = (function == Gate::kSilu ? silu(gate[i]) : gelu(gate[i])) * up[i];
  }
}

void add(float* x, const float* y, size_t size) {
  for (size_t i = 0; i < size; ++i) x[i] = x[i] + y[i];
}

void rotate(float* head, const float* cosines, const float* sines, size_t head_dim) {
  const size_t half = head_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const float first = head[i];
    const float second = head[i + half];
    head[i] = first * cosines[i] - second * sines[i];
    head[i + half] = second * cosines[i] + first * sines[i];
  }
}

float load_value(uint16_t half) { return half_to_float(half); }
float load_value(float value) { return value; }
void store_value(float value, uint16_t* to) { *to = float_to_half(value); }
void store_value(float value, float* to) { *to = value; }

template <typename T>
void store(const float* key, const float* value, size_t head_dim, size_t at, T* keys, T* values) {
  T* const lane = keys + at / kLanes * head_dim * kLanes + at % kLanes;
  for (size_t e = 0; e < head_dim; ++e) {
    store_value(key[e], lane + e * kLanes);
    store_value(value[e], values + at * head_dim + e);
  }
}

template <typename T>
void page_of_head(const float* query, const PageView& page, float scale, AttentionState* state,
                  float* output) {
  const T* const keys = static_cast<const T*>(page.keys);
  const T* const values = static_cast<const T*>(page.values);
  float weights[kPagePositions];
  float highest = -std::numeric_limits<float>::infinity();
  for (size_t j = page.first; j < page.last; ++j) {
    const T* const lane = keys + j / kLanes * page.head_dim * kLanes + j % kLanes;
    float s = 0.0f;
    for (size_t e = 0; e < page.head_dim; ++e) s = s + query[e] * load_value(lane[e * kLanes]);
    weights[j] = s * scale;
    highest = weights[j] > highest ? weights[j] : highest;
  }
  float lanes[kLanes] = {};
  for (size_t j = page.first; j < page.last; ++j) {
    weights[j] = exp(weights[j] - highest);
    lanes[j % kLanes] = lanes[j % kLanes] + weights[j];
  }
  for (size_t e = 0; e < page.head_dim; ++e) {
    float o = 0.0f;
    for (size_t j = page.first; j < page.last; ++j) {
      o = o + weights[j] * load_value(values[j * page.head_dim + e]);
    }
    output[e] = o;
  }
  *state = {highest, fold(lanes)};
}

template <typename T>
void page(const float* queries, size_t num_heads, const PageView& view, float scale,
          AttentionState* states, float* outputs) {
  for (size_t h = 0; h < num_heads; ++h) {
    page_of_head<T>(queries + h * view.head_dim, view, scale, states + h,
                    outputs + h * view.head_dim);
  }
}

void join(AttentionState* state, float* output, const AttentionState& next_state,
          const float* next_output, size_t head_dim) {
  const float highest = next_state.highest > state->highest ? next_state.highest : state->highest;
  const float a = exp(state->highest - highest);
  const float b = exp(next_state.highest - highest);
  state->sum = state->sum * a + next_state.sum * b;
  state->highest = highest;
  for (size_t e = 0; e < head_dim; ++e) output[e] = output[e] * a + next_output[e] * b;
}

void finish(const AttentionState& state, const float* output, size_t head_dim, float* out) {
  for (size_t e = 0; e < head_dim; ++e) out[e] = output[e] / state.sum;
}

}  // namespace

const VectorKernels kScalarVectorKernels = {
    rms_norm,     gated,          add,         rotate, store<uint16_t>,
    store<float>, page<uint16_t>, page<float>, join,   finish,
};

const VectorKernels& vector_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::kAvx2) return kAvx2VectorKernels;
#endif
  return kScalarVectorKernels;
}

}  // namespace cerne
