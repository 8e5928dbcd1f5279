// Read wide_unsigned.h first.
#include "dispatch/wide_unsigned.h"

namespace adjoint {

void no_loop_for_wide_unsigned(const char* name, DType d) {
  not_implemented("\"", name, "\" not implemented for '", d,
                  "'; fix: convert with .to(), for example to int64");
}

void check_wide_unsigned(const Call& c) {
  const Facts& f = c.op.facts;
  auto check = [&](DType d, bool taken) {
    if (is_wide_unsigned(d) && !taken) [[unlikely]]
      no_loop_for_wide_unsigned(f.called ? f.called : c.op.name.c_str(), d);
  };
  for (int i = 0; i < c.op.argument_count; ++i) {
    const Value& v = c.args[i];
    if (v.is_tensor()) {
      check(v.object()->dtype, f.any_dtype);
    } else if (v.kind() == Value::Type) {
      check(v.dtype(), false);
    } else if (v.is_tensors()) {
      for (const Tensor& t : v.tensors()) {
        if (t) check(t.dtype(), f.any_dtype);
      }
    }
  }
  if (c.out) check(c.out.dtype(), f.any_dtype);
}

}  // namespace adjoint
