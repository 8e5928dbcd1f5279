// Negations that another loop can do: a sum with a negated value is a difference, and a scaled product
// takes the sign into its number. Rounding is symmetric, so no bit changes but the sign of a NaN, which
// means nothing. Read tiles.h first.
#include <map>

#include "dispatch/elementwise_forward.h"
#include "kernels/convert.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

enum class Arithmetic : uint8_t { Other, Neg, Add, Sub, Scaled };
struct Known {
  Arithmetic what = Arithmetic::Other;
  DType dtype = DType::Float32;
};

Loop loop_of(const char* kernel, DType d) { return kernel_named(kernel).loop[static_cast<int>(d)]; }

Known known(Loop loop) {
  static const std::map<Loop, Known> all = [] {
    std::map<Loop, Known> found;
    for (DType d : {DType::Float32, DType::Float64}) {
      found[loop_of("neg", d)] = {Arithmetic::Neg, d};
      found[loop_of("add", d)] = {Arithmetic::Add, d};
      found[loop_of("sub", d)] = {Arithmetic::Sub, d};
      found[loop_of("mul_scaled", d)] = {Arithmetic::Scaled, d};
    }
    return found;
  }();
  auto at = all.find(loop);
  return at == all.end() ? Known{} : at->second;
}

}  // namespace

void TileBuilder::take_signs() {
  auto is = [&](int call, Arithmetic what) { return known(calls_[call].loop).what == what; };
  auto operand = [&](int call, int n) -> int& {
    return call_values_[calls_[call].first + calls_[call].results + static_cast<uint32_t>(n)];
  };
  const int count = static_cast<int>(calls_.size());
  std::vector<int> maker(values_.size(), -1), uses(values_.size());
  bool any = false;
  for (int k = 0; k < count; ++k) {
    for (int r : results_of(calls_[k])) maker[r] = k;
    for (int v : operands_of(calls_[k])) ++uses[v];
    any |= is(k, Arithmetic::Neg);
  }
  if (!any) return;
  // The negation that an operand is the result of, or -1.
  auto negation = [&](int call, int n) {
    int by = maker[operand(call, n)];
    return by >= 0 && is(by, Arithmetic::Neg) ? by : -1;
  };
  auto skip = [&](int call, int n) {
    const int by = negation(call, n);
    --uses[operand(call, n)];
    operand(call, n) = operand(by, 0);
    ++uses[operand(call, n)];
  };
  auto is_scaled_by_number = [&](int call) {
    return is(call, Arithmetic::Scaled) && values_[operand(call, 2)].kind == Made::Number;
  };
  auto turn = [&](int call) {
    const TileLoops::Number n = made_->numbers[values_[operand(call, 2)].place];
    alignas(16) char bytes[16] = {};
    store_scalar(n.dtype, bytes, -load_double(n.dtype, n.bytes));
    operand(call, 2) = element(bytes, n.dtype, n.dtype);
  };
  for (int k = 0; k < count; ++k) {
    const Known what = known(calls_[k].loop);
    if (is_scaled_by_number(k)) {
      for (int n : {0, 1}) {
        if (negation(k, n) < 0) continue;
        skip(k, n);
        turn(k);
      }
    } else if (what.what == Arithmetic::Add) {
      if (negation(k, 1) < 0 && negation(k, 0) >= 0) std::swap(operand(k, 0), operand(k, 1));
      if (negation(k, 1) < 0) continue;
      skip(k, 1);
      calls_[k].loop = loop_of("sub", what.dtype);
    } else if (what.what == Arithmetic::Sub && negation(k, 1) >= 0) {
      skip(k, 1);
      calls_[k].loop = loop_of("add", what.dtype);
    }
  }
  std::vector<bool> gone(calls_.size());
  for (int k = 0; k < count; ++k) {
    if (!is(k, Arithmetic::Neg)) continue;
    const int result = results_of(calls_[k])[0], of = operand(k, 0), by = maker[of];
    gone[k] = uses[result] == 0 && values_[result].place < 0;
    if (gone[k] || by < 0 || !is_scaled_by_number(by) || uses[of] != 1 || values_[of].place >= 0)
      continue;
    turn(by);
    call_values_[calls_[by].first] = result;
    gone[k] = true;
  }
  size_t kept = 0;
  for (size_t k = 0; k < calls_.size(); ++k) {
    if (!gone[k]) calls_[kept++] = calls_[k];
  }
  calls_.resize(kept);
}

}  // namespace adjoint
