// The one thread pool: every kernel and every matrix product runs on it. A job is a number of
// chunks; the caller and the workers each claim the next chunk until none is left, so a worker that
// has lost its core delays nobody. How it stays free of races: Note [Claiming] in pool.cpp.
//
// Results must not depend on the number of threads: chunk boundaries depend on the problem only
// (parallel_ranges), and whoever combines the chunks' results does so in chunk order.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace adjoint::parallel {

// A borrowed `void f(int64_t)`: two words, no allocation. The callee must outlive the call.
class FunctionRef {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f) noexcept  // implicit: lambdas are passed directly
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, int64_t i) {
          (*static_cast<std::remove_reference_t<F>*>(object))(i);
        }) {}
  void operator()(int64_t i) const { call_(object_, i); }

 private:
  void* object_;
  void (*call_)(void*, int64_t);
};

// Runs f(0) ... f(chunks - 1), each once, in any order, on this thread and the workers; returns
// when all are done. f must not throw (an exception ends the process) and must not touch Python
// objects. Where the pool is taken (f itself calls parallel_for, another thread's job is
// running) the caller runs all chunks alone: it never waits for the pool, so nothing can deadlock.
void parallel_for(int64_t chunks, FunctionRef f);

// f(begin, end) over [0, n) in pieces of `grain` (the last may be shorter).
template <class F>
void parallel_ranges(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (n <= grain) {
    f(int64_t{0}, n);
    return;
  }
  parallel_for((n - 1) / grain + 1, [&](int64_t i) {
    const int64_t begin = i * grain;
    f(begin, n - begin < grain ? n : begin + grain);
  });
}

// Ends the jobs of this thread early. While one is alive, `ask(owner)` is called in this thread
// some twenty times a second, between chunks and by stopping(). Once it has said yes, chunks that
// are left are not run and parallel_for returns: what was computed is worthless.
class Stoppable {
 public:
  using Ask = bool (*)(void* owner);
  Stoppable(Ask ask, void* owner) noexcept;  // without `ask` it does nothing
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  bool asked() noexcept;  // whether the answer is or was yes

 private:
  Ask ask_;
  void* owner_;
  Stoppable* outer_;
  int64_t next_;  // when to ask again, in nanoseconds
  bool stopped_ = false;
};

// Whether the job of the chunk in hand is to end: for chunks that are long themselves.
bool stopping() noexcept;

// Threads that take part in a job, the caller included. At first: ADJOINT_NUM_THREADS, else
// OMP_NUM_THREADS, else the physical cores this process may run on.
int get_num_threads() noexcept;
// Throws std::invalid_argument unless 1 <= n <= 1024. With 1 everything runs in the caller.
void set_num_threads(int n);
// Whether this thread is running a chunk: a nested parallel_for would be serial.
bool in_parallel() noexcept;

}  // namespace adjoint::parallel
