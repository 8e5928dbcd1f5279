// Note [Strong zeros]
// The chain rule multiplies the gradient g of an output with the partial derivative p. Where the
// output was not used (where(mask, sqrt(x), 0)), g is 0; if p is infinite there, IEEE gives NaN.
// The derivative of a function that ignores an input is zero whatever that input is, so 0 is right.
//
// Elementwise ops: where g == 0 and the result is not finite, the result is 0. Where it is finite
// it is left alone, though it is 0 as well: its derivative with respect to g is p, which a second
// backward pass asks for (with g = 0, when it computes a directional derivative).
// Reductions: the same with g spread over the reduced axes. Other ops: if all of g is zero.
// All by ops, so that the correction is recorded when the backward pass is.
#include "dispatch/strong_zeros.h"

#include <algorithm>

#include "dispatch/anomaly.h"
#include "dispatch/op.h"

namespace adjoint {
namespace {

// g with an axis of length one for every axis that the op reduced away; undefined when the op does
// not say.
Tensor spread(const Node* n, const Tensor& g, const Tensor& result) {
  const Value* axes = nullptr;
  for (int i = 0; i < n->saved_count && i < n->op->argument_count; ++i) {
    if (n->op->schema.arguments[i].name == "dim") axes = &n->saved[i].value;
  }
  if (!axes || (axes->kind() != Value::Int && axes->kind() != Value::Ints)) return {};
  if (g.ndim() == result.ndim()) return g;
  Dims dims;
  if (axes->kind() == Value::Int)
    dims.push_back(axes->integer());
  else
    dims = axes->ints();
  for (int64_t& d : dims) d = wrap_dim(d, result.ndim());
  std::sort(dims.begin(), dims.end());
  Tensor out = g;
  for (int64_t d : dims) {
    if (d > out.ndim()) return {};
    out = op<"unsqueeze">(out, d);
  }
  return out;
}

bool lines_up(const Tensor& g, const Tensor& result) {
  if (!g || g.ndim() != result.ndim()) return false;
  for (int d = 0; d < g.ndim(); ++d) {
    if (g.size(d) != result.size(d) && g.size(d) != 1) return false;
  }
  return true;
}

// Whether all gradients are zero, as a tensor: under vmap each sample has its own answer.
Tensor all_zero(const Node* n, const Tensor* grads) {
  Tensor out;
  for (int k = 0; k < n->output_count; ++k) {
    if (!grads[k]) continue;
    Tensor zero = op<"logical_not">(op<"any">(op<"ne">(grads[k], 0)));
    out = out ? Tensor(op<"logical_and">(out, zero)) : zero;
  }
  return out;
}

// The gradient whose zeros say which elements of `result` are to be zero; undefined if none does.
Tensor deciding(const Node* n, const Tensor* grads, const Tensor& result) {
  if (!n->op || n->output_count != 1 || !grads[0]) return {};
  if (n->op->is_partial) return lines_up(grads[0], result) ? grads[0] : Tensor();
  Tensor g = spread(n, grads[0], result);
  return lines_up(g, result) && !(g.shape() == result.shape()) ? g : Tensor();
}

}  // namespace

void keep_zeros(Node* n, const Tensor* grads, Tensor* results) {
  for (int i = 0; i < n->edge_count; ++i) {
    if (!n->edges[i].node || !results[i] || !holds(results[i], true, true)) continue;
    Tensor bad = op<"logical_not">(op<"isfinite">(results[i]));
    Tensor g = deciding(n, grads, results[i]);
    Tensor zero = g ? Tensor(op<"eq">(g, 0)) : all_zero(n, grads);
    if (zero) bad = op<"logical_and">(bad, zero);
    results[i] = op<"masked_fill">(results[i], bad, 0);
  }
}

}  // namespace adjoint
