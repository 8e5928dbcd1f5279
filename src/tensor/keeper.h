// Who keeps memory for later besides the allocator (object_pool.h): its figures count theirs, and
// release_cached() asks them too. They are there as long as the process. Guarded by the GIL.
#pragma once
#include <cstddef>

namespace adjoint::memory {

class Keeper {
 public:
  virtual size_t reserved() const noexcept = 0;  // bytes held from the operating system
  virtual size_t release() noexcept = 0;         // gives back what it can; how many bytes

  // Of all of them.
  static size_t all_reserved() noexcept;
  static size_t release_all() noexcept;

 protected:
  constexpr Keeper() = default;
  ~Keeper() = default;
  void count_from_now_on() noexcept;

 private:
  Keeper* next_ = nullptr;
  static Keeper* first_;
};

}  // namespace adjoint::memory
