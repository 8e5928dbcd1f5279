// Two loops of a tile as one, where the second is all that reads the result of the first
// (TileLoops::Chain). Machine code has no use for it: it keeps values in registers anyway. Read tiles.h
// first, and kernels/isa/chains.cpp.
#include <map>
#include <string>

#include "dispatch/elementwise_forward.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

// The loop that does two, the second of which has the result of the first as its first operand, or not; null for most.
Loop loop_of_both(Loop first, Loop second, bool right) {
  using Key = std::tuple<Loop, Loop, bool>;
  static const std::map<Key, Loop> known = [] {
    std::map<Key, Loop> found;
    const std::string names[] = {"add", "sub", "mul"};
    for (const std::string& a : names) {
      for (const std::string& b : names) {
        for (bool right : {false, true}) {
          const Kernel& both =
              kernel_named(("chain_" + a + "_" + b + (right ? "_right" : "")).c_str());
          for (DType d : {DType::Float32, DType::Float64}) {
            const int k = static_cast<int>(d);
            found[{kernel_named(a.c_str()).loop[k], kernel_named(b.c_str()).loop[k], right}] =
                both.loop[k];
          }
        }
      }
    }
    return found;
  }();
  auto at = known.find({first, second, right});
  return at == known.end() ? nullptr : at->second;
}

}  // namespace

// The last two actions, of which the last does call `step`.
void TileBuilder::join_chain(int step) {
  TileLoops& f = *made_;
  if (step == 0 || f.actions.size() < 2) return;
  TileLoops::Action &first = f.actions[f.actions.size() - 2], &second = f.actions.back();
  const Call &a = calls_[step - 1], &b = calls_[step];
  if (!first.loop || first.chain >= 0 || first.by_rows >= 0 || second.by_rows >= 0 ||
      first.loop != a.loop || operands_of(a).size() != 2 || operands_of(b).size() != 2)
    return;
  const int between = results_of(a)[0];
  const Made& m = values_[between];
  std::span<const int> operands = operands_of(b);
  if (m.kind != Made::Tile || m.place >= 0 || m.last_use != step || operands[0] == operands[1])
    return;
  const bool right = operands[1] == between;
  if (!right && operands[0] != between) return;
  Loop loop = loop_of_both(a.loop, b.loop, right);
  if (!loop) return;
  second.chain = static_cast<int>(f.chains.size());
  first.in_next = true;
  f.chains.push_back(
      {loop, {second.at, first.at + 1, first.at + 2, second.at + (right ? 1u : 2u)}});
}

}  // namespace adjoint
