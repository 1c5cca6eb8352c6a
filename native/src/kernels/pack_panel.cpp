// Rows as a file stores them (formats/*.cpp show how) into panels and back. Codes move as 32-bit
// words of four columns.
#include <algorithm>
#include <cstring>

#include "formats/codebook.h"
#include "formats/half.h"
#include "kernels/panel_layout.h"

namespace cerne {
namespace {

constexpr int kGroups = 8;
constexpr uint32_t kLowBits = 0x0f0f0f0fu;
constexpr uint32_t kFirstBits = 0x01010101u;
constexpr uint32_t kFirstTwoBits = 0x03030303u;

// 32 columns of 16 rows: the stored codes, four columns to a word.
using Words = uint32_t[kGroups][kPanelRows];

uint32_t word(const uint8_t* bytes, int i) { return load<uint32_t>(bytes + 4 * i); }

void store_word(uint8_t* bytes, size_t i, uint32_t value) { store(bytes + 4 * i, value); }

// Four bits to the lowest bits of four bytes.
uint32_t spread(uint32_t bits) { return ((bits & 15u) * 0x00204081u) & kFirstBits; }

void read_bytes(const uint8_t* codes, size_t row, Words& words) {
  for (int g = 0; g < kGroups; ++g) words[g][row] = word(codes, g);
}

// Value j in the low four bits of byte j, value j + 16 in the high ones.
void read_halves(const uint8_t* codes, size_t row, Words& words) {
  for (int g = 0; g < 4; ++g) {
    const uint32_t both = word(codes, g);
    words[g][row] = both & kLowBits;
    words[g + 4][row] = (both >> 4) & kLowBits;
  }
}

void read_halves_and_fifth_bits(const uint8_t* high, size_t row, Words& words) {
  read_halves(high + 4, row, words);
  const uint32_t bits = load<uint32_t>(high);
  for (int g = 0; g < kGroups; ++g) words[g][row] |= spread(bits >> (4 * g)) << 4;
}

void read_q4_k(const uint8_t* stored, int block, size_t row, Words& words) {
  const uint8_t* const codes = stored + 16 + block / 2 * 32;
  for (int g = 0; g < kGroups; ++g) words[g][row] = (word(codes, g) >> (block % 2 * 4)) & kLowBits;
}

void read_q5_k(const uint8_t* stored, int block, size_t row, Words& words) {
  read_q4_k(stored + 32, block, row, words);
  for (int g = 0; g < kGroups; ++g) {
    words[g][row] |= ((word(stored + 16, g) >> block) & kFirstBits) << 4;
  }
}

void read_q6_k(const uint8_t* stored, int block, size_t row, Words& words) {
  const int half = block / 4, part = block % 4;
  const uint8_t* const low = stored + 64 * half + 32 * (part % 2);
  const uint8_t* const high = stored + 128 + 32 * half;
  for (int g = 0; g < kGroups; ++g) {
    words[g][row] = ((word(low, g) >> (part / 2 * 4)) & kLowBits) |
                    ((word(high, g) >> (2 * part)) & kFirstTwoBits) << 4;
  }
}

void read_codes(WeightType type, const uint8_t* stored, int block, size_t row, Words& words) {
  switch (type) {
    case WeightType::kQ8_0:
      return read_bytes(stored + 2, row, words);
    case WeightType::kQ4_0:
    case WeightType::kIq4Nl:
      return read_halves(stored + 2, row, words);
    case WeightType::kQ4_1:
      return read_halves(stored + 4, row, words);
    case WeightType::kQ5_0:
      return read_halves_and_fifth_bits(stored + 2, row, words);
    case WeightType::kQ5_1:
      return read_halves_and_fifth_bits(stored + 4, row, words);
    case WeightType::kQ4_K:
      return read_q4_k(stored, block, row, words);
    case WeightType::kQ5_K:
      return read_q5_k(stored, block, row, words);
    case WeightType::kQ6_K:
      return read_q6_k(stored, block, row, words);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16:
      break;
  }
}

// Bytes of one stored block: as many columns as a step has.
size_t stored_bytes(WeightType type) {
  constexpr size_t kBytes[] = {4, 2, 2, 34, 18, 18, 20, 22, 24, 144, 176, 210};
  return kBytes[static_cast<size_t>(type)];
}

// Six-bit scale and minimum of the block; k_blocks.cpp shows where their bits are.
void read_six_bits(const uint8_t* packed, int block, uint8_t* scale, uint8_t* min) {
  if (block < 4) {
    *scale = packed[block] & 63;
    *min = packed[block + 4] & 63;
    return;
  }
  *scale = static_cast<uint8_t>((packed[block + 4] & 15) | (packed[block - 4] >> 6) << 4);
  *min = static_cast<uint8_t>((packed[block + 4] >> 4) | (packed[block] >> 6) << 4);
}

// The headers of a step, of one row.
void pack_scales(const PanelLayout& layout, const uint8_t* stored, size_t row, uint8_t* step) {
  if (layout.type == WeightType::kQ6_K) {
    std::memcpy(step + 2 * row, stored + 208, 2);
    for (size_t b = 0; b < 8; ++b) {
      uint8_t* const header = step + layout.header_bytes + b * layout.block_bytes();
      std::memcpy(header + 2 * row, stored + 192 + 2 * b, 2);
    }
    return;
  }
  std::memcpy(step + 2 * row, stored, 2);
  if (layout.minimum) std::memcpy(step + 32 + 2 * row, stored + 2, 2);
  if (layout.columns == 32) return;
  for (int b = 0; b < 8; ++b) {
    uint8_t* const header = step + layout.header_bytes + b * layout.block_bytes();
    read_six_bits(stored + 4, b, header + row, header + 16 + row);
  }
}

void write_codes(int bits, const Words& words, uint8_t* codes) {
  if (bits == 8) {
    std::memcpy(codes, words, sizeof(words));
    return;
  }
  uint8_t* const planes = codes + 256;
  for (size_t lane = 0; lane < 8; ++lane) {
    uint32_t high[2][2] = {};  // [half][plane]
    for (size_t g = 0; g < kGroups; ++g) {
      const uint32_t pair[2] = {words[g][lane], words[g][lane + 8]};
      store_word(codes, 8 * g + lane, (pair[0] & kLowBits) | (pair[1] & kLowBits) << 4);
      for (size_t half = 0; half < 2; ++half) {
        if (bits == 5) high[half][0] |= ((pair[half] >> 4) & kFirstBits) << g;
        if (bits == 6) high[half][g / 4] |= ((pair[half] >> 4) & kFirstTwoBits) << (2 * (g % 4));
      }
    }
    for (size_t half = 0; half < 2; ++half) {
      if (bits == 5) store_word(planes, 8 * half + lane, high[half][0]);
      if (bits != 6) continue;
      store_word(planes, 16 * half + lane, high[half][0]);
      store_word(planes, 16 * half + 8 + lane, high[half][1]);
    }
  }
}

// The stored code of one weight.
int read_code(int bits, const uint8_t* codes, size_t row, size_t column) {
  const size_t g = column / 4, half = row / 8;
  if (bits == 8) return static_cast<int8_t>(codes[64 * g + 4 * row + column % 4]);
  const size_t byte = 4 * (row % 8) + column % 4;
  const int low = codes[32 * g + byte] >> (4 * half) & 15;
  const uint8_t* const planes = codes + 256;
  if (bits == 5) return low | (planes[32 * half + byte] >> g & 1) << 4;
  if (bits == 6) return low | (planes[64 * half + 32 * (g / 4) + byte] >> (2 * (g % 4)) & 3) << 4;
  return low;
}

template <typename T>
void pack_floats(const uint8_t* const* rows, size_t width, uint8_t* panel) {
  constexpr size_t kColumns = 64;  // so that what is being written stays in the first-level cache
  for (size_t begin = 0; begin < width; begin += kColumns) {
    const size_t end = std::min(width, begin + kColumns);
    for (size_t row = 0; row < kPanelRows; ++row) {
      if (rows[row] == nullptr) continue;
      for (size_t k = begin; k < end; ++k) {
        const T bits = load<T>(rows[row] + k * sizeof(T));
        store(panel + (k * kPanelRows + row) * sizeof(T), bits);
      }
    }
  }
}

}  // namespace

void pack_panel(const PanelLayout& layout, const uint8_t* const* rows, size_t width,
                uint8_t* panel) {
  if (layout.bits == 32) return pack_floats<uint32_t>(rows, width, panel);
  if (layout.bits == 16) return pack_floats<uint16_t>(rows, width, panel);
  const size_t stored = stored_bytes(layout.type);
  for (size_t step = 0; step < width / layout.columns; ++step) {
    uint8_t* const out = panel + step * layout.step_bytes();
    for (size_t row = 0; row < kPanelRows; ++row) {
      if (rows[row] != nullptr) pack_scales(layout, rows[row] + step * stored, row, out);
    }
    for (size_t b = 0; b < layout.columns / 32; ++b) {
      Words words = {};
      for (size_t row = 0; row < kPanelRows; ++row) {
        if (rows[row] == nullptr) continue;
        read_codes(layout.type, rows[row] + step * stored, static_cast<int>(b), row, words);
      }
      uint8_t* const block = out + layout.header_bytes + b * layout.block_bytes();
      write_codes(layout.bits, words, block + layout.block_header_bytes);
    }
  }
}

RowBlock read_row_block(const PanelLayout& layout, const uint8_t* panel, size_t block,
                        size_t lane) {
  const size_t in_step = layout.columns / 32;
  const uint8_t* const step = panel + block / in_step * layout.step_bytes();
  const uint8_t* const header = step + layout.header_bytes + block % in_step * layout.block_bytes();
  const uint8_t* const codes = header + layout.block_header_bytes;
  RowBlock out = {};
  out.d = load_half(step + 2 * lane);
  if (layout.minimum) out.m = load_half(step + 32 + 2 * lane);
  out.scales[0] = out.scales[1] = 1;
  if (layout.type == WeightType::kQ6_K) {
    out.scales[0] = static_cast<int8_t>(header[2 * lane]);
    out.scales[1] = static_cast<int8_t>(header[2 * lane + 1]);
  } else if (layout.columns == 256) {
    out.d = out.d * static_cast<float>(header[lane]);
    out.m = -(out.m * static_cast<float>(header[16 + lane]));
  }
  for (size_t k = 0; k < 32; ++k) {
    const int code = read_code(layout.bits, codes, lane, k);
    const bool named = layout.type == WeightType::kIq4Nl;
    const int value = named ? static_cast<int>(kIq4Levels[code]) : code - layout.offset;
    out.codes[k] = static_cast<int8_t>(value);
  }
  return out;
}

float read_float(const PanelLayout& layout, const uint8_t* panel, size_t column, size_t lane) {
  const uint8_t* const weights = panel + column * layout.step_bytes();
  if (layout.type == WeightType::kF32) return load<float>(weights + 4 * lane);
  if (layout.type == WeightType::kF16) return load_half(weights + 2 * lane);
  return bfloat16_to_float(load<uint16_t>(weights + 2 * lane));
}

}  // namespace cerne
