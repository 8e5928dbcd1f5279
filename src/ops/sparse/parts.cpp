// The ops that lead from sparse tensors to their values and back. Read parts.h first.
#include "ops/sparse/parts.h"

#include <numeric>

#include "kernels/index/sorting.h"
#include "kernels/sparse/patterns.h"
#include "transforms/batch_rules.h"

namespace adjoint::sparse {

using C = Context&;

Dims shape_of(T t) { return Dims(t.shape()); }
Dims sparse_shape(T s) { return Dims(Span{s->shape, parts_of(s).sparse_axes()}); }
Dims dense_shape(T s) {
  const int n = parts_of(s).sparse_axes();
  return Dims(Span{s->shape + n, s.ndim() - n});
}
int64_t product_of(Span sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}
Tensor int64s(int64_t n) { return empty(Dims{n}, DType::Int64); }

namespace {

// A copy of indices that nobody else can change, as int64.
Tensor own_indices(T t, const char* name) {
  if (!is_integral(t.dtype()) || t.dtype() == DType::Bool)
    type_error(name, " must be an int64 tensor, not ", t.dtype());
  const Storage* memory = t->storage;
  if (memory->read_only && memory->own && t.dtype() == DType::Int64 && t.contiguous())
    return alias(t);
  Tensor copy = empty(t.shape(), DType::Int64);
  copy_into(copy, t);
  return copy;
}

[[noreturn]] void bad_index(int64_t found, int axis, Span shape) {
  if (found < 0) runtime_error("found negative index ", found, " for dim ", axis);
  runtime_error("size is inconsistent with indices: for dim ", axis, ", size is ", shape[axis],
                " but found index ", found);
}

void check_range(const int64_t* index, int64_t n, int axis, Span shape) {
  const auto size = static_cast<uint64_t>(shape[axis]);
  for (int64_t k = 0; k < n; ++k) {
    if (static_cast<uint64_t>(index[k]) >= size) bad_index(index[k], axis, shape);
  }
}

void check_dense_sizes(Span shape, int sparse_axes, T values) {
  for (int d = sparse_axes; d < shape.n; ++d) {
    if (shape[d] == values.size(d - sparse_axes + 1)) continue;
    runtime_error("values has incorrect size, expected the sizes of the last ",
                  shape.n - sparse_axes, " axes of ", shape, " after the first, got ",
                  values.shape());
  }
}

Value make_coo(Call& c) {
  Tensor given = c.tensor(0), values = c.tensor(1);
  const Dims& shape = c.ints(2);
  require_strided(values.get(), "values of a sparse tensor");
  if (given.ndim() != 2)
    runtime_error("indices must be sparse_dim x nnz, but got: ", given.shape());
  if (values.ndim() == 0)
    runtime_error("values must have at least one axis, the entries, but it is 0-d");
  const auto axes = static_cast<int>(given.size(0));
  const int64_t n = given.size(1);
  if (values.size(0) != n)
    runtime_error("indices and values must have same nnz, but got nnz from indices: ", n,
                  ", nnz from values: ", values.size(0));
  if (shape.size() != axes + values.ndim() - 1)
    runtime_error("'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = ",
                  shape.size(), ", sparse_dim = ", axes, ", dense_dim = ", values.ndim() - 1);
  checked_numel(shape, values.itemsize());
  check_dense_sizes(shape, axes, values);
  Tensor indices = own_indices(given, "indices");
  const auto* at = indices.data<int64_t>();
  for (int d = 0; d < axes; ++d) check_range(at + d * n, n, d, shape);
  bool coalesced = c.flag(3);
  if (coalesced) {
    Tensor positions = int64s(n);
    flat_positions(at, n, shape.data(), axes, positions.data<int64_t>());
    if (!ascending(positions.data<int64_t>(), n))
      runtime_error("cannot set is_coalesced to true if indices are not sorted and distinct");
  }
  return sparse_tensor({Layout::Coo, coalesced || n <= 1, indices, Tensor(), alias(values)}, shape);
}

void check_starts(const int64_t* start, int64_t rows, int64_t entries, const char* name) {
  if (start[0] != 0) runtime_error(name, "[..., 0] == 0 is not satisfied: it is ", start[0]);
  if (start[rows] != entries)
    runtime_error(name, "[..., -1] == nnz is not satisfied: it is ", start[rows], " and nnz is ",
                  entries);
  for (int64_t i = 0; i < rows; ++i) {
    if (start[i] > start[i + 1])
      runtime_error("0 <= ", name, "[..., 1:] - ", name, "[..., :-1] is not satisfied: ", start[i],
                    " is followed by ", start[i + 1]);
  }
}

Value make_compressed(Call& c) {
  const auto layout = static_cast<Layout>(c.integer(4));
  const bool by_row = layout == Layout::Csr;
  const char *starts = by_row ? "crow_indices" : "ccol_indices",
             *others = by_row ? "col_indices" : "row_indices";
  Tensor start = c.tensor(0), plain = c.tensor(1), values = c.tensor(2);
  const Dims& shape = c.ints(3);
  require_strided(values.get(), "values of a sparse tensor");
  if (start.ndim() != 1 || plain.ndim() != 1 || values.ndim() < 1) {
    not_implemented(name_of(layout), ": ", starts, " and ", others,
                    " must have one axis: batches of sparse matrices are not supported (they have ",
                    start.ndim(), " and ", plain.ndim(), "). fix: use a list of matrices, or COO");
  }
  if (shape.size() != values.ndim() + 1)
    runtime_error("size must have as many axes as the matrix, ", values.ndim() + 1, ", got ",
                  Span(shape));
  checked_numel(shape, values.itemsize());
  check_dense_sizes(shape, 2, values);
  const int64_t rows = shape[by_row ? 0 : 1], n = values.size(0);
  if (start.size(0) != rows + 1)
    runtime_error(starts, ".shape[-1] must be equal to the number of ", by_row ? "rows" : "columns",
                  " + 1 (", rows + 1, "), but got ", start.size(0));
  if (plain.size(0) != n)
    runtime_error(others, " and values must have the same number of elements, but got ",
                  plain.size(0), " and ", n);
  start = own_indices(start, starts);
  plain = own_indices(plain, others);
  const auto *s = start.data<int64_t>(), *p = plain.data<int64_t>();
  check_starts(s, rows, n, starts);
  check_range(p, n, by_row ? 1 : 0, shape);
  for (int64_t i = 0; i < rows; ++i) {
    if (!ascending(p + s[i], s[i + 1] - s[i]))
      runtime_error(others, " must be sorted and distinct in each ", by_row ? "row" : "column",
                    ", and are not in ", i);
  }
  return sparse_tensor({layout, true, start, plain, alias(values)}, shape);
}

Value refuse_samples(Call& c, const int*) {
  not_implemented(
      "vmap: ", c.op.name,
      ": a sparse tensor cannot be made of, or give, values that are vmapped over. fix: "
      "call it once for each sample, or use dense tensors");
}

void check_values(T pattern, T values) {
  const SparseParts& p = parts_of(pattern);
  Dims wanted = dense_shape(pattern);
  wanted.insert(0, p.entries());
  if (!(values.shape() == Span(wanted)))
    runtime_error("values of shape ", values.shape(), " do not fit a sparse tensor with ",
                  p.entries(), " entries of shape ", dense_shape(pattern));
}

}  // namespace

static const Op& coo_ =
    def("_sparse_coo(indices, values, size: int[], coalesced: bool = False)",
        "A sparse tensor of entries at places.")
        .forward(make_coo)
        .grad(1, output(), [](T g, C c) -> Tensor { return entries_at(g, c.out()); })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"_sparse_coo">(c.in(0), t[1], c.in(2), c.in(3));
        })
        .batch(refuse_samples)
        .function_only()
        .takes_sparse()
        .node("SparseCooTensorWithDimsAndTensorsBackward0");

