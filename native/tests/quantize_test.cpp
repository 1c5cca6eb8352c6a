// Block encoders: the same bytes whatever the threads, exact where a format can be exact, bounded
// errors elsewhere, hostile values, and what a caller gets wrong.
#include "formats/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "refused.h"

using cerne::find_encodable_type;
using cerne::TensorType;
using cerne_test::refused;

namespace {

const char* const kNames[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",
                              "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"};

// Bell-shaped numbers from integer arithmetic only, the same on every machine.
std::vector<float> bell(size_t count, uint32_t seed, float scale) {
  std::vector<float> values(count);
  for (float& value : values) {
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      seed = seed * 1664525u + 1013904223u;
      sum += static_cast<int32_t>(seed >> 16) - 32768;
    }
    value = static_cast<float>(sum) * 0x1p-17f * scale;
  }
  return values;
}

std::vector<uint8_t> encode(const char* name, const std::vector<float>& values, uint64_t width,
                            const float* importance = nullptr, uint32_t threads = 1) {
  size_t size = 0;
  const uint64_t rows = values.size() / width;
  CHECK(cerne_quantize_rows(name, std::strlen(name), values.data(), rows, width, importance,
                            threads, nullptr, nullptr, nullptr, 0,
                            &size) == CERNE_BUFFER_TOO_SMALL);
  std::vector<uint8_t> blocks(size);
  CHECK(cerne_quantize_rows(name, std::strlen(name), values.data(), rows, width, importance,
                            threads, nullptr, nullptr, blocks.data(), size, &size) == CERNE_OK);
  return blocks;
}

std::vector<float> decode(const char* name, const std::vector<uint8_t>& blocks) {
  const TensorType& type = *find_encodable_type(name);
  const size_t count = blocks.size() / type.block_bytes;
  std::vector<float> values(count * type.block_values);
  type.dequantize(blocks.data(), count, values.data());
  return values;
}

double relative_error(const std::vector<float>& wanted, const std::vector<float>& got) {
  double error = 0, sum = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double off = static_cast<double>(wanted[i]) - static_cast<double>(got[i]);
    error += off * off;
    sum += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return sum == 0 ? error : std::sqrt(error / sum);
}

uint64_t digest(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

}  // namespace

CERNE_TEST(encoders_give_the_recorded_bytes_on_any_number_of_threads) {
  // Another digest means other bytes on this machine: a rounding that depends on the compiler.
  const struct {
    const char* name;
    uint64_t plain, weighted;
  } recorded[] = {
      {"F16", 0xc2f40c7bb50ccb70, 0xc2f40c7bb50ccb70},
      {"BF16", 0xb278fb88a8dc0a09, 0xb278fb88a8dc0a09},
      {"Q8_0", 0xd594fd0cd9f53457, 0xeadad17a321bbb66},
      {"Q4_0", 0x2e52e907c516d1b3, 0x48cbd738b00977ef},
      {"Q4_1", 0xc118035f9e5d42e5, 0xbe5ad0efe5b7a044},
      {"Q5_0", 0xa4cd4f95cc2063de, 0x55e7226acc40ea59},
      {"Q5_1", 0xb68cf741f0f4a14e, 0xf11739c198b84af5},
      {"Q4_K", 0x21220aa3c5f686f1, 0xaf5a305a01695d0f},
      {"Q5_K", 0xae637a7298182fe1, 0xd82c69205f9a88d1},
      {"Q6_K", 0x5a4a4843ab45888c, 0x87b031985b34d8f8},
      {"IQ4_NL", 0x5b652faacefc10ec, 0x3aeaefe3abe0b791},
  };
  const std::vector<float> values = bell(512 * 150, 1, 0.1f);
  std::vector<float> importance = bell(512, 2, 3.0f);
  for (float& value : importance) value = value * value;
  for (const auto& [name, plain, weighted] : recorded) {
    const std::vector<uint8_t> one = encode(name, values, 512);
    CHECK(encode(name, values, 512, nullptr, 3) == one);
    CHECK(encode(name, values, 512, nullptr, 0) == one);
    const std::vector<uint8_t> other = encode(name, values, 512, importance.data(), 2);
    if (digest(one) != plain || digest(other) != weighted) {
      std::fprintf(stderr, "{\"%s\", 0x%llx, 0x%llx},\n", name,
                   static_cast<unsigned long long>(digest(one)),
                   static_cast<unsigned long long>(digest(other)));
    }
    CHECK(digest(one) == plain && digest(other) == weighted);
  }
}

