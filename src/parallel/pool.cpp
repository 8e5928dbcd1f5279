// The thread pool; its interface and promises are in pool.h.
//
// Note [Claiming]
// One word, `state`, holds a job's chunk count and the next unclaimed chunk. A thread claims a
// chunk by a compare-and-swap that advances `next`, and only then reads the job. This is free of
// races however long a thread slept between reading `state` and its swap: the swap succeeds only if
// chunk `next` of the *current* job is unclaimed (an equal word of a later job is just as good a
// claim), and a job with a claimed, unfinished chunk stays in place, because its caller waits until
// `done` equals the count. So the caller waits for chunks that were taken, never for a worker that
// took none.
//
// Sleeping and waking: a worker raises `sleeping`, then looks at `epoch` once more; the caller
// changes `epoch`, then looks at `sleeping`. Both in sequential consistency, so one of them sees
// the other.
#include "parallel/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "parallel/cores.h"

namespace adjoint::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxChunks = UINT32_MAX;  // half of `state`
// A worker spins this long for the next job: longer than the Python between two operations.
constexpr auto kSpin = std::chrono::microseconds(50);

// Trivially destructible and never torn down: workers may still look at it while the process exits.
struct Pool {
  alignas(64) std::atomic<uint64_t> state{0};  // chunks << 32 | next
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) std::atomic<int> epoch{0};  // int: the one width that waits on a futex directly
  std::atomic<int> sleeping{0};
  alignas(64) std::atomic<bool> busy{false};  // a caller owns the pool; guards `workers`
  std::atomic<int> threads{0};                // 0: not yet decided
  int workers = 0;
  alignas(64) const FunctionRef* job = nullptr;
  std::atomic<bool> stop{false};  // the job is to end early
};
constinit Pool pool;
thread_local bool in_chunk = false;
thread_local bool is_worker = false;
thread_local Stoppable* stoppable = nullptr;

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Claims all chunks that are left, of a job that is to end early; returns how many. The caller has
// a chunk of the job that is not counted as done yet, so the job stays in place.
int64_t claim_rest() noexcept {
  uint64_t seen = pool.state.load(std::memory_order_relaxed);
  int64_t rest;
  do {
    rest = static_cast<int64_t>(seen >> 32) - static_cast<int64_t>(static_cast<uint32_t>(seen));
  } while (!pool.state.compare_exchange_weak(seen, seen + static_cast<uint64_t>(rest),
                                             std::memory_order_acq_rel, std::memory_order_relaxed));
  return rest;
}

