#include "model/weight_memory.h"

#include <mutex>

#include "zeroed_memory.h"

namespace cerne {
namespace {

constexpr size_t kLine = 64;
// Only pages that are touched are taken, so a chunk costs what is used of it.
constexpr size_t kChunkBytes = size_t{32} << 20;
constexpr size_t kLargestShared = kChunkBytes / 8;

struct Chunk {
  std::mutex mutex;
  std::weak_ptr<void> memory;  // alive as long as a matrix is
  size_t used = 0;
};

Chunk& chunk() {
  static Chunk only;
  return only;
}

}  // namespace

std::shared_ptr<uint8_t> weight_memory(size_t bytes) {
  if (bytes > kLargestShared) {
    const std::shared_ptr<void> own = zeroed_memory(bytes);
    return {own, static_cast<uint8_t*>(own.get())};
  }
  const size_t rounded = (bytes + kLine - 1) / kLine * kLine;
  Chunk& shared = chunk();
  const std::lock_guard lock(shared.mutex);
  std::shared_ptr<void> memory = shared.memory.lock();
  if (memory == nullptr || shared.used + rounded > kChunkBytes) {
    memory = zeroed_memory(kChunkBytes);
    shared.memory = memory;
    shared.used = 0;
  }
  uint8_t* const begin = static_cast<uint8_t*>(memory.get()) + shared.used;
  shared.used += rounded;
  return {std::move(memory), begin};
}

}  // namespace cerne
