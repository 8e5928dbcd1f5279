// Scaled dot-product attention. `_attention` is the native form, by tiles (kernels/attention.h); the
// rest is checks, shapes, and the same thing written from ops: for what the tiles do not do (dropout,
// a mask with a gradient) and for derivatives of the second order and of forward mode.
#include "ops/nn/attention.h"

#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "ops/nn/rows.h"
#include "transforms/tangents.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;
using attention::Head;

// --- written from ops ---------------------------------------------------------------------------
// The mask as numbers that are added to the scores: undefined where there is none.
Tensor added_mask(const Value& mask, DType d) {
  if (mask.is_none()) return {};
  Tensor m = mask;
  if (m.dtype() != DType::Bool) return m;
  return op<"where">(m, op<"zeros">(Dims{}, d), -std::numeric_limits<double>::infinity());
}

Tensor causal_mask(int64_t queries, int64_t keys) {
  return op<"tril">(op<"ones">(Dims{queries, keys}, DType::Bool));
}

struct Weights {
  Tensor all,
      dead;  // `dead`: queries that see nothing, whose weights are zero; undefined if none can be
};

Weights weights_of(T q, T k, const Value& mask, bool causal, double scale) {
  Tensor scores = op<"matmul">(q, op<"transpose">(k, -2, -1)).tensor() * scale;
  Tensor added = causal ? added_mask(causal_mask(q.size(-2), k.size(-2)), q.dtype())
                        : added_mask(mask, q.dtype());
  if (!added) return {op<"softmax">(scores, -1), {}};
  scores = scores + added;
  if (k.size(-2) == 0) return {op<"softmax">(scores, -1), {}};
  Tensor dead =
      op<"eq">(op<"amax">(scores, Dims{-1}, true), -std::numeric_limits<double>::infinity());
  scores = op<"masked_fill">(scores, dead, 0.0);
  return {op<"masked_fill">(op<"softmax">(scores, -1), dead, 0.0), dead};
}

// Heads of queries share heads of keys: [N, H, ...] as [N, H / group, group, ...].
Tensor grouped(T x, int64_t group) {
  if (group == 1) return x;
  return op<"reshape">(x, Dims{x.size(0), x.size(1) / group, group, x.size(2), x.size(3)});
}
Tensor ungrouped(T x, int64_t group) { return group == 1 ? x : op<"flatten">(x, 1, 2).tensor(); }
Tensor shared(T x, int64_t group) { return group == 1 ? x : op<"unsqueeze">(x, 2).tensor(); }
Value shared_mask(const Value& mask, int64_t group) {
  if (mask.is_none() || group == 1) return mask;
  Tensor m = mask;
  return m.size(1) == 1 ? op<"unsqueeze">(m, 2) : Value(grouped(m, group));
}

int64_t group_of(T q, T k) { return k.size(1) ? q.size(1) / k.size(1) : 1; }

// Arguments of `_attention` in a rule: queries, keys, values, mask, causal, scale.
struct Given {
  Tensor q, k, v;
  Weights w;
  int64_t group;
  double scale;

  explicit Given(C c) {
    Tensor q0 = c.in(0), k0 = c.in(1);
    group = group_of(q0, k0);
    scale = c.in(5).real();
    q = grouped(q0, group);
    k = shared(k0, group);
    v = shared(c.in(2), group);
    w = weights_of(q, k, shared_mask(c.in(3), group), c.in(4).boolean(), scale);
  }
  // What keys and values get from all heads that share them.
  Tensor gathered(T g) const { return group == 1 ? g : op<"sum">(g, Dims{2}).tensor(); }
  Tensor through_softmax(T g) const { return op<"_softmax_backward">(g, w.all, -1); }
};

Tensor turned(T x) { return op<"transpose">(x, -2, -1); }

