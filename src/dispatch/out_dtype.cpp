// Which dtype a tensor given as out= may have.
//
// Elementwise ops and most sums convert their result into out=, if the promotion rules let them.
// Everything that moves elements, multiplies matrices or finds positions writes only into a tensor
// of the result's own dtype. Where PyTorch's ops make an exception, so do the blocks of these.
#include "dispatch/out_dtype.h"

namespace adjoint {
namespace {

OutDType rule_of(const Op& op, const Value* args) {
  return op.facts.out_rule ? op.facts.out_rule(args) : op.facts.out_dtype;
}

}  // namespace

void let_out_decide(const Op& op, Value* args, DType out) {
  if (op.facts.out_dtype != OutDType::Decides) return;
  if (is_complex(args[0].object()->dtype) && !is_complex(out)) return;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    if (op.schema.arguments[i].name == "dtype" && args[i].is_none()) args[i] = out;
  }
}

void check_out_dtype(const Op& op, const Value* args, DType out) {
  OutDType rule = rule_of(op, args);
  if (rule == OutDType::Input && args[0].object()->dtype != out) {
    runtime_error("Found dtype ", out, " but expected ", args[0].object()->dtype, ": ", op.name,
                  "() writes only into a tensor of its input's dtype");
  }
  if (rule == OutDType::Bool && out != DType::Bool)
    runtime_error(op.name, " does not support non-boolean outputs, but out has dtype ", out);
}

void check_out_result(const Op& op, const Value* args, DType result, DType out) {
  OutDType rule = rule_of(op, args);
  if (rule == OutDType::SameKind && (is_complex(result) != is_complex(out) || is_integral(out))) {
    const char* wanted = is_complex(result) ? "a complex output" : "a floating point output";
    runtime_error(op.name, " expects ", wanted, " tensor, but got ", out);
  }
  if (!can_cast(result, out)) {
    std::string why = text("result type ", result, " can't be cast to the desired output type ",
                           out, " (in ", op.name, ")");
    if (rule == OutDType::ConvertsElseTypeError) type_error(why);
    runtime_error(why);
  }
  bool converts = rule == OutDType::Converts || rule == OutDType::ConvertsElseTypeError ||
                  rule == OutDType::SameKind || rule == OutDType::Decides;
  if (result == out || converts) return;
  if (rule == OutDType::ExactOrByte && out == DType::UInt8) return;  // PyTorch's older bool
  runtime_error(op.name, "(): Expected out tensor to have dtype ", result, ", but got ", out,
                " instead");
}

}  // namespace adjoint
