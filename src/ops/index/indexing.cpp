// Advanced indexing: index, index_put, and the ops that take rows along one axis.
// Read next: offsets.h for how index tensors become places, bindings/tensor/indexing.cpp for x[...].
#include "dispatch/overlap.h"
#include "dispatch/program_recorder.h"
#include "dispatch/scalar_range.h"
#include "ops/index/offsets.h"
#include "ops/sparse/rules.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// An axis may be left out of a 0-d tensor: it counts as a vector of one.
Dims with_length(Span shape, int dim, int64_t n) {
  Dims out(shape);
  if (shape.n) out[dim] = n;
  return out;
}

Value index_put_forward(Call& c) {
  Tensor t = c.tensor(0), values = c.tensor(2);
  Tensor to = changeable(c);
  IndexPlan plan = plan_index(to, c.tensors(1));
  Span shape = values.shape();
  for (int i = 1; i <= shape.size(); ++i) {
    int64_t have = shape[shape.size() - i];
    int64_t want = i <= plan.shape.size() ? plan.shape[plan.shape.size() - i] : 1;
    if (i > plan.shape.size() || (have != 1 && have != want)) {
      runtime_error("shape mismatch: value tensor of shape ", shape,
                    " cannot be broadcast to indexing result of shape ", plan.shape);
    }
  }
  if (values.dtype() != t.dtype()) {
    runtime_error("Index put requires the source and destination dtypes match, got ", t.dtype(),
                  " for the destination and ", values.dtype(),
                  " for the source. (fix: convert the source with .to(", t.dtype(), "))");
  }
  values = apart(values, to);
  if (values.numel() != 1) values = broadcast_dense(values, plan.shape);
  write_places(to, values, plan.places, c.flag(3) ? Reduce::Add : Reduce::Replace);
  return to;
}

void check_rows(T t, int dim, T index, T source, ErrorClass kind, const char* name) {
  bool vector = source.ndim() <= 1 && t.ndim() <= 1;
  int64_t have = source.ndim() ? source.size(std::min(dim, source.ndim() - 1)) : 1;
  bool fits = vector || source.ndim() == t.ndim();
  for (int d = 0; fits && !vector && d < t.ndim(); ++d) {
    fits = d == dim || t.size(d) == source.size(d);
  }
  if (!fits) {
    fail(kind, name,
         "(): source tensor shape must match self tensor shape, excluding the specified dimension. "
         "Got self.shape = ",
         t.shape(), " source.shape = ", source.shape());
  }
  if (have != index.numel()) {
    fail(kind, name, "(): Number of indices (", index.numel(),
         ") should be equal to source.size(dim): (", have, "), for dim: ", dim);
  }
}

// index_add and index_copy: rows of `source` go to rows `index` of a copy of the input.
Value put_rows(Call& c, Reduce how, T source, const char* name) {
  Tensor t = c.tensor(0), index = c.tensor(2);
  if (source.dtype() != t.dtype()) {
    runtime_error(name, "(): self (", t.dtype(), ") and source (", source.dtype(),
                  ") must have the same scalar type");
  }
  int dim = wrap_dim(c.integer(1), t.ndim());
  ErrorClass kind = how == Reduce::Add ? ErrorClass::Runtime : ErrorClass::Index;
  check_rows(t, dim, index, source, kind, name);
  Tensor to = changeable(c);
  Places places = plan_rows(to, dim, index, name);
  if (places.numel()) {
    // A source of one element stands for all places only when there is one place.
    write_places(to, apart(source, to), places, how);
  }
  return to;
}

Tensor zeros_of(C c, T g) { return zeros(c.shape(0), g.dtype()); }

}  // namespace

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

bool has_mask(const Tensors& ts) {
  for (const Tensor& t : ts) {
    if (t && is_mask(t)) return true;
  }
  return false;
}

struct Indices {
  bool adjacent = true;
  int first = -1, ndim = 0, count = 0;
};

Indices study(const Tensors& ts, bool batched) {
  Indices s;
  int last = -1, place = 0;
  for (const Tensor& t : ts) {
    if (t) {
      if (s.first < 0) s.first = place;
      if (last >= 0 && last != place - 1) s.adjacent = false;
      last = place;
      bool mask = is_mask(t);
      s.ndim = std::max(s.ndim, mask ? 1 : t.ndim() - batched);
      s.count += mask ? t.ndim() - batched : 1;
    }
    ++place;
  }
  return s;
}

