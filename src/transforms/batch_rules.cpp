// Batch rules: the same op on arguments with one more axis in front. Read batched.h first.
//
// Most follow from the schema: operands of a pointwise op are lined up, axes are counted from one
// on, sizes get the size of the batch in front. The table at the end says which op goes which way.
#include <unordered_map>

#include "tensor/checked.h"
#include "tensor/promote.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

using T = const Tensor&;

int64_t batch_size(Call& c, const int* axes) {
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (axes[i] < 0) continue;
    if (c[i].is_tensor()) return c.tensor(i).size(0);
    for (T t : c.tensors(i)) {
      if (t) return t.size(0);
    }
  }
  throw std::logic_error("no argument of " + c.op.full_name + " is batched");
}

// Argument i with a batch axis in any case.
Tensor whole(Call& c, const int* axes, int i) {
  Tensor t = c.tensor(i);
  if (axes[i] >= 0) return t;
  Dims shape(t.shape());
  shape.insert(0, batch_size(c, axes));
  return op<"expand">(t, shape);
}
int sample_ndim(Call& c, const int* axes, int i) { return c.tensor(i).ndim() - (axes[i] >= 0); }

// Axes of length one after the batch axis, so that the sample has `ndim` axes.
Tensor lined_up(Tensor t, int ndim) {
  while (t.ndim() - 1 < ndim) t = op<"unsqueeze">(t, 1);
  return t;
}

// --- pointwise -----------------------------------------------------------------------------------
// The condition of `where` and masks take no part in promotion.
bool promotes(const Op& op, int i) {
  if (op.name == "where") return i > 0;
  return op.name.rfind("masked_fill", 0) != 0;
}

// A sample without axes gives way to one with axes in promotion, which its batch would not do.
void promote_as_samples(Call& c, const int* axes) {
  ResultType type;
  bool any = false;
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (!promotes(c.op, i) || c.op.edge_of[i] < 0) continue;
    if (axes[i] >= 0) {
      any |= c.tensor(i).ndim() == 1;
      type.add(Value(first_sample(c.tensor(i))));
    } else {
      type.add(c[i]);
    }
  }
  if (!any) return;
  DType common = type.get();
  for (int i = 0; i < c.op.argument_count; ++i) {
    bool operand = promotes(c.op, i) && c.op.edge_of[i] >= 0 && c[i].is_tensor();
    if (operand && c.tensor(i).dtype() != common) c.args[i] = op<"_to_copy">(c.tensor(i), common);
  }
}

Value pointwise(Call& c, const int* axes) {
  int ndim = 0, operands = 0;
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (!c[i].is_tensor()) continue;
    ndim = std::max(ndim, sample_ndim(c, axes, i));
    ++operands;
  }
  if (operands > 1 || c.op.argument_count > 1) promote_as_samples(c, axes);
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (axes[i] >= 0) c.args[i] = lined_up(c.tensor(i), ndim);
  }
  return apply(c.op, c.args);
}

Value direct(Call& c, const int*) { return apply(c.op, c.args); }

// --- axes ----------------------------------------------------------------------------------------
bool names_axes(const std::string& name) {
  return name == "dim" || name == "dims" || name == "dim0" || name == "dim1" || name == "dim2" ||
         name == "dimension";
}

// Axes of a sample with `ndim` axes, counted with the batch axis in front.
Value shifted(const Value& v, int ndim) {
  if (v.kind() == Value::Int) return wrap_dim(v.integer(), ndim) + 1;
  if (v.kind() != Value::Ints) return v;
  Dims dims = v.ints();
  for (int64_t& d : dims) d = wrap_dim(d, ndim) + 1;
  return dims;
}
// None and an empty list stand for all axes.
Value axes_of(const Value& v, const Argument& a, int ndim) {
  bool none = v.is_none() || (v.kind() == Value::Ints && v.ints().empty());
  if (!none || a.type_text.find("int[") != 0) return shifted(v, ndim);
  Dims dims;
  for (int i = 1; i <= ndim; ++i) dims.push_back(i);
  return dims;
}

