#include "formats/quantize.h"

#include <cstring>

namespace cerne {
namespace {

void encode_f32(const float* values, size_t num_blocks, const float*, uint8_t* blocks) {
  std::memcpy(blocks, values, num_blocks * sizeof(float));
}

struct Entry {
  uint32_t id;
  Encoder encoder;
};

// What a binary16 scale holds, and the largest number that does not round to infinity in bfloat16.
constexpr float kHalf = 65504.0f, kBrain = 0x1.fefffep127f, kFloat = 0x1.fffffep127f;

constexpr Entry kEntries[] = {
    {0, {encode_f32, kFloat}},  {1, {encode_f16, kHalf}},   {30, {encode_bf16, kBrain}},
    {8, {encode_q8_0, kHalf}},  {2, {encode_q4_0, kHalf}},  {3, {encode_q4_1, kHalf}},
    {6, {encode_q5_0, kHalf}},  {7, {encode_q5_1, kHalf}},  {12, {encode_q4_k, kHalf}},
    {13, {encode_q5_k, kHalf}}, {14, {encode_q6_k, kHalf}}, {20, {encode_iq4_nl, kHalf}},
};

}  // namespace

const Encoder* find_encoder(const TensorType& type) {
  for (const Entry& entry : kEntries) {
    if (entry.id == type.id) return &entry.encoder;
  }
  return nullptr;
}

const TensorType* find_encodable_type(std::string_view name) {
  for (const Entry& entry : kEntries) {
    const TensorType* const type = find_tensor_type(entry.id);
    if (name == type->name) return type;
  }
  return nullptr;
}

std::string encodable_types() {
  std::string names;
  for (const Entry& entry : kEntries) {
    if (!names.empty()) names += ", ";
    names += find_tensor_type(entry.id)->name;
  }
  return names;
}

}  // namespace cerne
