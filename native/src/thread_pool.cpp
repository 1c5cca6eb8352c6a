#include "thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace cerne {

size_t hardware_threads() {
#if defined(__linux__)
  // The affinity mask knows about pinning and containers; hardware_concurrency may not.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<size_t>(count);
  }
#endif
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

ThreadPool::ThreadPool(size_t num_threads) {
  try {
    for (size_t i = 1; i < num_threads; ++i) workers_.emplace_back([this] { worker_loop(); });
  } catch (...) {
    stop_workers();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::stop_workers() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::parallel_for(size_t count, const std::function<void(size_t)>& body) {
  if (count == 0) return;
  std::lock_guard<std::mutex> caller(caller_mutex_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    failure_ = nullptr;
    busy_ = workers_.size();
    ++generation_;
  }
  work_ready_.notify_all();
  run_pieces();
  std::unique_lock<std::mutex> lock(mutex_);
  work_done_.wait(lock, [this] { return busy_ == 0; });
  body_ = nullptr;
  if (failure_ != nullptr) {
    std::exception_ptr failure = std::exchange(failure_, nullptr);
    lock.unlock();
    std::rethrow_exception(failure);
  }
}

void ThreadPool::run_pieces() {
  for (;;) {
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) return;
    try {
      (*body_)(index);
    } catch (...) {
      next_.store(count_, std::memory_order_relaxed);
      std::lock_guard<std::mutex> lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
}

void ThreadPool::worker_loop() {
  size_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_ready_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    run_pieces();
    std::lock_guard<std::mutex> lock(mutex_);
    if (--busy_ == 0) work_done_.notify_one();
  }
}

}  // namespace cerne
