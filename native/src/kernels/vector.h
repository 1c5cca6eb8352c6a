// What a layer does to vectors besides matrix products, for each instruction set.
// docs/arithmetic.md, sections 5 to 8, defines every result.
#ifndef CERNE_SRC_KERNELS_VECTOR_H_
#define CERNE_SRC_KERNELS_VECTOR_H_

#include <cstddef>
#include <cstdint>

#include "cpu.h"

namespace cerne {

enum class Gate { kSilu, kGelu };

// Positions of one page of the key/value cache, which is also a chunk of attention.
inline constexpr size_t kPagePositions = 64;

// Keys and values of one layer, one key/value head and one page. Element e of position j lies at
// keys[(j / 16 * E + e) * 16 + j % 16] and values[j * E + e]: a lane is a position, then a column.
struct PageView {
  const void* keys;    // binary16 or binary32
  const void* values;  // the same type
  size_t head_dim;     // E; multiples of 8 are fast
  size_t first;        // positions first .. last - 1 of the page take part
  size_t last;
};

// A softmax in the making: the part of the keys seen so far.
struct AttentionState {
  float highest;
  float sum;
};

struct VectorKernels {
  // out[i] = (x[i] / rms(x)) * weight[i]; in place is allowed.
  void (*rms_norm)(const float* x, const float* weight, size_t size, float eps, float* out);
  // gate[i] = function(gate[i]) * up[i].
  void (*gated)(Gate function, float* gate, const float* up, size_t size);
  // x[i] = x[i] + y[i].
  void (*add)(float* x, const float* y, size_t size);
  // Rotates a head of `head_dim` values by the angles of one position (tables of head_dim / 2).
  void (*rotate)(float* head, const float* cosines, const float* sines, size_t head_dim);
  // Stores one key and value at position `at` of a page.
  void (*store_half)(const float* key, const float* value, size_t head_dim, size_t at,
                     uint16_t* keys, uint16_t* values);
  void (*store_float)(const float* key, const float* value, size_t head_dim, size_t at, float* keys,
                      float* values);
  // The heads' queries [num_heads][E] against one page: states and unscaled outputs
  // [num_heads][E] of that page alone.
  void (*page_half)(const float* queries, size_t num_heads, const PageView& page, float scale,
                    AttentionState* states, float* outputs);
  void (*page_float)(const float* queries, size_t num_heads, const PageView& page, float scale,
                     AttentionState* states, float* outputs);
  // Joins the next page's result to what was before.
  void (*join)(AttentionState* state, float* output, const AttentionState& next_state,
               const float* next_output, size_t head_dim);
  // out[e] = output[e] / sum.
  void (*finish)(const AttentionState& state, const float* output, size_t head_dim, float* out);
};

extern const VectorKernels kScalarVectorKernels;
#if defined(__x86_64__)
extern const VectorKernels kAvx2VectorKernels;
#endif

// Those of the instruction set in use.
const VectorKernels& vector_kernels();

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_VECTOR_H_
