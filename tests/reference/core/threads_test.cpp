// parallel_for: every item once, exceptions come back, nothing runs on.
#include "reference/core/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace megatoken {
namespace {

TEST(ParallelFor, CallsEveryItemOnce) {
  for (int threads : {1, 2, 3, 16})
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      parallel_for(count, threads, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
      for (auto& c : calls) ASSERT_EQ(c, 1) << count << " items on " << threads << " threads";
    }
}

TEST(ParallelFor, RunsOnAsManyThreadsAsAsked) {
  std::mutex lock;
  std::set<std::thread::id> seen;
  std::atomic<int> waiting{0};
  parallel_for(3, 3, [&](int64_t) {
    ++waiting;
    while (waiting < 3) std::this_thread::yield();  // ends only when all three run at once
    const std::lock_guard guard(lock);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 3u);
}

TEST(ParallelFor, WorksInTheCallersThreadWhenAskedForNone) {
  for (int threads : {1, 0, -3}) {
    const auto caller = std::this_thread::get_id();
    int64_t expected = 0;
    parallel_for(5, threads, [&](int64_t i) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_EQ(i, expected++);
    });
    EXPECT_EQ(expected, 5);
  }
}

TEST(ParallelFor, GivesEachThreadItsItemsInOrder) {
  std::mutex lock;
  std::vector<std::pair<std::thread::id, int64_t>> calls;
  parallel_for(200, 4, [&](int64_t i) {
    const std::lock_guard guard(lock);
    for (const auto& [id, item] : calls) ASSERT_TRUE(id != std::this_thread::get_id() || item < i);
    calls.emplace_back(std::this_thread::get_id(), i);
  });
}

TEST(ParallelFor, ThrowsTheFirstExceptionAfterAllThreadsStopped) {
  for (int threads : {1, 4}) {
    std::atomic<int> running{0}, started{0};
    try {
      parallel_for(100000, threads, [&](int64_t i) {
        ++running, ++started;
        if (i == 5) {
          --running;
          throw std::runtime_error("item 5");
        }
        --running;
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "item 5");
    }
    EXPECT_EQ(running, 0);
    EXPECT_LT(started, 100000) << "the rest is not worth running";
  }
}

TEST(ParallelFor, MayBeNested) {
  std::atomic<int64_t> sum{0};
  parallel_for(4, 2, [&](int64_t i) { parallel_for(5, 2, [&](int64_t j) { sum += 10 * i + j; }); });
  EXPECT_EQ(sum, 5 * 60 + 4 * 10);
}

TEST(Threads, AtLeastOneIsThere) { EXPECT_GE(hardware_threads(), 1); }

}  // namespace
}  // namespace megatoken
