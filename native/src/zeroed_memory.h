// Large zero-filled arrays on huge pages where the system gives them: tables that are read at
// random spend most of their time in address translation otherwise.
#ifndef CERNE_SRC_ZEROED_MEMORY_H_
#define CERNE_SRC_ZEROED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <type_traits>

namespace cerne {

// `bytes` zero bytes aligned to a cache line (to 2 MiB when at least that many). Pages are taken
// when first touched. Throws std::bad_alloc.
std::shared_ptr<void> zeroed_memory(size_t bytes);

// A fixed array of T, whose zero bytes must be a valid value. Copies share the elements.
template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(size_t count)
      : memory_(zeroed_memory(count * sizeof(T))), data_(static_cast<T*>(memory_.get())) {}

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() const { return data_; }

 private:
  std::shared_ptr<void> memory_;
  T* data_ = nullptr;
};

}  // namespace cerne

#endif  // CERNE_SRC_ZEROED_MEMORY_H_
