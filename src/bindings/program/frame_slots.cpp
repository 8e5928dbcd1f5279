// The variables of a frame that runs, and what lies on its stack, by place. A loop that is taken over
// (python/adjoint/_for_loops/_takeover.py) hands its variables on and gets them back.
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

PyObject* put(uintptr_t& slot, PyObject* value) {
  return reinterpret_cast<PyObject*>(
      std::exchange(slot, reinterpret_cast<uintptr_t>(Py_NewRef(value))));
}

// Lets a tensor that was changed in place be what another one is: values, and history. So for a part of a tensor.
void become(PyObject* pair) {
  if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
    type_error("_change_frame(): pairs of tensors are expected");
  PyObject* t = PyTuple_GET_ITEM(pair, 0);
  if (!is_tensor(t)) type_error("_change_frame(): pairs of tensors are expected");
  // A view is a part of what has a history of its own.
  if (!as_tensor(t)->base) checked(PyObject_CallMethod(t, "detach_", nullptr));
  checked(PyObject_CallMethod(t, "copy_", "O", PyTuple_GET_ITEM(pair, 1)));
}

// _change_frame(frame, variables, lists, tensors): gives variables, by place, other values, changes tensors, and appends
// to lists; all of it or nothing. No Python runs before it is done, so nobody sees a half of it.
PyObject* change_frame(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4 || !PyDict_CheckExact(args[1]) || !PyList_CheckExact(args[2]) ||
        !PyList_CheckExact(args[3]))
      type_error("_change_frame(frame, variables, lists, tensors)");
    PyFrameObject* frame = frame_of(args[0], "_change_frame");
    std::vector<std::pair<int, PyObject*>> places;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(args[1], &at, &key, &value);) {
      long place = PyLong_AsLong(key);
      if (place < 0 || place >= variables_of(frame)) {
        if (!PyErr_Occurred()) type_error("_change_frame(): there is no such variable");
        throw PythonError{};
      }
      places.emplace_back(static_cast<int>(place), value);
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[3]); ++k) become(PyList_GET_ITEM(args[3], k));
    std::vector<Object> gone;
    gone.reserve(places.size());
    Py_ssize_t done = 0;
    for (; done < PyList_GET_SIZE(args[2]); ++done) {
      PyObject* pair = PyList_GET_ITEM(args[2], done);
      if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 ||
          !PyList_CheckExact(PyTuple_GET_ITEM(pair, 0)) ||
          !PyList_CheckExact(PyTuple_GET_ITEM(pair, 1)))
        break;
      PyObject* list = PyTuple_GET_ITEM(pair, 0);
      Py_ssize_t size = PyList_GET_SIZE(list);
      if (PyList_SetSlice(list, size, size, PyTuple_GET_ITEM(pair, 1)) < 0) break;
    }
    if (done < PyList_GET_SIZE(args[2])) {
      PyObject *kind, *error, *traceback;
      PyErr_Fetch(&kind, &error, &traceback);
      while (done-- > 0) {
        PyObject* pair = PyList_GET_ITEM(args[2], done);
        PyObject* list = PyTuple_GET_ITEM(pair, 0);
        Py_ssize_t size = PyList_GET_SIZE(list);
        PyList_SetSlice(list, size - PyList_GET_SIZE(PyTuple_GET_ITEM(pair, 1)), size, nullptr);
      }
      PyErr_Restore(kind, error, traceback);
      if (!PyErr_Occurred()) type_error("_change_frame(): pairs of lists are expected");
      throw PythonError{};
    }
    for (auto [place, to] : places) {
      PyObject* before = put(frames::slots(frame)[place], to);
      if (before) gone.push_back(Object::steal(before));
    }
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
    Py_XDECREF(put(slot, made.get()));
    Py_RETURN_TRUE;
  });
}

PyMethodDef functions[] = {
    {"_frame_variables", reinterpret_cast<PyCFunction>(frame_variables), METH_FASTCALL,
     "_frame_variables(frame, absent): the variables of a frame, as they are."},
    {"_change_frame", reinterpret_cast<PyCFunction>(change_frame), METH_FASTCALL,
     "_change_frame(frame, variables, lists, tensors): gives variables, by place, other values, "
     "appends to lists, given as pairs of a list and what it gets, and lets tensors, given as such "
     "pairs, be what others are."},
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
