// Recordings and programs as Python objects. Read program/program.h first;
// python/adjoint/compiler is who uses them.
#include "bindings/program/program.h"
#include "dispatch/checkpoint_cache.h"
#include "program/capture/capture.h"
#include "program/passes/pipeline.h"
#include "program/repeat.h"
#include "program/replay/replay.h"

namespace adjoint {
Tensors tensors_of(PyObject* o, const char* what, bool optional) {
  Object items = checked(PySequence_Fast(o, "a list of tensors was expected"));
  Tensors ts;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  ts.reserve(n);
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), k);
    if (optional && item == Py_None) {
      ts.push_back(Tensor());
      continue;
    }
    if (!is_tensor(item))
      type_error(what, "[", k, "] is not a tensor but ", Py_TYPE(item)->tp_name);
    ts.push_back(Tensor::borrow(as_tensor(item)));
  }
  return ts;
}

PyObject* list_of(const Tensors& ts) {
  Object list = checked(PyList_New(static_cast<Py_ssize_t>(ts.size())));
  for (size_t k = 0; k < ts.size(); ++k)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), to_python(ts[k]));
  return list.release();
}

namespace {

struct RecordingObject {
  PyObject_HEAD Capture* capture;
};
struct ProgramObject {
  PyObject_HEAD Program* program;
};
PyTypeObject recording_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject program_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Capture& capture_of(PyObject* o) { return *reinterpret_cast<RecordingObject*>(o)->capture; }
Program& program_of(PyObject* o) { return *reinterpret_cast<ProgramObject*>(o)->program; }

// --- recordings ----------------------------------------------------------------------------------
PyObject* new_recording(PyTypeObject* type, PyObject* args, PyObject*) {
  return guard([&]() -> PyObject* {
    PyObject* list;
    if (!PyArg_ParseTuple(args, "O:_Recording", &list)) return nullptr;
    Tensors ts = tensors_of(list, "_Recording(): arguments");
    Object o = checked(type->tp_alloc(type, 0));
    reinterpret_cast<RecordingObject*>(o.get())->capture = new Capture(ts);
    return o.release();
  });
}
int traverse_recording(PyObject* o, visitproc visit, void* arg) {
  auto* c = reinterpret_cast<RecordingObject*>(o)->capture;
  return c ? c->each_object([&](PyObject* t) { return visit(t, arg); }) : 0;
}
int clear_recording(PyObject* o) {
  delete std::exchange(reinterpret_cast<RecordingObject*>(o)->capture, nullptr);
  return 0;
}
void free_recording(PyObject* o) {
  PyObject_GC_UnTrack(o);
  clear_recording(o);
  Py_TYPE(o)->tp_free(o);
}

PyObject* start(PyObject* o, PyObject* args) {
  int until_inputs = 0;
  if (!PyArg_ParseTuple(args, "|p:start", &until_inputs)) return nullptr;
  return guard([&]() -> PyObject* {
    capture_of(o).start(until_inputs != 0);
    Py_RETURN_NONE;
  });
}
PyObject* stop(PyObject* o, PyObject*) {
  capture_of(o).stop();
  Py_RETURN_NONE;
}
PyObject* refused(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    const Capture& c = capture_of(o);
    if (c.refused().empty()) Py_RETURN_NONE;
    return Py_BuildValue("(ss)", c.refused().c_str(), c.refused_at().describe().c_str());
  });
}
PyObject* size(PyObject* o, PyObject*) { return PyLong_FromSize_t(capture_of(o).size()); }
PyObject* followed(PyObject* o, PyObject*) { return PyLong_FromSize_t(capture_of(o).followed()); }
PyObject* add_inputs(PyObject* o, PyObject* list) {
  return guard([&]() -> PyObject* {
    capture_of(o).add_inputs(tensors_of(list, "add_inputs()"));
    Py_RETURN_NONE;
  });
}
PyObject* reached(PyObject* o, PyObject*) {
  return guard([&] { return list_of(capture_of(o).reached()); });
}
PyObject* make_program(PyObject* o, PyObject* args) {
  return guard([&]() -> PyObject* {
    Py_ssize_t from, to;
    PyObject *given, *outputs, *there = nullptr;
    int copied = 0;
    if (!PyArg_ParseTuple(args, "nnOO|pO:program", &from, &to, &given, &outputs, &copied, &there))
      return nullptr;
    Capture& c = capture_of(o);
    if (from < 0 || from > to || to > static_cast<Py_ssize_t>(c.size()))
      index_error("program(): there are no instructions ", from, " to ", to);
    Tensors inputs = tensors_of(given, "program(): given");
    Tensors results = tensors_of(outputs, "program(): outputs", true);
    if (!c.refused().empty()) runtime_error("program(): ", c.refused());
    Tensors kept = there ? tensors_of(there, "program(): there") : Tensors();
    for (const Tensors* ts : {&inputs, &results, &kept}) {
      for (const Tensor& t : *ts) {
        if (t && !c.knows(t.get())) value_error("program(): a tensor is not part of the recording");
      }
    }
    auto made = std::make_unique<Program>(c.program(from, to, inputs, results, copied, kept));
    Object p = checked(program_type.tp_alloc(&program_type, 0));
    reinterpret_cast<ProgramObject*>(p.get())->program = made.release();
    return p.release();
  });
}
// outside(outputs): for each tensor whether it is (2), or shares memory with (1), something that
// exists outside the recording, or shares memory with an earlier one of the list (1).
PyObject* outside(PyObject* o, PyObject* outputs) {
  return guard([&]() -> PyObject* {
    Tensors ts = tensors_of(outputs, "outside()");
    std::vector<int> found = capture_of(o).outside(ts);
    Object list = checked(PyList_New(0));
    for (int f : found) checked(PyList_Append(list.get(), checked(PyLong_FromLong(f)).get()));
    return list.release();
  });
}
// history(results): the places of those that others of them are computed from, and whether there are
// ops alone behind them.
PyObject* history(PyObject* o, PyObject* results) {
  return guard([&]() -> PyObject* {
    Capture::History found = capture_of(o).history(tensors_of(results, "history()"));
    Object list = checked(PyList_New(0));
    for (size_t k = 0; k < found.inner.size(); ++k) {
      if (found.inner[k]) checked(PyList_Append(list.get(), checked(PyLong_FromSize_t(k)).get()));
    }
    return Py_BuildValue("(OO)", list.get(), found.plain ? Py_True : Py_False);
  });
}
PyObject* knows(PyObject* o, PyObject* t) {
  return PyBool_FromLong(is_tensor(t) && capture_of(o).knows(as_tensor(t)));
}

