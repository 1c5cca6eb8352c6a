// The GGUF reader on whole, cut and damaged bytes. Inputs lie in heap blocks of their exact size,
// so that the address sanitizer sees a read past the end. Each error's wording is tested from
// Python.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "check.h"
#include "gguf_bytes.h"
#include "gguf_file.h"
#include "targets.h"

using cerne::GgufFile;

namespace {

// Runs the fuzz target on a copy without any slack.
void try_bytes(const uint8_t* bytes, size_t size) {
  const auto copy = std::make_unique<uint8_t[]>(size);
  if (size > 0) std::memcpy(copy.get(), bytes, size);
  cerne_fuzz::gguf(copy.get(), size);
}

bool is_refused(const uint8_t* bytes, size_t size) {
  const auto copy = std::make_unique<uint8_t[]>(size);
  if (size > 0) std::memcpy(copy.get(), bytes, size);
  try {
    const GgufFile file(copy.get(), size);
    return false;
  } catch (const cerne::Error& error) {
    CHECK(error.status() == CERNE_INVALID_ARGUMENT && std::strlen(error.what()) < 500);
    return true;
  }
}

}  // namespace

CERNE_TEST(gguf_tables_hold_what_the_file_says) {
  const std::vector<uint8_t> bytes = cerne_test::small_gguf();
  const GgufFile file(bytes.data(), bytes.size());
  CHECK(file.version() == 3 && file.alignment() == 64 && file.metadata().size() == 15);
  CHECK(file.data_offset() % 64 == 0 && file.tensors().size() == 3);
  const cerne::GgufMetadata& tokens = file.metadata()[12];
  CHECK(tokens.key == "tokens" && tokens.type == cerne::GgufType::kArray && tokens.count == 3);
  CHECK(tokens.element == cerne::GgufType::kString && tokens.text_bytes == 3);
  uint8_t text[3];
  uint64_t offsets[4];
  cerne::copy_strings(tokens, text, offsets);
  CHECK(std::memcmp(text, "abc", 3) == 0);
  CHECK(offsets[0] == 0 && offsets[1] == 1 && offsets[2] == 1 && offsets[3] == 3);

  const cerne::GgufTensor &w = file.tensors()[0], &h = file.tensors()[2];
  CHECK(w.name == "w" && std::strcmp(w.type->name, "Q4_0") == 0 && w.num_rows == 2);
  CHECK(w.row_bytes == 18 && w.data == bytes.data() + file.data_offset());
  CHECK(h.num_dims == 3 && h.dims[0] == 2 && h.dims[1] == 1 && h.dims[2] == 2 && h.dims[3] == 1);
  float values[4];
  h.type->dequantize(h.data, 4, values);
  CHECK(values[0] == 1.0f && values[1] == -2.0f && values[2] == 0x1p-24f && std::isinf(values[3]));
}

CERNE_TEST(gguf_cut_anywhere_is_refused) {
  const std::vector<uint8_t> bytes = cerne_test::small_gguf();
  for (size_t size = 0; size < bytes.size(); ++size) CHECK(is_refused(bytes.data(), size));
  CHECK(!is_refused(bytes.data(), bytes.size()));
}

CERNE_TEST(gguf_with_any_bit_flipped_is_safe) {
  std::vector<uint8_t> bytes = cerne_test::small_gguf();
  for (size_t i = 0; i < 8 * bytes.size(); ++i) {
    bytes[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
    try_bytes(bytes.data(), bytes.size());
    bytes[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
  }
}

CERNE_TEST(gguf_with_random_damage_is_safe) {
  const std::vector<uint8_t> whole = cerne_test::small_gguf();
  // Values that lie at the edges of the checks.
  constexpr uint64_t kEdges[] = {0, 1, 255, 1u << 31, UINT32_MAX, uint64_t{1} << 63, UINT64_MAX};
  std::mt19937 rng(20261201);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (uint32_t change = 0; change < 1 + rng() % 4; ++change) {
      const size_t at = rng() % bytes.size();
      const uint64_t edge = kEdges[rng() % std::size(kEdges)];
      const size_t width = std::min<size_t>(size_t{1} << rng() % 4, bytes.size() - at);
      std::memcpy(bytes.data() + at, &edge, width);
    }
    try_bytes(bytes.data(), bytes.size());
  }
}

CERNE_TEST(gguf_fuzz_corpus_is_safe) {
  size_t files = 0, read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CERNE_FUZZ_CORPUS "/gguf")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
    try_bytes(data, bytes.size());
    read += is_refused(data, bytes.size()) ? 0 : 1;
    ++files;
  }
  // Both kinds are there: files that are refused and files that are read.
  CHECK(read > 0 && read < files);
}

CERNE_TEST(gguf_counts_cannot_take_more_memory_than_the_file) {
  // Each count is the largest that a 64-bit field holds.
  const auto huge = cerne_test::GgufBytes(UINT64_MAX, 0).bytes();
  CHECK(is_refused(huge.data(), huge.size()));
  const auto entries = cerne_test::GgufBytes(0, UINT64_MAX).bytes();
  CHECK(is_refused(entries.data(), entries.size()));
  for (const uint32_t element : {0u, 8u, 10u}) {
    cerne_test::GgufBytes array(0, 1);
    array.key("a", 9).add(element).add(UINT64_MAX).add(uint64_t{0});
    CHECK(is_refused(array.bytes().data(), array.bytes().size()));
  }
}
