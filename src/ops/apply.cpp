// Running an op: forward, then (if anything needs a gradient) a node. Read op.h first.
#include "../graph/view.h"
#include "../tensor/gil.h"
#include "op.h"
#include "record.h"

namespace adjoint {

namespace {

constexpr int64_t kMaxFilled = 64;  // elements a number is repeated to

// The tensor that gives an op of two operands its shape, if both are of the short way's kind.
TensorObject* common_layout(const Value& x, const Value& y) {
  if (!x.is_tensor()) return y.is_tensor() && x.is_scalar() ? y.object() : nullptr;
  TensorObject* a = x.object();
  if (!y.is_tensor()) return y.is_scalar() ? a : nullptr;
  TensorObject* b = y.object();
  bool same = b->dtype == a->dtype && (b->flags & kContiguous) &&
              Span{a->shape, a->ndim} == Span{b->shape, b->ndim};
  return same ? a : nullptr;
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

bool has_defaults(const Op& op, const Value* args) {
  for (int i = op.operands; i < op.argument_count; ++i) {
    const Value& d = op.schema.arguments[i].default_value;
    if (args[i].kind() != d.kind() || (d.kind() == Value::Int && args[i].integer() != d.integer()))
      return false;
  }
  return true;
}

}  // namespace

TensorObject* apply_direct(const Op& op, const Value* args) {
  uint32_t modes = t_modes;
  if (modes & kSlowModes) return nullptr;
  TensorObject* a = op.operands == 2      ? common_layout(args[0], args[1])
                    : args[0].is_tensor() ? args[0].object()
                                          : nullptr;
  if (!a || !(a->flags & kContiguous) || a->numel >= kReleaseGil || a->ndim > kInlineDims)
    return nullptr;
  Loop loop = op.direct[static_cast<int>(a->dtype)];
  if (!loop || (op.argument_count > op.operands && !has_defaults(op, args))) return nullptr;
  alignas(16) char number[kMaxFilled * sizeof(double)];
  char* data[3];
  bool recording = false, cut = false;
  for (int i = 0; i < op.operands; ++i) {
    if (args[i].is_tensor()) {
      TensorObject* t = args[i].object();
      if (t->flags & kUnusual) return nullptr;
      data[i + 1] = t->data;
      if (needs_grad(t)) {
        recording |= op.grads[i] != nullptr;
        cut |= !op.grads[i] || (modes & kGradOff);
      } else {
        cut |= t->cut != nullptr;
      }
    } else {
      data[i + 1] = number;
      if (!fill_number(args[i], a, number)) return nullptr;
    }
  }
  Tensor out = empty_contiguous_like(a, a->dtype);
  data[0] = out->data;
  loop(data, a->numel);
  recording &= !(modes & kGradOff);
  if (recording) record_direct(op, args, out.get());
  if (cut) [[unlikely]] {
    if (recording) {
      keep_cuts(out->grad_fn, op, args);
    } else {
      mark_unrecorded(op, args, Value(out));
    }
  }
  return out.release();
}

Value apply(const Op& op, Value* args) {
  if (op.operands) {
    if (TensorObject* out = apply_direct(op, args)) return Tensor::steal(out);
  }
  Call c{op, args};
  Value out = op.forward(c);
  if (grad_enabled() && wants_recording(op, args)) {
    record(c, out);
  } else {
    mark_unrecorded(op, args, out);
  }
  return out;
}

namespace {

void finish_inplace(const Tensor& self, const Value& out, const Op& op) {
  if (out.object() == self.get()) return;
  Tensor value = out.tensor();
  if (!(value.shape() == self.shape())) {
    runtime_error("output with shape ", self.shape(), " doesn't match the broadcast shape ",
                  value.shape());
  }
  if (!can_cast(value.dtype(), self.dtype())) {
    runtime_error("result type ", value.dtype(), " can't be cast to the desired output type ",
                  self.dtype(), " (in ", op.name, "_)");
  }
  copy_into(self, value);
}

}  // namespace

Tensor apply_inplace(const Op& op, Value* args) {
  Tensor self = args[0].tensor();
  bool recording = grad_enabled() && wants_recording(op, args);
  check_inplace(self, recording, (op.name + "_").c_str());
  if (!recording) {
    Call c{op, args, self};
    finish_inplace(self, op.forward(c), op);
    bump_version(self);
    mark_unrecorded(op, args, Value(self));
    return self;
  }
  if (!is_differentiable(self.dtype())) {
    runtime_error(op.name,
                  "_: a result that requires grad can't be written into a tensor of dtype ",
                  self.dtype());
  }
  // The node is made first: its edges and saved values are those of before the change.
  NodeRef node(begin_record(op, args));
  if (uses_of(op, args).inputs & 1) node->saved[0] = save(op_clone(self));
  Call c{op, args, self};
  finish_inplace(self, op.forward(c), op);
  bump_version(self);
  node->kept = c.kept;
  rebase_history(self, node.get());
  save_outputs(node.get(), op, args, Value(self));
  return self;
}

namespace {

// neg, floor and their like do not convert into out=, as in PyTorch, where square is a power.
bool keeps_dtype(const Op& op) {
  return op.is_elementwise && op.argument_count == 1 && op.promotion == Common &&
         op.kernel->result == Result::Same && op.name != "square";
}

// Their results are positions, which PyTorch writes into int64 alone.
bool finds_positions(const Op& op) {
  return op.name == "nonzero" || op.name == "argmax" || op.name == "argmin";
}

}  // namespace

Value apply_out(const Op& op, Value* args, const Tensor& out) {
  if (grad_enabled()) {
    bool any = needs_grad(out.get());
    for (size_t i = 0; i < op.schema.arguments.size(); ++i) any |= needs_grad(args[i]);
    if (any) {
      runtime_error(op.name,
                    "(): functions with out=... arguments don't support automatic differentiation, "
                    "but one of "
                    "the arguments requires grad.");
    }
  }
  if (keeps_dtype(op) && args[0].object()->dtype != out.dtype()) {
    runtime_error("Found dtype ", out.dtype(), " but expected ", args[0].object()->dtype, ": ",
                  op.name, "() writes only into a tensor of its input's dtype");
  }
  if (finds_positions(op) && out.dtype() != DType::Int64) {
    runtime_error(op.name, "(): Expected out tensor to have scalar type Long but got ",
                  out.dtype());
  }
  check_inplace(out, false, op.name.c_str());
  Call c{op, args};
  bool fits = false;
  if (op.is_elementwise) {
    Dims shape;
    for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
      if (args[i].is_tensor())
        shape = broadcast_shapes(shape, {args[i].object()->shape, args[i].object()->ndim});
    }
    fits = Span(shape) == out.shape();
  }
  if (fits) c.out = out;
  Value result = op.forward(c);
  if (!result.is_tensor())
    runtime_error(op.name, "(): out= takes a tuple here; assign the results instead");
  write_out(out, result.tensor(), op.name.c_str());
  return Value(out);
}

void write_out(const Tensor& out, const Tensor& value, const char* op_name) {
  if (value.is(out)) return bump_version(out);
  if (!can_cast(value.dtype(), out.dtype())) {
    runtime_error("result type ", value.dtype(), " can't be cast to the desired output type ",
                  out.dtype(), " (in ", op_name, ")");
  }
  if (!(value.shape() == out.shape())) resize(out, value.shape());
  copy_into(out, value);
  bump_version(out);
}

}  // namespace adjoint
