// Programs as data that can be written to a file, and data as programs. What comes from a file is
// not believed: its ops are called by name through the checks of the Python functions, on stand-ins, while
// a recording takes them down; loops are compared with the forms that they were recorded with before they
// are put together. python/adjoint/compiler/_exchange.py drives it, and should be read first.
#include <set>

#include "bindings/program/program.h"
#include "program/capture/capture.h"
#include "program/operand_rules.h"
#include "program/repeat.h"
#include "program/replay/replay.h"

namespace adjoint {
namespace {

Object list_from(const auto& numbers) {
  Object list = checked(PyList_New(0));
  for (auto n : numbers) checked(PyList_Append(list.get(), checked(PyLong_FromLongLong(n)).get()));
  return list;
}
void put(const Object& dict, const char* name, Object value) {
  checked(PyDict_SetItemString(dict.get(), name, value.get()));
}

// --- to data -------------------------------------------------------------------------------------
Object geometry_data(const TensorGeometry& g) {
  return checked(Py_BuildValue("(NNO)", list_from(g.shape).release(),
                               list_from(g.strides).release(), dtype_object(g.dtype)));
}

Object arguments_data(const Instruction& i) {
  Object list = checked(PyList_New(0));
  for (int k = 0; k < i.op->argument_count; ++k) {
    if (i.args[k].kind() == Value::Object)
      value_error("`", i.op->name, "` has a Python object as an argument (a generator)");
    checked(PyList_Append(list.get(), checked(to_python(i.args[k])).get()));
  }
  return list;
}

Object unfused_data(const Unfused& u);

Object repeat_data(const Repeat& loop) {
  Object data = checked(PyDict_New());
  if (!loop.body.unfused) value_error("a loop has no code to write down");
  put(data, "body", unfused_data(*loop.body.unfused));
  put(data, "count", checked(PyLong_FromLongLong(loop.count)));
  put(data, "carries", checked(PyLong_FromSize_t(loop.carries)));
  std::vector<int64_t> rows, taken, written, stacks;
  for (const auto& r : loop.rows) rows.insert(rows.end(), {r.offset, r.step});
  for (const auto& t : loop.taken) taken.insert(taken.end(), {t.run, t.output, t.write});
  for (const auto& w : loop.written)
    written.insert(written.end(), {w.output, w.write, w.first, w.last, w.offset, w.step});
  for (const auto& s : loop.stacks) stacks.insert(stacks.end(), {s.write, s.read});
  put(data, "rows", list_from(rows));
  put(data, "taken", list_from(taken));
  put(data, "written", list_from(written));
  put(data, "stacks", list_from(stacks));
  return data;
}

Object instruction_data(const Instruction& i) {
  Object data = checked(PyDict_New());
  auto kind = [&](const char* name) { put(data, "kind", checked(PyUnicode_FromString(name))); };
  switch (i.kind) {
    case Kind::Apply:
    case Kind::Change:
      if (i.changes) value_error("`", i.op->name, "` changes its operands");
      if (i.has_table())
        value_error("numbers of `", i.op->name, "` are others in each step of a loop");
      kind(i.kind == Kind::Apply ? "apply" : "change");
      if (!has_operand_rule(*i.op))
        value_error("`", i.op->name, "` trusts its operands, and could not trust those of a file");
      put(data, "op", checked(PyUnicode_FromString(i.op->full_name.c_str())));
      put(data, "args", arguments_data(i));
      break;
    case Kind::Alias:
      kind("header");
      break;
    case Kind::Constant:
      kind("constant");
      put(data, "constant", checked(to_python(i.more->constant)));
      break;
    case Kind::Rows:
      kind("rows");
      put(data, "places", list_from(i.more->places));
      break;
    case Kind::Repeat:
      kind("loop");
      put(data, "loop", repeat_data(*i.repeat()));
      break;
    case Kind::Host:
      // What it calls says itself what it is, if it can: python/adjoint/compiler/_host_data.py.
      if (i.changes) value_error("it runs Python that changes tensors (a step of an optimiser)");
      kind("host");
      put(data, "host", Object::borrow(i.more->host.python()));
      break;
    default:
      value_error("it reads or sets gradients of leaves");
  }
  std::vector<int> reads;
  for (const Read& r : i.reads) reads.insert(reads.end(), {r.reg, r.argument, r.item});
  put(data, "reads", list_from(reads));
  put(data, "writes", list_from(i.writes));
  return data;
}

Object unfused_data(const Unfused& u) {
  Object data = checked(PyDict_New());
  Object registers = checked(PyList_New(0)), code = checked(PyList_New(0));
  for (const Register& r : u.registers) {
    if (r.geometry().pending || r.data)
      value_error("a tensor has a pending sign, or is made by .data");
    checked(PyList_Append(
        registers.get(),
        checked(Py_BuildValue("(NLi)", geometry_data(r.geometry()).release(), r.offset, r.root))
            .get()));
  }
  for (const Instruction& i : u.code) checked(PyList_Append(code.get(), instruction_data(i).get()));
  put(data, "registers", std::move(registers));
  put(data, "code", std::move(code));
  put(data, "inputs", list_from(u.inputs));
  put(data, "outputs", list_from(u.outputs));
  return data;
}

// _program_data(program): its code, what its inputs are like, and the tensors that it holds.
PyObject* program_data(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    const Program& p = program_in(o);
    if (!p.unfused) value_error("a program has no code to write down");
    if (!p.grads.empty() || p.passes || p.identity.is_pinned() || !p.shares.empty())
      value_error(
          "it depends on which tensors its arguments are, on their gradients, or changes them");
    Object data = unfused_data(*p.unfused);
    put(data, "requires_grad", list_from(p.requires_grad));
    put(data, "leaf", list_from(p.leaf));
    put(data, "views", list_from(p.view));
    put(data, "default_dtype", Object::borrow(dtype_object(p.default_dtype)));
    return data.release();
  });
}