Tensor moved(const Tensor& t, int64_t from, int64_t to) {
  return from == to ? t : op<"movedim">(t, Dims{from}, Dims{to}).tensor();
}

Value index_rule(Call& c, const int* axes) {
  const Tensors& given = c.tensors(1);
  int64_t size = batch::size(c, axes);
  if (axes[1] < 0) {  // the same places in every sample
    Tensors at = given;
    at.insert(at.begin(), Tensor());
    Tensor out = op<"index">(c[0], Value(std::move(at)));
    Indices s = study(given, false);
    return s.adjacent ? out : moved(out, s.ndim, 0);
  }
  if (has_mask(given))
    runtime_error(
        "vmap: It looks like you're indexing by a mask that is vmapped over: the samples "
        "of the result would differ in shape. Use torch.where instead.");
  Indices s = study(given, true);
  Tensors at;
  for (const Tensor& t : given) at.push_back(t ? batch::line_up(t, s.ndim) : t);
  if (axes[0] < 0) {
    Tensor out = op<"index">(c[0], Value(std::move(at)));
    return s.adjacent ? moved(out, s.first, 0) : out;
  }
  Tensor rows = op<"arange">(Value(size));
  at.insert(at.begin(), batch::line_up(rows, s.ndim));
  Tensor out = op<"index">(c[0], Value(std::move(at)));
  if (!s.adjacent || s.first == 0) return out;
  // The indexed axes came to the front; they belong behind the axes before them.
  for (int k = 0; k < s.ndim; ++k) out = moved(out, 1, s.first + s.ndim);
  return out;
}

}  // namespace

static const Op& index_ =
    def("index(input, indices: Tensor[])",
        "The elements at the places that a list of index tensors names; an undefined entry stands "
        "for a whole axis. This is what `x[i, j]` with tensors calls.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          IndexPlan plan = plan_index(t, c.tensors(1));
          return read_places(t, plan.places, plan.shape);
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor { return op<"index_put">(zeros_of(c, g), c.in(1), g, true); })
        .linear()
        .internal()
        .batch(index_rule)
        .depends(Depends::Moved)
        // x[mask]
        .by_values([](const Value* args) { return has_mask(args[1].tensors()); })
        .any_dtype();

static const Op& index_put_ =
    def("index_put(input, indices: Tensor?[], values, accumulate: bool = False)",
        "A copy of `input` with `values` at the places that the index tensors name; with "
        "`accumulate` they are added there, also where a place is named several times.")
        .forward(index_put_forward)
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                if (c.in(3).boolean()) return g;
                Tensor zero = zeros({}, g.dtype());
                return op<"index_put">(g, c.in(1), zero, false);
              })
        .grad(2, input(1), [](T g, C c) -> Tensor { return op<"index">(g, c.in(1)); })
        .linear()
        .inplace()
        .batch([](Call& c, const int* axes) -> Value {
          Tensor self = batch::whole(c, axes, 0);
          Tensors at = c.tensors(1);
          Indices s = study(at, axes[1] >= 0);
          Tensor values = c.tensor(2);
          if (axes[1] < 0 && s.adjacent) {
            int ndim = self.ndim() - 1 - s.count + s.ndim;
            if (axes[2] >= 0) values = batch::line_up(values, ndim);
            at.insert(at.begin(), Tensor());
            return op<"index_put">(self, Value(std::move(at)), values, c[3]);
          }
          // Every sample on its own, in place in a copy.
          Tensor out = op<"clone">(self);
          for (int64_t b = 0; b < out.size(0); ++b) {
            Tensors own;
            for (const Tensor& t : at)
              own.push_back(t && axes[1] >= 0 ? op<"select">(t, 0, b).tensor() : t);
            Value v = axes[2] >= 0 ? op<"select">(values, 0, b) : Value(values);
            op_inplace<"index_put">(op<"select">(out, 0, b).tensor(), Value(std::move(own)), v,
                                    c[3]);
          }
          return out;
        })
        .depends(Depends::Moved)
        .any_dtype();