PyObject* asks_for_own(PyObject* o, PyObject*) {
  return PyBool_FromLong(capture_of(o).asked_for_own());
}

PyMethodDef recording_methods[] = {
    {"start", start, METH_VARARGS,
     "start(until_inputs=False): takes down the ops of this thread from here on. until_inputs: "
     "backward passes end at the tensors from outside."},
    {"stop", stop, METH_NOARGS, "Ends that."},
    {"refused", refused, METH_NOARGS, "Why nothing can be recorded, and where; or None."},
    {"size", size, METH_NOARGS, "How many instructions there are."},
    {"followed", followed, METH_NOARGS, "How many of them are known by an earlier period alone."},
    {"add_inputs", add_inputs, METH_O, "Tensors that later instructions get from outside."},
    {"reached", reached, METH_NOARGS, "Tensors that are not arguments and were read."},
    {"outside", outside, METH_O, "Which tensors share memory with what is not the function's."},
    {"history", history, METH_O,
     "The places of results that others of them are computed from, and whether a backward pass "
     "through them calls no Python."},
    {"knows", knows, METH_O, "Whether a tensor is an input or a result."},
    {"asks_for_own", asks_for_own, METH_NOARGS,
     "Whether it asks for the address, or the hash, of a tensor that it has made."},
    {"program", make_program, METH_VARARGS,
     "program(from, to, given, outputs, copied=False, there=()): instructions as a program; "
     "copied: "
     "they can be made another one of; there: what of earlier ones is kept anyway."},
    {nullptr}};

// --- programs ------------------------------------------------------------------------------------
int traverse_program(PyObject* o, visitproc visit, void* arg) {
  Program* p = reinterpret_cast<ProgramObject*>(o)->program;
  if (!p) return 0;
  for (const Tensor& t : p->held) Py_VISIT(reinterpret_cast<PyObject*>(t.get()));
  if (int r = p->identity.each_object([&](PyObject* x) { return visit(x, arg); })) return r;
  for (const Instruction& i : p->code) {
    if (i.kind == Kind::Host) Py_VISIT(i.more->host.python());
  }
  return 0;
}
int clear_program(PyObject* o) {
  delete std::exchange(reinterpret_cast<ProgramObject*>(o)->program, nullptr);
  return 0;
}
void free_program(PyObject* o) {
  PyObject_GC_UnTrack(o);
  clear_program(o);
  Py_TYPE(o)->tp_free(o);
}

