// What happens to a leaf's accumulator besides being made and dropped (Note [Leaves and their
// accumulators] in node.h).
#pragma once
#include "graph/node.h"

namespace adjoint {

// `t` refers to other memory from here on (set_), and is another leaf to graphs to come. Graphs
// that were recorded before keep the old accumulator, which keeps `t` and still adds to its
// gradient.
void renew_accumulator(TensorObject* t);

}  // namespace adjoint
