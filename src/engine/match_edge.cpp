// Read match_edge.h first.
#include "engine/match_edge.h"

#include "dispatch/op.h"

namespace adjoint {

Tensor match_edge(Tensor g, const Edge& e, const Node* from) {
  Expected m = expected_at(e);
  if (is_complex(g.dtype()) && !is_complex(m.dtype)) g = op<"real">(g);
  if (!(g.shape() == m.shape)) {
    int lead = g.ndim() - m.shape.size();
    bool fine = lead >= 0;
    for (int i = 0; fine && i < m.shape.size(); ++i)
      fine = m.shape[i] == g.size(lead + i) || m.shape[i] == 1;
    if (!fine) {
      int index = 0;
      while (from && index < from->edge_count && from->edges[index].node != e.node) ++index;
      runtime_error("Function ", from ? from->name : "backward",
                    " returned an invalid gradient at index ", index, " - got ", g.shape(),
                    " but expected shape compatible with ", m.shape);
    }
    g = op<"sum_to_size">(g, m.shape);
  }
  if (g.dtype() != m.dtype) g = op<"_to_copy">(g, m.dtype);
  return g;
}

}  // namespace adjoint
