// saved_tensors_hooks: the stack of hooks of each thread, the objects that packed values are, and
// `grad_fn._raw_saved_self`. The mechanism is in dispatch/saved.h; people use
// python/adjoint/autograd/_saved_hooks.py.
#include "dispatch/saved.h"
#include "graph/back_links.h"
#include "graph/computation_state.h"
#include "transforms/tangents.h"

#include "bindings/autograd/saved_hooks.h"

namespace adjoint {
namespace {

// --- packed values -------------------------------------------------------------------------------
// What a pack hook returned, with the hook that turns it back into a tensor, and the levels of
// forward mode at which the value had tangents: they must come back with it.
struct Packed {
  PyObject_HEAD PyObject* data;
  PyObject* unpack;
  TensorObject* unpacked;      // while a rule runs
  std::vector<Level>* levels;  // owned; null for nearly all
};

PyTypeObject packed_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

int traverse_packed(PyObject* o, visitproc visit, void* arg) {
  auto* p = reinterpret_cast<Packed*>(o);
  Py_VISIT(p->data);
  Py_VISIT(p->unpack);
  Py_VISIT(p->unpacked);
  return 0;
}
int clear_packed(PyObject* o) {
  auto* p = reinterpret_cast<Packed*>(o);
  Py_CLEAR(p->data);
  Py_CLEAR(p->unpack);
  Py_CLEAR(p->unpacked);
  return 0;
}
void free_packed(PyObject* o) {
  PyObject_GC_UnTrack(o);
  clear_packed(o);
  delete reinterpret_cast<Packed*>(o)->levels;
  PyObject_GC_Del(o);
}

std::vector<Level>* levels_with_tangents(const Tensor& t) {
  uint64_t bits = g_transformed && may_have_tangent(t.get()) ? tangent_levels(t) : 0;
  if (!bits) return nullptr;
  auto* levels = new std::vector<Level>;
  for (size_t i = 0; i < t_levels.size(); ++i) {
    if (bits >> i & 1) levels->push_back(t_levels[i].level);
  }
  return levels;
}

// Backward would take the value for a constant of forward mode.
[[noreturn]] void refuse_lost_tangent(const Packed* p, const Tensor& t) {
  Object name = Object::steal(PyObject_GetAttrString(p->unpack, "__qualname__"));
  if (!name) PyErr_Clear();
  const char* hook = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  runtime_error(
      "a saved value (", t.dtype(), " ", t.shape(),
      ") had a tangent when it was packed by saved_tensors_hooks, and has none now that the unpack "
      "hook '",
      hook ? hook : Py_TYPE(p->unpack)->tp_name,
      "' returned it: forward over reverse would be silently wrong.\n"
      "  fix: let the pack hook keep the tangent (t.clone() does; t.detach(), t.numpy() and copies "
      "on disk do not), or leave the hooks out of forward mode");
}

void check_tangents(const Packed* p, const Tensor& t) {
  if (!p->levels) return;
  uint64_t bits = tangent_levels(t);
  for (size_t i = 0; i < t_levels.size(); ++i) {
    Level level = t_levels[i].level;
    if (level >= t_tangent_limit || (bits >> i & 1)) continue;
    for (Level had : *p->levels) {
      if (had == level) refuse_lost_tangent(p, t);
    }
  }
}

// --- the stack -----------------------------------------------------------------------------------
struct Hooks {
  Object pack, unpack;
};

// Of one thread. `disabled` is the message of disable_saved_tensors_hooks.
struct Stack {
  std::vector<Hooks> hooks;
  Object disabled;
  std::vector<Object> unpacked;  // packed values that hold a tensor until the scope ends
  Object watcher;                // called with a tensor that is about to be changed in place
};
// Never freed at the end of a thread, when the GIL may be out of reach.
thread_local Stack* t_stack = nullptr;
Stack& stack() {
  if (!t_stack) t_stack = new Stack;
  return *t_stack;
}

// A pass that goes on in a fresh thread finds the hooks of its caller.
struct CarriedStack {
  Stack stack;
  bool watch;
};
const Carried carried = {
    []() -> void* {
      return new CarriedStack{{stack().hooks, stack().disabled, {}, stack().watcher},
                              t_watch_changes};
    },
    [](void* p) {
      auto* c = static_cast<CarriedStack*>(p);
      stack() = c->stack;
      t_watch_changes = c->watch;
    },
    [] { delete std::exchange(t_stack, nullptr); },
    [](void* p) { delete static_cast<CarriedStack*>(p); },
};

void set_hooks(std::vector<Hooks> hooks) {
  hooks.swap(stack().hooks);
  set_mode(kSavedHooks, !stack().hooks.empty());
}

Value pack_with(const Hooks& h, const Tensor& t) {
  Object tensor = checked(to_python(t));
  Object data = checked(PyObject_CallOneArg(h.pack.get(), tensor.get()));
  auto* p = PyObject_GC_New(Packed, &packed_type);
  if (!p) throw PythonError{};
  p->data = data.release();
  p->unpack = Object(h.unpack).release();
  p->unpacked = nullptr;
  p->levels = levels_with_tangents(t);
  PyObject_GC_Track(p);
  Value v = Value::object(reinterpret_cast<PyObject*>(p));
  Py_DECREF(p);
  return v;
}

Value pack_with_innermost(const Tensor& t) {
  Hooks h = stack().hooks.back();
  return pack_with(h, t);
}

// A hook may enter or leave hooks of its own; what it leaves behind ends with it.
Tensor call_unpack(const Packed* p) {
  struct Restore {
    std::vector<Hooks> hooks = stack().hooks;
    std::vector<Object> unpacked = std::exchange(stack().unpacked, {});
    ~Restore() {
      stack().unpacked = std::move(unpacked);
      set_hooks(std::move(hooks));
    }
  } restore;
  Object data = Object::borrow(p->data), hook = Object::borrow(p->unpack);
  if (!hook) runtime_error("a packed value was used after the garbage collector cleared it");
  Object r = checked(PyObject_CallOneArg(hook.get(), data.get()));
  if (!is_tensor(r.get())) {
    type_error("Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
               Py_TYPE(r.get())->tp_name);
  }
  return Tensor::borrow(as_tensor(r.get()));
}

Tensor unpack_once(PyObject* o) {
  Object keep = Object::borrow(o);
  auto* p = reinterpret_cast<Packed*>(o);
  if (!p->unpacked) {
    Tensor t = call_unpack(p);
    check_tangents(p, t);
    if (!p->unpacked) p->unpacked = t.release();
    stack().unpacked.push_back(keep);
  }
  return Tensor::borrow(p->unpacked);
}

void forget() noexcept {
  std::vector<Object> done = std::exchange(stack().unpacked, {});
  for (Object& o : done) Py_CLEAR(reinterpret_cast<Packed*>(o.get())->unpacked);
}

void before_change(const Tensor& t) {
  Object watcher = stack().watcher, tensor = checked(to_python(t));
  if (watcher) checked(PyObject_CallOneArg(watcher.get(), tensor.get()));
}

PyObject* push(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO:_push_saved_tensors_hooks", &pack, &unpack)) return nullptr;
  return guard([&]() -> PyObject* {
    if (Object message = stack().disabled) {
      const char* text = PyUnicode_AsUTF8(message.get());
      if (!text) throw PythonError{};
      runtime_error(text);
    }
    stack().hooks.push_back({Object::borrow(pack), Object::borrow(unpack)});
    set_mode(kSavedHooks, true);
    Py_RETURN_NONE;
  });
}

PyObject* pop(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    if (stack().hooks.empty())
      runtime_error("saved_tensors_hooks left without having been entered");
    Hooks last = std::move(stack().hooks.back());  // freed after the stack is whole again
    stack().hooks.pop_back();
    set_mode(kSavedHooks, !stack().hooks.empty());
    Py_RETURN_NONE;
  });
}

