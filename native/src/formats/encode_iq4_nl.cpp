// Encoder of IQ4_NL: one scale for 32 values whose codes name 16 uneven levels; codebook_blocks.cpp
// shows the layout.
#include "formats/codebook.h"
#include "formats/fit.h"
#include "formats/quantize.h"

namespace cerne {
namespace {

constexpr int kValues = 32;

// A level is the lowest one plus the steps whose middle lies below the value.
struct CodebookCodes {
  static constexpr float kLow = kIq4Levels[0], kHigh = kIq4Levels[15];

  static Float4 nearest(Float4 x) {
    Float4 level = Float4{} + kLow;
    for (int i = 0; i < 15; ++i) {
      const float step = kIq4Levels[i + 1] - kIq4Levels[i];
      const float middle = (kIq4Levels[i] + kIq4Levels[i + 1]) * 0.5f;
      level += x > Float4{} + middle ? Float4{} + step : Float4{};
    }
    return level;
  }
};

int code_of(float x) {
  int code = 0;
  for (int i = 0; i < 15; ++i) code += x > (kIq4Levels[i] + kIq4Levels[i + 1]) * 0.5f ? 1 : 0;
  return code;
}

}  // namespace

void encode_iq4_nl(const float* values, size_t num_blocks, const float* importance,
                   uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 18) {
    const float* const x = values + i * kValues;
    float w[kValues];
    weights_of(importance == nullptr ? nullptr : importance + i * kValues, kValues, w);
    const Fit fit = fit_scale<kValues, CodebookCodes, true>(x, w, {80.0f, 12.0f, 6});
    const float inverse = fit.scale != 0 ? 1.0f / fit.scale : 0.0f;
    store(blocks, float_to_half(fit.scale));
    for (int j = 0; j < 16; ++j) {
      blocks[2 + j] =
          static_cast<uint8_t>(code_of(x[j] * inverse) | code_of(x[j + 16] * inverse) << 4);
    }
  }
}

}  // namespace cerne