// Axes named by arguments; all tensors batched. `Extra` axes more than the sample has are counted
// where the result has them.
template <int Extra>
Value by_axes(Call& c, const int* axes) {
  for (int k = 0; k < c.op.tensor_arguments; ++k) {
    int i = c.op.tensor_at[k];
    if (c[i].is_tensor()) c.args[i] = whole(c, axes, i);
  }
  int ndim = c.tensor(c.op.tensor_at[0]).ndim() - 1;
  bool scalar = ndim == 0 && Extra == 0;  // a sample without axes counts as one of one element
  for (int k = 0; k < c.op.tensor_arguments && scalar; ++k) {
    int i = c.op.tensor_at[k];
    if (c[i].is_tensor() && c.tensor(i).ndim() == 1) c.args[i] = op<"unsqueeze">(c[i], 1);
  }
  if (scalar) ndim = 1;
  for (int i = 0; i < c.op.argument_count; ++i) {
    const Argument& a = c.op.schema.arguments[i];
    if (names_axes(a.name)) c.args[i] = axes_of(c[i], a, ndim + Extra);
    if (scalar && a.name == "keepdim") c.args[i] = false;
  }
  Value out = apply(c.op, c.args);
  if (!scalar) return out;
  auto drop = [](T t) -> Tensor { return t.ndim() == 2 ? op<"squeeze.dim">(t, 1).tensor() : t; };
  if (out.is_tensor()) return drop(out.tensor());
  Tensors ts;
  for (T t : out.tensors()) ts.push_back(drop(t));
  return ts;
}

// The transposes of views: axes are those of the whole, whose sizes are given.
Value by_sizes(Call& c, const int* axes) {
  c.args[0] = whole(c, axes, 0);
  int64_t n = batch_size(c, axes);
  int ndim = c.ints(1).size();
  for (int i = 0; i < c.op.argument_count; ++i) {
    const Argument& a = c.op.schema.arguments[i];
    if (names_axes(a.name)) c.args[i] = axes_of(c[i], a, ndim);
  }
  Dims sizes = c.ints(1);
  sizes.insert(0, n);
  c.args[1] = sizes;
  return ndim ? apply(c.op, c.args) : op<"alias">(c[0]);
}

Tensor flat_sample(T t) {
  int64_t n = 1;
  for (int i = 1; i < t.ndim(); ++i) n *= t.size(i);
  return op<"reshape">(t, Dims{t.size(0), n});
}

template <OpName Along>
Value whole_sample(Call& c, const int*) {  // a reduction of everything
  return op<Along>(flat_sample(c.tensor(0)), Dims{1});
}
template <OpName Along>
Value along_one(Call& c, const int*) {
  return op<Along>(flat_sample(c.tensor(0)), 1);
}
Value median_rule(Call& c, const int*) {
  return op<"median.dim">(flat_sample(c.tensor(0)), 1).tensors()[0];
}
Value nanmedian_rule(Call& c, const int*) {
  return op<"nanmedian.dim">(flat_sample(c.tensor(0)), 1).tensors()[0];
}
Value prod_rule(Call& c, const int*) {
  return op<"prod.dim">(flat_sample(c.tensor(0)), 1, false, c[1]);
}

// argmax, argmin and aminmax: one axis, or all.
Value one_or_all(Call& c, const int* axes) {
  if (!c[1].is_none()) return by_axes<0>(c, axes);
  Tensor t = c.tensor(0);
  int ndim = t.ndim() - 1;
  bool keepdim = c.flag(2);
  c.args[0] = flat_sample(t);
  c.args[1] = 1;
  c.args[2] = false;
  Value out = apply(c.op, c.args);
  if (!keepdim || ndim == 0) return out;
  Dims kept(ndim + 1, 1);
  kept[0] = t.size(0);
  if (out.is_tensor()) return op<"reshape">(out, kept);
  Tensors ts;
  for (T r : out.tensors()) ts.push_back(op<"reshape">(r, kept));
  return ts;
}

// --- shapes --------------------------------------------------------------------------------------
Value view_rule(Call& c, const int* axes) {
  Tensor t = c.tensor(0);
  Dims shape = c.ints(1);
  int64_t size = batch_size(c, axes), n = 1, known = 1;
  for (int i = 1; i < t.ndim(); ++i) n *= t.size(i);
  for (int64_t s : shape) known = checked_mul(known, s == -1 ? 1 : s);
  for (int64_t& s : shape) {
    if (s == -1 && known > 0 && n % known == 0) s = n / known;
  }
  shape.insert(0, size);
  c.args[1] = shape;
  return apply(c.op, c.args);
}

