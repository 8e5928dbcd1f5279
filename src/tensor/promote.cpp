// The tables of promotion, and of what may be cast to what. Read promote.h first.
#include "tensor/promote.h"

#include "tensor/error.h"

namespace adjoint {
namespace {

DType g_default = DType::Float32;

int category(DType d) { return d == DType::Bool ? 0 : is_integral(d) ? 1 : is_floating(d) ? 2 : 3; }

[[noreturn, gnu::cold]] void refuse_promotion(DType a, DType b) {
  runtime_error(
      "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ", a,
      " and ", b, "; fix: convert one of them with .to()");
}

}  // namespace

DType default_dtype() { return g_default; }
void set_default_dtype(DType d) { g_default = d; }

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  if (is_wide_unsigned(b) || (is_wide_unsigned(a) && !is_floating(b))) refuse_promotion(a, b);
  // In the order of the enum the larger dtype wins, but for these:
  if (a == DType::UInt8 && b >= DType::Int8 && b <= DType::Int64)
    return b == DType::Int8 ? DType::Int16 : b;
  if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
  if (a == DType::Float64 && b == DType::Complex64) return DType::Complex128;
  return b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to)) return false;
  return from == DType::Bool || to != DType::Bool;
}

DType scalar_dtype(const Value& v) {
  switch (v.kind()) {
    case Value::Bool:
      return DType::Bool;
    case Value::Int:
      return DType::Int64;
    case Value::Double:
      return g_default;
    default:
      return complex_dtype(g_default);
  }
}

void ResultType::join(int rank, DType d) {
  if (seen_[rank] && rank_[rank] == d) return;
  rank_[rank] = seen_[rank] ? promote_types(rank_[rank], d) : d;
  seen_[rank] = true;
}

void ResultType::add(const Value& v) {
  if (v.is_tensor()) {
    join(v.object()->ndim == 0 ? 1 : 0, v.object()->dtype);
  } else if (v.is_scalar()) {
    join(2, scalar_dtype(v));
  }
}

DType ResultType::get() const {
  bool any = false;
  DType result = g_default;
  for (int r = 0; r < 3; ++r) {
    if (!seen_[r]) continue;
    DType lower = rank_[r];
    if (!any) {
      result = lower;
      any = true;
    } else if (category(lower) > category(result)) {
      // Only the category rises: a float result keeps its precision when it becomes complex.
      result = is_floating(result) ? complex_dtype(result)
               : is_complex(lower) ? lower
                                   : promote_types(result, lower);
    }
  }
  return result;
}

}  // namespace adjoint