CERNE_TEST(encoders_stay_within_the_error_of_their_width) {
  // Relative root mean square errors on bell-shaped values; rounding to the range is 4 to 10 %
  // more.
  const struct {
    const char* name;
    double bound;
  } bounds[] = {{"F32", 0},       {"F16", 3e-4},    {"BF16", 2.4e-3}, {"Q8_0", 4.7e-3},
                {"Q4_0", 0.078},  {"Q4_1", 0.069},  {"Q5_0", 0.039},  {"Q5_1", 0.0333},
                {"Q4_K", 0.0675}, {"Q5_K", 0.0332}, {"Q6_K", 0.016},  {"IQ4_NL", 0.071}};
  const std::vector<float> values = bell(256 * 200, 3, 0.05f);
  for (const auto& [name, bound] : bounds) {
    const double error = relative_error(values, decode(name, encode(name, values, 256)));
    if (!(error <= bound)) std::fprintf(stderr, "%s: %g\n", name, error);
    CHECK(error <= bound);
  }
}

CERNE_TEST(important_columns_get_smaller_errors) {
  const std::vector<float> values = bell(256 * 64, 4, 1.0f);
  std::vector<float> importance(256, 0.01f);
  for (size_t i = 0; i < 256; i += 8) importance[i] = 1;
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"}) {
    const std::vector<float> plain = decode(name, encode(name, values, 256));
    const std::vector<float> weighted = decode(name, encode(name, values, 256, importance.data()));
    double before = 0, after = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double w = static_cast<double>(importance[i % 256]);
      before += w * std::pow(static_cast<double>(values[i] - plain[i]), 2);
      after += w * std::pow(static_cast<double>(values[i] - weighted[i]), 2);
    }
    CHECK(after < 0.9 * before);
  }
}

CERNE_TEST(values_on_the_grid_of_a_format_come_back_exactly) {
  std::vector<float> values(256);
  for (int i = 0; i < 256; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(i % 16 - 8) * 0.25f;
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    // The groups' scales are multiples of a binary16 number in the K formats.
    const double bound = name[3] == 'K' ? 1e-3 : 0.0;
    CHECK(relative_error(values, decode(name, encode(name, values, 256))) <= bound);
  }
  for (int i = 0; i < 256; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(i % 32 * 8 - 127) * 0.5f;
  CHECK(decode("Q8_0", encode("Q8_0", values, 256)) == values);
  // A flat group is a minimum without a scale, or one code of a scale.
  for (const float flat : {0.0f, 1.5f, -1.5f}) {
    for (float& value : values) value = flat;
    for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"}) {
      CHECK(relative_error(values, decode(name, encode(name, values, 256))) < 2e-3);
    }
  }
}

CERNE_TEST(hostile_values_give_finite_blocks_near_them) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float parts[][4] = {{0, -0.0f, 0, 0},
                            {tiny, -tiny, 1e-39f, 0},
                            {1e-20f, 2e-20f, 0, 0},
                            {65504, -65504, 1, 0},
                            {65504, tiny, 0, 0},
                            {1e-7f, -3e-7f, 2e-7f, 0},
                            {65504, 65503, 65504, 65000},
                            {-6e-8f, 6e-8f, 3e-8f, 0}};
  for (const auto& part : parts) {
    std::vector<float> values(512);
    float peak = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = part[(i / 7) % 4];
      peak = std::max(peak, std::fabs(values[i]));
    }
    for (const char* name : kNames) {
      for (const float weight : {0.0f, tiny, 3e38f}) {
        const std::vector<float> importance(512, weight);
        const std::vector<float> got = decode(name, encode(name, values, 512, importance.data()));
        for (size_t i = 0; i < values.size(); ++i) {
          // Half a step of the coarsest format, and of the smallest scale: IQ4_NL's levels lie up
          // to 12 of it apart near zero.
          const float least = std::string(name) == "IQ4_NL" ? 0x1.8p-22f : 0x1p-24f;
          CHECK(std::fabs(got[i] - values[i]) <= peak * 0.08f + least);
        }
      }
    }
  }
}

