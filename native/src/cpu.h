// Which instruction set the kernels use. Every one gives the same results.
#ifndef CERNE_SRC_CPU_H_
#define CERNE_SRC_CPU_H_

namespace cerne {

// kAvx2 means AVX2 with FMA and F16C, as every such processor but VIA's has.
enum class Isa { kScalar, kAvx2 };

// The best that the CPU has, or what CERNE_ISA asks for; decided once. An unknown or impossible
// CERNE_ISA falls back to scalar, which runs everywhere; cerne_isa() tells.
Isa isa();

}  // namespace cerne

#endif  // CERNE_SRC_CPU_H_
