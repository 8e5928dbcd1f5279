// The short way. Read direct.h first.
#include "direct.h"

#include "../graph/saved.h"
#include "../tensor/gil.h"
#include "../tensor/zero.h"
#include "cuts.h"
#include "reuse.h"

namespace adjoint {
namespace {

constexpr int64_t kMaxFilled = 64;  // elements a number is repeated to

// One operand: a tensor, or a number that was repeated into `data`.
struct Operand {
  TensorObject* t;
  const Value* number;
  char* data;
};

bool fits(const TensorObject* t) {
  return (t->flags & (kContiguous | kUnusual)) == kContiguous && t->numel < kReleaseGil &&
         t->ndim <= kInlineDims;
}

bool same_shape(const TensorObject* a, const TensorObject* b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; ++i) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

// A real number next to a float tensor takes its dtype: repeated, it is an operand like any other.
// True and False are no such numbers: sub refuses them.
bool fill_number(const Value& v, const TensorObject* like, char* buffer) {
  if (v.kind() == Value::Complex || v.kind() == Value::Bool || like->numel > kMaxFilled)
    return false;
  double x = v.real();
  if (like->dtype == DType::Float32)
    std::fill_n(reinterpret_cast<float*>(buffer), like->numel, static_cast<float>(x));
  else if (like->dtype == DType::Float64)
    std::fill_n(reinterpret_cast<double*>(buffer), like->numel, x);
  else
    return false;
  return true;
}

template <int N>
[[gnu::noinline]] const char* name_by_arguments(const Op& op, const Operand* x) {
  Value args[kMaxArguments];
  for (int i = 0; i < N; ++i) {
    if (x[i].t)
      args[i].fill(x[i].t);
    else
      args[i].fill(*x[i].number);
  }
  return op.name_of(args);
}

template <int N>
inline const char* name_of(const Op& op, const Operand* x) {
  if (op.name_of) [[unlikely]]
    return name_by_arguments<N>(op, x);
  return op.node_name.c_str();
}

// Gives up the node when one of its edges cannot be made.
struct Unfinished {
  Node* node;
  ~Unfinished() { Py_XDECREF(node); }
};

// `needs`: a bit per operand that a gradient goes to.
template <int N>
[[gnu::always_inline]] inline void record(const Op& op, const Operand* x, unsigned needs,
                                          TensorObject* out) {
  Node* node = new_node(name_of<N>(op, x), op_backward, N, N);
  node->op = &op;
  Unfinished unfinished{node};
#pragma GCC unroll 2
  for (int i = 0; i < N; ++i) {
    if (needs >> i & 1) [[likely]]
      node->inline_edges[i] = gradient_edge(x[i].t);
  }
  unfinished.node = nullptr;
  node->sequence = ++last_sequence;  // younger than a leaf's accumulator made with the edges
  const Uses& uses = op.direct_uses[needs];
#pragma GCC unroll 2
  for (int i = 0; i < N; ++i) {
    Saved& s = node->inline_saved[i];
    if (!x[i].t) {
      s.value.fill(*x[i].number);
    } else if (uses.inputs >> i & 1) [[likely]] {
      s.value.fill(x[i].t);
      s.version = x[i].t->storage->version;
    } else {
      s.version = kNotSaved;
    }
  }
  if (uses.outputs) [[unlikely]] {
    node->output.value.fill(alias_contiguous(out).get());
    node->output.version = out->storage->version;
  }
  node->meta.ndim = out->ndim;
  node->meta.dtype = out->dtype;
  copy_bytes<sizeof(node->meta.inline_shape)>(node->meta.inline_shape, out->dims);
  out->grad_fn = node;
  out->flags |= kRequiresGrad;
}

template <int N>
[[gnu::noinline]] void note_cuts(const Op& op, const Operand* x, bool recorded, const Tensor& out) {
  Value args[kMaxArguments];
  for (int i = 0; i < N; ++i) {
    if (x[i].t) args[i].fill(x[i].t);
  }
  if (recorded)
    keep_cuts(out->grad_fn, op, args);
  else
    mark_unrecorded(op, args, Value(out));
}

template <int N>
[[gnu::noinline]] Tensor reused(const Operand* x) {
  for (int i = 0; i < N; ++i) {
    if (take_for_reuse(x[i].t)) return Tensor::borrow(x[i].t);
  }
  return {};
}

// Inlined with its loops unrolled: which operands are tensors is then known, and they stay in
// registers.
template <int N>
[[gnu::always_inline]] inline TensorObject* run(const Op& op, Loop loop, const Operand* x,
                                                const TensorObject* like) {
  unsigned needs = 0;
  bool cut = false;
#pragma GCC unroll 2
  for (int i = 0; i < N; ++i) {
    if (!x[i].t) continue;
    if (needs_grad(x[i].t)) [[likely]]
      needs |= 1u << i;
    else
      cut |= x[i].t->cut != nullptr;
  }
  Tensor out;
  if (t_reuse) [[unlikely]]
    out = reused<N>(x);
  if (!out) [[likely]]
    out = empty_contiguous_like(like, like->dtype);
  char* data[3] = {out->data, x[0].data, N == 2 ? x[N - 1].data : nullptr};
  loop(data, like->numel);
  bool recorded = false;
  if (needs) [[likely]] {
    unsigned ruled = needs & op.direct_rules;
    recorded = ruled && grad_enabled();
    if (recorded) [[likely]]
      record<N>(op, x, ruled, out.get());
    cut |= !recorded;
  }
  if (cut && !mode_on(kNoCuts)) [[unlikely]]
    note_cuts<N>(op, x, recorded, out);
  return out.release();
}

bool has_defaults(const Op& op, const Value* args) {
  for (int i = op.operands; i < op.argument_count; ++i) {
    const Value& d = op.schema.arguments[i].default_value;
    if (args[i].kind() != d.kind() || (d.kind() == Value::Int && args[i].integer() != d.integer()))
      return false;
  }
  return true;
}

}  // namespace

TensorObject* direct_single(const Op& op, TensorObject* a) {
  if ((t_modes & kSlowModes) || !fits(a)) return nullptr;
  Loop loop = op.direct[static_cast<int>(a->dtype)];
  if (!loop) return nullptr;
  Operand x[1] = {{a, nullptr, a->data}};
  return run<1>(op, loop, x, a);
}

TensorObject* direct_pair(const Op& op, TensorObject* a, TensorObject* b) {
  if ((t_modes & kSlowModes) || !fits(a) || !fits(b) || a->dtype != b->dtype || !same_shape(a, b))
    return nullptr;
  Loop loop = op.direct[static_cast<int>(a->dtype)];
  if (!loop) return nullptr;
  Operand x[2] = {{a, nullptr, a->data}, {b, nullptr, b->data}};
  return run<2>(op, loop, x, a);
}

TensorObject* direct_number(const Op& op, TensorObject* t, const Value& number, int k) {
  if ((t_modes & kSlowModes) || !fits(t)) return nullptr;
  Loop loop = op.direct[static_cast<int>(t->dtype)];
  alignas(16) char repeated[kMaxFilled * sizeof(double)];
  if (!loop || !fill_number(number, t, repeated)) return nullptr;
  Operand x[2];
  x[k] = {t, nullptr, t->data};
  x[1 - k] = {nullptr, &number, repeated};
  return run<2>(op, loop, x, t);
}

bool product_backward(const Op& op, Node* node, Tensor* grads, Tensor* result, bool unread) {
  TensorObject* g = grads[0].get();
  if ((t_modes & (kSlowModes | kGradOff)) != kGradOff || !fits(g)) return false;
  Loop loop = op.direct[static_cast<int>(g->dtype)];
  if (!loop || is_complex(g->dtype)) return false;
  for (int e = 0; e < 2; ++e) {  // before anything is computed
    const Saved& s = node->inline_saved[1 - e];
    if (!node->inline_edges[e].node) continue;
    if (!s.value.is_tensor()) return false;
    const TensorObject* x = s.value.object();
    if (s.version != x->storage->version || x->dtype != g->dtype || !fits(x) || !same_shape(x, g))
      return false;
  }
  int last = node->inline_edges[1].node ? 1 : 0;
  for (int e = 0; e <= last; ++e) {
    if (!node->inline_edges[e].node) continue;
    bool over = e == last && unread && grads[0].unique();
    Tensor out = over ? std::move(grads[0]) : empty_contiguous_like(g, g->dtype);
    char* data[3] = {out->data, g->data, node->inline_saved[1 - e].value.object()->data};
    loop(data, g->numel);
    result[e] = std::move(out);
  }
  return true;
}

TensorObject* apply_direct(const Op& op, const Value* args) {
  if (op.argument_count > op.operands && !has_defaults(op, args)) return nullptr;
  if (op.operands == 1) return args[0].is_tensor() ? direct_single(op, args[0].object()) : nullptr;
  if (args[0].is_tensor() && args[1].is_tensor())
    return direct_pair(op, args[0].object(), args[1].object());
  int k = args[0].is_tensor() ? 0 : 1;  // which one is the tensor
  if (!args[k].is_tensor() || !args[1 - k].is_scalar()) return nullptr;
  return direct_number(op, args[k].object(), args[1 - k], k);
}

}  // namespace adjoint
