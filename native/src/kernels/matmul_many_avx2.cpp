// Panels of codes times many tokens. A piece of a panel is unpacked to bytes once, stays in the
// first-level cache, and meets all tokens in tiles. Between pieces `acc` waits in the output; `low`
// is summed afterwards.
#if defined(__AVX2__)
#include "kernels/matmul_codes_avx2.h"
#include "kernels/matmul_parts_avx2.h"

namespace cerne {
namespace avx2 {
namespace {

constexpr size_t kPieceBlocks = 32;   // 1024 columns: 16 KiB of codes
constexpr size_t kGroupTokens = 128;  // whose activations stay in the second-level cache

// Tokens of a tile: as many as their sums fit the registers.
constexpr int tile_tokens(int bits) { return bits == 8 ? 3 : 4; }

// A piece of a panel.
struct alignas(64) Piece {
  uint8_t codes[kPieceBlocks][512];
  float dw[kPieceBlocks][kPanelRows];
  PairScales pairs[kPieceBlocks];  // 6 bits only
};

// A piece of the columns, and the tokens that meet it together.
struct Window {
  size_t first_block;
  size_t blocks;
  size_t first_token;
  size_t tokens;
};

template <WeightType kType>
const uint8_t* step_of(const uint8_t* panel, size_t block) {
  constexpr PanelLayout kLayout = layout_of(kType);
  return panel + block / (kLayout.columns / 32) * kLayout.step_bytes();
}

template <WeightType kType>
const uint8_t* header_of(const uint8_t* panel, size_t block) {
  constexpr PanelLayout kLayout = layout_of(kType);
  return step_of<kType>(panel, block) + kLayout.header_bytes +
         block % (kLayout.columns / 32) * kLayout.block_bytes();
}

template <WeightType kType>
void unpack(const uint8_t* panel, const Window& window, Piece* piece) {
  for (size_t b = 0; b < window.blocks; ++b) {
    const uint8_t* const header = header_of<kType>(panel, window.first_block + b);
    const PackedCodes<kType> packed = {header + layout_of(kType).block_header_bytes};
    auto* const out = reinterpret_cast<__m256i*>(piece->codes[b]);
#pragma GCC unroll 8
    for (int group = 0; group < 8; ++group) {
      __m256i w[2];
      packed.load(group, w);
      _mm256_store_si256(out + 2 * group, w[0]);
      _mm256_store_si256(out + 2 * group + 1, w[1]);
    }
    __m256 dw[2], m[2];
    block_scales<kType>(step_of<kType>(panel, window.first_block + b), header, dw, m);
    for (int half = 0; half < 2; ++half) _mm256_store_ps(piece->dw[b] + 8 * half, dw[half]);
    if constexpr (code_bits(kType) == 6) piece->pairs[b] = pair_scales(header);
  }
}

void load_rows(const float* output, size_t rows, __m256* values) {
  alignas(32) float all[kPanelRows] = {};
  std::memcpy(all, output, rows * sizeof(float));
  values[0] = _mm256_load_ps(all);
  values[1] = _mm256_load_ps(all + 8);
}

// The output of some tokens at the rows of one panel.
struct TileOutput {
  float* first;
  size_t stride;
  size_t rows;
};

// Adds a piece of the columns to the sums of kTokens tokens from `token` on.
template <int kBits, int kOffset, int kTokens>
void add_tile(const Piece& piece, const Window& window, const Activations& x, size_t token,
              const int32_t* bias, const TileOutput& out) {
  const size_t blocks = x.width / 32;
  const int8_t* const codes = x.codes + token * x.width + 32 * window.first_block;
  const float* const scales = x.scales + token * blocks + window.first_block;
  const int32_t* const x_sums = x.sums + token * blocks + window.first_block;
  __m256 acc[kTokens][2];
  for (int t = 0; t < kTokens; ++t) {
    acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    if (window.first_block > 0) load_rows(out.first + t * out.stride, out.rows, acc[t]);
  }
  for (size_t b = 0; b < window.blocks; ++b) {
    const UnpackedCodes unpacked = {piece.codes[b]};
    const BlockInput in = {codes + 32 * b, x.width, bias + 2 * b, 2 * kPieceBlocks};
    __m256i sums[kTokens][2];
    block_sums<kBits, kTokens>(unpacked, in, &piece.pairs[b], sums);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256i isum = without_offset<kOffset>(sums[t][half], x_sums[t * blocks + b]);
        const __m256 dw = _mm256_load_ps(piece.dw[b] + 8 * half);
        acc[t][half] = add_scaled(acc[t][half], dw, scales[t * blocks + b], isum);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) store_rows(acc[t], out.rows, out.first + t * out.stride);
}

// All tokens of the window, kTokens at a time, the rest in smaller tiles.
template <int kBits, int kOffset, int kTokens>
void add_tiles(const Piece& piece, const Window& window, const Activations& x, size_t done,
               const int32_t* bias, TileOutput out) {
  for (; done + kTokens <= window.tokens; done += kTokens) {
    const size_t token = window.first_token + done;
    const TileOutput tile = {out.first + token * out.stride, out.stride, out.rows};
    add_tile<kBits, kOffset, kTokens>(piece, window, x, token, bias + done * 2 * kPieceBlocks,
                                      tile);
  }
  if constexpr (kTokens > 1)
    add_tiles<kBits, kOffset, kTokens - 1>(piece, window, x, done, bias, out);
}

// `acc` of section 3 for the tokens of a window, columns before it included.
template <WeightType kType>
void add_window(const PanelRange& range, const Activations& x, const Window& window, float* output,
                size_t stride) {
  constexpr int kBits = code_bits(kType);
  int32_t bias[kGroupTokens * kPieceBlocks * 2];
  if constexpr (kBits == 6) {
    for (size_t t = 0; t < window.tokens; ++t) {
      const int8_t* const codes = x.codes + (window.first_token + t) * x.width;
      for (size_t b = 0; b < window.blocks; ++b) {
        sixth_bit_bias(codes + 32 * (window.first_block + b), bias + 2 * (t * kPieceBlocks + b));
      }
    }
  }
  Piece piece;
  const uint8_t* panel = range.panels;
  for (size_t n = range.first_row; n < range.end_row; n += kPanelRows) {
    unpack<kType>(panel, window, &piece);
    const TileOutput out = {output + n, stride, rows_of_panel(range, n)};
    add_tiles<kBits, late_offset(kType), tile_tokens(kBits)>(piece, window, x, 0, bias, out);
    panel += range.panel_bytes;
  }
}

// Adds a piece of the columns to low[token][row] of kTokens tokens at one panel; m[block][row] are
// the minima of the piece.
template <int kTokens>
void add_minima(const float (*m)[kPanelRows], const Window& window, const float* scaled_sums,
                size_t row_blocks, float (*low)[kPanelRows]) {
  __m256 sums[kTokens][2];
  for (int t = 0; t < kTokens; ++t) {
    for (int half = 0; half < 2; ++half) sums[t][half] = _mm256_load_ps(low[t] + 8 * half);
  }
  for (size_t b = 0; b < window.blocks; ++b) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 sx = _mm256_set1_ps(scaled_sums[t * row_blocks + b]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256 part = _mm256_mul_ps(_mm256_load_ps(m[b] + 8 * half), sx);
        sums[t][half] = _mm256_add_ps(sums[t][half], part);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int half = 0; half < 2; ++half) _mm256_store_ps(low[t] + 8 * half, sums[t][half]);
  }
}

// acc + low for the tokens first .. first + tokens - 1.
template <WeightType kType>
void add_low(const PanelRange& range, const Activations& x, size_t first, size_t tokens,
             float* output, size_t stride) {
  const size_t row_blocks = x.width / 32;
  const uint8_t* panel = range.panels;
  for (size_t n = range.first_row; n < range.end_row; n += kPanelRows) {
    alignas(32) float low[kGroupTokens][kPanelRows] = {};
    for (size_t begin = 0; begin < row_blocks; begin += kPieceBlocks) {
      const size_t left = row_blocks - begin;
      const Window window = {begin, left < kPieceBlocks ? left : kPieceBlocks, first, tokens};
      alignas(32) float m[kPieceBlocks][kPanelRows];
      for (size_t b = 0; b < window.blocks; ++b) {
        __m256 dw[2], minima[2];
        block_scales<kType>(step_of<kType>(panel, begin + b), header_of<kType>(panel, begin + b),
                            dw, minima);
        for (int half = 0; half < 2; ++half) _mm256_store_ps(m[b] + 8 * half, minima[half]);
      }
      size_t t = 0;
      const float* const scaled_sums = x.scaled_sums + first * row_blocks + begin;
      for (; t + 4 <= tokens; t += 4) {
        add_minima<4>(m, window, scaled_sums + t * row_blocks, row_blocks, low + t);
      }
      for (; t < tokens; ++t) {
        add_minima<1>(m, window, scaled_sums + t * row_blocks, row_blocks, low + t);
      }
    }
    const size_t rows = rows_of_panel(range, n);
    for (size_t t = 0; t < tokens; ++t) {
      float* const out = output + (first + t) * stride + n;
      for (size_t i = 0; i < rows; ++i) out[i] = out[i] + low[t][i];
    }
    panel += range.panel_bytes;
  }
}

}  // namespace

template <WeightType kType>
void multiply_many(const PanelRange& range, const Activations& x, float* output, size_t stride) {
  const size_t blocks = x.width / 32;
  for (size_t first = 0; first < x.tokens; first += kGroupTokens) {
    const size_t left = x.tokens - first;
    const size_t tokens = left < kGroupTokens ? left : kGroupTokens;
    for (size_t begin = 0; begin < blocks; begin += kPieceBlocks) {
      const size_t piece = blocks - begin < kPieceBlocks ? blocks - begin : kPieceBlocks;
      add_window<kType>(range, x, {begin, piece, first, tokens}, output, stride);
    }
    if constexpr (layout_of(kType).minimum) {
      add_low<kType>(range, x, first, tokens, output, stride);
    }
  }
}

template void multiply_many<WeightType::kQ8_0>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ4_0>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kIq4Nl>(const PanelRange&, const Activations&, float*,
                                                size_t);
template void multiply_many<WeightType::kQ4_1>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ5_0>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ5_1>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ4_K>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ5_K>(const PanelRange&, const Activations&, float*,
                                               size_t);
template void multiply_many<WeightType::kQ6_K>(const PanelRange&, const Activations&, float*,
                                               size_t);

}  // namespace avx2
}  // namespace cerne

#endif
