// Loops of programs for Python: python/adjoint/loops decides which steps run. Read
// program/replay/loop.h first.
#include "program/replay/loop.h"

#include <unordered_set>

#include "bindings/program/program.h"
#include "dispatch/checkpoint_cache.h"
#include "program/replay/replay.h"

namespace adjoint {
namespace {

struct TapeObject {
  PyObject_HEAD Tape* tape;
};
PyTypeObject tape_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Tape& tape_of(PyObject* o) {
  if (!PyObject_TypeCheck(o, &tape_type))
    type_error("a tape is expected, not ", Py_TYPE(o)->tp_name);
  return *reinterpret_cast<TapeObject*>(o)->tape;
}
PyObject* new_tape(PyTypeObject* type, PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object o = checked(type->tp_alloc(type, 0));
    reinterpret_cast<TapeObject*>(o.get())->tape = new Tape();
    return o.release();
  });
}
void free_tape(PyObject* o) {
  delete reinterpret_cast<TapeObject*>(o)->tape;
  Py_TYPE(o)->tp_free(o);
}
Py_ssize_t tape_length(PyObject* o) { return static_cast<Py_ssize_t>(tape_of(o).size()); }
PyObject* extend(PyObject* o, PyObject* list) {
  return guard([&]() -> PyObject* {
    for (const Tensor& t : tensors_of(list, "extend()")) tape_of(o).add(t);
    Py_RETURN_NONE;
  });
}
PyObject* arguments(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    int64_t place;
    if (n != 2 || !parse_int(args[1], &place)) type_error("arguments(program, place)");
    const Program& p = program_in(args[0]);
    const Tape& tape = tape_of(o);
    if (place < 0 || place + p.given > static_cast<int64_t>(tape.size()))
      index_error("arguments(): there are ", tape.size(), " values");
    Tensors found;
    for (int k = 0; k < p.given; ++k)
      found.push_back(tape.at(static_cast<size_t>(place + k), p.registers[p.inputs[k]].geometry()));
    return list_of(found);
  });
}
PyObject* bytes(PyObject* o, PyObject* others) {
  return guard([&]() -> PyObject* {
    return PyLong_FromLongLong(tape_of(o).bytes(tensors_of(others, "bytes()")));
  });
}
PyMethodDef tape_methods[] = {
    {"extend", extend, METH_O, "extend(values): adds them."},
    {"arguments", reinterpret_cast<PyCFunction>(arguments), METH_FASTCALL,
     "arguments(program, place): the values from a place on that a program was called with."},
    {"bytes", bytes, METH_O, "bytes(others): of all memory that is not that of other tensors."},
    {nullptr}};
PySequenceMethods tape_sequence = {.sq_length = tape_length};

std::vector<int> places(PyObject* o, int64_t least, int64_t end, const char* what) {
  Dims given;
  if (!parse_ints(o, &given, PY_SSIZE_T_MAX)) type_error(what, ": a list of places is expected");
  std::vector<int> found;
  for (int64_t k : Span(given)) {
    if (k < least || k >= end) value_error(what, ": there is no place ", k);
    found.push_back(static_cast<int>(k));
  }
  return found;
}

// Stacked tensors with all these rows; undefined ones are left out of what is compared.
void check_rows(const Tensors& stacked, Rows rows, const char* what) {
  int64_t low = std::min(rows.from, rows.to), high = std::max(rows.from, rows.to);
  for (const Tensor& t : stacked) {
    if (t && (t.ndim() < 1 || low < 0 || high > t.size(0)))
      value_error(what, ": there are no rows ", low, " to ", high, " of ", t.shape());
  }
}

void check_output(const Program& p, size_t k) {
  if (p.outputs[k] < 0) value_error("_loop_forward(): the program has no output ", k);
}

// Rows, and the number in the whole loop of the step that comes first, for error messages.
struct NumberedRows {
  Rows rows;
  int64_t number;
};

NumberedRows rows_of(PyObject* o) {
  Dims ends;
  if (!parse_ints(o, &ends) || ends.size() != 3) type_error("rows: (from, to, number) is expected");
  return {{ends[0], ends[1]}, ends[2]};
}

