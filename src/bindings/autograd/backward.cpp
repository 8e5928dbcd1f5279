// backward and grad: from Python's arguments to the engine's. What people call is in
// python/adjoint/autograd/_backward.py; here arguments are tuples already.
#include "bindings/autograd/backward_arguments.h"
#include "bindings/program/program.h"
#include "dispatch/program_recorder.h"
#include "engine/match_edge.h"
#include "graph/transformed.h"

namespace adjoint {
namespace {

// A tensor, or a pair (node, slot).
Edge edge_of(PyObject* o) {
  if (is_tensor(o)) return gradient_edge(as_tensor(o));
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && is_node(PyTuple_GET_ITEM(o, 0))) {
    auto* n = reinterpret_cast<Node*>(PyTuple_GET_ITEM(o, 0));
    long slot = PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
    if (slot == -1 && PyErr_Occurred()) throw PythonError{};
    if (slot < 0 || slot >= n->output_count) {
      index_error("GradientEdge: ", n->name, " has ", n->output_count, " outputs, there is no ",
                  slot);
    }
    Py_INCREF(n);
    return {n, static_cast<uint32_t>(slot)};
  }
  type_error("expected a Tensor or a GradientEdge, got ", Py_TYPE(o)->tp_name);
}

Edge output_edge(PyObject* o, Py_ssize_t i) {
  Edge e = edge_of(o);
  if (!e.node) {
    runtime_error(
        "element ", i,
        " of tensors does not require grad and does not have a grad_fn.\n  It was made without "
        "recording: by a leaf without requires_grad=True, under no_grad, after detach(), or from "
        "integers. adjoint.explain_grad(tensor, x) says where the path to x ends.");
  }
  return e;
}

// The gradient of an output of one element with respect to itself.
Tensor implicit_grad(const Edge& e, Py_ssize_t i) {
  Expected m = expected_at(e);
  int64_t numel = 1;
  for (int64_t n : m.shape) numel *= n;
  if (numel != 1) {
    runtime_error(
        "grad can be implicitly created only for scalar outputs: output ", i, " has shape ",
        m.shape, ".\n  fix: call .sum() or .mean() first, or pass gradient= a tensor of shape ",
        m.shape, " (ones for the sum of all rows), or use func.jacrev for the whole Jacobian");
  }
  if (is_complex(m.dtype)) {
    runtime_error("grad can be implicitly created only for real scalar outputs but got ", m.dtype);
  }
  if (mode_on(kCaptured)) return op<"ones">(m.shape, m.dtype);
  Tensor one = scalar_tensor(Value(1), m.dtype);
  if (m.shape.size() == 0) return one;
  Tensor shaped = empty(m.shape, m.dtype);
  copy_into(shaped, op<"expand">(one, m.shape));
  return shaped;
}

void check_grad(const Tensor& g, const Edge& e, Py_ssize_t i) {
  Expected m = expected_at(e);
  if (!(g.shape() == m.shape)) {
    runtime_error("Mismatch in shape: grad_output[", i, "] has a shape of torch.Size(", g.shape(),
                  ") and output[", i, "] has a shape of torch.Size(", m.shape, ").");
  }
  if (is_complex(g.dtype()) != is_complex(m.dtype)) {
    runtime_error(
        "For complex Tensors, both grad_output and output are required to have the same dtype. "
        "Mismatch in dtype: grad_output[",
        i, "] has a dtype of ", g.dtype(), " and output[", i, "] has a dtype of ", m.dtype, ".");
  }
}

Tensor grad_for(const Edge& e, PyObject* g, Py_ssize_t i) {
  if (g == Py_None) return implicit_grad(e, i);
  if (!is_tensor(g))
    type_error("gradients can be either Tensors or None, but got ", Py_TYPE(g)->tp_name);
  Tensor grad = Tensor::borrow(as_tensor(g));
  check_grad(grad, e, i);
  return grad;
}

Edge input_edge(PyObject* o, Py_ssize_t i) {
  Edge e = edge_of(o);
  if (!e.node) {
    runtime_error("One of the differentiated Tensors does not require grad (input ", i, ")");
  }
  refuse_inner_result(e, "a backward pass");
  return e;
}

void refuse_unused(const std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    runtime_error(
        "The differentiated Tensor at index ", i,
        " appears to not have been used in the graph. Set allow_unused=True if this is "
        "the desired behavior.\n  adjoint.explain_grad(output, input) says where the path "
        "between them ends.");
  }
}

}  // namespace

