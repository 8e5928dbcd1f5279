// Rules for products, factors and decompositions. Read operand_rules.h first.
#include "program/operand_rules.h"

namespace adjoint::operands {
namespace {

bool is_matrix(const Tensor& t) { return t.ndim() >= 2 && is_number(t); }
bool is_square(const Tensor& t) { return is_matrix(t) && t.size(-1) == t.size(-2); }
Span leading(const Tensor& t, int axes) { return {t->shape, t.ndim() - axes}; }
// A dtype that LAPACK has.
bool is_lapack(const Tensor& t) {
  return t.dtype() == DType::Float32 || t.dtype() == DType::Float64 || is_complex(t.dtype());
}

// One pivot for each row of the factors.
bool are_factors(const Tensor& lu, const Tensor& pivots) {
  return is_square(lu) && is_lapack(lu) && pivots.dtype() == DType::Int32 &&
         pivots.ndim() == lu.ndim() - 1 && same({lu->shape, lu.ndim() - 1}, pivots.shape());
}
bool solves(const Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1), lu = c.tensor(2);
  return are_factors(lu, c.tensor(3)) && same(a.shape(), lu.shape()) && a.dtype() == lu.dtype() &&
         is_matrix(b) && b.dtype() == lu.dtype() && b.size(c.flag(4) ? -2 : -1) == lu.size(-1);
}
bool is_system(const Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  return is_square(a) && is_lapack(a) && is_matrix(b) && a.dtype() == b.dtype() &&
         b.size(c.flag(2) ? -2 : -1) == a.size(-1);
}
bool is_linear(const Call& c) {
  Tensor x = c.tensor(0), w = c.tensor(1);
  return x.ndim() >= 1 && w.ndim() == 2 && x.dtype() == w.dtype() && x.size(-1) == w.size(1);
}

constexpr Entry kRules[] = {
    {"_linear", is_linear},
    {"_linear_bias",
     [](const Call& c) {
       return is_linear(c) && c.tensor(2).dtype() == c.tensor(0).dtype() &&
              same(c.tensor(2).shape(), Dims{c.tensor(1).size(0)});
     }},
    {"_solve_factored", solves},
    {"_pivots_to_matrix",
     [](const Call& c) {
       return c.tensor(0).dtype() == DType::Int32 && c.tensor(0).ndim() >= 1 && c.integer(1) >= 0 &&
              c.integer(1) < (1 << 20);
     }},
    {"_linalg_solve", is_system},
    {"_linalg_solve_ex", is_system},
    {"_cofactors",
     [](const Call& c) {
       return are_factors(c.tensor(1), c.tensor(2)) && is_lapack(c.tensor(0)) &&
              c.tensor(0).dtype() == c.tensor(1).dtype() &&
              same(c.tensor(0).shape(), c.tensor(1).shape());
     }},
    {"_linalg_svd", [](const Call& c) { return is_matrix(c.tensor(0)) && is_lapack(c.tensor(0)); }},
    {"_svdvals", [](const Call& c) { return is_matrix(c.tensor(0)) && is_lapack(c.tensor(0)); }},
    {"_eigvalsh",
     [](const Call& c) {
       return is_square(c.tensor(0)) && is_lapack(c.tensor(0)) &&
              (c[1].str() == "L" || c[1].str() == "U");
     }},
    {"_linalg_eigvals",
     [](const Call& c) { return is_square(c.tensor(0)) && is_lapack(c.tensor(0)); }},
    {"_over_gaps",
     [](const Call& c) {
       Tensor from = c.tensor(0), values = c.tensor(1), used = c.tensor(2);
       if (!is_matrix(from) || !is_lapack(from) || values.ndim() != from.ndim() - 1) return false;
       const int64_t gap = c.integer(3);  // 2: by columns alone
       return gap >= 0 && gap <= 2 && (gap == 2 || is_square(from)) &&
              same(with_back(leading(from, 2), from.size(-1)), values.shape()) &&
              same(used.shape(), from.shape()) && used.dtype() == real_dtype(from.dtype()) &&
              (values.dtype() == from.dtype() || values.dtype() == used.dtype());
     }},
    {"_weights_of", any},
    {"_tensordot", any},
    {"_linalg_pinv",
     [](const Call& c) { return is_matrix(c.tensor(0)) && is_lapack(c.tensor(0)); }},
};

}  // namespace

std::span<const Entry> matrix_rules() { return kRules; }

}  // namespace adjoint::operands
