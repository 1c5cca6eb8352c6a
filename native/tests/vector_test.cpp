// The vector kernels of every instruction set give the bits of the scalar ones, on hard inputs too.
#include "kernels/vector.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "formats/half.h"
#include "kernels/math.h"

namespace {

using cerne::AttentionState;
using cerne::Gate;
using cerne::kPagePositions;
using cerne::PageView;
using cerne::VectorKernels;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Payload and sign of a NaN are not defined; all else is compared bit by bit.
bool same(float a, float b) {
  if (a != a && b != b) return true;
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

class Values {
 public:
  explicit Values(uint32_t seed) : random_(seed) {}

  // Ordinary numbers; every `hard`-th one is chosen to break something (0: none).
  std::vector<float> make(size_t size, unsigned hard) {
    static const float kHard[] = {0.0f,   -0.0f,     1e-42f,     -1e-45f, 3.4e38f, -3.4e38f, 88.6f,
                                  -87.5f, kInfinity, -kInfinity, NAN,     1e30f,   -1e30f};
    std::normal_distribution<float> normal(0.0f, 2.0f);
    std::vector<float> values(size);
    for (float& value : values) {
      value = normal(random_);
      if (hard != 0 && random_() % hard == 0) value = kHard[random_() % std::size(kHard)];
    }
    return values;
  }

  size_t below(size_t limit) { return random_() % limit; }

 private:
  std::mt19937 random_;
};

std::vector<const VectorKernels*> fast_kernels() {
  std::vector<const VectorKernels*> result;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    result.push_back(&cerne::kAvx2VectorKernels);
  }
#endif
  return result;
}

const unsigned kHardness[] = {0, 50, 3};

CERNE_TEST(vector_kernels_equal_scalar) {
  const VectorKernels& plain = cerne::kScalarVectorKernels;
  Values values(1);
  for (const VectorKernels* fast : fast_kernels()) {
    for (const unsigned hard : kHardness) {
      for (const size_t size : {1, 7, 8, 15, 16, 17, 31, 32, 64, 100, 576, 1000}) {
        const std::vector<float> x = values.make(size, hard);
        const std::vector<float> y = values.make(size, hard);
        std::vector<float> a(size);
        std::vector<float> b(size);
        plain.rms_norm(x.data(), y.data(), size, 1e-5f, a.data());
        fast->rms_norm(x.data(), y.data(), size, 1e-5f, b.data());
        CHECK(same(a, b));
        for (const Gate gate : {Gate::kSilu, Gate::kGelu}) {
          a = b = x;
          plain.gated(gate, a.data(), y.data(), size);
          fast->gated(gate, b.data(), y.data(), size);
          CHECK(same(a, b));
        }
        a = b = x;
        plain.add(a.data(), y.data(), size);
        fast->add(b.data(), y.data(), size);
        CHECK(same(a, b));
        if (size % 2 != 0) continue;
        a = b = x;
        plain.rotate(a.data(), y.data(), y.data() + size / 2, size);
        fast->rotate(b.data(), y.data(), y.data() + size / 2, size);
        CHECK(same(a, b));
      }
    }
  }
}

template <typename T>
void compare_pages(const VectorKernels& fast, Values& values, unsigned hard, size_t head_dim) {
  const VectorKernels& plain = cerne::kScalarVectorKernels;
  constexpr bool kHalf = sizeof(T) == 2;
  // What was there before must not matter where no token is: here it is NaNs.
  std::vector<T> keys(kPagePositions * head_dim);
  std::memset(keys.data(), 0xff, keys.size() * sizeof(T));
  std::vector<T> stored = keys;
  std::vector<T> also = keys;
  std::vector<T> also_keys = keys;
  const size_t last = 1 + values.below(kPagePositions);
  const size_t first = values.below(last);
  for (size_t at = first; at < last; ++at) {
    const std::vector<float> key = values.make(head_dim, hard);
    const std::vector<float> value = values.make(head_dim, hard);
    if constexpr (kHalf) {
      plain.store_half(key.data(), value.data(), head_dim, at, keys.data(), stored.data());
      fast.store_half(key.data(), value.data(), head_dim, at, also_keys.data(), also.data());
    } else {
      plain.store_float(key.data(), value.data(), head_dim, at, keys.data(), stored.data());
      fast.store_float(key.data(), value.data(), head_dim, at, also_keys.data(), also.data());
    }
  }
  if (hard == 0) {
    CHECK(std::memcmp(keys.data(), also_keys.data(), keys.size() * sizeof(T)) == 0);
    CHECK(std::memcmp(stored.data(), also.data(), stored.size() * sizeof(T)) == 0);
  }
  const size_t heads = 1 + values.below(9);
  const std::vector<float> queries = values.make(heads * head_dim, hard);
  const PageView view{keys.data(), stored.data(), head_dim, first, last};
  std::vector<AttentionState> states(heads);
  std::vector<AttentionState> fast_states(heads);
  std::vector<float> a(heads * head_dim);
  std::vector<float> b(heads * head_dim);
  const auto score = kHalf ? plain.page_half : plain.page_float;
  const auto fast_score = kHalf ? fast.page_half : fast.page_float;
  score(queries.data(), heads, view, 0.125f, states.data(), a.data());
  fast_score(queries.data(), heads, view, 0.125f, fast_states.data(), b.data());
  for (size_t h = 0; h < heads; ++h) {
    CHECK(same(states[h].sum, fast_states[h].sum));
    // Of a NaN sum the maximum has no meaning.
    CHECK(states[h].sum != states[h].sum || states[h].highest == fast_states[h].highest);
  }
  CHECK(same(a, b));
  std::vector<float> out(head_dim);
  std::vector<float> fast_out(head_dim);
  for (size_t h = 1; h < heads; ++h) {
    plain.join(&states[0], a.data(), states[h], a.data() + h * head_dim, head_dim);
    fast.join(&fast_states[0], b.data(), fast_states[h], b.data() + h * head_dim, head_dim);
  }
  plain.finish(states[0], a.data(), head_dim, out.data());
  fast.finish(fast_states[0], b.data(), head_dim, fast_out.data());
  CHECK(same(out, fast_out));
}

CERNE_TEST(attention_kernels_equal_scalar) {
  Values values(2);
  for (const VectorKernels* fast : fast_kernels()) {
    for (const unsigned hard : kHardness) {
      for (int i = 0; i < 60; ++i) {
        for (const size_t head_dim : {8, 12, 24, 64, 80, 256}) {
          compare_pages<uint16_t>(*fast, values, hard, head_dim);
          compare_pages<float>(*fast, values, hard, head_dim);
        }
      }
    }
  }
}

CERNE_TEST(exp_is_close_and_defined_everywhere) {
  CHECK(cerne::exp(0.0f) == 1.0f);
  CHECK(cerne::exp(89.0f) == kInfinity);
  CHECK(cerne::exp(kInfinity) == kInfinity);
  CHECK(cerne::exp(-88.0f) == 0.0f && cerne::exp(-kInfinity) == 0.0f);
  CHECK(cerne::exp(NAN) != cerne::exp(NAN));
  for (float x = -87.0f; x < 88.5f; x += 0.00371f) {
    const double exact = std::exp(static_cast<double>(x));
    CHECK(std::fabs(static_cast<double>(cerne::exp(x)) - exact) <= 2e-7 * exact);
  }
}

// A softmax over two pages, joined, is the softmax over all positions.
CERNE_TEST(joined_pages_are_one_softmax) {
  Values values(3);
  constexpr size_t kDim = 16;
  const VectorKernels& kernels = cerne::vector_kernels();
  std::vector<float> keys[2] = {std::vector<float>(kPagePositions * kDim),
                                std::vector<float>(kPagePositions * kDim)};
  std::vector<float> stored[2] = {keys[0], keys[0]};
  std::vector<std::vector<float>> all_keys;
  std::vector<std::vector<float>> all_values;
  const size_t length = kPagePositions + 21;
  for (size_t j = 0; j < length; ++j) {
    all_keys.push_back(values.make(kDim, 0));
    all_values.push_back(values.make(kDim, 0));
    kernels.store_float(all_keys[j].data(), all_values[j].data(), kDim, j % kPagePositions,
                        keys[j / kPagePositions].data(), stored[j / kPagePositions].data());
  }
  const std::vector<float> query = values.make(kDim, 0);
  AttentionState states[2];
  std::vector<float> outputs(2 * kDim);
  for (size_t page = 0; page < 2; ++page) {
    const PageView view{keys[page].data(), stored[page].data(), kDim, 0,
                        page == 0 ? kPagePositions : 21};
    kernels.page_float(query.data(), 1, view, 0.25f, states + page, outputs.data() + page * kDim);
  }
  kernels.join(&states[0], outputs.data(), states[1], outputs.data() + kDim, kDim);
  kernels.finish(states[0], outputs.data(), kDim, outputs.data());
  std::vector<double> expected(kDim);
  double total = 0.0;
  for (size_t j = 0; j < length; ++j) {
    double score = 0.0;
    for (size_t e = 0; e < kDim; ++e) score += static_cast<double>(query[e]) * all_keys[j][e];
    const double weight = std::exp(0.25 * score);
    total += weight;
    for (size_t e = 0; e < kDim; ++e) expected[e] += weight * all_values[j][e];
  }
  for (size_t e = 0; e < kDim; ++e) {
    CHECK(std::fabs(outputs[e] - expected[e] / total) < 1e-5);
  }
}

CERNE_TEST(half_conversions_round_trip_and_round_to_even) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = cerne::half_to_float(static_cast<uint16_t>(bits));
    const uint16_t back = cerne::float_to_half(value);
    const bool nan = value != value;
    CHECK(nan ? (back & 0x7e00u) == 0x7e00u : back == bits);
  }
  CHECK(cerne::float_to_half(65519.0f) == 0x7bff && cerne::float_to_half(65520.0f) == 0x7c00);
  CHECK(cerne::float_to_half(2049.0f) == cerne::float_to_half(2048.0f));
  CHECK(cerne::float_to_half(2051.0f) == cerne::float_to_half(2052.0f));
  CHECK(cerne::float_to_half(0x1p-25f) == 0 && cerne::float_to_half(0x1.8p-25f) == 1);
  CHECK(cerne::float_to_half(-0.0f) == 0x8000);
}

}  // namespace
