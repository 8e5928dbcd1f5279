// The short way. Read direct.h first.
#include "dispatch/direct.h"

#include "dispatch/keep_cuts.h"
#include "dispatch/reuse.h"
#include "dispatch/saved.h"
#include "dispatch/tally.h"
#include "graph/fresh_node.h"
#include "python/gil.h"
#include "tensor/allocator.h"
#include "tensor/fresh.h"

namespace adjoint {
namespace {

constexpr int64_t kMaxFilled = 64;  // elements a number is repeated to

// One operand: a tensor, or a number that was repeated into `data`; or none. Passed by value to
// inlined functions, so that its parts are registers and what is null is known.
struct Operand {
  TensorObject* t = nullptr;
  const Value* number = nullptr;
  char* data = nullptr;

  explicit operator bool() const { return t || number; }
};
inline Operand operand(TensorObject* t) { return {t, nullptr, t->data}; }

bool is_plain(const TensorObject* t) {
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

// The operands as the general way has them.
struct Arguments {
  Value at[kMaxArguments];
  Arguments(Operand x, Operand y) {
    fill(&at[0], x);
    fill(&at[1], y);
  }
  static void fill(Value* v, Operand x) {
    if (x.t)
      v->fill(x.t);
    else if (x.number)
      v->fill(*x.number);
  }
};

[[gnu::noinline]] const char* name_by_arguments(const Op& op, Operand x, Operand y) {
  return op.name_of(Arguments(x, y).at);
}

inline const char* name_of(const Op& op, Operand x, Operand y) {
  if (op.name_of) [[unlikely]]
    return name_by_arguments(op, x, y);
  return op.node_name.c_str();
}

// Gives up the node when one of its edges cannot be made.
struct Unfinished {
  Node* node;
  ~Unfinished() { Py_XDECREF(node); }
};

[[gnu::always_inline]] inline void save_operand(Saved& s, Operand x, bool used) {
  if (!x.t) {
    s.value.fill(*x.number);
    s.version = 0;
  } else if (used) [[likely]] {
    s.value.fill(x.t);
    x.t->flags |= kHeld;
    s.version = x.t->storage->version;
  } else {
    s.version = kNotSaved;
  }
}

[[gnu::noinline]] void save_output(Node* node, TensorObject* out) {
  node->output.value.fill(alias_contiguous(out).get());
  node->output.version = out->storage->version;
}

// `needs`: a bit per operand that a gradient goes to.
[[gnu::always_inline]] inline void record(const Op& op, Operand x, Operand y, unsigned needs,
                                          TensorObject* out) {
  const int count = y ? 2 : 1;
  // The node first: making it may run the garbage collector, which may take accumulators away.
  Node* node = fresh_node(&op, name_of(op, x, y), op_backward, count, count);
  Unfinished unfinished{node};
  if (needs & 1) [[likely]]
    node->inline_edges[0] = gradient_edge(x.t);
  if (needs & 2) [[likely]]
    node->inline_edges[1] = gradient_edge(y.t);
  unfinished.node = nullptr;
  node->sequence = ++last_sequence;  // younger than a leaf's accumulator made with the edges
  const Uses& uses = op.direct_uses[needs];
  save_operand(node->inline_saved[0], x, uses.inputs & 1);
  if (y) save_operand(node->inline_saved[1], y, uses.inputs & 2);
  node->inline_saved[2].version = 0;
  node->meta.ndim = out->ndim;
  node->meta.dtype = out->dtype;
  copy_bytes<sizeof(node->meta.inline_shape)>(node->meta.inline_shape, out->dims);
  out->grad_fn = node;
  out->flags |= kRequiresGrad;
  if (uses.outputs) [[unlikely]]
    save_output(node, out);
}

[[gnu::noinline]] void note_cuts(const Op& op, Operand x, Operand y, bool recorded,
                                 TensorObject* out) {
  Arguments args(x, y);
  if (recorded)
    keep_cuts(out->grad_fn, op, args.at);
  else
    mark_unrecorded(op, args.at, Value(Tensor::borrow(out)));
}

[[gnu::noinline]] TensorObject* reused(Operand x, Operand y) {
  for (TensorObject* t : {x.t, y.t}) {
    if (!t || !take_for_reuse(t)) continue;
    Py_INCREF(t);
    return t;
  }
  return nullptr;
}

[[gnu::always_inline]] inline TensorObject* run(const Op& op, Loop loop, Operand x, Operand y,
                                                const TensorObject* like) {
  unsigned needs = 0;
  bool cut = false;
  auto look_at = [&](const TensorObject* t, unsigned bit) {
    if (!t) return;
    if (needs_grad(t)) [[likely]]
      needs |= bit;
    else
      cut |= t->cut != nullptr;
  };
  look_at(x.t, 1);
  look_at(y.t, 2);
  TensorObject* made = t_reuse ? reused(x, y) : nullptr;
  if (!made) [[likely]]
    made = fresh_like(like, like->dtype);
  Tensor out = Tensor::steal(made);
  char* data[3] = {made->data, x.data, y.data};
  loop(data, like->numel);
  bool recorded = false;
  if (needs) [[likely]] {
    unsigned ruled = needs & op.direct_rules;
    recorded = ruled && grad_enabled();
    if (recorded) [[likely]]
      record(op, x, y, ruled, made);
    cut |= !recorded;
  }
  if (cut && !mode_on(kNoCuts)) [[unlikely]]
    note_cuts(op, x, y, recorded, made);
  return out.release();
}

// Whether the short way is open at all.
inline bool is_open() { return !(t_modes & kSlowModes); }

// Whether a tally is under way that looks at this call (Note [Samples of a tally]).
[[gnu::always_inline]] inline bool is_looked_at(const Op& op, const TensorObject* like) {
  return mode_on(kTallied) && !tally_passes_over(op.calls, like->numel);
}

// Then the call is made again, so that it runs through the code that all others run through: code that runs once
// in hundreds of calls is not in the cache, and takes twice as long. Not inlined: the common way pays for nothing.
template <class Call>
[[gnu::noinline]] TensorObject* look_at(const Op& op, const TensorObject* like, Call&& again) {
  TallyOff once;
  TallyScope scope;
  scope.open(Profiled::Op, op.name.c_str(), nullptr, &made_tally_stream(op.calls, like->numel));
  TensorObject* out = again();
  if (out && out->grad_fn) scope.made(out->grad_fn);
  return out;
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
  if (!is_open() || !is_plain(a)) return nullptr;
  Loop loop = op.direct[static_cast<int>(a->dtype)];
  if (!loop) return nullptr;
  if (is_looked_at(op, a)) [[unlikely]]
    return look_at(op, a, [&] { return direct_single(op, a); });
  return run(op, loop, operand(a), {}, a);
}

TensorObject* direct_pair(const Op& op, TensorObject* a, TensorObject* b) {
  if (!is_open() || !is_plain(a) || !is_plain(b) || a->dtype != b->dtype || !same_shape(a, b))
    return nullptr;
  Loop loop = op.direct[static_cast<int>(a->dtype)];
  if (!loop) return nullptr;
  if (is_looked_at(op, a)) [[unlikely]]
    return look_at(op, a, [&] { return direct_pair(op, a, b); });
  return run(op, loop, operand(a), operand(b), a);
}

TensorObject* direct_number(const Op& op, TensorObject* t, const Value& number, int k) {
  if (!is_open() || !is_plain(t)) return nullptr;
  Loop loop = op.direct[static_cast<int>(t->dtype)];
  alignas(16) char repeated[kMaxFilled * sizeof(double)];
  if (!loop || !fill_number(number, t, repeated)) return nullptr;
  Operand filled{nullptr, &number, repeated};
  if (is_looked_at(op, t)) [[unlikely]]
    return look_at(op, t, [&] { return direct_number(op, t, number, k); });
  return k == 0 ? run(op, loop, operand(t), filled, t) : run(op, loop, filled, operand(t), t);
}

bool product_backward(const Op& op, Node* node, Tensor* grads, Tensor* result, bool unread) {
  TensorObject* g = grads[0].get();
  if (grad_enabled() || !is_open() || !is_plain(g)) return false;
  Loop loop = op.direct[static_cast<int>(g->dtype)];
  if (!loop || is_complex(g->dtype)) return false;
  for (int e = 0; e < 2; ++e) {  // before anything is computed
    const Saved& s = node->inline_saved[1 - e];
    if (!node->inline_edges[e].node) continue;
    if (!s.value.is_tensor()) return false;
    const TensorObject* x = s.value.object();
    if (s.version != x->storage->version || x->dtype != g->dtype || !is_plain(x) ||
        !same_shape(x, g))
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
