// Memory for packed weights, on huge pages also for matrices that are smaller than one: a token
// reads every weight once, and on small pages that costs up to half of the speed.
#ifndef CERNE_SRC_MODEL_WEIGHT_MEMORY_H_
#define CERNE_SRC_MODEL_WEIGHT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cerne {

// `bytes` zero bytes aligned to a cache line. Small requests share a chunk, which goes when the
// last of them does. Throws std::bad_alloc. Thread-safe.
std::shared_ptr<uint8_t> weight_memory(size_t bytes);

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_WEIGHT_MEMORY_H_