CERNE_TEST(half_and_bfloat16_round_to_nearest_even) {
  const std::vector<float> values = {1.00048828125f, 1.00146484375f, 65504.0f, -0.0f,
                                     1.00390625f,    1.01171875f,    0x1p-25f, 0x1.8p-24f};
  const std::vector<float> halves = {1.0f,        1.001953125f, 65504.0f, -0.0f,
                                     1.00390625f, 1.01171875f,  0.0f,     0x1p-23f};
  CHECK(decode("F16", encode("F16", values, 8)) == halves);
  const std::vector<float> brains = decode("BF16", encode("BF16", values, 8));
  CHECK(brains[4] == 1.0f && brains[5] == 1.015625f && brains[0] == 1.0f);
}

CERNE_TEST(wrong_rows_are_refused) {
  std::vector<float> x(512, 0.5f);
  std::vector<uint8_t> blocks(4096);
  size_t size = 77;
  const auto call = [&](const char* name, uint64_t rows, uint64_t width,
                        const float* importance = nullptr, uint32_t threads = 1) {
    return cerne_quantize_rows(name, std::strlen(name), x.data(), rows, width, importance, threads,
                               nullptr, nullptr, blocks.data(), blocks.size(), &size);
  };
  refused(call("Q3_K", 2, 256), "no encoder of type 'Q3_K'; allowed: F32");
  refused(call("", 2, 256), "no encoder");
  refused(call("Q4_K", 2, 128), "multiple of 256");
  refused(call("Q4_0", 2, 0), "multiple of 32");
  refused(call("Q4_0", UINT64_MAX, 256), "memory");
  refused(call("Q4_0", UINT64_MAX / 256, 256), "memory");
  refused(call("Q4_0", 2, UINT64_MAX / 64 * 32), "memory");
  refused(call("Q4_0", 2, 256, nullptr, 1025), "1025 threads");
  CHECK(size == 77);
  refused(cerne_quantize_rows(nullptr, 4, x.data(), 2, 256, nullptr, 1, nullptr, nullptr,
                              blocks.data(), blocks.size(), &size),
          "null");
  refused(cerne_quantize_rows("Q4_0", 4, nullptr, 2, 256, nullptr, 1, nullptr, nullptr,
                              blocks.data(), blocks.size(), &size),
          "null");
  refused(cerne_quantize_rows("Q4_0", 4, x.data(), 2, 256, nullptr, 1, nullptr, nullptr,
                              blocks.data(), blocks.size(), nullptr),
          "null");
  CHECK(call("Q4_0", 0, 256) == CERNE_OK && size == 0);

  for (const float wrong : {NAN, INFINITY, -INFINITY, 65505.0f}) {
    x[256 + 9] = wrong;
    for (const char* name : kNames) {
      const bool holds =
          wrong == 65505.0f && (name == std::string("F32") || name == std::string("BF16"));
      if (holds) {
        CHECK(call(name, 2, 256) == CERNE_OK);
      } else {
        refused(call(name, 2, 256), "row 1, column 9 holds");
      }
    }
  }
  x[256 + 9] = 3.4e38f;
  refused(call("BF16", 2, 256), "row 1, column 9 holds 3.39999995e+38");
  x[256 + 9] = 0;
  std::vector<float> importance(256, 1.0f);
  for (const float wrong : {NAN, INFINITY, -1.0f}) {
    importance[3] = wrong;
    refused(call("Q4_K", 2, 256, importance.data()), "importance of column 3");
  }
}

CERNE_TEST(progress_hears_of_all_rows_and_can_stop) {
  const std::vector<float> values = bell(256 * 3000, 5, 1.0f);
  std::vector<uint8_t> blocks(3000 * 8 * 18);
  size_t size = 0;
  struct Heard {
    uint64_t calls = 0, last = 0, stop_after = 1000;
  } heard;
  const cerne_progress listen = [](void* user, uint64_t done, uint64_t total) -> int32_t {
    auto& self = *static_cast<Heard*>(user);
    CHECK(done > self.last && done <= total && total == 3000);
    self.last = done;
    return ++self.calls == self.stop_after ? 1 : 0;
  };
  const auto call = [&] {
    return cerne_quantize_rows("Q4_0", 4, values.data(), 3000, 256, nullptr, 2, listen, &heard,
                               blocks.data(), blocks.size(), &size);
  };
  CHECK(call() == CERNE_OK && heard.last == 3000 && heard.calls > 1);
  heard = {0, 0, 1};
  CHECK(call() == CERNE_STOPPED && heard.calls == 1);
}