PyObject* held(PyObject* o, PyObject*) {
  return guard([&] { return list_of(program_of(o).held); });
}
PyObject* forget_held(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensors gone = std::exchange(program_of(o).held, {});
    Py_RETURN_NONE;
  });
}
// tell_apart(given, there): the arguments of the recorded call, and tensors that the function finds
// by itself: each argument is one of those, or none of them, as it was.
PyObject* tell_apart(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("tell_apart() takes the arguments, and tensors that are not arguments");
    Program& p = program_of(o);
    Tensors given = tensors_of(args[0], "tell_apart()"),
            there = tensors_of(args[1], "tell_apart()");
    if (static_cast<int>(given.size()) != p.given)
      value_error("tell_apart(): ", p.given, " tensors are expected, not ", given.size());
    there.insert(there.end(), p.held.begin(), p.held.end());
    p.identity.tell_apart(given, there);
    for (Program::GradState& s : p.grads)
      if (s.known && !p.identity.is_there(s.known)) s.known = nullptr;  // it need not stay alive
    Py_RETURN_NONE;
  });
}
PyObject* is_pinned(PyObject* o, PyObject*) {
  return PyBool_FromLong(program_of(o).identity.is_pinned());
}
PyObject* accepts_(PyObject* o, PyObject* list) {
  return guard([&]() -> PyObject* {
    return PyBool_FromLong(accepts(program_of(o), tensors_of(list, "accepts()"), nullptr));
  });
}
PyObject* mismatch(PyObject* o, PyObject* list) {
  return guard([&]() -> PyObject* {
    std::string why;
    if (accepts(program_of(o), tensors_of(list, "mismatch()"), &why)) Py_RETURN_NONE;
    return PyUnicode_FromString(why.c_str());
  });
}
PyObject* run_(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n < 1 || n > 2) type_error("run() takes a list of tensors, and those it reached");
    const Program& p = program_of(o);
    Tensors given = tensors_of(args[0], "run()");
    Tensors rest = n > 1 ? tensors_of(args[1], "run()") : Tensors();
    if (static_cast<int>(given.size()) != p.given ||
        rest.size() != (n > 1 ? p.inputs.size() - p.given : 0) ||
        (n == 1 && p.held.size() != p.inputs.size() - p.given))
      value_error("run(): ", p.given, " and ", p.inputs.size() - p.given,
                  " tensors are expected, not ", given.size(), " and ", rest.size());
    Object alive = Object::borrow(o);
    return list_of(run(p, given, rest));
  });
}

PyObject* draws(PyObject* o, PyObject*) {
  for (const Instruction& i : program_of(o).code) {
    if (i.draws()) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

void add_generators(PyObject* list, const Program& p) {
  for (const Instruction& i : p.code) {
    for (int k = 0; i.op && i.draws() && k < i.op->argument_count; ++k) {
      if (i.args[k].kind() == Value::Object) checked(PyList_Append(list, i.args[k].python()));
    }
    if (i.repeat()) add_generators(list, i.repeat()->body);
  }
}

// The generators that it draws from, besides the default one.
PyObject* generators(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    add_generators(list.get(), program_of(o));
    return list.release();
  });
}

PyObject* reads_gradients(PyObject* o, PyObject*) {
  return PyBool_FromLong(!program_of(o).grads.empty());
}