void take_outputs(PyObject* outputs, PyObject* grads, Edges& from, std::vector<Root>& roots) {
  Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  if (PyTuple_GET_SIZE(grads) != n)
    runtime_error("got ", n, " tensors and ", PyTuple_GET_SIZE(grads), " gradients");
  for (Py_ssize_t i = 0; i < n; ++i) {
    from.items.push_back(output_edge(PyTuple_GET_ITEM(outputs, i), i));
    roots.push_back(
        {from.items.back(), grad_for(from.items.back(), PyTuple_GET_ITEM(grads, i), i)});
  }
}

void take_inputs(PyObject* inputs, bool accumulate, Edges& to) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    to.items.push_back(input_edge(o, i));
    if (accumulate && is_tensor(o)) keep_gradient(as_tensor(o));  // non-leaves get a .grad too
  }
}

namespace {

// run_backward(outputs, grads, keep_graph, create_graph, inputs, allow_unused, accumulate,
// end_at_inputs=False)
// outputs and inputs are tuples of tensors or of (node, slot); grads a tuple of tensors or None.
PyObject* run(PyObject*, PyObject* args) {
  PyObject *outputs, *grads, *inputs;
  int keep, create, unused_fine, accumulate, end = 0;
  if (!PyArg_ParseTuple(args, "O!O!ppO!pp|p", &PyTuple_Type, &outputs, &PyTuple_Type, &grads, &keep,
                        &create, &PyTuple_Type, &inputs, &unused_fine, &accumulate, &end)) {
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    Edges from, to;
    std::vector<Root> roots;
    take_outputs(outputs, grads, from, roots);
    BackwardOptions options;
    options.keep_graph = keep;
    options.create_graph = create;
    options.accumulate = accumulate;
    options.end_at_inputs = end;
    take_inputs(inputs, accumulate, to);
    options.inputs = to.items;
    std::vector<Tensor> results = run_backward(roots, options);
    if (accumulate) Py_RETURN_NONE;
    if (!unused_fine) refuse_unused(results);
    return tuple_of(results.data(), static_cast<int>(results.size())).release();
  });
}

// Tensor.backward(): the most common call goes straight to the engine.
PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  if (n == 0 && !keywords) {
    return guard([&]() -> PyObject* {
      Edges from;
      from.items.push_back(output_edge(self, 0));
      Root root{from.items[0], implicit_grad(from.items[0], 0)};
      static const BackwardOptions plain;
      run_backward({&root, 1}, plain);
      Py_RETURN_NONE;
    });
  }
  static PyObject* general = nullptr;
  if (!general) {
    Object module = Object::steal(PyImport_ImportModule("adjoint.autograd"));
    if (!module) return nullptr;
    general = PyObject_GetAttrString(module.get(), "_tensor_backward");
    if (!general) return nullptr;
  }
  std::vector<PyObject*> all{self};
  all.insert(all.end(), args, args + n + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
  return PyObject_Vectorcall(general, all.data(), static_cast<size_t>(n + 1), keywords);
}

PyObject* gradient_edge_of(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
    TensorObject* t = as_tensor(o);
    // The history of a sample is that of the batch.
    while (Transformed* sample = batch_of(t)) t = sample->batch.get();
    Edges edge;
    edge.items.push_back(gradient_edge(t));
    Edge e = edge.items[0];
    if (!e.node) {
      runtime_error(
          "It is not possible to get the gradient edge for a Tensor that does not require "
          "gradients");
    }
    return Py_BuildValue("(Ni)", checked(to_python(e.node)).release(), static_cast<int>(e.slot));
  });
}

