// Read elementwise_forward.h first.
#include "dispatch/elementwise_forward.h"

#include "dispatch/kernel_observer.h"
#include "dispatch/overlap.h"
#include "dispatch/reuse.h"
#include "dispatch/wide_unsigned.h"
#include "kernels/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "python/gil.h"
#include "tensor/layout.h"

namespace adjoint {

constinit thread_local KernelObserver* t_kernel_observer = nullptr;

namespace {

bool same_layout(const TensorObject* a, const TensorObject* b) {
  return (a->flags & b->flags & kContiguous) && Span{a->shape, a->ndim} == Span{b->shape, b->ndim};
}

[[noreturn]] void no_loop(const char* op_name, DType d) {
  if (is_wide_unsigned(d)) no_loop_for_wide_unsigned(op_name, d);
  not_implemented("\"", op_name, "\" not implemented for dtype ", d);
}

// The operand whose memory may be taken for the result, if there is one.
Tensor reused(const Value* v, int count) {
  for (int i = 0; t_reuse && i < count; ++i) {
    if (v[i].is_tensor() && take_for_reuse(v[i].object())) return v[i].tensor();
  }
  return {};
}

// All operands contiguous tensors of one shape and of the dtype the loop takes: no plan is needed.
Tensor try_fast(const Kernel& kernel, const Value* v, int count, Promotion p, const Tensor& out) {
  if (count > 3 || !v[0].is_tensor()) return {};
  TensorObject* a = v[0].object();
  for (int i = 0; i < count; ++i) {
    if (!v[i].is_tensor() || v[i].object()->dtype != a->dtype || !same_layout(a, v[i].object()))
      return {};
  }
  if (is_half(a->dtype) || (p == ToFloat && is_integral(a->dtype))) return {};
  Loop loop = kernel.loop[static_cast<int>(a->dtype)];
  if (!loop) return {};
  DType result = result_dtype(kernel, a->dtype);
  Tensor to = out;
  if (!to) {
    to = result == a->dtype ? reused(v, count) : Tensor();
    if (!to) to = empty_contiguous_like(a, result);
  } else if (to.dtype() != result || !same_layout(to.get(), a)) {
    return {};
  } else {
    for (int i = 0; i < count; ++i) {
      const TensorObject* t = v[i].object();
      bool in_place = t->data == to->data && result == t->dtype;
      if (!in_place && share_bytes(t, to.get())) return {};
    }
  }
  char* data[4] = {to->data, a->data, count > 1 ? v[1].object()->data : nullptr,
                   count > 2 ? v[2].object()->data : nullptr};
  size_t item[4] = {item_size(result), item_size(a->dtype), item_size(a->dtype),
                    item_size(a->dtype)};
  WithoutGil release(a->numel >= kReleaseGil);
  check_division(run_contiguous(loop, item, data, count + 1, a->numel));
  return to;
}

// Strides of `t` as seen from a broadcast shape, in bytes.
Dims broadcast_strides(const TensorObject* t, int ndim) {
  Dims s(ndim, 0);
  if (t->numel == 0) return s;  // whose strides may not fit when counted in bytes
  int lead = ndim - t->ndim;
  for (int i = 0; i < t->ndim; ++i) {
    if (t->shape[i] != 1) s[lead + i] = t->strides[i] * static_cast<int64_t>(item_size(t->dtype));
  }
  return s;
}

struct Broadcast {
  Dims shape;
  DType common;
};

// A new result, in the memory order that Note [Memory order of results] chooses. An operand of
// another dtype counts as the copy in the common one that PyTorch would make of it first; a
// condition is not converted.
Tensor new_result(const Kernel& kernel, const Value* v, int count, const Broadcast& b,
                  DType result) {
  Lying lying[kMaxOperands];
  Dims copied[kMaxOperands];
  int tensors = 0;
  bool contiguous = true, alike = true;  // all of the result's shape, and with strides that agree
  for (int i = 0; i < count; ++i) {
    if (!v[i].is_tensor()) {  // a number counts as a tensor without axes
      contiguous &= b.shape.empty();
      alike &= b.shape.empty();
      continue;
    }
    const TensorObject* t = v[i].object();
    Lying& l = lying[tensors++] = {{t->shape, t->ndim}, {t->strides, t->ndim}};
    if (!(t->flags & kContiguous) && t->dtype != b.common && !(i == 0 && kernel.has(kCondition))) {
      copied[i] = strides_of_copy(l);
      l.strides = copied[i];
    }
    bool whole = l.shape == Span(b.shape);
    contiguous &= whole && is_contiguous(l.shape, l.strides, t->numel);
    alike &= whole && l.strides == lying[0].strides;
  }
  if (contiguous) return empty(b.shape, result);
  if (alike && is_dense(b.shape, lying[0].strides))
    return empty_strided(b.shape, lying[0].strides, result);
  return empty_strided(b.shape, strides_in_order_of(b.shape, lying, tensors), result);
}

// A condition takes no part.
DType common_dtype(const Kernel& kernel, const Value* v, int count, Promotion p) {
  ResultType type;
  for (int i = kernel.has(kCondition) ? 1 : 0; i < count; ++i) type.add(v[i]);
  DType common = type.get();
  return p == ToFloat && is_integral(common) ? default_dtype() : common;
}

Broadcast broadcast(const Kernel& kernel, const Value* v, int count, Promotion p) {
  Broadcast b;
  b.common = common_dtype(kernel, v, count, p);
  bool first = true;
  for (int i = 0; i < count; ++i) {
    if (!v[i].is_tensor()) continue;
    Span s{v[i].object()->shape, v[i].object()->ndim};
    b.shape = first ? Dims(s) : broadcast_shapes(b.shape, s);
    first = false;
  }
  return b;
}

void check_destination(const Tensor& out, const Broadcast& b, DType result, const char* op_name) {
  if (!(out.shape() == Span(b.shape))) {
    runtime_error("output with shape ", out.shape(), " doesn't match the broadcast shape ",
                  b.shape);
  }
  if (!can_cast(result, out.dtype())) {
    runtime_error("result type ", result, " can't be cast to the desired output type ", out.dtype(),
                  " (in ", op_name, ")");
  }
}

}  // namespace

DType result_dtype(const Kernel& k, DType d) {
  return k.result == Result::Bool ? DType::Bool : k.result == Result::Real ? real_dtype(d) : d;
}

void check_division(bool fine) {
  if (!fine) runtime_error("ZeroDivisionError: an integer was divided by zero");
}

void KernelObserver::note(const Kernel& k, const Value* v, int n, Promotion p, const Tensor& out) {
  ++calls;
  kernel = &k;
  count = n;
  result = out.get();
  common = common_dtype(k, v, n, p);
  for (int i = 0; i < n; ++i) {
    tensors[i] = v[i].is_tensor() ? v[i].object() : nullptr;
    numbers[i] = v[i].is_tensor() ? Value() : v[i];
  }
}

const Kernel& kernel_named(const char* name) {
  const Kernel* k = find_kernel(name);
  if (!k) throw std::logic_error(std::string("no kernel named ") + name);
  return *k;
}

static Tensor run_unwatched(const Kernel& kernel, const Value* v, int count, Promotion p,
                            const Tensor& out, const char* op_name) {
  if (Tensor fast = try_fast(kernel, v, count, p, out)) return fast;
  Broadcast b = broadcast(kernel, v, count, p);
  DType compute = compute_dtype(b.common);
  Loop loop = kernel.loop[static_cast<int>(compute)];
  if (!loop) no_loop(op_name, b.common);
  DType result = result_dtype(kernel, b.common);
  if (out) check_destination(out, b, result, op_name);
  if (out && is_half(result) && out.dtype() != result) {
    // Rounded before it is widened: the value is that of the call without `out`.
    copy_into(out, run_unwatched(kernel, v, count, p, Tensor(), op_name));
    return out;
  }
  Tensor to = out;
  if (t_reuse && !to && Span{t_reuse->shape, t_reuse->ndim} == Span(b.shape) &&
      t_reuse->dtype == result) {
    to = reused(v, count);
  }
  if (!to) to = new_result(kernel, v, count, b, result);

  Operand operand[kMaxOperands];
  DType wanted[kMaxOperands];
  alignas(16) char number[kMaxOperands][16];
  Tensor copies[kMaxOperands];  // holds those of inputs that overlap the output partly
  int nd = b.shape.size();
  operand[0] = {to->data, to.dtype(), broadcast_strides(to.get(), nd)};
  wanted[0] = result_dtype(kernel, compute);
  for (int i = 0; i < count; ++i) {
    wanted[i + 1] = compute;
    if (v[i].is_tensor()) {
      Tensor t = copies[i] = in_step(v[i].tensor(), to);
      operand[i + 1] = {t->data, t.dtype(), broadcast_strides(t.get(), nd)};
    } else {
      store_scalar(compute, number[i], v[i].complex());
      if (v[i].kind() == Value::Int || v[i].kind() == Value::Bool)
        store_scalar(compute, number[i], v[i].integer());
      operand[i + 1] = {number[i], compute, Dims(nd, 0)};
    }
  }
  // The condition of `where` is bool whatever the others are.
  if (count == 3 && v[0].is_tensor() && v[0].object()->dtype == DType::Bool &&
      kernel.has(kCondition))
    wanted[1] = DType::Bool;
  int64_t n = to.numel();
  bool fine;
  {
    WithoutGil release(n >= kReleaseGil);
    fine = run_elementwise(loop, wanted, b.shape, operand, count + 1);
  }
  check_division(fine);
  return to;
}

Tensor run_kernel(const Kernel& kernel, const Value* v, int count, Promotion p, const Tensor& out,
                  const char* op_name) {
  Tensor result = run_unwatched(kernel, v, count, p, out, op_name);
  if (t_kernel_observer) [[unlikely]]
    t_kernel_observer->note(kernel, v, count, p, result);
  return result;
}

Value elementwise_forward(Call& c) {
  return run_kernel(*c.op.kernel, c.args, c.op.kernel->inputs, c.op.promotion, c.out,
                    c.op.name.c_str());
}

}  // namespace adjoint
