// Batch rules for kinds of ops. Read batch_rules.h first.
#include "transforms/batch_rules.h"

#include "tensor/checked.h"
#include "tensor/promote.h"
#include "transforms/batched.h"

namespace adjoint::batch {

using T = const Tensor&;

int64_t size(Call& c, const int* axes) {
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (axes[i] < 0) continue;
    if (c[i].is_tensor()) return c.tensor(i).size(0);
    for (T t : c.tensors(i)) {
      if (t) return t.size(0);
    }
  }
  throw std::logic_error("no argument of " + c.op.full_name + " is batched");
}

Tensor whole(Call& c, const int* axes, int i) {
  Tensor t = c.tensor(i);
  if (axes[i] >= 0) return t;
  Dims shape(t.shape());
  shape.insert(0, size(c, axes));
  return op<"expand">(t, shape);
}

Tensor line_up(Tensor t, int ndim) {
  while (t.ndim() - 1 < ndim) t = op<"unsqueeze">(t, 1);
  return t;
}

Tensor flat_sample(T t) {
  int64_t n = 1;
  for (int i = 1; i < t.ndim(); ++i) n *= t.size(i);
  return op<"reshape">(t, Dims{t.size(0), n});
}

int64_t reach(Span shape, const Dims& strides) {
  int64_t last = 0;
  for (int i = 0; i < shape.n; ++i) last = checked_offset(last, shape[i] - 1, strides[i]);
  return checked_add(last, 1);
}

// --- pointwise -----------------------------------------------------------------------------------
namespace {

// A sample without axes gives way to one with axes in promotion, which its batch would not do.
void promote_as_samples(Call& c, const int* axes, int first) {
  ResultType type;
  bool any = false;
  for (int i = first; i < c.op.argument_count; ++i) {
    if (c.op.edge_of[i] < 0) continue;
    if (axes[i] >= 0) {
      any |= c.tensor(i).ndim() == 1;
      type.add(Value(first_sample(c.tensor(i))));
    } else {
      type.add(c[i]);
    }
  }
  if (!any) return;
  DType common = type.get();
  for (int i = first; i < c.op.argument_count; ++i) {
    bool operand = c.op.edge_of[i] >= 0 && c[i].is_tensor();
    if (operand && c.tensor(i).dtype() != common) c.args[i] = op<"_to_copy">(c.tensor(i), common);
  }
}

}  // namespace

Value lined_up(Call& c, const int* axes) {
  int ndim = 0;
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (c[i].is_tensor()) ndim = std::max(ndim, sample_ndim(c, axes, i));
  }
  for (int i = 0; i < c.op.argument_count; ++i) {
    if (axes[i] >= 0) c.args[i] = line_up(c.tensor(i), ndim);
  }
  return apply(c.op, c.args);
}

template <int First>
Value pointwise_from(Call& c, const int* axes) {
  if (c.op.argument_count > 1) promote_as_samples(c, axes, First);
  return lined_up(c, axes);
}
template Value pointwise_from<0>(Call& c, const int* axes);
template Value pointwise_from<1>(Call& c, const int* axes);

Value as_is(Call& c, const int*) { return apply(c.op, c.args); }

// --- axes ----------------------------------------------------------------------------------------
namespace {

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

}  // namespace

template <int Extra>
Value along_with(Call& c, const int* axes) {
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
template Value along_with<0>(Call& c, const int* axes);
template Value along_with<1>(Call& c, const int* axes);

Value by_sizes(Call& c, const int* axes) {
  c.args[0] = whole(c, axes, 0);
  int64_t n = size(c, axes);
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

template <bool Brought>
Value rows_at(Call& c, const int* axes) {
  int ndim = sample_ndim(c, axes, 0);
  if (axes[2] >= 0 || ndim == 0 || (!Brought && axes[3] >= 0)) return each_sample(c, axes);
  c.args[0] = whole(c, axes, 0);
  if (Brought && c[3].is_tensor()) c.args[3] = whole(c, axes, 3);
  c.args[1] = wrap_dim(c.integer(1), ndim) + 1;
  return apply(c.op, c.args);
}
template Value rows_at<true>(Call& c, const int* axes);
template Value rows_at<false>(Call& c, const int* axes);

// --- one by one, or not at all -------------------------------------------------------------------
Value each_sample(Call& c, const int* axes) {
  return loop_over_samples(c.op, c.args, axes, size(c, axes));
}

Value refuse_by_values(Call& c, const int*) {
  runtime_error(
      "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
      "over aten::",
      c.op.name,
      ", whose shape depends on the values. fix: use a form of fixed shape, such as "
      "where(condition, x, y), or call it outside vmap");
}

const char* kind_of(BatchRule rule) {
  struct Named {
    BatchRule rule;
    const char* name;
  };
  static constexpr Named kinds[] = {{nullptr, "composed"},
                                    {pointwise_from<0>, "pointwise"},
                                    {pointwise_from<1>, "pointwise"},
                                    {lined_up, "pointwise"},
                                    {as_is, "as is"},
                                    {along_with<0>, "along"},
                                    {along_with<1>, "along"},
                                    {by_sizes, "by sizes"},
                                    {rows_at<true>, "rows"},
                                    {rows_at<false>, "rows"},
                                    {each_sample, "each sample"},
                                    {refuse_by_values, "refused"}};
  for (const Named& k : kinds) {
    if (k.rule == rule) return k.name;
  }
  return "own";
}

}  // namespace adjoint::batch

namespace adjoint {

BatchRule batch_rule_by_kind(const Op& op) {
  if (is_pointwise(op)) return batch::pointwise;
  return op.differentiable() ? batch::each_sample : nullptr;
}

}  // namespace adjoint