Value expand_rule(Call& c, const int* axes) {
  Dims shape = c.ints(1);
  Tensor t = lined_up(c.tensor(0), shape.size());
  shape.insert(0, batch_size(c, axes));
  return op<"expand">(t, shape, c[2]);
}

Value repeat_rule(Call& c, const int*) {
  Dims repeats = c.ints(1);
  Tensor t = lined_up(c.tensor(0), repeats.size());
  repeats.insert(0, 1);
  return op<"repeat">(t, repeats);
}

Value sum_to_size_rule(Call& c, const int*) {
  Dims size = c.ints(1);
  Tensor t = c.tensor(0);
  Dims wanted(t.ndim(), 1);
  wanted[0] = t.size(0);
  for (int i = 0; i < size.size(); ++i) wanted[t.ndim() - size.size() + i] = size[i];
  Tensor summed = op<"sum_to_size">(t, wanted);
  size.insert(0, t.size(0));
  return op<"reshape">(summed, size);
}

Value permute_rule(Call& c, const int*) {
  int ndim = c.tensor(0).ndim() - 1;
  Dims dims = c.ints(1);
  for (int64_t& d : dims) d = wrap_dim(d, ndim) + 1;
  dims.insert(0, 0);
  return op<"permute">(c[0], dims);
}

Value t_rule(Call& c, const int*) {
  int ndim = c.tensor(0).ndim() - 1;
  if (ndim > 2) runtime_error("t() expects a tensor with <= 2 dimensions, but self is ", ndim, "D");
  return ndim < 2 ? op<"alias">(c[0]) : op<"transpose">(c[0], 1, 2);
}

Value squeeze_rule(Call& c, const int*) {
  Tensor t = c.tensor(0);
  Dims ones;
  for (int i = 1; i < t.ndim(); ++i) {
    if (t.size(i) == 1) ones.push_back(i);
  }
  return ones.empty() ? op<"alias">(t) : op<"squeeze.dims">(t, ones);
}

Value roll_rule(Call& c, const int* axes) {
  if (!c[2].is_none() && !c.ints(2).empty()) return by_axes<0>(c, axes);
  Tensor t = c.tensor(0);
  Tensor rolled = op<"roll">(flat_sample(t), c[1], Dims{1});
  return op<"reshape">(rolled, t.shape());
}

Value trace_rule(Call& c, const int*) { return op<"sum">(op<"diagonal">(c[0], 0, 1, 2), Dims{-1}); }

// Lists: every tensor batched already. `cat` passes over samples of shape [0] among others.
template <int Extra>
Value joined(Call& c, const int*) {
  int ndim = 0;
  for (T t : c.tensors(0)) ndim = std::max(ndim, t.ndim() - 1);
  if (Extra == 0 && ndim > 1) {
    Tensors joining;
    for (T t : c.tensors(0)) {
      if (t.ndim() != 2 || t.size(1) != 0) joining.push_back(t);
    }
    c.args[0] = Value(std::move(joining));
  }
  c.args[1] = wrap_dim(c.integer(1), ndim + Extra) + 1;
  return apply(c.op, c.args);
}

