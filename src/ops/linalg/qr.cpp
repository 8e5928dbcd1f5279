// QR factors, and products of reflectors. Read matrices.h first.
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

enum class QrMode { Reduced, Complete, R };

QrMode mode_of(const Value& given) {
  const std::string& s = given.str();
  if (s == "reduced") return QrMode::Reduced;
  if (s == "complete") return QrMode::Complete;
  if (s == "r") return QrMode::R;
  runtime_error("qr received unrecognized mode '", s,
                "' but expected one of 'reduced' (default), 'r', or 'complete'");
}

struct Reflected {
  Tensor a, tau;  // reflectors below the diagonal, r above it
};

Reflected factor(T a) {
  const Dims leading = leading_of(a);
  const int64_t m = a.size(-2), n = a.size(-1);
  Dims shape = leading;
  shape.push_back(std::min(m, n));
  Reflected out{columns_of(a), empty(shape, a.dtype())};
  char *to = out.a.bytes(), *tau = out.tau.bytes();
  const int64_t count = count_of(leading);
  WithoutGil release(is_long(count, double(m) * double(n) * double(std::min(m, n))));
  linalg::qr_factor(a.dtype(), count, m, n, to, tau);
  return out;
}

// q (m x columns) of the first k reflectors of `a` (m x n).
Tensor product_of(const Reflected& f, int64_t k, int64_t columns) {
  const Dims leading = leading_of(f.a);
  const int64_t m = f.a.size(-2), n = f.a.size(-1), count = count_of(leading);
  Tensor q = empty_columns(leading, m, columns, f.a.dtype());
  if (q.numel() == 0) return q;
  {
    GradMode off(false);
    const int64_t common = std::min(n, columns);
    copy_into(first_columns(q, common), first_columns(f.a, common));
  }
  char* to = q.bytes();
  const char* tau = f.tau.bytes();
  WithoutGil release(is_long(count, double(m) * double(columns) * double(k)));
  linalg::reflectors_product(q.dtype(), count, m, columns, k, to, tau);
  return q;
}

Tensors decompose(T a, QrMode mode) {
  check_ndim("linalg.qr", a);
  check_floating("linalg.qr", a);
  check_full_precision("geqrf_cpu", a);
  Reflected f = factor(a);
  const Dims leading = leading_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const int64_t rows = mode == QrMode::Complete ? m : k, count = count_of(leading);
  Tensor r = empty_columns(leading, rows, n, a.dtype());
  if (r.numel()) {
    {
      GradMode off(false);
      copy_into(r, first_rows(f.a, rows));
    }
    linalg::clear_triangle(a.dtype(), count, rows, n, false, false, r.bytes());
  }
  Tensor q = mode == QrMode::R ? empty(Dims{0}, a.dtype()) : product_of(f, k, rows);
  return {q, r};
}

// --- derivatives ---------------------------------------------------------------------------------
// What of x is symmetric and upper triangular at once: the transpose of x -> triu(x + x^H), whose
// diagonal is real.
Tensor mirrored(T x) {
  Tensor above = triu(x, 1);
  return above + adjoint_of(above) + op<"diag_embed">(real_part(diagonal(x))).tensor();
}

// a = q r with m >= n. (Seeger et al., Auto-Differentiating Linear Algebra, 2017.)
Tensor tall_grad(T gq, T gr, T q, T r) {
  Tensor inner;
  if (gr) inner = mul(gr, adjoint_of(r));
  if (gq) inner = minus(inner, mul(adjoint_of(q), gq));
  Tensor g = plus(mul(q, mirrored(inner)), gq);
  return solve_triangular(adjoint_of(r), g, false, false);
}

Tensor qr_grad(T gq_given, T gr, T q, T r) {
  const int64_t m = q.size(-2), n = r.size(-1);
  if (m >= n) return tall_grad(gq_given, gr, q, r);
  // The first m columns have q to themselves; the others are a2 = q r2.
  Tensor gq = gq_given, r2 = columns_from(r, m), right;
  if (gr) {
    Tensor gr2 = columns_from(gr, m);
    gq = plus(gq, mul(mul(q, r2), adjoint_of(gr2)));
    right = mul(q, gr2);
  } else {
    right = op<"zeros_like">(mul(q, r2));
  }
  Tensor left = tall_grad(gq, gr ? first_columns(gr, m) : gr, q, first_columns(r, m));
  return op<"cat">(Tensors{left, right}, -1);
}