static const Op& index_select_ =
    def("index_select(input, dim: int, index)",
        "The slices along `dim` that a vector of indices names.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(2);
          int dim = wrap_dim(c.integer(1), t.ndim());
          if (t.ndim() == 0 && index.numel() != 1) {
            runtime_error("index_select(): Index to scalar can have only 1 value, got ",
                          index.numel(), " value(s)");
          }
          Places places = plan_rows(t, dim, index, "index_select");
          return read_places(t, places, with_length(t.shape(), dim, index.numel()));
        })
        .grad(
            0, input(2),
            [](T g, C c) -> Tensor { return op<"index_add">(zeros_of(c, g), c.in(1), c.in(2), g); })
        .linear()
        .batch([](Call& c, const int* axes) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(2);
          int ndim = batch::sample_ndim(c, axes, 0);
          int dim = ndim ? wrap_dim(c.integer(1), ndim) : 0;
          if (axes[2] < 0)
            return op<"index_select">(ndim ? t : op<"unsqueeze">(t, -1).tensor(), dim + 1, index);
          Tensors at(dim);
          at.push_back(index);
          Value args[2] = {Value(t), Value(std::move(at))};
          int inner[2] = {axes[0], 0};
          Call call{op_named<"index">(), args};
          return index_rule(call, inner);
        })
        .depends(Depends::Moved)
        .sparse(sparse::index_select)
        .any_dtype();

static const Op& index_add_ =
    def("index_add(input, dim: int, index, source, *, alpha: Scalar = 1)",
        "A copy of `input` to whose slices `index` along `dim` those of `source`, times alpha, are "
        "added.")
        .forward([](Call& c) -> Value {
          Tensor source = c.tensor(3);
          wrap_dim(c.integer(1), c.tensor(0).ndim());
          if (c.tensor(2).ndim() > 1) {
            index_error("index_add_(): Index is supposed to be a vector, but got dim: ",
                        c.tensor(2).ndim());
          }
          if (c[4].complex() != 1.0) {
            GradMode off(false);
            source = cast(source * c[4], source.dtype());
          }
          // PyTorch adds slices one by one, and selecting one of them raises another class.
          try {
            return put_rows(c, Reduce::Add, source, "index_add_");
          } catch (const Error& e) {
            if (e.kind == ErrorClass::Index && c.tensor(0).ndim() > 1) runtime_error(e.what());
            throw;
          }
        })
        .grad(0, nothing, [](T g, C) { return g; })
        .grad(3, input(2),
              [](T g, C c) -> Tensor {
                Tensor rows = op<"index_select">(g, c.in(1), c.in(2));
                if (rows.ndim() != c.shape(3).n) rows = op<"reshape">(rows, c.shape(3));
                return c.in(4).complex() == 1.0 ? rows : rows * c.in(4);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor to = t[0] ? t[0] : zeros(c.shape(0), c.dtype(0));
          return t[3] ? op<"index_add">(to, c.in(1), c.in(2), t[3], c.in(4)).tensor() : to;
        })
        .inplace()
        .batch(batch::rows)
        .depends(Depends::Moved);

static const Op& index_copy_ =
    def("index_copy(input, dim: int, index, source)",
        "A copy of `input` whose slices `index` along `dim` are those of `source`.")
        .forward([](Call& c) -> Value {
          return put_rows(c, Reduce::Replace, c.tensor(3), "index_copy_");
        })
        .grad(0, input(2),
              [](T g, C c) -> Tensor { return op<"index_fill">(g, c.in(1), c.in(2), 0); })
        .grad(3, input(2),
              [](T g, C c) -> Tensor {
                Tensor rows = op<"index_select">(g, c.in(1), c.in(2));
                if (rows.ndim() != c.shape(3).n) rows = op<"reshape">(rows, c.shape(3));
                return rows;
              })
        .linear()
        .inplace()
        .batch(batch::rows)
        .depends(Depends::Moved)
        .autocast(Autocast::Widest)
        .any_dtype();

