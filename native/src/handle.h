// What every handle of the C interface shares: the check that it is alive, and its end.
// A handle type has `uint64_t magic = kMagic;`, a kMagic of its own and a kName for the messages.
#ifndef CERNE_SRC_HANDLE_H_
#define CERNE_SRC_HANDLE_H_

#include <string>

#include "status.h"

namespace cerne {

inline void require(bool condition, const char* message) {
  if (!condition) throw invalid(message);
}

// The object behind a handle that a caller gave.
template <typename Handle>
Handle& alive(Handle* handle) {
  if (handle == nullptr) throw invalid("the " + std::string(Handle::kName) + " handle is null");
  if (handle->magic != Handle::kMagic) {
    throw invalid("the " + std::string(Handle::kName) + " handle is not alive");
  }
  return *handle;
}

// The magic is cleared, so that most uses of a dead or foreign handle are told, not followed.
template <typename Handle>
void destroy(Handle* handle) {
  if (handle == nullptr || handle->magic != Handle::kMagic) return;
  // Volatile, or the store before the delete is dead and goes.
  *const_cast<volatile uint64_t*>(&handle->magic) = 0;
  delete handle;
}

}  // namespace cerne

#endif  // CERNE_SRC_HANDLE_H_
