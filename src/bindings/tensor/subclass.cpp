// Subclasses of Tensor: constructing them, results in their type, and `__torch_function__`.
//
// A subclass that says nothing gets its results in its own type; one that defines
// `__torch_function__(func, types, args, kwargs)` is asked instead; one that sets it to
// `_disabled_torch_function_impl` (Parameter does) is treated as a plain tensor. Programs without
// such subclasses pay one test of a flag per call.
#include "bindings/tensor/subclass.h"

#include "ops/creation/options.h"

#include "dispatch/view.h"

namespace adjoint {

bool g_subclasses = false;

namespace {

thread_local bool t_plain = false;  // inside a default __torch_function__: everything is a tensor
PyObject* g_disabled = nullptr;     // the marker that exempts a class
// Objects that are asked before any class is, the innermost last (torch.overrides.TorchFunctionMode).
thread_local PyObject* t_function_modes = nullptr;

class Plain {
 public:
  Plain() : before_(std::exchange(t_plain, true)) {}
  ~Plain() { t_plain = before_; }
  Plain(const Plain&) = delete;

 private:
  bool before_;
};

bool overrides(PyTypeObject* type) {
  static PyObject* name = PyUnicode_InternFromString("__torch_function__");
  return type != tensor_type && _PyType_Lookup(type, name) != g_disabled;
}

}  // namespace

Tensor moved_to(PyTypeObject* type, Tensor from) {
  TensorObject* t = type == tensor_type ? new_tensor_object()
                                        : as_tensor(checked(type->tp_alloc(type, 0)).release());
  Tensor made = Tensor::steal(t);
  t->shape = t->dims;
  t->strides = t->dims + kInlineDims;
  std::swap(t->storage, from->storage);
  std::swap(t->data, from->data);
  std::swap(t->ndim, from->ndim);
  std::swap(t->numel, from->numel);
  std::swap(t->output_nr, from->output_nr);
  std::swap(t->view_version, from->view_version);
  t->recording = from->recording;
  std::swap(t->grad_fn, from->grad_fn);
  std::swap(t->base, from->base);
  t->dtype = from->dtype;
  t->flags = from->flags & ~kSparse;
  if (is_sparse(from)) share_parts(made, from);
  if (from->shape != from->dims) {
    std::swap(t->shape, from->shape);
    std::swap(t->strides, from->strides);
    from->shape = from->dims;
    from->strides = from->dims + kInlineDims;
  } else {
    std::copy_n(from->dims, 2 * kInlineDims, t->dims);
  }
  if (has_back_link(type)) add_back_link(t);
  if (overrides(type)) {
    made.set(kSubclass);
    g_subclasses = true;
  } else {
    made.set(kSubclass, false);
  }
  return made;
}

bool any_function_mode() {
  return !t_plain && t_function_modes && PyList_GET_SIZE(t_function_modes) > 0;
}

bool is_overriding(PyObject* o) {
  if (t_plain) return false;
  if (any_function_mode()) return true;
  if (is_tensor(o)) return as_tensor(o)->flags & kSubclass;
  if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(o, i);
    if (is_tensor(item) && (as_tensor(item)->flags & kSubclass)) return true;
  }
  return false;
}

namespace {

// An object that is not a tensor, but whose class wants to be asked as if it were.
bool is_tensor_like(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("__torch_function__");
  return !is_tensor(o) && !PyType_Check(o) && _PyType_Lookup(Py_TYPE(o), name);
}

// The overriding arguments, one of each type, a subclass before the classes it derives from.
void gather(PyObject* o, std::vector<PyObject*>* found) {
  if (is_tensor(o) || is_tensor_like(o)) {
    if (is_tensor(o) && !(as_tensor(o)->flags & kSubclass)) return;
    auto at = found->end();
    for (auto it = found->begin(); it != found->end(); ++it) {
      if (Py_TYPE(*it) == Py_TYPE(o)) return;
      if (at == found->end() && PyType_IsSubtype(Py_TYPE(o), Py_TYPE(*it))) at = it;
    }
    found->insert(at, o);
  } else if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(o, i);
      if (is_tensor(item) || is_tensor_like(item)) gather(item, found);
    }
  }
}

