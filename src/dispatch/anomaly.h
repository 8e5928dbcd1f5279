// detect_anomaly: finds the first op, forward or backward, that produced a NaN (or Inf), and says
// from what. Nothing here runs unless the thread's kAnomaly mode is on (graph/node.h).
// Read next: anomaly.cpp, then python/adjoint/autograd/anomaly_mode.py.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

struct Anomaly {
  bool nan = false, inf = false, forward = false;
  bool any() const { return nan || inf; }
};
// What is looked for in this thread, while kAnomaly is on.
extern thread_local Anomaly t_anomaly;

// What anomaly detection asks of Python; set by the bindings.
struct AnomalyHooks {
  // A node was recorded, in the backward of `parent` if that is not null: keep the stack.
  void (*created)(Node* node, Node* parent) = nullptr;
  // The backward of `node` raises: warn, with the stack of its forward. Raises nothing itself.
  void (*failed)(Node* node) = nullptr;
};
extern AnomalyHooks anomaly_hooks;

// Around one application of an op. Ops that the op is made of are not looked at: what they produce
// on the way may be masked in the end.
class OpAnomalyCheck {
 public:
  // `overwrites`: the result may take the place of an operand, so operands are looked at first.
  OpAnomalyCheck(const Op& op, const Value* args, bool overwrites);
  ~OpAnomalyCheck();
  OpAnomalyCheck(const OpAnomalyCheck&) = delete;
  // Notes the nodes of the result; throws if the op made the first bad value.
  void finished(const Value& out);

 private:
  const Op& op_;
  const Value* args_;
  bool overwrites_, looks_;
};

// Tells recorded nodes whose backward made them, and keeps the forward check quiet meanwhile: a bad
// value in backward is reported for the node.
class NodeAnomalyScope {
 public:
  explicit NodeAnomalyScope(Node* n);
  ~NodeAnomalyScope();
  NodeAnomalyScope(const NodeAnomalyScope&) = delete;

 private:
  Node* before_;
};

// A node that something other than an op recorded (a custom function).
void note_created(Node* n);
// Throws if the forward of a custom function made the first bad value, as OpAnomalyCheck does for ops.
void check_function(const std::string& name, const Tensors& given, const Tensors& made);
// Throws if one of the gradients that the backward of `n` returned is bad.
void check_backward(Node* n, const Tensor* grads, const Tensor* results);

// Whether a tensor holds NaN, or infinities.
bool holds(const Tensor& t, bool nan, bool inf);

}  // namespace adjoint
