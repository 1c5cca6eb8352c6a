// libFuzzer's entry to the one target that CMake names.
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  cerne_fuzz::CERNE_FUZZ_TARGET(bytes, size);
  return 0;
}
