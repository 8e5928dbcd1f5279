// The backward of custom functions: from gradients of outputs to gradients of inputs. Read
// function_node.h first.
#include "bindings/function/function_node.h"
#include "dispatch/program_recorder.h"
#include "engine/engine.h"
#include "graph/second_backward.h"
#include "graph/hidden_reads.h"
#include "graph/intermediate.h"

namespace adjoint {
namespace {

// backward or vjp, whichever the class defines.
Object user_backward(FunctionNode* n) {
  static PyObject* backward = interned("backward");
  static PyObject* vjp = interned("vjp");
  static PyObject* base = from_function_module("Function");
  static PyObject* base_backward = checked(PyObject_GetAttr(base, backward)).release();
  static PyObject* base_vjp = checked(PyObject_GetAttr(base, vjp)).release();
  PyObject* cls = forward_class(n);
  Object f = checked(PyObject_GetAttr(cls, backward));
  Object g = checked(PyObject_GetAttr(cls, vjp));
  if (g.get() == base_vjp) return f;
  if (f.get() != base_backward) {
    runtime_error(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
        "You should only implement one of them (class ",
        function_name(n), ").");
  }
  return g;
}

// The gradient of output k as backward gets it.
PyObject* incoming(FunctionNode* n, const Tensor* grads, int k) {
  if (grads[k]) return to_python(grads[k]);
  OutputKind kind = static_cast<OutputKind>(n->outputs()[k]);
  bool zero = kind == kGradOutput
                  ? !n->keep_undefined
                  : kind != kPlainOutput && !n->keep_undefined && !n->keep_undefined_non_diff;
  if (!zero) Py_RETURN_NONE;
  const Meta& m = n->meta_of(k);
  return to_python(fresh_zeros(m.shape(), m.dtype));
}

Object call_backward(FunctionNode* n, Tensor* grads) {
  Object function = user_backward(n);
  int count = n->output_count;
  static PyObject* boxed = interned("boxed_grads_call");
  if (!n->out_structure && class_says(n, boxed)) {
    Object list = checked(PyList_New(count));
    for (int k = 0; k < count; ++k) {
      PyList_SET_ITEM(list.get(), k, incoming(n, grads, k));
      grads[k] = Tensor();  // the list alone holds it
    }
    PyObject* args[] = {as_object(n), list.get()};
    return checked(PyObject_Vectorcall(function.get(), args, 2, nullptr));
  }
  if (n->out_structure) {
    Object flat = checked(PyTuple_New(count));
    for (int k = 0; k < count; ++k) PyTuple_SET_ITEM(flat.get(), k, incoming(n, grads, k));
    Object given =
        checked(PyObject_CallMethod(n->out_structure, "arguments", "OO", as_object(n), flat.get()));
    return checked(PyObject_Call(function.get(), given.get(), nullptr));
  }
  Object few[5];
  std::vector<Object> many(count > 4 ? count : 0);
  Object* held = many.empty() ? few : many.data();
  std::vector<PyObject*> more(count > 4 ? count + 1 : 0);
  PyObject* stack[5];
  PyObject** args = more.empty() ? stack : more.data();
  args[0] = as_object(n);
  for (int k = 0; k < count; ++k) {
    held[k] = checked(incoming(n, grads, k));
    args[k + 1] = held[k].get();
  }
  return checked(PyObject_Vectorcall(function.get(), args, count + 1, nullptr));
}

[[noreturn]] void wrong_count(FunctionNode* n, Py_ssize_t got) {
  std::string list;
  for (uint32_t i = 0; i < n->input_count; ++i) list += (i ? ", " : "") + input_name(n, i);
  runtime_error("function ", n->name, " returned an incorrect number of gradients (expected ",
                n->input_count, ", got ", got, "): ", function_name(n),
                ".backward must return one gradient per argument of forward (", list,
                "), None where there is none");
}

[[noreturn]] void wrong_shape(FunctionNode* n, uint32_t input, Span got, Span expected) {
  runtime_error("Function ", n->name, " returned an invalid gradient at index ", input, " - got ",
                got, " but expected shape compatible with ", expected, ": ", function_name(n),
                ".backward gave a gradient of shape ", got, " for argument ", input_name(n, input),
                ", which has shape ", expected, "\n  called here   ", n->line.describe());
}

// The engine sums axes that broadcasting added; anything else is refused here, with names.
void check_shape(FunctionNode* n, uint32_t input, const Tensor& g, const Edge& e) {
  Span expected = e.node->variable ? Span{e.node->variable->shape, e.node->variable->ndim}
                                   : e.node->meta_of(e.slot).shape();
  int lead = g.ndim() - expected.size();
  bool fine = lead >= 0;
  for (int i = 0; fine && i < expected.size(); ++i)
    fine = expected[i] == g.size(lead + i) || expected[i] == 1;
  if (!fine) wrong_shape(n, input, g.shape(), expected);
}

void take_results(FunctionNode* n, PyObject* given, Tensor* result) {
  Object one;
  if (!PyTuple_Check(given)) {
    one = checked(PyTuple_Pack(1, given));
    given = one.get();
  }
  Object flat;
  if (n->in_structure) {
    flat = checked(PyObject_CallMethod(n->in_structure, "gradients", "OO", as_object(n), given));
    given = flat.get();
  }
  Py_ssize_t count = PyTuple_GET_SIZE(given);
  while (count > n->input_count && PyTuple_GET_ITEM(given, count - 1) == Py_None) --count;
  if (count != n->input_count) wrong_count(n, PyTuple_GET_SIZE(given));
  uint32_t k = 0;
  for (uint32_t i = 0; i < n->input_count; ++i) {
    PyObject* g = PyTuple_GET_ITEM(given, i);
    bool is_input = n->inputs()[i] != kPlainInput;
    uint32_t e = is_input ? n->edge_of(k++) : 0;
    if (g == Py_None) continue;
    if (!is_input) {
      if (n->in_structure && !is_tensor(g)) continue;  // a field that is not a tensor, filled in
      runtime_error("function ", n->name, " returned a gradient different than None at position ",
                    i + 1, ", but the corresponding forward input was not a Variable: argument ",
                    input_name(n, i), " of ", function_name(n), ".forward");
    }
    if (!is_tensor(g)) {
      runtime_error("expected Variable or None (got ", Py_TYPE(g)->tp_name, "): ", function_name(n),
                    ".backward, gradient of argument ", input_name(n, i));
    }
    if (!n->edges[e].node) continue;
    result[e] = Tensor::borrow(as_tensor(g));
    check_shape(n, i, result[e], n->edges[e]);
    if (grad_enabled()) {  // computed from intermediates alone
      if (is_intermediate(n, result[e].get()))
        result[e] = guarded(n, result[e], "the gradient of argument " + input_name(n, i));
    }
  }
}

// While a backward is recorded, values of its forward that lost their history are looked out for.
class Recording {
 public:
  explicit Recording(FunctionNode* n) : n_(n), outer_(t_recorded_function), was_(n->in_backward) {
    n->in_backward = true;
    t_recorded_function = grad_enabled() ? n : nullptr;
  }
  ~Recording() {
    n_->in_backward = was_;
    t_recorded_function = outer_;
  }
  Recording(const Recording&) = delete;

