// The profiler as Python drives it. Read next: dispatch/profile.h, python/adjoint/profiler.
#include "dispatch/profile.h"

#include "bindings/python.h"
#include "dispatch/program_recorder.h"

namespace adjoint {
namespace {

PyObject* start(PyObject*, PyObject* args) {
  int shapes, stacks;
  if (!PyArg_ParseTuple(args, "pp:_profile_start", &shapes, &stacks)) return nullptr;
  return guard([&]() -> PyObject* {
    refuse_recording("a profiler is started; fix: start it outside the compiled function");
    start_profile(shapes, stacks);
    Py_RETURN_NONE;
  });
}

Object place(const std::string& file, int line, const std::string& function) {
  return checked(Py_BuildValue("(sis)", file.c_str(), line, function.c_str()));
}

// Where it began, the innermost frame first; of a node the line alone, which knows no function.
Object stack_of(const ProfiledEvent& e) {
  Object list = checked(PyList_New(0));
  for (const CodePlace& p : e.stack)
    checked(PyList_Append(list.get(), place(p.file(), p.line(), p.function()).get()));
  if (e.line) checked(PyList_Append(list.get(), place(e.line.file(), e.line.line(), "").get()));
  return list;
}

// Shapes as lists of ints, which is how PyTorch shows them.
Object lists_of(const Value& v) {
  if (v.kind() == Value::None) return Object::borrow(Py_None);
  Object list = checked(PyList_New(0));
  if (v.kind() == Value::Ints) {
    for (int64_t n : Span(v.ints()))
      checked(PyList_Append(list.get(), checked(PyLong_FromLongLong(n)).get()));
  } else {
    for (const Value& item : v.list()) checked(PyList_Append(list.get(), lists_of(item).get()));
  }
  return list;
}

Object as_tuple(const ProfiledEvent& e) {
  Object stack = stack_of(e), shapes = lists_of(e.shapes);
  return checked(Py_BuildValue(
      "(siKKKiKLLOO)", e.name.c_str(), static_cast<int>(e.kind),
      static_cast<unsigned long long>(e.start), static_cast<unsigned long long>(e.end),
      static_cast<unsigned long long>(e.thread), e.parent,
      static_cast<unsigned long long>(e.sequence), static_cast<long long>(e.memory),
      static_cast<long long>(e.live), shapes.get(), stack.get()));
}

PyObject* stop(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Profile done = stop_profile();
    Object list = checked(PyList_New(0));
    for (const ProfiledEvent& e : done.events)
      checked(PyList_Append(list.get(), as_tuple(e).get()));
    return list.release();
  });
}

PyObject* start_tally_(PyObject*, PyObject* args) {
  int exact = 0;
  unsigned long long allocation_ns = 0, seed = 0;
  if (!PyArg_ParseTuple(args, "|pKK:_tally_start", &exact, &allocation_ns, &seed)) return nullptr;
  return guard([&]() -> PyObject* {
    refuse_recording("a profiler is started; fix: start it outside the compiled function");
    start_tally({exact != 0, allocation_ns, seed});
    Py_RETURN_NONE;
  });
}

PyObject* stop_tally_(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    for (auto& [key, tally] : stop_tally()) {
      Object where =
          key.line ? place(key.line.file(), key.line.line(), "") : Object::borrow(Py_None);
      Object row = checked(Py_BuildValue(
          "(siOOKKLKdd)", key.name, static_cast<int>(key.kind), key.backward ? Py_True : Py_False,
          where.get(), static_cast<unsigned long long>(tally.count),
          static_cast<unsigned long long>(tally.nanoseconds), static_cast<long long>(tally.memory),
          static_cast<unsigned long long>(tally.looked_at), tally.nanoseconds_error,
          tally.count_error));
      checked(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}

// Of each node the seconds that its call took, and whether they are a mean; None where nothing is known.
PyObject* forward_times(PyObject*, PyObject* nodes) {
  return guard([&]() -> PyObject* {
    Object given = checked(PySequence_Fast(nodes, "a sequence of nodes"));
    Object list = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(given.get(), i);
      std::optional<ForwardTime> time;
      if (PyObject_TypeCheck(item, node_type)) time = forward_time(reinterpret_cast<Node*>(item));
      Object entry =
          time ? checked(Py_BuildValue("(dO)", time->seconds, time->is_mean ? Py_True : Py_False))
               : Object::borrow(Py_None);
      checked(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}

PyObject* begin(PyObject*, PyObject* name) {
  return guard([&]() -> PyObject* {
    const char* given = PyUnicode_AsUTF8(name);
    if (!given) return nullptr;
    return PyLong_FromLong(mode_on(kProfiled) ? begin_profiled(Profiled::Range, given) : -1);
  });
}

PyObject* end(PyObject*, PyObject* event) {
  long e = PyLong_AsLong(event);
  if (e == -1 && PyErr_Occurred()) return nullptr;
  end_profiled(static_cast<int>(e));
  Py_RETURN_NONE;
}

PyObject* profiling(PyObject*, PyObject*) {
  return PyBool_FromLong(mode_on(kProfiled) && profile_under_way());
}

PyMethodDef functions[] = {
    {"_profile_start", start, METH_VARARGS, "(shapes, stacks): times calls of this thread."},
    {"_profile_stop", stop, METH_NOARGS,
     "Ends it: (name, kind, start, end, thread, parent, sequence, memory, live, shapes, [(file, "
     "line, function)]) of each event."},
    {"_tally_start", start_tally_, METH_VARARGS,
     "(exact=False, allocation_ns=0, seed=0): adds up what calls of this thread take."},
    {"_tally_stop", stop_tally_, METH_NOARGS,
     "Ends it: (name, kind, backward, (file, line, "
     "), count, nanoseconds, memory, looked at, errors of nanoseconds and count) each."},
    {"_forward_times", forward_times, METH_O,
     "Of each node (seconds, whether that is the mean of its line), or None."},
    {"_profile_begin", begin, METH_O, "Begins a range; its number, -1 if nothing is profiled."},
    {"_profile_end", end, METH_O, "Ends a range."},
    {"_profiling", profiling, METH_NOARGS, "Whether calls of this thread are timed."},
    {nullptr}};

}  // namespace

void add_profile(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
