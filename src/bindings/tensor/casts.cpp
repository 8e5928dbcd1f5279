// Changing the dtype: Tensor.to, Tensor.type, float(), double() and their like; and the attributes
// real and imag. The work is done by the op _to_copy.
#include "bindings/python.h"
#include "bindings/tensor/subclass.h"
#include "ops/creation/memory_format.h"

namespace adjoint {
namespace {

Tensor self_tensor(PyObject* self) { return Tensor::borrow(as_tensor(self)); }

// "cpu", "cpu:0", an adjoint.device, or None; everything else is refused, since there is no other.
bool accept_device(PyObject* o) {
  if (o == Py_None) return true;
  Object text = Object::borrow(o);
  if (PyLong_Check(o))
    text = checked(PyObject_Str(o));  // PyTorch's number of an accelerator
  else if (!PyUnicode_Check(o)) {
    if (std::strcmp(Py_TYPE(o)->tp_name, "device") != 0) return false;
    text = checked(PyObject_Str(o));
  }
  std::string name = PyUnicode_AsUTF8(text.get());
  if (name == "cpu" || name.rfind("cpu:", 0) == 0) return true;
  runtime_error("adjoint computes on the CPU: the device '", name,
                "' is not available; use 'cpu' or leave the device out");
}

void warn_of_lost_parts(DType from, DType to) {
  if (!is_complex(from) || is_complex(to) || to == DType::Bool) return;
  checked(PyErr_WarnEx(PyExc_UserWarning,
                       "Casting complex values to real discards the imaginary part", 2));
}

// `format` is a memory_format or null: the order of the axes of the result, by default the
// tensor's.
PyObject* cast_to(PyObject* self, DType dtype, bool copy, PyObject* format = nullptr) {
  Tensor t = self_tensor(self), result = t;
  if (t.dtype() != dtype) {
    warn_of_lost_parts(t.dtype(), dtype);
    result = op<"_to_copy">(t, dtype);
  } else if (copy) {
    result = op<"clone">(t);
  }
  Value wanted = format ? Value::object(format) : Value();
  if (memory_format_of(wanted, MemoryFormat::Preserve) != MemoryFormat::Preserve)
    result = op<"contiguous">(result, wanted);
  if (!result.is(t)) return to_python(result);
  Py_INCREF(self);
  return self;
}

bool truth(PyObject* o, const char* name) {
  if (!PyBool_Check(o))
    type_error("to(): argument '", name, "' must be bool, not ", Py_TYPE(o)->tp_name);
  return o == Py_True;
}

// What to() was asked for, whichever of its three forms was used.
struct Wanted {
  DType dtype;
  bool copy = false;
  PyObject* format = nullptr;
};

void take_positional(PyObject* o, int& flags, Wanted& w) {
  if (is_tensor(o)) {
    w.dtype = as_tensor(o)->dtype;
  } else if (PyBool_Check(o)) {  // non_blocking, then copy
    if (flags++ == 1) w.copy = o == Py_True;
  } else if (!parse_dtype(o, &w.dtype) && !accept_device(o)) {
    type_error(
        "to() received an invalid combination of arguments: expected a dtype, a device or "
        "a tensor, not ",
        Py_TYPE(o)->tp_name);
  }
}

void take_keyword(const std::string& name, PyObject* o, Wanted& w) {
  if (name == "dtype") {
    if (o != Py_None && !parse_dtype(o, &w.dtype))
      type_error("to(): argument 'dtype' must be dtype, not ", Py_TYPE(o)->tp_name);
  } else if (name == "device") {
    if (!accept_device(o))
      type_error("to(): argument 'device' must be device or str, not ", Py_TYPE(o)->tp_name);
  } else if (name == "other") {
    if (!is_tensor(o))
      type_error("to(): argument 'other' must be Tensor, not ", Py_TYPE(o)->tp_name);
    w.dtype = as_tensor(o)->dtype;
  } else if (name == "copy") {
    w.copy = truth(o, "copy");
  } else if (name == "non_blocking") {
    truth(o, "non_blocking");
  } else if (name == "memory_format") {
    w.format = o;
  } else {
    type_error("to() got an unexpected keyword argument '", name, "'");
  }
}

// "meta", the device of tensors without values: Note [Tensors without values] in op_function.cpp.
bool names_meta(PyObject* o) {
  if (PyUnicode_Check(o)) return PyUnicode_CompareWithASCIIString(o, "meta") == 0;
  if (std::strcmp(Py_TYPE(o)->tp_name, "device") != 0) return false;
  Object text = checked(PyObject_Str(o));
  return PyUnicode_CompareWithASCIIString(text.get(), "meta") == 0;
}
PyObject* without_values(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  Object module = checked(PyImport_ImportModule("adjoint._tensor.meta"));
  Object moved = checked(PyObject_GetAttrString(module.get(), "moved"));
  std::vector<PyObject*> all{self};
  all.insert(all.end(), args, args + n + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
  return PyObject_Vectorcall(moved.get(), all.data(), static_cast<size_t>(n) + 1, keywords);
}

PyObject* to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  if (any_overriding(&self, 1)) return call_overriding_method("to", self, args, n, keywords);
  return guard([&]() -> PyObject* {
    Wanted w{as_tensor(self)->dtype};
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    if (n + named == 0) type_error("to() missing 1 required argument: a dtype, device or tensor");
    if (n > 4) type_error("to() takes at most 4 positional arguments but ", n, " were given");
    for (Py_ssize_t i = 0; i < n + named; ++i) {
      if (names_meta(args[i])) return without_values(self, args, n, keywords);
    }
    int flags = 0;
    for (Py_ssize_t i = 0; i < n; ++i) take_positional(args[i], flags, w);
    for (Py_ssize_t i = 0; i < named; ++i)
      take_keyword(PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, i)), args[n + i], w);
    return cast_to(self, w.dtype, w.copy, w.format);
  });
}

