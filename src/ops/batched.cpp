// Making batched tensors and running ops on them. Read batched.h first.
#include "batched.h"

#include <unordered_set>

#include "operands.h"
#include "tangents.h"

namespace adjoint {
namespace {

bool is_batched_at(const Tensor& t, Level level) {
  Transformed* x = transformed_of(t.get());
  if (!x) return false;
  if (x->batch) return x->batch_level == level || is_batched_at(x->batch, level);
  for (const TangentAt& e : x->tangents) {
    if (e.value && is_batched_at(e.value, level)) return true;
  }
  return false;
}

Tensor expanded(const Tensor& t, int64_t size) {
  Dims shape(t.shape());
  shape.insert(0, size);
  return op<"expand">(t, shape);
}

struct Mapped {
  Level level = 0;
  int64_t size = 0;
};

// The innermost level among the arguments: it is taken off first.
Mapped innermost_level(const Op& op, const Value* args) {
  Mapped m;
  each_tensor(op, args, [&](const Tensor& t) { m.level = std::max(m.level, batch_level(t)); });
  for (const OpenLevel& open : t_levels) {
    if (open.level == m.level) m.size = open.size;
  }
  each_tensor(op, args, [&](const Tensor& t) {
    Transformed* x = batch_of(t.get());
    if (x && x->batch_level == m.level) m.size = x->batch.size(0);
  });
  return m;
}

void take_off(const Op& op, const Value* args, Mapped m, Value* inside, int* axes) {
  for (int i = 0; i < op.argument_count; ++i) {
    bool any = false;
    each_tensor(args[i], [&](const Tensor& t) { any |= is_batched_at(t, m.level); });
    axes[i] = any ? 0 : -1;
    inside[i] =
        any ? map_tensors(args[i],
                          [&](const Tensor& t) { return explicit_batch(t, m.level, m.size); })
            : args[i];
  }
}

void say_once(const Op& op) {
  static std::unordered_set<const Op*> said;
  if (!said.insert(&op).second) return;
  std::string text = "vmap: there is no batch rule for `" + op.full_name +
                     "`, which is called once per sample: a performance drop. (Said once.)";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
}

}  // namespace

Value loop_over_samples(const Op& op, Value* inside, const int* axes, int64_t size) {
  say_once(op);
  if (size == 0) {
    runtime_error("vmap: `", op.full_name,
                  "` has no batch rule and cannot be looped over a batch of no samples");
  }
  std::vector<Tensors> results;
  bool list = false;
  for (int64_t b = 0; b < size; ++b) {
    Value args[kMaxArguments];
    for (int i = 0; i < op.argument_count; ++i) {
      args[i] = inside[i];
      if (axes[i] >= 0)
        args[i] = map_tensors(
            inside[i], [&](const Tensor& t) -> Tensor { return adjoint::op<"select">(t, 0, b); });
    }
    Value out = apply(op, args);
    list = out.is_tensors();
    results.push_back(list ? out.tensors() : Tensors{out.tensor()});
  }
  Tensors stacked;
  for (size_t k = 0; k < results[0].size(); ++k) {
    Tensors parts;
    for (const Tensors& r : results) {
      if (!(r[k].shape() == results[0][k].shape())) {
        runtime_error("vmap: the shape of what `", op.full_name,
                      "` returns depends on the values, so its samples do not fit together: ",
                      results[0][k].shape(), " and ", r[k].shape());
      }
      parts.push_back(r[k]);
    }
    stacked.push_back(adjoint::op<"stack">(std::move(parts), 0));
  }
  return list ? Value(std::move(stacked)) : Value(stacked[0]);
}

Tensor make_batched(const Tensor& batch, Level level) {
  if (batch.ndim() == 0) throw std::logic_error("a batch has at least one axis");
  Span shape{batch->shape + 1, batch.ndim() - 1}, strides{batch->strides + 1, batch.ndim() - 1};
  Tensor t = on_storage(batch->storage, shape, strides, batch.offset(), batch.dtype());
  Transformed& x = transformed(t.get());
  x.batch = batch;
  x.batch_level = level;
  return t;
}

Level batch_level(const Tensor& t) {
  Transformed* x = transformed_of(t.get());
  if (!x) return 0;
  if (x->batch) return std::max(x->batch_level, batch_level(x->batch));
  Level found = 0;
  for (const TangentAt& e : x->tangents) {
    if (e.value) found = std::max(found, batch_level(e.value));
  }
  return found;
}

Tensor explicit_batch(const Tensor& t, Level level, int64_t size) {
  Transformed* x = transformed_of(t.get());
  if (!x || !is_batched_at(t, level)) return expanded(t, size);
  if (x->batch) {
    if (x->batch_level == level) return x->batch;
    // Another level lies around the one wanted: its axis stays in front.
    Tensor inner = explicit_batch(x->batch, level, size);
    Level outer = x->batch_level;
    return make_batched(op<"transpose">(inner, 0, 1), outer);
  }
  // Only tangents are batched: the value is the same for all samples.
  std::vector<TangentAt> tangents = x->tangents;
  Tensor whole;
  {
    TangentLimit off(0);
    // A copy: tangents lie in memory as their values do, and these have one each.
    whole = op<"clone">(expanded(t, size));
  }
  for (const TangentAt& e : tangents)
    set_tangent(whole, e.level, e.value ? explicit_batch(e.value, level, size) : e.value);
  return whole;
}

Tensor innermost(const Tensor& t) {
  Transformed* x = batch_of(t.get());
  return x ? innermost(x->batch) : t;
}

namespace {

Tensor batched_at(const Tensor& t, const OpenLevel& open) {
  Transformed* x = batch_of(t.get());
  if (x && x->batch_level == open.level) return t;
  if (x && x->batch_level > open.level) {
    Level around = x->batch_level;
    return make_batched(batched_at(x->batch, open), around);
  }
  return make_batched(explicit_batch(t, open.level, open.size), open.level);
}

}  // namespace

Tensor batched_everywhere(Tensor t) {
  for (const OpenLevel& open : t_levels) {
    if (open.batch && !open.directions) t = batched_at(t, open);
  }
  return t;
}

bool any_batched(const Op& op, const Value* args) {
  bool any = false;
  each_tensor(op, args, [&](const Tensor& t) { any |= is_batched(t); });
  return any;
}

Value apply_batched(const Op& op, Value* args) {
  BatchRule rule = batch_rule_of(op);
  if (!rule && only_calls_ops(op)) {
    Call c{op, args};
    return op.forward(c);
  }
  Mapped m = innermost_level(op, args);
  Value inside[kMaxArguments];
  int axes[kMaxArguments];
  take_off(op, args, m, inside, axes);
  Call c{op, inside};
  Value out = rule ? rule(c, axes) : loop_over_samples(op, inside, axes, m.size);
  if (!out.is_tensor() && !out.is_tensors()) return out;
  return map_tensors(out, [&](const Tensor& t) { return make_batched(t, m.level); });
}

Tensor apply_inplace_batched(const Op& op, Value* args) {
  Tensor self = args[0].tensor();
  Mapped m = innermost_level(op, args);
  Transformed* x = batch_of(self.get());
  if (!x || x->batch_level != m.level) {
    runtime_error(
        "vmap: ", op.name,
        "_(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        "being vmapped over but `self` not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of ",
        op.name, "_, or map over `self` too.");
  }
  Tensor batch = x->batch;
  if (op.name == "copy") {
    Tensor src = explicit_batch(args[1].tensor(), m.level, m.size);
    for (int lead = batch.ndim() - src.ndim(); lead > 0; --lead)
      src = adjoint::op<"unsqueeze">(src, 1);
    op_inplace<"copy">(batch, src);
    return self;
  }
  Tensor value = apply(op, args);
  if (!(value.shape() == self.shape())) {
    runtime_error("output with shape ", self.shape(), " doesn't match the broadcast shape ",
                  value.shape());
  }
  if (!can_cast(value.dtype(), self.dtype())) {
    runtime_error("result type ", value.dtype(), " can't be cast to the desired output type ",
                  self.dtype(), " (in ", op.name, "_)");
  }
  op_inplace<"copy">(batch, explicit_batch(value, m.level, m.size));
  return self;
}

// --- random numbers
// -------------------------------------------------------------------------------
namespace {

// The vmap that random numbers are drawn for: taken away while its samples are drawn.
thread_local size_t t_drawn = SIZE_MAX;

const OpenLevel* drawing_level() {
  for (size_t i = std::min(t_drawn, t_levels.size()); i-- > 0;) {
    if (t_levels[i].batch) return &t_levels[i];
  }
  return nullptr;
}

struct Drawing {
  explicit Drawing(const OpenLevel& level) : before(t_drawn) {
    t_drawn = static_cast<size_t>(&level - t_levels.data());
  }
  ~Drawing() { t_drawn = before; }
  Drawing(const Drawing&) = delete;
  size_t before;
};

Value sample_of(const Value& v, const OpenLevel& at, int64_t b) {
  return map_tensors(v, [&](const Tensor& t) -> Tensor {
    return is_batched_at(t, at.level)
               ? op<"select">(explicit_batch(t, at.level, at.size), 0, b).tensor()
               : t;
  });
}

void check_randomness(const Op& op, const OpenLevel& at) {
  if (at.randomness != Randomness::Error) return;
  runtime_error(
      "vmap: called random operation while in randomness error mode. Please either use the 'same' "
      "or 'different' randomness flags on vmap or perform the randomness operation out of vmap (",
      op.name, ")");
}

bool is_like(const Op& op) { return op.name.ends_with("_like"); }

}  // namespace

bool draws_under_vmap(const Op& op) { return op.family == "random" && drawing_level(); }

Value apply_random_under_vmap(const Op& op, Value* args) {
  const OpenLevel at = *drawing_level();
  check_randomness(op, at);
  Drawing drawing(*drawing_level());
  bool batched = false;
  each_tensor(op, args, [&](const Tensor& t) { batched |= is_batched_at(t, at.level); });
  auto draw = [&](int64_t b) {
    Value sample[kMaxArguments];
    for (int i = 0; i < op.argument_count; ++i) sample[i] = sample_of(args[i], at, b);
    return apply(op, sample).tensor();
  };
  if (at.randomness == Randomness::Different) {
    Tensors samples;
    for (int64_t b = 0; b < at.size; ++b) samples.push_back(draw(b));
    return make_batched(adjoint::op<"stack">(std::move(samples), 0), at.level);
  }
  if (!batched || is_like(op)) return draw(0);
  if (op.name == "dropout") {
    Tensor x = args[0].tensor();
    Tensor ones = adjoint::op<"add">(zeros(x.shape(), x.dtype()), 1);
    return x * adjoint::op<"dropout">(ones, args[1], args[2]).tensor();
  }
  runtime_error("vmap: ", op.name,
                " of a tensor that is vmapped over cannot have the same randomness for all "
                "samples; use randomness='different'");
}

Tensor apply_inplace_random_under_vmap(const Op& op, Value* args) {
  const OpenLevel at = *drawing_level();
  check_randomness(op, at);
  Drawing drawing(*drawing_level());
  Tensor self = args[0].tensor();
  bool batched = is_batched_at(self, at.level);
  if (!batched && at.randomness == Randomness::Same) return apply_inplace(op, args);
  if (!batched) {
    runtime_error(
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
        "appear "
        "like same randomness. If this is necessary for your usage, please file an issue with "
        "functorch.");
  }
  Tensor batch = explicit_batch(self, at.level, at.size);
  for (int64_t b = 0; b < at.size; ++b) {
    Value sample[kMaxArguments];
    for (int i = 0; i < op.argument_count; ++i) sample[i] = sample_of(args[i], at, b);
    sample[0] = adjoint::op<"select">(batch, 0, b);
    if (b == 0 || at.randomness == Randomness::Different) {
      apply_inplace(op, sample);
    } else {
      op_inplace<"copy">(sample[0], adjoint::op<"select">(batch, 0, 0));
    }
  }
  return self;
}

void refuse_reading_batched(const char* what) {
  runtime_error("vmap: It looks like you're ", what,
                " a Tensor. We don't support vmap over it: a batched tensor has no single value. "
                "Please use torch.where or other operators instead, or return the tensor and read "
                "it outside vmap.");
}

}  // namespace adjoint