static const Op& compressed_ =
    def("_sparse_compressed(start, plain, values, size: int[], layout: int)",
        "A sparse matrix by rows (1) or columns (2).")
        .forward(make_compressed)
        .grad(2, output(), [](T g, C c) -> Tensor { return entries_at(g, c.out()); })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"_sparse_compressed">(c.in(0), c.in(1), t[2], c.in(3), c.in(4));
        })
        .batch(refuse_samples)
        .function_only()
        .takes_sparse()
        .node("SparseCompressedTensorBackward0");

static const Op& with_values_ =
    def("_sparse_with_values(pattern, values)", "Other values at the places of a sparse tensor.")
        .forward([](Call& c) -> Value {
          Tensor pattern = c.tensor(0), values = c.tensor(1);
          check_values(pattern, values);
          SparseParts parts = parts_of(pattern);
          parts.values = alias(values);
          return sparse_tensor(std::move(parts), pattern.shape());
        })
        .grad(1, output(), [](T g, C c) -> Tensor { return entries_at(g, c.out()); })
        .jvp([](C c, const Tensor* t) -> Value { return op<"_sparse_with_values">(c.in(0), t[1]); })
        .batch(refuse_samples)
        .function_only()
        .takes_sparse();

namespace {

// One entry for each place, and which of the entries it is.
struct Distinct {
  Tensor indices, place;  // place: of each entry, its number among the distinct ones
  std::vector<int64_t> first;
};
Distinct distinct(T s) {
  const SparseParts& p = parts_of(s);
  const int64_t n = p.entries();
  Tensor positions = positions_of(s), sorted = int64s(n), order = int64s(n);
  Distinct d{Tensor(), int64s(n), {}};
  sort_rows(positions.bytes(), sorted.bytes(), order.data<int64_t>(), DType::Int64, 1, n, n, false);
  number_distinct(positions.data<int64_t>(), order.data<int64_t>(), n, d.place.data<int64_t>(),
                  d.first);
  const auto count = static_cast<int64_t>(d.first.size());
  const int axes = p.sparse_axes();
  d.indices = empty(Dims{axes, count}, DType::Int64);
  for (int a = 0; a < axes; ++a) {
    for (int64_t k = 0; k < count; ++k)
      d.indices.data<int64_t>()[a * count + k] = p.indices.data<int64_t>()[a * n + d.first[k]];
  }
  return d;
}

Tensor vector_of(const std::vector<int64_t>& v) {
  Tensor t = int64s(static_cast<int64_t>(v.size()));
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}

// Note [Gradients of sparse tensors]: entries of one place have one gradient.
Tensor entries_grad(T g, C c) {
  Tensor s = c.tensor(0);
  if (parts_of(s).coalesced) return with_values(s, g);
  Distinct d = distinct(s);
  return coo(d.indices, op<"index_select">(g, 0, vector_of(d.first)), shape_of(s), true);
}

}  // namespace

