// Which dtype a tensor given as out= may have.
//
// Elementwise ops and most sums convert their result into out=, if the promotion rules let them.
// Everything that moves elements, multiplies matrices or finds positions writes only into a tensor
// of the result's own dtype. Where PyTorch's ops make an exception, so do these.
#include "dispatch/out_dtype.h"

#include <string_view>

namespace adjoint {
namespace {

bool is_among(std::string_view name, std::string_view words) {
  for (size_t at = words.find(name); at != words.npos; at = words.find(name, at + 1)) {
    bool starts = at == 0 || words[at - 1] == ' ';
    size_t end = at + name.size();
    if (starts && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

// Ops that are not elementwise and convert all the same. Those without tensors take the dtype of
// out= beforehand.
constexpr std::string_view kConverting =
    "add sub rsub addr addcmul addcdiv clamp cumprod deg2rad rad2deg ldexp outer pow polygamma "
    "column_stack bernoulli cat stack hstack vstack dstack logsumexp kron logit mean nanmean std "
    "var nansum sum prod diff normal lerp";
constexpr std::string_view kExact =
    "heaviside hardshrink where float_power isin complex polar gelu softplus";

// neg, floor and their like do not convert into out=, where square is a power.
bool keeps_dtype(const Op& op, const Value* args) {
  if (op.name == "abs") return !is_complex(args[0].object()->dtype);
  if (is_among(op.name, "sgn round nan_to_num conj_physical")) return true;
  return op.is_elementwise && op.argument_count == 1 && op.promotion == Common &&
         op.kernel->result == Result::Same && op.name != "square";
}

bool converts(const Op& op, const Value* args) {
  if (op.name == "lerp" && args[2].is_tensor()) return false;
  if (op.name == "max" || op.name == "min") return op.result_fields.empty();
  if (op.name == "clamp") return args[1].is_tensor() || args[2].is_tensor();
  if (is_among(op.name, kExact)) return false;
  return op.is_elementwise || op.is_partial || is_among(op.name, kConverting);
}

}  // namespace

void check_out_dtype(const Op& op, const Value* args, DType out) {
  if (keeps_dtype(op, args) && args[0].object()->dtype != out) {
    runtime_error("Found dtype ", out, " but expected ", args[0].object()->dtype, ": ", op.name,
                  "() writes only into a tensor of its input's dtype");
  }
  if (is_among(op.name, "signbit isposinf isneginf") && out != DType::Bool)
    runtime_error(op.name, " does not support non-boolean outputs, but out has dtype ", out);
}

void check_out_result(const Op& op, const Value* args, DType result, DType out) {
  if (!can_cast(result, out)) {
    std::string why = text("result type ", result, " can't be cast to the desired output type ",
                           out, " (in ", op.name, ")");
    if (is_among(op.name, "cat stack hstack vstack dstack column_stack")) type_error(why);
    runtime_error(why);
  }
  if (result == out || converts(op, args)) return;
  if (is_among(op.name, "all any") && out == DType::UInt8) return;  // PyTorch's older bool
  runtime_error(op.name, "(): Expected out tensor to have dtype ", result, ", but got ", out,
                " instead");
}

}  // namespace adjoint