// --- from data -----------------------------------------------------------------------------------
struct Distrust {
  Capture& of;
  explicit Distrust(Capture& c) : of(c) { of.distrust(true); }
  ~Distrust() { of.distrust(false); }
};

// _call_op(name, in_place, args): an op by its full name, with all its arguments.
PyObject* call_op(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    const char* name = n == 3 ? PyUnicode_AsUTF8(args[0]) : nullptr;
    if (!name || !PyList_Check(args[2])) type_error("_call_op(name, in_place, args)");
    const Op& op = find_op(name);
    if (!has_operand_rule(op)) refuse_operands(op);
    const auto& arguments = op.schema.arguments;
    if (PyList_GET_SIZE(args[2]) != static_cast<Py_ssize_t>(arguments.size()))
      value_error("`", name, "` takes ", arguments.size(), " arguments, not ",
                  PyList_GET_SIZE(args[2]));
    std::vector<PyObject*> given, by_name;
    Object keywords = checked(PyList_New(0));
    for (size_t k = 0; k < arguments.size(); ++k) {
      PyObject* value = PyList_GET_ITEM(args[2], static_cast<Py_ssize_t>(k));
      if (!arguments[k].keyword_only) {
        given.push_back(value);
      } else if (value != Py_None || !arguments[k].has_default) {
        by_name.push_back(value);
        checked(PyList_Append(keywords.get(),
                              checked(PyUnicode_FromString(arguments[k].name.c_str())).get()));
      }
    }
    auto positional = static_cast<Py_ssize_t>(given.size());
    given.insert(given.end(), by_name.begin(), by_name.end());
    Object names = checked(PyList_AsTuple(keywords.get()));
    if (!captured()) runtime_error("_call_op(): there is no recording");
    Distrust inside(*static_cast<Capture*>(t_recorder));
    return call_ops({&op}, args[1] == Py_True, name, given.data(), positional,
                    by_name.empty() ? nullptr : names.get());
  });
}

