// Index tensors become lists of offsets. Read offsets.h first.
#include "ops/index/offsets.h"

#include "kernels/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "python/gil.h"
#include "tensor/self_overlap.h"

namespace adjoint {
namespace {

using T = const Tensor&;

// Index values, broadcast to `shape`, dense.
Tensor as_int64(T index, Span shape) {
  return contiguous(broadcast_dense(cast(index, DType::Int64), shape));
}

bool is_mask(DType d) { return d == DType::Bool || d == DType::UInt8; }

// Bytes as a mask are PyTorch's old way; integers of that width would mean something else.
void warn_of_bytes(T mask) {
  if (mask.dtype() != DType::UInt8) return;
  const char* text =
      "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.";
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError{};
}

// Masks become the coordinates at which they are true, one index tensor per axis of the mask.
void add_mask(T mask, T t, size_t position, Tensors* out) {
  int at = static_cast<int>(out->size());
  for (int j = 0; j < mask.ndim(); ++j) {
    if (at + j >= t.ndim() || mask.size(j) != t.size(at + j)) {
      index_error("The shape of the mask ", mask.shape(), " at index ", j,
                  " does not match the shape of the indexed tensor ", t.shape(), " at index ",
                  at + j, " (mask at position ", position, ")");
    }
  }
  Tensor rows = nonzero_of(mask);
  if (mask.ndim() == 0) return;
  for (int j = 0; j < mask.ndim(); ++j) {
    Dims shape{rows.size(0)}, strides{mask.ndim()};
    out->push_back(on_storage(rows->storage, shape, strides, j, DType::Int64));
  }
}

Tensors expand_masks(T t, const Tensors& indices) {
  Tensors out;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Tensor& x = indices[i];
    if (!x || x.dtype() == DType::Int64 || x.dtype() == DType::Int32) {
      out.push_back(x);
    } else if (is_mask(x.dtype())) {
      warn_of_bytes(x);
      add_mask(x, t, i, &out);
    } else {
      index_error("tensors used as indices must be long, int, byte or bool tensors, not ",
                  x.dtype());
    }
  }
  if (static_cast<int>(out.size()) > t.ndim()) {
    index_error("too many indices for tensor of dimension ", t.ndim(), " (got ", out.size(), ")");
  }
  out.resize(t.ndim());
  return out;
}

Dims broadcast_indices(const Tensors& indices) {
  Dims shape;
  std::string all;
  for (const Tensor& x : indices) {
    if (x) all += (all.empty() ? "" : ", ") + to_string(x.shape());
  }
  for (const Tensor& x : indices) {
    if (!x) continue;
    int n = std::max(shape.size(), x.ndim());
    Dims joined(n);
    for (int i = 0; i < n; ++i) {
      int a = i - (n - shape.size()), b = i - (n - x.ndim());
      int64_t p = a < 0 ? 1 : shape[a], q = b < 0 ? 1 : x.size(b);
      if (p != q && p != 1 && q != 1) {
        index_error("shape mismatch: indexing tensors could not be broadcast together with shapes ",
                    all);
      }
      joined[i] = p == 1 ? q : p;
    }
    shape = joined;
  }
  return shape;
}

bool is_run(Span shape, Span strides) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return is_contiguous(shape, strides, n);
}

// An index value along an axis of n, checked.
int64_t checked_index(int64_t i, int64_t n, int dim) {
  if (n == 0) index_error("index is out of bounds for dimension with size 0 (index ", i, ")");
  if (i < -n || i >= n) {
    index_error("index ", i, " is out of bounds for dimension ", dim, " with size ", n);
  }
  return i < 0 ? i + n : i;
}

void set_inner(Places* p, Span shape, Span strides) {
  p->inner_dense = is_run(shape, strides);
  p->inner = all_offsets(shape, strides);
}

void require_int(T index, const char* name) {
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
    runtime_error(name, "(): Expected dtype int32/int64 for index, got ", index.dtype());
  }
}

}  // namespace

Offsets all_offsets(Span shape, Span strides) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  Offsets out(n);
  if (n == 0) return out;
  out[0] = 0;
  // Each axis, from the last: what is there already, repeated one step further on.
  int64_t filled = 1;
  for (int d = shape.n - 1; d >= 0; --d) {
    for (int64_t i = 1; i < shape[d]; ++i) {
      const int64_t step = i * strides[d];
      for (int64_t k = 0; k < filled; ++k) out[i * filled + k] = out[k] + step;
    }
    filled *= shape[d];
  }
  return out;
}

