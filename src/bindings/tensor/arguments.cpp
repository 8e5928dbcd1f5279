// Fitting Python arguments to op schemas: overloads are tried in the order their blocks stand.
#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "kernels/convert.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

// NumPy's words for the same arguments, taken as PyTorch takes them.
const char* other_name(const std::string& name) {
  if (name == "dim") return "axis";
  if (name == "keepdim") return "keepdims";
  if (name == "input") return "x";
  if (name == "other") return "x2";
  if (name == "dim0") return "axis0";
  if (name == "dim1") return "axis1";
  return nullptr;
}

bool parse_scalar(PyObject* o, Value* out) {
  if (parse_number(o, out)) return true;
  if (!is_tensor(o) || as_tensor(o)->numel != 1 || as_tensor(o)->ndim != 0) return false;
  // Under vmap it has no single value; and a number would lose its gradient or its tangent.
  if (needs_grad(as_tensor(o)) || (as_tensor(o)->flags & (kTransformed | kSparse))) return false;
  refuse_recording("a tensor stands where a number is wanted, which reads its value");
  Object item = checked(item_of(as_tensor(o)->data, as_tensor(o)->dtype));
  return parse_number(item.get(), out);
}

bool parse_tensor_list(PyObject* o, bool none_items, Value* out) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  Tensors ts(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(o, i);
    if (item == Py_None && none_items) continue;
    if (!is_tensor(item)) return false;
    ts[i] = Tensor::borrow(as_tensor(item));
  }
  return *out = Value(std::move(ts)), true;
}

// One Python object as a value of the type the schema says; false when it is not one.
bool parse_value(const Argument& a, PyObject* o, Value* out) {
  if (o == Py_None && a.optional) return *out = Value(), true;
  switch (a.type) {
    case ArgType::Operand:
      if (!is_tensor(o)) return parse_operand_number(o, out);
      [[fallthrough]];
    case ArgType::Tensor:
      if (!is_tensor(o)) return false;
      return *out = Value(Tensor::borrow(as_tensor(o))), true;
    case ArgType::TensorList:
      return parse_tensor_list(o, a.type_text == "Tensor?[]", out);
    case ArgType::Scalar:
      return parse_scalar(o, out);
    case ArgType::Int: {
      if (is_tensor(o) && as_tensor(o)->ndim) return false;  // 0-d tensors alone count as ints
      int64_t i;
      return parse_int(o, &i) && (*out = Value(i), true);
    }
    case ArgType::Float: {
      if (!parse_scalar(o, out) || out->kind() == Value::Complex) return false;
      return *out = Value(out->real()), true;
    }
    case ArgType::Bool:
      if (!PyBool_Check(o)) return false;
      return *out = Value(o == Py_True), true;
    case ArgType::Str:
      if (!PyUnicode_Check(o)) return false;
      return *out = Value(PyUnicode_AsUTF8(o)), true;
    case ArgType::Ints: {
      int64_t i;
      if (parse_int(o, &i)) return *out = Value(Dims{i}), true;
      Dims d;
      return parse_ints(o, &d) && (*out = Value(std::move(d)), true);
    }
    case ArgType::DType: {
      DType d;
      return parse_dtype(o, &d) && (*out = Value(d), true);
    }
    case ArgType::Any:
      return *out = Value::object(o), true;
  }
  return false;
}

// `view(2, 3)`: all remaining positional arguments are one list of ints (or of tensors).
bool parse_rest(const Argument& a, PyObject* const* args, Py_ssize_t n, Value* out) {
  if (a.type == ArgType::TensorList) {
    Tensors ts;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (!is_tensor(args[i])) return false;
      ts.push_back(Tensor::borrow(as_tensor(args[i])));
    }
    return *out = Value(std::move(ts)), true;
  }
  Dims d(static_cast<int>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!parse_int(args[i], &d[static_cast<int>(i)])) return false;
  }
  return *out = Value(std::move(d)), true;
}

// "Operand" and "Scalar" are words of the schemas, not of users.
std::string wanted_type(const Argument& a) {
  if (a.type == ArgType::Scalar) return a.optional ? "Number or None" : "Number";
  if (a.type == ArgType::TensorList) return "tuple of Tensors";
  if (a.type != ArgType::Operand) return a.type_text;
  return a.optional ? "Tensor, Number or None" : "Tensor or Number";
}

struct Parsed {
  Value values[kMaxArguments];
  PyObject* out = nullptr;  // borrowed
  bool explain = false;     // whether to say why this overload does not fit
  std::string why;
};

