// The promotion rules as functions: result_type, promote_types, can_cast.
#include "bindings/python.h"

namespace adjoint {
namespace {

DType dtype_argument(PyObject* o, const char* function, const char* name) {
  DType d;
  if (parse_dtype(o, &d)) return d;
  type_error(function, "(): argument '", name, "' must be dtype, not ", Py_TYPE(o)->tp_name);
}

// Two arguments, by position or by keyword.
struct Pair {
  PyObject *first = nullptr, *second = nullptr;
  Pair(const char* function, const char* const (&names)[2], PyObject* args, PyObject* keywords) {
    std::string format = std::string("OO:") + function;
    const char* list[] = {names[0], names[1], nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, format.c_str(), const_cast<char**>(list),
                                     &first, &second)) {
      throw PythonError{};
    }
  }
};

Value operand(PyObject* o, const char* name) {
  if (is_tensor(o)) return Value(Tensor::borrow(as_tensor(o)));
  Value v;
  if (parse_operand_number(o, &v)) return v;
  type_error("result_type(): argument '", name, "' must be Tensor or Number, not ",
             Py_TYPE(o)->tp_name);
}

PyObject* shared(DType d) {
  PyObject* o = dtype_object(d);
  Py_INCREF(o);
  return o;
}

// What PyTorch's overloads call the operands of result_type, and what its documentation does.
constexpr const char* kOperandNames[][2] = {
    {"tensor", "other"}, {"scalar", "tensor"}, {"scalar1", "scalar2"}, {"tensor1", "tensor2"}};

// Whether the arguments that are not given by position have these names.
bool has_all(const char* const (&names)[2], PyObject* args, PyObject* keywords) {
  for (Py_ssize_t i = PyTuple_GET_SIZE(args); i < 2; ++i) {
    if (!PyDict_GetItemString(keywords, names[i])) return false;
  }
  return true;
}

// The array API's form: any number of tensors, numbers and dtypes, which stand for tensors of theirs.
DType result_type_of_all(PyObject* args) {
  ResultType type;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    type.add(is_dtype(o) ? Value(empty(Dims{0}, dtype_value(o))) : operand(o, "tensor"));
  }
  return type.get();
}

bool any_dtype(PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (is_dtype(PyTuple_GET_ITEM(args, i))) return true;
  }
  return false;
}

PyObject* result_type(PyObject*, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (!keywords && count && (count != 2 || any_dtype(args)))
      return shared(result_type_of_all(args));
    const char* const(*names)[2] = &kOperandNames[0];
    while (keywords && names < std::end(kOperandNames) - 1 && !has_all(*names, args, keywords))
      ++names;
    Pair p("result_type", *names, args, keywords);
    ResultType type;
    type.add(operand(p.first, (*names)[0]));
    type.add(operand(p.second, (*names)[1]));
    return shared(type.get());
  });
}

PyObject* promote(PyObject*, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Pair p("promote_types", {"type1", "type2"}, args, keywords);
    return shared(promote_types(dtype_argument(p.first, "promote_types", "type1"),
                                dtype_argument(p.second, "promote_types", "type2")));
  });
}

PyObject* castable(PyObject*, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Pair p("can_cast", {"from_", "to"}, args, keywords);
    return PyBool_FromLong(can_cast(dtype_argument(p.first, "can_cast", "from_"),
                                    dtype_argument(p.second, "can_cast", "to")));
  });
}

PyMethodDef functions[] = {
    {"result_type", reinterpret_cast<PyCFunction>(result_type), METH_VARARGS | METH_KEYWORDS,
     "result_type(tensor1, tensor2)\n\nThe dtype that an operation on two tensors or numbers "
     "gives; or on any number of them, and of dtypes."},
    {"promote_types", reinterpret_cast<PyCFunction>(promote), METH_VARARGS | METH_KEYWORDS,
     "promote_types(type1, type2)\n\nThe smallest dtype that holds the values of both."},
    {"can_cast", reinterpret_cast<PyCFunction>(castable), METH_VARARGS | METH_KEYWORDS,
     "can_cast(from_, to)\n\nWhether an in-place result of one dtype may be written into the "
     "other."},
    {nullptr}};

}  // namespace

void add_promotion(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
