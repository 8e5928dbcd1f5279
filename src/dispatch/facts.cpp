// What follows from the kind of an op where its block says nothing. Read facts.h first.
#include "dispatch/facts.h"

#include "dispatch/transformed_calls.h"

namespace adjoint {
namespace {

Depends depends_of(const Op& op) {
  if (is_pointwise(op)) return Depends::Pointwise;
  switch (op.facts.product.form) {
    case Product::Matrices:
    case Product::Batches:
    case Product::MatrixVector:
    case Product::Transposed:
      return Depends::Product;
    default:
      break;
  }
  // Linear in one tensor: a view, a sum, a permutation. Linear in each of several may be a product.
  return op.is_linear && op.tensor_arguments == 1 ? Depends::Moved : Depends::Everything;
}

// neg, floor and their like do not convert; a result of another kind than the operand does.
OutDType out_dtype_of(const Op& op) {
  bool same = op.is_elementwise && op.argument_count == 1 && op.promotion == Common &&
              op.kernel->result == Result::Same;
  if (same) return OutDType::Input;
  return is_pointwise(op) ? OutDType::Converts : OutDType::Exact;
}

bool takes_dtype(const Op& op) {
  for (const Argument& a : op.schema.arguments) {
    if (a.type == ArgType::DType) return true;
  }
  return false;
}

const char* zero_text_of(const Op& op) {
  if (op.facts.flat) return "is flat: its derivative is 0 everywhere";
  if (op.is_product) return "multiplies the gradient with the other factor, which is 0 everywhere";
  if (op.facts.product.form != Product::None)
    return "multiplies the gradient with the other factor, which gives 0 here";
  return nullptr;
}

}  // namespace

bool is_pointwise(const Op& op) { return op.is_elementwise || op.is_partial; }

const char* to_string(Depends d) {
  static constexpr const char* kNames[kDepends] = {"unstated",
                                                   "everything",
                                                   "pointwise",
                                                   "moved",
                                                   "along",
                                                   "product",
                                                   "scattered",
                                                   "scatter reduced",
                                                   "index reduced",
                                                   "normalized rows",
                                                   "normalized rows backward",
                                                   "class rows",
                                                   "class rows backward",
                                                   "pair split",
                                                   "pair joined",
                                                   "distances",
                                                   "window products",
                                                   "window products, input",
                                                   "window products, weight",
                                                   "matrices"};
  return kNames[static_cast<int>(d)];
}

const char* to_string(Autocast a) {
  static constexpr const char* kNames[] = {"untouched", "lower", "float32", "widest", "inside"};
  return kNames[static_cast<int>(a)];
}

void settle_facts(Op& op) {
  Facts& f = op.facts;
  if (f.depends == Depends::Unstated) f.depends = depends_of(op);
  if (f.out_dtype == OutDType::Unstated) f.out_dtype = out_dtype_of(op);
  if (!f.zero_text) f.zero_text = zero_text_of(op);
  f.writes_all |= is_pointwise(op) || f.overwrites;
  f.cheap |= op.kernel && op.kernel->result == Result::Bool;
  if (!op.batch) op.batch = batch_rule_by_kind(op);
  const bool composed = !op.batch && op.tensor_arguments > 0;
  f.to_any_dtype |= composed || op.is_view || f.copies || f.fills || f.uninitialised;
  f.any_dtype |= f.to_any_dtype || is_pointwise(op) || op.operands > 0;
  f.to_any_dtype |= f.any_dtype && !takes_dtype(op);  // there is nothing to look at in a call
}

}  // namespace adjoint