int find_argument(const Schema& s, PyObject* keyword) {
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(keyword, s.arguments[i].name.c_str()) == 0)
      return static_cast<int>(i);
  }
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const char* other = other_name(s.arguments[i].name);
    if (other && PyUnicode_CompareWithASCIIString(keyword, other) == 0) return static_cast<int>(i);
    for (const std::string& also : s.arguments[i].other_names) {
      if (PyUnicode_CompareWithASCIIString(keyword, also.c_str()) == 0) return static_cast<int>(i);
    }
  }
  if (!s.arguments.empty() && s.arguments[0].name == "input" &&
      (PyUnicode_CompareWithASCIIString(keyword, "self") == 0 ||
       PyUnicode_CompareWithASCIIString(keyword, "x1") == 0)) {
    return 0;
  }
  return -1;
}

// The class of an object as PyTorch's errors name it: Tensor, numpy.ndarray.
std::string shown_class(PyObject* o) {
  std::string_view name = Py_TYPE(o)->tp_name;
  if (name.starts_with("adjoint.")) name.remove_prefix(8);
  return std::string(name);
}

// What was given instead, with what is wrong about it where the type does not say that.
std::string given_type(const Argument& a, PyObject* o) {
  std::string type = shown_class(o);
  if (a.type == ArgType::Scalar && is_tensor(o) && as_tensor(o)->ndim == 0 &&
      needs_grad(as_tensor(o)))
    return type + ": it requires grad, which a number would lose. fix: pass tensor.item()";
  if (a.type != ArgType::TensorList || !(PyList_Check(o) || PyTuple_Check(o))) return type;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(o, i);
    if (!is_tensor(item))
      return text(type, ": expected Tensor as element ", i, ", but got ", shown_class(item));
  }
  return type;
}

// Where any operand may be a number, at least one must be a tensor all the same; PyTorch makes an
// exception of the four kinds of arithmetic.
bool has_tensor(const Op& op, Parsed& p) {
  const std::vector<Argument>& as = op.schema.arguments;
  if (as.empty() || as[0].type != ArgType::Operand) return true;
  if (op.facts.takes_numbers) return true;
  for (size_t i = 0; i < as.size(); ++i) {
    if (p.values[i].is_tensor()) return true;
  }
  if (p.explain) {
    p.why = text("argument '", as[0].name, "' (position 1) must be Tensor, not a number");
  }
  return false;
}

bool fit(const Op& op, PyObject* const* args, Py_ssize_t positional, PyObject* keywords,
         Parsed& p) {
  const std::vector<Argument>& as = op.schema.arguments;
  bool given[kMaxArguments] = {};
  int next = 0, count = static_cast<int>(as.size());
  for (Py_ssize_t k = 0; k < positional; ++k, ++next) {
    if (next >= count || as[next].keyword_only) {
      if (p.explain)
        p.why = text("takes ", next, " positional arguments but ", positional, " were given");
      return false;
    }
    given[next] = true;
    if (parse_value(as[next], args[k], &p.values[next])) {
      // One int for int[*], followed by more: separate arguments.
      if (!as[next].variadic || k + 1 >= positional || PyTuple_Check(args[k]) ||
          PyList_Check(args[k]))
        continue;
    }
    if (as[next].variadic && parse_rest(as[next], args + k, positional - k, &p.values[next])) {
      ++next;
      break;
    }
    if (p.explain)
      p.why = text("argument '", as[next].name, "' (position ", k + 1, ") must be ",
                   wanted_type(as[next]), ", not ", given_type(as[next], args[k]));
    return false;
  }
  Py_ssize_t keyword_count = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < keyword_count; ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    PyObject* value = args[positional + k];
    int i = find_argument(op.schema, name);
    if (i < 0) {
      if (op.has_out && PyUnicode_CompareWithASCIIString(name, "out") == 0) {
        if (value != Py_None) p.out = value;
        continue;
      }
      if (p.explain)
        p.why = text("got an unexpected keyword argument '", PyUnicode_AsUTF8(name), "'");
      return false;
    }
    if (given[i]) {
      if (p.explain) p.why = text("got multiple values for argument '", as[i].name, "'");
      return false;
    }
    given[i] = true;
    if (!parse_value(as[i], value, &p.values[i])) {
      if (p.explain)
        p.why = text("argument '", as[i].name, "' must be ", wanted_type(as[i]), ", not ",
                     given_type(as[i], value));
      return false;
    }
  }
  for (int i = 0; i < count; ++i) {
    if (given[i]) continue;
    if (as[i].variadic && as[i].type == ArgType::TensorList) {  // block_diag(): a list of none
      p.values[i] = Value(Tensors());
      continue;
    }
    if (!as[i].has_default) {
      if (p.explain) p.why = text("missing required argument '", as[i].name, "'");
      return false;
    }
    p.values[i] = as[i].default_value;
  }
  return has_tensor(op, p);
}

