// A call of a compiled function, as most calls are: tensors alone are given, and a recording is there.
//
// `Compiled` (python/adjoint/compiler/_compile.py) is a subclass of the type here. Python sorts calls, records them and
// decides what a recording depends on; what it has found it tells this type (`_remember`), which then compares
// arguments and guards and runs the program without Python. Whatever is not as remembered is left to the method
// `_by_kind`, which is always right: an error in a replay too, where the replay has changed nothing.
#include <memory>
#include <span>

#include "bindings/program/program.h"
#include "dispatch/checkpoint_cache.h"
#include "program/replay/replay.h"

namespace adjoint {
namespace {

// What a remembered recording needs.
struct Way {
  uint32_t mode = 0;
  Object program, guards, recorded;
  Tensors reached;
  int64_t count = 0;    // outputs that are results
  Dims differentiable;  // which of them have a gradient
  bool pure = false;    // a replay does nothing but compute them
  Object
      form;  // None: the first output; tuple: all in order; else called with outputs and arguments
};
using Ways = std::vector<std::shared_ptr<const Way>>;

struct CallObject {
  PyObject_HEAD vectorcallfunc call;
  Ways* ways;
};
Ways& ways_of(PyObject* o) { return *reinterpret_cast<CallObject*>(o)->ways; }

Tensors given_tensors(std::span<PyObject* const> args) {
  Tensors given;
  given.reserve(args.size());
  for (PyObject* a : args) given.push_back(Tensor::borrow(as_tensor(a)));
  return given;
}

// The remembered recording that fits, if any.
std::shared_ptr<const Way> way_for(PyObject* self, const Tensors& given,
                                   std::span<PyObject* const> args) {
  uint32_t mode = call_mode();
  const Ways& ways = ways_of(self);
  for (size_t k = 0; k < ways.size(); ++k) {
    if (ways[k]->mode != mode) continue;
    std::shared_ptr<const Way> way = ways[k];  // guards may call Python, which may forget it
    if (!accepts(program_in(way->program.get()), given, nullptr)) continue;
    if (guards_hold(way->guards.get(), args)) return way;
  }
  return {};
}

PyObject* result_of(const Way& way, Tensors found, std::span<PyObject* const> args) {
  if (way.form.get() == Py_None) return to_python(found[0]);
  if (way.form.get() == reinterpret_cast<PyObject*>(&PyTuple_Type)) {
    Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(way.count)));
    for (Py_ssize_t k = 0; k < static_cast<Py_ssize_t>(way.count); ++k)
      PyTuple_SET_ITEM(tuple.get(), k, to_python(found[static_cast<size_t>(k)]));
    return tuple.release();
  }
  Object outputs = checked(list_of(found)), given = checked(PyList_New(0));
  for (PyObject* a : args) checked(PyList_Append(given.get(), a));
  return PyObject_CallFunctionObjArgs(way.form.get(), outputs.get(), given.get(), nullptr);
}

PyObject* run_way(const Way& way, const Tensors& given, std::span<PyObject* const> args) {
  const Program& p = program_in(way.program.get());
  bool node = !way.differentiable.empty() && grad_enabled();
  Tensors found = node ? replay_as_node(way.recorded.get(), p, given, way.reached,
                                        static_cast<size_t>(way.count), way.differentiable)
                       : run(p, given, {});
  return result_of(way, std::move(found), args);
}

PyObject* by_kind(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
  static PyObject* name = PyUnicode_InternFromString("_by_kind");
  Object method = checked(PyObject_GetAttr(self, name));
  return PyObject_Vectorcall(method.get(), args, n, names);
}

