// Views of a part: diagonal, unfold, and those that return several parts (select and slice are in
// basic_indexing.cpp). The transposes (a zero tensor with the part written into it) stand beside
// them. Read view_ops.cpp first.
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "ops/sparse/rules.h"
#include "python/interrupt.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// --- geometry, shared by views and their transposes ----------------------------------------------
Tensor selected(T t, int axis, int64_t index, bool recorded) {
  Dims shape(t.shape()), strides(t.strides());
  int64_t offset = checked_offset(t.offset(), index, strides[axis]);
  shape.erase(axis);
  strides.erase(axis);
  return recorded ? make_view(t, shape, strides, offset)
                  : on_storage(t->storage, shape, strides, offset, t.dtype());
}

Tensor sliced(T t, int axis, int64_t start, int64_t length, int64_t step, bool recorded) {
  Dims shape(t.shape()), strides(t.strides());
  int64_t offset = checked_offset(t.offset(), length ? start : 0, strides[axis]);
  shape[axis] = length;
  strides[axis] = stepped(strides[axis], step);
  return recorded ? make_view(t, shape, strides, offset)
                  : on_storage(t->storage, shape, strides, offset, t.dtype());
}

Tensor diagonal_of(T t, int64_t offset, int64_t dim1, int64_t dim2, bool recorded) {
  int a = wrap_dim(dim1, t.ndim()), b = wrap_dim(dim2, t.ndim());
  if (t.ndim() < 2 || a == b) {
    runtime_error("diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  }
  int64_t length = offset >= 0 ? std::min(t.size(a), t.size(b) - offset)
                               : std::min(t.size(a) + offset, t.size(b));
  length = std::max<int64_t>(length, 0);
  int64_t at = t.offset();
  if (length)
    at = offset >= 0 ? checked_offset(at, offset, t.stride(b))
                     : checked_offset(at, -offset, t.stride(a));
  Dims shape(t.shape()), strides(t.strides());
  int64_t step = checked_add(strides[a], strides[b]);
  for (int axis : {std::max(a, b), std::min(a, b)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(length);
  strides.push_back(step);
  return recorded ? make_view(t, shape, strides, at)
                  : on_storage(t->storage, shape, strides, at, t.dtype());
}

// Expanded and empty axes have any length; this many headers alone fill 10 GB.
void check_count(int64_t parts, const char* op_name) {
  constexpr int64_t most = int64_t(1) << 26;
  if (parts > most) runtime_error(op_name, ": at most ", most, " parts can be kept, got ", parts);
}

// Between parts. A signal handler is a Python function: it may give the tensor another shape.
void look_for_signals(NowAndThen& signals, T t, int axis) {
  signals.check(NowAndThen::kTensor);
  if (axis >= t.ndim()) runtime_error("the tensor was given another shape by a signal handler");
}

// Gradients of several parts, joined; parts that got none are zero.
Tensors all_grads(C c, int64_t n) {
  Tensors gs(n);
  for (int64_t k = 0; k < n; ++k) gs[k] = c.grad(static_cast<int>(k));
  return gs;
}

// The axes of a tensor as they lie in memory, the outermost first, where that is another order than
// theirs; otherwise nothing.
Value memory_order(T t) {
  if (t.contiguous() || !is_dense(t.shape(), t.strides())) return {};
  Dims order;
  for (int k = 0; k < t.ndim(); ++k) order.push_back(k);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return order;
}

// The gradients of all entries of an axis as one tensor that lies in memory as the tensor did. The
// views that made that of a contiguous one (heads of attention, by permute and unbind) can then be
// undone without a copy.
Tensor stack_in_order(Tensors grads, int axis, const Dims& order) {
  Dims others, inverse(order);
  int64_t place = 0;
  for (int k = 0; k < order.size(); ++k) {
    inverse[static_cast<int>(order[k])] = k;
    if (order[k] == axis)
      place = k;
    else
      others.push_back(order[k] - (order[k] > axis));
  }
  for (Tensor& g : grads) g = op<"permute">(g, others);
  return op<"permute">(op<"stack">(std::move(grads), place), inverse);
}

void join_parts(C c, Tensor* grads) {
  Dims sizes = c.kept().ints();
  Tensors gs = all_grads(c, sizes.size());
  grads[0] = op<"cat">(gs, c.in(2));
}

Value parts(Call& c, T t, int axis, const Dims& sizes) {
  Tensors out(sizes.size());
  NowAndThen signals;
  int64_t at = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    look_for_signals(signals, t, axis);
    out[i] = sliced(t, axis, at, sizes[i], 1, true);
    at += sizes[i];
  }
  c.kept = sizes;
  return out;
}

Value between(T t, int axis, const Dims& ends) {
  Tensors out;
  NowAndThen signals;
  int64_t at = 0;
  for (int i = 0; i <= ends.size(); ++i) {
    look_for_signals(signals, t, axis);
    int64_t end = i < ends.size() ? ends[i] : t.size(axis);
    out.push_back(op<"slice">(t, axis, at, end));
    at = end;
  }
  return out;
}

Value equal_parts(T t, int axis, int64_t sections, const char* op_name) {
  if (sections <= 0)
    runtime_error(op_name, ": number of sections must be larger than 0, got ", sections);
  check_count(sections, op_name);
  Dims ends;
  int64_t whole = t.size(axis) / sections, more = t.size(axis) % sections, at = 0;
  for (int64_t i = 0; i + 1 < sections; ++i) {
    at += whole + (i < more);
    ends.push_back(at);
  }
  return between(t, axis, ends);
}

}  // namespace

static const Op& unbind_ =
    def("unbind(input, dim: int = 0)", "Views at every index of an axis, as a tuple.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0)
            index_error("Dimension specified as ", c.integer(1), " but tensor has no dimensions");
          int axis = wrap_dim(c.integer(1), t.ndim());
          check_count(t.size(axis), "unbind");
          Tensors out(t.size(axis));
          NowAndThen signals;
          for (size_t i = 0; i < out.size(); ++i) {
            look_for_signals(signals, t, axis);
            out[i] = selected(t, axis, static_cast<int64_t>(i), true);
          }
          c.kept = memory_order(t);
          return out;
        })
        .vjp(nothing,
             [](C c, Tensor* grads) {
               Span shape = c.shape(0);
               int axis = wrap_dim(c.in(1).integer(), shape.n);
               Tensors gs = all_grads(c, shape[axis]);
               if (c.kept().is_none())
                 grads[0] = op<"stack">(gs, axis);
               else
                 grads[0] = stack_in_order(std::move(gs), axis, c.kept().ints());
             })
        .linear()
        .multi_view()
        .batch(batch::along)
        .sparse(sparse::unbind);

static const Op& split_ =
    def("split(input|tensor, split_size_or_sections|split_size: int, dim: int = 0)",
        "Views of consecutive parts of an axis, each of the given length but for the last.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0) runtime_error("split expects at least a 1-dimensional tensor");
          int axis = wrap_dim(c.integer(2), t.ndim());
          int64_t size = c.integer(1), n = t.size(axis);
          if (size < 0)
            runtime_error("split expects split_size be non-negative, but got split_size=", size);
          if (size == 0 && n != 0) {
            runtime_error(
                "split_size can only be 0 if dimension size is 0, but got dimension size of ", n);
          }
          int64_t whole = n ? n / size : 0, rest = n ? n % size : 0;
          check_count(whole, "split");
          Dims sizes(static_cast<int>(whole), size);
          if (rest || sizes.empty()) sizes.push_back(rest);
          return parts(c, t, axis, sizes);
        })
        .vjp(nothing, join_parts)
        .linear()
        .multi_view()
        .batch(batch::along);

