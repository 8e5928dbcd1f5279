// Casting operands. Read autocast.h first.
#include "dispatch/autocast.h"

#include <unordered_map>

#include "dispatch/program_recorder.h"
#include "graph/transformed.h"

namespace adjoint {
namespace {

// A cast of a weight, and what it was made from.
struct Kept {
  Tensor weight;
  uint32_t version;
  Tensor cast;
};
using Casts = std::unordered_map<const TensorObject*, Kept>;

// Not a value: a thread that ends inside a context must not let go of tensors without the GIL.
constinit thread_local Casts* t_casts = nullptr;

bool is_eligible(const TensorObject* t) {
  return is_floating(t->dtype) && t->dtype != DType::Float64;
}

bool is_weight(const TensorObject* t, DType to) {
  return to == lower_precision() && t->dtype == DType::Float32 && (t->flags & kRequiresGrad) &&
         !t->grad_fn && !t->base && !(t->flags & kTransformed) && !mode_on(kAutocastUncached);
}

// A cast serves where it was made: with or without a history, inside or outside a recording, and
// as long as the weight is what it was.
bool serves(const Kept& k) {
  return k.version == k.weight.version() && bool(k.cast->grad_fn) == grad_enabled() &&
         k.cast->storage->born >> 8 == t_birth >> 8;
}

Tensor converted(const Tensor& t, DType to) { return op<"_to_copy">(t, to); }

Tensor cast_weight(const Tensor& t, DType to) {
  if (!t_casts) t_casts = new Casts;
  auto found = t_casts->find(t.get());
  if (found != t_casts->end() && found->second.cast.dtype() == to && serves(found->second))
    return found->second.cast;
  Kept made{t, t.version(), converted(t, to)};
  Tensor cast = made.cast;
  (*t_casts)[t.get()] = std::move(made);
  return cast;
}

Tensor in_precision(const Tensor& t, DType to) {
  if (!t || !is_eligible(t.get()) || t.dtype() == to) return t;
  return is_weight(t.get(), to) ? cast_weight(t, to) : converted(t, to);
}

template <class F>
void each_operand(const Op& op, Value* args, F&& f) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    const Value& v = args[op.tensor_at[k]];
    if (v.is_tensor()) f(v.object());
    if (!v.is_tensors()) continue;
    for (const Tensor& t : v.tensors()) {
      if (t) f(t.get());
    }
  }
}

DType widest(const Op& op, Value* args) {
  DType to = lower_precision();
  each_operand(op, args, [&](const TensorObject* t) {
    if (!is_eligible(t)) return;
    if (t->dtype != DType::Float32 && t->dtype != lower_precision()) {
      runtime_error(op.name,
                    "(): Unexpected floating ScalarType in at::autocast::prioritize: ", t->dtype,
                    " beside autocast's ", lower_precision(),
                    "; fix: cast it, or call the op with autocast off");
    }
    if (t->dtype == DType::Float32) to = DType::Float32;
  });
  return to;
}

void cast_operands(const Op& op, Value* args, DType to) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    Value& v = args[op.tensor_at[k]];
    if (v.is_tensor()) {
      v = Value(in_precision(v.tensor(), to));
    } else if (v.is_tensors()) {
      Tensors all;
      for (const Tensor& t : v.tensors()) all.push_back(in_precision(t, to));
      v = Value(std::move(all));
    }
  }
}

}  // namespace

void clear_autocast_cache() { delete std::exchange(t_casts, nullptr); }

Value apply_autocast(const Op& op, Value* args) {
  const Autocast how = op.facts.autocast;
  if (how == Autocast::Inside) return apply_as_given(op, args);
  AutocastOff as_given;
  if (how == Autocast::Untouched) return apply(op, args);
  // Of its own: a caller may have lent its references.
  Value cast[kMaxArguments];
  std::copy_n(args, op.argument_count, cast);
  cast_operands(op, cast,
                how == Autocast::Lower     ? lower_precision()
                : how == Autocast::Float32 ? DType::Float32
                                           : widest(op, args));
  return apply(op, cast);
}

}  // namespace adjoint
