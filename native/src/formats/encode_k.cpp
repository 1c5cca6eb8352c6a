// Encoders of Q4_K and Q5_K: 8 groups of 32 values whose scales and minima are six-bit multiples of
// two binary16 numbers; k_blocks.cpp shows the layout.
//
// First each group gets the scale and minimum that suit it best; their largest ones give trial
// values of d and dmin. Then, in rounds: each group looks for better six-bit numbers around its
// own, and least squares over all 256 values gives new d and dmin for the codes. The best round
// counts.
#include <cstring>

#include "formats/fit.h"
#include "formats/quantize.h"

namespace cerne {
namespace {

constexpr int kValues = 32, kGroups = 8, kBlock = kValues * kGroups;
constexpr int kMaxScale = 63;
// Rounds of a block, and how far a group looks from its scale: three more of each gain 0.2 %.
constexpr int kRounds = 3, kReach = 3;

struct Group {
  int scale, min;  // six-bit multiples of d and dmin
  Moments sums;    // of the codes chosen with them
};

struct Block {
  float d, dmin;
  Group groups[kGroups];
};

struct Weighted {
  const float* x;
  float w[kBlock];
  float sum_w[kGroups], sum_x[kGroups];
};

int six_bits(float x) { return static_cast<int>(nearest_integer(clamped(x, 0, kMaxScale))); }

float error_of(const Block& b) {
  float error = 0;
  for (const Group& group : b.groups) error += group.sums.error;
  return error;
}

template <typename Codes>
Group try_group(const Weighted& v, int g, float d, float dmin, int scale, int min) {
  const float real_scale = d * static_cast<float>(scale);
  const float real_min = -(dmin * static_cast<float>(min));
  return {scale, min,
          fit_pass<kValues, Codes>(v.x + g * kValues, v.w + g * kValues, real_scale, real_min)};
}

// Six-bit scales around `scale`, each with the minima around the best one for its codes.
template <typename Codes>
Group search_group(const Weighted& v, int g, float d, float dmin, int scale, int min) {
  Group best = try_group<Codes>(v, g, d, dmin, scale, min);
  for (int s = scale - kReach; s <= scale + kReach; ++s) {
    if (s < 0 || s > kMaxScale) continue;
    const Group first = try_group<Codes>(v, g, d, dmin, s, min);
    if (first.sums.error < best.sums.error) best = first;
    if (!(dmin > 0)) continue;
    // The best minimum for these codes.
    const float real_scale = d * static_cast<float>(s);
    const int middle = six_bits((real_scale * first.sums.q - v.sum_x[g]) / (v.sum_w[g] * dmin));
    for (int m = middle - 1; m <= middle + 1; ++m) {
      if (m < 0 || m > kMaxScale || m == min) continue;
      const Group trial = try_group<Codes>(v, g, d, dmin, s, m);
      if (trial.sums.error < best.sums.error) best = trial;
    }
  }
  return best;
}

// d and dmin that are best for the codes of all groups; false when they are not determined.
bool refit(const Weighted& v, const Block& b, float* d, float* dmin) {
  float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (int g = 0; g < kGroups; ++g) {
    const float s = static_cast<float>(b.groups[g].scale), m = static_cast<float>(b.groups[g].min);
    const Moments& sums = b.groups[g].sums;
    aa += s * s * sums.qq;
    ab += s * m * sums.q;
    bb += m * m * v.sum_w[g];
    ax += s * sums.qx;
    bx += m * v.sum_x[g];
  }
  // The value is d * (s * q) - dmin * m.
  const float det = aa * bb - ab * ab;
  if (bb == 0 && aa > 0) {
    *d = as_half(ax / aa);
    return *d > 0;
  }
  if (!(det > 0)) return false;
  *d = as_half((bb * ax - ab * bx) / det);
  *dmin = as_half((ab * ax - aa * bx) / det);
  return *d > 0 && *dmin >= 0;
}

template <typename Codes>
Block fit_block(const Weighted& v, AffineStarts starts) {
  Fit fits[kGroups];
  float top_scale = 0, top_min = 0;
  for (int g = 0; g < kGroups; ++g) {
    fits[g] = fit_affine<kValues, Codes, false>(v.x + g * kValues, v.w + g * kValues, starts);
    top_scale = fits[g].scale > top_scale ? fits[g].scale : top_scale;
    top_min = -fits[g].min > top_min ? -fits[g].min : top_min;
  }
  Block best{};
  for (int g = 0; g < kGroups; ++g) best.groups[g] = try_group<Codes>(v, g, 0, 0, 0, 0);
  float best_error = error_of(best);
  float d = as_scale(top_scale / kMaxScale);
  float dmin = top_min > 0 ? as_scale(top_min / kMaxScale) : 0.0f;
  Block trial{};
  for (int round = 0; round < kRounds; ++round) {
    trial.d = d;
    trial.dmin = dmin;
    for (int g = 0; g < kGroups; ++g) {
      Group& group = trial.groups[g];
      if (round == 0) {
        group.scale = d > 0 ? six_bits(fits[g].scale / d) : 0;
        group.min = dmin > 0 ? six_bits(-fits[g].min / dmin) : 0;
      }
      group = search_group<Codes>(v, g, d, dmin, group.scale, group.min);
    }
    const float error = error_of(trial);
    if (error < best_error) {
      best = trial;
      best_error = error;
    }
    if (!refit(v, trial, &d, &dmin)) break;
    if (d == trial.d && dmin == trial.dmin) break;
  }
  return best;
}

void store_scales(const Block& b, uint8_t* bytes) {
  for (int g = 0; g < 4; ++g) {
    const Group &low = b.groups[g], &high = b.groups[g + 4];
    bytes[g] = static_cast<uint8_t>(low.scale | high.scale >> 4 << 6);
    bytes[g + 4] = static_cast<uint8_t>(low.min | high.min >> 4 << 6);
    bytes[g + 8] = static_cast<uint8_t>((high.scale & 15) | (high.min & 15) << 4);
  }
}

template <int kBits>
void encode_block(const float* x, const float* importance, AffineStarts starts, uint8_t* block) {
  using Codes = UniformCodes<0, (1 << kBits) - 1>;
  Weighted v;
  v.x = x;
  weights_of(importance, kBlock, v.w);
  for (int g = 0; g < kGroups; ++g) {
    v.sum_w[g] = v.sum_x[g] = 0;
    for (int i = g * kValues; i < (g + 1) * kValues; ++i) {
      v.sum_w[g] += v.w[i];
      v.sum_x[g] += v.w[i] * x[i];
    }
  }
  const Block b = fit_block<Codes>(v, starts);
  store(block, float_to_half(b.d));
  store(block + 2, float_to_half(b.dmin));
  store_scales(b, block + 4);
  uint8_t* const high = block + 16;
  uint8_t* const low = high + (kBits == 5 ? 32 : 0);
  std::memset(high, 0, static_cast<size_t>(low - high) + kBlock / 2);
  for (int g = 0; g < kGroups; ++g) {
    const float scale = b.d * static_cast<float>(b.groups[g].scale);
    const float min = -(b.dmin * static_cast<float>(b.groups[g].min));
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    for (int i = 0; i < kValues; ++i) {
      const int q = static_cast<int>(Codes::nearest((x[g * kValues + i] - min) * inverse));
      low[g / 2 * 32 + i] |= static_cast<uint8_t>((q & 15) << (g % 2 * 4));
      if (kBits == 5) high[i] |= static_cast<uint8_t>(q >> 4 << g);
    }
  }
}

}  // namespace

void encode_q4_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 144) {
    const float* const weights = importance == nullptr ? nullptr : importance + i * kBlock;
    encode_block<4>(values + i * kBlock, weights, {-1.2f, 0.6f, 4}, blocks);
  }
}

void encode_q5_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks) {
  for (size_t i = 0; i < num_blocks; ++i, blocks += 176) {
    const float* const weights = importance == nullptr ? nullptr : importance + i * kBlock;
    encode_block<5>(values + i * kBlock, weights, {-1.5f, 0.5f, 4}, blocks);
  }
}

}  // namespace cerne