Tensor broadcast_dense(T t, Span shape) {
  Dims strides(shape.n, 0);
  int lead = shape.n - t.ndim();
  if (lead < 0) {
    runtime_error("The number of sizes provided (", shape.n,
                  ") must be greater or equal to the number of dimensions in the tensor (",
                  t.ndim(), ").  Target sizes: ", shape, ".  Tensor sizes: ", t.shape());
  }
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) == shape[lead + i]) {
      strides[lead + i] = t.stride(i);
    } else if (t.size(i) != 1) {
      runtime_error("The expanded size of the tensor (", shape[lead + i],
                    ") must match the existing size (", t.size(i), ") at non-singleton dimension ",
                    lead + i, ".  Target sizes: ", shape, ".  Tensor sizes: ", t.shape());
    }
  }
  return contiguous(on_storage(t->storage, shape, strides, t.offset(), t.dtype()));
}

// offsets[i] = index[i] * stride, or that much more, where a negative index counts from the end.
static void set_offsets(int64_t* offsets, const int64_t* index, int64_t n, int64_t size,
                        int64_t stride, int dim, bool add) {
  // Whether one is outside, or counts from the end, is asked once for all: by their signs.
  uint64_t signs = 0;
  const uint64_t last = static_cast<uint64_t>(size) - 1, by = static_cast<uint64_t>(stride);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t k = static_cast<uint64_t>(index[i]);
    signs |= k | (last - k);
    offsets[i] = static_cast<int64_t>(k * by + (add ? static_cast<uint64_t>(offsets[i]) : 0));
  }
  if (static_cast<int64_t>(signs) >= 0) return;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = checked_index(index[i], size, dim);
    offsets[i] += (k - index[i]) * stride;
  }
}

IndexPlan plan_index(T t, const Tensors& given) {
  // One mask for all axes: flat positions, without a detour by coordinates.
  if (given.size() == 1 && given[0] && is_mask(given[0].dtype()) && t.ndim() > 0 &&
      given[0].shape() == t.shape()) {
    warn_of_bytes(given[0]);
    IndexPlan plan{plan_mask(t, given[0]), {}};
    plan.shape = Dims{plan.places.numel()};
    return plan;
  }
  Tensors indices = expand_masks(t, given);
  Dims shape = broadcast_indices(indices);
  int first = -1, last = -1, count = 0;
  for (int d = 0; d < t.ndim(); ++d) {
    if (!indices[d]) continue;
    if (first < 0) first = d;
    last = d;
    ++count;
  }
  bool adjacent = count > 0 && last - first + 1 == count;
  IndexPlan plan;
  Dims outer, outer_strides, inner, inner_strides;
  for (int d = 0; d < t.ndim(); ++d) {
    if (indices[d]) continue;
    bool before = adjacent && d < first;
    (before ? outer : inner).push_back(t.size(d));
    (before ? outer_strides : inner_strides).push_back(t.stride(d));
  }
  int64_t n = checked_numel(shape, 1);
  // Of nothing no list of places is needed: it could be long, or reach beyond 64 bits.
  const bool any = n && t.numel();
  plan.places.outer.clear();
  if (any) {
    plan.places.outer = all_offsets(outer, outer_strides);
    set_inner(&plan.places, inner, inner_strides);
  }
  Offsets& offsets = plan.places.index;
  offsets.resize(n);
  if (!count) std::fill(offsets.begin(), offsets.end(), 0);
  for (int d = 0; d < t.ndim(); ++d) {
    if (!indices[d]) continue;
    Tensor values = as_int64(indices[d], shape);
    const int64_t *p = values.data<int64_t>(), size = t.size(d), stride = any ? t.stride(d) : 0;
    set_offsets(offsets.data(), p, n, size, stride, d, d != first);
  }
  plan.shape = outer;
  for (int64_t s : shape) plan.shape.push_back(s);
  for (int64_t s : inner) plan.shape.push_back(s);
  return plan;
}

// Strides of an empty tensor lead nowhere, and too far to be multiplied.
static int64_t stride_along(T t, int dim) {
  if (t.numel() == 0) return 0;
  return t.ndim() ? t.stride(dim) : 1;
}

Places plan_rows(T t, int dim, T index, const char* name) {
  if (index.ndim() > 1) index_error(name, "(): Index is supposed to be a vector");
  require_int(index, name);
  Tensor values = as_int64(index, Dims{index.numel()});
  int64_t n = t.ndim() ? t.size(dim) : 1, stride = stride_along(t, dim);
  Places p;
  p.index.resize(values.numel());
  for (int64_t i = 0; i < values.numel(); ++i) {
    int64_t k = values.data<int64_t>()[i];
    if (k < 0 || k >= n) {
      index_error(name, "(): index out of range in self: index ", k,
                  " is out of bounds for dimension ", dim, " with size ", n);
    }
    p.index[i] = k * stride;
  }
  if (t.ndim() == 0) return p;
  p.outer = all_offsets({t->shape, dim}, {t->strides, dim});
  int rest = t.ndim() - dim - 1;
  set_inner(&p, {t->shape + dim + 1, rest}, {t->strides + dim + 1, rest});
  return p;
}

