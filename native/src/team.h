// Threads that walk through one computation together, with a barrier between its phases.
//
// A forward pass has hundreds of phases of a few microseconds, too short for a queue of tasks
// (thread_pool.h): here each thread knows its share of every phase.
#ifndef CERNE_SRC_TEAM_H_
#define CERNE_SRC_TEAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace cerne {

// [begin, end) of `count` items: the share of one thread; shares differ by one item at most.
struct Share {
  size_t begin;
  size_t end;
};

inline Share share_of(size_t count, size_t thread, size_t num_threads) {
  return {count * thread / num_threads, count * (thread + 1) / num_threads};
}

class Team {
 public:
  // The calling thread is thread 0, so `num_threads` - 1 threads are started.
  explicit Team(size_t num_threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  size_t size() const { return size_; }

  // Runs work(thread) once on each thread and returns when all are done. `work` must not throw.
  // One run at a time.
  void run(const std::function<void(size_t thread)>& work);

  // Called by every thread inside `run`: nobody goes on before all have come. What was written
  // before it is seen after it.
  void barrier();

 private:
  void worker_loop(size_t thread);
  void stop();

  size_t size_;
  std::vector<std::thread> workers_;
  const std::function<void(size_t)>* work_ = nullptr;
  bool stopping_ = false;
  // On cache lines of their own: every thread spins on one while another changes.
  alignas(64) std::atomic<uint32_t> started_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<size_t> arrived_{0};
};

}  // namespace cerne

#endif  // CERNE_SRC_TEAM_H_
