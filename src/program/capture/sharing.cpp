// Which inputs of a program lie on the same memory. Read sharing.h first.
#include "program/capture/sharing.h"

namespace adjoint {

int Sharing::first_on(const Storage* s, int k) {
  auto [found, fresh] = first_.emplace(s, k);
  if (!fresh || s->own) return found->second;
  for (const Storage* other : foreign_) {
    if (!overlap(other, s)) continue;
    int first = first_.at(other);
    found->second = found->second == k || found->second == first ? first : -1;
  }
  foreign_.push_back(s);
  return found->second;
}

}  // namespace adjoint
