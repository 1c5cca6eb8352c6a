#include "model/weight_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"

CERNE_TEST(pieces_of_weight_memory_are_zero_aligned_and_apart) {
  // More than one chunk, odd sizes, and one too large to share.
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 40; ++i) sizes.push_back((size_t{1} << 20) + 37 * i + 1);
  sizes.push_back(size_t{9} << 20);
  sizes.push_back(1);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<uint8_t>> pieces;
    for (size_t i = 0; i < sizes.size(); ++i) {
      pieces.push_back(cerne::weight_memory(sizes[i]));
      uint8_t* const begin = pieces.back().get();
      CHECK(reinterpret_cast<uintptr_t>(begin) % 64 == 0);
      // In the second round, too: memory of the first one does not come back as it was left.
      CHECK(std::all_of(begin, begin + sizes[i], [](uint8_t byte) { return byte == 0; }));
      std::memset(begin, static_cast<int>(i + 1), sizes[i]);
    }
    for (size_t i = 0; i < sizes.size(); i += 3) {
      const auto value = static_cast<uint8_t>(i + 1);
      const uint8_t* const begin = pieces[i].get();
      CHECK(std::all_of(begin, begin + sizes[i], [&](uint8_t byte) { return byte == value; }));
      pieces[i].reset();
    }
  }
}