static const Op& split_with_sizes_ =
    def("split_with_sizes(input, split_sizes: int[], dim: int = 0)",
        "Views of consecutive parts of an axis, of the given lengths.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0) runtime_error("split expects at least a 1-dimensional tensor");
          int axis = wrap_dim(c.integer(2), t.ndim());
          int64_t total = 0;
          for (int64_t s : c.ints(1)) {
            if (s < 0) {
              runtime_error(
                  "split_with_sizes expects split_sizes have only non-negative entries, "
                  "but got split_sizes=",
                  c.ints(1));
            }
            // What exceeds the length stays there: the sum of many could come round to it.
            if (total >= 0) total = s > t.size(axis) - total ? -1 : total + s;
          }
          if (total != t.size(axis)) {
            runtime_error("split_with_sizes expects split_sizes to sum exactly to ", t.size(axis),
                          " (input tensor's size at dimension ", axis,
                          "), but got split_sizes=", c.ints(1));
          }
          return parts(c, t, axis, c.ints(1));
        })
        .vjp(nothing, join_parts)
        .linear()
        .multi_view()
        .batch(batch::along);

static const Op& split_sections_ =
    def("split.sections(input|tensor, split_size_or_sections|split_size: int[], dim: int = 0)",
        "Views of consecutive parts of an axis, of the given lengths.")
        .forward([](Call& c) -> Value { return op<"split_with_sizes">(c[0], c[1], c[2]); })
        .no_out();

static const Op& chunk_ =
    def("chunk(input, chunks: int, dim: int = 0)",
        "Views of at most `chunks` consecutive parts of an axis, as equal as they can be.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0) runtime_error("chunk expects at least a 1-dimensional tensor");
          int64_t chunks = c.integer(1), n = t.size(wrap_dim(c.integer(2), t.ndim()));
          if (chunks <= 0) {
            runtime_error("chunk expects `chunks` to be greater than 0, got: ", chunks);
          }
          check_count(n == 0 ? chunks : 1, "chunk");
          if (n == 0) return op<"split_with_sizes">(t, Dims(static_cast<int>(chunks), 0), c[2]);
          return op<"split">(t, n / chunks + (n % chunks != 0), c[2]);
        })
        .no_out();