bool only_tensors(std::span<PyObject* const> args) {
  for (PyObject* a : args) {
    if (Py_TYPE(a) != tensor_type) return false;
  }
  return true;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargs, PyObject* names) {
  return guard([&]() -> PyObject* {
    std::span<PyObject* const> given_args(args, static_cast<size_t>(PyVectorcall_NARGS(nargs)));
    bool usual = !names && !ways_of(self).empty() && !is_unusual_mode() && only_tensors(given_args);
    if (!usual) return by_kind(self, args, given_args.size(), names);
    Tensors given = given_tensors(given_args);
    std::shared_ptr<const Way> way = way_for(self, given, given_args);
    if (!way) return by_kind(self, args, given_args.size(), names);
    try {
      return run_way(*way, given, given_args);
    } catch (...) {
      set_python_error();
    }
    // The other way meets the error again, and tells it with lines of the function.
    if (!way->pure || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
    return by_kind(self, args, given_args.size(), names);
  });
}

// --- the type ------------------------------------------------------------------------------------
// _remember(mode, recorded, program, guards, reached, count, differentiable, pure, form)
PyObject* remember(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 9) type_error("_remember() takes 9 arguments");
    auto way = std::make_shared<Way>();
    int64_t mode;
    if (!parse_int(args[0], &mode) || !parse_int(args[5], &way->count) ||
        !parse_ints(args[6], &way->differentiable, PY_SSIZE_T_MAX))
      type_error("_remember(): a mode, a number of results and their places are expected");
    way->mode = static_cast<uint32_t>(mode);
    way->recorded = Object::borrow(args[1]);
    way->program = Object::borrow(args[2]);
    way->guards = Object::borrow(args[3]);
    way->reached = tensors_of(args[4], "_remember(): reached");
    way->pure = args[7] == Py_True;
    way->form = Object::borrow(args[8]);
    const Program& p = program_in(args[2]);
    check_guards(args[3]);
    bool known = args[8] == Py_None || args[8] == reinterpret_cast<PyObject*>(&PyTuple_Type);
    auto outputs = static_cast<int64_t>(p.outputs.size());
    if (way->count < (args[8] == Py_None ? 1 : 0) || way->count > outputs ||
        (!known && !PyCallable_Check(args[8])))
      value_error("_remember(): the program has ", outputs, " outputs, not ", way->count);
    check_places(way->differentiable, static_cast<size_t>(way->count), "_remember()");
    ways_of(self).push_back(std::move(way));
    Py_RETURN_NONE;
  });
}
PyObject* forget(PyObject* self, PyObject*) {
  Ways gone = std::exchange(ways_of(self), {});  // what goes with it may call Python
  Py_RETURN_NONE;
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    auto ways = std::make_unique<Ways>();
    Object o = checked(type->tp_alloc(type, 0));
    auto* c = reinterpret_cast<CallObject*>(o.get());
    c->call = call;
    c->ways = ways.release();
    return o.release();
  });
}
int traverse(PyObject* o, visitproc visit, void* arg) {
  Ways* ways = reinterpret_cast<CallObject*>(o)->ways;
  for (size_t k = 0; ways && k < ways->size(); ++k) {
    const Way& way = *(*ways)[k];
    Py_VISIT(way.program.get());
    Py_VISIT(way.guards.get());
    Py_VISIT(way.recorded.get());
    Py_VISIT(way.form.get());
    for (const Tensor& t : way.reached) Py_VISIT(reinterpret_cast<PyObject*>(t.get()));
  }
  return 0;
}
int clear(PyObject* o) {
  if (Ways* ways = reinterpret_cast<CallObject*>(o)->ways) Ways gone = std::exchange(*ways, {});
  return 0;
}
void dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  delete std::exchange(reinterpret_cast<CallObject*>(o)->ways, nullptr);
  Py_TYPE(o)->tp_free(o);
}

PyMethodDef methods[] = {
    {"_remember", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(remember)),
     METH_FASTCALL,
     "_remember(mode, recorded, program, guards, reached, count, differentiable, pure, form): "
     "calls "
     "with tensors alone that it fits take it from now on."},
    {"_forget_ways", forget, METH_NOARGS, "All calls are sorted by Python again."},
    {nullptr}};

PyTypeObject call_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

void add_compiled_call(PyObject* module) {
  call_type.tp_name = "adjoint._core._CompiledCall";
  call_type.tp_basicsize = sizeof(CallObject);
  call_type.tp_flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL;
  call_type.tp_doc = "A function that is run by programs: see adjoint.compiler.Compiled.";
  call_type.tp_vectorcall_offset = offsetof(CallObject, call);
  call_type.tp_call = PyVectorcall_Call;
  call_type.tp_new = make;
  call_type.tp_dealloc = dealloc;
  call_type.tp_traverse = traverse;
  call_type.tp_clear = clear;
  call_type.tp_methods = methods;
  checked(PyType_Ready(&call_type));
  checked(PyModule_AddObjectRef(module, "_CompiledCall", reinterpret_cast<PyObject*>(&call_type)));
}

}  // namespace adjoint
