// The optimizers' steps: lists of tensors in, raw arrays to the kernels. What has no native loop
// (16-bit floats, complex numbers, strides, tangents), and what is to be differentiated, is computed
// with ops, by the same formulas. Read next: kernels/optim/formulas.h.
#include <array>
#include <utility>

#include "bindings/python.h"
#include "dispatch/op.h"
#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "kernels/optim/formulas.h"
#include "python/gil.h"

namespace adjoint {
namespace {

// One argument: a list of tensors as long as the list of parameters, or None.
class Column {
 public:
  Column(PyObject* o, const char* name, Py_ssize_t size) {
    if (o == Py_None) return;
    if (!PyList_Check(o)) type_error(name, " must be a list of tensors, not ", Py_TYPE(o)->tp_name);
    if (size >= 0 && PyList_GET_SIZE(o) != size) {
      value_error(name, " has ", PyList_GET_SIZE(o), " entries for ", size, " parameters");
    }
    list_ = o;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
      PyObject* item = PyList_GET_ITEM(o, i);
      if (!is_tensor(item)) type_error(name, "[", i, "] is not a tensor: ", Py_TYPE(item)->tp_name);
    }
  }
  explicit operator bool() const { return list_ != nullptr; }
  Py_ssize_t size() const { return PyList_GET_SIZE(list_); }
  TensorObject* at(Py_ssize_t i) const {
    return list_ ? as_tensor(PyList_GET_ITEM(list_, i)) : nullptr;
  }

