// Machine code for programs: what Python has to do with it. python/adjoint/compiler/_native.py compiles,
// by llvmlite; program/native/native.h says when, and what.
#include "program/native/native.h"

#include "bindings/python.h"

namespace adjoint {
namespace {

// compile(text, names, instruction set) -> (owner, addresses), or None. Never freed: programs may outlive modules.
PyObject* python_compiler = nullptr;

std::shared_ptr<void> compile_by_python(const std::string& text,
                                        const std::vector<std::string>& names,
                                        std::vector<void*>* addresses) {
  Object list = checked(PyList_New(0));
  for (const std::string& name : names)
    checked(PyList_Append(list.get(), checked(PyUnicode_FromString(name.c_str())).get()));
  Object found = checked(PyObject_CallFunction(python_compiler, "sOs", text.c_str(), list.get(),
                                               isa_name(active_isa())));
  if (found.get() == Py_None) return nullptr;
  PyObject *owner, *numbers;
  if (!PyArg_ParseTuple(found.get(), "OO!", &owner, &PyList_Type, &numbers)) throw PythonError{};
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(numbers); ++k) {
    void* address = PyLong_AsVoidPtr(PyList_GET_ITEM(numbers, k));
    if (PyErr_Occurred()) throw PythonError{};
    if (!address) return nullptr;
    addresses->push_back(address);
  }
  if (addresses->size() != names.size())
    value_error("_native_by(): an address for each function is expected");
  return {Py_NewRef(owner), [](void* p) { Py_DECREF(static_cast<PyObject*>(p)); }};
}

// _native_by(compile, when): 0 never, 1 when it is worthwhile, 2 at once.
PyObject* native_by(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    int64_t when;
    if (n != 2 || !parse_int(args[1], &when) || when < 0 || when > 2)
      type_error("_native_by(compile, when): a function and 0, 1 or 2 are expected");
#if defined(__x86_64__)
    Py_XSETREF(python_compiler, Py_NewRef(args[0]));
    native::compiler = compile_by_python;
    native::when = args[0] == Py_None ? native::When::Never : static_cast<native::When>(when);
#endif
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"_native_by", reinterpret_cast<PyCFunction>(native_by), METH_FASTCALL,
                            "_native_by(compile, when): who compiles programs, and when: 0 never, "
                            "1 when it is worthwhile, "
                            "2 at once."},
                           {nullptr}};

}  // namespace

void add_native(PyObject* module);
void add_native(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
