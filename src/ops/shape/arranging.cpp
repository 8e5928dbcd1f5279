// Copies with the elements in other places, or with some of them left out: flip, roll, rot90, diag,
// tril, triu.
#include "dispatch/op.h"
#include "kernels/move_bytes.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Value flip_forward(Call& c) {
  Tensor t = c.tensor(0), out = empty_like(t, t.dtype());
  Dims strides(t.strides());
  int64_t offset = t.offset();
  uint64_t seen = 0;
  for (int64_t d : c.ints(1)) {
    int axis = wrap_dim(d, t.ndim());
    if (seen >> axis & 1)
      runtime_error("dim ", axis, " appears multiple times in the list of dims");
    seen |= uint64_t{1} << axis;
    if (t.ndim() == 0 || t.numel() == 0) continue;
    offset += (t.size(axis) - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  copy_into(out, on_storage(t->storage, t.shape(), strides, offset, t.dtype()));
  return out;
}

// Elements up to which one thread copies, without planning anything.
constexpr int64_t kSmall = 1 << 15;

// One axis of `t`, moved by `shift`: two blocks that change places.
Tensor rolled(T t, int axis, int64_t shift) {
  Tensor out = empty(t.shape(), t.dtype());
  int64_t n = t.size(axis);
  shift = n ? (shift % n + n) % n : 0;
  if (t.contiguous() && t.numel() < kSmall) {
    char* to = out.bytes();
    const char* from = t.bytes();
    int64_t inner = static_cast<int64_t>(t.itemsize());
    for (int k = axis + 1; k < t.ndim(); ++k) inner *= t.size(k);
    int64_t whole = n * inner, first = shift * inner;
    int64_t end = t.numel() * static_cast<int64_t>(t.itemsize());
    for (int64_t at = 0; at < end; at += whole) {
      move_bytes(to + at + first, from + at, whole - first);
      move_bytes(to + at, from + at + whole - first, first);
    }
    return out;
  }
  auto part = [&](T whole, int64_t start, int64_t length) {
    Dims shape(whole.shape());
    shape[axis] = length;
    return on_storage(whole->storage, shape, whole.strides(),
                      whole.offset() + start * whole.stride(axis), whole.dtype());
  };
  copy_into(part(out, shift, n - shift), part(t, 0, n - shift));
  copy_into(part(out, 0, shift), part(t, n - shift, shift));
  return out;
}

Value roll_forward(Call& c) {
  Tensor t = c.tensor(0);
  const Dims &shifts = c.ints(1), dims = c[2].is_none() ? Dims() : c.ints(2);
  if (shifts.empty()) runtime_error("`shifts` required");
  for (int64_t s : shifts) checked_sub(0, s);  // which the gradient rolls by
  if (dims.empty() && shifts.size() == 1) {
    Tensor flat = contiguous(t);
    flat = on_storage(flat->storage, Dims{t.numel()}, Dims{1}, flat.offset(), t.dtype());
    if (t.numel())
      flat = rolled(flat, 0, shifts[0]);
    else
      flat = empty(Dims{0}, t.dtype());
    return on_storage(flat->storage, t.shape(), contiguous_strides(t.shape()), 0, t.dtype());
  }
  if (shifts.size() != dims.size()) {
    runtime_error("shifts and dimensions must align. shifts: ", shifts.size(),
                  ", dims:", dims.size());
  }
  Tensor out = t;
  for (int i = 0; i < dims.size(); ++i) {
    if (t.ndim() == 0)
      index_error("Dimension specified as ", dims[i], " but tensor has no dimensions");
    out = rolled(out, wrap_dim(dims[i], t.ndim()), shifts[i]);
  }
  return out;
}

// The parts of a rolled tensor: along each axis two blocks that change places, so 2^axes in all, by number
// `at`.
Tensor rolled_part(const Placing& p) {
  constexpr int kMostAxes = 3;
  const Dims &shifts = p.args[1].ints(), dims = p.args[2].is_none() ? Dims() : p.args[2].ints();
  if (dims.empty() && p.whole.ndim() != 1) return {};
  if (p.whole.ndim() == 0 || shifts.size() > kMostAxes) return {};
  Tensor part = p.whole;
  uint64_t seen = 0;
  for (int i = 0; i < shifts.size(); ++i) {
    int axis = dims.empty() ? 0 : wrap_dim(dims[i], p.whole.ndim());
    if (seen >> axis & 1) return {};
    seen |= uint64_t{1} << axis;
    int64_t n = p.whole.size(axis), shift = (shifts[i] % n + n) % n;
    bool wraps = p.at >> i & 1;
    part = wraps ? op<"narrow">(part, axis, 0, shift) : op<"narrow">(part, axis, shift, n - shift);
    p.from[axis] = wraps ? n - shift : 0;
  }
  p.again = ++p.at < int64_t{1} << shifts.size();
  return part;
}

Dims negated(Dims d) {
  for (int64_t& v : d) v = checked_sub(0, v);
  return d;
}

// Keeps the elements of row i in columns [begin(i), end(i)).
template <class Keep>
Value keep_columns(Call& c, const char* name, Keep&& keep) {
  Tensor t = c.tensor(0);
  if (t.ndim() < 2) {
    runtime_error(name, ": input tensor must have at least 2 dimensions, got ", t.ndim());
  }
  Tensor out = empty(t.shape(), t.dtype());
  copy_into(out, t);
  if (out.numel() == 0) return out;
  int64_t rows = t.size(-2), columns = t.size(-1);
  const size_t item = t.itemsize();
  for (int64_t r = 0; r < out.numel() / columns; ++r) {
    auto [begin, end] = keep(r % rows, columns);
    begin = std::clamp<int64_t>(begin, 0, columns);
    end = std::clamp<int64_t>(end, begin, columns);
    char* row = out.bytes() + r * columns * item;
    std::memset(row, 0, begin * item);
    std::memset(row + end * item, 0, (columns - end) * item);
  }
  return out;
}

}  // namespace

