// Memory for what lies between reading and writing. Kernels run without the GIL and on threads of
// the pool, so it does not come from the allocator of tensors; and threads must not throw, so a
// failure is noted and raised by the caller.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace adjoint::fft {

class Failed {
 public:
  void note() { failed_.store(true, std::memory_order_relaxed); }
  void check() const {
    if (failed_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  std::atomic<bool> failed_{false};
};

struct KeptBlock {
  void* block = nullptr;
  bool taken = false;
  ~KeptBlock() { std::free(block); }
};
inline thread_local KeptBlock kept;

// A block that each thread keeps, for the small; memory of its own for the large, or where the
// thread's is in use.
template <class T>
class Scratch {
 public:
  Scratch(int64_t count, Failed& failed) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    keeps_ = bytes <= kKept && !kept.taken;
    if (keeps_) {
      if (!kept.block) kept.block = std::aligned_alloc(64, kKept);
      kept.taken = true;
    }
    data_ = static_cast<T*>(keeps_ ? kept.block : std::aligned_alloc(64, bytes));
    if (!data_) failed.note();
  }
  ~Scratch() {
    if (keeps_) {
      kept.taken = false;
    } else {
      std::free(data_);
    }
  }
  Scratch(const Scratch&) = delete;
  explicit operator bool() const { return data_; }
  T* get() const { return data_; }

 private:
  static constexpr size_t kKept = size_t{1} << 18;
  T* data_;
  bool keeps_;
};

}  // namespace adjoint::fft
