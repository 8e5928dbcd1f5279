// Singular values and vectors. Read matrices.h and gaps.h first.
#include "dispatch/program_recorder.h"
#include "ops/linalg/gaps.h"

namespace adjoint {
namespace {

using namespace matrices;

std::string no_convergence(int code) {
  return text(
      "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
      "many repeated singular values (error code: ",
      code, ").");
}

// What LAPACK does with NaN is its own; PyTorch's message for it.
void check_finite(T a) {
  GradMode off(false);
  const int64_t size = a.size(-2) * a.size(-1), count = count_of(leading_of(a));
  if (size == 0) return;
  note_check_of_values();
  const bool wide = real_dtype(a.dtype()) == DType::Float64;
  const int64_t reals = size * (is_complex(a.dtype()) ? 2 : 1);
  for (int64_t b = 0; b < count; ++b) {
    bool finite = true;
    for (int64_t i = b * reals; i < (b + 1) * reals; ++i)
      finite &=
          wide ? __builtin_isfinite(a.data<double>()[i]) : __builtin_isfinite(a.data<float>()[i]);
    if (finite) continue;
    std::string which = a.ndim() > 2 ? text("(Batch element ", b, "): ") : std::string();
    linalg_error("linalg.svd: ", which,
                 "The algorithm failed to converge because the input matrix contained non-finite "
                 "values.");
  }
}

Tensors decompose(T a, bool full, bool vectors) {
  check_ndim("linalg.svd", a);
  check_floating("linalg.svd", a);
  check_full_precision("linalg_svd_cpu", a);
  const Dims leading = leading_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  Dims shape = leading;
  shape.push_back(k);
  Tensor copy = columns_of(a), s = empty(shape, real_dtype(a.dtype())), info = empty_info(leading);
  check_finite(copy);
  Tensor u, vh;
  if (vectors) {
    u = empty_columns(leading, m, full ? m : k, a.dtype());
    vh = empty_columns(leading, full ? n : k, n, a.dtype());
    if (k == 0) {  // what is left of full matrices: any basis
      GradMode off(false);
      for (T t : {u, vh}) {
        if (t.numel()) copy_into(t, op<"expand">(op<"eye">(t.size(-1), t.dtype()), t.shape()));
      }
    }
  }
  {
    char *from = copy.bytes(), *values = s.bytes();
    char *left = vectors ? u.bytes() : nullptr, *right = vectors ? vh.bytes() : nullptr;
    int* codes = info.data<int>();
    const int64_t count = info.numel();
    WithoutGil release(is_long(count, 10 * double(m) * double(n) * double(k)));
    linalg::svd(a.dtype(), count, m, n, full, from, values, left, right, codes);
  }
  check_info("linalg.svd", info, no_convergence);
  return vectors ? Tensors{u, s, vh} : Tensors{s};
}

constexpr const char* kPhase =
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by "
    "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined.";

Tensor skew(T a) { return a - adjoint_of(a); }

// Note [Gaps of singular values]
// With p and q the skew parts of u^H gu and v^H gv, the usual (p s_j + s_i q) / (s_j^2 - s_i^2) is
// (p + q) / 2 / (s_j - s_i) + (p - q) / 2 / (s_j + s_i): each part keeps its digits, and only the
// first asks for values that differ.
Tensor svd_grad(T gu, T by_values, T gvh, T u, T s, T vh) {
  const int64_t m = u.size(-2), n = vh.size(-1), k = s.size(-1);
  const Spectrum kind = m == n && !is_complex(u.dtype()) ? kSingular : kSingularZeros;
  Tensor gs;
  if (by_values) gs = weights_of(by_values, s, kind, "linalg.svd");
  if (!gu && !gvh) return m >= n ? mul(u, column(gs) * vh) : mul(u * row(gs), vh);
  Tensor uh = adjoint_of(u), v = adjoint_of(vh);
  Tensor mu, mv, p, q, used;
  if (gu) mu = mul(uh, gu), p = skew(mu), used = pair_size(mu);
  if (gvh) mv = mul(vh, adjoint_of(gvh)), q = skew(mv), used = plus(used, pair_size(mv));
  if (is_complex(u.dtype())) checked_phases(plus(mu, mv) * 2.0, kPhase);
  Tensor middle = over_gaps(plus(p, q) * 0.5, s, used, kDifference, "linalg.svd") +
                  over_gaps(minus(p, q) * 0.5, s, size_of(minus(p, q)), kSum, "linalg.svd");
  if (gs) middle = middle + op<"diag_embed">(gs).tensor();
  auto beside = [&](T g, T basis) {  // what of g lies outside the space of the vectors, over s
    Tensor rest = g - mul(basis, mul(adjoint_of(basis), g));
    return over_gaps(rest, s, size_of(g), kColumn, "linalg.svd");
  };
  if (gu && m > k) return mul(mul(u, middle) + beside(gu, u), vh);
  if (gvh && n > k) return mul(u, mul(middle, vh) + adjoint_of(beside(adjoint_of(gvh), v)));
  return m >= n ? mul(u, mul(middle, vh)) : mul(mul(u, middle), vh);
}

Value svd_tangent(T da, T u, T s, T vh) {
  const int64_t m = u.size(-2), n = vh.size(-1), k = s.size(-1);
  Tensor v = adjoint_of(vh), uh = adjoint_of(u);
  Tensor p = mul(uh, mul(da, v));
  Tensor ds = real_part(diagonal(p)), ph = adjoint_of(p), used = pair_size(p);
  // Skew parts of u^H du and v^H dv: the sum of the two over differences, the difference over sums.
  Tensor sum = over_gaps((p + ph) * 0.5, s, used, kDifference, "linalg.svd");
  Tensor odd = over_gaps((p - ph) * 0.5, s, size_of(p - ph), kSum, "linalg.svd");
  Tensor du = mul(u, sum + odd), dv = mul(v, sum - odd);
  // Complex vectors: the phase is shared so that the diagonal of v^H dv is zero.
  if (is_complex(u.dtype())) {
    Tensor turn = op<"diag_embed">(diagonal(odd));
    du = du + mul(u, turn);
    dv = dv + mul(v, turn);
  }
  auto beside = [&](T g, T basis) {
    Tensor rest = g - mul(basis, mul(adjoint_of(basis), g));
    return over_gaps(rest, s, size_of(g), kColumn, "linalg.svd");
  };
  if (m > k) du = du + beside(mul(da, v), u);
  if (n > k) dv = dv + beside(mul(adjoint_of(da), u), v);
  return Tensors{du, ds, adjoint_of(dv)};
}

}  // namespace

static const Op& svd_vectors_ =
    def("_linalg_svd(A, full_matrices: bool = False)",
        "Singular values and vectors; see linalg.svd.")
        .forward([](Call& c) -> Value { return decompose(c.tensor(0), c.flag(1), true); })
        .vjp(output(0) | output(1) | output(2),
             [](C c, Tensor* grads) {
               // Further columns of full matrices are any basis of the rest: nothing depends on it.
               Tensor u = c.out(0), s = c.out(1), vh = c.out(2), gu, gs, gvh;
               const int64_t k = s.size(-1);
               if (c.has_grad(0)) gu = first_columns(c.grad(0), k);
               if (c.has_grad(1)) gs = c.grad(1);
               if (c.has_grad(2)) gvh = first_rows(c.grad(2), k);
               grads[0] = svd_grad(gu, gs, gvh, first_columns(u, k), s, first_rows(vh, k));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          if (c.in(1).boolean() && c.tensor(0).size(-2) != c.tensor(0).size(-1))
            runtime_error(
                "linalg.svd: forward mode needs full_matrices=False where the matrices "
                "are not square: further vectors are a choice, which has no derivative");
          return svd_tangent(t[0], c.out(0), c.out(1), c.out(2));
        })
        .results({"U", "S", "Vh"})
        .internal()
        .called("linalg.svd")
        .node("LinalgSvdBackward0")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& svdvals_alone_ =
    def("_svdvals(A)", "Singular values without vectors; see linalg.svdvals.")
        .forward([](Call& c) -> Value { return decompose(c.tensor(0), false, false)[0]; })
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                Tensors f = op<"_linalg_svd">(c.in(0), false).tensors();
                return svd_grad(Tensor(), g, Tensor(), f[0], f[1], f[2]);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensors f = op<"_linalg_svd">(c.in(0), false).tensors();
          return real_part(diagonal(mul(adjoint_of(f[0]), mul(t[0], adjoint_of(f[2])))));
        })
        .internal()
        .called("linalg.svdvals")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

