// adjoint.Generator and the default generator.
#include "random/generator.h"

#include <memory>
#include <unordered_map>

#include "bindings/signatures.h"
#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "graph/change_log.h"
#include "kernels/convert.h"
#include "ops/creation/options.h"

namespace adjoint {
namespace {

struct GeneratorObject {
  PyObject_HEAD random::Generator* generator;  // null: the default one of the thread that asks
};

PyTypeObject g_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

random::Generator& self_of(PyObject* o) {
  random::Generator* found = reinterpret_cast<GeneratorObject*>(o)->generator;
  return found ? *found : random::default_generator();
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:Generator", const_cast<char**>(names),
                                   &device))
    return nullptr;
  return guard([&]() -> PyObject* {
    refuse_recording("a generator is made; fix: make it outside the function");
    if (device != Py_None) check_placement(Value(), Value::object(device), Value());
    Object o = checked(type->tp_alloc(type, 0));
    auto* self = reinterpret_cast<GeneratorObject*>(o.get());
    self->generator = std::make_unique<random::Generator>().release();
    return o.release();
  });
}

void dealloc(PyObject* o) {
  delete reinterpret_cast<GeneratorObject*>(o)->generator;
  Py_TYPE(o)->tp_free(o);
}

// A program draws as eager execution does, from the same generators; where those are is theirs.
constexpr char kSeeding[] = "a generator is seeded, or given a state; fix: do that before the call";

// Any int from -2^63 to 2^64 - 1; negative ones count from 2^64, as in PyTorch.
PyObject* manual_seed(PyObject* o, PyObject* seed) {
  return guard([&]() -> PyObject* {
    Object i = checked(PyNumber_Index(seed));
    uint64_t bits;
    int overflow = 0;
    long long small = PyLong_AsLongLongAndOverflow(i.get(), &overflow);
    if (overflow == 0) {
      bits = static_cast<uint64_t>(small);
    } else {
      bits = overflow > 0 ? PyLong_AsUnsignedLongLong(i.get()) : 0;
      if (overflow < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        value_error("Overflow when unpacking long long: a seed is an int from -2^63 to 2^64 - 1");
      }
    }
    refuse_recording(kSeeding);
    random::Generator& g = self_of(o);
    std::lock_guard lock(g.mutex);
    g.manual_seed(bits);
    Py_INCREF(o);
    return o;
  });
}

PyObject* seed(PyObject* o, PyObject*) {
  refuse_recording(kSeeding);
  random::Generator& g = self_of(o);
  std::lock_guard lock(g.mutex);
  return PyLong_FromUnsignedLongLong(g.seed());
}
PyObject* initial_seed(PyObject* o, PyObject*) {
  refuse_recording("the seed of a generator is read");
  random::Generator& g = self_of(o);
  std::lock_guard lock(g.mutex);
  return PyLong_FromUnsignedLongLong(g.initial_seed());
}

PyObject* get_state(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    refuse_recording("the state of a generator is read; fix: do that before the call");
    random::Generator& g = self_of(o);
    Tensor t = empty(Dims{static_cast<int64_t>(random::kStateBytes)}, DType::UInt8);
    std::vector<uint8_t> blob = g.get_state();
    std::memcpy(t->data, blob.data(), blob.size());
    return to_python(t);
  });
}

PyObject* set_state(PyObject* o, PyObject* state) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(state))
      type_error("RNG state must be a torch.ByteTensor, but got ", Py_TYPE(state)->tp_name);
    Tensor t = Tensor::borrow(as_tensor(state));
    if (t.dtype() != DType::UInt8)
      type_error("RNG state must be a torch.ByteTensor, but got a tensor of dtype ", t.dtype());
    refuse_recording(kSeeding);
    t = contiguous(t);
    random::Generator& g = self_of(o);
    try {
      g.set_state(t.data<uint8_t>(), static_cast<size_t>(t.numel()));
    } catch (const std::runtime_error& e) {
      runtime_error(e.what());
    }
    Py_INCREF(o);
    return o;
  });
}

// The state in a pickle: of adjoint's the stream alone, of PyTorch's (seed, offset, stream).
PyObject* set_pickled_state(PyObject* o, PyObject* state) {
  if (!PyTuple_Check(state) || PyTuple_GET_SIZE(state) == 0) return set_state(o, state);
  return set_state(o, PyTuple_GET_ITEM(state, PyTuple_GET_SIZE(state) - 1));
}

PyObject* clone_state(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Object copy = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(Py_TYPE(o))));
    random::Generator& g = self_of(o);
    self_of(copy.get()).copy_state(g);
    return copy.release();
  });
}