static const Op& flip_ =
    def("flip(input, dims|axis: int[*])", "The given axes in reverse.")
        .forward(flip_forward)
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"flip">(g, c.in(1)); })
        .linear()
        .rearranges()
        .no_out()
        .batch(batch::along)
        .any_dtype();

static const Op& fliplr_ = def("fliplr(input)", "The second axis in reverse.")
                               .forward([](Call& c) -> Value {
                                 if (c.tensor(0).ndim() < 2) runtime_error("Input must be >= 2-d.");
                                 return op<"flip">(c[0], Dims{1});
                               })
                               .no_out();

static const Op& flipud_ = def("flipud(input)", "The first axis in reverse.")
                               .forward([](Call& c) -> Value {
                                 if (c.tensor(0).ndim() < 1) runtime_error("Input must be >= 1-d.");
                                 return op<"flip">(c[0], Dims{0});
                               })
                               .no_out();

static const Op& roll_ =
    def("roll(input, shifts|shift: int[], dims|axis: int[]? = None)",
        "Elements moved along axes, those that fall off coming back at the other end.")
        .forward(roll_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"roll">(g, negated(c.in(1).ints()), c.in(2)); })
        .linear()
        .rearranges()
        .no_out()
        .batch([](Call& c, const int* axes) -> Value {
          if (!c[2].is_none() && !c.ints(2).empty()) return batch::along(c, axes);
          Tensor t = c.tensor(0);
          Tensor rolled = op<"roll">(batch::flat_sample(t), c[1], Dims{1});
          return op<"reshape">(rolled, t.shape());
        })
        .parts(rolled_part)
        .any_dtype();

static const Op& rot90_ =
    def("rot90(input, k: int = 1, dims: int[] = [0, 1])",
        "The plane of two axes, turned by 90 degrees k times, from the first towards the second.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const Dims& dims = c.ints(2);
          if (dims.size() != 2)
            runtime_error("expected total rotation dims == 2, but got dims = ", dims.size());
          if (t.ndim() < 2)
            runtime_error("expected total dims >= 2, but got total dims = ", t.ndim());
          for (int64_t d : dims) {  // PyTorch's class here, unlike elsewhere
            if (d < -t.ndim() || d >= t.ndim())
              runtime_error("Rotation dim out of range, dim = ", d, " of ", t.ndim(), " dims");
          }
          int a = wrap_dim(dims[0], t.ndim()), b = wrap_dim(dims[1], t.ndim());
          if (a == b) {
            runtime_error("expected rotation dims to be different, but got dim0 = ", dims[0],
                          " and dim1 = ", dims[1]);
          }
          GradMode off(false);
          switch ((c.integer(1) % 4 + 4) % 4) {  // the copy is ours: no view of anything
            case 1:
              return alias(op<"transpose">(op<"flip">(t, Dims{b}), a, b));
            case 2:
              return op<"flip">(t, Dims{a, b});
            case 3:
              return alias(op<"transpose">(op<"flip">(t, Dims{a}), a, b));
            default:
              return op<"clone">(t);
          }
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"rot90">(g, -(c.in(1).integer() % 4), c.in(2)); })
        .linear()
        .no_out()
        .batch(batch::along)
        .any_dtype();