namespace {

void check_driver(const Value& driver) {
  if (driver.is_none()) return;
  runtime_error(
      "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
      "cuSOLVER backend.");
}

Tensor values_of(T a) {
  if (may_be_differentiated(a)) return op<"_linalg_svd">(a, false).tensors()[1];
  return op<"_svdvals">(a);
}

}  // namespace

static const Op& linalg_svd_ =
    def("linalg_svd(A, full_matrices: bool = True, *, driver: str? = None)",
        "U, S and Vh with `A = U @ diag(S) @ Vh`: unitary matrices and singular values, "
        "descending. Gradients by vectors exist where singular values are distinct (and not zero, "
        "where the matrix is not square); those by columns of full matrices beyond min(m, n) are "
        "ignored, as these are any basis of the rest.")
        .forward([](Call& c) -> Value {
          check_driver(c[2]);
          return op<"_linalg_svd">(c[0], c[1]);
        })
        .results({"U", "S", "Vh"})
        .function_only()
        .autocast(Autocast::Float32);

static const Op& linalg_svdvals_ =
    def("linalg_svdvals(A, *, driver: str? = None)",
        "Singular values, descending. Their gradients are right for repeated values too.")
        .forward([](Call& c) -> Value {
          check_driver(c[1]);
          return values_of(c.tensor(0));
        })
        .function_only()
        .autocast(Autocast::Float32);

static const Op& svd_ =
    def("svd(input, some: bool = True, compute_uv: bool = True)",
        "U, S and V with `input = U @ diag(S) @ V.mH`; zeros for U and V without `compute_uv`. See "
        "linalg.svd.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          if (c.flag(2)) {
            Tensors f = op<"_linalg_svd">(a, !c.flag(1)).tensors();
            return Tensors{f[0], f[1], adjoint_of(f[2])};
          }
          Tensor s = values_of(a);
          Dims leading = leading_of(a);
          return Tensors{op<"zeros">(with_matrix(leading, a.size(-2), a.size(-2)), a.dtype()), s,
                         op<"zeros">(with_matrix(leading, a.size(-1), a.size(-1)), a.dtype())};
        })
        .results({"U", "S", "V"})
        .autocast(Autocast::Float32);

}  // namespace adjoint
