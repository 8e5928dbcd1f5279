// Values that must not be differentiated: what a custom function's forward computed from its inputs
// and backward reads again.
//
// Forward runs without recording, so such a value has no history; a derivative of the backward pass
// (create_graph=True) would treat it as a constant and be silently wrong. Values remember where
// their history was cut off (cut.h), and that tells which inputs they were computed from. So while
// a backward is recorded, such a value gets an Error node for a history, which leads to the inputs
// and raises when a second derivative passes through it. Nothing is raised for first derivatives.
#pragma once
#include "graph/node.h"

namespace adjoint {

// A node that raises `message` when a gradient arrives; takes over the edges' references.
Node* new_error_node(const std::string& message, std::vector<Edge> edges);

// Whether the forward of a custom function is running in this thread.
extern constinit thread_local bool t_in_function_forward;
// Whether `t` was computed by such a forward from what one of the node's edges leads to.
bool is_intermediate(const Node* n, const TensorObject* t);

// The custom function whose backward is being recorded in this thread, if any.
extern constinit thread_local Node* t_recorded_function;
// An op of that backward takes an operand without history: if it is an intermediate (one that came
// neither from saved_tensors nor from an attribute of ctx), the recorded node refuses to run.
void watch_operand(Node* recorded, const TensorObject* operand);

}  // namespace adjoint
