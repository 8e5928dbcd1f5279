// Finding, laying out and writing tangents. Read tangents.h first.
#include "transforms/tangents.h"

#include "tensor/checked.h"
#include "tensor/self_overlap.h"

#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

// --- where tangents lie in memory ----------------------------------------------------------------
bool shares_places(const Tensor& t) {
  return !t.contiguous() && places_repeat(t.shape(), t.strides());
}

// Zeros in memory as large as that of `t`, at the places of t's elements.
Tensor zeros_laid_out_as(const Tensor& t) {
  Tensor whole =
      fresh_zeros(Dims{static_cast<int64_t>(t->storage->bytes / t.itemsize())}, t.dtype());
  return on_storage(whole->storage, t.shape(), t.strides(), t.offset(), t.dtype());
}

// The same once per sample, for a tangent that is batched where `t` is not.
Tensor zeros_laid_out_as(const Tensor& t, const Tensor& tangent) {
  Transformed* x = batch_of(tangent.get());
  if (!x) return zeros_laid_out_as(t);
  Level level = x->batch_level;
  int64_t n = static_cast<int64_t>(t->storage->bytes / t.itemsize()), size = x->batch.size(0);
  Dims shape(t.shape()), strides(t.strides());
  shape.insert(0, size);
  strides.insert(0, n);
  if (!is_batched(x->batch)) {
    Tensor whole = fresh_zeros(Dims{checked_mul(size, n)}, t.dtype());
    return make_batched(on_storage(whole->storage, shape, strides, t.offset(), t.dtype()), level);
  }
  // Inside another vmap: the same for the batch.
  Tensor whole = fresh_zeros(Dims{checked_mul(size, n)}, t.dtype());
  Tensor like = on_storage(whole->storage, shape, strides, t.offset(), t.dtype());
  return make_batched(zeros_laid_out_as(like, x->batch), level);
}

// The elements of `view` in the tangent of its base, whose first one stands for the place `start` of
// the base's memory, whatever their signs.
Tensor elements_in(const Tensor& tangent, int64_t start, const Tensor& view) {
  Dims shape(view.shape()), strides(view.strides());
  int64_t at = view.offset();
  if (tangent.dtype() == view.dtype()) {
    // A place that counts from that of the tangent is the same wherever that lies in its memory, as
    // programs need it.
    int64_t from = at - start;
    if (from == 0 || view.numel() == 0) return op<"as_strided">(tangent, shape, strides, Value());
    if (from > 0 && from < tangent.numel() && tangent.contiguous()) {
      Tensor flat = op<"view">(tangent, Dims{tangent.numel()});
      flat = op<"narrow">(flat, 0, from, tangent.numel() - from);
      return op<"as_strided">(flat, shape, strides, Value());
    }
    return op<"as_strided">(tangent, shape, strides, at);
  }
  if (is_complex(tangent.dtype()))
    return op<"as_strided">(op<"view_as_real">(tangent), shape, strides, at);
  for (int64_t& s : strides) s *= 2;
  shape.push_back(2);
  strides.push_back(1);
  return op<"view_as_complex">(op<"as_strided">(tangent, shape, strides, 2 * at));
}

Tensor seen_in(const Tensor& base, const Tensor& tangent, const Tensor& view) {
  Tensor seen = is_laid_out_as(base, tangent) ? elements_in(tangent, base.offset(), view)
                                              : elements_in(in_memory_of(base, tangent), 0, view);
  return as_turned(seen, turned_in(view, base));
}

// --- the table of a tensor -----------------------------------------------------------------------
TangentAt* find(const Tensor& t, Level level) {
  if (Transformed* x = transformed_of(t.get())) {
    for (TangentAt& e : x->tangents) {
      if (e.level == level) return &e;
    }
  }
  return nullptr;
}

uint64_t bit_of(Level level) {
  for (size_t i = 0; i < t_levels.size(); ++i) {
    if (t_levels[i].level == level) return uint64_t(1) << i;
  }
  return 0;  // of another thread
}

// A view takes over what its base has and it does not know of.
void ask_base(const Tensor& t) {
  if (!t->base || !(t->base->flags & kTransformed)) return;
  Tensor base = Tensor::borrow(t->base);
  std::vector<Level> unknown;
  for (const TangentAt& e : transformed_of(base.get())->tangents) {
    if (e.value && !find(t, e.level)) unknown.push_back(e.level);
  }
  for (Level level : unknown) {
    lay_out_tangent(base, level);
    set_tangent(t, level, seen_in(base, find(base, level)->value, t));
  }
}

}  // namespace

uint64_t tangent_levels(const Tensor& t) {
  if (t_tangent_limit <= 0 || !may_have_tangent(t.get())) return 0;
  ask_base(t);
  uint64_t bits = 0;
  if (Transformed* x = transformed_of(t.get())) {
    for (const TangentAt& e : x->tangents) {
      if (e.value && e.level < t_tangent_limit) bits |= bit_of(e.level);
    }
  }
  return bits;
}

