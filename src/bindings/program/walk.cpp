// What the interpreter tells while a function is recorded: which code objects start, and which C
// functions they call. Each is told to Python once; python/adjoint/compiler/_walk.py decides what
// it means, and should be read first.
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "python/frames.h"

namespace adjoint {
namespace {

// A C function by what it runs and on what: an object counts by its class, a module or a class by
// itself.
struct Callee {
  const void *what, *of;
  bool operator==(const Callee&) const = default;
};
struct CalleeHash {
  size_t operator()(const Callee& c) const {
    return std::hash<const void*>()(c.what) * 31 + std::hash<const void*>()(c.of);
  }
};

struct Walk {
  Object started, called;                     // callables of Python
  std::unordered_map<PyObject*, bool> codes;  // that have started, and whether calls are judged
  std::vector<Object> kept;                   // whose addresses stand in the tables
  std::unordered_set<Callee, CalleeHash> judged;
  PyFrameObject* muting = nullptr;  // until it returns nothing is told
  bool paused = false;
  Py_tracefunc before = nullptr;  // the profile function that was set
  Object before_object;
};
thread_local Walk* t_walk = nullptr;

// A frame starts: Python says what to do with its code (in the order of `How` in
// _walk.py).
enum How { kIgnored, kFollowed, kMuting, kAskAgain };

void start(Walk& w, PyFrameObject* frame) {
  Object code = Object::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  if (w.codes.contains(code.get())) return;
  auto* f = reinterpret_cast<PyObject*>(frame);
  Object how = checked(PyObject_CallFunctionObjArgs(w.started.get(), code.get(), f, nullptr));
  long what = PyLong_AsLong(how.get());
  if (what == kMuting) {
    w.muting = frame;  // each time
    return;
  }
  if (what == kAskAgain) return;
  w.codes.emplace(code.get(), what == kFollowed);
  w.kept.push_back(std::move(code));
}

Callee callee_of(PyObject* function) {
  if (!PyCFunction_Check(function)) return {function, nullptr};
  auto* f = reinterpret_cast<PyCFunctionObject*>(function);
  PyObject* self = f->m_self;
  bool itself = !self || PyModule_Check(self) || PyType_Check(self);
  return {f->m_ml, itself ? self : reinterpret_cast<PyObject*>(Py_TYPE(self))};
}

void call(Walk& w, PyFrameObject* frame, PyObject* function) {
  Callee c = callee_of(function);
  if (w.judged.contains(c)) return;
  Object code = Object::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  auto found = w.codes.find(code.get());
  if (found == w.codes.end() || !found->second) return;
  auto* f = reinterpret_cast<PyObject*>(frame);
  checked(PyObject_CallFunctionObjArgs(w.called.get(), function, f, nullptr));
  w.judged.insert(c);
  w.kept.push_back(Object::borrow(function));
}

int event(PyObject*, PyFrameObject* frame, int what, PyObject* about) {
  Walk* w = t_walk;
  if (!w || w->paused) return 0;
  if (w->muting) {
    if (what == PyTrace_RETURN && frame == w->muting) w->muting = nullptr;
    return 0;
  }
  if (what != PyTrace_CALL && what != PyTrace_C_CALL) return 0;
  // What a host call runs (an external) is run again by a replay.
  if (t_recorder && !mode_on(kCaptured)) return 0;
  return guard_int([&] {
    what == PyTrace_CALL ? start(*w, frame) : call(*w, frame, about);
    return 0;
  });
}

// _walk_start(started, called)
PyObject* walk_start(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *started, *called;
    if (!PyArg_ParseTuple(args, "OO:_walk_start", &started, &called)) throw PythonError{};
    if (t_walk) runtime_error("_walk_start(): a function is being recorded already");
    auto w = std::make_unique<Walk>();
    w->started = Object::borrow(started);
    w->called = Object::borrow(called);
    PyThreadState* thread = PyThreadState_Get();
    w->before = thread->c_profilefunc;
    w->before_object = Object::borrow(thread->c_profileobj);
    t_walk = w.release();
    PyEval_SetProfile(event, nullptr);
    Py_RETURN_NONE;
  });
}

// _walk_stop() -> whether everything was told until now
PyObject* walk_stop(PyObject*, PyObject*) {
  std::unique_ptr<Walk> w(std::exchange(t_walk, nullptr));
  if (!w) Py_RETURN_FALSE;
  bool whole = PyThreadState_Get()->c_profilefunc == event;
  PyEval_SetProfile(w->before, w->before_object.get());
  return PyBool_FromLong(whole);
}

PyObject* walk_pause(PyObject*, PyObject* flag) {
  bool before = t_walk && std::exchange(t_walk->paused, flag == Py_True);
  return PyBool_FromLong(before);
}

// Code that has started is told of again when it starts the next time.
PyObject* walk_anew(PyObject*, PyObject*) {
  if (t_walk) t_walk->codes.clear();
  Py_RETURN_NONE;
}

PyObject* frame_function(PyObject*, PyObject* frame) {
  return guard([&]() -> PyObject* {
    if (!PyFrame_Check(frame)) type_error("_frame_function(): a frame is expected");
    PyObject* f = frames::function(reinterpret_cast<PyFrameObject*>(frame));
    return Py_NewRef(f ? f : Py_None);
  });
}

// The dict of an object, whatever its class says about `__dict__`; None if it has none.
PyObject* dict_of(PyObject*, PyObject* o) {
  PyObject** at = _PyObject_GetDictPtr(o);
  if (!at) Py_RETURN_NONE;
  if (!*at) return PyObject_GenericGetDict(o, nullptr);
  return Py_NewRef(*at);
}

PyMethodDef functions[] = {
    {"_walk_start", walk_start, METH_VARARGS,
     "_walk_start(started, called): tells which code starts and which C functions it calls."},
    {"_walk_stop", walk_stop, METH_NOARGS, "Ends that; whether it lasted until now."},
    {"_walk_pause", walk_pause, METH_O, "Tells nothing for a while; whether it did before."},
    {"_walk_anew", walk_anew, METH_NOARGS, "Tells of code again that has started before."},
    {"_frame_function", frame_function, METH_O, "The function that a frame runs."},
    {"_dict_of", dict_of, METH_O, "The attributes of an object, without asking it."},
    {nullptr}};

}  // namespace

void add_walk(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
