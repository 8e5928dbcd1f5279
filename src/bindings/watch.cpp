// The watch over a recorded run: before each instruction of the user's functions that reads, stores
// or calls something, a step is taken (python/adjoint/compiler/_steps.py, _calls.py). Most
// instructions of a loop do again what they did before, or handle objects that the run has made
// itself: those end here. Read python/adjoint/compiler/_watch.py first.
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "../ops/recorder.h"
#include "frames.h"
#include "python.h"

namespace adjoint {
namespace {

// In the order of KINDS in python/adjoint/compiler/_instructions.py.
enum Kind {
  kOther,
  kAttributeRead,
  kAttributeStored,
  kGlobalRead,
  kCellRead,
  kItemRead,
  kItemStored,
  kChangedInPlace,
  kIterated,
  kCalled,
  kResulted
};

struct Step {
  Kind kind = kOther;
  int number = 0;      // of a variable, or of arguments
  int above = 0;       // operands above the arguments
  int depth = 0;       // of the stack
  bool whole = false;  // whether Python is to see every call
  Object method, argument;
  Object last;  // the object of the last time
};

// What may run after an instruction; see python/adjoint/compiler/_flow.py.
struct Follows {
  int of = -1;           // the instruction itself, for a prefix of it
  int next = -1;         // the one behind it
  int jump = -1;         // the one it jumps to
  bool handler = false;  // it may run after any other
  bool again = false;    // it raises what another one has raised
};

struct Code {
  Object code;
  enum { kUnseen, kEntered, kMuting, kFollowed } how = kUnseen;
  std::vector<std::pair<int, int>> at;  // by instruction: its first step, and how many
  std::vector<Step> steps;
  std::vector<Follows> follows;  // by instruction; empty if that is not asked for
  Object function;               // the last one that was entered
};

// The last instruction that was seen of a frame.
struct Seen {
  PyObject* code;
  int at;
};

struct Pair {
  PyObject *function, *type;
  bool operator==(const Pair&) const = default;
};
struct PairHash {
  size_t operator()(const Pair& p) const {
    return std::hash<void*>()(p.function) * 31 + std::hash<void*>()(p.type);
  }
};

struct Watch {
  Object describe, entered, failed;  // callables of Python
  PyTypeObject *parameter, *array;   // the latter null while there is no NumPy
  std::unordered_map<PyObject*, Code> codes;
  Code* recent = nullptr;
  std::unordered_set<PyObject*> made;  // addresses of objects of the run; see _findings.py
  std::unordered_set<Pair, PairHash> harmless;
  PyTypeObject* making = nullptr;  // a class that is just being called
  PyFrameObject* muting = nullptr;
  PyFrameObject* frame = nullptr;  // whose step is being taken
  frames::Stack stack;             // and what it is about to use
  std::unordered_map<PyFrameObject*, Seen> seen;
  bool paused = false;
  bool lost = false;  // instructions have run unseen
};
thread_local Watch* t_watch = nullptr;

// --- what needs no step --------------------------------------------------------------------------
bool is_plain(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  return t == &PyFloat_Type || t == &PyLong_Type || t == &PyTuple_Type || t == &PyUnicode_Type ||
         t == &PyBool_Type || o == Py_None || t == &PyList_Type || t == &PyDict_Type ||
         t == &PySet_Type || t == &PyRange_Type || t == &PySlice_Type || t == &PyBytes_Type ||
         t == &PyComplex_Type;
}
bool is_made(const Watch& w, PyObject* o) { return w.made.contains(o); }
bool is_bare_tensor(const Watch& w, PyObject* o) {
  return (Py_TYPE(o) == tensor_type || Py_TYPE(o) == w.parameter) && !as_tensor(o)->dict;
}
// Whether nothing is read of an argument that no one has looked at.
bool is_read(const Watch& w, PyObject* o) {
  return !o || is_plain(o) || is_made(w, o) || is_bare_tensor(w, o);
}
bool is_changeable(const Watch& w, PyObject* o) {
  return PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || PyByteArray_Check(o) ||
         PyFunction_Check(o) || (w.array && PyObject_TypeCheck(o, w.array)) ||
         !std::strcmp(Py_TYPE(o)->tp_name, "collections.deque");
}

bool call_is_harmless(Watch& w, const Step& s) {
  w.making = nullptr;
  frames::Callee c = frames::callee(w.stack, s.number, s.above);
  if (!c.function || s.whole) return false;
  if (PyFunction_Check(c.function)) {
    auto found = w.codes.find(PyFunction_GET_CODE(c.function));
    if (found != w.codes.end() && found->second.how == Code::kFollowed) return true;
  }
  if (PyType_Check(c.function)) {
    auto* type = reinterpret_cast<PyTypeObject*>(c.function);
    w.making = type->tp_new == PyBaseObject_Type.tp_new ? type : nullptr;
  }
  PyObject* type = c.object ? reinterpret_cast<PyObject*>(Py_TYPE(c.object)) : nullptr;
  bool own = c.object && is_plain(c.object) && is_made(w, c.object);  // parts.append(x)
  if (!own && !w.harmless.contains({c.function, type})) return false;
  for (int k = 0; k < s.number; ++k)
    if (!is_read(w, w.stack.operand(s.above + k))) return false;
  return true;
}

// A container that only the stack holds is one of the run, whoever made it. Of an array that says
// nothing: it may be a view.
bool is_new_result(Watch& w, PyObject* o) {
  if (!o || !is_changeable(w, o)) return true;
  if (Py_REFCNT(o) == 1) {
    if (!w.array || !PyObject_TypeCheck(o, w.array)) w.made.insert(o);
    return true;
  }
  return is_made(w, o);
}

bool needs_no_step(Watch& w, const Step& s, PyFrameObject* frame) {
  PyObject* top = w.stack.operand(0);
  switch (s.kind) {
    case kAttributeRead:
      return !top || top == s.last.get() || is_read(w, top);
    case kAttributeStored:
      return !top || is_made(w, top);
    case kGlobalRead:
      return frames::inner(frame).globals == s.last.get();
    case kCellRead:
      return frames::variable(frame, s.number) == s.last.get();
    case kItemRead:
    case kItemStored:
    case kChangedInPlace: {
      PyObject* o = w.stack.operand(1);
      return !o || is_tensor(o) || is_made(w, o) ||
             (is_plain(o) && !PyList_Check(o) && !PyDict_Check(o) && !PySet_Check(o));
    }
    case kIterated:
      return !top || is_plain(top);
    case kCalled:
      return call_is_harmless(w, s);
    case kResulted:
      return is_new_result(w, top);
    default:
      return false;
  }
}

// --- events --------------------------------------------------------------------------------------
// A mistake in a step is a reason to refuse the recording, not an error of the user's program.
void settle_error(Watch& w, PyObject* frame) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError{};
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Object t = Object::steal(type), v = Object::steal(value), tb = Object::steal(traceback);
  checked(PyObject_CallFunctionObjArgs(w.failed.get(), frame, v.get(), nullptr));
}

void call_step(Watch& w, PyObject* method, PyFrameObject* frame, PyObject* argument) {
  auto* f = reinterpret_cast<PyObject*>(frame);
  if (!Object::steal(PyObject_CallFunctionObjArgs(method, f, argument, nullptr)))
    settle_error(w, f);
}

// Steps that need not be taken again for the same object remember it.
PyObject* subject(const Watch& w, const Step& s, PyFrameObject* frame) {
  if (s.kind == kAttributeRead) return w.stack.operand(0);
  if (s.kind == kGlobalRead) return frames::inner(frame).globals;
  return s.kind == kCellRead ? frames::variable(frame, s.number) : nullptr;
}

void read_steps(Code& c, PyObject* list) {
  Object items = checked(PySequence_Fast(list, "a list of steps was expected"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.get()); ++k) {
    int offset, kind, whole;
    Step s;
    PyObject *method, *argument;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), k), "iiiipiOO", &offset, &kind,
                          &s.number, &s.above, &whole, &s.depth, &method, &argument))
      throw PythonError{};
    s.kind = static_cast<Kind>(kind);
    s.whole = whole;
    s.method = Object::borrow(method);
    s.argument = Object::borrow(argument);
    size_t at = static_cast<size_t>(offset) / 2;
    if (c.at.size() <= at) c.at.resize(at + 1);
    if (!c.at[at].second) c.at[at].first = static_cast<int>(c.steps.size());
    ++c.at[at].second;
    c.steps.push_back(std::move(s));
  }
}

