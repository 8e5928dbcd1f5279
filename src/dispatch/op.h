// One op, one block.
//
//   static const Op& sin_ = def("sin(input)", "Sine, elementwise, of radians.")
//       .elementwise("sin", ToFloat)
//       .partial(0, input(0), [](const Tensor& g, Context& c) { return g * op<"cos">(c.in(0)); })
//       .inplace();
//
// A block states the schema, the doc, the forward, the derivative(s) and how it batches. The
// function `adjoint.sin`, the methods `Tensor.sin` and `Tensor.sin_`, `out=`, their signature,
// docstring and stub, the reference page and the generated tests all follow from it.
//
//   schema    "name(arg, arg: type = default, *, keyword: type = default)"; see schema.h for the
//             types. An overload has a tag: "max.dim(input, dim: int, keepdim: bool = False)".
//   forward   Value(Call&): computes the result. Knows nothing of gradients.
//   partial   for elementwise ops: the map g -> g * d(out)/d(arg i). It is diagonal, so it serves
//             as vjp and as jvp. Complex: write the holomorphic derivative; conjugation is done by
//             the caller.
//   grad      for the others: the vjp for argument i, any shape that broadcasts from the input's
//             shape: the engine sums broadcast axes and casts to the input's dtype; no rule does.
//   vjp       all gradients at once, where they share work: fills `grads`, one per edge.
//   linear    the op is linear in its tensor arguments taken one at a time: jvp is the op itself.
//   jvp       the tangent of the result, for ops that are neither elementwise nor linear.
//   batch     the same op on arguments with one more axis (see BatchRule, transforms/batch_rules.h).
//
// What else others have to know of an op is said in its block too, where it does not follow from the
// kind of the op: see facts.h.
//
// Derivatives are written with ops, so that they can be differentiated again. `Uses` says what a
// rule reads: only that is kept alive for backward. Read next: ops/elementwise/arithmetic.cpp,
// then apply.cpp.
#pragma once
#include <array>
#include <atomic>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/facts.h"
#include "dispatch/schema.h"
#include "dispatch/tally_stream.h"
#include "graph/node.h"
#include "kernels/kernel.h"
#include "tensor/promote.h"

namespace adjoint {

inline constexpr int kMaxArguments = 24;
inline constexpr int kMaxTensorArguments = 8;

// --- what a rule reads ---------------------------------------------------------------------------
struct Uses {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  constexpr Uses operator|(Uses o) const { return {inputs | o.inputs, outputs | o.outputs}; }
};
inline constexpr Uses nothing{};
constexpr Uses input(int i) { return {1u << i, 0}; }
constexpr Uses output(int i = 0) { return {0, 1u << i}; }

// --- one application of an op --------------------------------------------------------------------
struct Call {
  const Op& op;
  Value* args;      // as many as the schema has
  Tensor out = {};  // where the result is wanted (in-place, out=); a forward may ignore it
  Value kept = {};  // set by forward: anything backward needs that is neither argument nor result

  const Value& operator[](int i) const { return args[i]; }
  Tensor tensor(int i) const { return args[i].tensor(); }
  const Tensors& tensors(int i) const { return args[i].tensors(); }
  const Dims& ints(int i) const { return args[i].ints(); }
  int64_t integer(int i) const { return args[i].integer(); }
  double real(int i) const { return args[i].real(); }
  bool flag(int i) const { return args[i].boolean(); }
};
using Forward = Value (*)(Call&);
using NodeName = const char* (*)(const Value* args);

// --- what a rule sees ----------------------------------------------------------------------------
// Inputs and outputs are those of the forward call. In backward they come from the node, checked
// against the version they were saved with; in forward mode from the call itself.
class Context {
 public:
  Context(Node* node, Tensor* grads) : node_(node), grads_(grads) {}
  Context(Call* call, const Value* result) : call_(call), result_(result) {}

  Value in(int i);  // argument i: a tensor, a number, None, a list ...
  Tensor tensor(int i) { return in(i).tensor(); }
  Tensor out(int k = 0);      // result k
  const Value& kept() const;  // what forward left
  Span shape(int i);  // shape and dtype of tensor argument i (only where it needs a gradient)
  DType dtype(int i);
  Span out_shape(int k = 0);
  bool needs(int i);  // does argument i want a gradient?
  // The gradient of result k; zeros where none arrived.
  Tensor grad(int k = 0);
  bool has_grad(int k) const { return bool(grads_[k]); }