static const Op& tril_ =
    def("tril(input, diagonal|k: int = 0)",
        "The matrix up to and including a diagonal, zero above it.")
        .forward([](Call& c) {
          int64_t k = c.integer(1);
          return keep_columns(c, "tril", [k](int64_t i, int64_t columns) {
            return std::pair(int64_t{0}, k >= columns ? columns : i + k + 1);
          });
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"tril">(g, c.in(1)); })
        .linear()
        .inplace()
        .batch(batch::as_is)
        .any_dtype();

static const Op& triu_ =
    def("triu(input, diagonal|k: int = 0)", "The matrix from a diagonal on, zero below it.")
        .forward([](Call& c) {
          int64_t k = c.integer(1);
          return keep_columns(c, "triu", [k](int64_t i, int64_t columns) {
            return std::pair(k >= columns ? columns : i + k, columns);
          });
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"triu">(g, c.in(1)); })
        .linear()
        .inplace()
        .batch(batch::as_is)
        .any_dtype();

static const Op& diag_embed_ =
    def("diag_embed(input, offset: int = 0, dim1: int = -2, dim2: int = -1)",
        "Matrices of zeros whose diagonals are the last axis of `input`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 0)
            runtime_error("diag_embed expects at least one axis, got a 0-d tensor");
          int64_t offset = c.integer(1),
                  n = checked_add(t.size(-1), offset < 0 ? checked_sub(0, offset) : offset);
          int a = wrap_dim(c.integer(2), t.ndim() + 1), b = wrap_dim(c.integer(3), t.ndim() + 1);
          if (a == b) {
            runtime_error("diagonal dimensions cannot be identical ", c.integer(2), ", ",
                          c.integer(3));
          }
          Dims shape(t.shape());
          shape.erase(t.ndim() - 1);
          shape.insert(std::min(a, b), n);
          shape.insert(std::max(a, b), n);
          GradMode off(false);
          return op<"_diagonal_backward">(t, shape, offset, a, b);
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"diagonal">(g, c.in(1), c.in(2), c.in(3)); })
        .linear()
        .no_out()
        .batch(batch::along_new)
        .any_dtype();

static const Op& diag_ =
    def("diag(input, diagonal: int = 0)",
        "The diagonal of a matrix, copied; or the matrix with a vector as its diagonal.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 1) return op<"diag_embed">(t, c[1]);
          if (t.ndim() == 2) return op<"clone">(op<"diagonal">(t, c[1]));
          runtime_error("diag(): Supports 1D or 2D tensors. Got ", t.ndim(), "D");
        });

static const Op& diagflat_ =
    def("diagflat(input, offset: int = 0)", "The matrix with all elements on its diagonal.")
        .forward(
            [](Call& c) -> Value { return op<"diag_embed">(op<"reshape">(c[0], Dims{-1}), c[1]); })
        .no_out();

static const Op& trace_ =
    def("trace(input)", "The sum of the diagonal of a matrix.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() != 2) {
            runtime_error("trace: expected a matrix, but got tensor with dim ", t.ndim());
          }
          if (t.dtype() == DType::Bool) not_implemented("\"trace\" not implemented for 'Bool'");
          GradMode off(false);
          return op<"sum.all">(op<"diagonal">(t));
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                Dims n{std::min(shape[0], shape[1])};
                return op<"_diagonal_backward">(op<"expand">(g, n), shape, 0, 0, 1);
              })
        .linear()
        .batch([](Call& c, const int*) -> Value {
          return op<"sum">(op<"diagonal">(c[0], 0, 1, 2), Dims{-1});
        })
        .autocast(Autocast::Float32);

}  // namespace adjoint
