#include "team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "float_environment.h"
#include "thread_pool.h"

namespace cerne {
namespace {

// About 20 microseconds: longer than a phase, shorter than a time slice.
constexpr int kSpins = 1000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits until `word` is no longer `seen`: spins, then sleeps.
void wait_for_change(const std::atomic<uint32_t>& word, uint32_t seen, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return;
    relax();
  }
  while (word.load(std::memory_order_acquire) == seen) word.wait(seen, std::memory_order_acquire);
}

}  // namespace

Team::Team(size_t num_threads) : size_(num_threads) {
  try {
    for (size_t i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { worker_loop(i); });
  } catch (...) {
    stop();
    throw;
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopping_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::run(const std::function<void(size_t)>& work) {
  const FloatEnvironment environment;
  work_ = &work;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  work(0);
  barrier();
}

void Team::barrier() {
  if (size_ == 1) return;
  // More threads than cores: whoever spins holds up the one that is waited for.
  static const size_t cores = hardware_threads();
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  wait_for_change(phase_, phase, size_ > cores ? 0 : kSpins);
}

void Team::worker_loop(size_t thread) {
  const FloatEnvironment environment;
  uint32_t seen = 0;
  while (true) {
    wait_for_change(started_, seen, kSpins);
    // One run at a time, and a run ends only when this thread has come: it cannot miss one.
    ++seen;
    if (stopping_) return;
    (*work_)(thread);
    barrier();
  }
}

}  // namespace cerne