std::string types_of(PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
  std::string out = "(";
  Py_ssize_t total = positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  for (Py_ssize_t i = 0; i < total; ++i) {
    if (i) out += ", ";
    if (i >= positional)
      out += text(PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, i - positional)), "=");
    out += shown_class(args[i]);
  }
  return out + ")";
}

Object result_object(const Op& op, const Value& v) {
  Object o = checked(to_python(v));
  if (op.result_fields.empty()) return o;
  // PyTorch's named tuples: adjoint.return_types.max and its like, made in Python.
  static PyObject* make = nullptr;
  if (!make) {
    Object module = checked(PyImport_ImportModule("adjoint.return_types"));
    make = checked(PyObject_GetAttrString(module.get(), "_make")).release();
  }
  Object fields = checked(PyTuple_New(static_cast<Py_ssize_t>(op.result_fields.size())));
  for (size_t i = 0; i < op.result_fields.size(); ++i) {
    PyTuple_SET_ITEM(fields.get(), static_cast<Py_ssize_t>(i),
                     PyUnicode_FromString(op.result_fields[i].c_str()));
  }
  return checked(PyObject_CallFunction(make, "sOO", op.name.c_str(), fields.get(), o.get()));
}

// zeros(2, out=t) makes what t holds: a dtype that was not named is that of `out`.
void take_dtype_of_out(const Op& op, Parsed& p) {
  if (op.tensor_arguments || !is_tensor(p.out)) return;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    const Argument& a = op.schema.arguments[i];
    if (a.type != ArgType::DType || a.name != "dtype") continue;
    DType d = as_tensor(p.out)->dtype;
    if (p.values[i].is_none()) p.values[i] = Value(d);
    if (p.values[i].dtype() != d) {
      runtime_error("dtype ", p.values[i].dtype(), " does not match dtype of out parameter (", d,
                    ")");
    }
  }
}

Object run_out(const Op& op, Parsed& p) {
  take_dtype_of_out(op, p);
  if (is_tensor(p.out))
    return checked(to_python(apply_out(op, p.values, Tensor::borrow(as_tensor(p.out)))));
  Value outs;
  if (!parse_tensor_list(p.out, false, &outs)) {
    type_error(op.name, "(): argument 'out' must be Tensor, not ", Py_TYPE(p.out)->tp_name);
  }
  apply_outs(op, p.values, outs.tensors());
  return result_object(op, outs);
}

Object run(const Op& op, bool inplace, Parsed& p) {
  if (inplace && !p.values[0].is_tensor()) {
    type_error(op.name, "_(): argument '", op.schema.arguments[0].name,
               "' (position 1) must be Tensor, not a number");
  }
  if (inplace) return checked(to_python(apply_inplace(op, p.values)));
  if (p.out) return run_out(op, p);
  return result_object(op, apply(op, p.values));
}

// A number was wanted where a tensor that vmap maps over was given: no overload fits because it has
// no single value, which says more than its type.
void refuse_batched_number(PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 1; i < count; ++i) {
    if (is_tensor(args[i]) && as_tensor(args[i])->ndim == 0 && batch_of(as_tensor(args[i])))
      refuse_reading_batched("calling .item() on");
  }
}

}  // namespace

PyObject* call_ops(const std::vector<const Op*>& overloads, bool inplace, const char* name,
                   PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    // One tensor, nothing else: by far the most common call.
    if (positional == 1 && !keywords && is_tensor(args[0]) &&
        overloads[0]->schema.arguments.size() == 1 &&
        overloads[0]->schema.arguments[0].type == ArgType::Tensor) {
      Value v[1] = {Value(Tensor::borrow(as_tensor(args[0])))};
      if (inplace) return to_python(apply_inplace(*overloads[0], v));
      if (overloads[0]->result_fields.empty()) return to_python(apply(*overloads[0], v));
    }
    for (const Op* op : overloads) {
      Parsed p;
      if (fit(*op, args, positional, keywords, p)) return run(*op, inplace, p).release();
      if (PyErr_Occurred()) throw PythonError{};
    }
    refuse_batched_number(args, positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
    if (overloads.size() == 1) {
      Parsed p;
      p.explain = true;
      fit(*overloads[0], args, positional, keywords, p);
      type_error(name, "(): ", p.why);
    }
    std::string expected;
    for (const Op* op : overloads) expected += "\n * " + python_signature(op->schema);
    type_error(name, "() received an invalid combination of arguments - got ",
               types_of(args, positional, keywords), ", but expected one of:", expected);
  });
}

}  // namespace adjoint
