#include "model/linear.h"

#include <algorithm>
#include <cstring>

#include "model/weight_memory.h"

namespace cerne {
namespace {

const PanelLayout* layout_of(const TensorType& type) {
  for (const PanelLayout& layout : kPanelLayouts) {
    if (std::strcmp(layout.name, type.name) == 0) return &layout;
  }
  return nullptr;
}

}  // namespace

Linear::Linear(const TensorType& type, const uint8_t* data, size_t num_rows, size_t width,
               const uint32_t* row_order)
    : layout_(layout_of(type)), num_rows_(num_rows), width_(width) {
  const std::shared_ptr<uint8_t> panels = weight_memory(size_bytes());
  const size_t row_bytes = width / type.block_values * type.block_bytes;
  for (size_t panel = 0; panel < num_panels(); ++panel) {
    const uint8_t* rows[kPanelRows] = {};
    for (size_t i = 0; i < kPanelRows; ++i) {
      const size_t n = panel * kPanelRows + i;
      if (n < num_rows) rows[i] = data + (row_order == nullptr ? n : row_order[n]) * row_bytes;
    }
    pack_panel(*layout_, rows, width, panels.get() + panel * layout_->panel_bytes(width));
  }
  panels_ = panels;
}

bool Linear::reads_codes() const { return !layout_->is_float(); }

size_t Linear::num_panels() const { return (num_rows_ + kPanelRows - 1) / kPanelRows; }

size_t Linear::size_bytes() const { return num_panels() * layout_->panel_bytes(width_); }

void Linear::multiply(const Activations& x, size_t first_panel, size_t end_panel, float* output,
                      size_t stride) const {
  const size_t panel_bytes = layout_->panel_bytes(width_);
  const PanelRange range = {panels_.get() + first_panel * panel_bytes, panel_bytes,
                            first_panel * kPanelRows, std::min(end_panel * kPanelRows, num_rows_)};
  matmul(*layout_, range, x, output, stride);
}

void Linear::row(size_t n, float* values) const {
  const size_t lane = n % kPanelRows;
  const uint8_t* const panel = panels_.get() + n / kPanelRows * layout_->panel_bytes(width_);
  if (layout_->is_float()) {
    for (size_t k = 0; k < width_; ++k) values[k] = read_float(*layout_, panel, k, lane);
    return;
  }
  for (size_t block = 0; block < width_ / 32; ++block) {
    const RowBlock w = read_row_block(*layout_, panel, block, lane);
    for (size_t k = 0; k < 32; ++k) {
      const float d = w.d * static_cast<float>(w.scales[k / 16]);
      const float value = d * static_cast<float>(w.codes[k]);
      values[32 * block + k] = layout_->minimum ? value + w.m : value;
    }
  }
}

}  // namespace cerne