Value qr_tangent(T da, T q, T r) {
  const int64_t m = q.size(-2), n = r.size(-1);
  const bool wide = m < n;
  Tensor d1 = wide ? first_columns(da, m) : da, r1 = wide ? first_columns(r, m) : r;
  Tensor over_r = solve_triangular(r1, d1, true, false);
  Tensor inner = mul(adjoint_of(q), over_r);
  Tensor sum = inner + adjoint_of(inner);
  Tensor move = triu(sum, 1) + op<"diag_embed">(diagonal(sum) * 0.5).tensor();
  Tensor dq = over_r - mul(q, move), dr = mul(move, r1);
  if (wide) {
    Tensor dr2 =
        mul(adjoint_of(dq), mul(q, columns_from(r, m))) + mul(adjoint_of(q), columns_from(da, m));
    dr = op<"cat">(Tensors{dr, dr2}, -1);
  }
  return Tensors{dq, dr};
}

void check_differentiable(const Value& given, int64_t m, int64_t n) {
  const QrMode mode = mode_of(given);
  if (mode == QrMode::R)
    runtime_error(
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
  if (mode == QrMode::Complete && m > n)
    runtime_error(
        "The QR decomposition is not differentiable when mode='complete' and nrows > "
        "ncols.");
}

}  // namespace

static const Op& linalg_qr_ =
    def("linalg_qr(A, mode: str = 'reduced')",
        "Q and R with `A = Q @ R`: orthonormal columns and an upper triangular matrix, with "
        "min(m, n) columns and rows (`reduced`), with all m (`complete`), or R alone (`r`). "
        "Gradients exist where the first min(m, n) columns of A are independent, not in mode r, "
        "and "
        "in mode complete only with m <= n.")
        .forward([](Call& c) -> Value { return decompose(c.tensor(0), mode_of(c[1])); })
        .vjp(output(0) | output(1),
             [](C c, Tensor* grads) {
               Tensor q = c.out(0), r = c.out(1);
               check_differentiable(c.in(1), q.size(q.ndim() > 1 ? -2 : 0), r.size(-1));
               grads[0] = qr_grad(c.has_grad(0) ? c.grad(0) : Tensor(),
                                  c.has_grad(1) ? c.grad(1) : Tensor(), q, r);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor a = c.tensor(0);
          check_differentiable(c.in(1), a.size(-2), a.size(-1));
          return qr_tangent(t[0], c.out(0), c.out(1));
        })
        .results({"Q", "R"})
        .function_only()
        .batch([](Call& c, const int*) -> Value {
          Tensors out = apply(c.op, c.args).tensors();
          if (mode_of(c[1]) == QrMode::R)  // each sample has an empty q
            out[0] = op<"zeros">(Dims{c.tensor(0).size(0), 0}, c.tensor(0).dtype());
          return out;
        })
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& qr_ =
    def("qr(input, some: bool = True)", "Q and R with `input = Q @ R`; see linalg.qr.")
        .forward([](Call& c) -> Value {
          return op<"linalg_qr">(c[0], c.flag(1) ? "reduced" : "complete");
        })
        .results({"Q", "R"})
        .autocast(Autocast::Float32);

static const Op& geqrf_ =
    def("geqrf(input)",
        "R in the upper triangle, and the reflectors whose product is Q in the lower one, with "
        "their factors tau; as LAPACK has them, for householder_product and ormqr.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          if (a.ndim() < 2) runtime_error("torch.geqrf: input must have at least 2 dimensions.");
          check_full_precision("geqrf_cpu", a);
          Reflected f = factor(a);
          return Tensors{f.a, f.tau};
        })
        .vjp(nothing,
             [](C, Tensor*) {
               not_implemented(
                   "the derivative for 'geqrf' is not implemented; fix: linalg.qr has "
                   "one");
             })
        .jvp([](C, const Tensor*) -> Value {
          not_implemented("the derivative for 'geqrf' is not implemented; fix: linalg.qr has one");
        })
        .results({"a", "tau"})
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

}  // namespace adjoint
