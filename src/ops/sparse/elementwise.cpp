// Elementwise ops on sparse operands. Read parts.h first.
#include <array>

#include "kernels/index/sorting.h"
#include "ops/sparse/parts.h"
#include "ops/sparse/rules.h"

namespace adjoint::sparse {
namespace {

// The op on the entries of its first argument.
Tensor applied(const Op& op, Value* args, T s) {
  std::array<Value, kMaxArguments> of_entries;
  std::copy_n(args, op.argument_count, of_entries.begin());
  of_entries[0] = entries(s);
  return apply(op, of_entries.data());
}

// The first argument is sparse, the other tensors are numbers.
void require_alone(const Op& op, Value* args) {
  bool fine = args[0].is_tensor() && is_sparse(args[0].object());
  for (int k = 0; k < op.tensor_arguments; ++k) {
    const Value& v = args[op.tensor_at[k]];
    if (op.tensor_at[k] && v.is_tensor()) fine &= v.object()->ndim == 0 && !is_sparse(v.object());
    fine &= !v.is_tensors();
  }
  if (!fine) refuse_sparse(op, args);
}

bool sparse_at(Value* args, int i) { return args[i].is_tensor() && is_sparse(args[i].object()); }
bool is_number(const Value& v) { return v.is_scalar() || (v.is_tensor() && v.object()->ndim == 0); }

void require_same_shape(const Op& op, Value* args, T a, T b) {
  if (!(a.shape() == b.shape()))
    runtime_error(op.name, ": the sizes of sparse tensors must be equal: ", a.shape(), " and ",
                  b.shape());
  if (parts_of(a).sparse_axes() != parts_of(b).sparse_axes()) refuse_sparse(op, args);
}

Tensor joined(T a, T b) {
  const bool keeps_order = parts_of(a).coalesced && parts_of(b).coalesced;
  if (keeps_order && same_places(a, b)) return with_values(a, entries(a) + entries(b));
  Tensor x = to_coo(a), y = to_coo(b);
  Tensor indices = op<"cat">(Value(Tensors{parts_of(x).indices, parts_of(y).indices}), 1);
  Tensor values = op<"cat">(Value(Tensors{entries(x), entries(y)}), 0);
  Tensor out = coo(indices, values, shape_of(a), false);
  if (keeps_order) out = coalesced(out);
  return to_layout(out, parts_of(a).layout);
}

// Where both have an entry.
Tensor common_product(T first, T second) {
  Tensor a = coalesced(first), b = coalesced(second);
  if (same_places(a, b)) return with_values(a, entries(a) * entries(b));
  Tensor x = coalesced(to_coo(a)), y = coalesced(to_coo(b));
  Tensor have = positions_of(y), want = positions_of(x);
  const int64_t n = have.numel(), count = want.numel();
  Tensor at = int64s(count);
  search_sorted(have.bytes(), nullptr, n, want.bytes(), count, DType::Int64, false,
                at.data<int64_t>());
  std::vector<int64_t> left, right;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t place = at.data<int64_t>()[k];
    if (place >= n || have.data<int64_t>()[place] != want.data<int64_t>()[k]) continue;
    left.push_back(k);
    right.push_back(place);
  }
  auto chosen = [](const std::vector<int64_t>& v) {
    Tensor t = int64s(static_cast<int64_t>(v.size()));
    std::copy(v.begin(), v.end(), t.data<int64_t>());
    return t;
  };
  Tensor l = chosen(left), r = chosen(right);
  Tensor values =
      op<"index_select">(entries(x), 0, l).tensor() * op<"index_select">(entries(y), 0, r).tensor();
  Tensor indices = op<"index_select">(parts_of(x).indices, 1, l);
  return to_layout(coo(indices, values, shape_of(a), true), parts_of(a).layout);
}

Value added(const Op& op, Value* args, bool negative) {
  if (sparse_at(args, 0) && sparse_at(args, 1)) {
    Tensor a = args[0].tensor(), b = args[1].tensor();
    require_same_shape(op, args, a, b);
    if (args[2].complex() != 1.0) b = b * args[2];
    return joined(a, negative ? -b : b);
  }
  const int at = sparse_at(args, 0) ? 0 : 1;
  Tensor s = args[at].tensor();
  if (is_number(args[1 - at]) && s.ndim() > 0) {
    runtime_error(op.name, "(sparse, number) would change every element of the tensor of shape ",
                  s.shape(), ". fix: call it with .to_dense(), or on .values()");
  }
  std::array<Value, kMaxArguments> dense;
  std::copy_n(args, op.argument_count, dense.begin());
  dense[at] = to_dense(s);
  return apply(op, dense.data());
}

}  // namespace

Value on_entries(const Op& op, Value* args) {
  require_alone(op, args);
  Tensor s = coalesced(args[0].tensor());
  return with_values(s, applied(op, args, s));
}

Value linear_on_entries(const Op& op, Value* args) {
  require_alone(op, args);
  Tensor s = args[0].tensor();
  return with_values(s, applied(op, args, s));
}

Value add(const Op& op, Value* args) { return added(op, args, false); }
Value sub(const Op& op, Value* args) { return added(op, args, true); }

Value mul(const Op& op, Value* args) {
  if (sparse_at(args, 0) && sparse_at(args, 1)) {
    Tensor a = args[0].tensor(), b = args[1].tensor();
    require_same_shape(op, args, a, b);
    return common_product(a, b);
  }
  const int at = sparse_at(args, 0) ? 0 : 1;
  Tensor s = args[at].tensor();
  const Value& other = args[1 - at];
  if (is_number(other)) return with_values(s, entries(s) * other);
  Tensor dense = other;
  if (!(Span(broadcast_shapes(dense.shape(), s.shape())) == s.shape())) refuse_sparse(op, args);
  if (!(dense.shape() == s.shape())) dense = adjoint::op<"expand">(dense, s.shape());
  s = coalesced(s);
  return with_values(s, entries(s) * entries_at(dense, s));
}

namespace {

void require_divisor(const Op& op, Value* args) {
  if (!sparse_at(args, 0)) refuse_sparse(op, args);
  if (!is_number(args[1]) || sparse_at(args, 1))
    runtime_error("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape ",
                  args[1].tensor().shape(), " for divisor)");
}

}  // namespace

Value div(const Op& op, Value* args) {
  require_divisor(op, args);
  return linear_on_entries(op, args);
}

// Rounded quotients do not add up to the rounded quotient of a sum.
Value rounded_div(const Op& op, Value* args) {
  require_divisor(op, args);
  return on_entries(op, args);
}

Value pow(const Op& op, Value* args) {
  if (!sparse_at(args, 0) || !args[1].is_scalar() || args[1].kind() == Value::Complex ||
      args[1].real() <= 0)
    refuse_sparse(op, args);
  return on_entries(op, args);
}

}  // namespace adjoint::sparse