static const Op& tensor_split_ =
    def("tensor_split(input, indices_or_sections|sections: int, dim: int = 0)",
        "Views of a number of parts of an axis, whose lengths differ by at most one.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0)
            runtime_error(
                "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 "
                "dims");
          return equal_parts(t, wrap_dim(c.integer(2), t.ndim()), c.integer(1), "tensor_split");
        })
        .no_out();

static const Op& tensor_split_indices_ =
    def("tensor_split.indices(input, indices_or_sections|indices: int[], dim: int = 0)",
        "Views of the parts of an axis between the given indices.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0)
            runtime_error(
                "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 "
                "dims");
          return between(t, wrap_dim(c.integer(2), t.ndim()), c.ints(1));
        })
        .no_out();

static const Op& tensor_split_tensor_ =
    def("tensor_split.tensor_indices_or_sections(input, tensor_indices_or_sections, dim: int = 0)",
        "The same, with the number of parts or the indices in a tensor of int64.")
        .forward([](Call& c) -> Value {
          Tensor at = contiguous(c.tensor(1));
          if (at.dtype() != DType::Int64) {
            constexpr const char* kNames[kDTypes] = {
                // PyTorch's older ones
                "Bool",     "Byte",   "Char",   "Short",        "Int",
                "Long",     "UInt16", "UInt32", "UInt64",       "Half",
                "BFloat16", "Float",  "Double", "ComplexFloat", "ComplexDouble"};
            runtime_error(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
                kNames[static_cast<int>(at.dtype())]);
          }
          if (at.ndim() > 1) {
            runtime_error(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                "one-dimensional tensor, but got a tensor with ",
                at.ndim(), " dims");
          }
          const auto* first = reinterpret_cast<const int64_t*>(at.bytes());
          if (at.ndim() == 0) return op<"tensor_split">(c.tensor(0), *first, c.integer(2));
          Dims indices;
          for (int64_t i = 0; i < at.numel(); ++i) indices.push_back(first[i]);
          return op<"tensor_split.indices">(c.tensor(0), indices, c.integer(2));
        })
        .no_out()
        .takes_pending()
        .batch(batch::each_sample)
        .by_values()
        .any_dtype();

namespace {

// hsplit, vsplit, dsplit: tensor_split along axis 1, 0, 2, the length being a multiple.
Value split_evenly(Call& c, int axis, int least, const char* name) {
  Tensor t = c.tensor(0);
  if (t.ndim() < least) {
    runtime_error("torch.", name, " requires a tensor with at least ", least,
                  " dimension, but got a tensor with ", t.ndim(), " dimensions!");
  }
  if (t.ndim() == 1) axis = 0;
  if (c[1].kind() == Value::Ints) return op<"tensor_split.indices">(t, c[1], axis);
  if (c.integer(1) <= 0 || t.size(axis) % c.integer(1)) {
    runtime_error("torch.", name, " attempted to split along dimension ", axis,
                  ", but the size of the dimension ", t.size(axis),
                  " is not divisible by the split_size ", c.integer(1), "!");
  }
  return op<"tensor_split">(t, c[1], axis);
}

}  // namespace

static const Op& hsplit_ =
    def("hsplit(input, sections: int)", "tensor_split along the second axis.")
        .forward([](Call& c) { return split_evenly(c, 1, 1, "hsplit"); })
        .no_out();
static const Op& hsplit_indices_ =
    def("hsplit.indices(input, indices: int[])", "tensor_split along the second axis.")
        .forward([](Call& c) { return split_evenly(c, 1, 1, "hsplit"); })
        .no_out();
static const Op& vsplit_ = def("vsplit(input, sections: int)", "tensor_split along the first axis.")
                               .forward([](Call& c) { return split_evenly(c, 0, 2, "vsplit"); })
                               .no_out();
static const Op& vsplit_indices_ =
    def("vsplit.indices(input, indices: int[])", "tensor_split along the first axis.")
        .forward([](Call& c) { return split_evenly(c, 0, 2, "vsplit"); })
        .no_out();
static const Op& dsplit_ = def("dsplit(input, sections: int)", "tensor_split along the third axis.")
                               .forward([](Call& c) { return split_evenly(c, 2, 3, "dsplit"); })
                               .no_out();
static const Op& dsplit_indices_ =
    def("dsplit.indices(input, indices: int[])", "tensor_split along the third axis.")
        .forward([](Call& c) { return split_evenly(c, 2, 3, "dsplit"); })
        .no_out();

