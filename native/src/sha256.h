// SHA-256 (FIPS 180-4) of bytes that come in pieces.
#ifndef CERNE_SRC_SHA256_H_
#define CERNE_SRC_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cerne {

class Sha256 {
 public:
  void add(const void* bytes, size_t size);
  // The digest of all that was added, in hexadecimal; nothing may be added afterwards.
  std::string hex();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};
  size_t held_ = 0;
  uint64_t total_ = 0;
};

}  // namespace cerne

#endif  // CERNE_SRC_SHA256_H_
