// The variables of a frame that runs, and what lies on its stack, by place. A loop that is taken over
// (python/adjoint/compiler/_taken_over.py) hands its variables on and gets them back.
#include "bindings/python.h"
#include "python/frames.h"

namespace adjoint {
namespace {

// From 3.14 on slots are tagged, and may borrow what they hold: that has not been tried.
#if ADJOINT_KNOWS_FRAMES && PY_VERSION_HEX < 0x030E0000

PyFrameObject* frame_of(PyObject* o, const char* who) {
  if (!PyFrame_Check(o)) type_error(text(who, "(): a frame is expected"));
  return reinterpret_cast<PyFrameObject*>(o);
}

int variables_of(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  int count = code->co_nlocalsplus;
  Py_DECREF(code);
  return count;
}

// _frame_variables(frame, absent) -> one for each, `absent` where there is none
PyObject* frame_variables(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_frame_variables(frame, absent)");
    PyFrameObject* frame = frame_of(args[0], "_frame_variables");
    int count = variables_of(frame);
    Object found = checked(PyList_New(count));
    for (int k = 0; k < count; ++k) {
      auto* there = reinterpret_cast<PyObject*>(frames::slots(frame)[k]);
      PyList_SET_ITEM(found.get(), k, Py_NewRef(there ? there : args[1]));
    }
    return found.release();
  });
}

void put(uintptr_t& slot, PyObject* value) {
  uintptr_t before = std::exchange(slot, reinterpret_cast<uintptr_t>(Py_NewRef(value)));
  if (before) Py_DECREF(reinterpret_cast<PyObject*>(before));
}

// _set_frame_variable(frame, place, value)
PyObject* set_frame_variable(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 3) type_error("_set_frame_variable(frame, place, value)");
    PyFrameObject* frame = frame_of(args[0], "_set_frame_variable");
    long place = PyLong_AsLong(args[1]);
    if (place < 0 || place >= variables_of(frame)) {
      if (!PyErr_Occurred()) type_error("_set_frame_variable(): there is no such variable");
      throw PythonError{};
    }
    put(frames::slots(frame)[place], args[2]);
    Py_RETURN_NONE;
  });
}

// _swap_on_stack(frame, depth, types, make): what lies there, if it is of just one of these types and nobody
// else has it, is replaced by make(it); whether it was.
PyObject* swap_on_stack(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4) type_error("_swap_on_stack(frame, depth, types, make)");
    PyFrameObject* frame = frame_of(args[0], "_swap_on_stack");
    long depth = PyLong_AsLong(args[1]);
    if (depth < 1) type_error("_swap_on_stack(): depth counts from 1");
    uintptr_t& slot = frames::slots(frame)[variables_of(frame) + depth - 1];
    auto* there = reinterpret_cast<PyObject*>(slot);
    if (!slot || Py_REFCNT(there) != 1) Py_RETURN_FALSE;
    int known = PySequence_Contains(args[2], reinterpret_cast<PyObject*>(Py_TYPE(there)));
    if (known < 0) throw PythonError{};
    if (!known) Py_RETURN_FALSE;
    Object made = checked(PyObject_CallOneArg(args[3], there));
    if (made.get() == Py_None) Py_RETURN_FALSE;
    put(slot, made.get());
    Py_RETURN_TRUE;
  });
}

PyMethodDef functions[] = {
    {"_frame_variables", reinterpret_cast<PyCFunction>(frame_variables), METH_FASTCALL,
     "_frame_variables(frame, absent): the variables of a frame, as they are."},
    {"_set_frame_variable", reinterpret_cast<PyCFunction>(set_frame_variable), METH_FASTCALL,
     "_set_frame_variable(frame, place, value): gives a frame another value of a variable."},
    {"_swap_on_stack", reinterpret_cast<PyCFunction>(swap_on_stack), METH_FASTCALL,
     "_swap_on_stack(frame, depth, types, make): puts make(it) in place of what lies on the "
     "stack."},
    {nullptr}};
#else
PyMethodDef functions[] = {{nullptr}};
#endif

}  // namespace

void add_frame_slots(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
