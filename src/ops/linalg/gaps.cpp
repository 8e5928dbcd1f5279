// Quotients by gaps between eigenvalues or singular values. Read gaps.h first.
//
// Note [Equal eigenvalues]
// Eigenvectors of a multiple eigenvalue are a choice, and move by any amount when the matrix is
// changed a little: they have no derivative. A loss may have one all the same, but which is not to be
// seen from its gradient by the vectors (of tr(C A^2), computed from vectors, it vanishes for such a
// pair, and the derivative does not). So equal values are an error wherever a loss depends on the
// two vectors, rather than the NaN that 0 / 0 would be; a loss that does not depend on them has its
// derivative. Values are equal if they differ by no more than rounding: n eps times the largest.
//
// Note [Weights of equal values]
// The gradient of a function of values alone is u diag(g) v^H. Its derivative turns the vectors of a
// pair by (g_i - g_j) / (s_i - s_j), which 0 / 0 does not tell at equal values. Quotients by gaps refuse
// that where the weights are not zero, since the vectors are used then. Where they are (the sum of
// (s - 1)^2 at an orthogonal matrix) nothing of it is to be seen there, so the weights themselves look:
// they refuse a derivative by them where values and weights are such a pair.
#include "ops/linalg/gaps.h"

#include <cmath>

#include "dispatch/transformed_calls.h"
#include "kernels/linalg/matrix_batches.h"

namespace adjoint {
namespace matrices {

bool may_be_differentiated(T a) {
  const Tensor inner = innermost(a);
  return grad_enabled() && (inner.requires_grad() || inner->grad_fn);
}

Tensor checked_phases(T m, const char* message) { return op<"_checked_phases">(m, message); }

namespace {

template <class V>
auto divisor(Gap gap, const V* values, int64_t i, int64_t j) {
  switch (gap) {
    case kDifference:
      return values[j] - values[i];
    case kSum:
      return values[j] + values[i];
    default:
      return values[j];
  }
}

template <class E, class V>
void divide(Gap gap, int64_t count, int64_t m, int64_t n, const E* from, const V* values,
            const lapack::Real<E>* used, E* to, int64_t* bad) {
  using R = lapack::Real<E>;
  for (int64_t b = 0; b < count; ++b) {
    R most(0);
    const V* v = values + b * n;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, R(std::abs(v[i])));
    const R least = static_cast<R>(n) * std::numeric_limits<R>::epsilon() * most;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = (b * m + i) * n + j;
        if (gap == kDifference && i == j) {
          to[at] = E(0);
          continue;
        }
        const V d = divisor(gap, v, i, j);
        if (std::abs(d) > least) {
          to[at] = from[at] / d;
          continue;
        }
        to[at] = E(0);
        if (used[at] != 0 && bad[0] < 0) bad[0] = b, bad[1] = i, bad[2] = j;
      }
    }
  }
}

// The first index at which a derivative by the weights is not defined, and its partner; or -1.
template <class E>
void find_undefined(Spectrum kind, int64_t count, int64_t n, const E* by, const E* weights,
                    const E* values, int64_t* bad) {
  using R = lapack::Real<E>;
  for (int64_t b = 0; b < count; ++b) {
    const E *v = values + b * n, *g = weights + b * n, *h = by + b * n;
    R most(0), heaviest(0);
    for (int64_t i = 0; i < n; ++i) most = std::max(most, R(std::abs(v[i])));
    for (int64_t i = 0; i < n; ++i) heaviest = std::max(heaviest, R(std::abs(g[i])));
    const R small = static_cast<R>(n) * std::numeric_limits<R>::epsilon();
    const R least = small * most, same = kind == kGeneral ? 16 * small * heaviest : R(0);
    for (int64_t i = 0; i < n; ++i) {
      const bool zero = kind == kSingularZeros && std::abs(v[i]) <= least && g[i] == E(0);
      if (zero && h[i] != E(0)) return bad[0] = b, bad[1] = bad[2] = i, void();
      for (int64_t j = 0; j < i; ++j) {
        if (std::abs(v[i] - v[j]) > least || (h[i] == E(0) && h[j] == E(0))) continue;
        const bool hidden =
            kind == kGeneral ? std::abs(g[i] - g[j]) <= same : g[i] == E(0) && g[j] == E(0);
        if (hidden) return bad[0] = b, bad[1] = j, bad[2] = i, void();
      }
    }
  }
}

[[noreturn]] void refuse(Gap gap, const std::string& of, const int64_t* bad, bool batch) {
  std::string which = batch ? text(" (batch element ", bad[0], ")") : std::string();
  std::string values =
      gap == kColumn     ? text("value ", bad[2], " is zero")
      : bad[1] == bad[2] ? text("value ", bad[1], " is zero")
                         : text("values ", std::min(bad[1], bad[2]), " and ",
                                std::max(bad[1], bad[2]), gap == kSum ? " are zero" : " are equal");
  linalg_error(of, ": the derivative of these vectors is not defined", which, ": ", values,
               " to rounding, so that the vectors are a choice, and the loss depends on it. fix: "
               "use the values alone (eigvalsh, svdvals), or a function that needs no vectors");
}

}  // namespace
}  // namespace matrices

