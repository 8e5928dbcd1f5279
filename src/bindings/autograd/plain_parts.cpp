// A tensor of a transform as plain tensors, and back: for what runs programs, which know nothing of
// transforms (python/adjoint/loops/_transformed.py). Read graph/transformed.h first.
#include "bindings/autograd/autograd.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

// The same memory and history, without tangents.
Tensor primal_of(const Tensor& t, uint64_t levels) {
  if (!levels) return t;
  Tensor seen;
  {
    TangentLimit off(0);
    seen = needs_grad(t.get()) ? op<"alias">(t).tensor() : alias(t);
  }
  for (size_t i = 0; i < t_levels.size() && levels >> i; ++i) {
    if (levels >> i & 1 && may_have_tangent(seen.get()))
      set_tangent(seen, t_levels[i].level, Tensor());
  }
  return seen;
}

// _plain_parts(tensor): (levels that it is batched at, the value without them, [(level, tangent)]).
PyObject* plain_parts(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o);
    Object around = checked(PyList_New(0));
    while (Transformed* x = batch_of(t.get())) {
      checked(PyList_Append(around.get(), checked(PyLong_FromLongLong(x->batch_level)).get()));
      t = Tensor(x->batch);
    }
    uint64_t levels = g_transformed && may_have_tangent(t.get()) ? tangent_levels(t) : 0;
    Object tangents = checked(PyList_New(0));
    for (size_t i = 0; i < t_levels.size() && levels >> i; ++i) {
      if (!(levels >> i & 1)) continue;
      Object tangent = checked(to_python(tangent_of(t, t_levels[i].level)));
      Object pair = checked(Py_BuildValue("(LO)", t_levels[i].level, tangent.get()));
      checked(PyList_Append(tangents.get(), pair.get()));
    }
    Object primal = checked(to_python(primal_of(t, levels)));
    return Py_BuildValue("(OOO)", around.get(), primal.get(), tangents.get());
  });
}

// _of_plain_parts(levels, value, [(level, tangent)]): the tensor.
PyObject* of_plain_parts(PyObject*, PyObject* args) {
  PyObject *around, *value, *tangents;
  if (!PyArg_ParseTuple(args, "O!OO!", &PyTuple_Type, &around, &value, &PyList_Type, &tangents))
    return nullptr;
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(value);
    if (PyList_GET_SIZE(tangents)) t = needs_grad(t.get()) ? op<"alias">(t).tensor() : alias(t);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(tangents); ++k) {
      long long level;
      PyObject* o;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(tangents, k), "LO", &level, &o)) return nullptr;
      set_tangent(t, level, laid_out_as(t, fit_tangent(tensor_of(o), t)));
    }
    for (Py_ssize_t k = PyTuple_GET_SIZE(around); k-- > 0;) {
      long long level = PyLong_AsLongLong(PyTuple_GET_ITEM(around, k));
      if (level == -1 && PyErr_Occurred()) throw PythonError{};
      t = make_batched(t, level);
    }
    return to_python(t);
  });
}

PyMethodDef functions[] = {
    {"_plain_parts", plain_parts, METH_O,
     "The levels that a tensor is batched at, its value, and its tangents by level."},
    {"_of_plain_parts", of_plain_parts, METH_VARARGS, "The tensor with these parts."},
    {nullptr}};

}  // namespace

void add_plain_parts(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
