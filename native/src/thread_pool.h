// A pool of worker threads that share out independent pieces of work by index.
#ifndef CERNE_SRC_THREAD_POOL_H_
#define CERNE_SRC_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace cerne {

// Threads that the machine offers to this process, at least 1.
size_t hardware_threads();

// Pieces are handed out in index order to whoever is free, so results must not depend on which
// thread runs a piece. One parallel_for runs at a time; a second caller waits its turn.
class ThreadPool {
 public:
  // The calling thread works too, so `num_threads` - 1 threads are started.
  explicit ThreadPool(size_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return workers_.size() + 1; }

  // Calls body(index) once for each index in [0, count) and waits. The first exception is thrown
  // again here; pieces that have not begun by then are skipped.
  void parallel_for(size_t count, const std::function<void(size_t index)>& body);

 private:
  void worker_loop();
  void run_pieces();
  void stop_workers();

  std::vector<std::thread> workers_;
  std::mutex caller_mutex_;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  const std::function<void(size_t)>* body_ = nullptr;
  std::exception_ptr failure_;
  std::atomic<size_t> next_{0};
  size_t count_ = 0;
  size_t generation_ = 0;
  size_t busy_ = 0;
  bool stopping_ = false;
};

}  // namespace cerne

#endif  // CERNE_SRC_THREAD_POOL_H_
