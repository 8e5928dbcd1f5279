// What kernels compute, as formulas that can be written into generated code: arithmetic, selections,
// and of the functions those that are most used. A formula is used only after it has given the bits
// of the kernel on numbers of all kinds: how the compiler has contracted the kernel's products into
// fused ones is not written anywhere else.
#pragma once
#include <span>

#include "kernels/kernel.h"
#include "program/native/lanes.h"

namespace adjoint::native {

// A value in generated code: lanes of a float dtype, or a mask.
struct Value {
  std::string name;
  DType dtype = DType::Float32;
};

struct Formula {
  const Kernel* kernel;
  int results, inputs;
  bool makes_mask, takes_masks;  // all operands are masks; of `where`, the first
  bool chooses;                  // `where`
  void (*write)(TextLanes& lanes, const Value* in, std::string* out);
  // One element by the formula: `d` is Float32 or Float64.
  void (*compute)(DType d, bool fused, const char* const* in, char* const* out);
};

// A loop of the library that has a formula: null for most.
struct Known {
  const Formula* formula = nullptr;
  DType dtype = DType::Float32;  // of the floats that it works on
};
Known formula_of(Loop loop);

// Whether products and sums are contracted by the kernels of the active instruction set.
bool fuses_products();

}  // namespace adjoint::native
