// Small sums as generated code, in the order in which kernels/reduce adds: Loops with the pointers of
// program/fuse/calls.h (description, result, operand). Nothing for other orders and dtypes.
#pragma once
#include <optional>
#include <string>

#include "kernels/reduce/reduce.h"
#include "program/fuse/layouts.h"

namespace adjoint::native {

std::optional<std::string> sum_code(const reduce::Problem& p, const std::string& name);
std::optional<std::string> sum_code(const FoldedRows& f, const std::string& name);
std::string sum_key(const reduce::Problem& p);
std::string sum_key(const FoldedRows& f);

}  // namespace adjoint::native
