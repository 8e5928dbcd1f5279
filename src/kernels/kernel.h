// A kernel is a loop over contiguous memory, one function per dtype, built once per instruction set
// and found by name at import. Everything around it (strides, broadcasting, dtype conversion,
// threads) is the business of elementwise/elementwise.cpp, which hands kernels contiguous runs.
//
//   KERNEL1_FLOAT(exp, exp(x))          one line in a file of per-instruction-set kernels
//   find_kernel("exp")                  what the op block of `exp` resolves at import
//
// Read next: kernels/isa/unary_float.cpp for lines of this kind, elementwise/elementwise.h for who calls them.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

// p[0] is the output, p[1..] the inputs, each contiguous, `n` elements. The output may be the same
// memory as an input, but never overlaps one partly. No alignment beyond the element's own.
using Loop = void (*)(char* const* p, int64_t n);

enum class Result : uint8_t {
  Same,  // the output has the dtype of the inputs
  Bool,  // comparisons and predicates
  Real,  // abs of complex and its like: the output is the real dtype
};

// What a program has to know of a kernel besides its loops.
enum KernelTrait : uint8_t {
  kCondition = 1,        // the first operand is a condition: one byte, whatever the dtype
  kProduct = 2,          // of two factors
  kDividesIntegers = 4,  // and raises the flag of elementwise/faults.h for a zero
  kSignless = 8,         // the bits of integers do not depend on whether they have a sign
};

// `loop[d]` is null where the kernel has no form for dtype d. Kernels for Float16 and BFloat16 are
// not written: the caller converts tiles to float32 and back.
struct Kernel {
  const char* name = nullptr;
  uint8_t inputs = 0;
  Result result = Result::Same;
  uint8_t traits = 0;  // KernelTrait
  Loop loop[kDTypes] = {};
  bool has(KernelTrait t) const { return traits & t; }
};

// Instruction sets a kernel file can be built for, weakest first. `Base` is x86-64-v2 or any other
// processor's default.
enum class Isa : uint8_t { Base, V3, V4 };
inline constexpr int kIsas = 3;

// Called by static registrars before main; adds the dtype's loop to the kernel of that name.
void register_loop(Isa isa, const char* name, int inputs, Result result, DType dtype, Loop loop);
void register_trait(const char* name, KernelTrait trait);

// The kernel of that name, each dtype's loop taken from the best instruction set this processor has
// and that has one. Null if there is none.
const Kernel* find_kernel(const char* name);

// What find_kernel chooses from; `ADJOINT_ISA=base|v3|v4` in the environment lowers it (for tests).
Isa active_isa();
const char* isa_name(Isa isa);

struct LoopRegistrar {
  LoopRegistrar(Isa isa, const char* name, int inputs, Result result, DType dtype, Loop loop) {
    register_loop(isa, name, inputs, result, dtype, loop);
  }
};

}  // namespace adjoint

// Files compiled per instruction set get ADJOINT_ISA_TAG = Base, V3 or V4 from CMake; their code
// lives in a namespace of that name so that the linker never mixes two builds of one inline
// function.
#ifndef ADJOINT_ISA_TAG
#define ADJOINT_ISA_TAG Base
#endif
