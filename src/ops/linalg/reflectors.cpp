// Products of Householder reflectors h_i = 1 - tau_i v_i v_i^H. Read matrices.h first.
//
// Note [Derivatives of reflectors]
// A product is applied reflector by reflector: x_(i+1) = h x_i. With w = v^H x the derivative of one
// step is that of x - tau v w; gradients go through the steps from the last to the first, tangents from
// the first to the last. Both are written with ops, and read the x_i, which are computed again: they
// could be recovered from the result only where h_i has an inverse.
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

// The vectors of the reflectors as columns: ones on the diagonal, zeros above.
Tensor vectors_of(T a, int64_t k) {
  Tensor low = tril(first_columns(a, k), -1);
  return low + op<"eye.m">(a.size(-2), k, a.dtype()).tensor();
}

struct Chain {
  Tensor v, tau;   // m x k, and k
  bool backwards;  // the first reflector last
  int64_t length() const { return v.size(-1); }
  int64_t at(int64_t step) const { return backwards ? step : length() - 1 - step; }
  Tensor vector(int64_t i) const { return op<"narrow">(v, -1, i, 1); }
  Tensor factor(int64_t i) const { return op<"unsqueeze">(op<"narrow">(tau, -1, i, 1), -1); }
  Tensor step(T x, int64_t i) const {
    Tensor u = vector(i);
    return x - factor(i) * mul(u, mul(adjoint_of(u), x));
  }
  // x before each step, and the last one.
  Tensors all(T x) const {
    Tensors out{x};
    for (int64_t s = 0; s < length(); ++s) out.push_back(step(out.back(), at(s)));
    return out;
  }
};

struct ChainGrads {
  Tensor v, tau, x;
};

Tensor joined(Tensors parts, int dim) { return op<"cat">(std::move(parts), dim); }

ChainGrads chain_grad(const Chain& chain, T x, T g_given) {
  const int64_t k = chain.length();
  Tensors xs = chain.all(x), gv(static_cast<size_t>(k)), gt(static_cast<size_t>(k));
  Tensor g = g_given;
  for (int64_t s = k - 1; s >= 0; --s) {
    const int64_t i = chain.at(s);
    const auto slot = static_cast<size_t>(i);
    Tensor before = xs[static_cast<size_t>(s)], u = chain.vector(i), t = chain.factor(i);
    Tensor w = mul(adjoint_of(u), before), ug = mul(adjoint_of(u), g);  // rows
    // x - t u w, w = u^H x.
    gt[slot] = -op<"sum">(conjugate(w) * ug, Dims{-1}).tensor();
    Tensor scaled = conjugate(t);
    gv[slot] = -(scaled * mul(g, adjoint_of(w)) + t * mul(before, adjoint_of(ug)));
    g = g - scaled * mul(u, ug);
  }
  if (k == 0) return {op<"zeros_like">(chain.v), op<"zeros_like">(chain.tau), g};
  return {joined(gv, -1), joined(gt, -1), g};
}

Tensor chain_tangent(const Chain& chain, T dv, T dtau, T x_given, T dx) {
  Tensor x = x_given, d = dx ? dx : op<"zeros_like">(x_given).tensor();
  for (int64_t s = 0; s < chain.length(); ++s) {
    const int64_t i = chain.at(s);
    Tensor u = chain.vector(i), t = chain.factor(i), w = mul(adjoint_of(u), x);
    Tensor next = d - t * mul(u, mul(adjoint_of(u), d));
    if (dv) {
      Tensor du = op<"narrow">(dv, -1, i, 1);
      next = next - t * (mul(du, w) + mul(u, mul(adjoint_of(du), x)));
    }
    if (dtau) next = next - op<"unsqueeze">(op<"narrow">(dtau, -1, i, 1), -1).tensor() * mul(u, w);
    x = chain.step(x, i);
    d = next;
  }
  return d;
}

// The part of a gradient by vectors that belongs to the matrix that holds them.
Tensor below(T gv, int64_t columns) {
  Tensor low = tril(gv, -1);
  const int64_t more = columns - gv.size(-1);
  if (more <= 0) return low;
  Dims shape = with_matrix(leading_of(gv), gv.size(-2), more);
  return op<"cat">(Tensors{low, op<"zeros">(shape, gv.dtype())}, -1);
}