void read_flow(Code& c, PyObject* list) {
  Object items = checked(PySequence_Fast(list, "a list of instructions was expected"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.get()); ++k) {
    int offset, of, next, jump, handler, again;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), k), "iiiipp", &offset, &of, &next,
                          &jump, &handler, &again))
      throw PythonError{};
    auto at = [](int o) { return o < 0 ? -1 : o / 2; };
    if (offset < 0) value_error("_watch_start(): an instruction at offset ", offset);
    if (c.follows.size() <= static_cast<size_t>(at(offset))) c.follows.resize(at(offset) + 1);
    c.follows[at(offset)] = {at(of), at(next), at(jump), handler != 0, again != 0};
  }
  // A frame that waits for a call is in the cache behind that instruction (Python 3.12).
  for (size_t k = 1; k < c.follows.size(); ++k)
    if (c.follows[k].of < 0) c.follows[k] = c.follows[k - 1];
}

// Code that cannot be described is not followed, and the recording refused.
Code& described(Watch& w, PyFrameObject* frame, PyObject* code) {
  if (w.recent && w.recent->code.get() == code) return *w.recent;
  auto found = w.codes.find(code);
  if (found == w.codes.end()) {
    Code c;
    c.code = Object::borrow(code);
    Object what = Object::steal(PyObject_CallOneArg(w.describe.get(), code));
    if (!what) {
      settle_error(w, reinterpret_cast<PyObject*>(frame));
    } else if (PyList_Check(what.get())) {
      read_steps(c, what.get());
      c.how = Code::kFollowed;
    } else if (PyTuple_Check(what.get()) && PyTuple_GET_SIZE(what.get()) == 2) {
      read_steps(c, PyTuple_GET_ITEM(what.get(), 0));
      read_flow(c, PyTuple_GET_ITEM(what.get(), 1));
      c.how = Code::kFollowed;
    } else if (PyLong_Check(what.get())) {
      c.how = PyLong_AsLong(what.get()) == 1 ? Code::kEntered : Code::kMuting;
    }
    found = w.codes.emplace(code, std::move(c)).first;
  }
  return *(w.recent = &found->second);
}

