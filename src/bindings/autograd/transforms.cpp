// What adjoint.func needs of the graph: variables of its own, results without their history.
#include <unordered_set>

#include "bindings/python.h"
#include "dispatch/view.h"
#include "graph/hidden_reads.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

// The same memory and tangents, without history.
Tensor detached(const Tensor& t) {
  return map_innermost(t, [](const Tensor& inside) {
    Tensor plain = alias(inside);
    share_tangents(plain, inside);
    return plain;
  });
}

Tensor tensor_of(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
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
      if (!n->backward) Py_RETURN_TRUE;
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

// --- vmap ----------------------------------------------------------------------------------------
Level batch_level_at(int place) {
  if (place < 0 || place >= static_cast<int>(t_levels.size()) || !t_levels[place].batch)
    runtime_error("there is no vmap level ", place);
  return t_levels[place].level;
}

// _enter_vmap(size, randomness, directions): the place of the level.
PyObject* enter_vmap(PyObject*, PyObject* args) {
  long long size;
  const char* randomness;
  int directions;
  if (!PyArg_ParseTuple(args, "Lsp", &size, &randomness, &directions)) return nullptr;
  return guard([&] {
    OpenLevel what;
    what.batch = true;
    what.size = size;
    what.directions = directions;
    what.randomness = *randomness == 'd'   ? Randomness::Different
                      : *randomness == 's' ? Randomness::Same
                                           : Randomness::Error;
    open_level(what);
    return PyLong_FromSize_t(t_levels.size() - 1);
  });
}
PyObject* exit_vmap(PyObject*, PyObject* place) {
  return guard([&]() -> PyObject* {
    close_level(batch_level_at(static_cast<int>(PyLong_AsLong(place))));
    Py_RETURN_NONE;
  });
}

// _add_batch(tensor, dim, place): a sample of the tensor, whose axis `dim` counts the samples.
PyObject* add_batch(PyObject*, PyObject* args) {
  PyObject* o;
  int dim, place;
  if (!PyArg_ParseTuple(args, "Oii", &o, &dim, &place)) return nullptr;
  return guard([&] {
    Tensor t = tensor_of(o);
    if (dim != 0) t = op<"movedim">(t, Dims{dim}, Dims{0});
    return to_python(make_batched(t, batch_level_at(place)));
  });
}
// _remove_batch(tensor, dim, place): the samples along axis `dim`.
PyObject* remove_batch(PyObject*, PyObject* args) {
  PyObject* o;
  int dim, place;
  if (!PyArg_ParseTuple(args, "Oii", &o, &dim, &place)) return nullptr;
  return guard([&] {
    Tensor t = explicit_batch(tensor_of(o), batch_level_at(place), t_levels[place].size);
    if (dim != 0) t = op<"movedim">(t, Dims{0}, Dims{dim});
    return to_python(t);
  });
}

// The innermost level that any of the tensors is batched at, or 0. `_take_off` and `_put_on` are
// for code that works on all samples at once, such as grad inside vmap.
PyObject* batch_level_of(PyObject*, PyObject* tuple) {
  return guard([&] {
    Level found = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyObject* o = PyTuple_GET_ITEM(tuple, i);
      if (!is_tensor(o)) continue;
      if (Transformed* x = batch_of(as_tensor(o))) found = std::max(found, x->batch_level);
    }
    return PyLong_FromLongLong(found);
  });
}
PyObject* take_off(PyObject*, PyObject* args) {
  PyObject* o;
  long long level, size;
  if (!PyArg_ParseTuple(args, "OLL", &o, &level, &size)) return nullptr;
  return guard([&] { return to_python(explicit_batch(tensor_of(o), level, size)); });
}
PyObject* put_on(PyObject*, PyObject* args) {
  PyObject* o;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &o, &level)) return nullptr;
  return guard([&] { return to_python(make_batched(tensor_of(o), level)); });
}
// (size of the batch, or -1 where the tensor is not batched at the level)
PyObject* size_at(PyObject*, PyObject* args) {
  PyObject* o;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &o, &level)) return nullptr;
  return guard([&] {
    Tensor t = tensor_of(o);
    for (Transformed* x = batch_of(t.get()); x; x = batch_of(x->batch.get())) {
      if (x->batch_level == level) return PyLong_FromLongLong(x->batch.size(0));
    }
    return PyLong_FromLong(-1);
  });
}

PyMethodDef functions[] = {
    {"_detached", detach, METH_O, "The same value and tangents without history."},
    {"_argument", argument, METH_O, "What a function may change in place."},
    {"_variable", variable, METH_VARARGS, "What a transform differentiates by."},
    {"_reaches_others", reaches_others, METH_VARARGS,
     "Whether a graph leads to leaves other than through given tensors."},
    {"_derivative_depth", derivative_depth, METH_O,
     "How deep functions are that are differentiated; changes it."},
    {"_enter_vmap", enter_vmap, METH_VARARGS, "Opens a level of vmap; returns its place."},
    {"_exit_vmap", exit_vmap, METH_O, "Closes the newest level."},
    {"_add_batch", add_batch, METH_VARARGS, "A tensor that stands for one sample of a batch."},
    {"_remove_batch", remove_batch, METH_VARARGS, "The batch of a result."},
    {"_batch_level", batch_level_of, METH_O, "The innermost level that tensors are batched at."},
    {"_take_off", take_off, METH_VARARGS, "A tensor with the axis of a level in front."},
    {"_put_on", put_on, METH_VARARGS, "A tensor whose first axis belongs to a level."},
    {"_size_at", size_at, METH_VARARGS, "The size of a tensor's batch at a level, or -1."},
    {nullptr}};

}  // namespace

void add_transforms(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
