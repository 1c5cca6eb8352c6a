// Encoding and decoding through the C interface, with the checks that every test wants.
#ifndef CERNE_TESTS_ENCODE_H_
#define CERNE_TESTS_ENCODE_H_

#include <string>
#include <string_view>
#include <vector>

#include "cerne.h"
#include "check.h"

namespace cerne_test {

inline std::vector<uint32_t> encode(cerne_tokenizer* t, std::string_view text) {
  std::vector<uint32_t> ids(text.size());
  size_t count = 0;
  CHECK(cerne_tokenizer_encode(t, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                               ids.data(), ids.size(), &count) == CERNE_OK);
  ids.resize(count);
  return ids;
}

inline std::string decode(cerne_tokenizer* t, const std::vector<uint32_t>& ids) {
  size_t size = 0;
  const cerne_status status = cerne_tokenizer_decode(t, ids.data(), ids.size(), nullptr, 0, &size);
  CHECK(status == (size == 0 ? CERNE_OK : CERNE_BUFFER_TOO_SMALL));
  std::string out(size, '\0');
  CHECK(cerne_tokenizer_decode(t, ids.data(), ids.size(), reinterpret_cast<uint8_t*>(out.data()),
                               size, &size) == CERNE_OK);
  return out;
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_ENCODE_H_
