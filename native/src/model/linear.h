// Weight matrices in the layout of the kernels, and their products with activations.
// docs/arithmetic.md, sections 2 to 4, defines every result.
#ifndef CERNE_SRC_MODEL_LINEAR_H_
#define CERNE_SRC_MODEL_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "formats/tensor_type.h"
#include "kernels/matmul.h"
#include "kernels/quantize_activations.h"

namespace cerne {

// A weight matrix of N rows and K columns, repacked in panels of 16 rows.
class Linear {
 public:
  // `data` holds N rows of whole blocks; `type` has a decoder. Packed row n is the stored row
  // row_order[n], or n where row_order is null. Throws std::bad_alloc.
  Linear(const TensorType& type, const uint8_t* data, size_t num_rows, size_t width,
         const uint32_t* row_order);

  // Whether the product reads the quantized activations rather than their values.
  bool reads_codes() const;
  size_t num_rows() const { return num_rows_; }
  size_t width() const { return width_; }
  size_t num_panels() const;
  size_t size_bytes() const;

  // output[t * stride + n] = row n times the vector of token t, for every token and the rows of
  // the panels [first_panel, end_panel). Calls for different panels may run at the same time.
  void multiply(const Activations& x, size_t first_panel, size_t end_panel, float* output,
                size_t stride) const;

  // The K decoded values of row n, as TensorType::dequantize gives them.
  void row(size_t n, float* values) const;

 private:
  const PanelLayout* layout_;
  size_t num_rows_;
  size_t width_;
  std::shared_ptr<const uint8_t> panels_;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_LINEAR_H_