PyObject* innermost(PyObject*, PyObject*) {
  const std::vector<Hooks>& hooks = stack().hooks;
  return Py_NewRef(hooks.empty() ? Py_None : hooks.back().pack.get());
}

PyObject* without(PyObject*, PyObject* f) {
  return guard([&]() -> PyObject* {
    struct Restore {
      std::vector<Hooks> hooks = stack().hooks;
      ~Restore() { set_hooks(std::move(hooks)); }
    } restore;
    set_hooks({});
    return PyObject_CallNoArgs(f);
  });
}

// disable(message or None): returns the message of before.
PyObject* disable(PyObject*, PyObject* message) {
  return guard([&]() -> PyObject* {
    if (message != Py_None && !PyUnicode_Check(message))
      type_error("disable_saved_tensors_hooks: the error message must be a str, not ",
                 Py_TYPE(message)->tp_name);
    if (message != Py_None && !stack().hooks.empty()) {
      const char* text = PyUnicode_AsUTF8(message);
      if (!text) throw PythonError{};
      runtime_error(text);
    }
    Object before = message == Py_None ? Object() : Object::borrow(message);
    std::swap(before, stack().disabled);
    if (!before) Py_RETURN_NONE;
    return before.release();
  });
}

PyObject* disabled_message(PyObject*, PyObject*) {
  PyObject* o = stack().disabled ? stack().disabled.get() : Py_None;
  Py_INCREF(o);
  return o;
}

