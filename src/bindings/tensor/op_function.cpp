// OpFunction: what `adjoint.sin`, `Tensor.sin` and `Tensor.sin_` are. One object holds the
// overloads of a name; it is called through vectorcall and binds like a method without making a
// bound object first.
#include "bindings/python.h"
#include "bindings/tensor/subclass.h"
#include "dispatch/direct.h"

#include <structmember.h>

#include <cctype>
#include <map>

namespace adjoint {
namespace {

struct OpFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<const Op*>* overloads;
  bool inplace;
  const Op* direct;  // the only overload, where it has a short way (dispatch/direct.h)
  PyObject* name;
  PyObject* doc;
  PyObject* dict;
  PyObject* composite_form;  // called where the first argument is not a tensor; mostly null
};

PyTypeObject op_function_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

OpFunction* self_of(PyObject* o) { return reinterpret_cast<OpFunction*>(o); }

// Null without an error: the general way is needed.
PyObject* call_direct(const Op& op, PyObject* const* args) {
  TensorObject* out = nullptr;
  if (!is_tensor(args[0])) return nullptr;
  if (op.operands == 1) {
    out = direct_single(op, as_tensor(args[0]));
  } else if (is_tensor(args[1]) && op.schema.arguments[1].type != ArgType::Scalar) {
    out = direct_pair(op, as_tensor(args[0]), as_tensor(args[1]));
  }
  return reinterpret_cast<PyObject*>(out);
}

// The call once more for a structure of tensors, if the function has a form for it. The error of
// the op, which is set, stays when the form does not know what to do with its argument either.
PyObject* call_composite(OpFunction* f, PyObject* const* args, size_t flags, PyObject* keywords) {
  Py_ssize_t given = PyVectorcall_NARGS(flags) + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  if (!given || is_tensor(args[0]) || !PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* result =
      PyObject_Vectorcall(f->composite_form, args, PyVectorcall_NARGS(flags), keywords);
  if (result == Py_NotImplemented) {
    Py_DECREF(result);
    PyErr_Restore(type, value, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return result;
}

// Note [Tensors without values]
// A tensor on the device "meta" has a shape and no values. Python makes it (adjoint._tensor.meta):
// calls that make tensors go there while the device is the default of this thread, and after
// `require_cpu` has raised `MetaAsked` because it was named.
thread_local bool t_meta = false;

bool has_device(const OpFunction* f) {
  for (const Argument& a : f->overloads->front()->schema.arguments) {
    if (a.name == "device") return true;
  }
  return false;
}
PyObject* make_without_values(PyObject* callable, PyObject* const* args, size_t flags,
                              PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Object module = checked(PyImport_ImportModule("adjoint._tensor.meta"));
    Object maker = checked(PyObject_GetAttrString(module.get(), "made"));
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    std::vector<PyObject*> all{callable};
    all.insert(all.end(), args, args + n + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
    return PyObject_Vectorcall(maker.get(), all.data(), static_cast<size_t>(n) + 1, keywords);
  });
}
// Whether the error that is set says that "meta" was named; it is cleared then.
bool meta_was_named() {
  static PyObject* asked = nullptr;
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return false;
  if (!asked) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject* module = PyImport_ImportModule("adjoint._tensor.device")) {
      asked = PyObject_GetAttrString(module, "MetaAsked");
      Py_DECREF(module);
    }
    PyErr_Restore(type, value, trace);
  }
  if (!asked || !PyErr_ExceptionMatches(asked)) return false;
  PyErr_Clear();
  return true;
}

PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keywords) {
  OpFunction* f = self_of(callable);
  if (g_subclasses) [[unlikely]] {
    if (t_meta && has_device(f)) return make_without_values(callable, args, flags, keywords);
    Py_ssize_t total = PyVectorcall_NARGS(flags) + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    if (any_overriding(args, total))
      return call_overriding(callable, args, PyVectorcall_NARGS(flags), keywords);
  }
  if (f->direct && !keywords && PyVectorcall_NARGS(flags) == f->direct->operands) {
    PyObject* out = guard([&] { return call_direct(*f->direct, args); });
    if (out || PyErr_Occurred()) return out;
  }
  PyObject* result = call_ops(*f->overloads, f->inplace, PyUnicode_AsUTF8(f->name), args,
                              PyVectorcall_NARGS(flags), keywords);
  if (!result && meta_was_named()) return make_without_values(callable, args, flags, keywords);
  if (!result && f->composite_form) result = call_composite(f, args, flags, keywords);
  if (!result) return call_tensor_like(callable, args, PyVectorcall_NARGS(flags), keywords);
  return result;
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (object && object != Py_None) return PyMethod_New(self, object);
  Py_INCREF(self);
  return self;
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<op %U of adjoint>", self_of(self)->name);
}
// Pickled by name, like any function of a module; methods through the Tensor type.
PyObject* reduce(PyObject* self, PyObject*) {
  Object module = Object::steal(PyImport_ImportModule("adjoint._core"));
  if (!module) return nullptr;
  Object named = Object::steal(PyObject_GetAttr(module.get(), self_of(self)->name));
  PyErr_Clear();
  if (named.get() == self) {
    Py_INCREF(self_of(self)->name);
    return self_of(self)->name;
  }
  Object builtins = Object::steal(PyImport_ImportModule("builtins"));
  if (!builtins) return nullptr;
  return Py_BuildValue("N(OO)", PyObject_GetAttrString(builtins.get(), "getattr"), tensor_type,
                       self_of(self)->name);
}
PyObject* module_name(PyObject*, void*) { return PyUnicode_FromString("adjoint._core"); }

