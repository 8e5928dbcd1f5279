// Making batched tensors and running ops on them. Read batched.h first.
#include "transforms/batched.h"

#include <unordered_set>

#include "dispatch/operands.h"
#include "transforms/tangents.h"

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
  std::string text = "vmap: There is a performance drop because there is no batch rule for `" +
                     op.full_name + "`, which is called once per sample. (Said once.)";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
}

}  // namespace

Value loop_over_samples(const Op& op, Value* inside, const int* axes, int64_t size) {
  say_once(op);
  if (size == 0) {
    runtime_error("vmap: `", op.full_name,
                  "` has no batch rule and is called once per sample. The fallback path does not "
                  "support vmap over dims of size 0");
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
    if (!out.is_tensor() && !out.is_tensors()) {
      runtime_error("vmap: Batching rule not implemented for ", op.full_name,
                    ": it returns a Python value, which is one for all samples. fix: compare with "
                    "operations that return tensors, or return the tensors and compare outside");
    }
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

Tensor first_sample(const Tensor& batch) {
  if (batch.ndim() == 0) throw std::logic_error("a batch has at least one axis");
  Span shape{batch->shape + 1, batch.ndim() - 1}, strides{batch->strides + 1, batch.ndim() - 1};
  if (batch.size(0) > 0) {
    Tensor sample = on_storage(batch->storage, shape, strides, batch.offset(), batch.dtype());
    sample->flags |= batch.pending();
    return sample;
  }
  // No samples, no memory: one element stands for all of a sample.
  Tensor element = empty({}, batch.dtype());
  std::memset(element->data, 0, element.itemsize());
  return on_storage(element->storage, shape, Dims(shape.n, 0), 0, batch.dtype());
}

Tensor make_batched(const Tensor& batch, Level level) {
  Tensor t = first_sample(batch);
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
  if (!op.batch) {  // those that it calls have rules
    Call c{op, args};
    return op.forward(c);
  }
  Mapped m = innermost_level(op, args);
  Value inside[kMaxArguments];
  int axes[kMaxArguments];
  take_off(op, args, m, inside, axes);
  Call c{op, inside};
  Value out = op.batch(c, axes);
  if (!out.is_tensor() && !out.is_tensors()) return out;
  return map_tensors(out, [&](const Tensor& t) { return make_batched(t, m.level); });
}

namespace {

// The arguments, with a copy of `self` where its gradient may save a value that is about to change.
void keep_apart(const Op& op, const Value* args, const Tensor& self, Value* kept) {
  bool saves = grad_enabled() && op.differentiable() && !op.is_linear &&
               any_tensor(op, args, [](TensorObject* t, int) {
                 return needs_grad(innermost(Tensor::borrow(t)).get());
               });
  Tensor copy = saves ? adjoint::op<"clone">(self).tensor() : self;
  for (int i = 0; i < op.argument_count; ++i) {
    bool is_self = args[i].is_tensor() && args[i].object() == self.get();
    kept[i] = is_self ? Value(copy) : args[i];
  }
}

}  // namespace

void refuse_shared_self(const Op& op) {
  runtime_error(
      "vmap: ", op.name,
      "_(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
      "that has more elements than `self`. This happened due to `other` being vmapped over but "
      "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead "
      "of the inplace ",
      op.name, "_, or map over `self` too.");
}

Tensor apply_inplace_batched(const Op& op, Value* args) {
  Tensor self = args[0].tensor();
  Mapped m = innermost_level(op, args);
  Transformed* x = batch_of(self.get());
  if (!x || x->batch_level != m.level) refuse_shared_self(op);
  Tensor batch = x->batch;
  if (op.facts.overwrites) {
    Tensor src = explicit_batch(args[1].tensor(), m.level, m.size);
    for (int lead = batch.ndim() - src.ndim(); lead > 0; --lead)
      src = adjoint::op<"unsqueeze">(src, 1);
    op_inplace<"copy">(batch, src);
    return self;
  }
  Value kept[kMaxArguments];
  keep_apart(op, args, self, kept);
  Tensor value = apply(op, kept);
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

void refuse_reading_batched(const char* what) {
  runtime_error("vmap: It looks like you're ", what,
                " a Tensor. We don't support vmap over it: a batched tensor has no single value. "
                "Please use torch.where or other operators instead, or return the tensor and read "
                "it outside vmap.");
}

}  // namespace adjoint
