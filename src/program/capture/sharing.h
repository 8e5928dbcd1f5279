// Which inputs of a program lie on the same memory. Read next: assemble.cpp, which notes it, and
// `accepts` in program/replay/replay.cpp, which compares.
#pragma once
#include <unordered_map>
#include <vector>

#include "tensor/storage.h"

namespace adjoint {

// Which of a list of tensors is the first on the same memory as another. Storages on arrays from
// outside may overlap: those count as the same memory.
class Sharing {
 public:
  // For the k-th tensor, one after the other; -1 when its storage joins memory that was apart.
  int first_on(const Storage* s, int k);

 private:
  std::unordered_map<const Storage*, int> first_;
  std::vector<const Storage*> foreign_;
};

}  // namespace adjoint