// What all overloads begin with; the rest differs.
std::string common_signature(const std::vector<const Op*>& overloads) {
  std::string out = "(";
  const auto& first = overloads.front()->schema.arguments;
  for (size_t i = 0; i < first.size(); ++i) {
    bool common = true;
    for (const Op* op : overloads) {
      const auto& arguments = op->schema.arguments;
      common = common && i < arguments.size() && arguments[i].name == first[i].name &&
               !arguments[i].keyword_only && !arguments[i].variadic && !arguments[i].has_default;
    }
    if (!common) break;
    out += first[i].name + ", ";
  }
  return out + "*args, **kwargs)";
}

PyObject* signature(PyObject* self, void*) {
  OpFunction* f = self_of(self);
  std::string text = f->overloads->size() == 1 ? python_signature(f->overloads->front()->schema)
                                               : common_signature(*f->overloads);
  // A word of Python's cannot be the name of an argument there.
  for (const char* head : {"(from", " from"}) {
    if (size_t at = text.find(head); at != std::string::npos && !std::isalnum(text[at + 5]))
      text.insert(at + 5, "_");
  }
  return PyUnicode_FromString(text.c_str());
}

PyMemberDef members[] = {{"__name__", T_OBJECT, offsetof(OpFunction, name), READONLY, nullptr},
                         {"__qualname__", T_OBJECT, offsetof(OpFunction, name), READONLY, nullptr},
                         {"__doc__", T_OBJECT, offsetof(OpFunction, doc), READONLY, nullptr},
                         {nullptr}};
PyGetSetDef attributes[] = {{"__module__", module_name, nullptr, nullptr, nullptr},
                            {"__text_signature__", signature, nullptr, nullptr, nullptr},
                            {nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr}};

std::string doc_of(const std::vector<const Op*>& ops, bool inplace) {
  std::string out;
  for (const Op* op : ops) {
    out +=
        op->name + (inplace ? "_" : "") + python_signature(op->schema) + "\n\n" + op->doc + "\n\n";
  }
  if (inplace) out += "Changes the tensor in place and returns it.\n";
  return out;
}

Object new_function(const std::string& name, std::vector<const Op*> overloads, bool inplace) {
  auto* f = PyObject_New(OpFunction, &op_function_type);
  if (!f) throw PythonError{};
  f->vectorcall = call;
  f->inplace = inplace;
  f->name = PyUnicode_InternFromString((name + (inplace ? "_" : "")).c_str());
  f->doc = PyUnicode_FromString(doc_of(overloads, inplace).c_str());
  const Op* first = overloads.front();
  f->direct = overloads.size() == 1 && !inplace && first->operands ? first : nullptr;
  f->overloads = new std::vector<const Op*>(std::move(overloads));
  f->dict = nullptr;
  f->composite_form = nullptr;
  return Object::steal(reinterpret_cast<PyObject*>(f));
}

