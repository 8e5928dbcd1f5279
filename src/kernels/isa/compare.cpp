// Comparisons and logical connectives, elementwise, giving bool. Complex numbers have no order.
// Read next: kernels/elementwise/loops.h.
#include "kernels/elementwise/loops.h"
#include "kernels/convert_element.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

#define REALS bool, uint8_t, int8_t, int16_t, int32_t, int64_t, float, double

template <class T>
inline bool operator==(Pair<T> a, Pair<T> b) {
  return (a.re == b.re) & (a.im == b.im);
}

template <class F, class T>
void register_complex(const char* name, DType dtype) {
  register_loop(kThisIsa, name, arity<F, T>(), Result::Bool, dtype, uniform_loop<F, bool, T>());
}

template <class F>
void for_all(const char* name, F f) {
  to_bool<REALS>(name, f);
  register_complex<F, Pair<float>>(name, DType::Complex64);
  register_complex<F, Pair<double>>(name, DType::Complex128);
}

const bool registered = [] {
  for (const char* name : {"eq", "ne"}) register_trait(name, kSignless);
  for_all("eq", [](auto a, auto b) { return a == b; });
  for_all("ne", [](auto a, auto b) { return !(a == b); });
  to_bool<REALS>("lt", [](auto a, auto b) { return a < b; });
  to_bool<REALS>("le", [](auto a, auto b) { return a <= b; });
  to_bool<REALS>("gt", [](auto a, auto b) { return a > b; });
  to_bool<REALS>("ge", [](auto a, auto b) { return a >= b; });
  for_all("logical_and", [](auto a, auto b) { return bool(bool(a) & bool(b)); });
  for_all("logical_or", [](auto a, auto b) { return bool(bool(a) | bool(b)); });
  for_all("logical_xor", [](auto a, auto b) { return bool(a) != bool(b); });
  for_all("logical_not", [](auto a) { return !bool(a); });
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