void note_made(Watch& w, PyFrameObject* frame, PyCodeObject* code) {
  PyTypeObject* making = std::exchange(w.making, nullptr);
  if (!making || code->co_argcount < 1 ||
      PyUnicode_CompareWithASCIIString(code->co_name, "__init__"))
    return;
  PyObject* self = frames::variable(frame, 0);
  if (self && Py_TYPE(self) == making) w.made.insert(self);
}

PyObject* ignore(PyObject*, PyObject*) { Py_RETURN_NONE; }
[[maybe_unused]] PyMethodDef ignore_definition = {"ignore", ignore, METH_VARARGS,
                                                  "A trace function."};

// Asks to be told of each instruction of a frame, and not of its lines.
void follow(PyFrameObject* frame) {
  auto* f = reinterpret_cast<PyObject*>(frame);
  checked(PyObject_SetAttrString(f, "f_trace_opcodes", Py_True));
  checked(PyObject_SetAttrString(f, "f_trace_lines", Py_False));
#if PY_VERSION_HEX >= 0x030D0000
  // Such a frame must have a trace function of its own, which need not do anything.
  Object nothing = checked(PyCFunction_New(&ignore_definition, nullptr));
  checked(PyObject_SetAttrString(f, "f_trace", nothing.get()));
#endif
}