// A result in the type `cls`: tensors, and tensors in tuples and lists.
Object converted(Object result, PyTypeObject* cls) {
  PyObject* o = result.get();
  if (is_tensor(o)) {
    if (PyObject_TypeCheck(o, cls)) return result;
    Tensor t = Tensor::borrow(as_tensor(o));
    result = Object();
    if (Py_REFCNT(t.get()) > 1 || t->weakrefs || t->dict || t->accumulator || t->extra)
      t = needs_grad(t.get()) ? op<"view">(t, t.shape()).tensor() : alias(t);
    return Object::steal(to_python(moved_to(cls, std::move(t))));
  }
  if (!PyTuple_Check(o) && !PyList_CheckExact(o)) return result;
  Object list = checked(PyList_New(0));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    Object item = converted(Object::borrow(PySequence_Fast_GET_ITEM(o, i)), cls);
    checked(PyList_Append(list.get(), item.get()));
  }
  if (PyList_CheckExact(o)) return list;
  if (PyTuple_CheckExact(o)) return checked(PyList_AsTuple(list.get()));
  if (PyObject_HasAttrString(o, "_make"))  // a named tuple
    return checked(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(Py_TYPE(o)), "_make", "O", list.get()));
  return result;  // a Size
}

// Tensor.__torch_function__(func, types, args=(), kwargs=None)
PyObject* default_handler(PyObject* cls, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *positional = nullptr, *named = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OO:__torch_function__",
                                   const_cast<char**>(names), &function, &types, &positional,
                                   &named))
    return nullptr;
  return guard([&]() -> PyObject* {
    Object given = positional ? checked(PySequence_Tuple(positional)) : checked(PyTuple_New(0));
    Object result;
    {
      Plain plain;
      result = checked(PyObject_Call(function, given.get(), named == Py_None ? nullptr : named));
    }
    return converted(std::move(result), reinterpret_cast<PyTypeObject*>(cls)).release();
  });
}

PyObject* disabled_handler(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *positional = nullptr, *named = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OO:_disabled_torch_function_impl",
                                   const_cast<char**>(names), &function, &types, &positional,
                                   &named))
    return nullptr;
  return guard([&]() -> PyObject* {
    Plain plain;
    Object given = positional ? checked(PySequence_Tuple(positional)) : checked(PyTuple_New(0));
    return PyObject_Call(function, given.get(), named == Py_None ? nullptr : named);
  });
}

// DisableTorchFunctionSubclass: _plain_tensors(on) -> what it was.
PyObject* plain_tensors(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(t_plain, PyObject_IsTrue(on) == 1));
}

// After `x.__class__ = cls`: what the header remembers of the class.
PyObject* refresh_class(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("_refresh_class(): not a tensor, but ", Py_TYPE(o)->tp_name);
    Tensor t = Tensor::borrow(as_tensor(o));
    bool asks = overrides(Py_TYPE(o));
    t.set(kSubclass, asks);
    g_subclasses |= asks;
    if (has_back_link(Py_TYPE(o))) add_back_link(t.get());
    Py_RETURN_NONE;
  });
}

// _function_modes(): the list of this thread, which Python adds to and takes from.
PyObject* function_modes(PyObject*, PyObject*) {
  if (!t_function_modes) t_function_modes = PyList_New(0);
  g_subclasses = true;  // the way of calls that looks at it
  return Py_XNewRef(t_function_modes);
}

// x.as_subclass(cls)
PyObject* as_subclass(PyObject* o, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"cls", nullptr};
  PyObject* cls = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:as_subclass", const_cast<char**>(names),
                                   &cls))
    return nullptr;
  return guard([&]() -> PyObject* {
    if (!PyType_Check(cls) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type)) {
      type_error("as_subclass(): cls must be a subclass of Tensor");
    }
    Tensor t = Tensor::borrow(as_tensor(o));
    Tensor seen = needs_grad(t.get()) ? op<"view">(t, t.shape()).tensor() : alias(t);
    return to_python(moved_to(reinterpret_cast<PyTypeObject*>(cls), std::move(seen)));
  });
}

PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", reinterpret_cast<PyCFunction>(disabled_handler),
     METH_VARARGS | METH_KEYWORDS, "Marks a subclass whose results are plain tensors."},
    {"_refresh_class", refresh_class, METH_O,
     "Tells a tensor that its class was changed by assigning to __class__."},
    {"_function_modes", function_modes, METH_NOARGS,
     "The objects of this thread that are asked before each call of a function on tensors."},
    {"_plain_tensors", plain_tensors, METH_O,
     "Whether subclasses are treated as plain tensors in this thread; returns what it was."},
    {nullptr}};
PyMethodDef methods[] = {
    {"as_subclass", reinterpret_cast<PyCFunction>(as_subclass), METH_VARARGS | METH_KEYWORDS,
     "as_subclass(cls): the same tensor under a subclass."},
    {nullptr}};
PyMethodDef handler = {"__torch_function__", reinterpret_cast<PyCFunction>(default_handler),
                       METH_VARARGS | METH_KEYWORDS | METH_CLASS,
                       "Runs the function and gives its results this class."};

Tensor from_one(PyObject* data) {
  int64_t n;
  if (is_tensor(data)) return alias(Tensor::borrow(as_tensor(data)));
  if (parse_int(data, &n)) return empty(Dims{n}, default_dtype());
  Dims size;
  if (Py_TYPE(data) == &size_python_type && parse_ints(data, &size))
    return empty(size, default_dtype());
  if (PyUnicode_Check(data) || PyBytes_Check(data))
    type_error("new(): invalid data type '", Py_TYPE(data)->tp_name, "'");
  if (PyList_Check(data) || PyTuple_Check(data)) {
    if (Tensor t = tensor_from_python(data, Value(default_dtype()))) return t;
  }
  if (!PySequence_Check(data))
    type_error("new(): data must be a sequence (got ", Py_TYPE(data)->tp_name, ")");
  Object module = checked(PyImport_ImportModule("adjoint._tensor.creation"));
  Object made = checked(
      PyObject_CallMethod(module.get(), "_copied", "OO", data, dtype_object(default_dtype())));
  return Tensor::borrow(as_tensor(made.get()));
}

}  // namespace

PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (keywords && PyDict_Size(keywords)) {
      PyObject* device = PyDict_GetItemString(keywords, "device");
      if (!device || PyDict_Size(keywords) > 1)
        type_error("Tensor(): only the keyword 'device' is known; use tensor(data, dtype=...)");
      if (device != Py_None) check_placement(Value(), Value::object(device), Value());
    }
    Tensor t;
    if (n == 0) {
      t = empty(Dims{0}, default_dtype());
    } else if (n == 1) {
      t = from_one(PyTuple_GET_ITEM(args, 0));
    } else {
      Dims size;
      if (!parse_ints(args, &size))
        type_error(
            "Tensor(): expected sizes (ints) or one sequence of data; to make a tensor from "
            "numbers use tensor([...])");
      t = empty(size, default_dtype());
    }
    if (type == tensor_type && Py_REFCNT(t.get()) == 1) return to_python(t);
    return to_python(moved_to(type, Py_REFCNT(t.get()) == 1 ? std::move(t) : alias(t)));
  });
}

namespace {

// The innermost mode, which does not see what its own handler calls.
class InnermostMode {
 public:
  InnermostMode() {
    Py_ssize_t last = PyList_GET_SIZE(t_function_modes) - 1;
    mode_ = Object::borrow(PyList_GET_ITEM(t_function_modes, last));
    checked(PyList_SetSlice(t_function_modes, last, last + 1, nullptr));
  }
  ~InnermostMode() {
    if (PyList_Append(t_function_modes, mode_.get()) < 0) PyErr_WriteUnraisable(nullptr);
  }
  InnermostMode(const InnermostMode&) = delete;
  PyObject* get() const { return mode_.get(); }

