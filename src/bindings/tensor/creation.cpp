// Tensors from Python data: numbers and nested lists.
#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "kernels/convert.h"
#include "ops/creation/options.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

// Something other than numbers, tensors, lists and tuples: Python code brings it into that form.
struct Foreign {};

// The dtype of a NumPy scalar by the name of its type; false for anything else.
bool numpy_scalar(PyObject* o, DType* d) {
  const char* name = Py_TYPE(o)->tp_name;
  if (std::strncmp(name, "numpy.", 6) != 0) return false;
  name += 6;
  if (std::strncmp(name, "bool", 4) == 0) return *d = DType::Bool, true;
  if (std::strcmp(name, "longlong") == 0) return *d = DType::Int64, true;
  for (int i = 0; i < kDTypes; ++i) {
    if (std::strcmp(name, kDTypeName[i]) == 0) return *d = static_cast<DType>(i), true;
  }
  return false;
}

// First pass: the shape (from the first item of each level) and the dtype all items fit.
struct Survey {
  Dims shape;
  DType type = DType::Bool;
  bool any = false;

  void join(DType d) {
    type = any ? promote_types(type, d) : d;
    any = true;
  }
  void look(PyObject* o, int depth, PyObject** parents) {
    if (PyList_Check(o) || PyTuple_Check(o)) return look_inside(o, depth, parents);
    DType d;
    if (PyFloat_CheckExact(o)) return join(default_dtype());
    if (PyBool_Check(o)) return join(DType::Bool);
    if (PyLong_Check(o)) return join(DType::Int64);
    if (is_tensor(o)) return join(as_tensor(o)->dtype);
    if (numpy_scalar(o, &d)) return join(d);
    if (PyFloat_Check(o)) return join(default_dtype());
    if (PyComplex_Check(o)) return join(complex_dtype(default_dtype()));
    throw Foreign{};
  }
  void look_inside(PyObject* o, int depth, PyObject** parents) {
    for (int i = 0; i < depth; ++i) {
      if (parents[i] == o) value_error("a list that contains itself cannot be made into a tensor");
    }
    if (depth >= kMaxDims)
      value_error("too many dimensions: lists are nested deeper than ", kMaxDims);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (depth == shape.size()) shape.push_back(n);
    parents[depth] = o;
    for (Py_ssize_t i = 0; i < n; ++i) look(PySequence_Fast_GET_ITEM(o, i), depth + 1, parents);
  }
};

struct Filler {
  DType dtype;
  char* at;
  Span shape;

  void fill(PyObject* o, int depth) {
    if (depth < shape.n) return fill_row(o, depth);
    if (PyList_Check(o) || PyTuple_Check(o))
      type_error("'", Py_TYPE(o)->tp_name, "' where a number was expected, at dim ", depth);
    if (is_tensor(o)) return fill_tensor(as_tensor(o), depth);
    store(o);
    at += item_size(dtype);
  }
  void fill_row(PyObject* o, int depth) {
    if (!PyList_Check(o) && !PyTuple_Check(o)) {
      if (is_tensor(o)) return fill_tensor(as_tensor(o), depth);
      type_error("not a sequence: item at depth ", depth, " is a ", Py_TYPE(o)->tp_name,
                 " where a list of ", shape[depth], " was expected");
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (n != shape[depth]) {
      value_error("expected sequence of length ", shape[depth], " at dim ", depth, " (got ", n,
                  ")");
    }
    for (Py_ssize_t i = 0; i < n; ++i) fill(PySequence_Fast_GET_ITEM(o, i), depth + 1);
  }
  void store(PyObject* o) {
    if (PyFloat_Check(o) && is_floating(dtype)) {  // too large becomes infinity here
      return store_scalar(dtype, at, PyFloat_AS_DOUBLE(o));
    }
    if (PyLong_Check(o) && is_differentiable(dtype)) {  // may be wider than 64 bits
      double x = PyLong_AsDouble(o);
      if (x == -1 && PyErr_Occurred()) throw PythonError{};
      return store_scalar(dtype, at, x);
    }
    Value v;
    if (PyLong_Check(o)) {
      int overflow = 0;
      if (dtype == DType::UInt64) {  // negative ones are refused, as PyTorch does
        uint64_t x = PyLong_AsUnsignedLongLong(o);
        if (x == UINT64_MAX && PyErr_Occurred()) throw PythonError{};
        std::memcpy(at, &x, sizeof x);
        return;
      }
      v = Value(static_cast<int64_t>(PyLong_AsLongLongAndOverflow(o, &overflow)));
      if (overflow) value_error("Overflow when unpacking long long: the int needs over 64 bits");
    } else if (!parse_number(o, &v)) {
      throw Foreign{};
    }
    if (v.kind() == Value::Complex && !is_complex(dtype))
      type_error("must be real number, not complex");
    if (v.kind() == Value::Double && dtype == DType::UInt8 && v.real() <= -1)
      runtime_error("value cannot be converted to type uint8 without overflow: ", v.real());
    store_checked(v, dtype, at);
  }
  void fill_tensor(TensorObject* t, int depth) {
    if (t->numel != 1 || depth < shape.n)
      value_error("only one element tensors can be converted to Python scalars");
    if (batch_of(t)) refuse_reading_batched("calling .item() on");
    require_strided(t, "a list with tensors");
    refuse_recording("a list with tensors is made into one, which reads values; fix: use stack()");
    copy_run(at, static_cast<int64_t>(item_size(dtype)), dtype, t->data, 0, t->dtype, 1);
    at += item_size(dtype);
  }
};

}  // namespace

