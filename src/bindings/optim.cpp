// The optimizers' steps: lists of tensors in, raw arrays to the kernels. What has no native loop
// (16-bit floats, complex numbers, strides, tangents) is computed with ops, by the same formulas.
// Read next: kernels/optim/formulas.h.
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
  return t->dtype == param->dtype && t->numel == param->numel && (t->flags & kContiguous) &&
         !(t->flags & kTransformed) && !t->storage->read_only;
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

// The arrays of parameter `i`; false when it has to be updated with ops. The gradient is columns[1].
bool add_row(Batch& batch, const Column* columns, int count, Py_ssize_t i) {
  TensorObject* row[5];
  int present = 0;
  TensorObject* param = columns[0].at(i);
  if (param->dtype != DType::Float32 && param->dtype != DType::Float64) return false;
  if (param->grad_fn) return false;
  for (int c = 0; c < count; ++c) {
    TensorObject* t = columns[c].at(i);
    if (!t) continue;
    if (!native(param, t)) return false;
    row[present++] = t;
  }
  if (!apart(row, present)) return false;
  auto data = [&](int c) -> char* {
    return c < count && columns[c] ? columns[c].at(i)->data : nullptr;
  };
  batch.arrays.push_back({.param = data(0),
                          .grad = data(1),
                          .first = data(2),
                          .second = data(3),
                          .largest = data(4),
                          .n = param->numel,
                          .dtype = param->dtype});
  for (int c = 0; c < count; ++c) {
    if (c != 1 && columns[c]) batch.changed.push_back(Tensor::borrow(columns[c].at(i)));
  }
  batch.elements += param->numel;
  return true;
}

// Python keeps the rest of an optimizer's state.
void refuse_step() {
  refuse_recording(
      "optimizer steps are not recorded; fix: call optimizer.step() outside the compiled "
      "function");
}

// A number of the formulas that is a whole tensor.
struct WholeTensor {
  using Number = Tensor;
  using Scalar = double;
  // A factor of one would make NaN of complex numbers that are infinite.
  static Tensor scaled(const Tensor& x, double s) { return s == 1 ? x : s == -1 ? -x : x * s; }
  static Tensor add_scaled(const Tensor& x, double s, const Tensor& y) {
    return op<"add">(x, y, s);
  }
  static Tensor add_product(const Tensor& x, double s, const Tensor& y, const Tensor& z) {
    return op<"addcmul">(x, y, z, s);
  }
  static Tensor add_quotient(const Tensor& x, double s, const Tensor& y, const Tensor& z) {
    return op<"addcdiv">(x, y, z, s);
  }
  static Tensor root_over(const Tensor& x, double scale, double eps) {
    return op<"sqrt">(x).tensor() / scale + eps;
  }
  static Tensor mixed(const Tensor& x, const Tensor& y, double mix, double) {
    return op<"lerp">(x, y, mix);
  }
  static Tensor larger(const Tensor& x, const Tensor& y) { return op<"maximum">(x, y); }
};

// The tensors of one parameter: values to compute with, written back at the end.
class Row {
 public:
  Row(const Column* columns, int count, Py_ssize_t i) : count_(count) {
    for (int c = 0; c < count; ++c) {
      if (columns[c]) values[c] = tensors_[c] = Tensor::borrow(columns[c].at(i));
    }
  }
  void write() const {
    for (int c = 0; c < count_; ++c) {
      if (c != 1 && tensors_[c]) op_inplace<"copy">(tensors_[c], values[c]);
    }
  }
  Tensor values[5];

 private:
  Tensor tensors_[5];
  int count_;
};

void sgd_by_ops(const Column* columns, Py_ssize_t i, const optim::SgdOptions& options) {
  Row row(columns, 3, i);
  Tensor &param = row.values[0], &grad = row.values[1], &velocity = row.values[2];
  const optim::SgdNumbers<double> numbers(options);
  optim::choose_sgd(options, static_cast<bool>(columns[2]),
                    [&]<bool Decay, optim::Velocity Kind, bool Nesterov>() {
                      optim::sgd_formula<WholeTensor, Decay, Kind, Nesterov>(param, grad, velocity,
                                                                             numbers);
                    });
  row.write();
}