Dims dims_of(PyObject* o, const char* what) {
  Dims d;
  if (!parse_ints(o, &d, PY_SSIZE_T_MAX)) type_error(what, ": a list of ints is expected");
  return d;
}
std::vector<int64_t> numbers_of(PyObject* dict, const char* name, size_t each) {
  PyObject* list = PyDict_GetItemString(dict, name);
  if (!list || !PyList_Check(list)) value_error("`", name, "` of a loop is no list");
  std::vector<int64_t> numbers;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k) {
    int64_t n;
    if (!parse_int(PyList_GET_ITEM(list, k), &n))
      type_error("`", name, "` of a loop holds no ints");
    numbers.push_back(n);
  }
  if (numbers.size() % each) value_error("`", name, "` of a loop has ", numbers.size(), " numbers");
  return numbers;
}
int64_t number_of(PyObject* dict, const char* name) {
  PyObject* found = PyDict_GetItemString(dict, name);
  int64_t n;
  if (!found || !parse_int(found, &n)) value_error("`", name, "` of a loop is no number");
  return n;
}

// Bytes of memory from the first element of a tensor to behind its last.
int64_t extent(const Tensor& t) {
  if (t.numel() == 0) return 0;
  int64_t last = 0;
  for (int k = 0; k < t.ndim(); ++k) last += (t.size(k) - 1) * t.strides()[k];
  return (last + 1) * static_cast<int64_t>(t.itemsize());
}
int64_t bytes_of(const Tensor& t) { return t.numel() * static_cast<int64_t>(t.itemsize()); }

bool fits(const TensorGeometry& g, const Tensor& t) { return g.is_of(t.get()); }

// Rows at offset + run * step, for runs [first, last), lie inside so many bytes.
void check_rows(int64_t offset, int64_t step, int64_t first, int64_t last, int64_t size,
                int64_t item, int64_t room) {
  constexpr int64_t kMost = int64_t{1} << 46;
  auto sane = [&](int64_t n) { return n > -kMost && n < kMost; };
  bool good = sane(offset) && sane(step) && first >= 0 && first <= last && last < (1 << 30) &&
              offset % item == 0 && step % item == 0;
  for (int64_t run : {first, std::max(first, last - 1)}) {
    int64_t at = good ? offset + run * step : -1;
    good = good && at >= 0 && at + size <= room;
  }
  if (!good) value_error("rows of a loop lie outside of their tensor");
}

void check_dense(const Tensor& t) {
  if (!is_dense(t.shape(), t.strides()) || t.pending()) value_error("a row is not dense");
}

// _recording_alias(recording, tensor, shape, strides, dtype, bytes): a part of its memory.
PyObject* add_alias(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    int64_t bytes;
    if (n != 6 || !is_tensor(args[1]) || !parse_int(args[5], &bytes))
      type_error("_recording_alias(recording, tensor, shape, strides, dtype, bytes)");
    Tensor base = Tensor::borrow(as_tensor(args[1]));
    const DType dtype = dtype_value(args[4]);
    // Complex numbers as their parts, or parts as complex numbers.
    if (dtype != base.dtype() && real_dtype(dtype) != real_dtype(base.dtype()))
      value_error("a part of a tensor has another dtype");
    const auto item = static_cast<int64_t>(item_size(dtype));
    if (std::abs(bytes) > (int64_t{1} << 46)) value_error("a part lies askew");
    const int64_t at = base->data - static_cast<char*>(base->storage->data) + bytes;
    if (at < 0 || at % item) value_error("a part lies askew");
    Dims shape = dims_of(args[2], "shape"), strides = dims_of(args[3], "strides");
    if (shape.size() != strides.size()) value_error("as many strides as sizes are expected");
    Tensor made = on_storage(base->storage, shape, strides, at / item, dtype);
    capture_in(args[0]).alias(base.get(), made.get());
    return to_python(made);
  });
}

// _recording_rows(recording, reads, places, like): see Kind::Rows.
PyObject* add_rows(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4 || !is_tensor(args[3]))
      type_error("_recording_rows(recording, reads, places, like)");
    Tensors reads = tensors_of(args[1], "reads");
    Dims places = dims_of(args[2], "places");
    Tensor made = Tensor::borrow(as_tensor(args[3]));
    check_dense(made);
    if (reads.empty() || static_cast<int>(reads.size()) != places.size())
      value_error("as many places as rows are expected");
    for (size_t k = 0; k < reads.size(); ++k) {
      if (k == 0 && places[0] == -1) {
        if (!fits(TensorGeometry(made.get()), reads[0])) value_error("a stack has another form");
        continue;
      }
      check_dense(reads[k]);
      if (reads[k].dtype() != made.dtype()) value_error("a row has another dtype");
      check_rows(places[static_cast<int>(k)], 0, 0, 1, bytes_of(reads[k]),
                 static_cast<int64_t>(made.itemsize()), bytes_of(made));
    }
    Instruction i{};
    i.kind = Kind::Rows;
    i.with_more().places.assign(places.begin(), places.end());
    capture_in(args[0]).append(std::move(i), reads, {made});
    Py_RETURN_NONE;
  });
}

