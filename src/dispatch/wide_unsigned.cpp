// Read wide_unsigned.h first.
#include "dispatch/wide_unsigned.h"

namespace adjoint {
namespace {

[[noreturn, gnu::cold]] void refuse(const Op& op, DType d) {
  not_implemented("\"", op.facts.called ? op.facts.called : op.name.c_str(),
                  "\" not implemented for '", d,
                  "'; fix: convert with .to(), for example to int64");
}

}  // namespace

void check_wide_unsigned(const Call& c) {
  const bool operands = c.op.facts.any_dtype;
  auto check = [&](DType d, bool taken) {
    if (is_wide_unsigned(d) && !taken) [[unlikely]]
      refuse(c.op, d);
  };
  for (int i = 0; i < c.op.argument_count; ++i) {
    const Value& v = c.args[i];
    if (v.is_tensor()) {
      check(v.object()->dtype, operands);
    } else if (v.kind() == Value::Type) {
      check(v.dtype(), false);
    } else if (v.is_tensors()) {
      for (const Tensor& t : v.tensors()) {
        if (t) check(t.dtype(), operands);
      }
    }
  }
  if (c.out) check(c.out.dtype(), operands);
}

}  // namespace adjoint
