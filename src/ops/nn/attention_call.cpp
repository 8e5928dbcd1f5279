// scaled_dot_product_attention as it is called: what may be given, and how it becomes heads
// [N, H, L, E] for `_attention`. Read attention.cpp first.
#include <cmath>

#include "dispatch/op.h"
#include "ops/nn/attention.h"

namespace adjoint {
namespace {

using T = const Tensor&;

void check(T q, T k, T v, const Value& mask, double dropout, bool causal) {
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype()) {
    runtime_error(
        "Expected query, key, and value to have the same dtype, but got query.dtype: ", q.dtype(),
        " key.dtype: ", k.dtype(), " and value.dtype: ", v.dtype(), " instead.");
  }
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2) {
    runtime_error(
        "Expected query, key, and value to all be at least 2 dimensional, but got query.dim(): ",
        q.ndim(), ", key.dim(): ", k.ndim(), " and value.dim(): ", v.ndim(), " instead.");
  }
  if (!(dropout >= 0 && dropout <= 1))
    runtime_error("dropout probability has to be between 0 and 1, but got ", dropout);
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2)) {
    runtime_error("scaled_dot_product_attention: queries of ", q.shape(), " and keys of ",
                  k.shape(), " must have one width, keys and values of ", v.shape(), " one number");
  }
  if (mask.is_none()) return;
  Tensor m = mask;
  if (causal) {
    runtime_error(
        "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  }
  if (m.dtype() != DType::Bool && m.dtype() != DType::Float32 && m.dtype() != q.dtype()) {
    runtime_error(
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
        "attn_mask.dtype: ",
        m.dtype(), " and query.dtype: ", q.dtype(), " instead.");
  }
}

Span leading(T x) { return {x->shape, x.ndim() - 2}; }

// The axes before the last two, brought to `lead` and then to two of them.
Tensor as_heads(T x, const Dims& lead) {
  Dims whole = lead, flat{1, lead.empty() ? 1 : lead[lead.size() - 1]};
  for (int i = 0; i + 1 < lead.size(); ++i) flat[0] *= lead[i];
  for (int64_t n : {x.size(-2), x.size(-1)}) whole.push_back(n), flat.push_back(n);
  Tensor wide = x.shape() == Span(whole) ? x : op<"expand">(x, whole).tensor();
  return wide.shape() == Span(flat) ? wide : op<"reshape">(wide, flat).tensor();
}

// A mask whose axes may be 1 where it repeats itself.
Value mask_of_heads(const Value& mask, const Dims& lead, int64_t queries, int64_t keys) {
  if (mask.is_none()) return mask;
  Tensor m = mask;
  Dims scores = lead;
  scores.push_back(queries);
  scores.push_back(keys);
  if (!(Span(broadcast_shapes(m.shape(), scores)) == Span(scores))) {
    runtime_error("scaled_dot_product_attention: attn_mask of shape ", m.shape(),
                  " does not broadcast to the scores, which have shape ", scores);
  }
  while (m.ndim() < 2) m = op<"unsqueeze">(m, 0);
  if (m.ndim() == 2) return op<"unsqueeze">(op<"unsqueeze">(m, 0), 0);
  if (lead.size() == 2) return m.ndim() == 4 ? m : op<"unsqueeze">(m, 0).tensor();
  return as_heads(m, lead);
}

struct Leading {
  Dims queries, keys;
};
Leading leading_of(T q, T k, T v, bool grouped) {
  if (!grouped) {
    Dims all = broadcast_shapes(broadcast_shapes(leading(q), leading(k)), leading(v));
    return {all, all};
  }
  if (q.ndim() < 3 || k.ndim() < 3 || v.ndim() < 3)
    runtime_error("enable_gqa needs an axis of heads: query has shape ", q.shape());
  const int64_t heads = q.size(-3), shared = k.size(-3);
  if (shared == 0 || heads % shared != 0 || v.size(-3) != shared) {
    runtime_error("Number of heads in key and value must divide the number of heads in query: got ",
                  heads, " for query, ", shared, " for key and ", v.size(-3), " for value");
  }
  auto before = [](T x) { return Span{x->shape, x.ndim() - 3}; };
  Dims all = broadcast_shapes(broadcast_shapes(before(q), before(k)), before(v));
  Leading out{all, all};
  out.queries.push_back(heads);
  out.keys.push_back(shared);
  return out;
}

Value attend(Call& c) {
  Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
  const double dropout = c.real(4);
  const bool causal = c.flag(5);
  check(q, k, v, c[3], dropout, causal);
  Leading lead = leading_of(q, k, v, c.flag(7));
  const double scale = c[6].is_none() ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : c.real(6);
  Tensor q4 = as_heads(q, lead.queries), k4 = as_heads(k, lead.keys), v4 = as_heads(v, lead.keys);
  Value mask = mask_of_heads(c[3], lead.queries, q.size(-2), k.size(-2));
  const bool tiles =
      dropout == 0 && is_floating(q.dtype()) && q4.numel() && k4.numel() && v4.numel();
  Tensor out = tiles ? op<"_attention">(q4, k4, v4, mask, causal, scale).tensor()
                     : attention_from_ops(q4, k4, v4, mask, dropout, causal, scale);
  Dims shape = lead.queries;
  shape.push_back(q.size(-2));
  shape.push_back(v.size(-1));
  return out.shape() == Span(shape) ? out : op<"reshape">(out, shape).tensor();
}

}  // namespace

static const Op& scaled_dot_product_attention_ =
    def("scaled_dot_product_attention(query, key, value, attn_mask: Tensor? = None, dropout_p: "
        "float = 0.0, is_causal: bool = False, *, scale: float? = None, enable_gqa: bool = False)",
        "softmax(scale * query key^T + attn_mask) value. The weights are computed tile by tile and "
        "never stored, unless there is dropout. A query that sees no key gets zeros.")
        .forward(attend)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

}  // namespace adjoint