// A loop from its description, whose numbers are compared with the forms of its operands.
class LoopBuilder {
 public:
  LoopBuilder(const Program& body, PyObject* data, const Tensors& reads, const Tensors& results)
      : reads_(reads), results_(results), made_(std::make_shared<Repeat>()) {
    made_->body = body;
    made_->count = number_of(data, "count");
    int64_t carries = number_of(data, "carries");
    if (made_->count < 1 || made_->count >= (1 << 30) || carries < 0 ||
        carries > static_cast<int64_t>(std::min(body.inputs.size(), body.outputs.size())))
      value_error("a loop of ", made_->count, " runs, with ", carries, " carries");
    made_->carries = static_cast<size_t>(carries);
    for (int r : body.outputs) {
      if (r < 0) value_error("a loop has no output where one is needed");
    }
    add_inputs(numbers_of(data, "rows", 2));
    add_stacks(numbers_of(data, "stacks", 2));
    add_taken(numbers_of(data, "taken", 3));
    add_written(numbers_of(data, "written", 6));
    for (size_t w = 0; w < results.size(); ++w) {
      if (!covered_.count(static_cast<int64_t>(w)))
        value_error("nothing gives result ", w, " of a loop");
    }
  }

  Instruction instruction() {
    Instruction i;
    i.kind = Kind::Repeat;
    for (const Instruction& one : made_->body.unfused->code) {
      i.may_fail |= one.may_fail;
      i.drawing |= one.draws();
    }
    i.with_more().repeat = made_;
    i.changes = !changed_reads(i).empty();
    return i;
  }

 private:
  const TensorGeometry& input(size_t n) const {
    return made_->body.registers[made_->body.inputs[n]].geometry();
  }
  const TensorGeometry& output(int64_t n) const {
    if (n < 0 || n >= static_cast<int64_t>(made_->body.outputs.size()))
      value_error("a loop has no output ", n);
    return made_->body.registers[made_->body.outputs[static_cast<size_t>(n)]].geometry();
  }
  const Tensor& result(int64_t w) const {
    if (w < 0 || w >= static_cast<int64_t>(results_.size()))
      value_error("a loop has no result ", w);
    return results_[static_cast<size_t>(w)];
  }

  void add_inputs(const std::vector<int64_t>& rows) {
    const size_t inputs = made_->body.inputs.size(), first = made_->carries;
    if (reads_.size() < inputs || first + rows.size() / 2 > inputs)
      value_error("a loop has ", inputs, " inputs and ", reads_.size(), " operands");
    for (size_t n = 0; n < inputs; ++n) {
      size_t row = n - first;
      if (n < first && !(output(static_cast<int64_t>(n)) == input(n)))
        value_error("a carry of a loop changes its form");
      if (n >= first && row < rows.size() / 2) {
        int64_t offset = rows[2 * row], step = rows[2 * row + 1];
        if (input(n).dtype != reads_[n].dtype()) value_error("a row has another dtype");
        Tensor like = empty_strided(input(n).shape, input(n).strides, input(n).dtype);
        check_rows(offset, step, 0, made_->count, extent(like),
                   static_cast<int64_t>(like.itemsize()), extent(reads_[n]));
        made_->rows.push_back({offset, step});
      } else if (!fits(input(n), reads_[n])) {
        value_error("operand ", n, " of a loop has another form than its body takes");
      }
    }
  }

