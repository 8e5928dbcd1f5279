// The cache of selective checkpoints as a Python object. Read dispatch/checkpoint_cache.h first.
#include "dispatch/checkpoint_cache.h"

#include "bindings/python.h"

namespace adjoint {
namespace {

struct CacheObject {
  PyObject_HEAD CheckpointCache* cache;
};
PyTypeObject cache_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* new_cache(PyTypeObject* type, PyObject* args, PyObject*) {
  int allow = 0;
  if (!PyArg_ParseTuple(args, "|p:_CheckpointCache", &allow)) return nullptr;
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) return nullptr;
  auto* cache = new CheckpointCache;
  cache->allow_changes = allow;
  reinterpret_cast<CacheObject*>(o)->cache = cache;
  return o;
}
void free_cache(PyObject* o) {
  delete reinterpret_cast<CacheObject*>(o)->cache;
  Py_TYPE(o)->tp_free(o);
}

// What is set in this thread: the tuple (cache, replay, wants) of Python and its native form. Not
// freed at the end of a thread, when the GIL may be out of reach.
struct Current {
  Object tuple;
  CheckpointCacheUse use;
};
Current& current() {
  static thread_local auto* c = new Current;
  return *c;
}

bool ask_policy(Call& c) {
  Object tuple = current().tuple;
  int n = c.op.argument_count;
  Object args = checked(PyTuple_New(n));
  for (int i = 0; i < n; ++i)
    PyTuple_SET_ITEM(args.get(), i, checked(to_python(c.args[i])).release());
  Object name = checked(PyUnicode_FromString(c.op.name.c_str()));
  Object answer = checked(PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(tuple.get(), 2), name.get(),
                                                       args.get(), nullptr));
  int yes = PyObject_IsTrue(answer.get());
  checked(yes);
  return yes;
}

// _set_checkpoint_cache((cache, replay, wants) or None): returns what was set before.
PyObject* set_cache(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Object next;
    CheckpointCacheUse use{};
    if (o != Py_None) {
      if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 3 ||
          !PyObject_TypeCheck(PyTuple_GET_ITEM(o, 0), &cache_type)) {
        type_error("_set_checkpoint_cache(): expected (cache, replay, wants) or None");
      }
      next = Object::borrow(o);
      use = {reinterpret_cast<CacheObject*>(PyTuple_GET_ITEM(o, 0))->cache,
             PyTuple_GET_ITEM(o, 1) == Py_True, ask_policy};
    }
    Current& c = current();
    std::swap(next, c.tuple);
    c.use = use;
    t_checkpoint_cache = c.tuple ? &c.use : nullptr;
    if (!next) Py_RETURN_NONE;
    return next.release();
  });
}

PyMethodDef functions[] = {
    {"_set_checkpoint_cache", set_cache, METH_O,
     "Lets the ops of this thread go through a cache; returns what was set before."},
    {nullptr}};

}  // namespace

void add_checkpoint_cache(PyObject* module) {
  PyTypeObject& t = cache_type;
  t.tp_name = "adjoint._core._CheckpointCache";
  t.tp_basicsize = sizeof(CacheObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_new = new_cache;
  t.tp_dealloc = free_cache;
  t.tp_doc = "Results of ops that a selective checkpoint keeps.";
  checked(PyType_Ready(&t));
  checked(PyModule_AddObjectRef(module, "_CheckpointCache", reinterpret_cast<PyObject*>(&t)));
  add_functions(module, functions);
}

}  // namespace adjoint