// --- whether all instructions are seen -----------------------------------------------------------
int now_at(PyFrameObject* frame) { return PyFrame_GetLasti(frame) / 2; }

// Null outside of the code, where nothing is ever seen.
const Follows* follows(const Code& c, int at) {
  bool known = at >= 0 && static_cast<size_t>(at) < c.follows.size() && c.follows[at].of >= 0;
  return known ? &c.follows[at] : nullptr;
}

bool may_follow(const Code& c, int last, int now) {
  const Follows *a = follows(c, last), *b = follows(c, now);
  if (!a || !b) return false;
  if (b->handler || b->of == a->of || b->of == a->next || b->of == a->jump) return true;
  // Loops leave out the instructions that mark their end: one in Python 3.12, two in 3.13.
  const Follows* end = follows(c, a->jump);
  for (int k = 0; end && k < 2; ++k, end = follows(c, end->next))
    if (b->of == end->next) return true;
  return false;
}

void see_entry(Watch& w, PyFrameObject* frame, const Code& c) {
  if (c.how == Code::kFollowed && !c.follows.empty())
    w.seen[frame] = {c.code.get(), now_at(frame)};
  else
    w.seen.erase(frame);
}

void see_instruction(Watch& w, PyFrameObject* frame, const Code& c) {
  auto found = w.seen.find(frame);
  if (found == w.seen.end()) return;
  int now = now_at(frame);
  if (!may_follow(c, found->second.at, now)) w.lost = true;
  found->second.at = now;
}

// A generator that waits does not ask for its instructions: it may go on without a watch, and while
// another thread has a trace function Python 3.12 would call the one that is not there.
void unfollow([[maybe_unused]] PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
  checked(PyObject_SetAttrString(reinterpret_cast<PyObject*>(frame), "f_trace_opcodes", Py_False));
#endif
}

// A frame ends, or waits, at the instruction that was seen last.
void see_end(Watch& w, PyFrameObject* frame, PyCodeObject* code, PyObject* value) {
  auto found = w.seen.find(frame);
  if (found == w.seen.end()) return;
  auto* object = reinterpret_cast<PyObject*>(code);
  auto known = w.codes.find(object);
  if (found->second.code == object && known != w.codes.end()) {
    const Follows* last = follows(known->second, found->second.at);
    const Follows* now = follows(known->second, now_at(frame));
    bool whole = last && now && now->of == last->of;
    // A frame that yields is at the instruction behind that already (Python 3.13).
    if (last && now && value) whole = whole || now->of == last->next;
    if (last && (!value || value == Py_None)) whole = whole || last->again;
    if (!whole) w.lost = true;
  }
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))
    unfollow(frame);
  else
    w.seen.erase(found);
}

void enter(Watch& w, PyFrameObject* frame, PyCodeObject* code) {
  Code& c = described(w, frame, reinterpret_cast<PyObject*>(code));
  see_entry(w, frame, c);
  if (c.how == Code::kMuting) w.muting = frame;
  if (c.how == Code::kFollowed) {
    follow(frame);
    note_made(w, frame, code);
  }
  if (c.how != Code::kFollowed && c.how != Code::kEntered) return;
  PyObject* function = frames::inner(frame).function;
  bool known = c.how == Code::kFollowed && (function == c.function.get() || is_made(w, function));
  if (known) return;
  c.function = Object::borrow(function);
  call_step(w, w.entered.get(), frame, nullptr);
}