  void add_stacks(const std::vector<int64_t>& numbers) {
    std::set<int64_t> bases;
    for (size_t k = 0; k < numbers.size(); k += 2) {
      int64_t write = numbers[k], read = numbers[k + 1];
      check_dense(result(write));
      if (!covered_.insert(write).second) value_error("a result of a loop is given twice");
      if (read != -1) {
        bool there = read >= static_cast<int64_t>(made_->body.inputs.size()) &&
                     read < static_cast<int64_t>(reads_.size()) && bases.insert(read).second;
        if (!there || !fits(TensorGeometry(result(write).get()), reads_[static_cast<size_t>(read)]))
          value_error("a stack has no memory to take");
      }
      made_->stacks.push_back({static_cast<int>(write), static_cast<int>(read)});
      stacks_.insert(write);
    }
  }

  void add_taken(const std::vector<int64_t>& numbers) {
    int64_t before = 0;
    for (size_t k = 0; k < numbers.size(); k += 3) {
      int64_t run = numbers[k], from = numbers[k + 1], write = numbers[k + 2];
      if (run < before || run >= made_->count) value_error("a loop has no run ", run, " there");
      if (!fits(output(from), result(write))) value_error("a result of a loop has another form");
      if (!covered_.insert(write).second) value_error("a result of a loop is given twice");
      made_->taken.push_back({before = run, static_cast<int>(from), static_cast<int>(write)});
    }
  }

  void add_written(const std::vector<int64_t>& numbers) {
    for (size_t k = 0; k < numbers.size(); k += 6) {
      const TensorGeometry& g = output(numbers[k]);
      const Tensor& to = result(numbers[k + 1]);
      if (!stacks_.count(numbers[k + 1]) || !g.dense || g.pending || g.dtype != to.dtype())
        value_error("a row is written to what is no stack of its kind");
      auto item = static_cast<int64_t>(item_size(g.dtype));
      if (numbers[k + 3] > made_->count) value_error("a loop has fewer runs");
      check_rows(numbers[k + 4], numbers[k + 5], numbers[k + 2], numbers[k + 3], g.numel * item,
                 item, bytes_of(to));
      made_->written.push_back({static_cast<int>(numbers[k]), static_cast<int>(numbers[k + 1]),
                                numbers[k + 2], numbers[k + 3], numbers[k + 4], numbers[k + 5]});
    }
  }

  const Tensors &reads_, &results_;
  std::shared_ptr<Repeat> made_;
  std::set<int64_t> covered_, stacks_;
};

// _recording_loop(recording, body, data, reads, results)
PyObject* add_loop(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 5 || !PyDict_Check(args[2]))
      type_error("_recording_loop(recording, body, data, reads, results)");
    const Program& body = program_in(args[1]);
    if (!body.unfused || !body.held.empty() || body.given != static_cast<int>(body.inputs.size()))
      value_error("the body of a loop reads what is not given to it");
    Tensors reads = tensors_of(args[3], "reads"), results = tensors_of(args[4], "results");
    Instruction i = LoopBuilder(body, args[2], reads, results).instruction();
    capture_in(args[0]).append(std::move(i), reads, results);
    Py_RETURN_NONE;
  });
}

// _recording_host(recording, run, reads, results): a call of Python, which is not made now. What it
// gives is compared with the forms of these results whenever it is.
PyObject* add_host(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4 || !PyCallable_Check(args[1]))
      type_error("_recording_host(recording, run, reads, results)");
    Tensors reads = tensors_of(args[2], "reads"), results = tensors_of(args[3], "results");
    Instruction i{};
    i.kind = Kind::Host;
    i.with_more().host = Value::object(args[1]);
    i.drawing = host_draws(args[1]);
    capture_in(args[0]).append(std::move(i), reads, results);
    Py_RETURN_NONE;
  });
}

// _program_given(program, count): so many of its inputs are the caller's, and the others come with
// each call.
PyObject* set_given(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    int64_t count;
    if (n != 2 || !parse_int(args[1], &count)) type_error("_program_given(program, count)");
    auto& p = const_cast<Program&>(program_in(args[0]));
    if (count < 0 || count > static_cast<int64_t>(p.inputs.size()) || !p.held.empty())
      value_error("a program takes ", p.inputs.size(), " tensors, not ", count);
    p.given = static_cast<int>(count);
    Py_RETURN_NONE;
  });
}