// A sample in memory laid out by given strides: one such memory after another.
int64_t reach(Span shape, const Dims& strides) {
  int64_t last = 0;
  for (int i = 0; i < shape.n; ++i) last = checked_offset(last, shape[i] - 1, strides[i]);
  return checked_add(last, 1);
}
Value with_strides_rule(Call& c, const int*) {
  Tensor t = c.tensor(0);
  Dims strides = c.ints(1);
  strides.insert(0, reach({t->shape + 1, t.ndim() - 1}, strides));
  return op<"_with_strides">(t, strides);
}
// A sample may be laid out anew within the memory that it covers itself: what lies outside belongs
// to other samples, or is not the same for all of them.
void check_within_sample(T t, const Dims& size, const Dims& stride, int64_t offset) {
  int64_t first = t.offset(), last = first - 1;
  Span own{t->shape + 1, t.ndim() - 1};
  auto count = [](Span shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.n; ++i) n *= shape[i];
    return n;
  };
  if (count(size) == 0) return;
  if (count(own)) last += reach(own, Dims(Span{t->strides + 1, t.ndim() - 1}));
  if (offset >= first && offset <= last && reach(size, stride) <= last - offset + 1) return;
  runtime_error("vmap: as_strided(", Span(size), ", ", Span(stride), ", ", offset,
                ") can access memory outside of `tensor`: the sample's own memory is elements ",
                first, " to ", last,
                ". This is not supported inside of vmap; fix: index or view the tensor instead");
}
Value as_strided_rule(Call& c, const int* axes) {
  Tensor t = c.tensor(0);
  Dims size = c.ints(1), stride = c.ints(2);
  if (size.size() != stride.size()) {
    runtime_error("as_strided: size and stride must have the same length, got ", Span(size),
                  " and ", Span(stride));
  }
  check_within_sample(t, size, stride, c[3].is_none() ? t.offset() : c.integer(3));
  size.insert(0, batch_size(c, axes));
  stride.insert(0, t.stride(0));
  return op<"as_strided">(t, size, stride, c[3].is_none() ? Value(t.offset()) : c[3]);
}
// From places in one memory to places in another: samples far enough apart in both.
Value restride_rule(Call& c, const int* axes) {
  Tensor t = whole(c, axes, 0);
  Dims stride = c.ints(1), shape = c.ints(3), layout = c.ints(4);
  int64_t step = std::max(c.integer(2) + reach({t->shape + 1, t.ndim() - 1}, stride),
                          c.integer(5) + reach(shape, layout));
  stride.insert(0, step);
  shape.insert(0, t.size(0));
  layout.insert(0, step);
  return op<"_restride">(t, stride, c[2], shape, layout, c[5], c[6]);
}
Value as_strided_scatter_rule(Call& c, const int* axes) {
  Tensor t = whole(c, axes, 0);
  if (t.stride(0) == 0) {  // each sample needs memory of its own, laid out as it was
    Dims strides(t.strides());
    strides[0] = reach({t->shape + 1, t.ndim() - 1}, Dims(Span{t->strides + 1, t.ndim() - 1}));
    t = op<"_with_strides">(t, strides);
  }
  Dims size = c.ints(2), stride = c.ints(3);
  size.insert(0, t.size(0));
  stride.insert(0, t.stride(0));
  return op<"as_strided_scatter">(t, whole(c, axes, 1), size, stride, c[4]);
}

// --- products ------------------------------------------------------------------------------------
Tensor column(T t) { return op<"unsqueeze">(t, -1); }

void check_factors(Call& c, const int* axes, const char* name, int first, int second) {
  if (sample_ndim(c, axes, 0) == first && sample_ndim(c, axes, 1) == second) return;
  runtime_error("Shape mismatch: ", name, " expects a ", first, "D and a ", second,
                "D tensor, but got ", sample_ndim(c, axes, 0), "D and ", sample_ndim(c, axes, 1),
                "D tensors");
}

Value mm_rule(Call& c, const int* axes) {
  check_factors(c, axes, "mm", 2, 2);
  int64_t columns = c.tensor(1).size(-1), k = c.tensor(0).size(-1);
  if (c.tensor(1).size(-2) != k) {
    runtime_error("mat1 and mat2 shapes cannot be multiplied (", c.tensor(0).size(-2), "x", k,
                  " and ", c.tensor(1).size(-2), "x", columns, ")");
  }
  return op<"matmul">(c[0], c[1]);
}
Value bmm_rule(Call& c, const int* axes) {
  check_factors(c, axes, "bmm", 3, 3);
  return op<"matmul">(whole(c, axes, 0), whole(c, axes, 1));
}
Value mv_rule(Call& c, const int* axes) {
  check_factors(c, axes, "mv", 2, 1);
  if (axes[1] < 0) return op<"matmul">(c[0], c[1]);
  if (axes[0] < 0)  // rows of vectors times the transpose: one product
    return op<"matmul">(c[1], op<"transpose">(c[0], 0, 1));
  return op<"squeeze.dim">(op<"matmul">(c[0], column(c.tensor(1))), -1);
}
Value dot_rule(Call& c, const int* axes) {
  check_factors(c, axes, "dot", 1, 1);
  if (axes[0] < 0) return op<"matmul">(c[1], c[0]);
  if (axes[1] < 0) return op<"matmul">(c[0], c[1]);
  Tensor row = op<"unsqueeze">(c[0], -2);
  Tensor product = op<"matmul">(row, column(c.tensor(1)));
  return op<"reshape">(product, Dims{product.size(0)});
}

