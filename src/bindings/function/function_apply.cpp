// Function.apply: from a call to outputs with a history. Read function_node.h first.
//
// The node is made first: user code sees it as `ctx` while forward runs without recording. Then
// each output gets its history (function_outputs.cpp).
#include <array>
#include <cstring>
#include <optional>

#include "bindings/function/function_outputs.h"
#include "dispatch/anomaly.h"
#include "dispatch/profile.h"
#include "dispatch/view.h"
#include "graph/hidden_reads.h"
#include "graph/intermediate.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

// --- arguments -----------------------------------------------------------------------------------
Object as_tuple(Arguments a) {
  Object all = checked(PyTuple_New(a.count));
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    Py_INCREF(a.items[i]);
    PyTuple_SET_ITEM(all.get(), i, a.items[i]);
  }
  return all;
}

// Whether arguments hold tensors to be differentiated, or might: then they are taken apart, and
// searched, in Python. A search that gets long ends in "might".
class TensorSearch {
 public:
  bool may_hold(PyObject* o, int depth = 0) {
    if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
        PyUnicode_CheckExact(o) || depth > 32)
      return false;
    if (is_tensor(o))
      return needs_grad(as_tensor(o)) || (g_transformed && may_have_tangent(as_tensor(o)));
    if (--left_ < 0) return true;
    if (PyTuple_Check(o) || PyList_Check(o)) return in_sequence(o, depth);
    if (PyDict_Check(o)) return in_dict(o, depth);
    return PyAnySet_Check(o) || is_other_container(Py_TYPE(o)) || in_object(o, depth);
  }

 private:
  bool in_sequence(PyObject* o, int depth) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (may_hold(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return true;
    }
    return false;
  }

  bool in_dict(PyObject* dict, int depth) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
      if (may_hold(value, depth + 1)) return true;
    }
    return false;
  }

  // Objects of Python classes: dataclasses are structures, tensors in others are watched. What
  // can be called (functions, modules) is judged by what it computes alone (graph/hidden_reads.h).
  bool in_object(PyObject* o, int depth) {
    static PyObject* slots = interned("__slots__");
    PyTypeObject* type = Py_TYPE(o);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_call || PyType_Check(o)) return false;
    Object held = Object::steal(PyObject_GenericGetDict(o, nullptr));
    if (!held) PyErr_Clear();
    if (held && PyDict_Check(held.get()) && in_dict(held.get(), depth)) return true;
    return _PyType_Lookup(type, slots);
  }

  // Never freed: it is needed as long as Python runs.
  static PyObject* kept(const char* module, const char* name) {
    Object from = checked(PyImport_ImportModule(module));
    return checked(PyObject_GetAttrString(from.get(), name)).release();
  }

  static bool is_other_container(PyTypeObject* type) {
    static const std::array<PyObject*, 2> types{kept("collections", "deque"),
                                                kept("types", "SimpleNamespace")};
    if (type == &PyDictValues_Type || type == &PyDictItems_Type) return true;
    for (PyObject* t : types) {
      if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(t))) return true;
    }
    return false;
  }

  int left_ = 1000;
};

bool is_nested(Arguments a) {
  TensorSearch search;
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    if (!is_tensor(a.items[i]) && search.may_hold(a.items[i])) return true;
  }
  return false;
}

// The leaves of nested arguments, which `leaves` keeps; the arguments themselves if there is
// nothing in them to differentiate. `others`: tensors in objects that are not structures.
Arguments take_apart(PyObject* cls, Arguments a, Object* structure, Object* leaves,
                     Object* others) {
  Object all = as_tuple(a);
  *others = checked(PyList_New(0));
  *structure = checked(PyObject_CallFunctionObjArgs(from_structures("input_structure"), cls,
                                                    all.get(), others->get(), nullptr));
  if (structure->get() == Py_None) return a;
  *leaves = checked(PyObject_GetAttrString(structure->get(), "leaves"));
  checked(PyObject_SetAttrString(structure->get(), "leaves", Py_None));
  return {&PyTuple_GET_ITEM(leaves->get(), 0), PyTuple_GET_SIZE(leaves->get())};
}

