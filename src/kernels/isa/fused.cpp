// Short products and selections that derivatives are made of, fused so that each is one pass over
// memory. The incoming gradient is the first operand.
// Read next: kernels/elementwise/loops.h; ops/elementwise/fused.cpp for the ops they become.
#include <limits>

#include "kernels/elementwise/loops.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

#define FLOATS float, double
#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t

void register_products() {
  same<FLOATS>("mul_scaled", [](auto g, auto x, auto k) { return g * (x * k); });
  same<FLOATS>("neg_mul_div", [](auto g, auto x, auto y) { return -g * (x / y); });
  // -g * (x / y / y) with one division, which is what takes the time. The reciprocal of a number near
  // the smallest one would overflow, so such a divisor is scaled.
  same<FLOATS>("divisor_grad", [](auto g, auto x, auto y) {
    using T = decltype(g);
    T tiny = 4 * std::numeric_limits<T>::min(),
      scale = ((y < tiny) & (y > -tiny)) ? T(1LL << 60) : T(1);
    T reciprocal = 1 / (y * scale);
    return -g * (x * scale * reciprocal * reciprocal * scale);
  });
  same<FLOATS>("cube", [](auto x) { return x * x * x; });
  same<INTS>("cube", [](auto x) { return wide_t<decltype(x)>(x) * x * x; });
  same<FLOATS>("rsqrt_grad", [](auto g, auto y) { return decltype(g)(-0.5) * g * (y * y * y); });
  same<FLOATS>("sqrt_grad", [](auto g, auto y) { return g / (2 * y); });
}

// What passes a selection. Where two arguments tie, each takes half of the gradient.
void register_selections() {
  same<FLOATS>("clamp_grad", [](auto g, auto x, auto low, auto high) {
    return ((x >= low) & (x <= high)) ? g : decltype(g)(0);
  });
  same<FLOATS>("max_grad", [](auto g, auto x, auto y) {
    using T = decltype(g);
    return x == y ? g * T(0.5) : x < y ? T(0) : g;
  });
  same<FLOATS>("abs_grad", [](auto g, auto x) {
    using T = decltype(g);
    return x > 0 ? g : x < 0 ? -g : g * (x == x ? T(0) : x);
  });
}

const bool registered = [] {
  register_products();
  register_selections();
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