// beta * input + alpha * product, written out; on samples again.
Tensor scaled_sum(Call& c, const int* axes, T product) {
  Tensor t = c.tensor(0);
  if (axes[0] >= 0) t = lined_up(t, product.ndim() - 1);
  Tensor scaled = c[4].complex() == 1.0 ? product : product * c[4];
  if (c[3].complex() == 0.0) return scaled;
  return scaled + (c[3].complex() == 1.0 ? t : t * c[3]);
}
template <BatchRule Product>
Value add_product_rule(Call& c, const int* axes) {
  static const Op& any = find_op("mm");  // only its place is used: the rule reads two arguments
  if (axes[1] < 0 && axes[2] < 0) {      // one product for all samples
    Tensor p = op<"matmul">(c[1], c[2]);
    Dims shape(p.shape());
    shape.insert(0, batch_size(c, axes));
    return scaled_sum(c, axes, op<"expand">(p, shape));
  }
  Value factors[2] = {c[1], c[2]};
  int at[2] = {axes[1], axes[2]};
  Call product{any, factors};
  return scaled_sum(c, axes, Product(product, at).tensor());
}

Value linear_rule(Call& c, const int* axes) {
  bool bias = c.op.argument_count > 2;
  Tensor x = c.tensor(0), w = c.tensor(1), out;
  if (axes[1] < 0) {
    out = op<"matmul">(x, op<"transpose">(w, 0, 1));
  } else {
    // Each sample has its own weight: [n, rows, in] @ [n, in, out].
    Tensor wt = op<"transpose">(w, 1, 2);
    int ndim = sample_ndim(c, axes, 0);
    if (axes[0] < 0 && ndim > 1) {
      out = op<"matmul">(x, lined_up(wt, ndim));
    } else {
      Tensor rows = ndim == 1 ? op<"unsqueeze">(x, -2).tensor() : x;
      out = op<"matmul">(rows, ndim == 1 ? wt : lined_up(wt, ndim));
      if (ndim == 1) out = op<"squeeze.dim">(out, -2);
    }
  }
  if (!bias) return out;
  Tensor b = c.tensor(2);
  bool mapped = axes[0] >= 0 || axes[1] >= 0;
  return out + (axes[2] >= 0 ? lined_up(b, out.ndim() - mapped) : b);
}

