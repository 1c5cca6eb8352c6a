// The per-thread error text and the version of the interface.
#include "status.h"

#include <cstring>

namespace cerne {
namespace {

// A fixed buffer: reporting "out of memory" must not need memory.
thread_local char last_error[512];

}  // namespace

void set_last_error(const char* message) noexcept {
  std::strncpy(last_error, message, sizeof(last_error) - 1);
  last_error[sizeof(last_error) - 1] = '\0';
}

}  // namespace cerne

extern "C" {

uint32_t cerne_abi_version(void) { return CERNE_ABI_VERSION; }

const char* cerne_last_error(size_t* length) {
  if (length != nullptr) *length = std::strlen(cerne::last_error);
  return cerne::last_error;
}

}  // extern "C"
