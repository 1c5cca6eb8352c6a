#include "thread_pool.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

CERNE_TEST(each_piece_runs_once) {
  for (const size_t threads : {size_t{1}, size_t{2}, size_t{5}}) {
    cerne::ThreadPool pool(threads);
    CHECK(pool.num_threads() == threads);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{4}, size_t{1000}}) {
      std::vector<std::atomic<int>> runs(count);
      pool.parallel_for(count, [&](size_t i) { runs[i].fetch_add(1); });
      for (const auto& run : runs) CHECK(run.load() == 1);
    }
  }
}

CERNE_TEST(a_failing_piece_is_told_and_the_pool_lives_on) {
  cerne::ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    bool told = false;
    try {
      pool.parallel_for(100, [](size_t i) {
        if (i == 13) throw std::runtime_error("piece 13");
      });
    } catch (const std::runtime_error& error) {
      told = std::string(error.what()) == "piece 13";
    }
    CHECK(told);
    std::atomic<size_t> sum{0};
    pool.parallel_for(10, [&](size_t i) { sum += i; });
    CHECK(sum == 45);
  }
}

CERNE_TEST(callers_take_turns) {
  cerne::ThreadPool pool(2);
  std::vector<std::thread> callers;
  std::atomic<size_t> sum{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) pool.parallel_for(8, [&](size_t) { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4u * 50u * 8u);
}
