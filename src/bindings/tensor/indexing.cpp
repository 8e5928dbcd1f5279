// Python's index objects, with PyTorch's meaning. Integers, slices, None and Ellipsis make views,
// one op each; what is left is a list of index tensors for the ops `index` and `index_put`.
// Read next: ops/shape/basic_indexing.cpp (the views), ops/index/indexing.cpp.
#include "bindings/tensor/indexing.h"

#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "dispatch/scalar_range.h"
#include "kernels/convert.h"
#include "transforms/batched.h"

namespace adjoint {

Tensor tensor_from_python(PyObject* data, const Value& dtype);  // creation.cpp

namespace {

bool is_mask(DType d) { return d == DType::Bool || d == DType::UInt8; }

// --- one axis -----------------------------------------------------------------------------------
Tensor select_axis(const Tensor& t, int dim, int64_t i, int real_dim) {
  if (t.ndim() == 0) {
    index_error(
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number");
  }
  int64_t n = t.size(dim);
  if (i < -n || i >= n) {
    index_error("index ", i, " is out of bounds for dimension ", real_dim, " with size ", n);
  }
  return op<"select">(t, dim, i);
}

// A bound of a slice: None, an int, anything with __index__. Python's own clipping keeps it in
// range.
Tensor slice_axis(const Tensor& t, int dim, PyObject* s, bool even_if_whole = false) {
  if (t.ndim() == 0) index_error("slice() cannot be applied to a 0-dim tensor.");
  Py_ssize_t start, stop, step;
  checked(PySlice_Unpack(s, &start, &stop, &step));
  if (step <= 0) value_error("step must be greater than zero");
  int64_t n = t.size(dim);
  bool whole = start == 0 && step == 1 && stop >= n;
  if (whole && !even_if_whole) return t;
  PySlice_AdjustIndices(n, &start, &stop, step);
  return op<"slice">(t, dim, static_cast<int64_t>(start), static_cast<int64_t>(stop),
                     static_cast<int64_t>(step));
}

// True and False are an axis of length one that is kept or dropped.
Tensor truth_index(bool on) { return zeros(Dims{on ? 1 : 0}, DType::Int64); }

// --- what an object is --------------------------------------------------------------------------
bool is_numpy_bool(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  return std::strcmp(name, "numpy.bool_") == 0 || std::strcmp(name, "numpy.bool") == 0;
}
bool is_truth(PyObject* o) { return PyBool_Check(o) || is_numpy_bool(o); }

bool is_sequence(PyObject* o) {
  return !is_tensor(o) && PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) &&
         !PyDict_Check(o);
}

// An integer, or an object that stands for one. Sequences and tensors are not asked.
bool parse_position(PyObject* o, int64_t* out) {
  if (PyLong_Check(o) && !PyBool_Check(o)) {
    return parse_int(o, out);
  }
  if (is_tensor(o) || PyFloat_Check(o) || is_truth(o) || is_sequence(o) || !PyIndex_Check(o)) {
    return false;
  }
  Object i = checked(PyNumber_Index(o));
  return parse_int(i.get(), out);
}

[[noreturn]] void invalid_index(PyObject* o) {
  index_error(
      "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
      "indices (got ",
      Py_TYPE(o)->tp_name, ")");
}

// Lists, tuples inside tuples, ranges, NumPy arrays: an index tensor. An array knows tolist().
Tensor sequence_tensor(PyObject* o) {
  Object data = Object::borrow(o);
  if (PyObject_HasAttrString(o, "tolist")) {
    data = checked(PyObject_CallMethod(o, "tolist", nullptr));
  } else if (!PyList_Check(o) && !PyTuple_Check(o)) {
    data = checked(PySequence_List(o));
  }
  Tensor t = tensor_from_python(data.get(), Value());
  return t.numel() == 0 && is_floating(t.dtype()) ? cast(t, DType::Int64) : t;
}

// A list is taken as a tuple when it is short and holds something that a tensor could not.
bool list_as_tuple(PyObject* o) {
  if (!PyList_Check(o)) return false;
  Py_ssize_t n = PyList_GET_SIZE(o);
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyList_GET_ITEM(o, i);
    if (is_tensor(item) || is_sequence(item) || PySlice_Check(item) || item == Py_Ellipsis ||
        item == Py_None) {
      return true;
    }
  }
  return false;
}

// --- the whole index ----------------------------------------------------------------------------
// How many axes an object uses up, for what Ellipsis stands for.
int axes_of(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || is_truth(o)) return 0;
  if (is_tensor(o) && is_mask(as_tensor(o)->dtype)) return as_tensor(o)->ndim;
  return 1;
}

