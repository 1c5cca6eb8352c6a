// What is fuzzed: each function takes any bytes and must neither crash nor touch memory that is not
// its own. A target T has its inputs in corpus/T; the native tests replay them. To search for more
// (Clang with its runtime library; on Debian clang-19 and libclang-rt-19-dev):
//
//   cmake -S native -B build/fuzz -DCMAKE_CXX_COMPILER=clang++-19 -DCERNE_FUZZ=ON
//         -DCERNE_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
//   cmake --build build/fuzz --target fuzz_gguf
//   build/fuzz/fuzz_gguf -max_total_time=600 -max_len=4096 build/fuzz/found native/fuzz/corpus/gguf
#ifndef CERNE_FUZZ_TARGETS_H_
#define CERNE_FUZZ_TARGETS_H_

#include <cstddef>
#include <cstdint>

namespace cerne_fuzz {

void gguf(const uint8_t* bytes, size_t size);

}  // namespace cerne_fuzz

#endif  // CERNE_FUZZ_TARGETS_H_
