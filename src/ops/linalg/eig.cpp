// Eigenvalues and eigenvectors of any square matrices: complex numbers. Read matrices.h and gaps.h
// first.
#include <cmath>

#include "kernels/linalg/matrix_batches.h"
#include "ops/linalg/gaps.h"

namespace adjoint {
namespace {

using namespace matrices;

std::string no_convergence(int code) {
  return text(
      "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
      "many repeated eigenvalues (error code: ",
      code, ").");
}

// LAPACK may run forever, or worse, on what is not finite.
void check_finite(T a) {
  bool finite = true;
  linalg::with_element(a.dtype(), [&]<class E>(E) {
    using R = lapack::Real<E>;
    const R* p = a.data<R>();
    const int64_t n = a.numel() * (lapack::kComplex<E> ? 2 : 1);
    for (int64_t i = 0; i < n; ++i) finite &= std::isfinite(p[i]);
  });
  if (!finite) runtime_error("torch.linalg.eig: input tensor should not contain infs or NaNs.");
}

Tensors eigen(const char* name, T a, bool vectors) {
  check_square(name, a);
  if (is_integral(a.dtype()))
    runtime_error(name, ": Expected a floating point or complex tensor as input. Got ", a.dtype());
  check_full_precision("linalg_eig_out_cpu", a);
  const Dims leading = leading_of(a);
  const int64_t n = a.size(-1);
  const DType d = complex_dtype(a.dtype());
  Dims shape = leading;
  shape.push_back(n);
  Tensor copy = columns_of(a), w = empty(shape, d), info = empty_info(leading), v;
  check_finite(copy);
  if (vectors) v = empty_columns(leading, n, n, d);
  {
    char *from = copy.bytes(), *to = w.bytes(), *columns = vectors ? v.bytes() : nullptr;
    int* codes = info.data<int>();
    const int64_t count = info.numel();
    WithoutGil release(is_long(count, 25 * double(n) * double(n) * double(n)));
    linalg::eig(a.dtype(), count, n, from, to, columns, codes);
  }
  check_info(name, info, no_convergence);
  return vectors ? Tensors{w, v} : Tensors{w};
}

constexpr const char* kPhase =
    "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication "
    "by e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.";

Tensor to_dtype(T g, DType dtype) {
  if (is_complex(g.dtype()) && !is_complex(dtype)) return op<"real">(g);
  return g;
}

// With da = v p v^-1: dw = diag p, and dv = v (p / gaps), less what would change the vectors' lengths.
Tensor eigen_grad(T by_values, T gv, T w, T v) {
  Tensor vh = adjoint_of(v), p, gw;
  if (by_values) gw = weights_of(by_values, w, kGeneral, "linalg.eig");
  if (gv) {
    Tensor m = mul(vh, gv);
    checked_phases(m, kPhase);
    Tensor lengths = real_part(diagonal(m));
    m = m - mul(vh, v) * row(lengths);
    p = conjugate(over_gaps(conjugate(m), w, size_of(m), kDifference, "linalg.eig"));
  }
  if (gw) p = plus(p, op<"diag_embed">(gw).tensor());
  return op<"linalg_solve">(vh, mul(p, vh));
}

Value eigen_tangent(T da, T w, T v) {
  Tensor p = op<"linalg_solve">(v, mul(op<"_to_copy">(da, v.dtype()), v));
  Tensor moved = mul(v, over_gaps(p, w, size_of(p), kDifference, "linalg.eig"));
  Tensor lengths = real_part(op<"sum">(conjugate(v) * moved, Dims{-2}));
  return Tensors{diagonal(p), moved - v * row(lengths)};
}

}  // namespace

static const Op& linalg_eig_ =
    def("linalg_eig(input|A)",
        "Eigenvalues and eigenvectors (columns of length 1) of square matrices, as complex "
        "numbers, "
        "in no particular order. Gradients by eigenvectors exist where eigenvalues are distinct.")
        .forward([](Call& c) -> Value { return eigen("linalg.eig", c.tensor(0), true); })
        .vjp(output(0) | output(1),
             [](C c, Tensor* grads) {
               grads[0] =
                   to_dtype(eigen_grad(c.has_grad(0) ? c.grad(0) : Tensor(),
                                       c.has_grad(1) ? c.grad(1) : Tensor(), c.out(0), c.out(1)),
                            c.dtype(0));
             })
        .jvp([](C c, const Tensor* t) { return eigen_tangent(t[0], c.out(0), c.out(1)); })
        .results({"eigenvalues", "eigenvectors"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& eigvals_alone_ =
    def("_linalg_eigvals(input|A)", "Eigenvalues without vectors; see linalg.eigvals.")
        .forward([](Call& c) -> Value { return eigen("linalg.eig", c.tensor(0), false)[0]; })
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                // In the order of this call: those of eig() are computed otherwise, and may be
                // exchanged where they are close; so the gradient goes by its own.
                Tensors both = op<"linalg_eig">(c.in(0)).tensors();
                return to_dtype(eigen_grad(g, Tensor(), both[0], both[1]), c.dtype(0));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensors both = op<"linalg_eig">(c.in(0)).tensors();
          Tensor p =
              op<"linalg_solve">(both[1], mul(op<"_to_copy">(t[0], both[1].dtype()), both[1]));
          return diagonal(p);
        })
        .internal()
        .called("linalg.eigvals")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& linalg_eigvals_ =
    def("linalg_eigvals(input|A)",
        "Eigenvalues of square matrices, as complex numbers, in no particular order.")
        .forward([](Call& c) -> Value {
          if (may_be_differentiated(c.tensor(0))) return op<"linalg_eig">(c[0]).tensors()[0];
          return op<"_linalg_eigvals">(c[0]);
        })
        .function_only()
        .autocast(Autocast::Float32);

}  // namespace adjoint
