// What adjoint.func needs of the graph: variables of its own, results without their history.
#include <bit>
#include <unordered_set>

#include "bindings/autograd/autograd.h"
#include "dispatch/view.h"
#include "graph/hidden_reads.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {

Tensor tensor_of(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
}

namespace {

// The same memory and tangents, without history.
Tensor detached(const Tensor& t) {
  return map_innermost(t, [](const Tensor& inside) {
    Tensor plain = alias(inside);
    share_tangents(plain, inside);
    return plain;
  });
}

// The same memory, and tangents of the same values: none of them has a history.
Tensor released(const Tensor& t) {
  return map_innermost(t, [](const Tensor& inside) {
    Tensor plain = alias(inside);
    share_tangents(plain, inside);
    for (uint64_t left = tangent_levels(inside); left; left &= left - 1) {
      Level level = t_levels[std::countr_zero(left)].level;
      set_tangent(plain, level, released(tangent_of(inside, level)));
    }
    return plain;
  });
}

PyObject* release(PyObject*, PyObject* o) {
  return guard([&] { return to_python(released(tensor_of(o))); });
}

PyObject* detach(PyObject*, PyObject* o) {
  return guard([&] { return to_python(detached(tensor_of(o))); });
}

// _variable(tensor, keep): what a transform differentiates by: an alias that goes on with the
// history of the tensor, or a leaf; batched at every vmap under way.
PyObject* variable(PyObject*, PyObject* args) {
  PyObject* o;
  int keep;
  if (!PyArg_ParseTuple(args, "Op", &o, &keep)) return nullptr;
  return guard([&] {
    Tensor t = tensor_of(o);
    if (!is_differentiable(t.dtype())) {
      runtime_error("only Tensors of floating point dtype can require gradients (this one is ",
                    t.dtype(), ")");
    }
    t = batched_everywhere(t);
    return to_python(map_innermost(t, [&](const Tensor& inside) -> Tensor {
      if (keep && needs_grad(inside.get())) return op<"alias">(inside);
      Tensor leaf = detached(inside);
      leaf.set(kRequiresGrad);
      note_own_leaf(leaf.get());
      return leaf;
    }));
  });
}

// _argument(tensor): what a transform hands to a function that is not differentiated by it: the
// same memory under another name, so that a history the function writes into it ends there.
PyObject* argument(PyObject*, PyObject* o) {
  return guard([&] {
    Tensor t = tensor_of(o);
    if (t.has(kSubclass) || Py_TYPE(o) != tensor_type || needs_grad(innermost(t).get()))
      return to_python(t);
    return to_python(map_innermost(t, [](const Tensor& inside) {
      Tensor own = detached(inside);
      own.set(kArgument);
      return own;
    }));
  });
}

struct Held {
  std::vector<Node*> nodes;
  ~Held() {
    for (Node* n : nodes) Py_DECREF(n);
  }
};

Held nodes_of(PyObject* tuple) {
  Held held;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    Edge e = gradient_edge(innermost(tensor_of(PyTuple_GET_ITEM(tuple, i))).get());
    if (e.node) held.nodes.push_back(e.node);
  }
  return held;
}

// A leaf of a transform that is over: nothing is differentiated by it any more.
bool has_ended(const TensorObject* leaf) { return !(leaf->flags & kRequiresGrad); }

// _end_variables(tensors): the transform whose variables they are is over.
PyObject* end_variables(PyObject*, PyObject* tuple) {
  return guard([&]() -> PyObject* {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      Tensor inside = innermost(tensor_of(PyTuple_GET_ITEM(tuple, i)));
      if (!inside->grad_fn) inside->flags &= ~kRequiresGrad;
    }
    Py_RETURN_NONE;
  });
}

// _reaches_others(outputs, inputs): does the graph of the outputs lead to a leaf other than by way
// of the inputs?
PyObject* reaches_others(PyObject*, PyObject* args) {
  PyObject *outputs, *inputs;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &outputs, &PyTuple_Type, &inputs))
    return nullptr;
  return guard([&]() -> PyObject* {
    Held roots = nodes_of(outputs), ends = nodes_of(inputs);
    std::unordered_set<Node*> seen(ends.nodes.begin(), ends.nodes.end());
    std::vector<Node*> stack;
    auto visit = [&](Node* n) {
      if (n && seen.insert(n).second) stack.push_back(n);
    };
    for (Node* n : roots.nodes) visit(n);
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      if (!n->backward && !(n->variable && has_ended(n->variable))) Py_RETURN_TRUE;
      for (int i = 0; i < n->edge_count; ++i) visit(n->edges[i].node);
    }
    Py_RETURN_FALSE;
  });
}

// --- functions that are differentiated: what they must not change is older than the call ---------
// _derivative_depth(change): the depth after the change.
PyObject* derivative_depth(PyObject*, PyObject* change) {
  long by = PyLong_AsLong(change);
  if (by == -1 && PyErr_Occurred()) return nullptr;
  long depth = transform_depth(t_birth) + by;
  if (depth > 255) {
    PyErr_SetString(PyExc_RecursionError, "more than 255 transforms inside one another");
    return nullptr;
  }
  t_birth = static_cast<uint16_t>((t_birth & ~0xff) | depth);
  return PyLong_FromLong(depth);
}

PyMethodDef functions[] = {
    {"_released", release, METH_O, "The same value and tangents, none with a history."},
    {"_detached", detach, METH_O, "The same value and tangents without history."},
    {"_argument", argument, METH_O, "What a function may change in place."},
    {"_variable", variable, METH_VARARGS, "What a transform differentiates by."},
    {"_reaches_others", reaches_others, METH_VARARGS,
     "Whether a graph leads to leaves other than through given tensors."},
    {"_end_variables", end_variables, METH_O,
     "The transform whose variables they are is over: nothing is differentiated by them now."},
    {"_derivative_depth", derivative_depth, METH_O,
     "How deep functions are that are differentiated; changes it."},
    {nullptr}};

}  // namespace

void add_transforms(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