namespace {

Value index_fill_forward(Call& c) {
  Tensor t = c.tensor(0), index = c.tensor(2), value = c.tensor(3);
  if (index.dtype() != DType::Int64) {
    index_error("index_fill_(): Expected dtype int64 for index, got ", index.dtype());
  }
  if (!value) value = scalar_tensor(c[3], t.dtype());
  if (value.ndim() != 0) {
    runtime_error("index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                  value.ndim(), " dimension(s).");
  }
  if (is_complex(c[3].is_tensor() ? value.dtype() : scalar_dtype(c[3])) && !is_complex(t.dtype())) {
    runtime_error("index_fill_(): Converting complex Scalar to non-complex type is not supported");
  }
  if (!c[3].is_tensor()) require_fits(c[3], t.dtype());
  int dim = wrap_dim(c.integer(1), t.ndim());
  if (index.ndim() > 1) index_error("index_fill_(): Index has to be a vector/scalar");
  Tensor to = changeable(c), wrapped = empty(Dims{index.numel()}, DType::Int64);
  Tensor values = contiguous(index);
  int64_t n = t.ndim() ? t.size(dim) : 1;
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t k = values.data<int64_t>()[i];
    if (k < -n || k >= n) {
      index_error("index ", k, " is out of bounds for dimension ", dim, " with size ", n);
    }
    wrapped.data<int64_t>()[i] = k < 0 ? k + n : k;
  }
  // Each once, however often it is named: what the gradient of the value reads.
  int64_t* first = wrapped.data<int64_t>();
  std::sort(first, first + index.numel());
  int64_t distinct = std::unique(first, first + index.numel()) - first;
  wrapped = on_storage(wrapped->storage, Dims{distinct}, Dims{1}, 0, DType::Int64);
  c.kept = wrapped;
  Places places = plan_rows(to, dim, wrapped, "index_fill_");
  write_places(to, apart(cast(value, t.dtype()), to), places, Reduce::Replace);
  return to;
}

Tensor index_fill_input(T g, C c) { return op<"index_fill">(g, c.in(1), c.in(2), 0); }

}  // namespace

// Before the overload with a number, which would take a 0-d tensor for one.
static const Op& index_fill_tensor_ =
    def("index_fill.tensor(input, dim: int, index, value)",
        "The same with a 0-d tensor as value, which takes part in differentiation.")
        .forward(index_fill_forward)
        .grad(0, input(2), index_fill_input)
        .grad(3, nothing,
              [](T g, C c) -> Tensor {
                refuse_recording(
                    "the gradient of the value of index_fill depends on which indices differ");
                return op<"sum">(op<"index_select">(g, c.in(1), c.kept()));
              })
        .linear()
        .inplace()
        .node("IndexFillBackward1")
        .batch(batch::rows_filled)
        .depends(Depends::Moved)
        .any_dtype();

static const Op& index_fill_ =
    def("index_fill(input, dim: int, index, value: Scalar)",
        "A copy of `input` whose slices `index` along `dim` are `value`.")
        .forward(index_fill_forward)
        .grad(0, input(2), index_fill_input)
        .jvp([](C c, const Tensor* t) -> Value { return index_fill_input(t[0], c); })
        .inplace()
        .batch(batch::rows)
        .depends(Depends::Moved)
        .any_dtype();

static const Op& take_ =
    def("take(input, index)", "The elements at flat positions, in the shape of `index`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(1);
          if (index.dtype() != DType::Int64) {
            runtime_error("take(): Expected a long tensor for index, but got ", index.dtype());
          }
          return read_places(t, plan_flat(t, index, true), index.shape());
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor { return op<"put">(zeros_of(c, g), c.in(1), g, true); })
        .linear()
        .depends(Depends::Moved)
        .any_dtype()
        .out_apart();

static const Op& put_ =
    def("put(input, index, source, accumulate: bool = False)",
        "A copy of `input` with `source` at flat positions.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(1), source = c.tensor(2);
          if (index.dtype() != DType::Int64) {
            runtime_error("put_(): Expected a long tensor for index, but got ", index.dtype());
          }
          if (source.dtype() != t.dtype()) {
            runtime_error(
                "put_(): self and source expected to have the same dtype, but got self = ",
                t.dtype(), " and source = ", source.dtype());
          }
          if (source.numel() != index.numel()) {
            index_error(
                "put_(): Expected source and index to have the same number of elements, "
                "but got source.numel() = ",
                source.numel(), ", index.numel() = ", index.numel());
          }
          Tensor to = changeable(c);
          write_places(to, apart(source, to), plan_flat(to, index, true),
                       c.flag(3) ? Reduce::Add : Reduce::Replace);
          return to;
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                if (c.in(3).boolean()) return g;
                Span shape = c.in(1).tensor().shape();
                return op<"put">(g, c.in(1), zeros(shape, g.dtype()), false);
              })
        .grad(2, input(1),
              [](T g, C c) -> Tensor { return op<"reshape">(op<"take">(g, c.in(1)), c.shape(2)); })
        .linear()
        .inplace()
        .depends(Depends::Moved)
        .any_dtype();

}  // namespace adjoint