void composed_backward(C c, Tensor* grads) {
  Given a(c);
  Tensor g = grouped(c.grad(), a.group);
  if (c.needs(2)) grads[2] = a.gathered(op<"matmul">(turned(a.w.all), g));
  if (!c.needs(0) && !c.needs(1) && !c.needs(3)) return;
  Tensor scores = a.through_softmax(op<"matmul">(g, turned(a.v)));
  if (c.needs(3)) grads[3] = ungrouped(scores, a.group);
  scores = scores * a.scale;
  if (c.needs(0)) grads[0] = ungrouped(op<"matmul">(scores, a.k), a.group);
  if (c.needs(1)) grads[1] = a.gathered(op<"matmul">(turned(scores), a.q));
}

Value attention_tangent(C c, const Tensor* t) {
  Given a(c);
  Tensor scores, out;
  auto add = [](Tensor& sum, const Value& part) {
    sum = sum ? sum + part.tensor() : part.tensor();
  };
  if (t[0]) add(scores, op<"matmul">(grouped(t[0], a.group), turned(a.k)).tensor() * a.scale);
  if (t[1]) add(scores, op<"matmul">(a.q, turned(shared(t[1], a.group))).tensor() * a.scale);
  if (t[3]) add(scores, shared_mask(t[3], a.group));
  if (scores) {
    scores = op<"expand">(scores, a.w.all.shape());
    add(out, op<"matmul">(a.through_softmax(scores), a.v));
  }
  if (t[2]) add(out, op<"matmul">(a.w.all, shared(t[2], a.group)));
  return ungrouped(out, a.group);
}

}  // namespace

Tensor attention_from_ops(T q, T k, T v, const Value& mask, double dropout, bool causal,
                          double scale) {
  const int64_t group = group_of(q, k);
  Tensor w =
      weights_of(grouped(q, group), shared(k, group), shared_mask(mask, group), causal, scale).all;
  if (dropout > 0) w = op<"dropout">(w, dropout, true);
  return ungrouped(op<"matmul">(w, shared(v, group)), group);
}

namespace {

// --- tiles --------------------------------------------------------------------------------------
// [N, H, rows, width] with contiguous rows of the dtype of the arithmetic.
Tensor with_rows(T x, DType d) {
  Tensor t = cast(x, d);
  const bool rows = t.ndim() == 4 && (t.stride(3) == 1 || t.size(3) == 1);
  return rows ? t : contiguous(t);
}

attention::Rows rows_of(T x, int64_t n, int64_t head) {
  if (!x) return {};
  const int64_t item = static_cast<int64_t>(x.itemsize());
  return {x.bytes() + (n * x.stride(0) + head * x.stride(1)) * item, x.stride(2)};
}

// Memory as [N, rows, H, width]: what follows joins the heads, and needs no copy then.
Tensor heads_inside(int64_t n, int64_t heads, int64_t rows, int64_t width, DType d) {
  Dims shape{n, heads, rows, width};
  Dims strides{rows * heads * width, width, heads * width, 1};
  return empty_strided(shape, strides, d);
}
// A gradient that lies in memory as its operand does.
Tensor like_operand(T x, DType d) {
  const bool inside = x.stride(1) < x.stride(2);
  if (inside) return heads_inside(x.size(0), x.size(1), x.size(2), x.size(3), d);
  return empty(x.shape(), d);
}

struct Mask {
  Tensor held;
  bool is_bool = false;

  Mask(const Value& given, DType d, Span scores) {
    if (given.is_none()) return;
    Tensor m = given;
    is_bool = m.dtype() == DType::Bool;
    if (!is_bool) m = cast(m, d);
    Dims strides(4);
    for (int i = 0; i < 4; ++i) strides[i] = m.size(i) == 1 ? 0 : m.stride(i);
    held = on_storage(m->storage, scores, strides, m.offset(), m.dtype());
    if (strides[3] != 0 && strides[3] != 1) held = contiguous(held);
  }
  void put_into(Head& h, int64_t n, int64_t head) const {
    if (!held) return;
    char* at = rows_of(held, n, head).data;
    if (is_bool)
      h.kept = reinterpret_cast<const uint8_t*>(at);
    else
      h.added = at;
    h.mask_row = held.stride(2);
    h.mask_column = held.stride(3);
  }
};

// What forward and backward share: the operands of all heads.
struct Heads {
  Tensor q, k, v;
  Mask mask;
  DType d;
  int64_t n, heads, group;
  bool causal;
  double scale;