class Reader {
 public:
  Reader(const Tensor& self, bool writing) : self_(self), view_(self), writing_(writing) {}

  void read(PyObject* key) {
    if (PyTuple_Check(key) || list_as_tuple(key)) {
      Object items = checked(PySequence_Tuple(key));
      read_items(&PyTuple_GET_ITEM(items.get(), 0), PyTuple_GET_SIZE(items.get()));
    } else {
      read_items(&key, 1);
    }
  }

  const Tensor& view() const { return view_; }
  bool has_tensors() const { return !indices_.empty(); }
  Tensors& indices() { return indices_; }

 private:
  void read_items(PyObject* const* items, Py_ssize_t n) {
    // NumPy arrays with axes that are masks use up as many; others one.
    std::vector<Object> made;
    std::vector<PyObject*> all(items, items + n);
    int used = 0;
    for (PyObject*& o : all) {
      if (is_sequence(o)) {
        made.push_back(checked(to_python(sequence_tensor(o))));
        o = made.back().get();
      }
      used += axes_of(o);
    }
    if (used > self_.ndim() && !(n == 1 && self_.ndim() == 0)) {
      index_error("too many indices for tensor of dimension ", self_.ndim());
    }
    rest_ = self_.ndim() - used;
    for (PyObject* o : all) read_item(o);
    if (differs_ && !adjacent()) {
      runtime_error(
          "vmap: writing to an index that holds a position that is vmapped over, and other index "
          "tensors apart from it, is not supported. fix: put them next to each other, or write in "
          "two steps");
    }
  }

  void read_item(PyObject* o) {
    int64_t i;
    if (parse_position(o, &i)) {
      view_ = select_axis(view_, dim_, i, axis_++);
    } else if (PySlice_Check(o)) {
      view_ = slice_axis(view_, dim_++, o);
      ++axis_;
    } else if (o == Py_Ellipsis) {
      dim_ += rest_;
      axis_ += rest_;
    } else if (o == Py_None) {
      view_ = op<"unsqueeze">(view_, dim_++);
    } else if (is_truth(o)) {
      add_truth(PyObject_IsTrue(o) == 1);
    } else if (is_tensor(o)) {
      read_tensor(Tensor::borrow(as_tensor(o)));
    } else {
      invalid_index(o);
    }
  }

  void read_tensor(const Tensor& t) {
    require_strided(t.get(), "an index");
    if (t.ndim() > 0 || !is_integral(t.dtype())) {
      if (!is_mask(t.dtype()) && t.dtype() != DType::Int64 && t.dtype() != DType::Int32) {
        index_error("tensors used as indices must be long, int, byte or bool tensors, not ",
                    t.dtype());
      }
      return add(t, is_mask(t.dtype()) ? t.ndim() : 1);
    }
    if (is_batched(t)) return read_batched(t);
    refuse_recording(
        "a tensor of one element is an index, which reads its value; fix: use index_select(), or "
        "x[i[None]][0]");
    int64_t value = load_int(t.dtype(), t->data);
    if (t.dtype() == DType::UInt64 && value < 0) value = INT64_MAX;  // out of range in any case
    if (is_mask(t.dtype())) return add_truth(value != 0);
    view_ = select_axis(view_, dim_, value, axis_++);
  }

  // A position that differs between the samples of a vmap: no view stands for that. What is read is
  // gathered at once, so that the order of axes is that of a position; what is written goes through
  // index_put.
  void read_batched(const Tensor& t) {
    if (is_mask(t.dtype())) {
      runtime_error(
          "vmap: It looks like you're indexing by a mask that is vmapped over: the samples of the "
          "result would differ in shape. Use torch.where instead.");
    }
    if (view_.ndim() == 0) index_error("invalid index of a 0-dim tensor.");
    Tensor at = op<"_to_copy">(t, Value(DType::Int64));
    if (writing_) {
      differs_ = true;
      return add(at, 1);
    }
    Tensors indices(static_cast<size_t>(dim_));
    indices.push_back(op<"unsqueeze">(at, 0));
    view_ = op<"squeeze.dim">(op<"index">(view_, Value(std::move(indices))).tensor(), dim_);
    ++axis_;
  }

  // Whether the index tensors stand next to each other.
  bool adjacent() const {
    size_t first = 0;
    while (first < indices_.size() && !indices_[first]) ++first;
    for (size_t i = first; i < indices_.size(); ++i) {
      if (!indices_[i]) return false;
    }
    return true;
  }

  void add_truth(bool on) {
    view_ = op<"unsqueeze">(view_, dim_);
    add(truth_index(on), 1);
    --axis_;
  }

