// Speed of the matrix kernels: reading weights for one token, and operations for 128 tokens.
//   bench_linear [type ...]
// One thread. GEMV cycles through copies of the matrix that no cache holds together, then through
// one copy; each figure is the best of several rounds.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cpu.h"
#include "model/linear.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kTypes[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",
                                  "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"};
constexpr size_t kShapes[][2] = {{576, 1536}, {1536, 576}, {2048, 5632}};  // width, rows
constexpr size_t kManyTokens = 128;
constexpr size_t kUncachedBytes = size_t{192} << 20;
constexpr int kRounds = 9;

struct Inputs {
  explicit Inputs(size_t width)
      : values(kManyTokens * width),
        codes(values.size()),
        scales(values.size() / 32),
        sums(scales.size()),
        scaled_sums(scales.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    cerne::quantize_activations(values.data(), values.size(), codes.data(), scales.data(),
                                sums.data(), scaled_sums.data());
  }

  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> scaled_sums;
};

// Random codes under scales of 2^-7.
std::vector<uint8_t> random_weights(const cerne::TensorType& type, size_t rows, size_t width) {
  std::vector<uint8_t> bytes(rows * (width / type.block_values) * type.block_bytes);
  std::mt19937 random(2);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const bool is_float = type.block_values == 1;
  for (size_t i = 0; i < bytes.size(); i += type.block_bytes) {
    if (is_float) {
      bytes[i + type.block_bytes - 1] &= 0x3f;
      continue;
    }
    const size_t at = std::strcmp(type.name, "Q6_K") == 0 ? i + 208 : i;
    bytes[at] = 0;
    bytes[at + 1] = 0x20;
  }
  return bytes;
}

template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// GB/s of weights over all of `matrices` for `tokens` tokens.
double gemv(const std::vector<std::unique_ptr<cerne::Linear>>& matrices, const Inputs& inputs,
            size_t tokens, int repeats) {
  const cerne::Linear& first = *matrices[0];
  const cerne::Activations x = {tokens,
                                first.width(),
                                inputs.values.data(),
                                inputs.codes.data(),
                                inputs.scales.data(),
                                inputs.sums.data(),
                                inputs.scaled_sums.data()};
  std::vector<float> output(tokens * first.num_rows());
  const double seconds = best_seconds([&] {
    for (int i = 0; i < repeats; ++i) {
      for (const auto& matrix : matrices) {
        matrix->multiply(x, 0, matrix->num_panels(), output.data(), matrix->num_rows());
      }
    }
  });
  const auto bytes = static_cast<double>(first.size_bytes() * matrices.size());
  return bytes * repeats / seconds * 1e-9;
}

void measure(const cerne::TensorType& type, size_t width, size_t rows) {
  const std::vector<uint8_t> stored = random_weights(type, rows, width);
  std::vector<std::unique_ptr<cerne::Linear>> matrices;
  const auto make = [&] {
    return std::make_unique<cerne::Linear>(type, stored.data(), rows, width, nullptr);
  };
  matrices.push_back(make());
  const size_t bytes = matrices[0]->size_bytes();
  const Inputs inputs(width);
  const int repeats = static_cast<int>(1 + (size_t{8} << 20) / bytes);
  const double cached = gemv(matrices, inputs, 1, repeats);
  const double four = gemv(matrices, inputs, 4, 1 + repeats / 4);
  const double seconds_many =
      1e-9 * static_cast<double>(bytes) / gemv(matrices, inputs, kManyTokens, repeats / 64 + 1);
  const double work = 2e-9 * static_cast<double>(width * rows * kManyTokens);
  const double seconds_four = 1e-9 * static_cast<double>(bytes) / four;
  const double work_four = 2e-9 * static_cast<double>(width * rows * 4);
  const auto start = Clock::now();
  while (matrices.size() * bytes < kUncachedBytes) matrices.push_back(make());
  const double packing = std::chrono::duration<double>(Clock::now() - start).count();
  const double uncached = gemv(matrices, inputs, 1, 1);
  const double uncached_four = gemv(matrices, inputs, 4, 1);
  const double packed_bytes = static_cast<double>(stored.size() * (matrices.size() - 1));
  std::printf(
      "%-7s %4zu x %4zu  %5.2f bits  gemv %5.1f GB/s cached %5.1f uncached"
      "  4 tokens %5.1f GOPS cached %5.1f uncached  128 tokens %5.1f GOPS"
      "  pack %5.2f GB/s\n",
      type.name, width, rows, 8.0 * static_cast<double>(bytes) / static_cast<double>(width * rows),
      cached, uncached, work_four / seconds_four,
      work_four * uncached_four / (1e-9 * static_cast<double>(bytes)), work / seconds_many,
      packed_bytes / packing * 1e-9);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%s\n", cerne::isa() == cerne::Isa::kAvx2 ? "avx2" : "scalar");
  for (const char* const name : kTypes) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], name) == 0;
    if (!wanted) continue;
    const cerne::TensorType& type = *cerne::find_tensor_type(std::string(name));
    for (const auto& [width, rows] : kShapes) {
      if (width % type.block_values == 0) measure(type, width, rows);
    }
  }
  return 0;
}