  Heads(T q0, T k0, T v0, const Value& mask0, const Value& causal0, const Value& scale0)
      : q(with_rows(q0, compute_dtype(q0.dtype()))),
        k(with_rows(k0, compute_dtype(q0.dtype()))),
        v(with_rows(v0, compute_dtype(q0.dtype()))),
        mask(mask0, compute_dtype(q0.dtype()),
             Dims{q0.size(0), q0.size(1), q0.size(2), k0.size(2)}),
        d(compute_dtype(q0.dtype())),
        n(q0.size(0)),
        heads(q0.size(1)),
        group(group_of(q0, k0)),
        causal(causal0.boolean()),
        scale(scale0.real()) {}

  Head head(int64_t i, int64_t j) const {
    Head h;
    h.q = rows_of(q, i, j);
    h.k = rows_of(k, i, j / group);
    h.v = rows_of(v, i, j / group);
    mask.put_into(h, i, j);
    h.queries = q.size(2);
    h.keys = k.size(2);
    h.width = q.size(3);
    h.out_width = v.size(3);
    h.causal = causal;
    h.scale = scale;
    return h;
  }
};

// Memory of this thread for one tile or head, kept for the next.
char* scratch(int64_t bytes) {
  thread_local std::vector<char> memory;
  constexpr int64_t kLine = 64;
  if (static_cast<int64_t>(memory.size()) < bytes + kLine) memory.resize(bytes + kLine);
  const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<char*>((at + kLine - 1) / kLine * kLine);
}

constexpr int64_t kGrain = 16384;  // products worth handing to a thread

Value attention_forward(Call& c) {
  Heads a(c.tensor(0), c.tensor(1), c.tensor(2), c[3], c[4], c[5]);
  const int64_t queries = a.q.size(2), keys = a.k.size(2);
  Tensor out = heads_inside(a.n, a.heads, queries, a.v.size(3), a.d);
  Tensor logs = empty(Dims{a.n, a.heads, queries}, a.d);
  c.kept = logs;
  if (out.numel() == 0) return cast(out, c.tensor(0).dtype());
  const int64_t item = static_cast<int64_t>(item_size(a.d));
  const int64_t kv_heads = a.heads / a.group;
  const int64_t packed = attention::packed_size(keys, a.q.size(3));
  Tensor columns = empty(Dims{a.n * kv_heads * packed}, a.d);
  std::vector<Head> heads;
  for (int64_t i = 0; i < a.n * a.heads; ++i) {
    heads.push_back(a.head(i / a.heads, i % a.heads));
    heads.back().out = rows_of(out, i / a.heads, i % a.heads);
    heads.back().logs = logs.bytes() + i * queries * item;
  }
  Loop pack = row_loop("attention_pack", a.d), loop = row_loop("attention_forward", a.d);
  const int64_t tiles = (queries - 1) / attention::kTileRows + 1;
  const int64_t work = attention::kTileRows * keys * (a.q.size(3) + a.v.size(3));
  char* memory = columns.bytes();
  const int64_t group = a.group;
  WithoutGil release(a.n * a.heads * tiles * work >= kReleaseGil);
  parallel::parallel_ranges(
      a.n * kv_heads, std::max<int64_t>(1, kGrain / std::max<int64_t>(packed, 1)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          char* p[2] = {reinterpret_cast<char*>(&heads[i * group]), memory + i * packed * item};
          pack(p, 0);
        }
      });
  parallel::parallel_ranges(a.n * a.heads * tiles,
                            std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
                            [&](int64_t begin, int64_t end) {
                              char* own = scratch(attention::forward_scratch(heads[0]) * item);
                              for (int64_t i = begin; i < end; ++i) {
                                const int64_t head = i / tiles;
                                char* p[3] = {reinterpret_cast<char*>(&heads[head]), own,
                                              memory + head / group * packed * item};
                                loop(p, i % tiles);
                              }
                            });
  release.end();
  return cast(out, c.tensor(0).dtype());
}