 private:
  Object mode_;
};

// "torch.mul" or "torch.Tensor.mul", as PyTorch's errors name a function.
std::string torch_name(PyObject* function) {
  Object name = Object::steal(PyObject_GetAttrString(function, "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    name = checked(PyObject_Str(function));
    return PyUnicode_AsUTF8(name.get());
  }
  const bool method = PyObject_HasAttrString(function, "__objclass__") == 1;
  return std::string(method ? "torch.Tensor." : "torch.") + PyUnicode_AsUTF8(name.get());
}

}  // namespace

PyObject* call_overriding(PyObject* function, PyObject* const* args, Py_ssize_t positional,
                          PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    std::vector<PyObject*> found;
    for (Py_ssize_t i = 0; i < positional + named; ++i) gather(args[i], &found);
    Object types = checked(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      Py_INCREF(Py_TYPE(found[i]));
      PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                       reinterpret_cast<PyObject*>(Py_TYPE(found[i])));
    }
    Object given = checked(PyTuple_New(positional));
    for (Py_ssize_t i = 0; i < positional; ++i) {
      Py_INCREF(args[i]);
      PyTuple_SET_ITEM(given.get(), i, args[i]);
    }
    Object options = checked(PyDict_New());
    for (Py_ssize_t i = 0; i < named; ++i)
      checked(PyDict_SetItem(options.get(), PyTuple_GET_ITEM(keywords, i), args[positional + i]));
    if (any_function_mode()) {
      InnermostMode mode;
      Object handle = checked(PyObject_GetAttrString(mode.get(), "__torch_function__"));
      return PyObject_CallFunctionObjArgs(handle.get(), function, types.get(), given.get(),
                                          options.get(), nullptr);
    }
    for (PyObject* o : found) {
      Object handle = checked(
          PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__torch_function__"));
      Object result = checked(PyObject_CallFunctionObjArgs(handle.get(), function, types.get(),
                                                           given.get(), options.get(), nullptr));
      if (result.get() != Py_NotImplemented) return result.release();
    }
    std::string classes;
    for (PyObject* o : found) {
      Object shown = checked(PyObject_Repr(reinterpret_cast<PyObject*>(Py_TYPE(o))));
      classes = classes + "\n  - tensor subclass " + PyUnicode_AsUTF8(shown.get());
    }
    type_error("Multiple dispatch failed for '", torch_name(function),
               "'; all __torch_function__ handlers returned NotImplemented:\n", classes);
  });
}

PyObject* call_tensor_like(PyObject* function, PyObject* const* args, Py_ssize_t positional,
                           PyObject* keywords) {
  if (t_plain || !PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
  // Put aside: looking a name up clears errors.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  bool any = false;
  for (Py_ssize_t i = 0; i < positional + named && !any; ++i) {
    PyObject* o = args[i];
    any = is_tensor_like(o);
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) continue;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o) && !any; ++k)
      any = is_tensor_like(PySequence_Fast_GET_ITEM(o, k));
  }
  if (!any) {
    PyErr_Restore(type, value, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return call_overriding(function, args, positional, keywords);
}

PyObject* call_overriding_method(const char* name, PyObject* self, PyObject* const* args,
                                 Py_ssize_t positional, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Object method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + positional + named);
    return call_overriding(method.get(), all.data(), positional + 1, keywords);
  });
}

PyObject* get_overriding(const char* name, PyObject* self) {
  return guard([&]() -> PyObject* {
    Object attribute =
        checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
    Object getter = checked(PyObject_GetAttrString(attribute.get(), "__get__"));
    return call_overriding(getter.get(), &self, 1, nullptr);
  });
}

void add_subclasses(PyObject* module) {
  add_functions(module, functions);
  g_disabled = checked(PyObject_GetAttrString(module, "_disabled_torch_function_impl")).release();
  extend_tensor_type(methods, nullptr);
  Object f = checked(PyDescr_NewClassMethod(tensor_type, &handler));
  checked(PyDict_SetItemString(tensor_type->tp_dict, "__torch_function__", f.get()));
  PyType_Modified(tensor_type);
}

}  // namespace adjoint
