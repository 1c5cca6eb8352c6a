// Encoders of the block formats of GGUF files: the codes and scales whose decoded values lie
// closest to the given ones. The error that is minimised is the sum of w * (value - decoded)^2,
// where w is the importance of the value's column, or 1 (Q4_0: what encode_legacy.cpp says). The
// decoders of dequantize.h say what the bytes mean.
//
// Every operation is one IEEE-754 binary32 operation in the order written (sums over eight lanes,
// as fit.h says), so all processors and any number of threads give the same bytes. Scales are
// searched as the binary16 numbers that are stored, so that no rounding comes after the search.
#ifndef CERNE_SRC_FORMATS_QUANTIZE_H_
#define CERNE_SRC_FORMATS_QUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/tensor_type.h"

namespace cerne {

// Encodes num_blocks blocks of one row. `values` are finite and within the encoder's limit;
// `importance` has one finite number >= 0, at most 1, for each value, or is null.
using Encode = void (*)(const float* values, size_t num_blocks, const float* importance,
                        uint8_t* blocks);

struct Encoder {
  Encode encode;
  float limit;  // the largest magnitude that the type can hold
};

// The encoder of a type, or null.
const Encoder* find_encoder(const TensorType& type);

// The type with this name that has an encoder, or null; and the names of all of them.
const TensorType* find_encodable_type(std::string_view name);
std::string encodable_types();

void encode_f16(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_bf16(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);

void encode_q8_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q4_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q4_1(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q5_0(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q5_1(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);

void encode_q4_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q5_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);
void encode_q6_k(const float* values, size_t num_blocks, const float* importance, uint8_t* blocks);

void encode_iq4_nl(const float* values, size_t num_blocks, const float* importance,
                   uint8_t* blocks);

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_QUANTIZE_H_
