// Decoders of the block formats of GGUF files: the plain definition of what each stored byte means.
// Every operation is one IEEE-754 binary32 operation in the order written, so that all processors
// give the same bits; faster decoders are tested against these. Blocks need no alignment.
#ifndef CERNE_SRC_FORMATS_DEQUANTIZE_H_
#define CERNE_SRC_FORMATS_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace cerne {

// values[i] for i < num_blocks * (values in a block of the type); see tensor_type.h.
void dequantize_f32(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_f16(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_bf16(const uint8_t* blocks, size_t num_blocks, float* values);

void dequantize_q8_0(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q4_0(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q4_1(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q5_0(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q5_1(const uint8_t* blocks, size_t num_blocks, float* values);

void dequantize_q4_k(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q5_k(const uint8_t* blocks, size_t num_blocks, float* values);
void dequantize_q6_k(const uint8_t* blocks, size_t num_blocks, float* values);

void dequantize_iq4_nl(const uint8_t* blocks, size_t num_blocks, float* values);

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_DEQUANTIZE_H_