void check_placement(const Value& layout, const Value& device, const Value& pin_memory) {
  if (device.kind() == Value::Object) {
    PyObject* o = device.python();
    if (!PyUnicode_Check(o) || PyUnicode_CompareWithASCIIString(o, "cpu") != 0) {
      static PyObject* require_cpu = nullptr;
      if (!require_cpu) {
        Object module = checked(PyImport_ImportModule("adjoint._tensor.device"));
        require_cpu = checked(PyObject_GetAttrString(module.get(), "require_cpu")).release();
      }
      checked(PyObject_CallOneArg(require_cpu, o));
    }
  }
  if (layout.kind() == Value::Object) {
    Object name = checked(PyObject_Str(layout.python()));
    if (PyUnicode_CompareWithASCIIString(name.get(), "torch.strided") != 0) {
      not_implemented("layout ", PyUnicode_AsUTF8(name.get()),
                      ": adjoint's tensors are dense; use layout=torch.strided");
    }
  }
  if (pin_memory.kind() == Value::Bool && pin_memory.boolean()) {
    runtime_error(
        "pin_memory=True requires a CUDA or other accelerator backend; adjoint computes on the "
        "CPU, leave pin_memory out");
  }
}

MemoryFormat memory_format_of(const Value& given, MemoryFormat otherwise) {
  if (given.is_none()) return otherwise;
  static constexpr std::pair<const char*, MemoryFormat> kFormats[] = {
      {"torch.preserve_format", MemoryFormat::Preserve},
      {"torch.contiguous_format", MemoryFormat::Contiguous},
      {"torch.channels_last", MemoryFormat::ChannelsLast},
      {"torch.channels_last_3d", MemoryFormat::ChannelsLast3d}};
  if (given.kind() != Value::Object || given.python() == Py_None) return otherwise;
  PyObject* o = given.python();
  Object name = checked(PyObject_Str(o));
  for (auto [text, format] : kFormats) {
    if (std::strcmp(Py_TYPE(o)->tp_name, "memory_format") == 0 &&
        PyUnicode_CompareWithASCIIString(name.get(), text) == 0)
      return format;
  }
  type_error("argument 'memory_format' must be torch.memory_format, not ", Py_TYPE(o)->tp_name);
}

Tensor tensor_from_python(PyObject* data, const Value& dtype) {
  Survey s;
  PyObject* parents[kMaxDims + 1];
  try {
    s.look(data, 0, parents);
    DType d = !dtype.is_none() ? dtype.dtype() : s.any ? s.type : default_dtype();
    Tensor t = empty(s.shape, d);
    Filler{d, t->data, t.shape()}.fill(data, 0);
    if (captured()) t_recorder->constant(t.get());
    return t;
  } catch (const Foreign&) {
    return Tensor();
  }
}

namespace {

// _tensor(data, dtype or None): numbers and nested lists of them; None for what holds other things.
PyObject* from_list(PyObject*, PyObject* args) {
  PyObject *data, *dtype;
  if (!PyArg_ParseTuple(args, "OO", &data, &dtype)) return nullptr;
  return guard([&]() -> PyObject* {
    DType d;
    if (dtype == Py_None) return to_python(tensor_from_python(data, Value()));
    if (!parse_dtype(dtype, &d)) type_error("dtype must be a dtype, not ", Py_TYPE(dtype)->tp_name);
    return to_python(tensor_from_python(data, Value(d)));
  });
}

PyMethodDef functions[] = {
    {"_tensor", from_list, METH_VARARGS, "A tensor from numbers and nested lists."}, {nullptr}};

}  // namespace

void add_creation(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
