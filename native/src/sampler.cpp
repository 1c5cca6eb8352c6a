#include "sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "float_environment.h"
#include "math64.h"
#include "philox.h"
#include "status.h"

namespace cerne {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// e^x for x <= 0, as docs/sampling.md has it: fdlibm's, so not exp64 of math64.h.
double exp_below_zero(double x) {
  constexpr double kLog2E = 1.44269504088896338700;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double kP1 = 1.66666666666666019037e-01, kP2 = -2.77777777770155933842e-03;
  constexpr double kP3 = 6.61375632143793436117e-05, kP4 = -1.65339022054652515390e-06;
  constexpr double kP5 = 4.13813679705723846039e-08;
  const bool tiny = x < -700.0;
  const double clipped = tiny ? 0.0 : x;
  const double rounded = clipped * kLog2E + kRounder;
  const double n = rounded - kRounder;
  const double high = clipped - n * kLn2High;
  const double low = n * kLn2Low;
  const double r = high - low;
  const double t = r * r;
  const double c = r - t * (kP1 + t * (kP2 + t * (kP3 + t * (kP4 + t * kP5))));
  const double y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
  // The low bits of `rounded` hold n; y and y * 2^n are normal, so n is added to the exponent.
  const uint64_t power = std::bit_cast<uint64_t>(rounded) << 52;
  return tiny ? 0.0 : std::bit_cast<double>(std::bit_cast<uint64_t>(y) + power);
}

[[noreturn]] void refuse(double highest) {
  const char* const value = std::isnan(highest) ? "nan" : highest > 0 ? "inf" : "-inf";
  throw invalid("the logits do not define a distribution; got " + std::string(value) +
                "; allowed: no NaN, no +inf, and at least one finite logit; try: check the "
                "model's weights and logit_bias");
}

// The lowest index of the highest value. Throws when it is not finite or a NaN is there.
template <typename T>
size_t index_of_highest(const T* values, size_t size) {
  constexpr size_t kBlock = 16;
  T best = -std::numeric_limits<T>::infinity();
  size_t index = 0;
  const auto look = [&](size_t i) {
    if (values[i] <= best) return;
    best = values[i];
    index = i;
    // Nothing is higher than +infinity or a NaN, and a NaN is what NumPy's maximum would show.
    if (!(best <= std::numeric_limits<T>::max())) {
      for (size_t k = i; k < size; ++k) {
        if (std::isnan(values[k])) refuse(std::numeric_limits<double>::quiet_NaN());
      }
      refuse(kInfinity);
    }
  };
  size_t i = 0;
  for (; i + kBlock <= size; i += kBlock) {
    // Most blocks hold nothing higher; this loop is one or two vector instructions.
    int higher = 0;
    for (size_t k = 0; k < kBlock; ++k) higher |= !(values[i + k] <= best);
    if (higher == 0) continue;
    for (size_t k = 0; k < kBlock; ++k) look(i + k);
  }
  for (; i < size; ++i) look(i);
  if (best == -std::numeric_limits<T>::infinity()) refuse(-kInfinity);
  return index;
}

struct Candidate {
  double logit;
  double weight;
  uint32_t id;
};

// The order of candidates: logit descending, id ascending.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }

// The k first in the order above, by increasing id. Ids come in increasing order, so an equal logit
// never displaces one that is there.
std::vector<Candidate> highest(const std::vector<double>& logits, size_t k) {
  std::vector<Candidate> heap;  // the last in the order is in front
  heap.reserve(k);
  for (uint32_t id = 0; id < k; ++id) heap.push_back({logits[id], 0.0, id});
  std::make_heap(heap.begin(), heap.end(), before);
  for (uint32_t id = static_cast<uint32_t>(k); id < logits.size(); ++id) {
    if (logits[id] <= heap.front().logit) continue;
    std::pop_heap(heap.begin(), heap.end(), before);
    heap.back() = {logits[id], 0.0, id};
    std::push_heap(heap.begin(), heap.end(), before);
  }
  std::sort(heap.begin(), heap.end(), by_id);
  return heap;
}

std::vector<Candidate> everything(const std::vector<double>& logits) {
  std::vector<Candidate> all(logits.size());
  for (uint32_t id = 0; id < logits.size(); ++id) all[id] = {logits[id], 0.0, id};
  return all;
}

double sum_in_order(const std::vector<Candidate>& candidates) {
  double sum = 0.0;
  for (const Candidate& one : candidates) sum += one.weight;
  return sum;
}

// Takes from `head`, which holds the first candidates in the order, until their weights reach
// `needed`; false when they never do.
bool take_head(std::vector<Candidate>& head, double needed) {
  const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
  std::make_heap(head.begin(), head.end(), after);
  double sum = 0.0;
  for (auto end = head.end(); end != head.begin();) {
    std::pop_heap(head.begin(), end, after);
    --end;
    sum += end->weight;
    if (sum >= needed) {
      head.erase(head.begin(), end);
      return true;
    }
  }
  return false;
}

// The smallest head of the distribution that holds the share `p`, by increasing id.
void keep_top_p(std::vector<Candidate>& candidates, double top, double p) {
  const double total = sum_in_order(candidates);
  const double needed = p * total;
  // All that are less probable than this weigh less than 1 - p together: hardly ever needed, and
  // without them there is little to put in order. Where the line lies changes no result.
  const double share = (1.0 - p) * total / static_cast<double>(candidates.size());
  const double line = top + log64(std::max(share, 1e-300));
  std::vector<Candidate> head;
  for (const Candidate& one : candidates) {
    if (one.logit >= line) head.push_back(one);
  }
  if (!take_head(head, needed)) {
    head = candidates;
    // Rounding may leave the sum of all in another order below what is needed: then all stay.
    if (!take_head(head, needed)) return;
  }
  std::sort(head.begin(), head.end(), by_id);
  candidates = std::move(head);
}

// The candidate at which the running sum of weights first exceeds number * total.
uint32_t draw(const std::vector<Candidate>& candidates, double number) {
  const double target = number * sum_in_order(candidates);
  double sum = 0.0;
  for (const Candidate& one : candidates) {
    sum += one.weight;
    if (sum > target) return one.id;
  }
  return candidates.back().id;
}

}  // namespace

