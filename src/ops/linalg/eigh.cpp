// Eigenvalues and eigenvectors of symmetric and Hermitian matrices. Read matrices.h and gaps.h first.
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

bool is_upper(const Value& uplo) {
  const std::string& s = uplo.str();
  if (s == "U" || s == "u") return true;
  if (s == "L" || s == "l") return false;
  runtime_error("Expected UPLO argument to be 'L' or 'U', but got ", s);
}

Tensors eigen(T a, const Value& uplo, bool vectors) {
  check_square("linalg.eigh", a);
  const bool upper = is_upper(uplo);
  check_full_precision("linalg_eigh_cpu", a);
  const Dims leading = leading_of(a);
  const int64_t n = a.size(-1);
  Dims shape = leading;
  shape.push_back(n);
  Tensor w = empty(shape, real_dtype(a.dtype())), info = empty_info(leading), v;
  if (vectors) v = empty_columns(leading, n, n, a.dtype());
  Laid from = lay(a);
  {
    char *to = w.bytes(), *columns = vectors ? v.bytes() : nullptr;
    int* codes = info.data<int>();
    WithoutGil release(is_long(from.count, 9 * double(n) * double(n) * double(n)));
    linalg::eigh(a.dtype(), from.count, n, upper, from.at, to, columns, codes);
  }
  check_info("linalg.eigh", info, no_convergence);
  return vectors ? Tensors{w, v} : Tensors{w};
}

constexpr const char* kPhase =
    "linalg_eigh_backward: The eigenvectors in the complex case are specified up to multiplication "
    "by e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.";

// With da = v p v^H: dw = diag p, and dv = v (p / gaps).
Tensor eigen_grad(T by_values, T gv, T w, T v) {
  Tensor vh = adjoint_of(v), gw;
  if (by_values) gw = weights_of(by_values, w, kHermitian, "linalg.eigh");
  if (!gv) return mul(v * row(gw), vh);
  Tensor m = mul(vh, gv);
  if (is_complex(m.dtype())) {
    // The check is an op, so that compiled functions make it too; it is recorded, and read by none.
    checked_phases(m, kPhase);
  }
  // Of a skew-Hermitian matrix over skew gaps remains what acts on Hermitian matrices.
  Tensor skew = (m - adjoint_of(m)) * 0.5;
  Tensor p = over_gaps(skew, w, pair_size(m), kDifference, "linalg.eigh");
  if (gw) p = p + op<"diag_embed">(gw).tensor();
  return mul(v, mul(p, vh));
}

Value eigen_tangent(T da, T w, T v) {
  Tensor p = mul(adjoint_of(v), mul(da, v));
  Tensor q = over_gaps(p, w, pair_size(p), kDifference, "linalg.eigh");
  return Tensors{real_part(diagonal(p)), mul(v, q)};
}

}  // namespace

static const Op& linalg_eigh_ =
    def("linalg_eigh(input|A, UPLO: str = 'L')",
        "Eigenvalues, ascending, and eigenvectors (as columns) of symmetric or Hermitian matrices, "
        "of which the triangle UPLO is read. Gradients by eigenvectors exist where eigenvalues are "
        "distinct; equal ones are an error as soon as a loss depends on their vectors.")
        .forward([](Call& c) -> Value { return eigen(c.tensor(0), c[1], true); })
        .vjp(output(0) | output(1),
             [](C c, Tensor* grads) {
               grads[0] = eigen_grad(c.has_grad(0) ? c.grad(0) : Tensor(),
                                     c.has_grad(1) ? c.grad(1) : Tensor(), c.out(0), c.out(1));
             })
        .jvp([](C c, const Tensor* t) { return eigen_tangent(t[0], c.out(0), c.out(1)); })
        .results({"eigenvalues", "eigenvectors"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& eigvalsh_alone_ =
    def("_eigvalsh(input, UPLO: str = 'L')", "Eigenvalues without vectors; see linalg.eigvalsh.")
        .forward([](Call& c) -> Value { return eigen(c.tensor(0), c[1], false)[0]; })
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                Tensors f = op<"linalg_eigh">(c.in(0), c.in(1)).tensors();
                return eigen_grad(g, Tensor(), f[0], f[1]);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor v = op<"linalg_eigh">(c.in(0), c.in(1)).tensors()[1];
          return real_part(diagonal(mul(adjoint_of(v), mul(t[0], v))));
        })
        .internal()
        .called("linalg.eigvalsh")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& linalg_eigvalsh_ =
    def("linalg_eigvalsh(input|A, UPLO: str = 'L')",
        "Eigenvalues, ascending, of symmetric or Hermitian matrices, of which the triangle UPLO is "
        "read. Their gradients are right for repeated eigenvalues too.")
        .forward([](Call& c) -> Value {
          if (may_be_differentiated(c.tensor(0))) return op<"linalg_eigh">(c[0], c[1]).tensors()[0];
          return op<"_eigvalsh">(c[0], c[1]);
        })
        .function_only()
        .autocast(Autocast::Float32);

}  // namespace adjoint