PyObject* last_results(PyObject*, PyObject* o) {
  return guard([&] { return list_of(capture_in(o).last_results()); });
}

// _program_inputs(program, requires_grad, leaf, view): what its inputs have to be like.
PyObject* set_inputs(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4) type_error("_program_inputs(program, requires_grad, leaf, view)");
    auto& p = const_cast<Program&>(program_in(args[0]));
    Dims requires_grad = dims_of(args[1], "requires_grad"), leaf = dims_of(args[2], "leaf"),
         view = dims_of(args[3], "views");
    for (const Dims* d : {&requires_grad, &leaf, &view}) {
      if (d->size() != static_cast<int>(p.inputs.size()))
        value_error("a fact for each input is expected");
    }
    for (size_t k = 0; k < p.inputs.size(); ++k) {
      int at = static_cast<int>(k);
      p.requires_grad[k] = requires_grad[at] != 0;
      p.leaf[k] = leaf[at] != 0;
      p.view[k] = static_cast<uint8_t>(view[at]);
    }
    Py_RETURN_NONE;
  });
}

// _program_bind(program, given, held): the inputs after the given ones are these tensors, from now on; what is given to a
// call is alike and repeated as `given` is.
PyObject* bind(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 3) type_error("_program_bind(program, given, held)");
    auto& p = const_cast<Program&>(program_in(args[0]));
    Tensors given = tensors_of(args[1], "given"), held = tensors_of(args[2], "held");
    if (given.size() + held.size() != p.inputs.size())
      value_error("a program takes ", p.inputs.size(), " tensors, not ",
                  given.size() + held.size());
    for (size_t k = 0; k < held.size(); ++k) {
      const TensorGeometry& g = p.registers[p.inputs[given.size() + k]].geometry();
      if (!g.is_of(held[k].get()))
        value_error("a tensor that the function reads was ", g.dtype, " ", Span(g.shape),
                    " and is ", held[k].dtype(), " ", held[k].shape(),
                    ", or lies in memory otherwise");
    }
    for (size_t k = 0; k < given.size(); ++k) {
      for (size_t j = 0; j < k; ++j) {
        if ((p.inputs[j] == p.inputs[k]) != given[j].is(given[k]))
          value_error("other arguments are one tensor");
      }
    }
    p.given = static_cast<int>(given.size());
    p.identity = Identity(given, {});
    p.held = std::move(held);
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {
    {"_program_data", program_data, METH_O, "The code of a program, as data."},
    {"_program_inputs", reinterpret_cast<PyCFunction>(set_inputs), METH_FASTCALL,
     "_program_inputs(program, requires_grad, leaf, view): what its inputs have to be like."},
    {"_program_bind", reinterpret_cast<PyCFunction>(bind), METH_FASTCALL,
     "_program_bind(program, given, held): what it reads besides what is given."},
    {"_call_op", reinterpret_cast<PyCFunction>(call_op), METH_FASTCALL,
     "_call_op(name, in_place, args): an op by its full name, with all its arguments."},
    {"_recording_last", last_results, METH_O,
     "What the last instruction of a recording has written."},
    {"_recording_alias", reinterpret_cast<PyCFunction>(add_alias), METH_FASTCALL,
     "_recording_alias(recording, tensor, shape, strides, dtype, bytes): a part of its memory."},
    {"_recording_rows", reinterpret_cast<PyCFunction>(add_rows), METH_FASTCALL,
     "_recording_rows(recording, reads, places, like): a tensor whose rows are others."},
    {"_recording_loop", reinterpret_cast<PyCFunction>(add_loop), METH_FASTCALL,
     "_recording_loop(recording, body, data, reads, results): a loop."},
    {"_recording_host", reinterpret_cast<PyCFunction>(add_host), METH_FASTCALL,
     "_recording_host(recording, run, reads, results): a call of Python."},
    {"_program_given", reinterpret_cast<PyCFunction>(set_given), METH_FASTCALL,
     "_program_given(program, count): how many of its inputs are the caller's."},
    {nullptr}};

}  // namespace

void add_exchange(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