// Missing positional arguments of a split forward take their defaults, so that setup_context sees
// them: a tuple, or null when none is missing.
Object with_defaults(PyObject* forward, Arguments a) {
  bool bound = PyMethod_Check(forward);  // a classmethod
  if (bound) forward = PyMethod_GET_FUNCTION(forward);
  if (!PyFunction_Check(forward)) return {};
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward));
  PyObject* defaults = PyFunction_GET_DEFAULTS(forward);
  Py_ssize_t wanted = code->co_argcount - bound;
  if (!defaults || a.count >= wanted) return {};
  Py_ssize_t first = wanted - PyTuple_GET_SIZE(defaults);
  if (a.count < first) return {};  // the call itself will say what is missing
  Object all = checked(PyTuple_New(wanted));
  for (Py_ssize_t i = 0; i < wanted; ++i) {
    PyObject* item = i < a.count ? a.items[i] : PyTuple_GET_ITEM(defaults, i - first);
    Py_INCREF(item);
    PyTuple_SET_ITEM(all.get(), i, item);
  }
  return all;
}

// --- the node ------------------------------------------------------------------------------------
class NodeHolder {
 public:
  explicit NodeHolder(FunctionNode* n) : n_(n) {}
  ~NodeHolder() { Py_XDECREF(n_); }
  NodeHolder(const NodeHolder&) = delete;
  FunctionNode* get() const { return n_; }
  FunctionNode* operator->() const { return n_; }

 private:
  FunctionNode* n_;
};

// Edges come before the node: a leaf's accumulator made with them must be older.
FunctionNode* begin(PyTypeObject* type, Arguments in) {
  bool recording = grad_enabled();
  Edge few[8];
  std::vector<Edge> many(in.count > 8 ? in.count : 0);
  Edge* edges = many.empty() ? few : many.data();
  int tensors = 0;
  bool any = false;
  if (in.count > UINT16_MAX) runtime_error("a function of ", in.count, " tensors");
  for (Py_ssize_t i = 0; i < in.count; ++i) {
    if (!is_tensor(in.items[i])) continue;
    TensorObject* t = as_tensor(in.items[i]);
    if (recording && needs_grad(t)) {
      edges[tensors] = gradient_edge(t);
      any = true;
    }
    ++tensors;
  }
  FunctionNode* n = new_function_node(type, static_cast<int>(in.count), tensors);
  std::copy_n(edges, tensors, n->edges);
  n->executable = any;
  for (Py_ssize_t i = 0; i < in.count; ++i) {
    if (is_tensor(in.items[i]))
      n->inputs()[i] = needs_grad(as_tensor(in.items[i])) ? kGradInput : kTensorInput;
  }
  return n;
}

// Nothing is recorded, and values remember that it was a forward that cut off their history.
// What a function that is to be recorded reads besides its inputs goes into `reads`; one inside
// another that is not recorded reads for that one. A backward that calls the function is recorded,
// what forward differentiates for itself is not a part of it.
class ForwardMode {
 public:
  explicit ForwardMode(ForwardReads& reads)
      : before_(std::exchange(t_in_function_forward, true)),
        recorded_before_(std::exchange(t_recorded_function, nullptr)),
        reads_before_(t_forward_reads),
        no_cuts_(mode_on(kNoCuts)) {
    if (reads.recording() || reads.limit() > 0) t_forward_reads = &reads;
    if (reads.recording()) set_mode(kNoCuts, false);  // a backward pass may record forwards
  }
  ~ForwardMode() {
    t_in_function_forward = before_;
    t_recorded_function = recorded_before_;
    t_forward_reads = reads_before_;
    set_mode(kNoCuts, no_cuts_);
  }
  ForwardMode(const ForwardMode&) = delete;

 private:
  GradMode off_{false};
  TangentLimit no_tangents_{0};
  bool before_;
  Node* recorded_before_;
  ForwardReads* reads_before_;
  bool no_cuts_;
};

// What the inputs' memory was before forward ran.
class Versions {
 public:
  Versions(FunctionNode* n, Arguments in) : n_(n), in_(in) {
    if (!n->executable) return;
    if (in.count > kInlineInputs) more_.resize(in.count);
    for (Py_ssize_t i = 0; i < in.count; ++i) {
      if (n->inputs()[i] != kPlainInput) at(i) = as_tensor(in.items[i])->storage->version;
    }
  }

  // Refuses a change that leaves an input with the history of its old value; counts one that was
  // announced but made by other means than ops.
  void check() {
    for (Py_ssize_t i = 0; n_->executable && i < in_.count; ++i) {
      if (n_->inputs()[i] == kPlainInput) continue;
      TensorObject* t = as_tensor(in_.items[i]);
      bool changed = t->storage->version != at(i);
      if (changed && n_->inputs()[i] == kGradInput && t->grad_fn && !announced(t)) refuse(i);
      if (!changed && n_->dirty && announced(t)) bump_version(Tensor::borrow(t));
    }
  }