void step(Watch& w, PyFrameObject* frame, PyCodeObject* code) {
  Code& c = described(w, frame, reinterpret_cast<PyObject*>(code));
  if (!c.follows.empty()) see_instruction(w, frame, c);
  size_t at = static_cast<size_t>(now_at(frame));
  if (at >= c.at.size()) return;
  auto [first, count] = c.at[at];
  w.frame = nullptr;
  for (int k = first; k < first + count; ++k) {
    Step& s = c.steps[k];
    if (!frames::is_so_deep(frame, code, s.depth)) {
      PyErr_SetString(PyExc_RuntimeError, "the stack is not as deep as was thought");
      return settle_error(w, reinterpret_cast<PyObject*>(frame));
    }
    w.frame = frame;
    w.stack = frames::Stack(frame, code, s.depth);
    if (needs_no_step(w, s, frame)) continue;
    Object about = Object::borrow(subject(w, s, frame));
    call_step(w, s.method.get(), frame, s.argument.get());
    s.last = std::move(about);
  }
}

int trace(PyObject*, PyFrameObject* frame, int event, PyObject* value) {
  Watch* w = t_watch;
  if (!w || w->paused) return 0;
  return guard_int([&] {
    if (w->muting) {
      if (event == PyTrace_RETURN && frame == w->muting) w->muting = nullptr;
      return 0;
    }
    if (event == PyTrace_RETURN ? w->seen.empty()
                                : event != PyTrace_CALL && event != PyTrace_OPCODE)
      return 0;
    // What a host call runs (an external) is run again by a replay.
    if (event == PyTrace_CALL && t_recorder && !mode_on(kRecorded)) return 0;
    Object code = Object::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    auto* c = reinterpret_cast<PyCodeObject*>(code.get());
    if (event == PyTrace_CALL)
      enter(*w, frame, c);
    else if (event == PyTrace_OPCODE)
      step(*w, frame, c);
    else
      see_end(*w, frame, c, value);
    return 0;
  });
}

// --- functions for Python ------------------------------------------------------------------------
// _watch_start(describe, entered, failed, Parameter, ndarray or None)
PyObject* watch_start(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *describe, *entered, *failed, *parameter, *array;
    if (!PyArg_ParseTuple(args, "OOOO!O:_watch_start", &describe, &entered, &failed, &PyType_Type,
                          &parameter, &array))
      throw PythonError{};
    if (!frames::kKnown) runtime_error("_watch_start(): frames of this Python cannot be read");
    if (t_watch) runtime_error("_watch_start(): something is being watched already");
    auto w = std::make_unique<Watch>();
    w->describe = Object::borrow(describe);
    w->entered = Object::borrow(entered);
    w->failed = Object::borrow(failed);
    w->parameter = reinterpret_cast<PyTypeObject*>(parameter);
    w->array = PyType_Check(array) ? reinterpret_cast<PyTypeObject*>(array) : nullptr;
    t_watch = w.release();
    // Python 3.12 looks for frames that want to be told of instructions before it starts to tell.
    auto* here = reinterpret_cast<PyObject*>(PyEval_GetFrame());
    if (here) checked(PyObject_SetAttrString(here, "f_trace_opcodes", Py_True));
    PyEval_SetTrace(trace, Py_None);
    if (here) checked(PyObject_SetAttrString(here, "f_trace_opcodes", Py_False));
    Py_RETURN_NONE;
  });
}

// _watch_stop() -> whether the watch was on to the end
PyObject* watch_stop(PyObject*, PyObject*) {
  std::unique_ptr<Watch> w(std::exchange(t_watch, nullptr));
  bool whole = PyThreadState_Get()->c_tracefunc == trace;
  PyEval_SetTrace(nullptr, nullptr);
  return PyBool_FromLong(w && whole);
}

// _watch_lost() -> whether instructions have run unseen
PyObject* watch_lost(PyObject*, PyObject*) { return PyBool_FromLong(t_watch && t_watch->lost); }

