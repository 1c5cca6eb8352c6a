// The C functions of GGUF files: wrong arguments give a status and a sentence, right ones the data.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "cerne.h"
#include "check.h"
#include "gguf_bytes.h"
#include "refused.h"

using cerne_test::refused;

namespace {

// A file that goes at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<uint8_t>& bytes) {
    const int file = mkstemp(path_);
    CHECK(file >= 0);
    CHECK(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(file);
  }
  ~TemporaryFile() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "cerne_gguf_test_XXXXXX";
};

cerne_gguf* open_file(const char* path) {
  cerne_gguf* gguf = nullptr;
  CHECK(cerne_gguf_open(path, std::strlen(path), &gguf) == CERNE_OK);
  return gguf;
}

}  // namespace

CERNE_TEST(gguf_files_that_cannot_be_opened_are_refused) {
  cerne_gguf* gguf = nullptr;
  refused(cerne_gguf_open("no such file", 12, &gguf), "cannot open the file");
  refused(cerne_gguf_open(".", 1, &gguf), "not a regular file");
  refused(cerne_gguf_open("a\0b", 3, &gguf), "zero byte");
  refused(cerne_gguf_open(nullptr, 0, &gguf), "null");
  refused(cerne_gguf_open("a", 1, nullptr), "null");
  const TemporaryFile empty({});
  refused(cerne_gguf_open(empty.path(), std::strlen(empty.path()), &gguf), "not a GGUF file");
  CHECK(gguf == nullptr);
  cerne_gguf_destroy(nullptr);
}

CERNE_TEST(gguf_wrong_questions_are_refused) {
  const TemporaryFile file(cerne_test::small_gguf());
  cerne_gguf* const gguf = open_file(file.path());
  uint64_t number = 0, offsets[4], dims[4];
  size_t size = 0;
  uint32_t type = 0, element = 0;
  const char *text = nullptr, *name = nullptr;
  uint8_t bytes[8];
  float values[64];
  refused(cerne_gguf_statistic(gguf, "tensor", 6, &number), "tensor");
  refused(cerne_gguf_statistic(nullptr, "tensors", 7, &number), "handle is null");
  refused(cerne_gguf_metadata(gguf, 15, &text, &size, &type, &element, &number), "less than 15");
  refused(cerne_gguf_metadata(gguf, 0, nullptr, &size, &type, &element, &number), "null");
  refused(cerne_gguf_values(gguf, 0, bytes, 8, &size), "strings");
  refused(cerne_gguf_strings(gguf, 1, bytes, 8, &size, offsets), "not strings");
  refused(cerne_gguf_strings(gguf, 12, bytes, 8, &size, nullptr), "null");
  refused(cerne_gguf_tensor(gguf, 3, &text, &size, &name, &type, dims, &number), "less than 3");
  refused(cerne_gguf_dequantize(gguf, 0, 1, 2, values, 64, &size), "its 2 rows");
  refused(cerne_gguf_dequantize(gguf, 0, UINT64_MAX, UINT64_MAX, values, 64, &size), "its 2 rows");
  refused(cerne_gguf_dequantize(gguf, 0, 0, 2, nullptr, 64, &size), "null");
  cerne_gguf_destroy(gguf);
}

CERNE_TEST(gguf_small_buffers_are_told_the_size) {
  const TemporaryFile file(cerne_test::small_gguf());
  cerne_gguf* const gguf = open_file(file.path());
  uint64_t offsets[4];
  size_t size = 0;
  uint8_t bytes[8];
  float values[64];
  CHECK(cerne_gguf_strings(gguf, 12, bytes, 2, &size, offsets) == CERNE_BUFFER_TOO_SMALL);
  CHECK(size == 3);
  CHECK(cerne_gguf_values(gguf, 13, nullptr, 0, &size) == CERNE_BUFFER_TOO_SMALL && size == 8);
  CHECK(cerne_gguf_values(gguf, 13, bytes, 8, &size) == CERNE_OK);
  float score = 0;
  std::memcpy(&score, bytes + 4, sizeof(score));
  CHECK(score == -4.0f);
  CHECK(cerne_gguf_dequantize(gguf, 0, 0, 2, values, 63, &size) == CERNE_BUFFER_TOO_SMALL);
  CHECK(size == 64);
  CHECK(cerne_gguf_dequantize(gguf, 1, 0, 1, values, 3, &size) == CERNE_OK && size == 3);
  CHECK(values[0] == 1.0f && values[1] == -2.0f && values[2] == 0.5f);
  CHECK(cerne_gguf_dequantize(gguf, 0, 2, 0, nullptr, 0, &size) == CERNE_OK && size == 0);
  cerne_gguf_destroy(gguf);
}
