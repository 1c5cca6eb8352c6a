// Threads of a team: shares cover everything, and nobody passes a barrier early.
#include "team.h"

#include <atomic>
#include <vector>

#include "check.h"

namespace {

CERNE_TEST(shares_cover_every_item_once) {
  for (const size_t count : {0, 1, 5, 16, 1000}) {
    for (const size_t threads : {1, 2, 3, 8}) {
      size_t next = 0;
      for (size_t thread = 0; thread < threads; ++thread) {
        const cerne::Share share = cerne::share_of(count, thread, threads);
        CHECK(share.begin == next && share.end >= share.begin);
        CHECK(share.end - share.begin <= count / threads + 1);
        next = share.end;
      }
      CHECK(next == count);
    }
  }
}

CERNE_TEST(team_barrier_separates_phases) {
  for (const size_t threads : {1, 2, 3, 8}) {
    cerne::Team team(threads);
    std::vector<int> written(threads);
    std::atomic<int> wrong{0};
    int expected = 0;
    for (int run = 0; run < 50; ++run) {
      team.run([&](size_t thread) {
        for (int phase = 1; phase <= 20; ++phase) {
          written[thread] = run * 100 + phase;
          team.barrier();
          for (const int value : written) wrong += value != run * 100 + phase;
          team.barrier();
        }
      });
      expected = run * 100 + 20;
      for (const int value : written) CHECK(value == expected);
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
