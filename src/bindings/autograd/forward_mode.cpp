// Levels of forward mode and dual tensors; adjoint.autograd.forward_ad is what people call.
#include "bindings/python.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

Tensor tensor_of(PyObject* o, const char* what) {
  if (!is_tensor(o)) type_error("expected ", what, " to be a Tensor, got ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
}

// Levels are known to Python by their place among those that are open in this thread.
Level level_at(int place) {
  if (place < 0 || place >= static_cast<int>(t_levels.size()) || t_levels[place].batch)
    runtime_error("there is no forward AD level ", place);
  return t_levels[place].level;
}

PyObject* enter(PyObject*, PyObject*) {
  return guard([&] {
    open_level({});
    return PyLong_FromSize_t(t_levels.size() - 1);
  });
}
PyObject* leave(PyObject*, PyObject* place) {
  return guard([&]() -> PyObject* {
    long n = PyLong_AsLong(place);
    if (n == -1 && PyErr_Occurred()) throw PythonError{};
    close_level(level_at(static_cast<int>(n)));
    Py_RETURN_NONE;
  });
}
// The place of the innermost level of forward mode; -1 outside.
PyObject* current(PyObject*, PyObject*) {
  long place = static_cast<long>(t_levels.size()) - 1;
  while (place >= 0 && t_levels[place].batch) --place;
  return PyLong_FromLong(place);
}

// A second tensor on the memory of `t`, with its history and without the tangent of `level`.
Tensor without_tangent(const Tensor& t, Level level) {
  uint64_t levels = tangent_levels(t);
  Tensor seen;
  {
    TangentLimit off(0);
    seen = needs_grad(t.get()) ? op<"alias">(t).tensor() : alias(t);
  }
  for (size_t i = 0; i < t_levels.size() && levels >> i; ++i) {
    Level k = t_levels[i].level;
    if (levels >> i & 1) set_tangent(seen, k, k == level ? Tensor() : tangent_of(t, k));
  }
  return seen;
}

void check_dual(const Tensor& primal, const Tensor& tangent, int place) {
  Level level = level_at(place);
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
  if (tangent_of(innermost(primal), level)) {
    runtime_error(
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
        "level ",
        place, " is not supported.");
  }
  if (tangent_of(innermost(tangent), level)) {
    runtime_error("Setting a forward grad that itself has a forward gradient at the same level ",
                  place, " is not supported.");
  }
}

// A batched primal has its tangent inside: Note [Derivatives under vmap] in transforms/batched.h.
Tensor dual_of(const Tensor& p, const Tensor& t, Level level) {
  if (Transformed* x = batch_of(p.get())) {
    Level around = x->batch_level;
    Tensor batch = x->batch;
    return make_batched(dual_of(batch, explicit_batch(t, around, batch.size(0)), level), around);
  }
  Tensor dual = without_tangent(p, level);
  set_tangent(dual, level, laid_out_as(dual, fit_tangent(t, dual)));
  return dual;
}

struct Unpacked {
  Tensor primal, tangent;
};
Unpacked unpacked(const Tensor& t, Level level) {
  if (Transformed* x = batch_of(t.get())) {
    Level around = x->batch_level;
    Unpacked u = unpacked(x->batch, level);
    return {make_batched(u.primal, around), u.tangent ? make_batched(u.tangent, around) : Tensor()};
  }
  Tensor tangent = tangent_of(t, level);
  return {without_tangent(t, level), tangent};
}

// _make_dual(primal, tangent, level)
PyObject* make_dual(PyObject*, PyObject* args) {
  PyObject *primal, *tangent;
  int place;
  if (!PyArg_ParseTuple(args, "OOi", &primal, &tangent, &place)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor p = tensor_of(primal, "the primal"), t = tensor_of(tangent, "the tangent");
    check_dual(p, t, place);
    return to_python(dual_of(p, t, level_at(place)));
  });
}

// _unpack_dual(tensor, level): (primal, tangent or None)
PyObject* unpack_dual(PyObject*, PyObject* args) {
  PyObject* o;
  int place;
  if (!PyArg_ParseTuple(args, "Oi", &o, &place)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o, "the argument");
    Level level = level_at(place);
    Unpacked u = unpacked(t, level);
    Object primal = checked(to_python(u.primal));
    return Py_BuildValue("(ON)", primal.get(), to_python(u.tangent));
  });
}

// _has_tangent(tensor): at any level that this thread sees.
PyObject* has_tangent(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o, "the argument");
    return PyBool_FromLong(g_transformed && may_have_tangent(t.get()) && tangent_levels(t));
  });
}

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(t_tangent_limit > 0); }
PyObject* set_enabled(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  t_tangent_limit = v ? INT64_MAX : 0;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_enter_dual_level", enter, METH_NOARGS, "Opens a level of forward mode; returns its number."},
    {"_exit_dual_level", leave, METH_O, "Closes the newest level and drops its tangents."},
    {"_current_dual_level", current, METH_NOARGS, "The innermost level of forward mode, or -1."},
    {"_make_dual", make_dual, METH_VARARGS, "A tensor with a tangent at a level."},
    {"_unpack_dual", unpack_dual, METH_VARARGS, "The value and the tangent at a level, or None."},
    {"_has_tangent", has_tangent, METH_O, "Whether a tensor has a tangent at any open level."},
    {"_is_fwd_grad_enabled", is_enabled, METH_NOARGS, "Whether this thread computes tangents."},
    {"_set_fwd_grad_enabled", set_enabled, METH_O, "Turns tangents on or off in this thread."},
    {nullptr}};

}  // namespace

void add_forward_mode(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
