// What the machine has left.
#ifndef CERNE_SRC_SYSTEM_MEMORY_H_
#define CERNE_SRC_SYSTEM_MEMORY_H_

#include <cstdint>

namespace cerne {

// Bytes that programs can take without pushing others out; 0 when the system does not say.
uint64_t available_memory();

}  // namespace cerne

#endif  // CERNE_SRC_SYSTEM_MEMORY_H_
