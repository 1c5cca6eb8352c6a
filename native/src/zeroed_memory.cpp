#include "zeroed_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace cerne {
namespace {

constexpr size_t kLine = 64;

std::shared_ptr<void> from_heap(size_t bytes) {
  const size_t rounded = (bytes + kLine - 1) / kLine * kLine;
  void* const memory = std::aligned_alloc(kLine, rounded == 0 ? kLine : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return {memory, [](void* p) { std::free(p); }};
}

}  // namespace

#if defined(__linux__)

std::shared_ptr<void> zeroed_memory(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  if (bytes < kHuge) return from_heap(bytes);
  const size_t mapped = bytes + kHuge;
  void* const base =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  const size_t offset = (kHuge - reinterpret_cast<size_t>(base) % kHuge) % kHuge;
  void* const aligned = static_cast<char*>(base) + offset;
  // Only a hint: without huge pages everything works the same.
  static_cast<void>(madvise(aligned, bytes, MADV_HUGEPAGE));
  return {aligned, [base, mapped](void*) { munmap(base, mapped); }};
}

#else

std::shared_ptr<void> zeroed_memory(size_t bytes) { return from_heap(bytes); }

#endif

}  // namespace cerne
