// Schema: the signature of an op, parsed once from its text.
//
//   "addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1)"
//
// Types: Tensor (when none is written), Operand (a tensor or a number), Tensor[], Tensor?[] (items
// may be None), Scalar, int, float, bool, str, int[] (an int counts as a list of one), int[*] (may
// also be given as separate positional arguments), Tensor[*] (the same for tensors), dtype, any
// (the Python object as it is). A `?` behind a type also takes None. `a|b: int` has a second name
// that callers may use, where PyTorch has one for its methods or overloads.
#pragma once
#include <string>
#include <vector>

#include "tensor/value.h"

namespace adjoint {

enum class ArgType : uint8_t {
  Tensor,
  Operand,
  TensorList,
  Scalar,
  Int,
  Float,
  Bool,
  Str,
  Ints,
  DType,
  Any
};

struct Argument {
  std::string name;
  std::vector<std::string> other_names;
  std::string type_text;
  ArgType type = ArgType::Tensor;
  bool optional = false;  // takes None
  bool keyword_only = false;
  bool variadic = false;  // int[*]
  bool has_default = false;
  Value default_value;
  std::string default_text;

  bool is_tensor() const { return type <= ArgType::TensorList; }
};

struct Schema {
  std::string text;
  std::string name;
  std::string overload;
  std::vector<Argument> arguments;
};

Schema parse_schema(const char* text);
// "(input, other, *, alpha=1)", for __text_signature__ and docs.
std::string python_signature(const Schema& schema);

}  // namespace adjoint
