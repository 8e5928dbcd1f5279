// What a recorded function read of the program around it: checked before each replay, in the time
// of a lookup each. python/adjoint/compiler/_guards.py makes the tables; read its `Guard` first.
#include "python.h"

namespace adjoint {
namespace {

// A guard is a tuple (kind, holder, key, value, parts, holds): what stands at `key` of `holder`
// must be `value`, and the containers in `parts` must have the very objects in them that they had.
// If not, `holds` (or None) is asked, a Python function that knows equal values.
enum Kind {
  kAttribute,
  kPlain,  // an attribute that Python's own rules find
  kMethod,
  kItem,
  kElement,
  kKeys,
  kCell,
  kClass,
  kFree,
  kWhole,
  kCall
};
constexpr Py_ssize_t kMembers = 6;

PyObject* member(PyObject* guard, Py_ssize_t k) { return PyTuple_GET_ITEM(guard, k); }

// What stands there now; null, perhaps with an error, if nothing does.
Object read(Kind kind, PyObject* holder, PyObject* key, PyObject* value) {
  switch (kind) {
    case kAttribute:
      return Object::steal(PyObject_GetAttr(holder, key));
    case kPlain:
      return Object::steal(PyObject_GenericGetAttr(holder, key));
    case kItem:
      return Object::borrow(PyDict_GetItemWithError(holder, key));
    case kElement: {
      Py_ssize_t k = PyLong_AsSsize_t(key), n = PyList_GET_SIZE(holder);
      k += k < 0 ? n : 0;
      return k < 0 || k >= n ? Object() : Object::borrow(PyList_GET_ITEM(holder, k));
    }
    case kCell:
      return Object::borrow(PyCell_GET(holder));
    case kClass: {
      PyObject* own = reinterpret_cast<PyTypeObject*>(holder)->tp_dict;
      return own ? Object::borrow(PyDict_GetItemWithError(own, key)) : Object();
    }
    default:
      return Object::borrow(value);
  }
}

bool same_items(PyObject* list, PyObject* items) {
  Py_ssize_t n = PyTuple_GET_SIZE(items);
  if (PyList_GET_SIZE(list) != n) return false;
  for (Py_ssize_t k = 0; k < n; ++k)
    if (PyList_GET_ITEM(list, k) != PyTuple_GET_ITEM(items, k)) return false;
  return true;
}

// `values` is None where only the keys count. The order of a dict counts too.
bool same_entries(PyObject* dict, PyObject* keys, PyObject* values) {
  if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  if (!PyTuple_GET_SIZE(keys)) return true;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (Py_ssize_t k = 0; PyDict_Next(dict, &at, &key, &value); ++k) {
    if (key != PyTuple_GET_ITEM(keys, k)) return false;
    if (values != Py_None && value != PyTuple_GET_ITEM(values, k)) return false;
  }
  return true;
}

// parts: ((container, keys or None, values), ...), or None for "ask".
bool untouched(PyObject* parts) {
  if (parts == Py_None) return false;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(parts); ++k) {
    PyObject* one = PyTuple_GET_ITEM(parts, k);
    PyObject *container = member(one, 0), *keys = member(one, 1), *values = member(one, 2);
    bool same =
        keys == Py_None ? same_items(container, values) : same_entries(container, keys, values);
    if (!same) return false;
  }
  return true;
}

// Whether a class has the function for a method, and the object itself nothing of that name.
bool has_method(PyObject* holder, PyObject* name, PyObject* function) {
  if (_PyType_Lookup(Py_TYPE(holder), name) != function) return false;
  Object own = Object::steal(PyObject_GenericGetDict(holder, nullptr));
  if (!own) {
    PyErr_Clear();  // an object with slots only
    return true;
  }
  int r = PyDict_Contains(own.get(), name);
  checked(r);
  return r == 0;
}

bool asked(PyObject* holds, PyObject* now) {
  if (holds == Py_None) return false;
  Object answer = checked(now ? PyObject_CallOneArg(holds, now) : PyObject_CallNoArgs(holds));
  int r = PyObject_IsTrue(answer.get());
  checked(r);
  return r == 1;
}

bool holds(PyObject* guard) {
  Kind kind = static_cast<Kind>(PyLong_AsLong(member(guard, 0)));
  PyObject *holder = member(guard, 1), *key = member(guard, 2), *value = member(guard, 3);
  if (kind == kMethod) return has_method(holder, key, value);
  if (kind == kCall) return asked(member(guard, 5), nullptr);
  if (kind == kKeys)
    return same_entries(holder, value, Py_None) || asked(member(guard, 5), nullptr);
  if (kind == kFree) {
    int r = PyDict_Contains(holder, key);
    checked(r);
    return r == 0;
  }
  Object now = read(kind, holder, key, value);
  if (!now) {
    if (PyErr_Occurred()) throw PythonError{};
    return false;
  }
  if (now.get() == value && untouched(member(guard, 4))) return true;
  return asked(member(guard, 5), now.get());
}

// hold() -> bool, with the table of guards as its self. What raises does not hold.
PyObject* hold(PyObject* table, PyObject*) {
  return guard([&]() -> PyObject* {
    Object kept = Object::borrow(table);  // what it calls may drop the program it belongs to
    try {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(table); ++k)
        if (!holds(PyTuple_GET_ITEM(table, k))) Py_RETURN_FALSE;
    } catch (const PythonError&) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;  // an interrupt
      PyErr_Clear();
      Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

bool is_part(PyObject* o) {
  if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 3 || !PyTuple_Check(member(o, 2))) return false;
  if (member(o, 1) == Py_None) return PyList_Check(member(o, 0));
  return PyDict_Check(member(o, 0)) && PyTuple_Check(member(o, 1)) &&
         PyTuple_GET_SIZE(member(o, 1)) == PyTuple_GET_SIZE(member(o, 2));
}

bool is_guard(PyObject* o) {
  if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != kMembers || !PyLong_Check(member(o, 0)))
    return false;
  PyObject *holder = member(o, 1), *parts = member(o, 4);
  if (parts != Py_None) {
    if (!PyTuple_Check(parts)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(parts); ++k)
      if (!is_part(PyTuple_GET_ITEM(parts, k))) return false;
  }
  switch (PyLong_AsLong(member(o, 0))) {
    case kAttribute:
    case kPlain:
    case kMethod:
      return PyUnicode_Check(member(o, 2));
    case kItem:
    case kFree:
      return PyDict_Check(holder);
    case kElement:
      return PyList_Check(holder) && PyLong_Check(member(o, 2));
    case kKeys:
      return PyDict_Check(holder) && PyTuple_Check(member(o, 3));
    case kCell:
      return PyCell_Check(holder);
    case kClass:
      return PyType_Check(holder);
    case kWhole:
    case kCall:
      return true;
    default:
      return false;
  }
}

PyMethodDef hold_definition = {"hold", hold, METH_NOARGS,
                               "Whether everything that was read is still what it was."};

// _guards_check(table) -> a function without arguments that checks it
PyObject* guards_check(PyObject*, PyObject* table) {
  return guard([&]() -> PyObject* {
    if (!PyTuple_Check(table)) type_error("_guards_check(): expected a tuple of guards");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(table); ++k)
      if (!is_guard(PyTuple_GET_ITEM(table, k)))
        type_error("_guards_check(): entry ", k, " is no guard");
    return PyCFunction_New(&hold_definition, table);
  });
}

PyMethodDef functions[] = {
    {"_guards_check", guards_check, METH_O, "A function that checks a table of guards."},
    {nullptr}};

}  // namespace

void add_guards(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