 private:
  PyObject* list_ = nullptr;
};

// Parameters with arrays for the kernels, and the positions of the others.
struct Batch {
  std::vector<optim::Arrays> arrays;
  Tensors changed;  // kept alive while the GIL is released
  std::vector<Py_ssize_t> left;
  int64_t elements = 0;
};

bool native(const TensorObject* param, const TensorObject* t) {
  if (t->dtype != param->dtype || t->storage->read_only ||
      (t->flags & (kTransformed | kSparse | kPending)))
    return false;
  if ((t->flags & kContiguous) && (param->flags & kContiguous)) return t->numel == param->numel;
  const Span shape{t->shape, t->ndim}, strides{t->strides, t->ndim};
  return shape == Span{param->shape, param->ndim} && strides == Span{param->strides, param->ndim} &&
         is_dense(shape, strides);
}

// True when no two of the row's arrays share memory: the kernels rely on it.
bool apart(TensorObject* const* row, int count) {
  for (int i = 0; i < count; ++i) {
    const size_t bytes = row[i]->numel * item_size(row[i]->dtype);
    for (int j = 0; j < count; ++j) {
      if (i != j && row[j]->data >= row[i]->data && row[j]->data < row[i]->data + bytes)
        return false;
    }
  }
  return true;
}

// The arrays of parameter `i`; false when it has to be updated with ops.
bool add_row(Batch& batch, const Column* columns, int count, Py_ssize_t i) {
  TensorObject* row[optim::kMaxColumns];
  int present = 0;
  TensorObject* param = columns[0].at(i);
  if (param->grad_fn) return false;
  // Complex numbers are pairs of elements.
  const bool pairs = is_complex(param->dtype);
  const DType element = pairs ? real_dtype(param->dtype) : param->dtype;
  if (element != DType::Float32 && element != DType::Float64) return false;
  optim::Arrays arrays{.n = pairs ? 2 * param->numel : param->numel, .dtype = element};
  for (int c = 0; c < count; ++c) {
    TensorObject* t = columns[c].at(i);
    if (!t) continue;
    if (!native(param, t)) return false;
    row[present++] = t;
    arrays.columns[c] = memory_of(t);
  }
  if (!apart(row, present)) return false;
  batch.arrays.push_back(arrays);
  for (int c = 0; c < count; ++c) {
    if (c != 1 && columns[c]) batch.changed.push_back(Tensor::borrow(columns[c].at(i)));
  }
  batch.elements += param->numel;
  return true;
}

// Python keeps the rest of an optimizer's state.
void refuse_step() {
  refuse_recording(
      "optimizer steps are not recorded; fix: call optimizer.step() outside of the compiled "
      "function");
}

// A number of the formulas that is the same for all elements: itself a tensor where a gradient by
// it may be wanted (a learning rate that is learned).
struct Amount {
  double value = 0;
  Tensor tensor = {};
};

// A number of the formulas that is a whole tensor.
struct WholeTensor {
  using Number = Tensor;
  using Scalar = Amount;
  // A factor of one would make NaN of complex numbers that are infinite.
  static Tensor scaled(const Tensor& x, const Amount& s) {
    if (s.tensor) return x * s.tensor;
    return s.value == 1 ? x : s.value == -1 ? -x : x * s.value;
  }
  static Tensor divided(const Tensor& x, const Amount& s) {
    return s.tensor ? x / s.tensor : x / s.value;
  }
  static Tensor dividing(const Amount& s, const Tensor& x) {
    return scaled(op<"reciprocal">(x), s);
  }
  static Tensor plus(const Tensor& x, const Amount& s) {
    return s.tensor ? x + s.tensor : x + s.value;
  }
  static Tensor sum(const Tensor& x, const Tensor& y) { return x + y; }
  static Tensor difference(const Tensor& x, const Tensor& y) { return x - y; }
  static Tensor product(const Tensor& x, const Tensor& y) { return x * y; }
  static Tensor quotient(const Tensor& x, const Tensor& y) { return x / y; }
  static Tensor add_scaled(const Tensor& x, const Amount& s, const Tensor& y) {
    if (s.tensor) return x + s.tensor * y;
    return op<"add">(x, y, s.value);
  }
  static Tensor add_product(const Tensor& x, const Tensor& y, const Tensor& z) {
    return op<"addcmul">(x, y, z, 1);
  }
  static Tensor add_product(const Tensor& x, const Amount& s, const Tensor& y, const Tensor& z) {
    if (s.tensor) return x + s.tensor * y * z;
    return op<"addcmul">(x, y, z, s.value);
  }
  static Tensor subtract_product(const Tensor& x, const Tensor& y, const Tensor& z) {
    return op<"addcmul">(x, y, z, -1);
  }
  static Tensor add_quotient(const Tensor& x, const Tensor& y, const Tensor& z) {
    return op<"addcdiv">(x, y, z, 1);
  }
  static Tensor add_quotient(const Tensor& x, const Amount& s, const Tensor& y, const Tensor& z) {
    if (s.tensor) return x + s.tensor * y / z;
    return op<"addcdiv">(x, y, z, s.value);
  }
  static Tensor root(const Tensor& x) { return op<"sqrt">(x); }
  static Tensor absolute(const Tensor& x) { return op<"abs">(x); }
  static Tensor sign(const Tensor& x) { return op<"sign">(x); }
  static Tensor mixed(const Tensor& x, const Tensor& y, const Amount& mix) {
    if (mix.tensor) return x + mix.tensor * (y - x);
    return op<"lerp">(x, y, mix.value);
  }
  static Tensor larger(const Tensor& x, const Tensor& y) { return op<"maximum">(x, y); }
  static Tensor clamped(const Tensor& x, const Amount& low, const Amount& high) {
    return op<"clamp">(x, low.value, high.value);
  }
  static Tensor by_sign(const Tensor& x, const Amount& negative, const Amount& positive) {
    const Tensor turned = op<"where">(op<"lt">(x, 0), negative.value, op<"_ones_like">(x));
    return op<"where">(op<"gt">(x, 0), positive.value, turned);
  }
  static Tensor unless_negative(const Tensor& x, const Tensor& y) {
    return op<"where">(op<"lt">(x, 0), 0, y);
  }
};

// The numbers of a step as they were given.
struct Numbers {
  Amount amounts[optim::kMaxNumbers];
  bool plain = true;  // no tensors among them
};

// The step of one parameter with ops: values to compute with, written back at the end.
template <class R>
void by_ops(const Column* columns, Py_ssize_t i, unsigned choice, const Numbers& numbers) {
  Tensor tensors[R::kColumns], values[R::kColumns];
  Amount amounts[R::kNumbers];
  for (int c = 0; c < R::kColumns; ++c) {
    if (!columns[c]) continue;
    tensors[c] = Tensor::borrow(columns[c].at(i));
    values[c] = tensors[c];
    if (is_complex(tensors[c].dtype())) {
      values[c] = op<"view_as_real">(op<"resolve_conj">(tensors[c]));
      if (!tensors[c].has(kConjugate)) tensors[c] = values[c];
    }
    // Written over at the end, so what the graph keeps of it is a copy.
    if (c != 1 && grad_enabled()) values[c] = op<"clone">(values[c]);
  }
  for (int k = 0; k < R::kNumbers; ++k) amounts[k] = numbers.amounts[k];
  optim::choose<R>(choice, [&]<unsigned Choice>() {
    R::template update<WholeTensor, Choice>(values, amounts);
    for (int c = 0; c < R::kColumns; ++c) {
      if (!R::writes(Choice, c)) continue;
      const bool pairs = is_complex(tensors[c].dtype());
      if (pairs) values[c] = op<"view_as_complex">(op<"contiguous">(values[c]));
      op_inplace<"copy">(tensors[c], values[c]);
    }
  });
}

// What a caller has to know of a rule, for all of them by number.
struct Entry {
  const char* name;
  int columns, numbers;
  bool (*valid)(unsigned choice);
  bool (*needs)(unsigned choice, int column);
  void (*by_ops)(const Column*, Py_ssize_t, unsigned, const Numbers&);
};

template <class R>
constexpr Entry entry_of() {
  return {R::kName,
          R::kColumns,
          R::kNumbers,
          [](unsigned choice) { return choice < R::kChoices && R::valid(choice); },
          [](unsigned choice, int c) { return R::reads(choice, c) || R::writes(choice, c); },
          by_ops<R>};
}

template <size_t... K>
constexpr std::array<Entry, sizeof...(K)> all_entries(std::index_sequence<K...>) {
  return {entry_of<std::tuple_element_t<K, optim::Rules>>()...};
}

constexpr auto kEntries = all_entries(std::make_index_sequence<optim::kRules>());

int rule_named(PyObject* name) {
  if (PyUnicode_Check(name)) {
    for (int k = 0; k < optim::kRules; ++k) {
      if (PyUnicode_CompareWithASCIIString(name, kEntries[k].name) == 0) return k;
    }
  }
  value_error("there is no optimizer with this rule");
}

double number(PyObject* o) {
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
  return value;
}

Numbers numbers_of(PyObject* given, const Entry& rule, optim::Step& step) {
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != rule.numbers) {
    value_error("the rule `", rule.name, "` takes a tuple of ", rule.numbers, " numbers");
  }
  Numbers result;
  for (int k = 0; k < rule.numbers; ++k) {
    PyObject* item = PyTuple_GET_ITEM(given, k);
    Amount& amount = result.amounts[k];
    // A value is all that is wanted where nothing is recorded.
    if (is_tensor(item) && grad_enabled()) {
      amount.tensor = Tensor::borrow(as_tensor(item));
      result.plain = false;
    } else {
      step.numbers[k] = amount.value = number(item);
    }
  }
  return result;
}