Tensor tangent_of(const Tensor& t, Level level) {
  return tangent_levels(t) & bit_of(level) ? find(t, level)->value : Tensor();
}

void set_tangent(const Tensor& t, Level level, Tensor tangent) {
  if (TangentAt* e = find(t, level)) {
    std::swap(e->value, tangent);  // the old one goes when the table is in order again
    return;
  }
  add_back_link(t.get());
  Transformed& x = transformed(t.get());
  touch(x);
  std::vector<TangentAt>& all = x.tangents;
  auto at = all.begin();
  while (at != all.end() && at->level < level) ++at;
  all.insert(at, TangentAt{level, std::move(tangent)});
}

Tensor fit_tangent(Tensor tangent, const Tensor& t) {
  if (is_complex(tangent.dtype()) && !is_complex(t.dtype())) tangent = op<"real">(tangent);
  if (!(tangent.shape() == t.shape())) tangent = op<"expand">(tangent, t.shape());
  if (tangent.dtype() != t.dtype()) tangent = op<"_to_copy">(tangent, t.dtype());
  return tangent;
}

bool is_laid_out_as(const Tensor& t, const Tensor& tangent) {
  if (t.numel() == 0) return true;
  if (t.offset() != tangent.offset()) return false;
  if (!is_batched(tangent) && t->storage->bytes != tangent->storage->bytes) return false;
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) > 1 && t.stride(i) != tangent.stride(i)) return false;
  }
  return true;
}

Tensor laid_out_as(const Tensor& t, const Tensor& tangent) {
  if (is_laid_out_as(t, tangent)) return tangent;
  if (shares_places(t)) return op<"contiguous">(tangent);
  return op_inplace<"copy">(zeros_laid_out_as(t, tangent), tangent);
}

Tensor in_memory_of(const Tensor& t, const Tensor& tangent) {
  int64_t n = static_cast<int64_t>(t->storage->bytes / t.itemsize());
  return op<"_restride">(tangent, Dims(t.strides()), t.offset(), Dims{n}, Dims{1}, 0, true);
}

void refuse_change(const Tensor& t, Level level, const char* name) {
  Tensor base = t->base ? Tensor::borrow(t->base) : t;
  for (const Tensor& of : {t, base}) {
    TangentAt* e = find(of, level);
    if (!e || !e->value || is_laid_out_as(of, e->value) || !shares_places(of)) continue;
    runtime_error(
        name, ": elements of this dual tensor (shape ", of.shape(), ", strides ", of.strides(),
        ") share memory and have tangents of their own, so it cannot be changed in place; "
        "fix: clone() it first");
  }
}

void lay_out_tangent(const Tensor& t, Level level) {
  TangentAt* e = find(t, level);
  if (!e || !e->value) return;
  // Parts of a conjugate are no views of it: the tangents of views are views of that of the base.
  Tensor held = e->value;
  Tensor own = t.is_view() || !held.pending() ? held : op<"clone">(held).tensor();
  if (!own.is(held) || !is_laid_out_as(t, own)) set_tangent(t, level, laid_out_as(t, own));
}

void write_tangent(const Tensor& t, Level level, Tensor tangent) {
  tangent = fit_tangent(std::move(tangent), t);
  ask_base(t);
  if (!find(t, level) && t.is_view()) {
    Tensor base = Tensor::borrow(t->base);
    set_tangent(base, level, zeros_laid_out_as(base, tangent));
    ask_base(t);
  }
  TangentAt* held = find(t, level);
  if (!held || !held->value) {
    // Of elements that share a place the last one was written, and so it is in the tangent.
    if (!shares_places(t)) return set_tangent(t, level, op<"clone">(tangent));
    set_tangent(t, level, zeros_laid_out_as(t, tangent));
  }
  lay_out_tangent(t, level);
  op_inplace<"copy">(Tensor(find(t, level)->value), tangent);
}

Tensor stripped(const Tensor& t, Level level) {
  if (!may_have_tangent(t.get())) return t;
  ask_base(t);
  Transformed* x = transformed_of(t.get());
  bool inside = x && !x->tangents.empty() && x->tangents.back().level >= level;
  return inside ? stripped_alias(t, level) : t;
}

Tensor stripped_alias(const Tensor& t, Level level) {
  if (may_have_tangent(t.get())) ask_base(t);
  Tensor plain = alias(t);
  Edge e = gradient_edge(t.get());
  if (e.node) {
    set_history(plain, e.node, e.slot);
    Py_DECREF(e.node);
  }
  if (Transformed* x = transformed_of(t.get())) {
    for (const TangentAt& outside : x->tangents) {
      if (outside.level < level) set_tangent(plain, outside.level, outside.value);
    }
  }
  return plain;
}

void share_tangents(const Tensor& to, const Tensor& from) {
  if (t_tangent_limit <= 0 || !may_have_tangent(from.get())) return;
  ask_base(from);
  if (Transformed* x = transformed_of(from.get())) {
    for (const TangentAt& e : x->tangents) set_tangent(to, e.level, e.value);
  }
}

}  // namespace adjoint