Places plan_gather(T t, int dim, T index, const char* name) {
  Places p;
  if (index.numel() == 0) return p;  // of any dtype
  require_int(index, name);
  if (std::max(t.ndim(), 1) != std::max(index.ndim(), 1)) {
    runtime_error("Index tensor must have the same number of dimensions as input tensor (in ", name,
                  ": index ", index.shape(), ", input ", t.shape(), ")");
  }
  for (int d = 0; d < std::min(t.ndim(), index.ndim()); ++d) {
    if (d != dim && index.size(d) > t.size(d)) {
      runtime_error("Size does not match at dimension ", d, " expected index ", index.shape(),
                    " to be no larger than self ", t.shape(), " apart from dimension ", dim);
    }
  }
  Tensor values = as_int64(index, index.shape());
  Dims strides(t.strides());
  int64_t n = t.ndim() ? t.size(dim) : 1, stride = stride_along(t, dim);
  strides.resize(index.ndim());
  if (index.ndim()) strides[dim] = 0;
  p.index = all_offsets(index.shape(), strides);
  const int64_t* v = values.data<int64_t>();
  for (size_t i = 0; i < p.index.size(); ++i) {
    if (v[i] < 0 || v[i] >= n) {
      runtime_error("index ", v[i], " is out of bounds for dimension ", dim, " with size ", n);
    }
    p.index[i] += v[i] * stride;
  }
  return p;
}

Places plan_flat(T t, T index, bool wrap_negative) {
  Tensor values = as_int64(index, index.shape());
  Places p;
  p.index.resize(values.numel());
  const int64_t n = t.numel(), low = wrap_negative ? -n : 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    int64_t k = values.data<int64_t>()[i];
    if (k < low || k >= n) {
      index_error("out of range: tried to access index ", k, " on a tensor of ", n, " elements.");
    }
    if (k < 0) k += n;
    int64_t offset = t.contiguous() ? k : 0;
    for (int d = t.ndim() - 1; d >= 0 && !t.contiguous(); --d) {
      offset += k % t.size(d) * t.stride(d);
      k /= t.size(d);
    }
    p.index[i] = offset;
  }
  return p;
}

Places plan_mask(T t, T mask) {
  Tensor dense = broadcast_dense(mask, t.shape());
  Places p;
  p.index = true_positions(reinterpret_cast<const uint8_t*>(dense.bytes()), dense.numel());
  if (t.contiguous()) return p;
  for (int64_t& at : p.index) {
    int64_t k = at, offset = 0;
    for (int d = t.ndim() - 1; d >= 0; --d) {
      offset += k % t.size(d) * t.stride(d);
      k /= t.size(d);
    }
    at = offset;
  }
  return p;
}

Tensor nonzero_of(T t) {
  Tensor truth = contiguous(cast(t, DType::Bool));
  Offsets flat = true_positions(reinterpret_cast<const uint8_t*>(truth.bytes()), truth.numel());
  int64_t count = static_cast<int64_t>(flat.size());
  Tensor out = empty(Dims{count, t.ndim()}, DType::Int64);
  int64_t* row = out.data<int64_t>();
  for (int64_t k : flat) {
    for (int d = t.ndim() - 1; d >= 0; --d) {
      row[d] = k % t.size(d);
      k /= t.size(d);
    }
    row += t.ndim();
  }
  return out;
}

Tensor read_places(T t, const Places& places, Span shape) {
  Tensor out = empty(shape, t.dtype());
  char *to = out.bytes(), *from = t.bytes();
  WithoutGil release(out.numel() >= kReleaseGil);
  gather_places(to, from, out->dtype, places);
  return out;
}

void write_places(T to, T src, const Places& places, Reduce how) {
  Tensor dense = contiguous(src);
  bool one = src.numel() == 1;
  char *out = to.bytes(), *in = dense.bytes();
  DType d = to.dtype();
  bool shared = !to.contiguous() && places_repeat(to.shape(), to.strides());
  WithoutGil release(places.numel() >= kReleaseGil);
  scatter_places(out, in, one, d, places, how, shared);
}

Tensor changeable(Call& c) {
  Tensor t = c.tensor(0);
  if (c.out && c.out.is(t)) return t;
  Tensor copy = empty_like(t, t.dtype());
  copy_into(copy, t);
  return copy;
}

}  // namespace adjoint
