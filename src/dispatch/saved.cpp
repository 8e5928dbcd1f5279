// Packing and unpacking. Read saved.h first.
#include "dispatch/saved.h"

#include <algorithm>
#include <deque>

#include "dispatch/op.h"
#include "dispatch/transformed_calls.h"
#include "graph/back_links.h"

namespace adjoint {

SavedHooks saved_hooks;

Tensor with_history(const Tensor& t, const Edge& e) {
  if (!e.node || !is_differentiable(t.dtype())) return t;
  bool same =
      t->grad_fn ? t->grad_fn == e.node && t->output_nr == e.slot : t->accumulator == e.node;
  if (same) return t;
  Tensor a = alias(t);
  set_history(a, e.node, e.slot);
  if (g_transformed) share_tangents(a, t);
  return a;
}

namespace {

// Values of kept() that rules hold references to, until their scope ends.
thread_local std::deque<Value> t_kept;

void refuse_inference(const Tensor& t) {
  if (!t.has(kInference)) return;
  runtime_error(
      "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
      "inference mode in computation tracked by autograd. To work around this, you can make a "
      "clone to get a normal tensor and use it in autograd, or use `no_grad()` instead of "
      "`inference_mode()`. (the tensor: ",
      t.dtype(), " ", t.shape(), ")");
}

Value pack_tensor(const Tensor& t) {
  refuse_inference(t);
  uint32_t version = t.version();
  Value packed;
  {
    GradMode off(false);
    packed = saved_hooks.pack(t);
  }
  if (t.version() != version) refuse_change_by_pack_hook(t);
  return packed;
}

Saved pack_list(const Tensors& ts) {
  if (!mode_on(kSavedHooks)) {
    for (const Tensor& t : ts) {
      if (!t) continue;
      refuse_inference(t);
      if (t.has(kData)) t->storage->counts_data = true;
    }
    return {Value(ts), version_of(ts)};
  }
  std::vector<Value> packed(ts.size());
  for (size_t k = 0; k < ts.size(); ++k) {
    if (ts[k]) packed[k] = pack_tensor(ts[k]);
  }
  return {Value(std::move(packed)), kPacked};
}

// `t` with the history that the value had when it was recorded, if that is of any use.
Tensor with_edge(const Tensor& t, const Edge& e) { return grad_enabled() ? with_history(t, e) : t; }

// The hook may run a backward pass, whose scopes must leave the values of this one alone.
Tensor unpack_object(const Value& packed) {
  std::deque<Value> kept;
  kept.swap(t_kept);
  Tensor t = saved_hooks.unpack(packed.python());
  kept.swap(t_kept);
  t_unpacked = true;
  return t;
}

// A tensor that a hook made: its own history, if it has one, says nothing about the value's.
Tensor unpack_with_edge(const Value& packed, const Edge& e) {
  Tensor t = unpack_object(packed);
  return !e.node && needs_grad(t.get()) ? alias(t) : with_edge(t, e);
}

bool holds_object(const Value& v) {
  if (v.kind() == Value::Object) return true;
  if (v.kind() != Value::List) return false;
  for (const Value& item : v.list()) {
    if (holds_object(item)) return true;
  }
  return false;
}

Value unpack_tree(const Value& v) {
  if (v.kind() == Value::Object) return unpack_object(v);
  if (v.kind() != Value::List) return v;
  std::vector<Value> items;
  for (const Value& item : v.list()) items.push_back(unpack_tree(item));
  return items;
}

}  // namespace

uint32_t version_of(const Tensors& ts) {
  uint32_t sum = 0;  // versions only rise, so the sum tells
  for (const Tensor& t : ts) sum += t ? t.version() : 0;
  return sum;
}

Saved pack(const Value& v) {
  if (v.is_tensors()) return pack_list(v.tensors());
  if (!v.is_tensor()) return {v, 0};
  if (mode_on(kSavedHooks)) return {pack_tensor(v.tensor()), kPacked};
  if (v.object()->flags & kInference) refuse_inference(v.tensor());
  return save(v);
}

Saved pack_output(const Tensor& t) { return pack(Value(alias(t))); }

namespace {

Value pack_kept(Value v) {
  if (!mode_on(kSavedHooks)) return v;
  if (v.is_tensor()) return pack_tensor(v.tensor());
  if (v.kind() != Value::List) return v;
  std::vector<Value> items;
  for (const Value& item : v.list()) items.push_back(pack_kept(item));
  return items;
}

}  // namespace

void keep_left(Node* n, Value v) {
  n->kept = pack_kept(std::move(v));
  note_saved(n, n->kept);
}

Tensor unpack(Node* n, const Saved& s, const Edge& e) {
  if (s.value.is_none()) return {};
  if (s.value.kind() == Value::Object) {
    Value held = s.value;  // the hook may run a pass that frees the node
    return unpack_with_edge(held, e);
  }
  Tensor t = s.value.tensor();
  if (t.version() != s.version) changed_in_place(n, t, s.version);
  return with_edge(t, e);
}

Tensors unpack_list(Node* n, const Saved& s, const Edge* edges) {
  Tensors ts;
  if (s.value.kind() == Value::List) {
    Value held = s.value;
    for (const Value& v : held.list()) {
      size_t k = ts.size();
      Edge e = edges ? edges[k] : Edge{};
      bool packed = v.kind() == Value::Object;  // otherwise a neighbour of one with own hooks
      ts.push_back(packed ? unpack_with_edge(v, e) : v.tensor());
    }
    return ts;
  }
  ts = s.value.tensors();
  if (version_of(ts) != s.version) [[unlikely]] {
    // Which of them it was is not known for sure; the newest change is the best guess.
    const Tensor* worst = nullptr;
    for (const Tensor& t : ts) {
      if (t && (!worst || t.version() > worst->version())) worst = &t;
    }
    // One tensor may be there several times, and others may have changed too.
    uint32_t same = 0, newer = version_of(ts) - s.version;
    for (const Tensor& t : ts) same += t && t->storage == (*worst)->storage;
    changed_in_place(n, *worst, worst->version() - std::min(newer / same, worst->version()));
  }
  return ts;
}

Saved saved_item(const Saved& s, int k) {
  if (s.value.is_tensors()) return {Value(s.value.tensors()[k]), s.version};
  const Value& v = s.value.list()[k];
  return {v, v.is_tensor() ? v.object()->storage->version : kPacked};
}

const Value& unpack_kept(Node* n) {
  if (n->kept.kind() < Value::List || !holds_object(n->kept)) return n->kept;
  t_kept.push_back(unpack_tree(n->kept));
  return t_kept.back();
}

void forget_unpacked() noexcept {
  t_unpacked = false;
  // What is let go of may run code that unpacks again.
  std::deque<Value> kept;
  kept.swap(t_kept);
  saved_hooks.forget();
}

void refuse_change_by_pack_hook(const Tensor& t) {
  runtime_error(
      "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
      "pack hook can not be modified by in-place operations as this can lead to unexpected "
      "side-effects. (the tensor: ",
      t.dtype(), " ", t.shape(), "; changed at ", t->storage->changed.describe(),
      "; fix: let the hook work on a clone)");
}

void changed_in_place(Node* n, const Tensor& t, uint32_t saved_version) {
  // A leaf that requires grad is changed under no_grad only: mostly by an update.
  const TensorObject* whole = t->base ? t->base : t.get();
  bool update = (whole->flags & kRequiresGrad) && !whole->grad_fn;
  bool moved = t.version() >> kCountBits != saved_version >> kCountBits;
  std::string now = moved ? "given other memory" : text("now version ", count_of(t.version()));
  runtime_error(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: a value needed "
      "for the gradient of `",
      n->op ? n->op->name : n->name,
      "` was changed in place.\n"
      "  saved here    ",
      n->line.describe(), "          (", t.dtype(), " ", t.shape(), ", version ",
      count_of(saved_version),
      ")\n"
      "  changed here  ",
      t->storage->changed.describe(), "          (", now,
      ")\n"
      "  fix: use the out-of-place form of the second line, or save a copy with .clone() before "
      "it",
      update ? "; or, if that line is the update of a parameter, call backward() before the update"
             : "");
}

}  // namespace adjoint