// --- householder_product -------------------------------------------------------------------------
void check_product(T a, T tau) {
  if (a.ndim() < 2)
    runtime_error("torch.linalg.householder_product: input must have at least 2 dimensions.");
  if (a.size(-2) < a.size(-1))
    runtime_error(
        "torch.linalg.householder_product: input.shape[-2] must be greater than or equal "
        "to input.shape[-1]");
  if (tau.ndim() == 0 || a.size(-1) < tau.size(-1))
    runtime_error(
        "torch.linalg.householder_product: input.shape[-1] must be greater than or equal "
        "to tau.shape[-1]");
  if (a.ndim() - tau.ndim() != 1)
    runtime_error(
        "torch.linalg.householder_product: Expected tau to have one dimension less than "
        "input, but got tau.ndim equal to ",
        tau.ndim(), " and input.ndim is equal to ", a.ndim());
  if (!(Span{a->shape, a.ndim() - 2} == Span{tau->shape, tau.ndim() - 1}))
    runtime_error(
        "torch.linalg.householder_product: Expected batch dimensions of tau to be equal "
        "to input.shape[:-2], but got ",
        tau.shape());
  if (a.dtype() != tau.dtype())
    runtime_error("torch.linalg.householder_product: tau dtype ", tau.dtype(),
                  " does not match input dtype ", a.dtype());
  check_full_precision("orgqr_cpu", a);
}

Tensor identity_like(T a) {
  return op<"expand">(op<"eye.m">(a.size(-2), a.size(-1), a.dtype()), a.shape());
}

}  // namespace

static const Op& householder_product_ =
    def("linalg_householder_product(input|A, tau)",
        "The first n columns of a product of reflectors, given as the results of geqrf.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), tau = contiguous(c.tensor(1));
          check_product(a, tau);
          Tensor q = columns_of(a);
          char* to = q.bytes();
          const char* factors = tau.bytes();
          const int64_t m = a.size(-2), n = a.size(-1), k = tau.size(-1);
          const int64_t count = count_of(leading_of(a));
          WithoutGil release(is_long(count, double(m) * double(n) * double(k)));
          linalg::reflectors_product(a.dtype(), count, m, n, k, to, factors);
          return q;
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               Tensor a = c.in(0), tau = c.in(1);
               Chain chain{vectors_of(a, tau.size(-1)), tau, false};
               ChainGrads g = chain_grad(chain, identity_like(a), c.grad());
               if (c.needs(0)) grads[0] = below(g.v, a.size(-1));
               if (c.needs(1)) grads[1] = g.tau;
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor a = c.in(0), tau = c.in(1);
          const int64_t k = tau.size(-1);
          Chain chain{vectors_of(a, k), tau, false};
          return chain_tangent(chain, t[0] ? tril(first_columns(t[0], k), -1) : Tensor(), t[1],
                               identity_like(a), Tensor());
        })
        .function_only()
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 2; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

static const Op& orgqr_ =
    def("orgqr(input, input2|tau)", "Products of reflectors; linalg.householder_product.")
        .forward([](Call& c) -> Value { return op<"linalg_householder_product">(c[0], c[1]); })
        .autocast(Autocast::Float32);