static const Op& diagonal_ =
    def("diagonal(input, offset: int = 0, dim1: int = 0, dim2: int = 1)",
        "A view of the diagonal of two axes, as a last axis.")
        .forward([](Call& c) -> Value {
          return diagonal_of(c.tensor(0), c.integer(1), c.integer(2), c.integer(3), true);
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                return op<"_diagonal_backward">(g, shape, c.in(1), c.in(2), c.in(3));
              })
        .linear()
        .view()
        .batch(batch::along);

static const Op& diagonal_backward_ =
    def("_diagonal_backward(input, shape: int[], offset: int, dim1: int, dim2: int)",
        "Zeros of `shape` with `input` on a diagonal.")
        .forward([](Call& c) -> Value {
          Tensor g = c.tensor(0), out = zeros(c.ints(1), g.dtype());
          copy_into(diagonal_of(out, c.integer(2), c.integer(3), c.integer(4), false), g);
          return out;
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"diagonal">(g, c.in(2), c.in(3), c.in(4)); })
        .linear()
        .internal()
        .batch(batch::by_sizes)
        .any_dtype();

static const Op& diagonal_scatter_ =
    def("diagonal_scatter(input, src, offset: int = 0, dim1: int = 0, dim2: int = 1)",
        "A copy of `input` in which diagonal(offset, dim1, dim2) is `src`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), src = c.tensor(1), whole = empty_like(t, t.dtype());
          Tensor part = diagonal_of(whole, c.integer(2), c.integer(3), c.integer(4), false);
          if (!(part.shape() == src.shape())) {
            runtime_error("expected src to have a size equal to the slice of self. src size = ",
                          src.shape(), ", slice size = ", part.shape());
          }
          copy_into(whole, t);
          copy_into(part, src);
          return whole;
        })
        .vjp(nothing,
             [](C c, Tensor* grads) {
               Tensor g = c.grad();
               Tensor part = op<"diagonal">(g, c.in(2), c.in(3), c.in(4));
               if (c.needs(0)) {
                 Tensor zero = zeros(part.shape(), g.dtype());
                 grads[0] = op<"diagonal_scatter">(g, zero, c.in(2), c.in(3), c.in(4));
               }
               if (c.needs(1)) grads[1] = part;
             })
        .linear()
        .batch(batch::along)
        .depends(Depends::Moved)
        .any_dtype();

static const Op& unfold_ =
    def("unfold(input, dimension: int, size: int, step: int)",
        "A view of all windows of `size` indices of an axis, `step` apart, as a last axis.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int axis = wrap_dim(c.integer(1), t.ndim());
          int64_t size = c.integer(2), step = c.integer(3), n = t.ndim() ? t.size(axis) : 1;
          if (size < 0) runtime_error("size is ", size, " but must be >= 0");
          if (size > n) {
            runtime_error("maximum size for tensor at dimension ", axis, " is ", n, " but size is ",
                          size);
          }
          if (step <= 0) runtime_error("step is ", step, " but must be > 0");
          Dims shape(t.shape()), strides(t.strides());
          shape.push_back(size);
          strides.push_back(t.ndim() ? t.stride(axis) : 1);
          if (t.ndim()) {
            shape[axis] = (n - size) / step + 1;
            strides[axis] = stepped(strides[axis], step);
          }
          return make_view(t, shape, strides, t.offset());
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                return op<"_unfold_backward">(g, shape, c.in(1), c.in(2), c.in(3));
              })
        .linear()
        .view()
        .method_only()
        .batch(batch::along);

static const Op& unfold_backward_ =
    def("_unfold_backward(input, shape: int[], dim: int, size: int, step: int)",
        "The sum of all windows, each at its place in zeros of `shape`.")
        .forward([](Call& c) -> Value {
          Tensor g = c.tensor(0), out = zeros(c.ints(1), g.dtype());
          if (out.ndim() == 0) return op<"reshape">(g, c[1]);
          GradMode off(false);
          int axis = wrap_dim(c.integer(2), out.ndim());
          int64_t count = g.size(axis), size = c.integer(3), step = c.integer(4);
          if (size < count) {  // the same element of all windows at a time
            for (int64_t j = 0; j < size; ++j) {
              Tensor to = sliced(out, axis, j, count, step, false);
              op_inplace<"add">(to, selected(g, g.ndim() - 1, j, false));
            }
            return out;
          }
          for (int64_t i = 0; i < count; ++i) {
            Tensor window = selected(g, axis, i, false);
            Tensor to = sliced(out, axis, i * step, size, 1, false);
            op_inplace<"add">(to, op<"movedim">(window, Dims{-1}, Dims{axis}));
          }
          return out;
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"unfold">(g, c.in(2), c.in(3), c.in(4)); })
        .linear()
        .internal()
        .batch(batch::by_sizes);

}  // namespace adjoint