// Claims and runs chunks until none is left.
void work() noexcept {
  int64_t finished = 0;
  uint64_t seen = pool.state.load(std::memory_order_relaxed);
  for (;;) {
    const uint32_t next = static_cast<uint32_t>(seen);
    if (next >= seen >> 32) break;
    if (!pool.state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
      continue;
    if (stoppable && stoppable->asked()) pool.stop.store(true, std::memory_order_relaxed);
    const bool stop = pool.stop.load(std::memory_order_relaxed);
    if (!stop) (*pool.job)(next);
    finished += stop ? 1 + claim_rest() : 1;
    seen = pool.state.load(std::memory_order_relaxed);
  }
  // Late is safe: until these are counted the caller cannot end the job.
  if (finished) pool.done.fetch_add(finished, std::memory_order_release);
}

// Returns the new epoch once it differs from `seen`.
int await_epoch(int seen, bool spin) noexcept {
  const auto start = Clock::now();
  while (spin && Clock::now() - start < kSpin)
    for (int i = 0; i < 32; ++i) {
      if (const int e = pool.epoch.load(std::memory_order_acquire); e != seen) return e;
      pause();
    }
  pool.sleeping.fetch_add(1);
  pool.epoch.wait(seen);
  pool.sleeping.fetch_sub(1);
  return pool.epoch.load(std::memory_order_acquire);
}

// `seen` was read by the starter, before the job that the worker was started for.
void run_worker(int index, int seen) noexcept {
  in_chunk = is_worker = true;
  for (;;) {
    // Surplus after set_num_threads: asleep, ready for a larger number.
    const bool wanted = index < pool.threads.load(std::memory_order_relaxed);
    seen = await_epoch(seen, wanted);
    if (index < pool.threads.load(std::memory_order_relaxed)) work();
  }
}

// After a fork only the forking thread exists; whatever job was running belongs to the parent.
void forget_workers() noexcept {
  pool.state.store(0);
  pool.done.store(0);
  pool.sleeping.store(0);
  pool.workers = 0;
  pool.busy.store(false);
}

// Called with the pool owned. A machine that refuses another thread leaves us with those we have.
void start_workers(int wanted) noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_workers);
  (void)registered;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all,
                  &old);  // signals are for Python's threads; workers inherit this
  try {
    while (pool.workers < wanted) {
      std::thread(run_worker, pool.workers + 1, pool.epoch.load()).detach();
      ++pool.workers;
    }
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void wake(int64_t helpers) noexcept {
  pool.epoch.fetch_add(1);
  const int asleep = pool.sleeping.load();
  if (asleep == 0) return;
  // Surplus workers share the futex, so single wake-ups could reach only them.
  if (helpers >= asleep || pool.workers >= pool.threads.load(std::memory_order_relaxed)) {
    pool.epoch.notify_all();
  } else {
    for (int64_t i = 0; i < helpers; ++i) pool.epoch.notify_one();
  }
}

void run(int64_t chunks, const FunctionRef& f, int threads) noexcept {
  if (pool.workers < threads - 1) start_workers(threads - 1);
  pool.job = &f;
  pool.stop.store(false, std::memory_order_relaxed);
  pool.done.store(0, std::memory_order_relaxed);
  pool.state.store(static_cast<uint64_t>(chunks) << 32, std::memory_order_release);
  wake(chunks - 1);
  in_chunk = true;
  work();
  in_chunk = false;
  for (int spins = 0; pool.done.load(std::memory_order_acquire) != chunks; ++spins)
    if (spins < 2000)
      pause();
    else
      sched_yield();  // a worker lost its core in mid-chunk: perhaps to us
}

void run_serial(int64_t chunks, const FunctionRef& f) noexcept {
  for (int64_t i = 0; i < chunks && !(stoppable && stoppable->asked()); ++i) f(i);
}

}  // namespace

void parallel_for(int64_t chunks, FunctionRef f) {
  if (chunks <= 0) return;
  const int threads = get_num_threads();
  if (chunks == 1 || threads == 1 || in_chunk ||
      pool.busy.exchange(true, std::memory_order_acquire))
    return run_serial(chunks, f);
  if (chunks <= kMaxChunks) {
    run(chunks, f, threads);
  } else {
    const int64_t stride = (chunks - 1) / kMaxChunks + 1;
    const auto several = [&](int64_t i) {
      for (int64_t j = i * stride; j < chunks && j < (i + 1) * stride; ++j) f(j);
    };
    run((chunks - 1) / stride + 1, FunctionRef(several), threads);
  }
  pool.busy.store(false, std::memory_order_release);
}

namespace {

int64_t nanoseconds() noexcept {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}
constexpr int64_t kAskEvery = 50'000'000;

}  // namespace

Stoppable::Stoppable(Ask ask, void* owner) noexcept
    : ask_(ask), owner_(owner), outer_(stoppable), next_(ask ? nanoseconds() + kAskEvery : 0) {
  if (ask_) stoppable = this;
}

Stoppable::~Stoppable() { stoppable = outer_; }

bool Stoppable::asked() noexcept {
  if (stopped_) return true;
  if (const int64_t now = nanoseconds(); now >= next_) {
    stopped_ = ask_(owner_);
    next_ = now + kAskEvery;
  }
  return stopped_;
}

bool stopping() noexcept {
  if (is_worker) return pool.stop.load(std::memory_order_relaxed);
  return stoppable && stoppable->asked();
}

int get_num_threads() noexcept {
  int n = pool.threads.load(std::memory_order_relaxed);
  if (n == 0) {
    const int found = default_threads(kMaxThreads);
    // Another thread may have decided meanwhile; the first decision stands.
    n = pool.threads.compare_exchange_strong(n, found) ? found : n;
  }
  return n;
}

void set_num_threads(int n) {
  if (n < 1 || n > kMaxThreads)
    throw std::invalid_argument("set_num_threads expects a number from 1 to " +
                                std::to_string(kMaxThreads) + ", got " + std::to_string(n));
  pool.threads.store(n, std::memory_order_relaxed);
}

bool in_parallel() noexcept { return in_chunk; }

}  // namespace adjoint::parallel
