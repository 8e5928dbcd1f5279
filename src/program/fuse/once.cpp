// Loops whose operands are the same in every tile, such as a row that is broadcast and a number, give
// the same in every tile: they run once, before the tiles. Read tiles.h first.
#include <map>

#include "dispatch/elementwise_forward.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

// The loop of a product, where the given one multiplies by a scaled value: a * (b * scale).
Loop product_of_scaled(Loop loop) {
  static const std::map<Loop, Loop> known = [] {
    std::map<Loop, Loop> found;
    for (int d : {static_cast<int>(DType::Float32), static_cast<int>(DType::Float64)})
      found[kernel_named("mul_scaled").loop[d]] = kernel_named("mul").loop[d];
    return found;
  }();
  auto at = known.find(loop);
  return at == known.end() ? nullptr : at->second;
}

}  // namespace

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
  for (Call c : calls_) {
    const int result = results_of(c)[0];
    if (Loop product = product_of_scaled(c.loop)) {
      const std::vector<int> of(operands_of(c).begin(), operands_of(c).end());
      if (!same[of[0]] && same[of[1]] && same[of[2]]) {
        const int scaled = static_cast<int>(values_.size());
        values_.push_back({values_[result].dtype, Made::Tile});
        same.push_back(true);
        const int factors[] = {of[0], scaled};
        first.push_back(call_of(product, {&scaled, 1}, std::span(of).subspan(1)));
        c = call_of(product, {&result, 1}, factors);
      }
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
