// Levels of forward mode and dual tensors; adjoint.autograd.forward_ad is what people call.
#include "../ops/tangents.h"
#include "python.h"

namespace adjoint {
namespace {

Tensor tensor_of(PyObject* o, const char* what) {
  if (!is_tensor(o)) type_error("expected ", what, " to be a Tensor, got ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
}

PyObject* enter(PyObject*, PyObject*) {
  return guard([&] { return PyLong_FromLong(open_level()); });
}
PyObject* leave(PyObject*, PyObject* level) {
  return guard([&]() -> PyObject* {
    long n = PyLong_AsLong(level);
    if (n == -1 && PyErr_Occurred()) throw PythonError{};
    close_level(static_cast<int>(n));
    Py_RETURN_NONE;
  });
}

// A second tensor on the memory of `t`, with its history and without the tangent of `level`.
Tensor without_tangent(const Tensor& t, int level) {
  uint64_t levels = tangent_levels(t);
  Tensor seen;
  {
    TangentLimit off(0);
    seen = needs_grad(t.get()) ? op<"_alias">(t).tensor() : alias(t);
  }
  for (int k = 0; k < kMaxLevels && levels >> k; ++k) {
    if (levels >> k & 1) set_tangent(seen, k, k == level ? Tensor() : tangent_of(t, k));
  }
  return seen;
}

void check_dual(const Tensor& primal, const Tensor& tangent, int level) {
  if (!is_differentiable(primal.dtype()))
    value_error("Expected primal to be floating point or complex, but got: ", primal.dtype());
  if (!is_differentiable(tangent.dtype()))
    value_error("Expected tangent to be floating point or complex, but got: ", tangent.dtype());
  if (is_complex(tangent.dtype()) && !is_complex(primal.dtype())) {
    value_error("Expected tangent to be real, like its primal (", primal.dtype(),
                "), but got: ", tangent.dtype());
  }
  if (!(primal.shape() == tangent.shape())) {
    runtime_error(
        "Trying to set a forward gradient that has a different size than that of the original "
        "Tensor, this is not supported. Tensor is of size ",
        primal.shape(), " while the given forward gradient is of size ", tangent.shape(), ".");
  }
  if (tangent_of(primal, level)) {
    runtime_error(
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
        "level ",
        level, " is not supported.");
  }
  if (tangent_of(tangent, level)) {
    runtime_error("Setting a forward grad that itself has a forward gradient at the same level ",
                  level, " is not supported.");
  }
}

// _make_dual(primal, tangent, level)
PyObject* make_dual(PyObject*, PyObject* args) {
  PyObject *primal, *tangent;
  int level;
  if (!PyArg_ParseTuple(args, "OOi", &primal, &tangent, &level)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor p = tensor_of(primal, "the primal"), t = tensor_of(tangent, "the tangent");
    check_dual(p, t, level);
    Tensor dual = without_tangent(p, level);
    set_tangent(dual, level, laid_out_as(dual, fit_tangent(t, dual)));
    return to_python(dual);
  });
}

// _unpack_dual(tensor, level): (primal, tangent or None)
PyObject* unpack_dual(PyObject*, PyObject* args) {
  PyObject* o;
  int level;
  if (!PyArg_ParseTuple(args, "Oi", &o, &level)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o, "the argument");
    Tensor tangent = tangent_of(t, level);
    Object primal = checked(to_python(without_tangent(t, level)));
    return Py_BuildValue("(ON)", primal.get(), to_python(tangent));
  });
}

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(t_tangent_limit > 0); }
PyObject* set_enabled(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  t_tangent_limit = v ? INT_MAX : 0;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_enter_dual_level", enter, METH_NOARGS, "Opens a level of forward mode; returns its number."},
    {"_exit_dual_level", leave, METH_O, "Closes the newest level and drops its tangents."},
    {"_make_dual", make_dual, METH_VARARGS, "A tensor with a tangent at a level."},
    {"_unpack_dual", unpack_dual, METH_VARARGS, "The value and the tangent at a level, or None."},
    {"_is_fwd_grad_enabled", is_enabled, METH_NOARGS, "Whether this thread computes tangents."},
    {"_set_fwd_grad_enabled", set_enabled, METH_O, "Turns tangents on or off in this thread."},
    {nullptr}};

}  // namespace

void add_forward_mode(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