// --- places --------------------------------------------------------------------------------------
bool is_mask(T t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }
bool has_mask(const Tensors& ts) {
  for (T t : ts) {
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
  for (T t : ts) {
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
Tensor moved(T t, int64_t from, int64_t to) {
  return from == to ? t : op<"movedim">(t, Dims{from}, Dims{to}).tensor();
}

Value index_rule(Call& c, const int* axes) {
  const Tensors& given = c.tensors(1);
  int64_t size = batch_size(c, axes);
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
  for (T t : given) at.push_back(t ? lined_up(t, s.ndim) : t);
  if (axes[0] < 0) {
    Tensor out = op<"index">(c[0], Value(std::move(at)));
    return s.adjacent ? moved(out, s.first, 0) : out;
  }
  Tensor rows = op<"arange">(Value(size));
  at.insert(at.begin(), lined_up(rows, s.ndim));
  Tensor out = op<"index">(c[0], Value(std::move(at)));
  if (!s.adjacent || s.first == 0) return out;
  // The indexed axes came to the front; they belong behind the axes before them.
  for (int k = 0; k < s.ndim; ++k) out = moved(out, 1, s.first + s.ndim);
  return out;
}

Value index_put_rule(Call& c, const int* axes) {
  Tensor self = whole(c, axes, 0);
  Tensors at = c.tensors(1);
  Indices s = study(at, axes[1] >= 0);
  Tensor values = c.tensor(2);
  if (axes[1] < 0 && s.adjacent) {
    int ndim = self.ndim() - 1 - s.count + s.ndim;
    if (axes[2] >= 0) values = lined_up(values, ndim);
    at.insert(at.begin(), Tensor());
    return op<"index_put">(self, Value(std::move(at)), values, c[3]);
  }
  // Every sample on its own, in place in a copy.
  Tensor out = op<"clone">(self);
  for (int64_t b = 0; b < out.size(0); ++b) {
    Tensors own;
    for (T t : at) own.push_back(t && axes[1] >= 0 ? op<"select">(t, 0, b).tensor() : t);
    Value v = axes[2] >= 0 ? op<"select">(values, 0, b) : Value(values);
    op_inplace<"index_put">(op<"select">(out, 0, b).tensor(), Value(std::move(own)), v, c[3]);
  }
  return out;
}

Value index_select_rule(Call& c, const int* axes) {
  Tensor t = c.tensor(0), index = c.tensor(2);
  int ndim = sample_ndim(c, axes, 0);
  int dim = ndim ? wrap_dim(c.integer(1), ndim) : 0;
  if (axes[2] < 0) return op<"index_select">(ndim ? t : column(t), dim + 1, index);
  Tensors at(dim);
  at.push_back(index);
  Value args[2] = {Value(t), Value(std::move(at))};
  int inner[2] = {axes[0], 0};
  static const Op& by_index = find_op("index");
  Call call{by_index, args};
  return index_rule(call, inner);
}

// Rows of a tensor named by an index that all samples share.
Value rows_rule(Call& c, const int* axes) {
  if (axes[2] >= 0 || sample_ndim(c, axes, 0) == 0 ||
      (c.op.full_name == "index_fill.tensor" && axes[3] >= 0)) {
    return loop_over_samples(c.op, c.args, axes, batch_size(c, axes));
  }
  int ndim = sample_ndim(c, axes, 0);
  c.args[0] = whole(c, axes, 0);
  if (c[3].is_tensor() && c.op.full_name != "index_fill.tensor") c.args[3] = whole(c, axes, 3);
  c.args[1] = wrap_dim(c.integer(1), ndim) + 1;
  return apply(c.op, c.args);
}

Value embedding_rule(Call& c, const int* axes) {
  // Its own gradient counts and skips rows, of each sample alone.
  if (c.integer(2) >= 0 || c.flag(3))
    return loop_over_samples(c.op, c.args, axes, batch_size(c, axes));
  if (axes[0] < 0) return apply(c.op, c.args);
  Tensor weight = c.tensor(0);
  if (axes[1] < 0) return op<"index">(weight, Value(Tensors{Tensor(), c.tensor(1)}));
  Tensor rows = lined_up(op<"arange">(Value(weight.size(0))), sample_ndim(c, axes, 1));
  return op<"index">(weight, Value(Tensors{rows, c.tensor(1)}));
}

// --- the rest ------------------------------------------------------------------------------------
Value new_rule(Call& c, const int* axes) {
  Dims size = c.ints(1);
  size.insert(0, batch_size(c, axes));
  c.args[1] = size;
  return apply(c.op, c.args);
}

// Memory for one sample after another.
Value new_strided_rule(Call& c, const int* axes) {
  Dims size = c.ints(1), stride = c.ints(2);
  if (size.size() == stride.size()) {
    bool none = std::find(size.begin(), size.end(), 0) != size.end();
    stride.insert(0, none ? 0 : reach(size, stride));
  }
  size.insert(0, batch_size(c, axes));
  c.args[1] = size;
  c.args[2] = stride;
  return apply(c.op, c.args);
}

Value view_as_complex_rule(Call& c, const int*) {
  if (c.tensor(0).ndim() == 1) runtime_error("Input tensor must have one or more dimensions");
  return apply(c.op, c.args);
}

// How many there are depends on the values, so the samples would not fit together.
Value dynamic_rule(Call& c, const int*) {
  runtime_error(
      "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
      "over aten::",
      c.op.name,
      ", whose shape depends on the values. fix: use a form of fixed shape, such as "
      "where(condition, x, y), or call it outside vmap");
}

Value masked_fill_rule(Call& c, const int* axes) {
  if (axes[2] < 0) return pointwise(c, axes);
  int ndim = std::max(sample_ndim(c, axes, 0), sample_ndim(c, axes, 1));
  auto up = [&](int i) { return axes[i] >= 0 ? lined_up(c.tensor(i), ndim) : c.tensor(i); };
  Tensor value = op<"_to_copy">(up(2), c.tensor(0).dtype());
  return op<"where">(up(1), value, up(0));
}

Value fill_rule(Call& c, const int* axes) {
  Tensor t = whole(c, axes, 0);
  if (axes[1] < 0) return op<"fill">(t, c[1]);
  Tensor value = op<"_to_copy">(lined_up(c.tensor(1), t.ndim() - 1), t.dtype());
  return op<"clone">(op<"expand">(value, t.shape()));
}

Value copy_number_rule(Call& c, const int* axes) { return op<"fill">(whole(c, axes, 0), c[1]); }

Value copy_rule(Call& c, const int* axes) {
  Tensor to = whole(c, axes, 0);
  Tensor from = axes[1] >= 0 ? lined_up(c.tensor(1), to.ndim() - 1) : c.tensor(1);
  return op<"copy">(to, from);
}

Value layer_norm_rule(Call& c, const int* axes) {
  auto mapped = [&](int i) { return c[i].is_tensor() && axes[i] >= 0; };
  if (!mapped(2) && !mapped(3)) return apply(c.op, c.args);
  Tensor y = op<"layer_norm">(whole(c, axes, 0), c[1], nullptr, nullptr, c[4]);
  auto up = [&](int i) { return mapped(i) ? lined_up(c.tensor(i), y.ndim() - 1) : c.tensor(i); };
  if (c[2].is_tensor()) y = y * up(2);
  if (c[3].is_tensor()) y = y + up(3);
  return y;
}

// A loss as each sample's own: of all elements behind the batch axis.
Value reduced(T each, const std::string& how) {
  if (how == "none") return each;
  Tensor rows = flat_sample(each);
  return how == "mean" ? op<"mean">(rows, Dims{1}) : op<"sum">(rows, Dims{1});
}
Value loss_rule(Call& c, const int* axes) {
  std::string how = c[2].str();
  int ndim = std::max(sample_ndim(c, axes, 0), sample_ndim(c, axes, 1));
  for (int i = 0; i < 2; ++i) {
    if (axes[i] >= 0) c.args[i] = lined_up(c.tensor(i), ndim);
  }
  c.args[2] = "none";
  return reduced(apply(c.op, c.args), how);
}

// -log-probabilities of target classes, weighed, as PyTorch averages them.
Tensor nll_of(T logs, T target, const Value& weight, int64_t ignored, const std::string& how) {
  // logs: [n, ..., classes] with the classes last; target: [n, ...].
  Tensor kept = op<"ne">(target, ignored);
  Tensor safe = op<"where">(kept, target, op<"zeros_like">(target));
  Tensor picked = op<"squeeze.dim">(op<"gather">(logs, -1, op<"unsqueeze">(safe, -1)), -1);
  Tensor share = op<"_to_copy">(kept, logs.dtype());
  if (weight.is_tensor()) {
    // One weight for all samples, or one row of them each.
    Tensor w = weight.tensor();
    Tensor own = w.ndim() == 1 ? op<"index">(w, Value(Tensors{safe})).tensor()
                               : op<"gather">(w, -1, flat_sample(safe)).tensor();
    share = share * op<"reshape">(own, safe.shape()).tensor();
  }
  Tensor each = -(picked * share);
  if (how == "none") return each;
  Tensor sum = op<"sum">(flat_sample(each), Dims{1});
  return how == "sum" ? sum : sum / op<"sum">(flat_sample(share), Dims{1}).tensor();
}
template <bool Logits>
Value nll_rule(Call& c, const int* axes) {
  Tensor x = whole(c, axes, 0), target = whole(c, axes, 1);
  if (c[2].is_tensor() && axes[2] >= 0 && x.ndim() > 3)
    not_implemented("vmap over class weights of more than two axes");
  if (Logits) x = op<"log_softmax">(x, x.ndim() == 2 ? 1 : 2);
  if (x.ndim() > 3) x = op<"movedim">(x, Dims{2}, Dims{-1});
  return nll_of(x, target, c[2], c.integer(3), c[4].str());
}

// --- which op goes which way ---------------------------------------------------------------------
struct Entry {
  const char* names;
  BatchRule rule;
};
const Entry kTable[] = {
    {"complex abs sgn angle masked_fill heaviside isclose isreal gcd lcm nextafter", pointwise},
    {"cdist", pointwise},  // its points broadcast in all axes but the last two
    {"conj conj_physical real imag view_as_real clone contiguous _to_copy alias "
     "_alias tril triu zero zeros_like ones_like empty_like full_like _ones_like view.dtype",
     direct},
    {"flip rot90 transpose squeeze.dim squeeze.dims sum mean var std linalg_vector_norm logsumexp "
     "nansum amax amin all.dim any.dim count_nonzero max.dim min.dim median.dim nanmedian.dim mode "
     "cumsum cumprod logcumsumexp cummax cummin prod.dim select slice narrow unbind split "
     "split_with_sizes diagonal unfold softmax log_softmax _softmax_backward "
     "_log_softmax_backward sort argsort topk kthvalue gather scatter scatter.value scatter_add "
     "scatter_reduce _gather_along _scatter_along select_scatter slice_scatter diagonal_scatter",
     by_axes<0>},
    {"_select_backward _slice_backward _diagonal_backward _unfold_backward _spread", by_sizes},
    {"index_fill index_fill.tensor index_add index_copy index_reduce", rows_rule},
    {"unsqueeze diag_embed", by_axes<1>},
    {"sum.all", whole_sample<"sum">},
    {"mean.all", whole_sample<"mean">},
    {"max", whole_sample<"amax">},
    {"min", whole_sample<"amin">},
    {"all", whole_sample<"all.dim">},
    {"any", whole_sample<"any.dim">},
    {"median", median_rule},
    {"nanmedian", nanmedian_rule},
    {"prod", prod_rule},
    {"argmax argmin aminmax", one_or_all},
    {"view _unsafe_view _unsafe_squeeze", view_rule},
    {"expand", expand_rule},
    {"repeat", repeat_rule},
    {"sum_to_size", sum_to_size_rule},
    {"permute", permute_rule},
    {"t", t_rule},
    {"squeeze", squeeze_rule},
    {"roll", roll_rule},
    {"trace", trace_rule},
    {"cat", joined<0>},
    {"stack", joined<1>},
    {"_with_strides", with_strides_rule},
    {"as_strided", as_strided_rule},
    {"_restride", restride_rule},
    {"as_strided_scatter", as_strided_scatter_rule},
    {"mm", mm_rule},
    {"bmm", bmm_rule},
    {"mv", mv_rule},
    {"dot", dot_rule},
    {"addmm", add_product_rule<mm_rule>},
    {"baddbmm", add_product_rule<bmm_rule>},
    {"addmv", add_product_rule<mv_rule>},
    {"_linear _linear_bias", linear_rule},
    {"index", index_rule},
    {"index_put", index_put_rule},
    {"index_select", index_select_rule},
    {"embedding", embedding_rule},
    {"new_zeros new_ones new_empty new_full", new_rule},
    {"masked_fill.tensor", masked_fill_rule},
    {"new_empty_strided", new_strided_rule},
    {"view_as_complex", view_as_complex_rule},
    {"nonzero argwhere where.condition unique unique_consecutive", dynamic_rule},
    {"fill", fill_rule},
    {"copy", copy_rule},
    {"copy.number", copy_number_rule},
    {"layer_norm", layer_norm_rule},
    {"mse_loss smooth_l1_loss huber_loss", loss_rule},
    {"_nll_loss _nll_loss2d", nll_rule<false>},
    {"_cross_entropy", nll_rule<true>},
};

// Ops without a derivative that read memory themselves: everything else without one calls ops.
const char* const kReaders =
    "allclose equal bincount histc isin searchsorted bucketize repeat_interleave.each "
    "repeat_interleave.positions quantile "
    "nanquantile tensor_split.tensor_indices_or_sections renorm cov corrcoef vander unravel_index "
    "_prod_grad "
    "_cumprod_grad";

template <class F>
void each_word(const char* text, F&& f) {
  std::string_view rest(text);
  while (!rest.empty()) {
    size_t end = std::min(rest.find(' '), rest.size());
    if (end) f(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

struct Rules {
  std::unordered_map<const Op*, BatchRule> rule;
  std::unordered_map<const Op*, bool> reader;
  Rules() {
    for (const Op* op : all_ops()) {
      if (op->is_elementwise || op->is_partial) rule[op] = pointwise;
    }
    for (const Entry& e : kTable)
      each_word(e.names, [&](std::string_view name) { rule[&find_op(name)] = e.rule; });
    each_word(kReaders, [&](std::string_view name) { reader[&find_op(name)] = true; });
  }
};
const Rules& rules() {
  static const Rules all;
  return all;
}

}  // namespace

BatchRule batch_rule_of(const Op& op) {
  if (op.batch) return op.batch;
  auto found = rules().rule.find(&op);
  return found == rules().rule.end() ? nullptr : found->second;
}

bool only_calls_ops(const Op& op) {
  return !op.differentiable() && !op.is_elementwise && !rules().reader.count(&op);
}

}  // namespace adjoint
