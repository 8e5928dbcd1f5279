// The backward pass: from outputs and their gradients to leaves.
#pragma once
#include <vector>

#include "../graph/node.h"

namespace adjoint {

struct Root {
  Edge edge;  // a reference to the node is held by the caller
  Tensor grad;
};

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  // When not empty: only paths to these edges run, and their gradients are returned instead of
  // being added to leaves (unless `accumulate`).
  std::vector<Edge> inputs;
  bool accumulate = true;
};

// Returns one gradient per edge of options.inputs (undefined where none arrived).
std::vector<Tensor> run_backward(const std::vector<Root>& roots, const BackwardOptions& options);

// What the engine asks of Python; set by the bindings.
struct EngineHooks {
  // The gradient after the hooks in `dict` ran on it.
  Tensor (*tensor_hooks)(PyObject* dict, const Tensor& grad) = nullptr;
  void (*pre_hooks)(PyObject* dict, Tensor* grads, int n) = nullptr;
  void (*post_hooks)(PyObject* dict, Tensor* results, int n, Tensor* grads, int m) = nullptr;
  void (*post_accumulate)(PyObject* dict, TensorObject* leaf) = nullptr;
  void (*retain)(PyObject* weakref, const Tensor& grad) = nullptr;
  bool (*interrupted)() = nullptr;  // Ctrl-C arrived: a Python exception is set
};
extern EngineHooks engine_hooks;

// Adds `grad` into leaf.grad as AccumulateGrad does.
void accumulate_grad(TensorObject* leaf, Tensor grad);

}  // namespace adjoint