 private:
  uint32_t& at(Py_ssize_t i) { return more_.empty() ? few_[i] : more_[i]; }
  bool announced(const TensorObject* t) const {
    for (Py_ssize_t k = 0; n_->dirty && k < PyTuple_GET_SIZE(n_->dirty); ++k) {
      if (as_tensor(PyTuple_GET_ITEM(n_->dirty, k))->storage == t->storage) return true;
    }
    return false;
  }
  [[noreturn]] void refuse(Py_ssize_t i) {
    std::string name = input_name(n_, static_cast<uint32_t>(i));
    const Storage* s = as_tensor(in_.items[i])->storage;
    runtime_error(function_name(n_), ".forward changed its argument ", name,
                  " in place without saying so: its history would be that of the old value.\n"
                  "  changed here  ",
                  s->changed.describe(),
                  "\n  fix: call ctx.mark_dirty on it and return it, or work on a copy (.clone())");
  }

  FunctionNode* n_;
  Arguments in_;
  uint32_t few_[kInlineInputs] = {};
  std::vector<uint32_t> more_;
};

Object call_forward(PyObject* forward, FunctionNode* ctx, Arguments a) {
  PyObject* few[12];
  std::vector<PyObject*> many(a.count > 10 ? a.count + 2 : 0);
  PyObject** stack = many.empty() ? few : many.data();
  stack[1] = as_object(ctx);
  std::copy_n(a.items, a.count, stack + 2);
  return checked(PyObject_Vectorcall(forward, stack + 1,
                                     (a.count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

Object call_split(PyObject* cls, PyObject* forward, FunctionNode* ctx, Arguments a) {
  static PyObject* name = interned("setup_context");
  Object inputs = as_tuple(a);
  Object out = checked(PyObject_Call(forward, inputs.get(), nullptr));
  Object setup = checked(PyObject_GetAttr(cls, name));
  PyObject* given[] = {as_object(ctx), inputs.get(), out.get()};
  checked(PyObject_Vectorcall(setup.get(), given, 3, nullptr));
  return out;
}

// --- what forward read ---------------------------------------------------------------------------
// What reads are compared with, besides the node's edges.
void expect_reads(ForwardReads& reads, Arguments in, PyObject* others) {
  for (Py_ssize_t i = 0; reads.limit() > 0 && i < in.count; ++i) {
    if (is_tensor(in.items[i])) reads.give(as_tensor(in.items[i])->storage);
  }
  for (Py_ssize_t i = 0; others && i < PyList_GET_SIZE(others); ++i)
    reads.watch(as_tensor(PyList_GET_ITEM(others, i)));
}

// Somebody else's tensor that is returned as it is was read, too.
void note_returned(FunctionNode* n, Arguments in, const std::vector<Object>& items,
                   ForwardReads& reads) {
  for (const Object& item : items) {
    PyObject* o = item.get();
    if (!is_tensor(o) || !needs_grad(as_tensor(o))) continue;
    if (!is_among(in, o) && !is_among(n->non_differentiable, o)) reads.note(as_tensor(o), "return");
  }
}

// Whether a result with a gradient depends on what forward read besides its inputs
// (graph/hidden_reads.h).
bool reach_outputs(FunctionNode* n, const ForwardReads& reads, Arguments in,
                   const std::vector<Object>& items) {
  for (const Object& item : items) {
    PyObject* o = item.get();
    if (!is_tensor(o) || !is_differentiable(as_tensor(o)->dtype)) continue;
    if (is_among(n->non_differentiable, o)) continue;
    if (reads.reach(as_tensor(o), is_among(in, o))) return true;
  }
  return false;
}

// With anomaly detection on: what forward returned is looked at like the result of an op.
void look_at(FunctionNode* n, const Arguments& in, const std::vector<Object>& out) {
  Tensors given, made;
  for (Py_ssize_t i = 0; i < in.count; ++i) {
    if (is_tensor(in.items[i])) given.push_back(Tensor::borrow(as_tensor(in.items[i])));
  }
  for (const Object& o : out) {
    if (is_tensor(o.get())) made.push_back(Tensor::borrow(as_tensor(o.get())));
  }
  if (n->executable) note_created(n);
  check_function(function_name(n), given, made);
}

PyObject* g_check = nullptr;  // called with the class and its arguments, in check mode

// Is a sample of a vmap among the arguments, or in a container there?
bool holds_batched(PyObject* o, int depth) {
  if (is_tensor(o)) return batch_of(as_tensor(o));
  if (depth > 8) return false;
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (holds_batched(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return true;
    }
  }
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(o, &at, &key, &value)) {
      if (holds_batched(value, depth + 1)) return true;
    }
  }
  return false;
}
bool any_holds_batched(const Arguments& a) {
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    if (holds_batched(a.items[i], 0)) return true;
  }
  return false;
}

std::string unqualified(const char* name) {
  const char* dot = std::strrchr(name, '.');
  return dot ? dot + 1 : name;
}

PyObject* apply_function(PyObject* cls, Arguments a) {
  static PyObject* forward_name = interned("forward");
  static PyObject* setup_name = interned("setup_context");
  static PyObject* backward_name = interned("_backward_cls");
  static PyObject* base_setup =
      _PyType_Lookup(reinterpret_cast<PyTypeObject*>(from_function_module("Function")), setup_name);
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  PyObject* backward_class = PyType_Check(cls) ? _PyType_Lookup(type, backward_name) : nullptr;
  if (!backward_class) type_error("apply() belongs to subclasses of autograd.Function");
  if (g_transformed && any_holds_batched(a)) [[unlikely]] {
    Object module = checked(PyImport_ImportModule("adjoint.autograd._function_vmap"));
    return PyObject_CallMethod(module.get(), "apply_batched", "OO", cls, as_tuple(a).get());
  }
  std::optional<ProfiledScope> timed;
  if (t_modes & kWatched) [[unlikely]]
    timed.emplace(Profiled::Function, unqualified(type->tp_name));
  bool split = _PyType_Lookup(type, setup_name) != base_setup;
  Object forward = checked(PyObject_GetAttr(cls, forward_name));
  Object filled = split ? with_defaults(forward.get(), a) : Object();
  if (filled) a = {&PyTuple_GET_ITEM(filled.get(), 0), PyTuple_GET_SIZE(filled.get())};

  bool recording = grad_enabled();
  if (g_check && recording) [[unlikely]]
    checked(PyObject_CallFunctionObjArgs(g_check, cls, as_tuple(a).get(), nullptr));
  Object structure, leaves, others;
  Arguments in = a;
  if ((recording || g_transformed) && is_nested(a)) [[unlikely]]
    in = take_apart(cls, a, &structure, &leaves, &others);
  NodeHolder node(begin(reinterpret_cast<PyTypeObject*>(backward_class), in));
  if (leaves) node->in_structure = structure.release();
  Object raw;
  Versions versions(node.get(), in);
  ForwardReads reads(node.get(), recording, g_transformed ? t_tangent_limit : 0);
  if (others || reads.limit() > 0) [[unlikely]]
    expect_reads(reads, in, others.get());
  {
    ForwardMode off(reads);
    raw = split ? call_split(cls, forward.get(), node.get(), a)
                : call_forward(forward.get(), node.get(), a);
  }
  versions.check();
  std::vector<Object> items;
  {
    GradMode off(false);
    items = output_items(node.get(), raw.get());
    if (recording) note_returned(node.get(), in, items, reads);
    if (!reads.tangents().empty()) [[unlikely]]
      refuse_hidden_tangents(node.get(), as_tuple(a).get(), reads);
    if (!reads.empty() && reach_outputs(node.get(), reads, in, items)) [[unlikely]]
      keep_hidden(node.get(), as_tuple(a).get(), reads);
    Outputs(node.get(), in, recording, split).finish(items);
  }
  std::vector<PyObject*> seen;
  for (Object& item : items) seen.push_back(item.get());
  if (g_transformed && any_tangents(in.items, in.count)) [[unlikely]]
    run_jvp(node.get(), in.items, seen.data(), PyTuple_Check(raw.get()));
  if (node->executable) {
    keep_saved(node.get(), in.items, seen.data());
  } else {
    Py_CLEAR(node->to_save);
  }
  Py_CLEAR(node->dirty);
  Py_CLEAR(node->non_differentiable);
  if (mode_on(kAnomaly)) [[unlikely]]
    look_at(node.get(), in, items);
  return as_result(node.get(), raw.get(), items).release();
}

}  // namespace

PyObject* set_check_functions(PyObject*, PyObject* check) {
  if (check == Py_None) check = nullptr;
  Py_XINCREF(check);
  Py_XSETREF(g_check, check);
  Py_RETURN_NONE;
}

PyObject* function_apply(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    if (n == 0) type_error("apply() needs the class");
    if (!keywords || PyTuple_GET_SIZE(keywords) == 0)
      return apply_function(args[0], {args + 1, n - 1});
    Object bound = checked(
        PyObject_Vectorcall(from_function_module("_bind"), args, static_cast<size_t>(n), keywords));
    return apply_function(args[0],
                          {&PyTuple_GET_ITEM(bound.get(), 0), PyTuple_GET_SIZE(bound.get())});
  });
}

}  // namespace adjoint