// --- the pass under way --------------------------------------------------------------------------
PyObject* run_restricted(PyObject*, PyObject*) { return PyBool_FromLong(current_run_restricted()); }
PyObject* run_id(PyObject*, PyObject*) { return PyLong_FromLongLong(current_run_id()); }
PyObject* current_node_(PyObject*, PyObject*) {
  return guard([&] { return to_python(current_node()); });
}
PyObject* take_sum(PyObject*, PyObject* edge) {
  return guard([&]() -> PyObject* {
    long k = PyLong_AsLong(edge);
    if (k == -1 && PyErr_Occurred()) return nullptr;
    Tensor sum = take_sum_of_current(static_cast<int>(k));
    if (!sum) Py_RETURN_NONE;
    return to_python(std::move(sum));
  });
}
PyObject* set_accumulates_early(PyObject*, PyObject* wanted) {
  int value = PyObject_IsTrue(wanted);
  if (value < 0) return nullptr;
  g_accumulates_early = value;
  Py_RETURN_NONE;
}

PyObject* queue_callback_(PyObject*, PyObject* callable) {
  return guard([&]() -> PyObject* {
    if (!PyCallable_Check(callable))
      type_error("queue_callback: expected something callable, got ", Py_TYPE(callable)->tp_name);
    queue_callback(callable);
    Py_RETURN_NONE;
  });
}
PyObject* will_execute_(PyObject*, PyObject* node) {
  return guard([&]() -> PyObject* {
    if (!is_node(node)) {
      runtime_error("_will_engine_execute_node expects an grad_fn, but got ",
                    Py_TYPE(node)->tp_name);
    }
    return PyBool_FromLong(will_execute(reinterpret_cast<Node*>(node)));
  });
}
PyObject* execution_order_(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    for (Node* n : execution_order())
      checked(PyList_Append(list.get(), checked(to_python(n)).get()));
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"_gradient_edge", gradient_edge_of, METH_O,
     "(node, slot) where the gradient of a tensor goes."},
    {"_run_backward", run, METH_VARARGS, "Runs the engine; see adjoint.autograd."},
    {"_current_graph_task_id", run_id, METH_NOARGS,
     "A number for the backward pass under way in this thread; -1 outside one."},
    {"_current_autograd_node", current_node_, METH_NOARGS,
     "The node whose derivative is being computed in this thread, or None."},
    {"_take_sum", take_sum, METH_O,
     "The sum so far of the gradients of a tensor that the running node was given, taken out."},
    {"_current_pass_has_inputs", run_restricted, METH_NOARGS,
     "Whether the backward pass under way in this thread computes gradients of given inputs only."},
    {"_accumulate_early", set_accumulates_early, METH_O,
     "Lets passes add to a leaf as soon as its gradient is complete."},
    {"_queue_callback", queue_callback_, METH_O, "Calls a function when the pass is over."},
    {"_will_engine_execute_node", will_execute_, METH_O,
     "Whether the pass under way in this thread executes a node."},
    {"_current_graph_task_execution_order", execution_order_, METH_NOARGS,
     "The nodes that the pass under way in this thread executes, in order."},
    {nullptr}};
PyMethodDef methods[] = {
    {"backward", reinterpret_cast<PyCFunction>(tensor_backward), METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds the "
     "gradient of this tensor to the .grad of every leaf it was computed from."},
    {nullptr}};

}  // namespace

void add_autograd(PyObject* module) {
  add_functions(module, functions);
  extend_tensor_type(methods, nullptr);
  add_grad_mode(module);
  add_cuts(module);
  add_hooks(module);
  prepare_fresh_threads();
}

}  // namespace adjoint