// Three results: the gradients of queries, keys and values.
Value attention_backward(Call& c) {
  Heads a(c.tensor(1), c.tensor(2), c.tensor(3), c[6], c[7], c[8]);
  const DType given = c.tensor(1).dtype();
  Tensor g = with_rows(c.tensor(0), a.d), out = with_rows(c.tensor(4), a.d), logs = c.tensor(5);
  Tensor dq = like_operand(a.q, a.d), dk = like_operand(a.k, a.d), dv = like_operand(a.v, a.d);
  const int64_t item = static_cast<int64_t>(item_size(a.d)), queries = a.q.size(2);
  const int64_t kv_heads = a.heads / a.group, keys = a.k.size(2);
  std::vector<Head> heads;
  for (int64_t i = 0; i < a.n * a.heads; ++i) {
    const int64_t n = i / a.heads, j = i % a.heads;
    Head h = a.head(n, j);
    h.g = rows_of(g, n, j);
    h.out = rows_of(out, n, j);
    h.dq = rows_of(dq, n, j);
    h.dk = rows_of(dk, n, j / a.group);
    h.dv = rows_of(dv, n, j / a.group);
    h.logs = logs.bytes() + i * queries * item;
    h.first = j % a.group == 0;
    heads.push_back(h);
  }
  Loop loop = row_loop("attention_backward", a.d);
  const int64_t group = a.group, work = group * queries * keys * (a.q.size(3) + a.v.size(3));
  {
    WithoutGil release(a.n * kv_heads * work >= kReleaseGil);
    parallel::parallel_ranges(a.n * kv_heads,
                              std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
                              [&](int64_t begin, int64_t end) {
                                char* own = scratch(attention::backward_scratch(heads[0]) * item);
                                for (int64_t i = begin * group; i < end * group; ++i) {
                                  char* p[2] = {reinterpret_cast<char*>(&heads[i]), own};
                                  loop(p, 0);
                                }
                              });
  }
  return Tensors{cast(dq, given), cast(dk, given), cast(dv, given)};
}

// Samples of a batch are more of the first axis.
Value flattened(Call& c, const int* axes) {
  const int64_t size = batch::size(c, axes), n = c.tensor(0).size(axes[0] >= 0 ? 1 : 0);
  for (int i = 0; i < 3; ++i) c.args[i] = op<"flatten">(batch::whole(c, axes, i), 0, 1);
  // A mask that all samples share stays one.
  if (c[3].is_tensor() && (axes[3] >= 0 || c.tensor(3).size(0) != 1)) {
    Tensor mask = batch::whole(c, axes, 3);
    Dims shape(mask.shape());
    shape[1] = n;
    c.args[3] = op<"flatten">(op<"expand">(mask, shape), 0, 1);
  }
  return op<"unflatten">(apply(c.op, c.args), 0, Dims{size, n});
}

}  // namespace

static const Op& attention_ =
    def("_attention(query, key, value, attn_mask: Tensor?, is_causal: bool, scale: float)",
        "Attention of heads [N, H, L, E], whose weights are never stored.")
        .forward(attention_forward)
        .vjp(input(0) | input(1) | input(2) | input(3) | output(),
             [](C c, Tensor* grads) {
               if (grad_enabled() || g_transformed || c.needs(3))
                 return composed_backward(c, grads);
               Tensors r = op<"_attention_backward">(c.grad(), c.in(0), c.in(1), c.in(2), c.out(),
                                                     c.kept(), c.in(3), c.in(4), c.in(5))
                               .tensors();
               for (int i = 0; i < 3; ++i) {
                 if (c.needs(i)) grads[i] = r[i];
               }
             })
        .jvp(attention_tangent)
        .internal()
        .called("scaled_dot_product_attention")
        .node("ScaledDotProductFlashAttentionForCpuBackward0")
        .batch(flattened);

static const Op& attention_backward_ =
    def("_attention_backward(g, query, key, value, out, logs, attn_mask: Tensor?, is_causal: bool, "
        "scale: float)",
        "The gradients of _attention for queries, keys and values.")
        .forward(attention_backward)
        .internal()
        .called("scaled_dot_product_attention");

}  // namespace adjoint
