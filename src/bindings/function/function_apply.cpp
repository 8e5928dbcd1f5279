// Function.apply: from a call to outputs with a history. Read function_node.h first.
//
// The node is made first: user code sees it as `ctx` while forward runs without recording. Then
// each output gets its history. An input that is returned becomes a view of itself, since it cannot
// have two histories; one that was changed in place is rebased as by an in-place op.
#include <array>

#include "bindings/function/function_node.h"
#include "dispatch/anomaly.h"
#include "dispatch/record_node.h"
#include "dispatch/view.h"
#include "graph/hidden_reads.h"
#include "graph/intermediate.h"
#include "graph/retained_grad.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

// --- arguments -----------------------------------------------------------------------------------
struct Arguments {
  PyObject* const* items;
  Py_ssize_t count;
};

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
// nothing in them to differentiate. `others`: tensors in objects that are no structures.
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
// What a function that is to be recorded reads besides its inputs goes into `reads`; one inside of
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

// --- outputs -------------------------------------------------------------------------------------
bool contains(PyObject* tuple, PyObject* o) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  }
  return false;
}
bool contains(Arguments a, PyObject* o) {
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    if (a.items[i] == o) return true;
  }
  return false;
}

Object view_of_itself(PyObject* o) {
  if (Py_TYPE(o) != tensor_type) return checked(PyObject_CallMethod(o, "view_as", "O", o));
  Tensor t = Tensor::borrow(as_tensor(o));
  return checked(to_python(make_view(t, t.shape(), t.strides(), t.offset())));
}

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
    if (!contains(in, o) && !contains(n->non_differentiable, o)) reads.note(as_tensor(o), "return");
  }
}

// Whether a result with a gradient depends on what forward read besides its inputs
// (graph/hidden_reads.h).
bool reach_outputs(FunctionNode* n, const ForwardReads& reads, Arguments in,
                   const std::vector<Object>& items) {
  for (const Object& item : items) {
    PyObject* o = item.get();
    if (!is_tensor(o) || !is_differentiable(as_tensor(o)->dtype)) continue;
    if (contains(n->non_differentiable, o)) continue;
    if (reads.reach(as_tensor(o), contains(in, o))) return true;
  }
  return false;
}

class Outputs {
 public:
  Outputs(FunctionNode* n, Arguments in, bool recording, bool split)
      : n_(n), in_(in), recording_(recording), split_(split) {}

  // Gives every output its history; `items` are replaced where the user gets another object.
  void finish(std::vector<Object>& items);

 private:
  void set(Object& item, int slot);
  void set_without_history(Object& item, bool is_input, bool changed);
  void set_changed(const Tensor& t, int slot, bool is_input);
  void mark_views(std::vector<Object>& items);

  FunctionNode* n_;
  Arguments in_;
  bool recording_, split_;
  int with_history_ = 0;
};

void Outputs::set_without_history(Object& item, bool is_input, bool changed) {
  TensorObject* t = as_tensor(item.get());
  if (!needs_grad(t)) {
    if (is_input && !changed) {
      item = view_of_itself(item.get());
      if (t->cut) pass_cut(as_tensor(item.get()), t->cut);
    }
    return;
  }
  if (is_input && !changed) {
    item = checked(to_python(alias(Tensor::borrow(t))));
  } else if (!t->base) {  // a view stays what no_grad would have made of it
    Py_CLEAR(t->grad_fn);
    t->flags &= ~kRequiresGrad;
  }
}

void Outputs::set_changed(const Tensor& t, int slot, bool is_input) {
  if (t.is_leaf() && t.requires_grad() && !stale_view(t.get())) {
    if (t.is_view()) {
      runtime_error(
          "a view of a leaf Variable that requires grad is being used in an in-place operation: ",
          function_name(n_), ".forward marked it dirty");
    }
    runtime_error("a leaf Variable that requires grad has been used in an in-place operation: ",
                  function_name(n_), ".forward marked it dirty");
  }
  refuse_captured(t, text(function_name(n_), ".forward").c_str());
  if (t.is_view() && n_->output_count > 1) {
    runtime_error(
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor. This is not supported by the current "
        "autograd engine. You should either make sure the input is not a view (using .clone() for "
        "example) or make your Function only return one Tensor (",
        function_name(n_), " returns ", n_->output_count, ")");
  }
  if (!is_input) {
    checked(PyErr_WarnEx(PyExc_UserWarning,
                         "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is "
                         "not an input, there is no need to pass it to mark_dirty().",
                         1));
  }
  if (!t.is_view() || !is_input) return change_history(t, n_, slot);
  // The graph expects the edge of what was changed to be the first.
  if (needs_grad(t->base) && !t->base->grad_fn) {
    runtime_error(
        "a view of a leaf Variable that requires grad is being used in an in-place operation: ",
        function_name(n_), ".forward marked it dirty");
  }
  uint32_t k = 0;
  for (Py_ssize_t i = 0; in_.items[i] != reinterpret_cast<PyObject*>(t.get()); ++i)
    k += n_->inputs()[i] != kPlainInput;
  std::rotate(n_->edges, n_->edges + k, n_->edges + k + 1);
  n_->first_edge = k;
  rebase_history(t, n_);
}