 private:
  FunctionNode* n_;
  Node* outer_;
  bool was_;
};

// Forward computed with tensors that are none of its inputs: backward has to see to their
// gradients.
void run_accountable(FunctionNode* n, Tensor* grads, Tensor* result) {
  bool any = false;  // without a gradient there is none to lose
  for (int k = 0; k < n->output_count; ++k) any |= static_cast<bool>(grads[k]);
  if (any && n->hidden->released()) fail_freed(n);
  HiddenGradientCheck hidden(n);
  Object given = call_backward(n, grads);
  take_results(n, given.get(), result);
  if (any) hidden.check();
  if (current_run_keeps_graph()) return;
  release_hidden(n);
  n->released |= n->hidden->released();  // a second pass could lose gradients without a word
}

}  // namespace

PyObject* forward_class(FunctionNode* n) {
  static PyObject* name = interned("_forward_cls");
  PyObject* cls = _PyType_Lookup(Py_TYPE(n), name);
  if (!cls) runtime_error(n->name, " belongs to no Function");
  return cls;
}

bool class_says(FunctionNode* n, PyObject* name) {
  return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(forward_class(n)), name) == Py_True;
}

void run_function_backward(Node* plain, Tensor* grads, Tensor* result) {
  FunctionNode* n = function_node(plain);
  Recording recording(n);
  if (n->hidden) [[unlikely]]
    return run_accountable(n, grads, result);
  Object given = call_backward(n, grads);
  take_results(n, given.get(), result);
}

std::string function_name(FunctionNode* n) {
  std::string name = n->name;
  size_t end = name.size() > 8 ? name.size() - 8 : 0;
  return name.compare(end, 8, "Backward") == 0 ? name.substr(0, end) : name;
}

std::string input_name(FunctionNode* n, uint32_t input) {
  PyObject* name = PyObject_CallFunction(from_structures("input_name"), "OOI", forward_class(n),
                                         n->in_structure ? n->in_structure : Py_None, input);
  Object held = checked(name);
  return PyUnicode_AsUTF8(held.get());
}

}  // namespace adjoint
