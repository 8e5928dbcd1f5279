// Sums of sparse tensors, their copies and conversions. Read parts.h first.
#include "dispatch/record_node.h"
#include "ops/index/offsets.h"
#include "ops/sparse/parts.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint::sparse {

Value sum_all(const Op&, Value* args) { return op<"sum.all">(entries(args[0].tensor())); }

Value sum(const Op& op, Value* args) {
  Tensor s = args[0].tensor();
  if (args[3]) s = adjoint::op<"_to_copy">(s, args[3]);
  if (args[1].is_none() || args[1].ints().empty()) {
    Tensor total = adjoint::op<"sum.all">(entries(s));
    if (args[2].boolean()) total = adjoint::op<"view">(total, Dims(s.ndim(), 1));
    return total;
  }
  if (args[2].boolean()) refuse_sparse(op, args);
  s = to_coo(s);
  const SparseParts& p = parts_of(s);
  const int axes = p.sparse_axes();
  uint64_t gone = 0;
  for (int64_t d : args[1].ints()) {
    const int axis = wrap_dim(d, s.ndim());
    if (gone >> axis & 1)
      runtime_error("dim ", axis, " appears multiple times in the list of dims");
    gone |= uint64_t{1} << axis;
  }
  Dims shape, within;
  std::vector<int> kept;
  for (int d = 0; d < s.ndim(); ++d) {
    if (!(gone >> d & 1)) {
      shape.push_back(s.size(d));
      if (d < axes) kept.push_back(d);
    } else if (d >= axes) {
      within.push_back(d - axes + 1);
    }
  }
  Tensor values = entries(s);
  if (!within.empty()) values = adjoint::op<"sum">(values, within);
  if (kept.empty()) return adjoint::op<"sum">(values, Dims{0});
  const int64_t n = p.entries();
  Tensor indices = empty(Dims{static_cast<int64_t>(kept.size()), n}, DType::Int64);
  for (size_t d = 0; d < kept.size(); ++d)
    std::copy_n(p.indices.data<int64_t>() + kept[d] * n, n,
                indices.data<int64_t>() + static_cast<int64_t>(d) * n);
  return coalesced(coo(indices, values, shape, false));
}

Value norm(const Op& op, Value* args) {
  // Of all elements: those without an entry are zero, and count in no norm of positive order.
  std::vector<Value> dense(args, args + op.argument_count);
  for (int i = 1; i < op.argument_count; ++i) {
    const std::string& name = op.schema.arguments[i].name;
    if (name == "dim" && !args[i].is_none()) refuse_sparse(op, args);
    if (name == "keepdim" && args[i].boolean()) refuse_sparse(op, args);
    if ((name == "p" || name == "ord") && (!args[i].is_scalar() || args[i].real() <= 0)) {
      if (!args[i].is_none()) refuse_sparse(op, args);
    }
  }
  dense[0] = entries(coalesced(args[0].tensor()));
  return apply(op, dense.data());
}

Value clone(const Op&, Value* args) {
  Tensor s = args[0].tensor();
  return with_values(s, op<"clone">(entries(s)));
}

// The in-place form copies; this one is what it becomes.
Value copy(const Op& op, Value* args) {
  Tensor self = args[0].tensor(), from = args[1].tensor();
  if (!is_sparse(self) || !is_sparse(from))
    runtime_error("copy_() between dense and sparse Tensors is not implemented! (", self.shape(),
                  " and ", from.shape(), "; fix: use to_dense() or to_sparse())");
  if (!(self.shape() == from.shape())) refuse_sparse(op, args);
  Tensor same = adjoint::op<"clone">(to_layout(from, parts_of(self).layout));
  return adjoint::op<"_to_copy">(same, self.dtype());
}

namespace {

Tensor no_entries(T s, DType dtype) {
  const SparseParts& p = parts_of(s);
  Dims values = dense_shape(s);
  values.insert(0, 0);
  Tensor out =
      coo(empty(Dims{p.sparse_axes(), 0}, DType::Int64), zeros(values, dtype), shape_of(s), true);
  return to_layout(out, p.layout);
}

}  // namespace

Value zero(const Op&, Value* args) {
  Tensor s = args[0].tensor();
  return no_entries(s, s.dtype());
}

Value zeros_like(const Op& op, Value* args) {
  Tensor s = args[0].tensor();
  DType dtype = s.dtype();
  for (int i = 1; i < op.argument_count; ++i) {
    if (args[i].kind() == Value::Type) dtype = args[i].dtype();
  }
  return no_entries(s, dtype);
}

