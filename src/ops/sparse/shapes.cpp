// Sparse tensors of other shapes: axes exchanged, rows chosen, tensors joined. Read parts.h first.
#include <numeric>

#include "ops/sparse/parts.h"
#include "ops/sparse/rules.h"

namespace adjoint::sparse {
namespace {

Tensor vector_of(const std::vector<int64_t>& v) {
  Tensor t = int64s(static_cast<int64_t>(v.size()));
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}
Tensor sparse_argument(const Op& op, Value* args) {
  Tensor s = args[0].tensor();
  if (!is_sparse(s)) refuse_sparse(op, args);
  return s;
}

// order[d]: which axis of `s` becomes axis d. Sparse axes stay among the sparse ones.
Tensor permuted(const Op& op, Value* args, T given, const Dims& order) {
  const SparseParts& q = parts_of(given);
  const int sparse = q.sparse_axes();
  bool same = true;
  for (int d = 0; d < order.size(); ++d) {
    if ((d < sparse) != (order[d] < sparse)) refuse_sparse(op, args);
    same &= order[d] == d;
  }
  if (same) return with_values(given, entries(given));
  if (q.layout != Layout::Coo && order.size() == 2) {
    const Layout other = q.layout == Layout::Csr ? Layout::Csc : Layout::Csr;
    return compressed(q.indices, q.plain, entries(given), Dims{given.size(1), given.size(0)},
                      other);
  }
  Tensor s = to_coo(given);
  const SparseParts& p = parts_of(s);
  const int64_t n = p.entries();
  Tensor indices = empty(Dims{sparse, n}, DType::Int64);
  Dims shape(order.size()), within{0};
  bool moved = false;
  for (int d = 0; d < order.size(); ++d) {
    shape[d] = s.size(static_cast<int>(order[d]));
    if (d < sparse) {
      std::copy_n(p.indices.data<int64_t>() + order[d] * n, n, indices.data<int64_t>() + d * n);
      moved |= order[d] != d;
    } else {
      within.push_back(order[d] - sparse + 1);
    }
  }
  Tensor values = entries(s);
  if (within.size() > 1) values = adjoint::op<"permute">(values, within);
  return coo(indices, values, shape, p.coalesced && !moved);
}

// The entries k with keep[k], at other indices.
Tensor chosen(T s, const std::vector<int64_t>& keep, T indices, const Dims& shape, bool in_order) {
  return coo(indices, adjoint::op<"index_select">(entries(s), 0, vector_of(keep)), shape, in_order);
}

Tensor select_in(T given, int dim, int64_t index) {
  Tensor s = to_coo(given);
  const SparseParts& p = parts_of(s);
  const int axes = p.sparse_axes();
  const int64_t n = p.entries();
  Dims shape = shape_of(s);
  shape.erase(dim);
  if (dim >= axes) {  // a dense axis
    Tensor values = adjoint::op<"select">(entries(s), dim - axes + 1, index);
    return coo(p.indices, values, shape, p.coalesced);
  }
  std::vector<int64_t> keep;
  const auto* at = p.indices.data<int64_t>();
  for (int64_t k = 0; k < n; ++k) {
    if (at[dim * n + k] == index) keep.push_back(k);
  }
  if (axes == 1)  // nothing sparse is left
    return adjoint::op<"sum">(adjoint::op<"index_select">(entries(s), 0, vector_of(keep)), Dims{0});
  const auto count = static_cast<int64_t>(keep.size());
  Tensor indices = empty(Dims{axes - 1, count}, DType::Int64);
  for (int d = 0, to = 0; d < axes; ++d) {
    if (d == dim) continue;
    for (int64_t k = 0; k < count; ++k)
      indices.data<int64_t>()[to * count + k] = at[d * n + keep[k]];
    ++to;
  }
  return chosen(s, keep, indices, shape, p.coalesced);
}

}  // namespace

Value transpose(const Op& op, Value* args) {
  Tensor s = sparse_argument(op, args);
  const int a = wrap_dim(args[1].integer(), s.ndim()), b = wrap_dim(args[2].integer(), s.ndim());
  Dims order(s.ndim());
  std::iota(order.begin(), order.end(), 0);
  if (s.ndim()) std::swap(order[a], order[b]);
  return permuted(op, args, s, order);
}

Value t(const Op& op, Value* args) {
  Tensor s = sparse_argument(op, args);
  if (s.ndim() > 2 || parts_of(s).sparse_axes() > 2)
    runtime_error("t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got ",
                  parts_of(s).sparse_axes(), " sparse and ", parts_of(s).dense_axes(),
                  " dense dimensions");
  return permuted(op, args, s, s.ndim() == 2 ? Dims{1, 0} : Dims(s.ndim(), 0));
}

Value permute(const Op& op, Value* args) {
  Tensor s = sparse_argument(op, args);
  Dims order = args[1].ints();
  if (order.size() != s.ndim())
    runtime_error(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the "
        "length of the desired ordering of dimensions i.e. input.dim() = ",
        s.ndim(), " is not equal to len(dims) = ", order.size());
  uint64_t seen = 0;
  for (int64_t& d : order) {
    d = wrap_dim(d, s.ndim());
    if (seen >> d & 1) runtime_error("permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << d;
  }
  return permuted(op, args, s, order);
}

Value unsqueeze(const Op& op, Value* args) {
  Tensor s = to_coo(sparse_argument(op, args));
  const SparseParts& p = parts_of(s);
  const int dim = wrap_dim(args[1].integer(), s.ndim() + 1), axes = p.sparse_axes();
  Dims shape = shape_of(s);
  shape.insert(dim, 1);
  if (dim > axes)
    return coo(p.indices, adjoint::op<"unsqueeze">(entries(s), dim - axes + 1), shape, p.coalesced);
  const int64_t n = p.entries();
  Tensor indices = zeros(Dims{axes + 1, n}, DType::Int64);
  for (int d = 0; d < axes; ++d)
    std::copy_n(p.indices.data<int64_t>() + d * n, n,
                indices.data<int64_t>() + (d + (d >= dim)) * n);
  return coo(indices, entries(s), shape, p.coalesced);
}

Value select(const Op& op, Value* args) {
  Tensor s = sparse_argument(op, args);
  if (s.ndim() == 0) index_error("select() cannot be applied to a 0-dim tensor.");
  const int dim = wrap_dim(args[1].integer(), s.ndim());
  int64_t index = args[2].integer();
  const int64_t size = s.size(dim);
  if (index < -size || index >= size)
    index_error("select(): index ", index, " out of range for tensor of size ", s.shape(),
                " at dimension ", dim);
  return select_in(s, dim, index < 0 ? index + size : index);
}

Value unbind(const Op& op, Value* args) {
  Tensor s = sparse_argument(op, args);
  const int dim = wrap_dim(args[1].integer(), s.ndim());
  Tensors rows;
  for (int64_t i = 0; i < s.size(dim); ++i) rows.push_back(select_in(s, dim, i));
  return Value(std::move(rows));
}

Value index_select(const Op& op, Value* args) {
  Tensor s = coalesced(to_coo(sparse_argument(op, args))), index = args[2].tensor();
  const SparseParts& p = parts_of(s);
  const int dim = wrap_dim(args[1].integer(), s.ndim()), axes = p.sparse_axes();
  if (index.ndim() > 1) index_error("index_select(): Index is supposed to be a vector");
  Tensor at = contiguous(cast(index, DType::Int64));
  Dims shape = shape_of(s);
  shape[dim] = at.numel();
  if (dim >= axes) {
    Tensor values = adjoint::op<"index_select">(entries(s), dim - axes + 1, at);
    return coo(p.indices, values, shape, true);
  }
  // Which of the wanted rows are row i of the tensor.
  std::vector<std::pair<int64_t, int64_t>> wanted;
  for (int64_t k = 0; k < at.numel(); ++k) {
    int64_t i = at.data<int64_t>()[k];
    if (i < 0 || i >= s.size(dim)) index_error("index_select(): index out of range: ", i);
    wanted.emplace_back(i, k);
  }
  std::sort(wanted.begin(), wanted.end());
  const int64_t n = p.entries();
  std::vector<int64_t> keep, place;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = p.indices.data<int64_t>()[dim * n + k];
    for (auto w = std::lower_bound(wanted.begin(), wanted.end(), std::pair{i, int64_t{-1}});
         w != wanted.end() && w->first == i; ++w) {
      keep.push_back(k);
      place.push_back(w->second);
    }
  }
  const auto count = static_cast<int64_t>(keep.size());
  Tensor indices = empty(Dims{axes, count}, DType::Int64);
  for (int d = 0; d < axes; ++d) {
    auto* to = indices.data<int64_t>() + d * count;
    for (int64_t k = 0; k < count; ++k)
      to[k] = d == dim ? place[k] : p.indices.data<int64_t>()[d * n + keep[k]];
  }
  return coalesced(chosen(s, keep, indices, shape, false));
}

Value cat(const Op& op, Value* args) {
  Tensors all;
  for (const Tensor& given : args[0].tensors()) {
    if (!is_sparse(given)) refuse_sparse(op, args);
    all.push_back(to_coo(given));
  }
  const Tensor& first = all[0];
  const int axes = parts_of(first).sparse_axes();
  const int dim = wrap_dim(args[1].integer(), first.ndim());
  if (dim >= axes) refuse_sparse(op, args);
  Dims shape = shape_of(first);
  Tensors indices, values;
  int64_t at = 0;
  bool in_order = dim == 0;
  for (const Tensor& s : all) {
    Dims own = shape_of(s), rest = shape;
    if (own.size() != rest.size() || parts_of(s).sparse_axes() != axes)
      runtime_error("cat: sparse tensors must have the same number of axes of each kind");
    const int64_t length = own[dim];
    own[dim] = rest[dim] = 0;
    if (!(Span(own) == Span(rest)))
      runtime_error("Sizes of tensors must match except in dimension ", dim, ": ", first.shape(),
                    " and ", s.shape());
    const int64_t n = parts_of(s).entries();
    Tensor moved = empty(Dims{axes, n}, DType::Int64);
    copy_into(moved, parts_of(s).indices);
    for (int64_t k = 0; k < n; ++k) moved.data<int64_t>()[dim * n + k] += at;
    at += length;
    in_order &= parts_of(s).coalesced;
    indices.push_back(moved);
    values.push_back(entries(s));
  }
  shape[dim] = at;
  return coo(adjoint::op<"cat">(Value(std::move(indices)), 1),
             adjoint::op<"cat">(Value(std::move(values)), 0), shape, in_order);
}

Value stack(const Op& op, Value* args) {
  Tensors all;
  for (const Tensor& s : args[0].tensors()) {
    if (!is_sparse(s)) refuse_sparse(op, args);
    all.push_back(adjoint::op<"unsqueeze">(s, args[1]));
  }
  return adjoint::op<"cat">(Value(std::move(all)), args[1]);
}

}  // namespace adjoint::sparse