PyObject* watch_changes(PyObject*, PyObject* callback) {
  Object next = callback == Py_None ? Object() : Object::borrow(callback);
  std::swap(next, stack().watcher);
  t_watch_changes = callback != Py_None;
  if (!next) Py_RETURN_NONE;
  return next.release();
}

// --- keeping tensors as a node does --------------------------------------------------------------
// _keep_tensors(tuple): a node that holds the tensors, packed and with their histories; it belongs
// to no graph. _kept_tensors(node) gives them back.
PyObject* keep_tensors(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) > UINT16_MAX)
      type_error("_keep_tensors(): expected a tuple of tensors");
    int n = static_cast<int>(PyTuple_GET_SIZE(o));
    Node* node = new_node("checkpoint", nullptr, n, n);
    Object owner = Object::steal(reinterpret_cast<PyObject*>(node));
    for (int i = 0; i < n; ++i) {
      PyObject* t = PyTuple_GET_ITEM(o, i);
      if (!is_tensor(t)) type_error("_keep_tensors(): expected a tuple of tensors");
      node->edges[i] = gradient_edge(as_tensor(t));
      node->saved[i] = pack(Value(Tensor::borrow(as_tensor(t))));
      note_saved(node, node->saved[i].value);
    }
    return to_python(node);
  });
}
PyObject* kept_tensors(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_node(o)) type_error("_kept_tensors(): expected a node");
    auto* n = reinterpret_cast<Node*>(o);
    UnpackScope scope;
    GradMode on(true);  // with their histories
    Object all = checked(PyTuple_New(n->saved_count));
    for (int i = 0; i < n->saved_count; ++i)
      PyTuple_SET_ITEM(all.get(), i, to_python(unpack(n, n->saved[i], n->edges[i])));
    return all.release();
  });
}

// --- SavedTensor ---------------------------------------------------------------------------------
// One value that a node keeps: an argument (index), or an output (index -1). `item` counts the
// tensors of a list; -1 where the value is a tensor.
struct SavedTensor {
  PyObject_HEAD Node* node;
  int index, item;
};

PyTypeObject saved_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

int traverse_saved(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<SavedTensor*>(o)->node);
  return 0;
}
int clear_saved(PyObject* o) {
  Py_CLEAR(reinterpret_cast<SavedTensor*>(o)->node);
  return 0;
}
void free_saved(PyObject* o) {
  PyObject_GC_UnTrack(o);
  clear_saved(o);
  PyObject_GC_Del(o);
}
PyObject* refuse_saved(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Trying to create a SavedTensor object from Python is forbidden.");
  return nullptr;
}

void register_on(const SavedTensor* self, const Hooks& hooks) {
  Node* n = self->node;
  Saved& place = self->index < 0 ? n->output : n->saved[self->index];
  if (place.value.is_none() && n->released) {
    runtime_error(
        "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate "
        "values of the graph are freed when you call .backward() or autograd.grad() (here: ",
        n->freed_by.describe(),
        "). Specify retain_graph=True if you need to backward through the graph a second time or "
        "if you need to access saved variables after calling backward.");
  }
  Saved one = self->item < 0 || place.value.is_none() ? place : saved_item(place, self->item);
  if (!one.value.is_tensor() && one.value.kind() != Value::Object) {
    runtime_error(
        "Calling register_hooks on a saved tensor with value None is forbidden: there is nothing "
        "to pack (node ",
        n->name, ").");
  }
  if (one.value.kind() == Value::Object) {
    runtime_error(
        "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only "
        "one pair of hooks is allowed at a time.");
  }
  Tensor t = unpack(n, one, {});
  uint32_t version = t.version();
  Value packed;
  {
    GradMode off(false);
    packed = pack_with(hooks, t);
  }
  if (t.version() != version) refuse_change_by_pack_hook(t);
  add_back_link(n);
  if (self->item < 0) {
    place = {packed, kPacked};
    return;
  }
  std::vector<Value> items;
  for (const Tensor& other : place.value.tensors()) items.push_back(Value(other));
  items[self->item] = packed;
  place = {Value(std::move(items)), kPacked};
}