// _make_without_values(on) -> what it was: whether "meta" is this thread's default device.
PyObject* set_meta(PyObject*, PyObject* on) {
  g_subclasses = true;  // the way of calls that looks at it
  return PyBool_FromLong(std::exchange(t_meta, PyObject_IsTrue(on) == 1));
}

// _values_unknown(on) -> what it was: ops whose result depends on values raise (kNoValues).
PyObject* set_no_values(PyObject*, PyObject* on) {
  const bool before = mode_on(kNoValues);
  set_mode(kNoValues, PyObject_IsTrue(on) == 1);
  return PyBool_FromLong(before);
}

// _set_composite_forms({name: function}): what op functions call where a structure is given.
PyObject* set_composite_forms(PyObject* module, PyObject* forms) {
  if (!PyDict_Check(forms)) {
    PyErr_SetString(PyExc_TypeError, "_set_composite_forms(): expected a dict");
    return nullptr;
  }
  PyObject *name, *form;
  Py_ssize_t at = 0;
  while (PyDict_Next(forms, &at, &name, &form)) {
    Object op = Object::steal(PyObject_GetAttr(module, name));
    if (!op) return nullptr;
    if (Py_TYPE(op.get()) != &op_function_type) {
      PyErr_Format(PyExc_TypeError, "_set_composite_forms(): %U is not an op", name);
      return nullptr;
    }
    Py_INCREF(form);
    Py_XSETREF(self_of(op.get())->composite_form, form);
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_make_without_values", set_meta, METH_O,
     "Whether this thread makes tensors on \"meta\"; returns what it was."},
    {"_values_unknown", set_no_values, METH_O,
     "Whether ops refuse to let values decide in this thread; returns what it was."},
    {"_set_composite_forms", set_composite_forms, METH_O,
     "Tells op functions what to call where a structure is given."},
    {nullptr}};

}  // namespace

void add_op_functions(PyObject* module, PyTypeObject* tensor) {
  PyTypeObject& t = op_function_type;
  t.tp_name = "adjoint.OpFunction";
  t.tp_basicsize = sizeof(OpFunction);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  t.tp_vectorcall_offset = offsetof(OpFunction, vectorcall);
  t.tp_call = PyVectorcall_Call;
  t.tp_descr_get = bind;
  t.tp_repr = repr;
  t.tp_members = members;
  t.tp_getset = attributes;
  t.tp_methods = methods;
  checked(PyType_Ready(&t));
  add_functions(module, functions);
  struct Names {
    std::vector<const Op*> function, method, inplace;
  };
  std::map<std::string, Names> names;
  for (const Op* op : all_ops()) {
    std::vector<std::string> all = op->aliases;
    all.push_back(op->name);
    for (const std::string& name : all) {
      if (op->as_function) names[name].function.push_back(op);
      if (op->as_method) names[name].method.push_back(op);
      if (op->has_inplace) names[name].inplace.push_back(op);
    }
  }
  for (auto& entry : names) {
    // Not a structured binding, which clang before 16 cannot capture.
    const std::string& name = entry.first;
    auto& n = entry.second;
    Object both;
    if (!n.function.empty()) {
      both = new_function(name, n.function, false);
      checked(PyModule_AddObjectRef(module, name.c_str(), both.get()));
    }
    // A name the type defines by hand keeps its hand-written form.
    auto method = [&](const std::string& as, const std::vector<const Op*>& ops, bool inplace) {
      if (ops.empty() || PyDict_GetItemString(tensor->tp_dict, as.c_str())) return;
      Object f = !inplace && ops == n.function ? both : new_function(name, ops, inplace);
      checked(PyDict_SetItemString(tensor->tp_dict, as.c_str(), f.get()));
    };
    method(name, n.method, false);
    method(name + "_", n.inplace, true);
    if (!n.inplace.empty()) {
      Object f = Object::borrow(PyDict_GetItemString(tensor->tp_dict, (name + "_").c_str()));
      if (!n.function.empty() && !PyObject_HasAttrString(module, (name + "_").c_str())) {
        checked(PyModule_AddObjectRef(module, (name + "_").c_str(), f.get()));
      }
    }
  }
  PyType_Modified(tensor);
}

}  // namespace adjoint