PyObject* reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Object state = checked(get_state(o, nullptr));
    return Py_BuildValue("O()O", Py_TYPE(o), state.get());
  });
}

PyObject* get_device(PyObject*, void*) {
  Object module = Object::steal(PyImport_ImportModule("adjoint._tensor.device"));
  return module ? PyObject_CallMethod(module.get(), "device", "s", "cpu") : nullptr;
}

PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed): restarts the stream; returns self."},
    {"seed", seed, METH_NOARGS, "Restarts the stream from the system's entropy; returns the seed."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed the stream was last started from."},
    {"get_state", get_state, METH_NOARGS, "The position in the stream, a uint8 tensor."},
    {"set_state", set_state, METH_O, "set_state(state): goes to a position in a stream."},
    {"clone_state", clone_state, METH_NOARGS, "A new generator at the same position."},
    {"__setstate__", set_pickled_state, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr}};
PyGetSetDef attributes[] = {{"device", get_device, nullptr, "The CPU.", nullptr}, {nullptr}};

PyObject* g_default = nullptr;

// _draw_from(generator): lets this thread draw from it where no generator is named; with None, from
// the process's. The caller keeps it alive (adjoint/random.py).
PyObject* draw_from(PyObject*, PyObject* given) {
  return guard([&]() -> PyObject* {
    if (given == Py_None) {
      random::set_thread_generator(nullptr);
    } else {
      if (!PyObject_TypeCheck(given, &g_type) || given == g_default)
        type_error("_draw_from takes a Generator of one's own, or None");
      random::set_thread_generator(&self_of(given));
    }
    Py_RETURN_NONE;
  });
}

// By thread: what is called before it draws from a generator that is named. No variable of the thread, for which
// there is little room; the interpreter's lock is held wherever it is read.
std::unordered_map<unsigned long, Object>& generator_watches() {
  static auto* found = new std::unordered_map<unsigned long, Object>;
  return *found;
}

// _watch_generators(callback): before this thread draws from a generator that is named, callback(generator);
// with None, no longer. Returns what it was before.
PyObject* watch_generators(PyObject*, PyObject* callback) {
  return guard([&]() -> PyObject* {
    auto& watches = generator_watches();
    unsigned long thread = PyThread_get_thread_ident();
    Object before = Object::borrow(Py_None);
    if (auto at = watches.find(thread); at != watches.end()) {
      before = std::move(at->second);
      watches.erase(at);
    }
    if (callback != Py_None) watches.emplace(thread, Object::borrow(callback));
    return before.release();
  });
}

void tell_watch(PyObject* generator) {
  auto& watches = generator_watches();
  if (watches.empty()) [[likely]]
    return;
  if (auto at = watches.find(PyThread_get_thread_ident()); at != watches.end()) {
    Object call = Object::borrow(at->second.get());
    checked(PyObject_CallOneArg(call.get(), generator));
  }
}

PyMethodDef functions[] = {
    {"_draw_from", draw_from, METH_O, nullptr},
    {"_watch_generators", watch_generators, METH_O,
     "_watch_generators(callback): before a generator that is named is drawn "
     "from, callback(generator)."},
    {nullptr}};

}  // namespace

random::Generator& generator_of(const Value& v) {
  if (t_change_log) [[unlikely]]
    t_change_log->draws = true;
  if (v.is_none()) return random::default_generator();
  if (v.kind() == Value::Object && PyObject_TypeCheck(v.python(), &g_type)) {
    if (v.python() != g_default) tell_watch(v.python());
    return self_of(v.python());
  }
  type_error("argument 'generator' must be an adjoint.Generator, not ",
             v.kind() == Value::Object ? Py_TYPE(v.python())->tp_name : "that");
}

void add_random(PyObject* module) {
  PyTypeObject& t = g_type;
  t.tp_name = "adjoint.Generator";
  t.tp_basicsize = sizeof(GeneratorObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_new = make;
  t.tp_dealloc = dealloc;
  add_signatures(methods, true);
  t.tp_methods = methods;
  t.tp_getset = attributes;
  t.tp_doc = "Generator(device='cpu'): a stream of random numbers of its own.";
  checked(PyType_Ready(&t));
  checked(PyModule_AddObjectRef(module, "Generator", reinterpret_cast<PyObject*>(&t)));
  Object o = checked(t.tp_alloc(&t, 0));
  g_default = o.release();
  checked(PyModule_AddObjectRef(module, "default_generator", g_default));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace adjoint