// The keywords of a method that has those of `allowed`; PyTorch's error for any other.
void check_keywords(const char* method, PyObject* keywords,
                    std::initializer_list<const char*> allowed) {
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i) {
    std::string name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, i));
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      type_error(method, "() got an unexpected keyword argument '", name, "'");
  }
}

// The method that casts to a dtype.
constexpr const char* cast_name(DType d) {
  constexpr const char* names[kDTypes] = {"bool",     "byte",   "char",   "short",  "int",
                                          "long",     "uint16", "uint32", "uint64", "half",
                                          "bfloat16", "float",  "double", "cfloat", "cdouble"};
  return names[static_cast<int>(d)];
}

template <DType D>
PyObject* named_cast(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  if (any_overriding(&self, 1))
    return call_overriding_method(cast_name(D), self, args, n, keywords);
  return guard([&]() -> PyObject* {
    if (n) type_error(name_of(D), "() takes no positional arguments; use .to(dtype)");
    check_keywords(name_of(D), keywords, {"memory_format"});
    bool given = keywords && PyTuple_GET_SIZE(keywords);
    return cast_to(self, D, false, given ? args[0] : nullptr);
  });
}

PyObject* type_as(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"other", nullptr};
  PyObject* other = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:type_as", const_cast<char**>(names), &other))
    return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_tensor(other))
      type_error("type_as(): argument 'other' must be Tensor, not ", Py_TYPE(other)->tp_name);
    return cast_to(self, as_tensor(other)->dtype, false);
  });
}

// The names of PyTorch's older tensor types, in the order of DType.
constexpr const char* kTypeNames[kDTypes] = {
    "torch.BoolTensor",   "torch.ByteTensor",         "torch.CharTensor",
    "torch.ShortTensor",  "torch.IntTensor",          "torch.LongTensor",
    "torch.UInt16Tensor", "torch.UInt32Tensor",       "torch.UInt64Tensor",
    "torch.HalfTensor",   "torch.BFloat16Tensor",     "torch.FloatTensor",
    "torch.DoubleTensor", "torch.ComplexFloatTensor", "torch.ComplexDoubleTensor"};

DType dtype_named(PyObject* o) {
  DType d;
  if (parse_dtype(o, &d)) return d;
  Object text = Object::borrow(o);
  if (o == reinterpret_cast<PyObject*>(tensor_type)) return default_dtype();
  if (!PyUnicode_Check(o)) {  // a class such as adjoint.FloatTensor
    Object on_gpu = Object::steal(PyObject_GetAttrString(o, "is_cuda"));
    PyErr_Clear();
    if (on_gpu.get() == Py_True) runtime_error("type(): adjoint computes on the CPU only");
    if (Object dtype = Object::steal(PyObject_GetAttrString(o, "dtype"))) {
      if (parse_dtype(dtype.get(), &d)) return d;
    }
    PyErr_Clear();
    type_error("type(): dtype must be a type, str, or dtype object, not ", Py_TYPE(o)->tp_name);
  }
  std::string name = PyUnicode_AsUTF8(text.get());
  for (int i = 0; i < kDTypes; ++i) {
    if (name == kTypeNames[i]) return static_cast<DType>(i);
  }
  value_error("invalid type: '", name, "'");
}

