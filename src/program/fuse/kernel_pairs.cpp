// Functions of one argument that are computed together: sin(x), and the cos(x) in its gradient. A product of the second
// with one is the second itself.
// Read kernels/kernel_pair.h and tiles.h first.
#include <map>

#include "dispatch/elementwise_forward.h"
#include "kernels/kernel_pair.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

// What a loop is to a pair of kernels.
struct Part {
  enum : uint8_t { First, Second, Product } what;
  const KernelPair* pair;
  DType dtype;
};

// By loop. Loops of one kernel differ by dtype.
const std::map<Loop, Part>& parts_of_pairs() {
  static const std::map<Loop, Part> parts = [] {
    std::map<Loop, Part> found;
    int count;
    const KernelPair* pairs = kernel_pairs(&count);
    for (const KernelPair* p = pairs; p != pairs + count; ++p) {
      for (DType d : {DType::Float32, DType::Float64}) {
        int k = static_cast<int>(d);
        if (!p->loop[k]) continue;
        found.emplace(p->first->loop[k], Part{Part::First, p, d});
        if (p->second) found.emplace(p->second->loop[k], Part{Part::Second, p, d});
        found.emplace(p->product->loop[k], Part{Part::Product, p, d});
      }
    }
    return found;
  }();
  return parts;
}

}  // namespace

// Where both functions of a pair are wanted of one value, one loop gives both where the first of
// them stood, and products with the second become plain ones.
void TileBuilder::join_pairs() {
  struct Found {
    Part part;
    int at[2] = {-1, -1};  // calls: of the first function, of the second
    std::vector<int> products;
  };
  const std::map<Loop, Part>& parts = parts_of_pairs();
  std::map<std::pair<int, const KernelPair*>, Found> found;  // by the argument
  for (size_t k = 0; k < calls_.size(); ++k) {
    auto part = parts.find(calls_[k].loop);
    if (part == parts.end()) continue;
    auto what = part->second.what;
    int argument = operands_of(calls_[k])[what == Part::Product ? 1 : 0], at = static_cast<int>(k);
    Found& f = found.try_emplace({argument, part->second.pair}, Found{part->second}).first->second;
    if (what == Part::Product && is_one(operands_of(calls_[k])[0])) what = Part::Second;
    if (what == Part::Product)
      f.products.push_back(at);
    else if (int& first = f.at[what]; first < 0)
      first = at;
  }
  std::map<int, Call> before;  // calls that are made first, by the call that they precede
  std::vector<bool> gone(calls_.size());
  static const Kernel& mul = kernel_named("mul");
  for (const auto& [key, f] : found) {
    if (f.at[0] < 0 || (f.at[1] < 0 && f.products.empty())) continue;
    int earliest = f.at[0], results[2];
    for (int n : {0, 1}) {
      if (f.at[n] < 0) {
        results[n] = static_cast<int>(values_.size());
        values_.push_back({f.part.dtype, Made::Tile});
        continue;
      }
      results[n] = results_of(calls_[f.at[n]])[0];
      gone[f.at[n]] = true;
      earliest = std::min(earliest, f.at[n]);
    }
    for (int k : f.products) {
      earliest = std::min(earliest, k);
      int operands[2] = {operands_of(calls_[k])[0], results[1]};
      int result = results_of(calls_[k])[0];
      calls_[k] = call_of(mul.loop[static_cast<int>(f.part.dtype)], {&result, 1}, operands);
    }
    before.emplace(earliest, call_of(f.part.pair->loop[static_cast<int>(f.part.dtype)], results,
                                     {&key.first, 1}));
  }
  if (before.empty()) return;
  std::vector<Call> calls;
  for (size_t k = 0; k < calls_.size(); ++k) {
    if (auto both = before.find(static_cast<int>(k)); both != before.end())
      calls.push_back(both->second);
    if (!gone[k]) calls.push_back(calls_[k]);
  }
  calls_ = std::move(calls);
}

}  // namespace adjoint