PyObject* watch_pause(PyObject*, PyObject* flag) {
  bool before = t_watch && t_watch->paused;
  if (t_watch) t_watch->paused = flag == Py_True;
  return PyBool_FromLong(before);
}
PyObject* watch_is_made(PyObject*, PyObject* o) {
  return PyBool_FromLong(t_watch && is_made(*t_watch, o));
}
PyObject* watch_harmless(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (t_watch && n == 2)
    t_watch->harmless.insert({args[0], args[1] == Py_None ? nullptr : args[1]});
  Py_RETURN_NONE;
}

PyFrameObject* frame_of(PyObject* o) {
  if (!PyFrame_Check(o)) type_error("a frame was expected, not ", Py_TYPE(o)->tp_name);
  if (!frames::kKnown) runtime_error("frames of this Python cannot be read");
  return reinterpret_cast<PyFrameObject*>(o);
}
PyObject* or_none(PyObject* o) { return Py_NewRef(o ? o : Py_None); }
int number_of(PyObject* o) {
  long n = PyLong_AsLong(o);
  if (n == -1 && PyErr_Occurred()) throw PythonError{};
  return static_cast<int>(n);
}

// The stack of a frame during its step.
const frames::Stack& stack_of(PyObject* frame) {
  if (!t_watch || t_watch->frame != frame_of(frame))
    runtime_error("the stack of a frame is known before its steps only");
  return t_watch->stack;
}

// _frame_operand(frame, depth)
PyObject* frame_operand(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_frame_operand(frame, depth)");
    return or_none(stack_of(args[0]).operand(number_of(args[1])));
  });
}
// _frame_variable(frame, index)
PyObject* frame_variable(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_frame_variable(frame, index)");
    PyFrameObject* frame = frame_of(args[0]);
    int k = number_of(args[1]);
    Object code = Object::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    if (k < 0 || k >= reinterpret_cast<PyCodeObject*>(code.get())->co_nlocalsplus)
      index_error("_frame_variable(): index ", k);
    return or_none(frames::variable(frame, k));
  });
}
PyObject* frame_function(PyObject*, PyObject* frame) {
  return guard([&] { return or_none(frames::inner(frame_of(frame)).function); });
}
// _frame_callee(frame, count, above) -> (function, object or None)
PyObject* frame_callee(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 3) type_error("_frame_callee(frame, count, above)");
    const frames::Stack& stack = stack_of(args[0]);
    frames::Callee c = frames::callee(stack, number_of(args[1]), number_of(args[2]));
    Object f = Object::steal(or_none(c.function)), o = Object::steal(or_none(c.object));
    return PyTuple_Pack(2, f.get(), o.get());
  });
}

template <class F>
PyCFunction fast(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef functions[] = {
    {"_watch_start", watch_start, METH_VARARGS, "Looks at every instruction of this thread."},
    {"_watch_stop", watch_stop, METH_NOARGS, "Ends that; whether it lasted until now."},
    {"_watch_lost", watch_lost, METH_NOARGS, "Whether instructions have run unseen."},
    {"_watch_pause", watch_pause, METH_O, "Looks at nothing for a while; whether it did."},
    {"_watch_is_made", watch_is_made, METH_O, "Whether an object was made by the run."},
    {"_watch_harmless", fast(watch_harmless), METH_FASTCALL,
     "Says that calls of a function with an object of this class need no step."},
    {"_frame_operand", fast(frame_operand), METH_FASTCALL, "What is on the stack of a frame."},
    {"_frame_variable", fast(frame_variable), METH_FASTCALL, "A variable or cell of a frame."},
    {"_frame_function", frame_function, METH_O, "The function that a frame runs."},
    {"_frame_callee", fast(frame_callee), METH_FASTCALL, "What a frame is about to call."},
    {nullptr}};

}  // namespace

void add_watch(PyObject* module) {
  add_functions(module, functions);
  checked(PyModule_AddObjectRef(module, "_frames_known", frames::kKnown ? Py_True : Py_False));
}

}  // namespace adjoint
