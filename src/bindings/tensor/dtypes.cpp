// The Python objects for dtypes and shapes: adjoint.dtype, adjoint.Size.
#include "bindings/python.h"
#include "bindings/tensor/tensor_class.h"

namespace adjoint {
namespace {

struct DTypeObject {
  PyObject_HEAD DType value;
};

DTypeObject g_dtypes[kDTypes];

DType value_of(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->value; }

PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", name_of(value_of(self)));
}
PyObject* dtype_is_floating(PyObject* s, void*) {
  return PyBool_FromLong(is_floating(value_of(s)));
}
PyObject* dtype_is_complex(PyObject* s, void*) { return PyBool_FromLong(is_complex(value_of(s))); }
PyObject* dtype_is_signed(PyObject* s, void*) {
  DType d = value_of(s);
  return PyBool_FromLong(d != DType::Bool && d != DType::UInt8 && !is_wide_unsigned(d));
}
PyObject* dtype_itemsize(PyObject* s, void*) { return PyLong_FromSize_t(item_size(value_of(s))); }
PyObject* dtype_to_real(PyObject* s, PyObject*) {
  PyObject* o = dtype_object(real_dtype(value_of(s)));
  Py_INCREF(o);
  return o;
}
PyObject* dtype_to_complex(PyObject* s, PyObject*) {
  PyObject* o = dtype_object(complex_dtype(value_of(s)));
  Py_INCREF(o);
  return o;
}
// Pickled and copied by name: there is one object per dtype.
PyObject* dtype_reduce(PyObject* s, PyObject*) {
  return PyUnicode_FromString(name_of(value_of(s)));
}

// Where pickling looks for the name first; it would search all modules otherwise.
PyObject* dtype_module(PyObject*, void*) { return PyUnicode_FromString("adjoint"); }

PyGetSetDef dtype_attributes[] = {
    {"__module__", dtype_module, nullptr, nullptr, nullptr},
    {"is_floating_point", dtype_is_floating, nullptr,
     "Whether values are real floating-point numbers.", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "Whether values are complex.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "Whether values can be negative.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {nullptr}};
PyMethodDef dtype_methods[] = {
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of the real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype of the same precision."},
    {"__reduce__", dtype_reduce, METH_NOARGS, ""},
    {nullptr}};

PyObject* size_repr(PyObject* self) {
  Object inner = Object::steal(PyList_New(0));
  if (!inner) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    if (PyList_Append(inner.get(), PyTuple_GET_ITEM(self, i)) < 0) return nullptr;
  }
  return PyUnicode_FromFormat("torch.Size(%R)", inner.get());
}
PyObject* size_numel(PyObject* self, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i)
    n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
  return PyErr_Occurred() ? nullptr : PyLong_FromLongLong(n);
}
PyObject* as_size(PyObject* tuple) {
  if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
  PyObject* size = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&size_python_type), tuple);
  Py_DECREF(tuple);
  return size;
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repeat(PyObject* a, Py_ssize_t n) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n));
}
PyObject* size_subscript(PyObject* a, PyObject* i) {
  PyObject* r = PyTuple_Type.tp_as_mapping->mp_subscript(a, i);
  return PySlice_Check(i) ? as_size(r) : r;
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  Object t = Object::steal(PySequence_Tuple(self));
  PyObject* plain = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  return Py_BuildValue("O(N)", &size_python_type, plain);
}
PySequenceMethods size_sequence;
PyMappingMethods size_mapping;
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, ""},
    {nullptr}};

}  // namespace

PyTypeObject dtype_python_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject size_python_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_dtype(PyObject* o) { return Py_TYPE(o) == &dtype_python_type; }
DType dtype_value(PyObject* o) { return value_of(o); }
PyObject* dtype_object(DType d) {
  return reinterpret_cast<PyObject*>(&g_dtypes[static_cast<int>(d)]);
}

bool parse_dtype(PyObject* o, DType* out) {
  if (is_dtype(o)) return *out = value_of(o), true;
  auto* t = reinterpret_cast<PyTypeObject*>(o);
  if (t == &PyFloat_Type) return *out = DType::Float64, true;
  if (t == &PyLong_Type) return *out = DType::Int64, true;
  if (t == &PyBool_Type) return *out = DType::Bool, true;
  if (t == &PyComplex_Type) return *out = DType::Complex128, true;
  return false;
}

PyObject* new_size(Span shape) {
  PyObject* s = size_python_type.tp_alloc(&size_python_type, shape.n);
  if (!s) return nullptr;
  for (int i = 0; i < shape.n; ++i) PyTuple_SET_ITEM(s, i, PyLong_FromLongLong(shape[i]));
  return s;
}

void add_dtypes(PyObject* module) {
  PyTypeObject& d = dtype_python_type;
  d.tp_name = "adjoint.dtype";
  d.tp_basicsize = sizeof(DTypeObject);
  d.tp_flags = Py_TPFLAGS_DEFAULT;
  d.tp_repr = dtype_repr;
  d.tp_getset = dtype_attributes;
  d.tp_methods = dtype_methods;
  d.tp_doc = "The type of a tensor's elements.";
  show_as_torchs(d);
  checked(PyType_Ready(&d));
  for (int i = 0; i < kDTypes; ++i) {
    PyObject_Init(reinterpret_cast<PyObject*>(&g_dtypes[i]), &d);
    g_dtypes[i].value = static_cast<DType>(i);
    PyObject* o = dtype_object(static_cast<DType>(i));
    checked(PyModule_AddObjectRef(module, kDTypeName[i], o));
  }
  const std::pair<const char*, DType> aliases[] = {
      {"float", DType::Float32},    {"double", DType::Float64},    {"half", DType::Float16},
      {"int", DType::Int32},        {"long", DType::Int64},        {"short", DType::Int16},
      {"cfloat", DType::Complex64}, {"cdouble", DType::Complex128}};
  for (auto& [name, value] : aliases)
    checked(PyModule_AddObjectRef(module, name, dtype_object(value)));
  checked(PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(&d)));

  PyTypeObject& s = size_python_type;
  s.tp_name = "adjoint.Size";
  s.tp_base = &PyTuple_Type;
  s.tp_flags = Py_TPFLAGS_DEFAULT;
  s.tp_repr = size_repr;
  s.tp_methods = size_methods;
  size_sequence.sq_concat = size_concat;
  size_sequence.sq_repeat = size_repeat;
  size_mapping.mp_subscript = size_subscript;
  s.tp_as_sequence = &size_sequence;
  s.tp_as_mapping = &size_mapping;
  s.tp_doc = "The shape of a tensor: a tuple of ints.";
  show_as_torchs(s);
  checked(PyType_Ready(&s));
  checked(PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(&s)));
}

}  // namespace adjoint