// Elements that have no entry are not touched.
static const Op& add_entries_ =
    def("_add_entries(input, other)", "`input + other`, where `other` is sparse.")
        .forward([](Call& c) -> Value {
          Tensor t = c.out ? c.out : contiguous(op_clone(c.tensor(0))), s = c.tensor(1);
          if (is_sparse(t) || !t.contiguous() || !(t.shape() == s.shape()))
            runtime_error("_add_entries: ", s.shape(), " cannot be added to ", t.shape());

          Dims flat = dense_shape(s);
          flat.insert(0, product_of(sparse_shape(s)));
          Tensor rows =
              on_storage(t->storage, flat, contiguous_strides(flat), t.offset(), t.dtype());
          write_places(rows, cast(parts_of(s).values, t.dtype()),
                       plan_rows(rows, 0, positions_of(s), "add"), Reduce::Add);
          return t;
        })
        .grad(0, nothing, [](T g, Context&) { return g; })
        .grad(1, input(1),
              [](T g, Context& c) -> Tensor {
                Tensor s = coalesced(c.tensor(1));
                return with_values(s, entries_at(g, s));
              })
        .jvp([](Context&, const Tensor* t) -> Value {
          if (!t[0]) return op<"_to_dense">(t[1]);
          return t[1] ? t[0] + t[1] : t[0];
        })
        .inplace()
        .internal()
        .batch(batch::each_sample)
        .takes_sparse()
        .node("AddBackward0");

// --- conversions --------------------------------------------------------------------------------------
static const Op& to_dense_ =
    def("_to_dense(input)", "The tensor itself; of a sparse one, all its elements.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return is_sparse(t) ? to_dense(t) : t;
        })
        .function_only()
        .takes_sparse();

static const Op& coalesce_ =
    def("_coalesce(input)", "Entries in order, and one for each place.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (!is_sparse(t) || parts_of(t).layout != Layout::Coo)
            runtime_error("coalesce expected sparse coordinate tensor layout but got ",
                          is_sparse(t) ? name_of(parts_of(t).layout) : "strided");
          return coalesced(t);
        })
        .function_only()
        .takes_sparse();

static const Op& to_layout_ =
    def("_to_layout(input, layout: int)", "A sparse tensor in another layout.")
        .forward([](Call& c) -> Value {
          if (!is_sparse(c.tensor(0))) runtime_error("expected a sparse tensor");
          return to_layout(c.tensor(0), static_cast<Layout>(c.integer(1)));
        })
        .function_only()
        .takes_sparse();

static const Op& sparse_mask_ =
    def("_sparse_mask(input, mask)", "The elements of `input` at the places of `mask`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), mask = c.tensor(1);
          if (!is_sparse(mask)) runtime_error("sparse_mask(): mask must be a sparse tensor");
          if (!(t.shape() == mask.shape()))
            runtime_error("sparse_mask(): operands have incompatible sizes; self has size ",
                          t.shape(), " but mask has size ", mask.shape());
          mask = coalesced(mask);
          return with_values(mask, entries_at(t, mask));
        })
        .function_only()
        .takes_sparse();

static const Op& from_dense_ =
    def("_dense_to_sparse(input, sparse_dim: int)",
        "The elements that are not zero, in the coordinate layout.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const auto axes = static_cast<int>(c.integer(1));
          if (axes < 0 || axes > t.ndim() || (axes == 0 && t.ndim() > 0))
            runtime_error("sparse_dim must be in the range 0 < sparse_dim <= ", t.ndim(), ", got ",
                          axes);
          Tensor there;
          {
            GradMode off(false);
            there = op<"ne">(t, 0);
            Dims within;
            for (int d = axes; d < t.ndim(); ++d) within.push_back(d);
            if (!within.empty()) there = op<"any.dim">(there, within);
          }
          Tensor rows = nonzero_of(there);  // [entries, axes]
          Tensor indices = empty(Dims{axes, rows.size(0)}, DType::Int64);
          copy_into(indices, on_storage(rows->storage, indices.shape(), Dims{1, axes},
                                        rows.offset(), DType::Int64));
          Dims values(t.shape());
          if (axes == 0) return coo(indices, op<"expand">(t, Dims{rows.size(0)}), values, true);
          Tensors at;
          for (int a = 0; a < axes; ++a) at.push_back(op<"select">(indices, 0, a));
          return coo(indices, op<"index">(t, Value(std::move(at))), values, true);
        })
        .function_only()
        .no_out()
        .by_values()
        .batch(batch::refuse_by_values);

}  // namespace adjoint::sparse
