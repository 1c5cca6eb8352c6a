// How the weights of 16 rows, a panel, lie in memory: one SIMD lane is one row.
//
// A panel is a run of steps, a step has one column (float types), 32 or 256 columns:
//
//   float types   w[16]
//   codes         header, then for each 32 columns: block header, codes
//
//   type                header              block header    bits of a code
//   Q8_0                d[16]                               8 (signed)
//   Q4_0 IQ4_NL         d[16]                               4
//   Q4_1                d[16] m[16]                         4
//   Q5_0                d[16]                               5
//   Q5_1                d[16] m[16]                         5
//   Q4_K                d[16] dmin[16]      sc[16] mn[16]   4
//   Q5_K                d[16] dmin[16]      sc[16] mn[16]   5
//   Q6_K                d[16]               s[16][2]        6
//
// d, m and dmin are binary16, sc, mn and s bytes. Codes come in 8 groups of 4 columns, and byte i
// of a 32-bit lane is column 4 * group + i. Lanes 0 .. 7 are called half 0, 8 .. 15 half 1.
//
//   8 bits   codes[8 groups][16 lanes]
//   fewer    low[8 groups][8 lanes]   four bits of half 0 low, of half 1 high in each byte
//            then the fifth and sixth bits in planes [2 halves][...][8 lanes]:
//   5 bits   one plane a half, bit `group` of a byte
//   6 bits   two planes a half for groups 0 .. 3 and 4 .. 7, bits 2 * (group % 4) and the next
#ifndef CERNE_SRC_KERNELS_PANEL_LAYOUT_H_
#define CERNE_SRC_KERNELS_PANEL_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace cerne {

inline constexpr size_t kPanelRows = 16;

enum class WeightType {
  kF32,
  kF16,
  kBf16,
  kQ8_0,
  kQ4_0,
  kIq4Nl,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

struct PanelLayout {
  WeightType type;
  const char* name;     // of the tensor type
  int bits;             // of a code; of a weight in float types
  int offset;           // a code stands for code - offset
  bool minimum;         // m or dmin is there
  size_t columns;       // of a step
  size_t header_bytes;  // of a step
  size_t block_header_bytes;

  constexpr bool is_float() const { return columns == 1; }
  constexpr size_t block_bytes() const {
    return block_header_bytes + 64 * static_cast<size_t>(bits);
  }
  constexpr size_t step_bytes() const {
    if (is_float()) return kPanelRows * static_cast<size_t>(bits) / 8;
    return header_bytes + columns / 32 * block_bytes();
  }
  constexpr size_t panel_bytes(size_t width) const { return width / columns * step_bytes(); }
};

// One layout for each type, at the index of its WeightType.
inline constexpr PanelLayout kPanelLayouts[] = {
    {WeightType::kF32, "F32", 32, 0, false, 1, 0, 0},
    {WeightType::kF16, "F16", 16, 0, false, 1, 0, 0},
    {WeightType::kBf16, "BF16", 16, 0, false, 1, 0, 0},
    {WeightType::kQ8_0, "Q8_0", 8, 0, false, 32, 32, 0},
    {WeightType::kQ4_0, "Q4_0", 4, 8, false, 32, 32, 0},
    {WeightType::kIq4Nl, "IQ4_NL", 4, 0, false, 32, 32, 0},
    {WeightType::kQ4_1, "Q4_1", 4, 0, true, 32, 64, 0},
    {WeightType::kQ5_0, "Q5_0", 5, 16, false, 32, 32, 0},
    {WeightType::kQ5_1, "Q5_1", 5, 0, true, 32, 64, 0},
    {WeightType::kQ4_K, "Q4_K", 4, 0, true, 256, 64, 32},
    {WeightType::kQ5_K, "Q5_K", 5, 0, true, 256, 64, 32},
    {WeightType::kQ6_K, "Q6_K", 6, 32, false, 256, 32, 32},
};

constexpr const PanelLayout& layout_of(WeightType type) {
  return kPanelLayouts[static_cast<size_t>(type)];
}

// Packs one panel. `rows` has 16 pointers to stored rows; null is a row of zeros.
void pack_panel(const PanelLayout& layout, const uint8_t* const* rows, size_t width,
                uint8_t* panel);

// 32 columns of one row of a panel of codes, read back.
struct RowBlock {
  float d;
  float m;           // 0 in types without a minimum
  int scales[2];     // of the two halves of 16 columns; 1 but for Q6_K
  int8_t codes[32];  // what they stand for
};
RowBlock read_row_block(const PanelLayout& layout, const uint8_t* panel, size_t block, size_t lane);

// A weight of a panel of floats.
float read_float(const PanelLayout& layout, const uint8_t* panel, size_t column, size_t lane);

}  // namespace cerne

#endif  // CERNE_SRC_KERNELS_PANEL_LAYOUT_H_