void SamplingParams::set_integer(const std::string& name, int64_t value) {
  if (name == "seed") {
    seed = static_cast<uint64_t>(value);
  } else if (name == "top_k") {
    if (value < 0) throw invalid("top_k is " + std::to_string(value) + "; allowed: 0 or more");
    top_k = static_cast<uint64_t>(value);
  } else {
    throw invalid("unknown integer option '" + name + "'; known: seed, top_k");
  }
}

void SamplingParams::set_number(const std::string& name, double value) {
  struct Option {
    const char* name;
    double* place;
    bool fits;
    const char* allowed;
  };
  const Option options[] = {
      {"temperature", &temperature, value >= 0.0 && value <= 100.0, "0 to 100"},
      {"top_p", &top_p, value > 0.0 && value <= 1.0, "above 0, up to 1"},
      {"min_p", &min_p, value >= 0.0 && value < 1.0, "0 to below 1"},
      {"repetition_penalty", &repetition_penalty, value > 0.0 && value <= 100.0,
       "above 0, up to 100"},
      {"presence_penalty", &presence_penalty, value >= -2.0 && value <= 2.0, "-2 to 2"},
      {"frequency_penalty", &frequency_penalty, value >= -2.0 && value <= 2.0, "-2 to 2"}};
  for (const Option& option : options) {
    if (name != option.name) continue;
    if (!option.fits) {
      throw invalid(name + " is " + std::to_string(value) + "; allowed: " + option.allowed);
    }
    *option.place = value;
    return;
  }
  throw invalid("unknown number option '" + name +
                "'; known: temperature, top_p, min_p, repetition_penalty, presence_penalty, "
                "frequency_penalty");
}

void Sampler::add_bias(uint32_t token, double bias) {
  if (std::isnan(bias) || bias == kInfinity) {
    throw invalid("the bias of token " + std::to_string(token) +
                  " is no number that can be added; allowed: finite numbers and -infinity");
  }
  bias_[token] = bias;
}

void Sampler::accept(uint32_t token, bool generated) { counts_[token] += generated; }

bool Sampler::shifts() const {
  return !bias_.empty() || params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

void Sampler::shift(std::vector<double>& logits) const {
  const auto check = [&](uint32_t token, const char* what) {
    if (token < logits.size()) return;
    throw invalid(std::string(what) + "; got " + std::to_string(token) + "; allowed: 0 to " +
                  std::to_string(logits.size() - 1));
  };
  for (const auto& [token, bias] : bias_) {
    check(token, "logit_bias names a token outside the vocabulary");
    logits[token] += bias;
  }
  for (const auto& [token, count] : counts_) {
    check(token, "a token of the sequence is outside the vocabulary");
    double& logit = logits[token];
    const double r = params.repetition_penalty;
    if (r != 1.0) logit = logit > 0.0 ? logit / r : logit * r;
    if (count == 0) continue;
    logit =
        (logit - static_cast<double>(count) * params.frequency_penalty) - params.presence_penalty;
  }
}

uint32_t Sampler::choose(const float* logits, size_t size, uint32_t choice,
                         uint64_t position) const {
  const FloatEnvironment plain;
  const double t = params.temperature;
  if (t == 0.0 && !shifts()) return static_cast<uint32_t>(index_of_highest(logits, size));
  std::vector<double> scaled(logits, logits + size);
  if (shifts()) shift(scaled);
  if (t == 0.0) return static_cast<uint32_t>(index_of_highest(scaled.data(), size));
  if (t != 1.0) {
    for (double& value : scaled) value /= t;
  }
  const double top = scaled[index_of_highest(scaled.data(), size)];
  std::vector<Candidate> candidates = params.top_k == 0 || params.top_k >= size
                                          ? everything(scaled)
                                          : highest(scaled, static_cast<size_t>(params.top_k));
  for (Candidate& one : candidates) one.weight = exp_below_zero(one.logit - top);
  if (params.top_p < 1.0) keep_top_p(candidates, top, params.top_p);
  if (params.min_p > 0.0) {
    std::erase_if(candidates, [&](const Candidate& one) { return one.weight < params.min_p; });
  }
  return draw(candidates, uniform(params.seed, choice, position));
}

}  // namespace cerne
