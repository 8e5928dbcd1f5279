// Two loops of a tile as one, where the second is all that reads the result of the first
// (TileLoops::Chain): what lies between them is neither stored nor loaded. Machine code has no use for
// it: it keeps values in registers anyway. Read tiles.h first, and kernels/isa/chains.cpp.
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

// The loop of two operands that does the same: a square is a product. Null if there is none.
Loop as_binary(Loop loop, size_t operands) {
  if (operands == 2) return loop;
  static const Kernel &square = kernel_named("square"), &mul = kernel_named("mul");
  for (DType d : {DType::Float32, DType::Float64}) {
    const int k = static_cast<int>(d);
    if (loop == square.loop[k]) return mul.loop[k];
  }
  return nullptr;
}

}  // namespace

// The loop of calls `a` and `b`, of which the second reads the result of the first; null if they are
// not two that there is one for. `right`: as its second operand.
Loop TileBuilder::loop_of_calls(const Call& a, const Call& b, bool* right) const {
  if (a.results != 1 || b.results != 1) return nullptr;
  std::span<const int> operands = operands_of(b);
  if (operands.size() != 2 || operands[0] == operands[1]) return nullptr;
  const int between = results_of(a)[0];
  *right = operands[1] == between;
  const Loop first = as_binary(a.loop, operands_of(a).size());
  if (!first || (!*right && operands[0] != between)) return nullptr;
  return loop_of_both(first, b.loop, *right);
}

// A loop that could be one with the only one to read its result moves to where that stands, unless
// more values would be alive between: instead of the result, what it is made of is, so that may be one
// value which nobody else reads that late.
void TileBuilder::bring_together() {
  const int count = static_cast<int>(calls_.size());
  std::vector<int> maker(values_.size(), -1), last(values_.size(), -1), reads(values_.size());
  for (int k = 0; k < count; ++k) {
    for (int v : results_of(calls_[k])) maker[v] = k;
    for (int v : operands_of(calls_[k])) last[v] = k, ++reads[v];
  }
  std::vector<int> written(calls_.size() + 1);  // by call: how many before it write to memory
  for (int k = 0; k < count; ++k) {
    written[k + 1] = written[k];
    for (int v : results_of(calls_[k])) {
      const int place = values_[v].place;
      written[k + 1] += place >= 0 && made_->places[place].sum < 0;
    }
  }
  auto takes_tile = [&](int v) {
    const Made& m = values_[v];
    return m.kind == Made::Tile || m.kind == Made::Assembled ||
           (m.kind == Made::Memory && made_->places[m.place].way == TileLoops::Way::Moved);
  };
  // Not past a result: it may want the memory of an operand (find_takeovers), or change it.
  auto is_free = [&](int k, int reader) {
    const int result = results_of(calls_[k])[0];
    if (reads[result] != 1 || values_[result].place >= 0 || written[reader] != written[k])
      return false;
    int longer = 0;
    for (int v : operands_of(calls_[k])) longer += takes_tile(v) && last[v] < reader;
    return longer <= 1;
  };
  std::vector<int> moved(calls_.size(), -1);  // by call: the one that is to stand before it
  std::vector<bool> taken(calls_.size());
  for (int k = once_; k < count; ++k) {
    bool right;
    auto fits = [&](int a) {
      return a >= once_ && !taken[a] && moved[a] < 0 && loop_of_calls(calls_[a], calls_[k], &right);
    };
    if (k > once_ && fits(k - 1) && is_free(k - 1, k)) {
      taken[k - 1] = taken[k] = true;
      continue;
    }
    for (int v : operands_of(calls_[k])) {
      const int a = maker[v];
      if (a < 0 || a >= k - 1 || !fits(a) || !is_free(a, k)) continue;
      moved[k] = a;
      taken[a] = taken[k] = true;
      for (int operand : operands_of(calls_[a])) last[operand] = std::max(last[operand], k - 1);
      break;
    }
  }
  std::vector<bool> gone(calls_.size());
  for (int a : moved) {
    if (a >= 0) gone[a] = true;
  }
  std::vector<Call> calls;
  calls.reserve(calls_.size());
  for (int k = 0; k < count; ++k) {
    if (gone[k]) continue;
    if (moved[k] >= 0) calls.push_back(calls_[moved[k]]);
    calls.push_back(calls_[k]);
  }
  calls_ = std::move(calls);
}

// The last two actions, of which the last does call `step`.
void TileBuilder::join_chain(int step) {
  TileLoops& f = *made_;
  if (step == 0 || f.actions.size() < 2) return;
  TileLoops::Action &first = f.actions[f.actions.size() - 2], &second = f.actions.back();
  const Call &a = calls_[step - 1], &b = calls_[step];
  if (!first.loop || first.chain >= 0 || first.by_rows >= 0 || second.by_rows >= 0 ||
      first.loop != a.loop)
    return;
  bool right;
  Loop loop = loop_of_calls(a, b, &right);
  if (!loop) return;
  const Made& between = values_[results_of(a)[0]];
  if (between.kind != Made::Tile || between.place >= 0 || between.last_use != step) return;
  second.chain = static_cast<int>(f.chains.size());
  first.in_next = true;
  const uint32_t x = first.at + 1, y = operands_of(a).size() == 2 ? x + 1 : x;
  f.chains.push_back({loop, {second.at, x, y, second.at + (right ? 1u : 2u)}});
}

}  // namespace adjoint
