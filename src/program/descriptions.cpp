// Read descriptions.h first.
#include "program/descriptions.h"

#include <algorithm>

namespace adjoint {
namespace {

size_t hash_ints(Span s, size_t h) {
  h = mix(h, static_cast<size_t>(s.size()));
  for (int64_t x : s) h = mix(h, static_cast<size_t>(x));
  return h;
}

size_t bits(double x) {
  size_t b;
  std::memcpy(&b, &x, sizeof b);
  return b;
}

// Of what same() compares.
size_t hash_of(const Value& v, size_t h) {
  h = mix(h, v.kind());
  switch (v.kind()) {
    case Value::Bool:
    case Value::Int:
      return mix(h, static_cast<size_t>(v.integer()));
    case Value::Double:
    case Value::Complex:
      return mix(mix(h, bits(v.complex().real())), bits(v.complex().imag()));
    case Value::Type:
      return mix(h, static_cast<size_t>(v.dtype()));
    case Value::String:
      return mix(h, std::hash<std::string>()(v.str()));
    case Value::Ints:
      return hash_ints(v.ints(), h);
    case Value::Tensors_:
      return mix(h, v.tensors().size());
    case Value::List:
      for (const Value& item : v.list()) h = hash_of(item, h);
      return h;
    default:
      return h;
  }
}

// Whether arguments that are no tensors say the same, to the last bit.
bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::None:
      return true;
    case Value::Bool:
    case Value::Int:
      return a.integer() == b.integer();
    case Value::Double:
    case Value::Complex:
      return bits(a.complex().real()) == bits(b.complex().real()) &&
             bits(a.complex().imag()) == bits(b.complex().imag());
    case Value::Type:
      return a.dtype() == b.dtype();
    case Value::String:
      return a.str() == b.str();
    case Value::Ints:
      return a.ints() == b.ints();
    case Value::Tensors_:  // the places of tensors, which are reads
      return a.tensors().size() == b.tensors().size();
    case Value::List:
      return std::ranges::equal(a.list(), b.list(), same);
    default:
      return false;
  }
}

}  // namespace

TensorGeometry::TensorGeometry(const TensorObject* t)
    : shape(Span{t->shape, t->ndim}),
      strides(Span{t->strides, t->ndim}),
      dtype(t->dtype),
      pending(t->flags & kPending),
      numel(t->numel) {
  contiguous = is_contiguous(shape, strides, numel);
  dense = is_dense(shape, strides);
}

const TensorGeometry* Descriptions::geometry(const TensorObject* t) {
  if (last_ && last_->is_of(t)) return last_;
  size_t hash = hash_ints(Span{t->strides, t->ndim},
                          hash_ints(Span{t->shape, t->ndim}, static_cast<size_t>(t->dtype)));
  int at = geometry_at_.find(hash, [&](int k) { return geometries_[k].is_of(t); });
  if (at < 0) {
    at = static_cast<int>(geometries_.size());
    geometries_.emplace_back(t);
    geometry_at_.add(hash, at);
  }
  return last_ = &geometries_[at];
}

const Value* Descriptions::arguments(const Op& op, const Value* args) {
  auto count = static_cast<size_t>(op.argument_count);
  size_t hash = reinterpret_cast<uintptr_t>(&op) >> 4;
  auto plain = [&](size_t k) -> bool { return args[k].is_tensor(); };  // a read: not an argument
  for (size_t k = 0; k < count; ++k) hash = plain(k) ? mix(hash, 0) : hash_of(args[k], hash);
  int at = arguments_at_.find(hash, [&](int n) {
    const Arguments& known = arguments_[n];
    if (known.op != &op) return false;
    for (size_t k = 0; k < count; ++k) {
      if (plain(k) ? !known.values[k].is_none() : !same(args[k], known.values[k])) return false;
    }
    return true;
  });
  if (at < 0) {
    at = static_cast<int>(arguments_.size());
    Arguments& added = arguments_.emplace_back(Arguments{&op, std::vector<Value>(count)});
    for (size_t k = 0; k < count; ++k) {
      if (args[k].is_tensors())
        added.values[k] = Value(Tensors(args[k].tensors().size()));
      else if (!plain(k))
        added.values[k] = args[k];
    }
    bool foreign =
        std::any_of(args, args + count, [](const Value& v) { return v.kind() == Value::Object; });
    if (!foreign) arguments_at_.add(hash, at);
  }
  return arguments_[at].values.data();
}

const char* Descriptions::element(const TensorObject* t) {
  Element& made = elements_.emplace_back();
  std::memcpy(made.bytes, t->data, item_size(t->dtype));
  return made.bytes;
}

const KernelCall* Descriptions::kernel(const Kernel* kernel, DType common,
                                       std::span<const int> reads, const Value* numbers) {
  size_t hash = mix(reinterpret_cast<uintptr_t>(kernel) >> 4, static_cast<size_t>(common));
  for (size_t k = 0; k < reads.size(); ++k)
    hash = reads[k] < 0 ? hash_of(numbers[k], hash) : mix(hash, static_cast<size_t>(reads[k]));
  int at = kernel_at_.find(hash, [&](int n) {
    const KernelCall& step = kernels_[n];
    if (step.kernel != kernel || step.common != common || step.operands.size() != reads.size())
      return false;
    for (size_t k = 0; k < reads.size(); ++k) {
      const KernelCall::Operand& o = step.operands[k];
      if (o.read != reads[k] || (o.read < 0 && !same(o.number, numbers[k]))) return false;
    }
    return true;
  });
  if (at < 0) {
    at = static_cast<int>(kernels_.size());
    KernelCall& step = kernels_.emplace_back(KernelCall{kernel, common, {}});
    for (size_t k = 0; k < reads.size(); ++k)
      step.operands.push_back({reads[k], reads[k] < 0 ? numbers[k] : Value()});
    kernel_at_.add(hash, at);
  }
  return &kernels_[at];
}

}  // namespace adjoint