 private:
  Node* node_ = nullptr;
  Tensor* grads_ = nullptr;
  Call* call_ = nullptr;
  const Value* result_ = nullptr;
};

using Rule = Tensor (*)(const Tensor& g, Context& c);
using JointRule = void (*)(Context& c,
                           Tensor* grads);  // one per edge, in the order of tensor arguments
using Tangent = Value (*)(Context& c,
                          const Tensor* tangents);  // one per argument; undefined is zero
// Arguments with a batch axis have it at position `axes[i]`, -1 for the others; the result has it
// at 0.
using BatchRule = Value (*)(Call& c, const int* axes);

// --- dtype rules of elementwise ops --------------------------------------------------------------
enum Promotion : uint8_t {
  Common,   // the common dtype of all operands
  ToFloat,  // the same, but integers become the default float dtype
};

struct Op {
  Schema schema;
  std::string name;       // "max"
  std::string full_name;  // "max.dim"
  std::string doc;
  std::string node_name;       // "MaxBackward0"
  NodeName name_of = nullptr;  // where PyTorch's name depends on which arguments are tensors
  std::string family;          // the file it stands in: a chapter of the reference

  Forward forward = nullptr;
  std::array<Rule, kMaxArguments> grads{};
  std::array<Uses, kMaxArguments> uses{};
  bool is_partial = false;  // the rules in `grads` are partial derivatives of an elementwise op
  JointRule joint = nullptr;
  Uses joint_uses{};
  Tangent tangent = nullptr;
  BatchRule batch = nullptr;  // null: its forward does nothing but call other ops
  bool is_linear = false;
  bool reads_grad_once = false;  // see reuse.h
  bool is_product = false;       // see product_backward in direct.h

  // The short way (apply_direct): for contiguous operands of one shape and dtype, the loop, where
  // it takes the dtype as it is. Arguments after the first `operands` must have their defaults.
  std::array<Loop, kDTypes> direct{};
  const char* direct_kernel = nullptr;
  int operands = 0;                   // 0: there is no short way
  unsigned direct_rules = 0;          // a bit per operand that has a rule
  std::array<Uses, 4> direct_uses{};  // what is read, by the operands that need a gradient
  const char* kernel_name = nullptr;
  const Kernel* kernel = nullptr;
  Promotion promotion = Common;
  bool is_elementwise = false;

  bool is_view = false;
  bool is_multi_view = false;
  bool as_function = true;
  bool as_method = true;
  bool has_inplace = false;
  bool has_out = true;
  std::vector<std::string> aliases;        // other public names: "multiply" for mul
  std::vector<std::string> result_fields;  // names of a result of several tensors
  std::array<int8_t, kMaxArguments>
      edge_of{};  // argument -> first edge, -1 for what is not a tensor
  int tensor_arguments = 0;
  int argument_count = 0;
  bool takes_list = false;                        // one of the arguments is a list of tensors
  std::array<int8_t, kMaxArguments> tensor_at{};  // the tensor arguments, in order

  Facts facts;
  TallyStreamsRef calls, nodes;  // which of them a profile looks at

  bool differentiable() const {
    if (joint) return true;
    for (Rule r : grads) {
      if (r) return true;
    }
    return false;
  }
};

// --- the block -----------------------------------------------------------------------------------
class Block {
 public:
  explicit Block(Op* op) : op_(op) {}
  operator const Op&() const { return *op_; }

