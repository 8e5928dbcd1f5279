// The backward pass: from outputs and their gradients to leaves. What others may ask of it; the
// pass itself is a Run (run.h, engine.cpp).
#pragma once
#include <span>
#include <vector>

#include "graph/node.h"

namespace adjoint {

struct Root {
  Edge edge;  // a reference to the node is held by the caller
  Tensor grad;
};

class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // The turn of a node has come, with these sums of gradients: before its hooks run.
  virtual void arrived(Node* node, const Tensor* grads);
  // A node has run, hooks included: the gradients it got, and those it passes on, one per edge.
  virtual void ran(Node* node, const Tensor* grads, const Tensor* results) = 0;
  // Gradients have come to an end here: added to a leaf, or taken out for `inputs`.
  virtual void ended(Node* node, const Tensor* grads);
};

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  // When not empty: only paths to these edges run.
  std::vector<Edge> inputs;
  // `inputs` are all leaves there are: a pass like any other, but for the time of its sums.
  bool all_leaves = false;
  // Gradients are added to leaves; otherwise those of `inputs` are returned.
  bool accumulate = true;
  // The pass takes the gradients of `inputs` as they arrive and goes no further: neither from one
  // input to another, nor to their hooks.
  bool end_at_inputs = false;
  // Told of every node that runs.
  PassObserver* observer = nullptr;
};

// Whether passes add to a leaf as soon as its gradient is complete, rather than in the order of
// nodes, by which leaves are last. It takes a look at the whole graph beforehand; who sends
// gradients elsewhere while the pass goes on (nn/parallel/_reducer.py) wants it.
extern bool g_accumulates_early;

// Returns one gradient per edge of options.inputs (undefined where none arrived).
std::vector<Tensor> run_backward(std::span<const Root> roots, const BackwardOptions& options);

// What the engine asks of Python; set by the bindings.
struct EngineHooks {
  // The gradient after the hooks in `dict` ran on it; undefined where none arrived.
  Tensor (*tensor_hooks)(PyObject* dict, const Tensor& grad) = nullptr;
  void (*pre_hooks)(PyObject* dict, Tensor* grads, int n) = nullptr;
  void (*post_hooks)(PyObject* dict, Tensor* results, int n, Tensor* grads, int m) = nullptr;
  void (*post_accumulate)(PyObject* dict, TensorObject* leaf) = nullptr;
  void (*retain)(PyObject* weakref, const Tensor& grad) = nullptr;
  void (*callback)(PyObject* callable) = nullptr;
  // Ctrl-C arrived: a Python exception is set.
  bool (*interrupted)() = nullptr;
  // Calls body(argument) on a thread with an empty stack and waits for it; throws what it throws.
  void (*on_fresh_thread)(void (*body)(void*), void* argument) = nullptr;
};
extern EngineHooks engine_hooks;
// The backward of compiled calls, which have an edge for each tensor whether or not the results
// depend on it: where there is no gradient, the pass does not go on. Set by the bindings.
extern void (*compiled_backward)(Node* n, Tensor* grads, Tensor* results);

// Adds `grad` into leaf.grad as AccumulateGrad does. The gradient itself becomes leaf.grad where
// the caller's is the only reference to it.
void accumulate_grad(TensorObject* leaf, const Tensor& grad);

// --- the pass under way in this thread -----------------------------------------------------------
// A number of its own, or -1 outside any.
int64_t current_run_id();
// The node whose backward is running: borrowed, null where there is none.
Node* current_node();
// The sum so far of the gradients behind an edge of that node, taken out: Run::take_sum.
Tensor take_sum_of_current(int edge);
// Whether it is restricted to the paths to some inputs (autograd.grad, inputs=).
bool current_run_restricted();
// Whether it would have run `node`, or nodes behind it, had a gradient arrived there.
bool current_run_wants(Node* node);
// Whether the pass under way in this thread keeps saved values (retain_graph); false outside.
bool current_run_keeps_graph();
// Calls `callable` when the pass is over; throws outside a pass.
void queue_callback(PyObject* callable);
// Whether it reaches `node`: an answer that holds for the whole pass. Throws outside a pass.
bool will_execute(Node* node);
// The nodes it executes, in order: borrowed. Throws outside a pass.
std::vector<Node*> execution_order();

}  // namespace adjoint
