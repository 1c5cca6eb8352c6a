#include "cpu.h"

#include <cstdlib>
#include <cstring>

#include "cerne.h"

namespace cerne {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("f16c") != 0;
#else
  return false;
#endif
}

Isa choose() {
  const char* wanted = std::getenv("CERNE_ISA");
  if (wanted != nullptr && std::strcmp(wanted, "avx2") != 0) return Isa::kScalar;
  return has_avx2() ? Isa::kAvx2 : Isa::kScalar;
}

}  // namespace

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace cerne

extern "C" const char* cerne_isa(void) {
  return cerne::isa() == cerne::Isa::kAvx2 ? "avx2" : "scalar";
}