  // A loop over elements, by name of the kernel.
  Block& elementwise(const char* kernel, Promotion p = Common);
  // A kernel for the common case of an op with a forward of its own: the first `operands` arguments
  // are its operands, the others have their defaults.
  Block& direct(const char* kernel, int operands) {
    return op_->direct_kernel = kernel, op_->operands = operands, *this;
  }
  Block& forward(Forward f) { return op_->forward = f, *this; }
  Block& partial(int i, Uses u, Rule r) { return op_->is_partial = true, grad(i, u, r); }
  Block& grad(int i, Uses u, Rule r) {
    op_->grads[i] = r;
    op_->uses[i] = u;
    return *this;
  }
  Block& vjp(Uses u, JointRule r) { return op_->joint = r, op_->joint_uses = u, *this; }
  Block& jvp(Tangent t) { return op_->tangent = t, *this; }
  // The two rules say `g` times the other operand, nothing more.
  Block& is_product() { return op_->is_product = true, *this; }
  // Each rule uses the gradient as an operand of one elementwise op: its memory may be taken.
  Block& reads_grad_once() { return op_->reads_grad_once = true, *this; }
  Block& linear() { return op_->is_linear = true, *this; }
  Block& batch(BatchRule r) { return op_->batch = r, *this; }
  Block& view() { return op_->is_view = true, op_->has_out = false, *this; }
  Block& multi_view() { return op_->is_multi_view = true, view(); }
  Block& inplace() { return op_->has_inplace = true, *this; }
  Block& function_only() { return op_->as_method = false, *this; }
  Block& method_only() { return op_->as_function = false, *this; }
  Block& internal() { return op_->as_function = op_->as_method = false, *this; }
  Block& no_out() { return op_->has_out = false, *this; }
  Block& alias(const char* name);
  Block& node(const char* name) { return op_->node_name = name, *this; }
  Block& node(NodeName name) { return op_->name_of = name, *this; }
  Block& results(std::initializer_list<const char*> names);

  // --- facts, where they do not follow from the kind of the op: see facts.h
  Block& depends(Depends d) { return op_->facts.depends = d, *this; }
  Block& product(Product form, int first = 0, int added = -1) {
    return op_->facts.product = {form, static_cast<int8_t>(first), static_cast<int8_t>(added)},
           *this;
  }
  Block& draws(Draws d) { return op_->facts.draws = d, *this; }
  Block& out_dtype(OutDType d) { return op_->facts.out_dtype = d, *this; }
  Block& out_dtype(OutRule r) { return op_->facts.out_rule = r, *this; }
  Block& autocast(Autocast a) { return op_->facts.autocast = a, *this; }
  Block& parts(PartRule r) { return op_->facts.part = r, *this; }
  Block& part_of_zeros(PartRule r) { return op_->facts.zero_elsewhere = true, parts(r); }
  Block& out_apart() { return op_->facts.out_apart = true, *this; }
  Block& by_values(ByValues r = [](const Value*) { return true; }) {
    return op_->facts.by_values = r, *this;
  }
  Block& storage_offset(int argument) {
    return op_->facts.storage_offset = static_cast<int8_t>(argument), *this;
  }
  Block& sparse(SparseRule r) { return op_->facts.sparse = r, *this; }
  Block& takes_sparse() { return op_->facts.takes_sparse = true, no_out(); }
  Block& takes_pending() { return op_->facts.takes_pending = true, *this; }
  Block& copies() { return op_->facts.copies = true, *this; }
  Block& rearranges() { return op_->facts.rearranges = true, *this; }
  Block& fills() { return op_->facts.fills = true, *this; }
  Block& cheap() { return op_->facts.cheap = true, *this; }
  Block& sums() { return op_->facts.sums = true, *this; }
  Block& flat() { return op_->facts.flat = true, *this; }
  Block& uninitialised() { return op_->facts.uninitialised = true, *this; }
  Block& writes_all() { return op_->facts.writes_all = true, *this; }
  Block& overwrites() { return op_->facts.overwrites = true, *this; }
  Block& fills_out() { return op_->facts.fills_out = true, *this; }
  Block& any_dtype() { return op_->facts.any_dtype = true, *this; }
  Block& to_any_dtype() { return op_->facts.to_any_dtype = true, any_dtype(); }
  Block& takes_numbers() { return op_->facts.takes_numbers = true, *this; }
  Block& called(const char* name) { return op_->facts.called = name, *this; }
  Block& zero_text(const char* why) { return op_->facts.zero_text = why, *this; }

 private:
  Op* op_;
};

// Registers an op; the family is the name of the file the block stands in.
Block def(const char* schema, const char* doc, const char* file = __builtin_FILE());

const std::vector<Op*>& all_ops();
const Op& find_op(std::string_view full_name);  // throws if there is none
void finish_ops();                              // resolves kernels; called once at import

// --- calling -------------------------------------------------------------------------------------
// Runs an op and records it. `args` has one value per argument of the schema.
Value apply(const Op& op, Value* args);
// The same as apply, into args[0].
Tensor apply_inplace(const Op& op, Value* args);
// The same into `out`, which is resized if its shape differs.
Value apply_out(const Op& op, Value* args, const Tensor& out);
// The same for an op with several results.
void apply_outs(const Op& op, Value* args, const Tensors& outs);
// What the backward of a node made by an op does.
void op_backward(Node* node, Tensor* grads, Tensor* result);

template <size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&s)[N]) { std::copy_n(s, N, text); }
};