// Adds to the error that is on its way in which step it came.
void tell_step(int64_t step, const char* where) {
  const std::string line = t_program_line ? t_program_line->describe() : "";
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Object told = Object::steal(PyObject_CallMethod(
      value, "add_note", "s",
      text("in step ", step, where, line.empty() ? "" : ", at  ", line).c_str()));
  if (!told) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

// _loop_forward(program, (carry, ys, results, stop), carry, xs, ys, rows, tape or None, reached):
// the carry, how many steps ran, and whether the loop has ended.
PyObject* forward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  int64_t at = -1, number = 0;
  t_program_line = nullptr;
  PyObject* result = guard([&]() -> PyObject* {
    if (n != 8) type_error("_loop_forward() takes 8 arguments");
    const Program& p = program_in(args[0]);
    Tensors carry = tensors_of(args[2], "_loop_forward(): carry");
    Tensors xs = tensors_of(args[3], "_loop_forward(): xs");
    Tensors ys = tensors_of(args[4], "_loop_forward(): ys", true);
    Tensors reached = tensors_of(args[7], "_loop_forward(): reached");
    auto [rows, first_number] = rows_of(args[5]);
    number = first_number;
    PyObject *carry_from, *ys_from;
    Py_ssize_t results;
    int stop;
    if (!PyArg_ParseTuple(args[1], "OOni:_loop_forward", &carry_from, &ys_from, &results, &stop))
      return nullptr;
    auto inputs = static_cast<int64_t>(p.inputs.size()),
         outputs = static_cast<int64_t>(p.outputs.size());
    StepForm form{places(carry_from, -inputs, outputs, "_loop_forward(): carry"),
                  places(ys_from, -inputs, outputs, "_loop_forward(): ys"),
                  static_cast<size_t>(results), stop};
    if (form.carry.size() != carry.size() || form.ys.size() != ys.size() || results < 0 ||
        stop < -1 || stop >= static_cast<int>(ys.size()) || results > outputs ||
        static_cast<int>(carry.size() + xs.size()) != p.given ||
        reached.size() + carry.size() + xs.size() != p.inputs.size())
      value_error("_loop_forward(): another number of tensors is expected");
    for (const std::vector<int>* from : {&form.carry, &form.ys}) {
      for (int k : *from)
        if (k >= 0) check_output(p, static_cast<size_t>(k));
    }
    for (size_t k = form.results; k < p.outputs.size(); ++k) check_output(p, k);
    check_rows(xs, rows, "_loop_forward()");
    check_rows(ys, rows, "_loop_forward()");
    Tape* tape = args[6] == Py_None ? nullptr : &tape_of(args[6]);
    GradMode off(false);
    Ran ran = loop_forward(p, form, carry, xs, reached, ys, rows, tape, &at);
    Object found = checked(list_of(carry));
    return Py_BuildValue("(OLO)", found.get(), static_cast<long long>(ran.steps),
                         ran.ended ? Py_True : Py_False);
  });
  if (!result && at >= 0) tell_step(number + at, " of those that ran, from 0");
  return result;
}

Arriving arriving_of(PyObject* o, const LoopGradients& g) {
  PyObject *carry, *ys;
  int reached;
  if (!PyArg_ParseTuple(o, "iOO:_loop_backward", &reached, &carry, &ys)) throw PythonError{};
  auto count = static_cast<int64_t>(g.ys.size());
  const char* what = "_loop_backward()";
  if (reached < -1 || reached >= static_cast<int>(g.reached.size()))
    value_error(what, ": there is no place ", reached);
  return {reached, places(carry, 0, static_cast<int64_t>(g.carry.size()), what),
          places(ys, -count, count, what)};
}

void put_back(PyObject* list, const Tensors& ts) {
  Object found = checked(list_of(ts));
  if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), found.get()) < 0) throw PythonError{};
}