namespace {

using namespace matrices;

Value over_gaps_forward(Call& c) {
  Tensor from = contiguous(c.tensor(0)), values = contiguous(c.tensor(1));
  Tensor used = contiguous(c.tensor(2));
  const Gap gap = static_cast<Gap>(c.integer(3));
  const int64_t m = from.size(-2), n = from.size(-1), count = count_of(leading_of(from));
  Tensor out = empty(from.shape(), from.dtype());
  int64_t bad[3] = {-1, 0, 0};
  linalg::with_element(from.dtype(), [&]<class E>(E) {
    using R = lapack::Real<E>;
    if (is_complex(values.dtype())) {
      if constexpr (lapack::kComplex<E>)
        divide<E, E>(gap, count, m, n, from.data<E>(), values.data<E>(), used.data<R>(),
                     out.data<E>(), bad);
    } else {
      divide<E, R>(gap, count, m, n, from.data<E>(), values.data<R>(), used.data<R>(),
                   out.data<E>(), bad);
    }
  });
  if (bad[0] >= 0) refuse(gap, c[4].str(), bad, from.ndim() > 2);
  return out;
}

Tensor again(C c, T n) {
  std::string of = c.in(4).str();
  return over_gaps(n, c.tensor(1), size_of(n), static_cast<Gap>(c.in(3).integer()), of.c_str());
}

}  // namespace

static const Op& over_gaps_ =
    def("_over_gaps(input, values, used, gap: int, function: str)",
        "Matrices divided by the gaps between values, element by element.")
        .forward(over_gaps_forward)
        .vjp(input(1) | output(),
             [](C c, Tensor* grads) {
               // Quotients are holomorphic in both, so gradients take conjugates.
               const Gap gap = static_cast<Gap>(c.in(3).integer());
               Tensor q = again(c, conjugate(c.grad()));
               if (c.needs(0)) grads[0] = conjugate(q);
               if (!c.needs(1)) return;
               Tensor h = conjugate(q * c.out());
               if (!is_complex(c.tensor(1).dtype())) h = real_part(h);
               Tensor by_column = -op<"sum">(h, Dims{-2}).tensor();
               if (gap == kColumn) {
                 grads[1] = by_column;
                 return;
               }
               Tensor by_row = op<"sum">(h, Dims{-1});
               grads[1] = gap == kDifference ? by_column + by_row : by_column - by_row;
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const Gap gap = static_cast<Gap>(c.in(3).integer());
          Tensor moved = t[0];
          if (t[1]) {
            Tensor d = row(t[1]);
            if (gap == kDifference) d = d - column(t[1]);
            if (gap == kSum) d = d + column(t[1]);
            moved = minus(moved, c.out() * d);
          }
          return again(c, moved);
        })
        .internal()
        .called("linalg.eigh or linalg.svd")
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 3; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& checked_weights_ =
    def("_checked_weights(input, weights, values, kind: int, function: str)",
        "The tensor, unless a derivative by weights of equal values is not defined.")
        .forward([](Call& c) -> Value {
          Tensor by = contiguous(c.tensor(0)), weights = contiguous(c.tensor(1));
          Tensor values = contiguous(c.tensor(2));
          const Spectrum kind = static_cast<Spectrum>(c.integer(3));
          const int64_t n = values.size(-1), count = n ? values.numel() / n : 0;
          int64_t bad[3] = {-1, 0, 0};
          linalg::with_element(by.dtype(), [&]<class E>(E) {
            find_undefined<E>(kind, count, n, by.data<E>(), weights.data<E>(), values.data<E>(),
                              bad);
          });
          if (bad[0] >= 0) refuse(kDifference, c[4].str(), bad, values.ndim() > 1);
          Tensor out = empty(by.shape(), by.dtype());
          copy_into(out, by);
          return out;
        })
        .grad(0, nothing, [](T g, C) { return g; })
        .jvp([](C c, const Tensor* t) -> Value {
          return t[0] ? t[0] : zeros(c.shape(0), c.dtype(0));
        })
        .internal()
        .called("linalg.eigvalsh or linalg.svdvals")
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 3; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& weights_of_ =
    def("_weights_of(input, values, kind: int, function: str)",
        "The gradient by values of a spectrum, unchanged.")
        .forward([](Call& c) -> Value {
          Tensor out = empty(c.tensor(0).shape(), c.tensor(0).dtype());
          copy_into(out, c.tensor(0));
          return out;
        })
        .grad(0, input(0) | input(1),
              [](T g, C c) -> Tensor {
                return op<"_checked_weights">(g, c.in(0), c.in(1), c.in(2), c.in(3));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          if (!t[0]) return zeros(c.shape(0), c.dtype(0));
          return op<"_checked_weights">(t[0], c.in(0), c.in(1), c.in(2), c.in(3));
        })
        .internal()
        .called("linalg.eigvalsh or linalg.svdvals")
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 2; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& checked_phases_ =
    def("_checked_phases(input, message: str)",
        "The matrices, whose diagonals have imaginary parts that are nearly zero; else an error.")
        .forward([](Call& c) -> Value {
          Tensor t = contiguous(c.tensor(0));
          const int64_t n = t.size(-1);
          double worst = 0, most = 0;
          linalg::with_element(t.dtype(), [&]<class E>(E) {
            if constexpr (lapack::kComplex<E>) {
              for (int64_t i = 0; i < t.numel(); ++i) {
                const E e = t.data<E>()[i];
                most = std::max(most, double(std::abs(e)));
                if (i / n % n == i % n) worst = std::max(worst, double(std::abs(e.imag())));
              }
            }
          });
          if (worst > 1e-2 + 1e-4 * most) runtime_error(c[1].str());
          Tensor out = empty(t.shape(), t.dtype());
          copy_into(out, t);
          return out;
        })
        .grad(0, nothing, [](T g, C) { return g; })
        .linear()
        .internal()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

}  // namespace adjoint
