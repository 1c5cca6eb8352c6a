#include "model/rope.h"

#include "gguf_cursor.h"
#include "math64.h"
#include "status.h"

namespace cerne {
namespace {

constexpr double kPi = 3.14159265358979323846;

double floor64(double x) {
  const double whole = static_cast<double>(static_cast<long long>(x));
  return whole > x ? whole - 1.0 : whole;
}

double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

// Llama 3.1: long wavelengths are divided by the factor, short ones kept, a blend between.
double llama3(double f, const RopeScaling& scaling) {
  const double wavelength = 2.0 * kPi / f;
  const double ratio = scaling.original_context / wavelength;
  if (ratio > scaling.high_freq_factor) return f;
  if (ratio < scaling.low_freq_factor) return f / scaling.factor;
  const double blend =
      (ratio - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - blend) * f / scaling.factor + blend * f;
}

// YaRN (arXiv:2309.00071), section 3.2: the ends of the ramp between scaled and kept dimensions.
struct Ramp {
  double low;
  double high;
};

Ramp yarn_ramp(size_t head_dim, double theta, const RopeScaling& scaling) {
  const double width = static_cast<double>(head_dim);
  const auto dimension_of = [&](double rotations) {
    return width * log64(scaling.original_context / (rotations * 2.0 * kPi)) / (2.0 * log64(theta));
  };
  double low = dimension_of(scaling.beta_fast);
  double high = dimension_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = floor64(low);
    high = -floor64(-high);
  }
  low = low < 0.0 ? 0.0 : low;
  high = high > width - 1.0 ? width - 1.0 : high;
  return {low, low == high ? high + 0.001 : high};
}

void check(size_t head_dim, double theta, const RopeScaling& scaling) {
  if (head_dim % 2 != 0) throw invalid("the head width is odd; rotary embeddings turn pairs");
  if (!(theta > 1.0 && theta < 1e15)) {
    throw invalid("rope.freq_base " + std::to_string(theta) + "; allowed: above 1 to 1e15");
  }
  if (scaling.kind != "none" && scaling.kind != "linear" && scaling.kind != "yarn" &&
      scaling.kind != "llama3") {
    throw invalid("rope.scaling.type " + quoted(scaling.kind) +
                  "; known: none, linear, yarn, llama3");
  }
  if (!(scaling.factor >= 1.0 && scaling.factor < 1e9)) {
    throw invalid("rope.scaling.factor " + std::to_string(scaling.factor) + "; allowed: 1 to 1e9");
  }
  const bool needs_context = scaling.kind == "yarn" || scaling.kind == "llama3";
  if (needs_context && !(scaling.original_context >= 1.0 && scaling.original_context < 1e12)) {
    throw invalid("rope.scaling.original_context_length " +
                  std::to_string(scaling.original_context) + "; allowed: 1 to 1e12");
  }
  if (!(scaling.attention_factor > 0.0 && scaling.attention_factor < 1e6)) {
    throw invalid("rope.scaling.attn_factor " + std::to_string(scaling.attention_factor) +
                  "; allowed: above 0 to 1e6");
  }
  if (!(scaling.beta_fast > 0.0 && scaling.beta_slow > 0.0 &&
        scaling.low_freq_factor < scaling.high_freq_factor)) {
    throw invalid("the numbers of rope.scaling contradict each other");
  }
}

}  // namespace

RopeFrequencies rope_frequencies(size_t head_dim, double theta, const RopeScaling& scaling,
                                 const std::vector<float>& divisors) {
  check(head_dim, theta, scaling);
  const size_t half = head_dim / 2;
  if (!divisors.empty() && divisors.size() != half) {
    throw invalid("rope_freqs has " + std::to_string(divisors.size()) +
                  " values; needed: " + std::to_string(half));
  }
  RopeFrequencies result;
  const double log_theta = log64(theta);
  const bool yarn = scaling.kind == "yarn";
  const Ramp ramp = yarn ? yarn_ramp(head_dim, theta, scaling) : Ramp{0.0, 1.0};
  for (size_t i = 0; i < half; ++i) {
    double f = exp64(-(2.0 * static_cast<double>(i) / static_cast<double>(head_dim)) * log_theta);
    if (scaling.kind == "linear") f = f / scaling.factor;
    if (scaling.kind == "llama3") f = llama3(f, scaling);
    if (yarn) {
      const double place = (static_cast<double>(i) - ramp.low) / (ramp.high - ramp.low);
      const double scaled = clamp(place, 0.0, 1.0);
      f = f / scaling.factor * scaled + f * (1.0 - scaled);
    }
    if (!divisors.empty()) f = f / static_cast<double>(divisors[i]);
    result.values.push_back(static_cast<float>(f));
  }
  if (yarn) {
    const double own = 0.1 * log64(scaling.factor) + 1.0;
    result.magnitude = static_cast<float>(scaling.attention_factor * own);
  }
  return result;
}

void RopeTable::reach(size_t end) {
  const size_t made = cosines_.size() / half();
  if (end <= made) return;
  const size_t positions = end > 2 * made ? end : 2 * made;
  cosines_.resize(positions * half());
  sines_.resize(positions * half());
  for (size_t p = made; p < positions; ++p) {
    for (size_t i = 0; i < half(); ++i) {
      const float angle = static_cast<float>(p) * frequencies_.values[i];
      const SineCosine exact = sine_cosine64(static_cast<double>(angle));
      cosines_[p * half() + i] = static_cast<float>(exact.cosine) * frequencies_.magnitude;
      sines_[p * half() + i] = static_cast<float>(exact.sine) * frequencies_.magnitude;
    }
  }
}

}  // namespace cerne