void Outputs::set(Object& item, int slot) {
  PyObject* o = item.get();
  bool is_input = contains(in_, o), changed = contains(n_->dirty, o);
  bool marked = contains(n_->non_differentiable, o);
  bool wanted = n_->executable && !marked && is_differentiable(as_tensor(o)->dtype);
  Tensor t = Tensor::borrow(as_tensor(o));
  n_->outputs()[slot] = wanted ? kGradOutput : marked ? kMarkedOutput : kNoGradOutput;
  set_meta(n_, slot, t);
  if (!wanted) return set_without_history(item, is_input, changed);
  ++with_history_;
  if (changed) return set_changed(t, slot, is_input);
  if (is_input) {
    if (split_ && contains(n_->to_save, o)) {
      runtime_error(
          "A input that has been returned as-is as output is being saved for backward. This is not "
          "supported if you override setup_context. You should return and save a view of the input "
          "instead, e.g. with x.view_as(x) or setup ctx inside the forward function itself.");
    }
    item = view_of_itself(o);
  } else if (t.is_leaf() && t.requires_grad()) {
    item = view_of_itself(o);  // somebody else's leaf stays one
  }
  t = Tensor::borrow(as_tensor(item.get()));
  if (t->cut) drop_cut(t.get());
  set_history(t, n_, slot);
}

// Changing such a view in place would replace the custom backward, so it is refused later.
void Outputs::mark_views(std::vector<Object>& items) {
  for (Object& item : items) {
    if (!is_tensor(item.get())) continue;
    Tensor t = Tensor::borrow(as_tensor(item.get()));
    if (!t.is_view() || contains(n_->dirty, item.get())) continue;
    t.set(kNoGradView, false);
    t.set(with_history_ > 1 ? kMultiView : kFunctionView);
  }
}

void Outputs::finish(std::vector<Object>& items) {
  if (n_->dirty) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(n_->dirty); ++i) {
      bool returned = false;
      for (Object& item : items) returned |= item.get() == PyTuple_GET_ITEM(n_->dirty, i);
      if (!returned) {
        runtime_error(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function (",
            function_name(n_), ").");
      }
    }
  }
  int count = static_cast<int>(items.size());
  if (count > UINT16_MAX) runtime_error(function_name(n_), " returned ", count, " outputs");
  n_->set_output_count(count);
  if (count > kInlineOutputs) n_->more_outputs = new uint8_t[count]{};
  bool any_view = false;
  for (int k = 0; k < count; ++k) {
    if (!is_tensor(items[k].get())) continue;
    set(items[k], k);
    any_view |= as_tensor(items[k].get())->base != nullptr;
  }
  if (any_view && recording_) mark_views(items);
}

Object as_result(FunctionNode* n, PyObject* raw, std::vector<Object>& items) {
  if (n->out_structure) {
    Object flat = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); ++i)
      PyTuple_SET_ITEM(flat.get(), static_cast<Py_ssize_t>(i), items[i].release());
    return checked(PyObject_CallMethod(n->out_structure, "rebuild", "(O)", flat.get()));
  }
  if (!PyTuple_Check(raw)) return std::move(items[0]);
  Object result = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), items[i].release());
  return result;
}

// The outputs, one by one: the items of a tuple, the leaves of anything nested.
std::vector<Object> output_items(FunctionNode* n, PyObject* raw) {
  std::vector<Object> items;
  if (is_tensor(raw)) {
    items.push_back(Object::borrow(raw));
    return items;
  }
  bool nested = !PyTuple_CheckExact(raw)
                    ? PyTuple_Check(raw) || PyList_Check(raw) || PyDict_Check(raw) ||
                          (Py_TYPE(raw)->tp_flags & Py_TPFLAGS_HEAPTYPE)
                    : false;
  if (PyTuple_CheckExact(raw)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw) && !nested; ++i) {
      PyObject* o = PyTuple_GET_ITEM(raw, i);
      nested = !is_tensor(o) && (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) ||
                                 (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE));
    }
  }
  if (nested) {
    Object structure = checked(PyObject_CallOneArg(from_structures("output_structure"), raw));
    if (structure.get() != Py_None) {
      n->out_structure = structure.release();
      Object leaves = checked(PyObject_GetAttrString(n->out_structure, "leaves"));
      checked(PyObject_SetAttrString(n->out_structure, "leaves", Py_None));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves.get()); ++i)
        items.push_back(Object::borrow(PyTuple_GET_ITEM(leaves.get(), i)));
      return items;
    }
  }
  if (!PyTuple_Check(raw)) {
    items.push_back(Object::borrow(raw));
    return items;
  }
  items.reserve(PyTuple_GET_SIZE(raw));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i)
    items.push_back(Object::borrow(PyTuple_GET_ITEM(raw, i)));
  return items;
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
