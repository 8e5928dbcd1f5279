#include "dispatch/wide_unsigned.h"

namespace adjoint {
namespace {

bool takes_any(const Op& op) {
  const Facts& f = op.facts;
  return !op.batch || is_pointwise(op) || op.operands || op.is_view || f.any_dtype || f.copies ||
         f.fills || f.uninitialised;
}

[[noreturn]] void refuse(const Op& op, DType d) {
  const char* names[] = {"UInt16", "UInt32", "UInt64"};
  not_implemented("\"", op.name, "\" not implemented for '",
                  names[static_cast<int>(d) - static_cast<int>(DType::UInt16)],
                  "'; fix: convert with .to(), for example to int64");
}

void check(const Op& op, DType d) {
  if (is_wide_unsigned(d) && !takes_any(op)) [[unlikely]]
    refuse(op, d);
}

}  // namespace

void refuse_wide_unsigned(const Call& c) {
  for (int i = 0; i < c.op.argument_count; ++i) {
    const Value& v = c.args[i];
    if (v.is_tensor()) {
      check(c.op, v.object()->dtype);
    } else if (v.kind() == Value::Type) {
      check(c.op, v.dtype());
    } else if (v.is_tensors()) {
      for (const Tensor& t : v.tensors()) {
        if (t) check(c.op, t.dtype());
      }
    }
  }
  if (c.out) check(c.op, c.out.dtype());
}

}  // namespace adjoint
