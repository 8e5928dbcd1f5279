// Two ops in one loop, for the loops of compiled programs (program/fuse/chains.cpp): what lies between
// them stays in a register. Each is rounded as by a loop of its own; CMakeLists.txt keeps the compiler from contracting
// products and sums of this file.
#include "kernels/elementwise/loops.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

#define FLOATS float, double

// then(first(a, b), c), and then(c, first(a, b)).
#define CHAIN(name, first, then)                                     \
  same<FLOATS>("chain_" #name, [](auto a, auto b, auto c) {          \
    auto t = a first b;                                              \
    return t then c;                                                 \
  });                                                                \
  same<FLOATS>("chain_" #name "_right", [](auto a, auto b, auto c) { \
    auto t = a first b;                                              \
    return c then t;                                                 \
  })

const bool registered = [] {
  CHAIN(add_add, +, +);
  CHAIN(add_sub, +, -);
  CHAIN(add_mul, +, *);
  CHAIN(sub_add, -, +);
  CHAIN(sub_sub, -, -);
  CHAIN(sub_mul, -, *);
  CHAIN(mul_add, *, +);
  CHAIN(mul_sub, *, -);
  CHAIN(mul_mul, *, *);
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