// Whether running it once more would be noticed: the gradients of leaves, memory of others.
PyObject* changes(PyObject* o, PyObject*) {
  const Program& p = program_of(o);
  for (const Instruction& i : p.code) {
    if (i.kind == Kind::Accumulate || i.kind == Kind::SetGrad || changes_outside(p, i))
      Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

PyObject* calls_python(PyObject* o, PyObject*) {
  const auto& code = program_of(o).code;
  return PyBool_FromLong(std::any_of(code.begin(), code.end(), [](const Instruction& i) {
    return i.kind == Kind::Host && !i.changes;
  }));
}
PyObject* is_pure(PyObject* o, PyObject*) {
  const Program& p = program_of(o);
  for (const Instruction& i : p.code) {
    bool effect = i.kind == Kind::Repeat ? i.draws() : i.has_effect();
    if (effect || changes_outside(p, i)) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

Object numbers(const std::vector<int>& registers) {
  Object list = checked(PyList_New(0));
  for (int r : registers) checked(PyList_Append(list.get(), checked(PyLong_FromLong(r)).get()));
  return list;
}
Object rows(const std::vector<Line>& lines) {
  Object list = checked(PyList_New(0));
  for (const Line& line : lines) {
    Object row = checked(
        Py_BuildValue("(sOOOs)", line.name.c_str(), line.in_place ? Py_True : Py_False,
                      numbers(line.reads).get(), numbers(line.writes).get(), line.where.c_str()));
    checked(PyList_Append(list.get(), row.get()));
  }
  return list;
}
// code(): (name, in place, reads, writes, line) for each instruction.
PyObject* code(PyObject* o, PyObject*) {
  return guard([&] { return rows(listing(program_of(o).code)).release(); });
}
// stages(): (pass, the code that it left), first what was recorded.
PyObject* stages(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    for (const Stage& s : program_of(o).stages) {
      Object row = checked(Py_BuildValue("(sO)", s.pass, rows(s.code).get()));
      checked(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}

// counts(): how many inputs and outputs it has.
PyObject* counts(PyObject* o, PyObject*) {
  const Program& p = program_of(o);
  return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(p.inputs.size()),
                       static_cast<Py_ssize_t>(p.outputs.size()));
}

PyMethodDef program_methods[] = {
    {"counts", counts, METH_NOARGS, "How many inputs and outputs it has."},
    {"held", held, METH_NOARGS, "The inputs that the function reached by itself."},
    {"forget_held", forget_held, METH_NOARGS, "Lets go of them: they are then given to run()."},
    {"tell_apart", reinterpret_cast<PyCFunction>(tell_apart), METH_FASTCALL,
     "tell_apart(given, there): which arguments are tensors that the function finds by itself."},
    {"is_pinned", is_pinned, METH_NOARGS, "Whether it is for certain tensors alone."},
    {"accepts", accepts_, METH_O, "Whether the program can run on these tensors."},
    {"mismatch", mismatch, METH_O, "Why it cannot, or None."},
    {"run", reinterpret_cast<PyCFunction>(run_), METH_FASTCALL,
     "run(given[, reached]): the outputs."},
    {"calls_python", calls_python, METH_NOARGS, "Whether it calls Python functions (externals)."},
    {"is_pure", is_pure, METH_NOARGS, "Whether it does nothing but compute its outputs."},
    {"draws", draws, METH_NOARGS, "Whether it draws random numbers."},
    {"generators", generators, METH_NOARGS, "What it draws from, besides the default generator."},
    {"changes", changes, METH_NOARGS, "Whether it changes tensors that are not its own."},
    {"reads_gradients", reads_gradients, METH_NOARGS, "Whether it looks at gradients of leaves."},
    {"code", code, METH_NOARGS, "(name, in place, reads, writes, line) of each instruction."},
    {"stages", stages, METH_NOARGS, "(pass, code after it), if they were kept: _keep_stages()."},
    {nullptr}};

// --- functions -----------------------------------------------------------------------------------
Tensors call_host(PyObject* run, const Tensors& operands) {
  Object list = checked(list_of(operands));
  Object results = checked(PyObject_CallOneArg(run, list.get()));
  return tensors_of(results.get(), "the result of a host call");
}

bool draws_as_host(PyObject* run) {
  Object says = Object::steal(PyObject_GetAttrString(run, "draws_random_numbers"));
  if (!says) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError{};
    PyErr_Clear();
  }
  return says.get() == Py_True;
}

PyObject* is_unusual(PyObject*, PyObject*) { return PyBool_FromLong(is_unusual_mode()); }
PyObject* is_unusual_beside_hooks(PyObject*, PyObject*) {
  ModeGuard without(kSavedHooks, false);
  return PyBool_FromLong(is_unusual_mode());
}
PyObject* call_mode_(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(call_mode()); }
PyObject* is_recording(PyObject*, PyObject*) { return PyBool_FromLong(captured()); }
PyObject* is_suspended(PyObject*, PyObject*) {
  return PyBool_FromLong(t_recorder && !mode_on(kCaptured));
}
PyObject* refuse_recording_(PyObject*, PyObject* reason) {
  return guard([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(reason);
    if (!text) return nullptr;
    refuse_recording(text);
    Py_RETURN_NONE;
  });
}
PyObject* ask_address(PyObject*, PyObject* o) {
  if (is_tensor(o) && captured()) static_cast<Capture*>(t_recorder)->ask_address(as_tensor(o));
  Py_RETURN_NONE;
}
PyObject* record_constant(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("_record_constant(): a tensor is expected");
    if (captured()) static_cast<Capture*>(t_recorder)->constant(as_tensor(o));
    Py_RETURN_NONE;
  });
}
PyObject* unrecorded(PyObject*, PyObject* f) {
  Uncaptured quiet;
  return PyObject_CallNoArgs(f);
}
PyObject* host_call_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2 && n != 3) type_error("_host_call(run, tensors[, like])");
    Tensors operands = tensors_of(args[1], "_host_call()");
    if (!captured()) return list_of(call_host(args[0], operands));
    Tensors like = n == 3 ? tensors_of(args[2], "_host_call()") : Tensors();
    return list_of(t_recorder->host(args[0], operands, n == 3 ? &like : nullptr));
  });
}