void expect(const char* name, Py_ssize_t given, Py_ssize_t wanted) {
  if (given != wanted)
    type_error(name, "() takes ", wanted, " arguments, but ", given, " were given");
}

constexpr const char* kColumnNames[] = {"params", "grads", "state 1", "state 2", "state 3"};

// _optimizer_step(rule, columns, numbers, choice): one step for all parameters.
PyObject* optimizer_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guard([&]() -> PyObject* {
    expect("_optimizer_step", count, 4);
    refuse_step();
    optim::Step step{.rule = rule_named(args[0])};
    const Entry& rule = kEntries[step.rule];
    step.choice = static_cast<unsigned>(PyLong_AsLong(args[3]));
    if (PyErr_Occurred()) throw PythonError{};
    if (!rule.valid(step.choice)) value_error("`", rule.name, "` has no choice ", step.choice);
    if (!PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) != rule.columns) {
      value_error("the rule `", rule.name, "` takes a tuple of ", rule.columns, " columns");
    }
    std::vector<Column> columns;
    for (int c = 0; c < rule.columns; ++c) {
      columns.emplace_back(PyTuple_GET_ITEM(args[1], c), kColumnNames[c],
                           c ? columns[0].size() : -1);
      if (!columns[c] && rule.needs(step.choice, c))
        type_error(kColumnNames[c], " must be a list of tensors, not None");
    }
    const Numbers numbers = numbers_of(args[2], rule, step);
    Batch batch;
    const bool by_loops = numbers.plain && !grad_enabled();
    for (Py_ssize_t i = 0; i < columns[0].size(); ++i) {
      if (!by_loops || !add_row(batch, columns.data(), rule.columns, i)) batch.left.push_back(i);
    }
    {
      WithoutGil release(batch.elements > kReleaseGil);
      optim::run_step(batch.arrays, step);
    }
    for (const Tensor& t : batch.changed) bump_version(t);
    for (Py_ssize_t i : batch.left) rule.by_ops(columns.data(), i, step.choice, numbers);
    Py_RETURN_NONE;
  });
}

// One more step of one parameter, whose counter is a scalar tensor as PyTorch keeps it.
double counted(TensorObject* step) {
  if (step->numel != 1 || (step->flags & kTransformed)) {
    value_error("an optimizer's `step` must be one number, not a tensor of ", step->numel,
                " elements");
  }
  const Tensor counter = Tensor::borrow(step);
  if (step->dtype != DType::Float32 || step->storage->read_only ||
      (step->flags & (kRequiresGrad | kPending))) {
    op_inplace<"add">(counter, 1);
    return *cast(counter, DType::Float64).data<double>();
  }
  bump_version(counter);
  return *reinterpret_cast<float*>(memory_of(step)) += 1;
}

// _count_steps(steps): adds one to each counter and returns them as numbers.
PyObject* count_steps(PyObject*, PyObject* given) {
  return guard([&]() -> PyObject* {
    refuse_step();
    const Column steps(given, "steps", -1);
    if (!steps) type_error("steps must be a list of tensors, not None");
    Object counts = checked(PyList_New(steps.size()));
    for (Py_ssize_t i = 0; i < steps.size(); ++i) {
      PyList_SET_ITEM(counts.get(), i, checked(PyFloat_FromDouble(counted(steps.at(i)))).release());
    }
    return counts.release();
  });
}

PyMethodDef functions[] = {
    {"_optimizer_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(optimizer_step)),
     METH_FASTCALL, "One step of an optimizer."},
    {"_count_steps", count_steps, METH_O, "Add one to each step counter; the counts."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_optim(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
