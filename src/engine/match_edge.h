// Making a gradient look like the value it belongs to.
#pragma once
#include "graph/node.h"

namespace adjoint {

struct Expected {
  Span shape;
  DType dtype;
};

inline Expected expected_at(const Edge& e) {
  if (TensorObject* v = e.node->variable) return {{v->shape, v->ndim}, v->dtype};
  const Meta& m = e.node->meta_of(e.slot);
  return {m.shape(), m.dtype};
}

inline bool matches_edge(const Tensor& g, const Edge& e) {
  Expected m = expected_at(e);
  return g.dtype() == m.dtype && g.shape() == m.shape;
}

// Sums broadcast axes and casts; refuses what cannot be made to fit, which `from` returned.
Tensor match_edge(Tensor g, const Edge& e, const Node* from);

}  // namespace adjoint