PyObject* allow_draws(PyObject*, PyObject* on) {
  bool before = !t_recorder || static_cast<Capture*>(t_recorder)->allow_draws(on == Py_True);
  return PyBool_FromLong(before);
}
PyObject* host_change(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_host_change(run, tensors)");
    Tensors operands = tensors_of(args[1], "_host_change()");
    if (captured())
      t_recorder->host_change(args[0], operands);
    else
      call_host(args[0], operands);
    Py_RETURN_NONE;
  });
}

PyObject* keep_stages(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(t_keep_stages, on == Py_True));
}
PyObject* pass_names(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    for (const Pass& p : passes())
      checked(PyList_Append(list.get(), checked(PyUnicode_FromString(p.name)).get()));
    return list.release();
  });
}

PyObject* set_roll_from(PyObject*, PyObject* count) {
  return guard([&]() -> PyObject* {
    size_t given = PyLong_AsSize_t(count);
    if (PyErr_Occurred()) return nullptr;
    return PyLong_FromSize_t(std::exchange(roll_from, std::max<size_t>(given, 8)));
  });
}

PyObject* set_follow_from(PyObject*, PyObject* count) {
  return guard([&]() -> PyObject* {
    size_t given = PyLong_AsSize_t(count);
    if (PyErr_Occurred()) return nullptr;
    return PyLong_FromSize_t(std::exchange(follow_from, std::max<size_t>(given, 8)));
  });
}

PyObject* ask_state(PyObject*, PyObject*) {
  ask_state_of_loop();
  Py_RETURN_NONE;
}

PyObject* made_here(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("_is_made_here(): a tensor is expected");
    return PyBool_FromLong(captured() &&
                           static_cast<Capture*>(t_recorder)->has_made_memory_of(as_tensor(o)));
  });
}

PyObject* recorded_size(PyObject*, PyObject*) {
  return PyLong_FromSize_t(captured() ? static_cast<Capture*>(t_recorder)->size() : 0);
}

PyObject* when_repeating(PyObject*, PyObject* f) {
  Py_XSETREF(on_repetition, Py_NewRef(f));
  Py_RETURN_NONE;
}

PyObject* state_was_asked(PyObject*, PyObject*) {
  return PyBool_FromLong(state_of_loop_was_asked());
}

