// Loops whose operands are the same in every tile, such as a row that is broadcast and a number, give
// the same in every tile: they run once, before the tiles. Products of which one factor is so are taken
// apart: the gradient of tanh, in a Jacobian, is a product with what depends on one row. Read tiles.h
// first.
#include <map>
#include <string>

#include "dispatch/elementwise_forward.h"
#include "kernels/convert.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

// Kernels that multiply their first operand by what they make of the others, element by element: where a
// kernel takes another way for a vector with one extreme element (sigmoid), neighbours matter.
struct Factored {
  Loop mul = nullptr;
  DType dtype = DType::Float32;
  // By the product of two others; else the factor is what the kernel gives with 1 in the first's place.
  bool scaled = false;
};

Factored product_of(Loop loop) {
  static const std::map<Loop, Factored> known = [] {
    std::map<Loop, Factored> found;
    for (const char* name : {"mul_scaled", "tanh_grad", "mul_cos"}) {
      for (DType d : {DType::Float32, DType::Float64}) {
        const int k = static_cast<int>(d);
        found[kernel_named(name).loop[k]] = {kernel_named("mul").loop[k], d,
                                             name == std::string("mul_scaled")};
      }
    }
    return found;
  }();
  auto at = known.find(loop);
  return at == known.end() ? Factored{} : at->second;
}

}  // namespace

// 1 (x k), as the gradient of a power has it where the incoming gradient is that of a sum.
void TileBuilder::drop_unit_factors() {
  for (Call& c : calls_) {
    const Factored p = product_of(c.loop);
    if (!p.scaled || !is_one(operands_of(c)[0])) continue;
    const int result = results_of(c)[0], factors[] = {operands_of(c)[1], operands_of(c)[2]};
    c = call_of(p.mul, {&result, 1}, factors);
  }
}

void TileBuilder::find_once() {
  if (made_->is_one_tile()) return;
  std::vector<bool> same(values_.size());
  for (size_t k = 0; k < values_.size(); ++k) {
    const Made& m = values_[k];
    same[k] = m.kind == Made::Number;
    if (m.kind != Made::Memory) continue;
    const TileLoops::Way way = made_->places[m.place].way;
    same[k] = way == TileLoops::Way::Repeated || way == TileLoops::Way::Again;
  }
  std::vector<Call> first, others;
  auto add_first = [&](Loop loop, DType dtype, std::span<const int> operands) {
    const int value = static_cast<int>(values_.size());
    values_.push_back({dtype, Made::Tile});
    first.push_back(call_of(loop, {&value, 1}, operands));
    return value;
  };
  for (Call c : calls_) {
    const int result = results_of(c)[0];
    std::vector<int> of(operands_of(c).begin(), operands_of(c).end());
    bool rest = of.size() > 1;
    for (size_t k = 1; k < of.size(); ++k) rest = rest && same[of[k]];
    if (Factored p = product_of(c.loop); p.mul && rest && !same[of[0]]) {
      int factors[] = {of[0], 0};
      alignas(16) char one[16] = {};
      store_scalar(p.dtype, one, 1.0);
      if (!p.scaled) of[0] = element(one, p.dtype, p.dtype);
      factors[1] = p.scaled ? add_first(p.mul, p.dtype, std::span(of).subspan(1))
                            : add_first(c.loop, p.dtype, of);
      same.resize(values_.size(), true);
      c = call_of(p.mul, {&result, 1}, factors);
    }
    bool all = c.results == 1 && values_[result].place < 0;
    for (int operand : operands_of(c)) all = all && same[operand];
    if (all) same[result] = true;
    (all ? first : others).push_back(c);
  }
  once_ = static_cast<int>(first.size());
  calls_ = std::move(first);
  calls_.insert(calls_.end(), others.begin(), others.end());
}

}  // namespace adjoint
