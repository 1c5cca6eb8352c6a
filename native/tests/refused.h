// The check that a call was refused for the right reason.
#ifndef CERNE_TESTS_REFUSED_H_
#define CERNE_TESTS_REFUSED_H_

#include <cstring>

#include "cerne.h"
#include "check.h"

namespace cerne_test {

// The status is "invalid argument" and the sentence of this thread holds `part`.
inline void refused(cerne_status status, const char* part) {
  CHECK(status == CERNE_INVALID_ARGUMENT);
  size_t length = 0;
  const char* const text = cerne_last_error(&length);
  CHECK(length == std::strlen(text));
  if (std::strstr(text, part) == nullptr) {
    std::fprintf(stderr, "wanted '%s' in '%s'\n", part, text);
    std::exit(1);
  }
}

}  // namespace cerne_test

#endif  // CERNE_TESTS_REFUSED_H_