PyObject* register_hooks(PyObject* o, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *pack = nullptr, *unpack = nullptr;
    bool two = PyArg_UnpackTuple(args, "register_hooks", 2, 2, &pack, &unpack);
    if (!two) PyErr_Clear();
    if (!two || !PyCallable_Check(pack) || !PyCallable_Check(unpack)) {
      type_error(
          "register_hooks(): incompatible function arguments. It takes two callables: "
          "register_hooks(pack_hook, unpack_hook)");
    }
    register_on(reinterpret_cast<SavedTensor*>(o), {Object::borrow(pack), Object::borrow(unpack)});
    Py_RETURN_NONE;
  });
}

PyMethodDef saved_methods[] = {
    {"register_hooks", register_hooks, METH_VARARGS,
     "register_hooks(pack_hook, unpack_hook): replaces the saved value by what pack_hook makes of "
     "it."},
    {nullptr}};

PyMethodDef functions[] = {
    {"_push_saved_tensors_hooks", push, METH_VARARGS, "Enters saved_tensors_hooks."},
    {"_innermost_pack_hook", innermost, METH_NOARGS, "What packs saved values here, or None."},
    {"_without_saved_hooks", without, METH_O, "Calls a function; nothing that it saves is packed."},
    {"_pop_saved_tensors_hooks", pop, METH_NOARGS, "Leaves saved_tensors_hooks."},
    {"_disable_saved_tensors_hooks", disable, METH_O,
     "Refuses hooks with this message; None allows them. Returns the message of before."},
    {"_saved_tensors_hooks_disabled", disabled_message, METH_NOARGS,
     "The message that hooks are refused with, or None."},
    {"_keep_tensors", keep_tensors, METH_O, "Keeps a tuple of tensors as a graph node does."},
    {"_kept_tensors", kept_tensors, METH_O, "The tensors that _keep_tensors kept."},
    {"_watch_changes", watch_changes, METH_O,
     "Calls a function with every tensor that an op is about to change in place; None stops."},
    {nullptr}};

void ready(PyTypeObject& t, const char* name, size_t size, destructor dealloc,
           traverseproc traverse, inquiry clear) {
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  t.tp_dealloc = dealloc;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  checked(PyType_Ready(&t));
}

}  // namespace

PyObject* raw_saved(Node* n, int index, int item) {
  auto* s = PyObject_GC_New(SavedTensor, &saved_type);
  if (!s) throw PythonError{};
  Py_INCREF(n);
  s->node = n;
  s->index = index;
  s->item = item;
  PyObject_GC_Track(s);
  return reinterpret_cast<PyObject*>(s);
}

PyObject* raw_saved_attribute(Node* n, const std::string& want) {
  auto of = [n](int index, const Saved& s) -> PyObject* {
    bool list = s.value.is_tensors() || (s.value.kind() == Value::List && is_packed(s));
    if (!list) return raw_saved(n, index);
    size_t count = s.value.is_tensors() ? s.value.tensors().size() : s.value.list().size();
    Object all = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t k = 0; k < count; ++k)
      PyTuple_SET_ITEM(all.get(), k, raw_saved(n, index, static_cast<int>(k)));
    return all.release();
  };
  if (want == "result") {
    bool several = n->output_count > 1;
    return several ? raw_saved(n, -1, 0) : raw_saved(n, -1);
  }
  for (size_t i = 0; i < n->op->schema.arguments.size(); ++i) {
    const std::string& name = n->op->schema.arguments[i].name;
    if ((want == name || (want == "self" && name == "input")) &&
        static_cast<int>(i) < n->saved_count && n->op->edge_of[i] >= 0)
      return of(static_cast<int>(i), n->saved[i]);
  }
  for (size_t k = 0; k < n->op->result_fields.size(); ++k) {
    if (want == n->op->result_fields[k]) return raw_saved(n, -1, static_cast<int>(k));
  }
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '_raw_saved_%s'", n->name,
               want.c_str());
  return nullptr;
}

void add_saved_hooks(PyObject* module) {
  carried_state().push_back(carried);
  saved_hooks = {pack_with_innermost, unpack_once, forget, before_change};
  ready(packed_type, "adjoint._core._PackedValue", sizeof(Packed), free_packed, traverse_packed,
        clear_packed);
  saved_type.tp_methods = saved_methods;
  saved_type.tp_new = refuse_saved;
  saved_type.tp_doc = "A value that a node keeps for backward.";
  ready(saved_type, "adjoint.autograd.SavedTensor", sizeof(SavedTensor), free_saved, traverse_saved,
        clear_saved);
  checked(PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(&saved_type)));
  add_functions(module, functions);
}

}  // namespace adjoint