// _loop_backward(program, arriving, kept, (tape, first, each), carry, reached, ys, xs, rows): how
// many steps were run. The lists `carry` and `reached` are changed.
PyObject* backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  int64_t at = -1, number = 0;
  t_program_line = nullptr;
  PyObject* result = guard([&]() -> PyObject* {
    if (n != 9) type_error("_loop_backward() takes 9 arguments");
    const Program& p = program_in(args[0]);
    if (!PyList_Check(args[4]) || !PyList_Check(args[5]))
      type_error("_loop_backward(): lists of gradients are expected");
    LoopGradients g{tensors_of(args[4], "_loop_backward(): carry", true),
                    tensors_of(args[5], "_loop_backward(): reached", true),
                    tensors_of(args[6], "_loop_backward(): ys", true),
                    tensors_of(args[7], "_loop_backward(): xs", true)};
    PyObject* tape;
    Py_ssize_t first, each;
    if (!PyArg_ParseTuple(args[3], "Onn:_loop_backward", &tape, &first, &each)) return nullptr;
    BackForm form;
    Object items = checked(PySequence_Fast(args[1], "_loop_backward(): a list is expected"));
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.get()); ++k)
      form.arriving.push_back(arriving_of(PySequence_Fast_GET_ITEM(items.get(), k), g));
    form.kept = places(args[2], 0, each, "_loop_backward(): kept");
    auto [rows, first_number] = rows_of(args[8]);
    number = first_number;
    const Tape& all = tape_of(tape);
    if (first < 0 || each < 0 || static_cast<int64_t>(all.size()) < first + rows.count() * each ||
        form.arriving.size() + form.kept.size() != p.inputs.size() ||
        p.outputs.size() != g.carry.size() + g.xs.size() + g.reached.size())
      value_error("_loop_backward(): another number of tensors is expected");
    check_rows(g.ys, rows, "_loop_backward()");
    for (const Arriving& a : form.arriving) {
      for (int k : a.ys) {
        if (k < 0) check_rows({g.ys[~k]}, {rows.at(-1), rows.at(-1) + 1}, "_loop_backward()");
      }
    }
    check_rows(g.xs, rows, "_loop_backward()");
    GradMode off(false);
    int64_t done = loop_backward(p, form, all, static_cast<size_t>(first),
                                 static_cast<size_t>(each), g, rows, &at);
    put_back(args[4], g.carry);
    put_back(args[5], g.reached);
    return PyLong_FromLongLong(done);
  });
  if (!result && at >= 0) tell_step(number + at, " of those that ran, from 0, on the way back");
  return result;
}

// _own_memory(results, operands): results that share memory neither with one another nor with operands:
// copies, where they would.
PyObject* own_memory(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_own_memory(results, operands)");
    std::unordered_set<const Storage*> seen;
    for (const Tensor& t : tensors_of(args[1], "_own_memory()")) seen.insert(t->storage);
    Tensors found = tensors_of(args[0], "_own_memory()");
    GradMode off(false);
    for (Tensor& t : found) {
      if (!seen.insert(t->storage).second) t = op<"clone">(t).tensor();
    }
    return list_of(found);
  });
}

// 0: loops may be programs; 1: those of plain tensors may, as a transform is under way; 2: none. A
// recording around them is another question.
PyObject* loop_mode(PyObject*, PyObject*) {
  uint32_t unusual = t_modes & kEagerModes & ~kCaptured;
  if (unusual & ~kTransforms || t_checkpoint_cache || t_plain_functions) return PyLong_FromLong(2);
  return PyLong_FromLong(unusual ? 1 : 0);
}

PyMethodDef functions[] = {
    {"_own_memory", reinterpret_cast<PyCFunction>(own_memory), METH_FASTCALL,
     "_own_memory(results, operands): copies of results that share memory with others."},
    {"_loop_mode", loop_mode, METH_NOARGS,
     "0: loops may be programs; 1: a transform is under way; 2: they may not."},
    {"_loop_forward", reinterpret_cast<PyCFunction>(forward), METH_FASTCALL,
     "_loop_forward(program, form, carry, xs, ys, rows, tape, reached): the carry after these "
     "steps, how "
     "many ran, and whether the loop has ended."},
    {"_loop_backward", reinterpret_cast<PyCFunction>(backward), METH_FASTCALL,
     "_loop_backward(program, arriving, kept, tape, carry, reached, ys, xs, rows): how many steps "
     "were run backward."},
    {nullptr}};

}  // namespace

void add_loops(PyObject* module) {
  tape_type.tp_name = "adjoint._core._Tape";
  tape_type.tp_basicsize = sizeof(TapeObject);
  tape_type.tp_flags = Py_TPFLAGS_DEFAULT;
  tape_type.tp_new = new_tape;
  tape_type.tp_dealloc = free_tape;
  tape_type.tp_methods = tape_methods;
  tape_type.tp_as_sequence = &tape_sequence;
  tape_type.tp_doc = "What the steps of a loop keep for their backward pass.";
  checked(PyType_Ready(&tape_type));
  checked(PyModule_AddObjectRef(module, "_Tape", reinterpret_cast<PyObject*>(&tape_type)));
  add_functions(module, functions);
}

}  // namespace adjoint