PyMethodDef functions[] = {
    {"_ask_state_of_loop", ask_state, METH_NOARGS,
     "Notes that something was asked for that a loop which was recorded as one does not have."},
    {"_is_made_here", made_here, METH_O,
     "Whether ops of the recording that is on have made the memory of a tensor."},
    {"_recorded_size", recorded_size, METH_NOARGS, "How many instructions were taken down so far."},
    {"_state_of_loop_was_asked", state_was_asked, METH_NOARGS,
     "Whether the gradient of a state inside a recorded loop was asked for since the last call of "
     "this."},
    {"_when_repeating", when_repeating, METH_O,
     "_when_repeating(f): f() is called when a function that is recorded begins to repeat itself."},
    {"_follow_from", set_follow_from, METH_O,
     "_follow_from(count): from how many instructions on a recording looks for a period; what was "
     "set before."},
    {"_roll_from", set_roll_from, METH_O,
     "_roll_from(count): from how many instructions on loops are looked for; what was set before."},
    {"_keep_stages", keep_stages, METH_O,
     "Whether programs made from now on list what each pass left; what was set before."},
    {"_passes", pass_names, METH_NOARGS, "The passes of programs, in order."},
    {"_is_recording", is_recording, METH_NOARGS, "Whether a program is being recorded."},
    {"_is_recording_suspended", is_suspended, METH_NOARGS,
     "Whether a host call runs inside a recording."},
    {"_is_unusual_mode", is_unusual, METH_NOARGS, "Whether compiled functions run eagerly here."},
    {"_is_unusual_beside_saved_hooks", is_unusual_beside_hooks, METH_NOARGS,
     "The same, if there were no hooks of saved values."},
    {"_call_mode", call_mode_, METH_NOARGS, "A number for the modes that recordings differ by."},
    {"_refuse_recording", refuse_recording_, METH_O, "Ends the recording, with a reason."},
    {"_ask_address", ask_address, METH_O,
     "Says that the address of a tensor (id(), hash()) is used: the recording is for that one."},
    {"_record_constant", record_constant, METH_O, "A tensor made from numbers of the function."},
    {"_replay", reinterpret_cast<PyCFunction>(replay), METH_FASTCALL,
     "_replay(recorded, program, given, reached, count, places): a program as a node."},
    {"_as_node", reinterpret_cast<PyCFunction>(as_node), METH_FASTCALL,
     "_as_node(recorded, results, given, places): results of a recorded call, as those of a node."},
    {"_host_change", reinterpret_cast<PyCFunction>(host_change), METH_FASTCALL,
     "_host_change(run, tensors): the same for what changes the tensors and gives nothing."},
    {"_allow_draws", allow_draws, METH_O,
     "Whether a program that is recorded may draw random numbers; what was set before."},
    {"_unrecorded", unrecorded, METH_O, "Calls a function; nothing of it is taken down."},
    {"_host_call", reinterpret_cast<PyCFunction>(host_call_), METH_FASTCALL,
     "_host_call(run, tensors[, like]): run(tensors), which programs repeat; with `like`, tensors "
     "of the form of the results, a recording does without running it."},
    {nullptr}};

void add_type(PyObject* module, PyTypeObject& t, const char* name, size_t bytes,
              PyMethodDef* methods) {
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(bytes);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  t.tp_methods = methods;
  checked(PyType_Ready(&t));
  checked(
      PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, reinterpret_cast<PyObject*>(&t)));
}

}  // namespace

bool is_unusual_mode() {
  return (t_modes & kEagerModes) || t_checkpoint_cache || t_plain_functions;
}
uint32_t call_mode() {
  uint32_t autocast = mode_on(kAutocast) ? t_modes & kAutocastModes : 0;
  return autocast | (t_modes & kGradOff);
}

Py_hash_t hash_tensor(PyObject* t) {
  if (captured()) [[unlikely]]
    static_cast<Capture*>(t_recorder)->ask_address(as_tensor(t));
  return PyBaseObject_Type.tp_hash(t);
}

const Program& program_in(PyObject* o) {
  if (!PyObject_TypeCheck(o, &program_type))
    type_error("a program is expected, not ", Py_TYPE(o)->tp_name);
  return program_of(o);
}

Capture& capture_in(PyObject* o) {
  if (!PyObject_TypeCheck(o, &recording_type))
    type_error("a recording is expected, not ", Py_TYPE(o)->tp_name);
  return capture_of(o);
}

void add_programs(PyObject* module) {
  add_exchange(module);
  host_call = call_host;
  host_draws = draws_as_host;
  add_program_node();
  recording_type.tp_new = new_recording;
  recording_type.tp_dealloc = free_recording;
  recording_type.tp_traverse = traverse_recording;
  recording_type.tp_clear = clear_recording;
  recording_type.tp_doc = "Ops taken down while a function runs.";
  add_type(module, recording_type, "adjoint._core._Recording", sizeof(RecordingObject),
           recording_methods);
  program_type.tp_dealloc = free_program;
  program_type.tp_traverse = traverse_program;
  program_type.tp_clear = clear_program;
  program_type.tp_doc = "A recorded computation that can be run again.";
  add_type(module, program_type, "adjoint._core._Program", sizeof(ProgramObject), program_methods);
  add_functions(module, functions);
}

}  // namespace adjoint
