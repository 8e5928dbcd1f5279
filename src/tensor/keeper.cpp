// Read keeper.h first.
#include "tensor/keeper.h"

#include <utility>

namespace adjoint::memory {

constinit Keeper* Keeper::first_ = nullptr;

void Keeper::count_from_now_on() noexcept { next_ = std::exchange(first_, this); }

size_t Keeper::all_reserved() noexcept {
  size_t bytes = 0;
  for (const Keeper* k = first_; k; k = k->next_) bytes += k->reserved();
  return bytes;
}

size_t Keeper::release_all() noexcept {
  size_t bytes = 0;
  for (Keeper* k = first_; k; k = k->next_) bytes += k->release();
  return bytes;
}

}  // namespace adjoint::memory
