// Random numbers under vmap: different for each sample, the same for all, or refused.
//
// Different ones are drawn at once, in a tensor with the batch axis in front: the numbers are those
// that the op would draw for the batch outside vmap. Read batched.h first.
#include "dispatch/operands.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

// The vmap that random numbers are drawn for: taken away while they are drawn.
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

// Values alone: where only tangents differ (jacfwd), what is drawn does not.
bool value_batched(const Tensor& t, Level level) {
  for (Transformed* x = batch_of(t.get()); x; x = batch_of(x->batch.get())) {
    if (x->batch_level == level) return true;
  }
  return false;
}
bool value_batched(const Value& v, Level level) {
  bool any = false;
  each_tensor(v, [&](const Tensor& t) { any |= value_batched(t, level); });
  return any;
}

void check_randomness(const Op& op, const OpenLevel& at) {
  if (at.randomness != Randomness::Error) return;
  runtime_error(
      "vmap: called random operation while in randomness error mode. Please either use the 'same' "
      "or 'different' randomness flags on vmap or perform the randomness operation out of vmap (",
      op.name, ")");
}
[[noreturn]] void refuse_same(const Op& op) {
  runtime_error(
      "Vmap does not currently support same randomness with a batched tensor input: ", op.name,
      " would draw by other parameters for each sample. fix: use randomness='different'");
}

// Dropout outside training draws nothing.
bool draws_nothing(const Op& op, const Value* args) {
  return op.facts.draws == Draws::Mask && (args[1].real() == 0 || !args[2].boolean());
}

int argument_named(const Op& op, const char* name) {
  for (int i = 0; i < op.argument_count; ++i) {
    if (op.schema.arguments[i].name == name) return i;
  }
  return -1;
}

// Every tensor with the batch axis in front, and as many axes as the sample with most.
void spread(const Op& op, const Value* args, const OpenLevel& at, Value* out) {
  int ndim = 0;
  each_tensor(op, args, [&](const Tensor& t) { ndim = std::max(ndim, t.ndim()); });
  for (int i = 0; i < op.argument_count; ++i) {
    out[i] = map_tensors(args[i], [&](const Tensor& t) {
      Tensor whole = explicit_batch(t, at.level, at.size);
      while (whole.ndim() <= ndim) whole = adjoint::op<"unsqueeze">(whole, 1);
      return whole;
    });
  }
}

// One row of probabilities or several for each sample: the rows of all samples.
Tensor rows_of_samples(const Op& op, Value* args) {
  Tensor p = args[0].tensor();
  if (p.ndim() != 3) return apply(op, args);
  Dims shape(p.shape());
  args[0] = adjoint::op<"flatten">(p, 0, 1);
  Tensor drawn = apply(op, args);
  return adjoint::op<"reshape">(drawn, Dims{shape[0], shape[1], drawn.size(-1)});
}

Tensor different(const Op& op, Value* args, const OpenLevel& at) {
  Value whole[kMaxArguments];
  spread(op, args, at, whole);
  if (op.facts.draws == Draws::Sample) {
    Tensors samples;
    for (int64_t b = 0; b < at.size; ++b) samples.push_back(apply(op, args).tensor());
    if (samples.empty()) return empty(Dims{0, args[0].integer()}, DType::Int64);
    return adjoint::op<"stack">(std::move(samples), 0);
  }
  if (op.facts.draws == Draws::Rows) return rows_of_samples(op, whole);
  if (int i = argument_named(op, "size"); i >= 0) {
    Dims size = whole[i].ints();
    size.insert(0, at.size);
    whole[i] = size;
  }
  return apply(op, whole);
}

// The first sample of what is batched, for its shape and layout.
void first_sample(const Op& op, const Value* args, const OpenLevel& at, Value* out) {
  for (int i = 0; i < op.argument_count; ++i) {
    out[i] = map_tensors(args[i], [&](const Tensor& t) -> Tensor {
      if (!value_batched(t, at.level)) return t;
      return adjoint::op<"select">(explicit_batch(t, at.level, at.size), 0, 0);
    });
  }
}

}  // namespace

bool draws_under_vmap(const Op& op) { return op.facts.draws != Draws::Nothing && drawing_level(); }

Value apply_random_under_vmap(const Op& op, Value* args) {
  const OpenLevel at = *drawing_level();
  if (draws_nothing(op, args)) return args[0];
  check_randomness(op, at);
  Drawing drawing(*drawing_level());
  if (at.randomness == Randomness::Different)
    return make_batched(different(op, args, at), at.level);
  bool batched = false;
  for (int i = 0; i < op.argument_count; ++i) batched |= value_batched(args[i], at.level);
  if (!batched) return apply(op, args);
  if (op.facts.draws == Draws::Like) {
    Value sample[kMaxArguments];
    first_sample(op, args, at, sample);
    return apply(op, sample);
  }
  if (op.facts.draws == Draws::Mask) {
    Tensor x = args[0].tensor();
    Tensor ones = adjoint::op<"add">(zeros(x.shape(), x.dtype()), 1);
    Value given[] = {Value(ones), args[1], args[2]};
    return x * apply(op, given).tensor();
  }
  refuse_same(op);
}

Tensor apply_inplace_random_under_vmap(const Op& op, Value* args) {
  const OpenLevel at = *drawing_level();
  Tensor self = args[0].tensor();
  if (draws_nothing(op, args)) return self;
  if (op.facts.draws == Draws::Mask) {
    op_inplace<"copy">(self, apply_random_under_vmap(op, args).tensor());
    return self;
  }
  check_randomness(op, at);
  Drawing drawing(*drawing_level());
  bool batched = value_batched(self, at.level), others = false;
  for (int i = 1; i < op.argument_count; ++i) others |= value_batched(args[i], at.level);
  bool same = at.randomness == Randomness::Same;
  if (same && others) refuse_same(op);
  if (!batched && others) refuse_shared_self(op);
  if (!batched && same) return apply_inplace(op, args);
  if (!batched) {
    runtime_error(
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor: all samples "
        "would share what ",
        op.name, "_ draws. fix: use the out-of-place form, or map over the tensor too");
  }
  Value whole[kMaxArguments];
  if (!same) {
    spread(op, args, at, whole);
    whole[0] = explicit_batch(self, at.level, at.size);
    apply_inplace(op, whole);
    return self;
  }
  first_sample(op, args, at, whole);
  Tensor drawn = empty(whole[0].tensor().shape(), self.dtype());
  whole[0] = drawn;
  apply_inplace(op, whole);
  op_inplace<"copy">(explicit_batch(self, at.level, at.size), drawn);
  return self;
}

}  // namespace adjoint
