// The state of autocast in this thread, as Python sets it (python/adjoint/_autocast.py).
#include "bindings/python.h"
#include "dispatch/autocast.h"

namespace adjoint {
namespace {

constexpr unsigned kShift = 8;  // so that kAutocast is 1 in Python, and so on
static_assert(kAutocast == 1u << kShift);

// How many contexts this thread is in.
thread_local int64_t t_nesting = 0;

PyObject* modes(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong((t_modes & kAutocastModes) >> kShift);
}

PyObject* set_modes(PyObject*, PyObject* o) {
  unsigned long wanted = PyLong_AsUnsignedLong(o);
  if (wanted == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  uint32_t before = t_modes & kAutocastModes;
  t_modes =
      (t_modes & ~kAutocastModes) | (static_cast<uint32_t>(wanted << kShift) & kAutocastModes);
  return PyLong_FromUnsignedLong(before >> kShift);
}

PyObject* add_nesting(PyObject*, PyObject* o) {
  long step = PyLong_AsLong(o);
  if (step == -1 && PyErr_Occurred()) return nullptr;
  return PyLong_FromLongLong(t_nesting += step);
}

PyObject* clear_cache(PyObject*, PyObject*) {
  clear_autocast_cache();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_autocast_modes", modes, METH_NOARGS, "1: on, 2: float16, 4: no cache; their sum."},
    {"_set_autocast_modes", set_modes, METH_O, "Sets them; returns what they were."},
    {"_add_autocast_nesting", add_nesting, METH_O, "Counts contexts; returns how many there are."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "Drops the casts of weights that are kept."},
    {nullptr}};

}  // namespace

void add_autocast(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
