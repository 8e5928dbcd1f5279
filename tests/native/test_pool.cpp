// The thread pool under stress: every chunk once, nested and concurrent callers, a changing number
// of threads, forks. Meant to be run under ThreadSanitizer too. Build with src/parallel/*.cpp; an
// argument sets the number of jobs of the long tests.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "parallel/pool.h"
#include "check.h"

using namespace adjoint;
using parallel::parallel_for;
using parallel::parallel_ranges;

namespace {

int jobs = 200'000;

// Plain (not atomic) writes: a chunk run twice or a return that is too early is a race TSan sees.
void every_chunk_runs_once() {
  std::vector<int> hits(64);
  bool right = true;
  for (int j = 0; j < jobs; ++j) {
    const int chunks = 2 + j % 60;
    std::fill(hits.begin(), hits.end(), 0);
    parallel_for(chunks, [&](int64_t i) { hits[static_cast<size_t>(i)] += j + 1; });
    for (int i = 0; i < 64; ++i) right &= hits[static_cast<size_t>(i)] == (i < chunks ? j + 1 : 0);
  }
  CHECK(right);
}

void nested_calls_are_serial() {
  bool right = true;
  for (int j = 0; j < jobs / 20; ++j) {
    int64_t sums[8] = {};
    parallel_for(8, [&](int64_t i) { parallel_for(10, [&](int64_t k) { sums[i] += k; }); });
    for (int64_t s : sums) right &= s == 45;
  }
  CHECK(right);
  CHECK(!parallel::in_parallel());
}

void callers_from_several_threads() {
  std::atomic<bool> right{true}, stop{false};
  std::thread changer([&] {
    for (int n = 1; !stop; n = n % 5 + 1) {
      parallel::set_num_threads(n);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&, t] {
      std::vector<int64_t> out(40);
      for (int j = 0; j < jobs / 3; ++j) {
        const int chunks = 1 + (j + t) % 40;
        parallel_for(chunks, [&](int64_t i) {
          out[static_cast<size_t>(i)] = i * j;
          if (j % 64) return;
          int64_t parts[3];
          parallel_for(3, [&](int64_t k) { parts[k] = k - 1; });
          out[static_cast<size_t>(i)] += parts[0] + parts[1] + parts[2];  // 0
        });
        for (int i = 0; i < chunks; ++i)
          if (out[static_cast<size_t>(i)] != int64_t{i} * j) right = false;
      }
    });
  for (auto& c : callers) c.join();
  stop = true;
  changer.join();
  CHECK(right);
  parallel::set_num_threads(3);
}

void ranges_cover_and_depend_on_the_problem_only() {
  for (int threads : {1, 2, 4}) {
    parallel::set_num_threads(threads);
    for (int64_t n : {0, 1, 9, 10, 11, 99, 100, 101})
      for (int64_t grain : {1, 10, 1000}) {
        std::vector<int64_t> ends(static_cast<size_t>(n) + 1, -1);
        parallel_ranges(n, grain, [&](int64_t b, int64_t e) { ends[static_cast<size_t>(b)] = e; });
        for (int64_t b = 0; b < n; ++b)
          CHECK(ends[static_cast<size_t>(b)] == (b % grain ? -1 : std::min(n, b + grain)));
      }
  }
}

void bad_numbers_are_refused() {
  for (int n : {0, -1, 1'000'000}) {
    bool refused = false;
    try {
      parallel::set_num_threads(n);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused);
  }
  parallel::set_num_threads(4);
  CHECK(parallel::get_num_threads() == 4);
}

#ifndef __SANITIZE_THREAD__  // which does not follow new threads of a forked child
int64_t sum_to(int64_t n) {
  std::vector<int64_t> parts(static_cast<size_t>(n));
  parallel_for(n, [&](int64_t i) { parts[static_cast<size_t>(i)] = i; });
  return std::accumulate(parts.begin(), parts.end(), int64_t{0});
}

void children_start_their_own_workers() {
  parallel::set_num_threads(3);
  CHECK(sum_to(100) == 4950);
  std::atomic<bool> stop{false};
  std::thread busy([&] {  // forks meet a pool in mid-job
    while (!stop) sum_to(50);
  });
  for (int f = 0; f < 20; ++f) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      bool right = true;
      for (int j = 0; j < 200; ++j) right &= sum_to(100) == 4950;
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(sum_to(100) == 4950 ? 0 : 1);
      int status = 1;
      waitpid(grandchild, &status, 0);
      _exit(right && status == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(sum_to(100) == 4950);
  }
  stop = true;
  busy.join();
}
#endif

// A job that is to end drops what is left; others, before and after it and of other threads, do not.
void jobs_end_when_told_to() {
  std::atomic<bool> right{true}, over{false};
  std::thread other([&] {
    while (!over) {
      std::atomic<int64_t> sum{0};
      parallel_for(40, [&](int64_t i) { sum += i; });
      right = right && sum == 780;
    }
  });
  for (int j = 0; j < 5; ++j) {
    int asked = 0;
    std::atomic<int64_t> ran{0};
    {
      parallel::Stoppable stop([](void* count) { return ++*static_cast<int*>(count) == 2; },
                               &asked);
      parallel_for(int64_t{1} << 40, [&](int64_t) { ++ran; });
      CHECK(stop.asked());
      CHECK(parallel::stopping());
    }
    CHECK(asked == 2);
    CHECK(ran > 0 && ran < int64_t{1} << 40);
    CHECK(!parallel::stopping());
    std::vector<int> hits(1000);
    parallel_for(1000, [&](int64_t i) { ++hits[static_cast<size_t>(i)]; });
    CHECK(std::accumulate(hits.begin(), hits.end(), 0) == 1000);
  }
  over = true;
  other.join();
  CHECK(right);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) jobs = std::atoi(argv[1]);
  CHECK(parallel::get_num_threads() >= 1);
  parallel::set_num_threads(3);
  every_chunk_runs_once();
  nested_calls_are_serial();
  callers_from_several_threads();
  ranges_cover_and_depend_on_the_problem_only();
  bad_numbers_are_refused();
  jobs_end_when_told_to();
#ifndef __SANITIZE_THREAD__
  children_start_their_own_workers();
#endif
  return report("pool");
}
