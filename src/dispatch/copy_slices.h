// What a CopySlices node did, for those who follow dependencies through the graph: the window of
// the base that was replaced, and the node of the op that made its new value. Read view.cpp.
#pragma once
#include "graph/node.h"

namespace adjoint {

// `at` counts elements from the base's first; `base_strides` is how the base lay in memory.
struct CopiedWindow {
  Dims shape, strides, base_strides;
  int64_t at;
  DType dtype;
  Node* inner;  // borrowed
};

// False if the node is no CopySlices, or was freed by a backward pass.
bool copied_window(const Node* n, CopiedWindow* out);

}  // namespace adjoint
