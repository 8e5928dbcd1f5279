// The node of a custom function: what user code sees as `ctx` is the node of the graph itself, an
// object of a Python class derived from this type, so that the collector sees every cycle.
//
//   function_node.cpp          its life cycle and what `ctx` offers
//   function_apply.cpp         Function.apply: from a call to outputs with a history
//   function_outputs.cpp       from what forward returned to outputs with a history
//   function_saved.cpp         what save_for_backward keeps, and how it comes back
//   function_tangents.cpp      the same for forward mode
//   function_backward.cpp      from gradients of outputs to gradients of inputs
//   function_hidden_reads.cpp  tensors that forward reads although they are not arguments
#pragma once
#include "bindings/python.h"
#include "graph/foreign_node.h"

namespace adjoint {

class ForwardReads;
struct HiddenRead;

// What one input is; inputs are the leaves of the arguments where these are structures.
enum InputKind : uint8_t { kPlainInput = 0, kTensorInput = 1, kGradInput = 3 };

// What a saved value is, so that its history can be given back without keeping the node in a cycle.
struct SavedRole {
  enum Kind : uint8_t { Other, Input, Output } kind = Other;
  uint32_t index = 0;  // of the edge or of the output
};

// What one output is: no tensor, one without a gradient, one marked so, one with a gradient.
enum OutputKind : uint8_t { kPlainOutput, kNoGradOutput, kMarkedOutput, kGradOutput };

inline constexpr int kInlineInputs = 8;
inline constexpr int kInlineOutputs = 4;

// Everything after the node is valid when zeroed.
struct FunctionNode : Node {
  PyObject* needs;    // needs_input_grad, once it was asked for or set
  PyObject* to_save;  // tuples given during forward, or null
  PyObject* for_forward;
  PyObject* dirty;
  PyObject* non_differentiable;
  PyObject* in_structure;   // how the inputs make up the arguments, or null where they are them
  PyObject* out_structure;  // the same for the result
  SavedRole* roles;         // one per saved value
  uint8_t* more_inputs;     // kinds, where there are more than fit
  uint8_t* more_outputs;
  ForwardReads* hidden;  // what forward read besides its inputs, or null
  uint32_t input_count;
  uint32_t first_edge;  // which tensor input has edge 0: the one changed in place, if it is a view
  bool keep_undefined;  // set_materialize_grads(False)
  bool keep_undefined_non_diff;
  bool in_backward, in_jvp;
  bool executable;  // part of a graph
  bool cleared;     // maybe_clear_saved_tensors was called
  bool read_once;   // saved_tensors were read, and its class allows that once
  uint8_t inputs_inline[kInlineInputs];
  uint8_t outputs_inline[kInlineOutputs];
  SavedRole roles_inline[kInlineSaved];

  uint8_t* inputs() { return more_inputs ? more_inputs : inputs_inline; }
  uint8_t* outputs() { return more_outputs ? more_outputs : outputs_inline; }
  const uint8_t* outputs() const { return more_outputs ? more_outputs : outputs_inline; }
  // The edge of tensor input number `k`.
  uint32_t edge_of(uint32_t k) const { return k == first_edge ? 0 : k < first_edge ? k + 1 : k; }
};

inline FunctionNode* function_node(PyObject* o) { return reinterpret_cast<FunctionNode*>(o); }
inline FunctionNode* function_node(Node* n) { return static_cast<FunctionNode*>(n); }
inline PyObject* as_object(FunctionNode* n) { return reinterpret_cast<PyObject*>(n); }

extern PyTypeObject* function_node_type;

// For names that are looked up again and again: kept forever.
inline PyObject* interned(const char* text) {
  return checked(PyUnicode_InternFromString(text)).release();
}

// Whether the user's class sets the attribute of that name to True.
bool class_says(FunctionNode* n, PyObject* name);
PyObject* forward_class(FunctionNode* n);  // borrowed

// A node of the given backward class, with an edge per tensor input: a new reference.
FunctionNode* new_function_node(PyTypeObject* type, int inputs, int edges);

// Keeps what forward asked to keep. `outputs`: the results as the user will see them.
void keep_saved(FunctionNode* n, PyObject* const* inputs, PyObject* const* outputs);
// The tuple of saved tensors, each with the history it had.
PyObject* saved_tensors(FunctionNode* n);
PyObject* raw_saved_tensors(FunctionNode* n);

// `t`, or where forward computed it from inputs: the same with a history that refuses to be
// differentiated. `what` names it.
Tensor guarded(FunctionNode* n, const Tensor& t, const std::string& what);
// The same for an attribute of ctx, which may be a list, tuple or dict; takes over `value`.
PyObject* guarded_attribute(FunctionNode* n, PyObject* name, PyObject* value);

// Forward mode. Whether an input has a tangent (ask only if g_transformed is not zero), and giving
// the outputs theirs.
bool any_tangents(PyObject* const* inputs, Py_ssize_t count);
void run_jvp(FunctionNode* n, PyObject* const* inputs, PyObject* const* outputs, bool is_tuple);

void run_function_backward(Node* n, Tensor* grads, Tensor* result);

// Hidden reads (graph/hidden_reads.h). What forward read is kept with the node, which becomes part of
// the graph because of it. Before the outputs get their history.
void keep_hidden(FunctionNode* n, PyObject* args, ForwardReads& reads);
void refuse_hidden_tangents(FunctionNode* n, PyObject* args, ForwardReads& reads);
void drop_hidden(FunctionNode* n) noexcept;
// For the collector; and for when the graph is freed: what was read is held weakly from then on.
int visit_hidden(FunctionNode* n, visitproc visit, void* arg);
void release_hidden(FunctionNode* n) noexcept;
// The message about a gradient or tangent that a call of the function lost.
std::string lost_text(const Node* n, const char* what, const ForwardReads& all,
                      const HiddenRead& r);
// While backward runs: sees which of the hidden tensors get a gradient from it, by whatever way.
class HiddenGradientCheck {
 public:
  explicit HiddenGradientCheck(FunctionNode* n);
  ~HiddenGradientCheck();
  HiddenGradientCheck(const HiddenGradientCheck&) = delete;
  void check();  // raises for one that got none

 private:
  struct Place;
  FunctionNode* n_;
  std::vector<Place> places_;
};

// From adjoint.autograd.function and adjoint.autograd._structures, by name: borrowed. The second is
// imported when the first nested argument is met.
PyObject* from_function_module(const char* name);
PyObject* from_structures(const char* name);

// Names for messages: the class of the user, and forward's argument number i with its path.
std::string function_name(FunctionNode* n);
std::string input_name(FunctionNode* n, uint32_t input);

PyObject* set_check_functions(PyObject*, PyObject* check);
PyObject* function_apply(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* keywords);

}  // namespace adjoint