PyObject* type(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    if (n > 2)
      type_error("type() takes a dtype and non_blocking, but ", n, " arguments were given");
    check_keywords("type", keywords, {"dtype", "non_blocking"});
    PyObject* wanted = n ? args[0] : nullptr;
    for (Py_ssize_t i = 0; i < named; ++i) {
      if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), "dtype"))
        wanted = args[n + i];
    }
    if (!wanted || wanted == Py_None)
      return PyUnicode_FromString(kTypeNames[static_cast<int>(as_tensor(self)->dtype)]);
    return cast_to(self, dtype_named(wanted), false);
  });
}

PyObject* cpu(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    if (n) type_error("cpu() takes 0 positional arguments but ", n, " was given");
    check_keywords("cpu", keywords, {"memory_format"});
    bool given = keywords && PyTuple_GET_SIZE(keywords);
    return cast_to(self, as_tensor(self)->dtype, false, given ? args[0] : nullptr);
  });
}

PyObject* cuda(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) {
  return guard([&]() -> PyObject* {
    runtime_error(
        "adjoint computes on the CPU: there is no CUDA device; leave the tensor where "
        "it is");
  });
}

PyObject* get_real(PyObject* self, void*) {
  return guard([&] { return to_python(op<"real">(self_tensor(self))); });
}
PyObject* get_imag(PyObject* self, void*) {
  return guard([&] { return to_python(op<"imag">(self_tensor(self))); });
}
template <OpName Part>
int set_part(PyObject* self, PyObject* value, void*) {
  return guard_int([&] {
    if (!value) type_error("this attribute cannot be deleted");
    Tensor part = op<Part>(self_tensor(self));
    if (is_tensor(value)) {
      op_inplace<"copy">(part, Tensor::borrow(as_tensor(value)));
    } else {
      Value number;
      if (!parse_number(value, &number)) type_error("expected a tensor or a number");
      op_inplace<"fill">(part, number);
    }
    return 0;
  });
}

#define CAST(name, D)                                                                        \
  {name, reinterpret_cast<PyCFunction>(named_cast<DType::D>), METH_FASTCALL | METH_KEYWORDS, \
   name "(memory_format=None): the tensor in this dtype; the tensor itself if it has it."}
#define METHOD(name, f, doc) \
  {name, reinterpret_cast<PyCFunction>(f), METH_FASTCALL | METH_KEYWORDS, doc}

PyMethodDef methods[] = {
    METHOD("to", to,
           "to(*args, **kwargs): the tensor in the dtype of another tensor, or in the one given; "
           "itself "
           "if nothing changes."),
    METHOD(
        "type", type,
        "type(dtype=None, non_blocking=False): the type's name, or the tensor in another dtype."),
    METHOD("cpu", cpu, "cpu(memory_format=None): the tensor itself: it is on the CPU."),
    METHOD("cuda", cuda,
           "cuda(device=None, non_blocking=False): refused: adjoint computes on the CPU."),
    {"type_as", reinterpret_cast<PyCFunction>(type_as), METH_VARARGS | METH_KEYWORDS,
     "type_as(other): the tensor in the dtype of another."},
    CAST("bool", Bool),
    CAST("byte", UInt8),
    CAST("char", Int8),
    CAST("short", Int16),
    CAST("int", Int32),
    CAST("long", Int64),
    CAST("half", Float16),
    CAST("bfloat16", BFloat16),
    CAST("float", Float32),
    CAST("double", Float64),
    CAST("cfloat", Complex64),
    CAST("cdouble", Complex128),
    {nullptr}};

PyGetSetDef attributes[] = {
    {"real", get_real, set_part<"real">, "The real part: a view.", nullptr},
    {"imag", get_imag, set_part<"imag">, "The imaginary part: a view.", nullptr},
    {nullptr}};

}  // namespace

void add_casts() { extend_tensor_type(methods, attributes); }

}  // namespace adjoint
