// Operands of ops that nobody but adjoint calls. A public op refuses what it cannot take; these are given what
// fits, and trust it. A program from a file may give them anything, so before such an op runs for the first time, on
// stand-ins of the operands' forms (bindings/program/exchange.cpp), its rule is asked: shapes and dtypes are the
// same in every run. What depends on values (indices, pivots) the op itself checks each time.
#pragma once
#include <span>

#include "dispatch/op.h"

namespace adjoint {

// Throws ValueError where the operands are none that the op's callers would give, or no rule says.
void check_operands(const Call& c);
// Whether a file may hold the op at all: a public one, an elementwise one, or one with a rule.
bool has_operand_rule(const Op& op);
[[noreturn]] void refuse_operands(const Op& op);

namespace operands {

using Rule = bool (*)(const Call& c);
struct Entry {
  const char* op;
  Rule fits;
};
// By subject: shapes and sums here, layers and matrices in files of their own.
std::span<const Entry> layer_rules();
std::span<const Entry> matrix_rules();

inline bool any(const Call&) { return true; }
inline bool same(Span a, Span b) { return a == b; }
inline bool is_float(const Tensor& t) { return is_floating(t.dtype()); }
inline bool is_number(const Tensor& t) { return is_float(t) || is_complex(t.dtype()); }
inline bool is_axis(int64_t d, int ndim) { return d >= -ndim && d < ndim; }
// Numbers of a window, a step or an axis: nothing that is added to them overflows.
bool are_between(const Dims& d, int64_t least, int64_t most = int64_t{1} << 31);
// A tensor of a shape without its memory.
Tensor blank(Span shape, DType dtype);
Dims with_back(Span shape, int64_t last);

// The shape of a sum over one axis or several (all, for an empty list).
Dims summed_shape(Span whole, const Dims& dims, bool keepdim);

}  // namespace operands
}  // namespace adjoint