  void add(const Tensor& t, int axes) {
    while (covered_ < dim_) indices_.emplace_back(), ++covered_;
    indices_.push_back(t);
    dim_ += axes;
    axis_ += axes;
    covered_ += axes;
  }

  const Tensor& self_;
  Tensor view_;
  bool writing_;
  bool differs_ = false;  // a position in indices_ differs between the samples of a vmap
  Tensors indices_;
  int dim_ = 0;      // the next axis of view_
  int axis_ = 0;     // the same, counted in self_
  int covered_ = 0;  // axes of view_ that indices_ speaks of
  int rest_ = 0;     // what Ellipsis stands for
};

// --- writing ------------------------------------------------------------------------------------
// The value as a tensor; numbers take the dtype of what they go into.
Tensor value_tensor(const Tensor& self, PyObject* o) {
  if (is_tensor(o)) return Tensor::borrow(as_tensor(o));
  Value v;
  if (self.dtype() == DType::UInt64 && parse_large_int(o, &v)) return v.tensor();
  if (!parse_number(o, &v)) {
    type_error("can't assign a ", Py_TYPE(o)->tp_name, " to a tensor of dtype ", self.dtype());
  }
  if (v.kind() == Value::Complex && !is_complex(self.dtype())) {
    type_error("can't assign a complex number to a tensor of dtype ", self.dtype());
  }
  require_fits(v, self.dtype());
  return scalar_tensor(v, self.dtype());
}

// Leading axes of length one say nothing.
Tensor without_leading_ones(const Tensor& v) {
  int ones = 0;
  while (ones < v.ndim() && v.size(ones) == 1) ++ones;
  return ones ? op<"reshape">(v, Span{v->shape + ones, v.ndim() - ones}).tensor() : v;
}

void copy_value(const Tensor& view, Tensor value) {
  if (value.ndim() > view.ndim()) value = without_leading_ones(value);
  for (int i = 1; i <= value.ndim(); ++i) {
    int64_t have = value.size(-i), want = i <= view.ndim() ? view.size(-i) : -1;
    if (have != 1 && have != want) {
      runtime_error("The expanded size of the tensor (", want, ") must match the existing size (",
                    have, ") at non-singleton dimension ", view.ndim() - i,
                    ".  Target sizes: ", view.shape(), ".  Tensor sizes: ", value.shape());
    }
  }
  op_inplace<"copy">(view, value);
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guard([&]() -> PyObject* {
    Tensor t = Tensor::borrow(as_tensor(self));
    if (PyLong_CheckExact(key)) {
      int64_t i;
      parse_int(key, &i);
      return to_python(select_axis(t, 0, i, 0));
    }
    if (PySlice_Check(key)) return to_python(slice_axis(t, 0, key, true));
    Reader r(t, false);
    r.read(key);
    if (r.has_tensors()) return to_python(op<"index">(r.view(), Value(std::move(r.indices()))));
    if (r.view().is(t)) return to_python(op<"alias">(t));
    return to_python(r.view());
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guard_int([&]() -> int {
    if (!value) type_error("Tensor does not support deleting items");
    Tensor t = Tensor::borrow(as_tensor(self));
    Tensor v = value_tensor(t, value);
    if (key == Py_False) return 0;  // an axis of length zero
    Reader r(t, true);
    r.read(key);
    if (r.has_tensors()) {
      v = without_leading_ones(v);
      op_inplace<"index_put">(r.view(), Value(std::move(r.indices())), v, false);
    } else {
      copy_value(r.view(), v);
    }
    return 0;
  });
}

PyObject* iterate(PyObject* self) {
  return guard([&]() -> PyObject* {
    Tensor t = Tensor::borrow(as_tensor(self));
    if (t.ndim() == 0) type_error("iteration over a 0-d tensor");
    Object rows = checked(to_python(op<"unbind">(t, 0)));
    return PyObject_GetIter(rows.get());
  });
}

int contains(PyObject* self, PyObject* element) {
  return guard_int([&]() -> int {
    Value v;
    if (is_tensor(element)) {
      v = Value(Tensor::borrow(as_tensor(element)));
    } else if (!parse_number(element, &v)) {
      Object type = checked(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(element))));
      runtime_error("Tensor.__contains__ only supports Tensor or scalar, but you passed in a ",
                    PyUnicode_AsUTF8(type.get()), ".");
    }
    GradMode off(false);
    Tensor any = op<"any">(op<"eq">(Tensor::borrow(as_tensor(self)), v));
    if (is_batched(any)) refuse_reading_batched("attempting data-dependent control flow on");
    refuse_recording("`in` reads values; fix: use (t == x).any()");
    return load_int(any.dtype(), any->data) != 0;
  });
}

}  // namespace adjoint