void adam_by_ops(const Column* columns, Py_ssize_t i, const Tensor& step,
                 const optim::AdamOptions& options) {
  Row row(columns, 5, i);
  Tensor &param = row.values[0], &grad = row.values[1], &mean = row.values[2],
         &square = row.values[3], &largest = row.values[4];
  if (is_complex(param.dtype())) {
    not_implemented(
        "Adam for complex parameters is not in adjoint: optimise the real and imaginary parts");
  }
  if (step->numel != 1 || (step->flags & kTransformed)) {
    value_error("Adam's `step` must be one number, not a tensor of ", step->numel, " elements");
  }
  op_inplace<"add">(step, 1);
  const double count = *reinterpret_cast<const double*>(cast(step, DType::Float64)->data);
  const optim::AdamNumbers<double> numbers(options, count);
  optim::choose_adam(options, static_cast<bool>(columns[4]), [&]<bool Decay, bool Largest>() {
    optim::adam_formula<WholeTensor, Decay, Largest>(param, grad, mean, square, largest, numbers);
  });
  row.write();
}

double number(PyObject* o) {
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
  return value;
}

bool truth(PyObject* o) {
  const int value = PyObject_IsTrue(o);
  checked(value);
  return value != 0;
}

void expect(const char* name, Py_ssize_t given, Py_ssize_t wanted) {
  if (given != wanted)
    type_error(name, "() takes ", wanted, " arguments, but ", given, " were given");
}

PyObject* sgd_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guard([&]() -> PyObject* {
    expect("_sgd_step", count, 10);
    refuse_step();
    const Column params(args[0], "params", -1);
    if (!params) type_error("params must be a list of tensors, not None");
    const Column columns[] = {params, Column(args[1], "grads", params.size()),
                              Column(args[2], "momentum_buffers", params.size())};
    const optim::SgdOptions options = {.lr = number(args[4]),
                                       .momentum = number(args[5]),
                                       .dampening = number(args[6]),
                                       .weight_decay = number(args[7]),
                                       .nesterov = truth(args[8]),
                                       .maximize = truth(args[9]),
                                       .first = truth(args[3])};
    Batch batch;
    for (Py_ssize_t i = 0; i < params.size(); ++i) {
      if (!add_row(batch, columns, 3, i)) batch.left.push_back(i);
    }
    {
      WithoutGil release(batch.elements > kReleaseGil);
      optim::sgd_step(batch.arrays, options);
    }
    for (const Tensor& t : batch.changed) bump_version(t);
    for (Py_ssize_t i : batch.left) sgd_by_ops(columns, i, options);
    Py_RETURN_NONE;
  });
}

// Adam's step counter: a float32 scalar, as PyTorch keeps it.
bool is_counter(const TensorObject* t) {
  return t->dtype == DType::Float32 && t->numel == 1 && !t->storage->read_only;
}

PyObject* adam_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guard([&]() -> PyObject* {
    expect("_adam_step", count, 13);
    refuse_step();
    const Column params(args[0], "params", -1);
    if (!params) type_error("params must be a list of tensors, not None");
    const Py_ssize_t size = params.size();
    const Column columns[] = {
        params, Column(args[1], "grads", size), Column(args[2], "exp_avgs", size),
        Column(args[3], "exp_avg_sqs", size), Column(args[4], "max_exp_avg_sqs", size)};
    const Column steps(args[5], "steps", size);
    if (!steps) type_error("steps must be a list of tensors, not None");
    const optim::AdamOptions options = {.lr = number(args[6]),
                                        .beta1 = number(args[7]),
                                        .beta2 = number(args[8]),
                                        .eps = number(args[9]),
                                        .weight_decay = number(args[10]),
                                        .maximize = truth(args[11]),
                                        .decoupled = truth(args[12])};
    Batch batch;
    for (Py_ssize_t i = 0; i < size; ++i) {
      TensorObject* step = steps.at(i);
      if (!is_counter(step) || !add_row(batch, columns, 5, i)) {
        batch.left.push_back(i);
        continue;
      }
      float* counter = reinterpret_cast<float*>(step->data);
      batch.arrays.back().step = *counter += 1;
      batch.changed.push_back(Tensor::borrow(step));
    }
    {
      WithoutGil release(batch.elements > kReleaseGil);
      optim::adam_step(batch.arrays, options);
    }
    for (const Tensor& t : batch.changed) bump_version(t);
    for (Py_ssize_t i : batch.left) adam_by_ops(columns, i, Tensor::borrow(steps.at(i)), options);
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {
    {"_sgd_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(sgd_step)),
     METH_FASTCALL, "One step of SGD."},
    {"_adam_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(adam_step)),
     METH_FASTCALL, "One step of Adam."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_optim(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