static const Op& entries_ =
    def("_sparse_entries(input)", "The values of a sparse tensor, one per entry.")
        .forward([](Call& c) -> Value { return alias(parts_of(c.tensor(0)).values); })
        .grad(0, input(0), entries_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor s = c.tensor(0);
          if (parts_of(s).coalesced) return entries_at(t[0], s);
          if (!is_sparse(t[0]) || parts_of(t[0]).entries() != parts_of(s).entries())
            runtime_error(
                "a tangent of an uncoalesced sparse tensor must have its entries. fix: "
                "coalesce() it first");
          return op<"_sparse_entries">(t[0]);
        })
        .batch(refuse_samples)
        .internal()
        .takes_sparse()
        .node("ValuesBackward0");

Tensor entries(T s) { return op<"_sparse_entries">(s); }
Tensor with_values(T pattern, T values) { return op<"_sparse_with_values">(pattern, values); }
Tensor coo(T indices, T values, const Dims& shape, bool coalesced) {
  return op<"_sparse_coo">(indices, values, shape, coalesced);
}
Tensor compressed(T start, T plain, T values, const Dims& shape, Layout layout) {
  return op<"_sparse_compressed">(start, plain, values, shape, static_cast<int64_t>(layout));
}

bool same_places(T a, T b) {
  const SparseParts &p = parts_of(a), &q = parts_of(b);
  return p.layout == q.layout && p.indices.bytes() == q.indices.bytes() &&
         p.indices.shape() == q.indices.shape() && (!p.plain || p.plain.bytes() == q.plain.bytes());
}

// --- places ------------------------------------------------------------------------------------------
Tensor indices_of(T s) {
  const SparseParts& p = parts_of(s);
  if (p.layout == Layout::Coo) return p.indices;
  const int64_t n = p.entries();
  Tensor out = empty(Dims{2, n}, DType::Int64);
  const bool by_row = p.layout == Layout::Csr;
  auto* rows = out.data<int64_t>() + (by_row ? 0 : n);
  row_numbers(p.indices.data<int64_t>(), p.indices.size(0) - 1, rows);
  std::copy_n(p.plain.data<int64_t>(), n, out.data<int64_t>() + (by_row ? n : 0));
  return out;
}

Tensor positions_of(T s) {
  Tensor indices = indices_of(s);
  const int64_t n = indices.size(1);
  Tensor out = int64s(n);
  flat_positions(indices.data<int64_t>(), n, s->shape, static_cast<int>(indices.size(0)),
                 out.data<int64_t>());
  return out;
}

