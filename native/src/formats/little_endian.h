// Numbers from and to unaligned little-endian bytes.
#ifndef CERNE_SRC_FORMATS_LITTLE_ENDIAN_H_
#define CERNE_SRC_FORMATS_LITTLE_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cerne {

static_assert(std::endian::native == std::endian::little, "a big-endian host would swap here");

template <typename T>
T load(const uint8_t* bytes) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void store(uint8_t* bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(bytes, &value, sizeof(value));
}

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_LITTLE_ENDIAN_H_
