// Between Python objects and Values.
#include "bindings/python.h"
#include "dispatch/pending_calls.h"
#include "dispatch/program_recorder.h"
#include "kernels/convert.h"
#include "transforms/batched.h"

namespace adjoint {

PyObject* item_of(const char* data, DType d) {
  if (d == DType::Bool) return PyBool_FromLong(load_int(d, data) != 0);
  if (d == DType::UInt64)
    return PyLong_FromUnsignedLongLong(static_cast<uint64_t>(load_int(d, data)));
  if (is_integral(d)) return PyLong_FromLongLong(load_int(d, data));
  if (is_floating(d)) return PyFloat_FromDouble(load_double(d, data));
  std::complex<double> z = load_complex(d, data);
  return PyComplex_FromDoubles(z.real(), z.imag());
}

PyObject* item_of_pending(TensorObject* one) {
  return guard([&] { return item_of(resolved(Tensor::borrow(one)).bytes(), one->dtype); });
}

namespace {

PyObject* tuple_of(const Tensors& ts) {
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(ts.size()));
  if (!t) return nullptr;
  for (size_t i = 0; i < ts.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), to_python(ts[i]));
  return t;
}

}  // namespace

PyObject* to_python(const Value& v) {
  switch (v.kind()) {
    case Value::None:
      Py_RETURN_NONE;
    case Value::Bool:
      return PyBool_FromLong(v.boolean());
    case Value::Int:
      return PyLong_FromLongLong(v.integer());
    case Value::Double:
      return PyFloat_FromDouble(v.real());
    case Value::Complex:
      return PyComplex_FromDoubles(v.complex().real(), v.complex().imag());
    case Value::Type: {
      PyObject* o = dtype_object(v.dtype());
      Py_INCREF(o);
      return o;
    }
    case Value::String:
      return PyUnicode_FromString(v.str().c_str());
    case Value::Ints: {
      PyObject* t = PyTuple_New(v.ints().size());
      for (int i = 0; t && i < v.ints().size(); ++i)
        PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(v.ints()[i]));
      return t;
    }
    case Value::Tensor_:
      return to_python(v.tensor());
    case Value::Tensors_:
      return tuple_of(v.tensors());
    case Value::List: {
      PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(v.list().size()));
      for (size_t i = 0; t && i < v.list().size(); ++i)
        PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), to_python(v.list()[i]));
      return t;
    }
    case Value::Object: {
      PyObject* o = v.python();
      Py_INCREF(o);
      return o;
    }
  }
  Py_RETURN_NONE;
}

namespace {

[[noreturn]] void too_large(PyObject* number, ErrorClass kind, const char* what) {
  Object shown = Object::steal(PyObject_Str(number));
  PyErr_Clear();  // thousands of digits have no text
  const char* digits = shown ? PyUnicode_AsUTF8(shown.get()) : "the integer";
  fail(kind, what, ": ", digits, " does not fit into 64 bits");
}

// NumPy's scalars are not subclasses of int or float (but for float64); they have __index__ or
// __float__.
bool parse_foreign_number(PyObject* o, Value* out) {
  PyNumberMethods* m = Py_TYPE(o)->tp_as_number;
  if (!m || is_tensor(o) || PyObject_CheckBuffer(o) == 0) return false;
  if (PySequence_Check(o)) return false;
  const char* name = Py_TYPE(o)->tp_name;
  if (m->nb_index && std::strstr(name, "bool") == nullptr) {
    Object i = checked(PyNumber_Index(o));
    *out = Value(static_cast<int64_t>(PyLong_AsLongLong(i.get())));
    if (PyErr_Occurred()) throw PythonError{};
    return true;
  }
  if (std::strstr(name, "bool")) return *out = Value(PyObject_IsTrue(o) == 1), true;
  if (std::strstr(name, "complex")) {
    Py_complex z = PyComplex_AsCComplex(o);
    if (PyErr_Occurred()) throw PythonError{};
    return *out = Value(std::complex<double>(z.real, z.imag)), true;
  }
  if (m->nb_float) {
    Object f = checked(PyNumber_Float(o));
    return *out = Value(PyFloat_AS_DOUBLE(f.get())), true;
  }
  return false;
}

}  // namespace

bool parse_number(PyObject* o, Value* out) {
  if (PyFloat_Check(o)) return *out = Value(PyFloat_AS_DOUBLE(o)), true;
  if (PyBool_Check(o)) return *out = Value(o == Py_True), true;
  if (PyLong_Check(o)) {
    int overflow = 0;
    int64_t i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) too_large(o, ErrorClass::Overflow, "int too big to convert");
    return *out = Value(i), true;
  }
  if (PyComplex_Check(o)) {
    Py_complex z = PyComplex_AsCComplex(o);
    return *out = Value(std::complex<double>(z.real, z.imag)), true;
  }
  return parse_foreign_number(o, out);
}

bool parse_large_int(PyObject* o, Value* out) {
  int overflow = 0;
  if (!PyLong_Check(o) || (PyLong_AsLongLongAndOverflow(o, &overflow), overflow <= 0)) return false;
  uint64_t i = PyLong_AsUnsignedLongLong(o);
  if (i == UINT64_MAX && PyErr_Occurred()) return PyErr_Clear(), false;
  Tensor t = empty({}, DType::UInt64);
  *t.data<uint64_t>() = i;
  if (captured()) t_recorder->constant(t.get());
  return *out = Value(std::move(t)), true;
}

bool parse_operand_number(PyObject* o, Value* out) {
  return parse_large_int(o, out) || parse_number(o, out);
}

bool parse_int(PyObject* o, int64_t* out) {
  if (PyBool_Check(o) || PyFloat_Check(o)) return false;
  if (PyLong_Check(o)) {
    int overflow = 0;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) too_large(o, ErrorClass::Value, "Overflow when unpacking long long");
    return true;
  }
  if (is_tensor(o)) {
    TensorObject* t = as_tensor(o);
    if (t->numel != 1 || !is_integral(t->dtype) || t->dtype == DType::Bool) return false;
    if (batch_of(t) || is_sparse(t)) return false;  // it has no single value
    refuse_recording("a tensor stands where an int is wanted, which reads its value");
    *out = load_int(t->dtype, resolved(Tensor::borrow(t)).bytes());
    if (t->dtype == DType::UInt64 && *out < 0)
      too_large(Object::steal(item_of(t)).get(), ErrorClass::Value,
                "Overflow when unpacking long long");
    return true;
  }
  Value v;
  if (!parse_foreign_number(o, &v) || v.kind() != Value::Int) return false;
  return *out = v.integer(), true;
}

bool parse_ints(PyObject* o, Dims* out, Py_ssize_t most) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  if (n > most) return false;
  out->resize(static_cast<int>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    try {
      if (!parse_int(PySequence_Fast_GET_ITEM(o, i), &(*out)[static_cast<int>(i)])) return false;
    } catch (const Error& e) {
      type_error("failed to unpack the object at pos ", i + 1, " with error \"", e.what(), "\"");
    }
  }
  return true;
}

}  // namespace adjoint
