// Tensors from Python data: numbers and nested lists.
#include "../kernels/convert.h"
#include "../ops/options.h"
#include "python.h"

namespace adjoint {
namespace {

// First pass: the shape (from the first item of each level) and the dtype all items fit.
struct Survey {
  Dims shape;
  ResultType type;
  bool any = false;

  void look(PyObject* o, int depth, PyObject** parents) {
    if (PyList_Check(o) || PyTuple_Check(o)) {
      for (int i = 0; i < depth; ++i) {
        if (parents[i] == o)
          value_error("a list that contains itself cannot be made into a tensor");
      }
      if (depth >= kMaxDims)
        value_error("too many dimensions: lists are nested deeper than ", kMaxDims);
      Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      if (depth == shape.size()) shape.push_back(n);
      parents[depth] = o;
      for (Py_ssize_t i = 0; i < n; ++i) look(PySequence_Fast_GET_ITEM(o, i), depth + 1, parents);
      return;
    }
    Value v;
    if (is_tensor(o)) {
      type.add(Value(Tensor::borrow(as_tensor(o))));
      any = true;
      return;
    }
    if (!parse_number(o, &v)) {
      type_error("could not convert ", Py_TYPE(o)->tp_name,
                 " to a tensor element: expected numbers or nested lists of them");
    }
    type.add(v);
    any = true;
  }
};

struct Filler {
  DType dtype;
  char* at;
  Span shape;

  void fill(PyObject* o, int depth) {
    if (depth < shape.n) {
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
      return;
    }
    if (PyList_Check(o) || PyTuple_Check(o))
      value_error("too many nested lists: expected a number at dim ", depth);
    if (is_tensor(o)) return fill_tensor(as_tensor(o), depth);
    Value v;
    parse_number(o, &v);
    if (v.kind() == Value::Int || v.kind() == Value::Bool)
      store_scalar(dtype, at, v.integer());
    else
      store_scalar(dtype, at, v.complex());
    at += item_size(dtype);
  }
  void fill_tensor(TensorObject* t, int depth) {
    if (t->numel != 1 || depth < shape.n)
      value_error("only one element tensors can be converted to Python scalars");
    copy_run(at, static_cast<int64_t>(item_size(dtype)), dtype, t->data, 0, t->dtype, 1);
    at += item_size(dtype);
  }
};

}  // namespace

void check_placement(const Value& layout, const Value& device, const Value& pin_memory) {
  if (device.kind() == Value::Object) {
    PyObject* o = device.python();
    if (!PyUnicode_Check(o) || PyUnicode_CompareWithASCIIString(o, "cpu") != 0) {
      static PyObject* type = nullptr;  // adjoint.device: refuses everything but the CPU
      if (!type) {
        Object module = checked(PyImport_ImportModule("adjoint._device"));
        type = checked(PyObject_GetAttrString(module.get(), "device")).release();
      }
      checked(PyObject_CallOneArg(type, o));
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

Tensor tensor_from_python(PyObject* data, const Value& dtype) {
  Survey s;
  PyObject* parents[kMaxDims + 1];
  s.look(data, 0, parents);
  DType d = dtype.kind() == Value::Type ? dtype.dtype() : s.any ? s.type.get() : default_dtype();
  Tensor t = empty(s.shape, d);
  Filler{d, t->data, t.shape()}.fill(data, 0);
  return t;
}

namespace {

// _tensor(data, dtype or None): numbers and nested lists of them.
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