// See direct.h.
TensorObject* direct_single(const Op& op, TensorObject* a);
TensorObject* direct_pair(const Op& op, TensorObject* a, TensorObject* b);

// The operand behind an argument, if it is a tensor: derivative rules are mostly `g * x`.
inline TensorObject* operand(const Tensor& t) { return t.get(); }
inline TensorObject* operand(const Value& v) { return v.is_tensor() ? v.object() : nullptr; }
template <class A>
TensorObject* operand(const A&) {
  return nullptr;
}
inline TensorObject* try_direct(const Op& op, TensorObject* a) {
  return op.operands == 1 && a ? direct_single(op, a) : nullptr;
}
inline TensorObject* try_direct(const Op& op, TensorObject* a, TensorObject* b) {
  return op.operands == 2 && a && b ? direct_pair(op, a, b) : nullptr;
}

// Applies an op to the first `n` of its arguments, which it takes over and ends, also when it throws;
// the others have their defaults. Out of line: it stands for a thousand calls of op<>.
Value apply_given(const Op& op, Value* given, int n);
Tensor apply_given_inplace(const Op& op, Value* given, int n);

// Room for arguments that somebody else will end: a caller without code to do it.
template <int N>
union HandedOver {
  Value at[N];
  template <class... A>
  explicit HandedOver(A&&... a) {
    Value* next = at;
    (new (next++) Value(std::forward<A>(a)), ...);
  }
  ~HandedOver() {}
};

// The op of a name, looked up once.
template <OpName Name>
const Op& op_named() {
  static constinit std::atomic<const Op*> found{nullptr};
  const Op* op = found.load(std::memory_order_relaxed);
  if (!op) [[unlikely]] {
    op = &find_op({Name.text, sizeof(Name.text) - 1});
    found.store(op, std::memory_order_relaxed);
  }
  return *op;
}

// op<"cos">(x): calls an op from C++; arguments left out take their defaults.
template <OpName Name, class... A>
Value op(A&&... a) {
  const Op& found = op_named<Name>();
  constexpr int given = sizeof...(A);
  if constexpr (given == 1 || given == 2) {
    if (TensorObject* out = try_direct(found, operand(a)...)) return Tensor::steal(out);
  }
  HandedOver<given> args(std::forward<A>(a)...);
  return apply_given(found, args.at, given);
}
// The in-place form of the same.
template <OpName Name, class... A>
Tensor op_inplace(A&&... a) {
  const Op& found = op_named<Name>();
  HandedOver<sizeof...(A)> args(std::forward<A>(a)...);
  return apply_given_inplace(found, args.at, sizeof...(A));
}

inline Tensor operator*(const Tensor& a, const Value& b) { return op<"mul">(a, b); }
inline Tensor operator+(const Tensor& a, const Value& b) { return op<"add">(a, b); }
inline Tensor operator-(const Tensor& a, const Value& b) { return op<"sub">(a, b); }
inline Tensor operator/(const Tensor& a, const Value& b) { return op<"div">(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return op<"mul">(a, b); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return op<"add">(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return op<"sub">(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return op<"div">(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return op<"mul">(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return op<"add">(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return op<"sub">(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return op<"div">(a, b); }
inline Tensor operator-(const Tensor& a) { return op<"neg">(a); }

// --- help for forwards ---------------------------------------------------------------------------
// -ndim <= dim < ndim, made non-negative; PyTorch's IndexError otherwise. A 0-d tensor counts as
// one axis.
int wrap_dim(int64_t dim, int ndim);
// The shape that shapes broadcast to; names both shapes when they do not.
Dims broadcast_shapes(Span a, Span b);
// Copies elements, converting; shapes must be equal, memory may overlap. Records nothing.
void copy_into(const Tensor& to, const Tensor& from);
// A dense copy in row-major order; the tensor itself if it is one already. Records nothing.
Tensor contiguous(const Tensor& t);
// A copy in another dtype, or the tensor itself. Records nothing.
Tensor cast(const Tensor& t, DType dtype);
// A 0-d tensor holding a number.
Tensor scalar_tensor(const Value& v, DType dtype);

}  // namespace adjoint
