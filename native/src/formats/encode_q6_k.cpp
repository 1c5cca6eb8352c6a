// Encoder of Q6_K: 16 groups of 16 values whose scales are signed eight-bit multiples of one
// binary16 number; k_blocks.cpp shows the layout. The search is that of encode_k.cpp without
// minima.
#include <cstring>

#include "formats/fit.h"
#include "formats/quantize.h"

namespace cerne {
namespace {

constexpr int kValues = 16, kGroups = 16, kBlock = kValues * kGroups;
constexpr int kMaxScale = 127, kMinScale = -128;
// Rounds of a block, and how far a group looks from its scale.
constexpr int kRounds = 3, kReach = 2;
using Codes = UniformCodes<-32, 31>;

struct Group {
  int scale;
  Moments sums;
};

struct Block {
  float d;
  Group groups[kGroups];
};

Group try_group(const float* x, const float* w, float d, int scale) {
  return {scale, fit_pass<kValues, Codes>(x, w, d * static_cast<float>(scale), 0)};
}

float error_of(const Block& b) {
  float error = 0;
  for (const Group& group : b.groups) error += group.sums.error;
  return error;
}

Block fit_block(const float* x, const float* w) {
  float scales[kGroups];
  // The largest scale by magnitude; it becomes -128.
  float top = 0;
  for (int g = 0; g < kGroups; ++g) {
    const Fit fit =
        fit_scale<kValues, Codes, false>(x + g * kValues, w + g * kValues, {29.0f, 1.0f, 5});
    scales[g] = fit.scale;
    if (fit.scale * fit.scale > top * top) top = fit.scale;
  }
  Block best{};
  for (int g = 0; g < kGroups; ++g) {
    best.groups[g] = try_group(x + g * kValues, w + g * kValues, 0, 0);
  }
  float best_error = error_of(best);
  float d = top != 0 ? as_scale(top / kMinScale) : 0.0f;
  Block trial{};
  for (int round = 0; round < kRounds && d != 0; ++round) {
    trial.d = d;
    float scale_qq = 0, scale_qx = 0;
    for (int g = 0; g < kGroups; ++g) {
      const float wanted = round == 0
                               ? nearest_integer(clamped(scales[g] / d, kMinScale, kMaxScale))
                               : static_cast<float>(trial.groups[g].scale);
      const int middle = static_cast<int>(wanted);
      Group found{0, {-1, 0, 0, 0}};
      for (int s = middle - kReach; s <= middle + kReach; ++s) {
        if (s < kMinScale || s > kMaxScale) continue;
        const Group next = try_group(x + g * kValues, w + g * kValues, d, s);
        if (found.sums.error < 0 || next.sums.error < found.sums.error) found = next;
      }
      trial.groups[g] = found;
      const float s = static_cast<float>(found.scale);
      scale_qq += s * s * found.sums.qq;
      scale_qx += s * found.sums.qx;
    }
    const float error = error_of(trial);
    if (error < best_error) {
      best = trial;
      best_error = error;
    }
    if (!(scale_qq > 0)) break;
    d = as_half(scale_qx / scale_qq);
    if (d == trial.d) break;
  }
  return best;
}

void store_block(const Block& b, const float* x, uint8_t* block) {
  std::memset(block, 0, 192);
  store(block + 208, float_to_half(b.d));
  for (int at = 0; at < kBlock; ++at) {
    const int half = at / 128, part = at / 32 % 4, i = at % 32;
    const int scale = b.groups[at / kValues].scale;
    const float step = b.d * static_cast<float>(scale);
    const int q = static_cast<int>(Codes::nearest(step != 0 ? x[at] * (1.0f / step) : 0.0f)) + 32;
    block[64 * half + 32 * (part % 2) + i] |= static_cast<uint8_t>((q & 15) << (part / 2 * 4));
    block[128 + 32 * half + i] |= static_cast<uint8_t>(q >> 4 << (2 * part));
    block[192 + at / kValues] = static_cast<uint8_t>(scale);
  }
}

}  // namespace

void encode_q6_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  float w[kBlock];
  for (size_t i = 0; i < num_blocks; ++i, blocks += 210) {
    const float* const x = values + i * kBlock;
    weights_of(importance == nullptr ? nullptr : importance + i * kBlock, kBlock, w);
    store_block(fit_block(x, w), x, blocks);
  }
}

}  // namespace cerne