// --- ormqr ---------------------------------------------------------------------------------------
namespace {

void check_ormqr(T a, T tau, T other, bool left) {
  const int axis = left ? -2 : -1;
  auto check_dims = [](T t, const char* which, int least) {
    if (t.ndim() < least)
      runtime_error("torch.ormqr: ", which, " must have at least ", least, " dimensions.");
  };
  check_dims(a, "input", 2);
  check_dims(other, "other", 2);
  check_dims(tau, "tau", 1);
  if (other.size(axis) < tau.size(-1))
    runtime_error("torch.ormqr: other.shape[", axis,
                  "] must be greater than or equal to "
                  "tau.shape[-1]");
  if (other.size(axis) != a.size(-2))
    runtime_error("torch.ormqr: other.shape[", axis, "] must be equal to input.shape[-2]");
  if (tau.size(-1) > a.size(-1))
    runtime_error("torch.ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]");
  Span leading{a->shape, a.ndim() - 2};
  if (!(leading == Span{tau->shape, tau.ndim() - 1}))
    runtime_error(
        "torch.ormqr: Expected batch dimensions of tau to be equal to input.shape[:-2], "
        "but got ",
        tau.shape());
  if (!(leading == Span{other->shape, other.ndim() - 2}))
    runtime_error(
        "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], "
        "but got ",
        other.shape());
  if (tau.dtype() != a.dtype())
    runtime_error(
        "torch.ormqr: Expected input and tau to have the same dtype, but input has dtype ",
        a.dtype(), " and tau has dtype ", tau.dtype());
  if (other.dtype() != a.dtype())
    runtime_error(
        "torch.ormqr: Expected input and other to have the same dtype, but input has "
        "dtype ",
        a.dtype(), " and other has dtype ", other.dtype());
  check_full_precision("ormqr_cpu", a);
}

// q c, q^H c, and from the right (q^H c^H)^H, (q c^H)^H: always reflectors from the left.
struct Applied {
  bool left, adjoint;
  Chain chain(T a, T tau) const {
    const bool turned = left == adjoint;  // q^H is applied
    return {vectors_of(a, tau.size(-1)), turned ? conjugate(tau) : tau, turned};
  }
  Tensor turn(T c) const { return left ? c : adjoint_of(c); }
  Tensor factor_grad(T g) const { return left == adjoint ? conjugate(g) : g; }
};

}  // namespace

static const Op& ormqr_ =
    def("ormqr(input, input2|tau, input3|other, left: bool = True, transpose: bool = False)",
        "The product of a matrix with Q (with `Q.mH` if `transpose`), from the left or the right; "
        "Q "
        "is given by its reflectors, as geqrf returns them.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), tau = contiguous(c.tensor(1)), other = c.tensor(2);
          const bool left = c.flag(3), adjoint = c.flag(4);
          check_ormqr(a, tau, other, left);
          const int64_t k = tau.size(-1);
          GradMode off(false);
          Tensor reflectors = columns_of(first_columns(a, k)), out = columns_of(other);
          const char *from = reflectors.bytes(), *factors = tau.bytes();
          char* to = out.bytes();
          const int64_t m = other.size(-2), n = other.size(-1), count = count_of(leading_of(a));
          WithoutGil release(is_long(count, double(m) * double(n) * double(k)));
          linalg::apply_reflectors(a.dtype(), count, left, adjoint, m, n, k, from, factors, to);
          return out;
        })
        .vjp(input(0) | input(1) | input(2),
             [](C c, Tensor* grads) {
               const bool left = c.in(3).boolean(), adjoint = c.in(4).boolean();
               Tensor a = c.in(0), tau = c.in(1), other = c.in(2), g = c.grad();
               if (c.needs(2)) grads[2] = op<"ormqr">(a, tau, g, left, !adjoint);
               if (!c.needs(0) && !c.needs(1)) return;
               Applied how{left, adjoint};
               ChainGrads found = chain_grad(how.chain(a, tau), how.turn(other), how.turn(g));
               if (c.needs(0)) grads[0] = below(found.v, a.size(-1));
               if (c.needs(1)) grads[1] = how.factor_grad(found.tau);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const bool left = c.in(3).boolean(), adjoint = c.in(4).boolean();
          Tensor a = c.in(0), tau = c.in(1), other = c.in(2);
          Applied how{left, adjoint};
          const int64_t k = tau.size(-1);
          Tensor dtau = t[1] ? how.factor_grad(t[1]) : Tensor();
          Tensor d =
              chain_tangent(how.chain(a, tau), t[0] ? tril(first_columns(t[0], k), -1) : Tensor(),
                            dtau, how.turn(other), t[2] ? how.turn(t[2]) : Tensor());
          return how.turn(d);
        })
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 3; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

}  // namespace adjoint