Tensor entries_at(T x, T pattern) {
  const SparseParts& p = parts_of(pattern);
  if (!is_sparse(x)) {
    Tensor indices = indices_of(pattern);
    if (indices.size(0) == 0)  // every entry is the whole
      return op<"expand">(x, Span(p.values.shape()));
    Tensors at;
    for (int64_t a = 0; a < indices.size(0); ++a) at.push_back(op<"select">(indices, 0, a));
    return op<"index">(x, Value(std::move(at)));
  }
  if (parts_of(x).sparse_axes() != p.sparse_axes())
    not_implemented("sparse tensors with ", parts_of(x).sparse_axes(), " and with ",
                    p.sparse_axes(), " sparse axes do not go together. fix: use to_dense()");
  if (parts_of(x).coalesced && parts_of(x).layout == p.layout && same_places(x, pattern))
    return entries(x);
  Tensor from = coalesced(to_coo(x)), have = positions_of(from), want = positions_of(pattern);
  const int64_t n = have.numel(), count = want.numel();
  Tensor at = int64s(count);
  search_sorted(have.bytes(), nullptr, n, want.bytes(), count, DType::Int64, false,
                at.data<int64_t>());
  Tensor absent = empty(Dims{count}, DType::Bool);
  bool any = false;
  for (int64_t k = 0; k < count; ++k) {
    int64_t& place = at.data<int64_t>()[k];
    const bool found = place < n && have.data<int64_t>()[place] == want.data<int64_t>()[k];
    absent.data<uint8_t>()[k] = !found;
    any |= !found;
    if (!found) place = 0;
  }
  if (n == 0)  // zeros, with a history
    return op<"expand">(op<"sum">(entries(from), Dims{0}), Span(p.values.shape()));
  Tensor values = op<"index_select">(entries(from), 0, at);
  if (!any) return values;
  Dims lined(p.values.ndim(), 1);
  lined[0] = count;
  return op<"masked_fill">(values, op<"view">(absent, lined), 0);
}

// --- conversions -------------------------------------------------------------------------------------
Tensor coalesced(T s) {
  const SparseParts& p = parts_of(s);
  if (p.coalesced) return s;
  Tensor positions = positions_of(s);
  if (ascending(positions.data<int64_t>(), p.entries()))
    return coo(p.indices, entries(s), shape_of(s), true);
  Distinct d = distinct(s);
  const auto count = static_cast<int64_t>(d.first.size());
  Tensor values = entries(s);
  if (count == p.entries()) {
    values = op<"index_select">(values, 0, vector_of(d.first));
  } else {
    Dims shape = dense_shape(s);
    shape.insert(0, count);
    values = op<"index_add">(zeros(shape, s.dtype()), 0, d.place, values);
  }
  return coo(d.indices, values, shape_of(s), true);
}

Tensor to_coo(T s) {
  const SparseParts& p = parts_of(s);
  if (p.layout == Layout::Coo) return s;
  if (p.layout == Layout::Csr) return coo(indices_of(s), entries(s), shape_of(s), true);
  return to_coo(to_layout(s, Layout::Csr));
}

ByRows by_rows(T s) {
  const SparseParts& p = parts_of(s);
  if (p.layout == Layout::Csr) return {p.indices, p.plain, s.size(0), s.size(1), false};
  if (p.layout == Layout::Csc) return {p.indices, p.plain, s.size(1), s.size(0), true};
  const int64_t n = p.entries(), rows = s.size(0);
  Tensor start = int64s(rows + 1);
  row_starts(p.indices.data<int64_t>(), n, rows, start.data<int64_t>());
  Tensor column =
      on_storage(p.indices->storage, Dims{n}, Dims{1}, p.indices.offset() + n, DType::Int64);
  return {start, column, rows, s.size(1), false};
}

Tensor to_layout(T s, Layout layout) {
  const SparseParts& p = parts_of(s);
  if (p.layout == layout) return s;
  if (layout == Layout::Coo) return to_coo(s);
  if (p.sparse_axes() != 2)
    runtime_error("only tensors with two sparse dimensions can be converted to the ",
                  name_of(layout), " layout, this one has ", p.sparse_axes());
  Tensor from = p.layout == Layout::Coo ? coalesced(s) : s;
  ByRows m = by_rows(from);
  if (!m.is_transpose && layout == Layout::Csr)
    return compressed(m.start, m.column, entries(from), shape_of(s), layout);
  const int64_t n = parts_of(from).entries();
  Tensor start = int64s(m.columns + 1), row = int64s(n), at = int64s(n);
  by_columns({m.start.data<int64_t>(), m.column.data<int64_t>(), m.rows, m.columns},
             start.data<int64_t>(), row.data<int64_t>(), at.data<int64_t>());
  return compressed(start, row, op<"index_select">(entries(from), 0, at), shape_of(s), layout);
}

Tensor to_dense(T s) {
  const Dims shape = shape_of(s);
  Dims flat = dense_shape(s);
  flat.insert(0, product_of(sparse_shape(s)));
  Tensor zero = zeros(flat, s.dtype());
  return op<"view">(op<"index_add">(zero, 0, positions_of(s), entries(s)).tensor(), shape);
}

}  // namespace adjoint::sparse
