// Loops with an operand that repeats an element along each row, which tiles of whole rows read where it
// lies rather than gather (TileLoops::RowLoop). Read tiles.h first.
#include <map>

#include "dispatch/elementwise_forward.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

constexpr int64_t kLeastRow = 8;  // elements of rows that are worth it

// The loop that does the same with such an operand, its first one or its second; null for most.
Loop loop_with_repeated(Loop loop, bool first) {
  static const std::map<std::pair<Loop, bool>, Loop> known = [] {
    std::map<std::pair<Loop, bool>, Loop> found;
    const char* names[][3] = {{"add", "repeated_add", "add_repeated"},
                              {"sub", "repeated_sub", "sub_repeated"},
                              {"mul", "repeated_mul", "mul_repeated"}};
    for (const auto& [plain, with_first, with_second] : names) {
      for (DType d : {DType::Float32, DType::Float64}) {
        auto of = [&](const char* name) { return kernel_named(name).loop[static_cast<int>(d)]; };
        found[{of(plain), true}] = of(with_first);
        found[{of(plain), false}] = of(with_second);
      }
    }
    return found;
  }();
  auto at = known.find({loop, first});
  return at == known.end() ? nullptr : at->second;
}

}  // namespace

// The other loop of a call that has an operand which is repeated along rows; -1 if there is none.
int TileBuilder::row_loop(const Call& c) {
  TileLoops& f = *made_;
  const int last = f.shape.size() - 1;
  std::span<const int> operands = operands_of(c);
  if (f.by_rows || last < 1 || f.shape[last] < kLeastRow || operands.size() != 2 || pitch_)
    return -1;
  auto place_of = [&](int value) -> const TileLoops::Place* {
    const Made& m = values_[value];
    if (m.kind != Made::Memory) return nullptr;
    const TileLoops::Place& p = f.places[m.place];
    return p.way == TileLoops::Way::Moved && p.dtype == p.wanted ? &p : nullptr;
  };
  for (int n : {1, 0}) {
    const TileLoops::Place *p = place_of(operands[n]), *other = place_of(operands[1 - n]);
    const Made& m = values_[operands[1 - n]];
    Loop loop = loop_with_repeated(c.loop, n == 0);
    if (!loop || !p || p->strides[last] != 0) continue;
    TileLoops::RowLoop made{loop, static_cast<uint32_t>(values_[operands[n]].place)};
    bool one_row = other && other->strides[last - 1] == 0 &&
                   other->strides[last] == static_cast<int64_t>(item_size(other->dtype));
    if (one_row)
      made.row = m.place;
    else if (m.kind == Made::Number || m.kind == Made::Assembled)
      continue;
    made.rows = 1 + static_cast<uint32_t>(1 - n);
    f.row_loops.push_back(made);
    return static_cast<int>(f.row_loops.size()) - 1;
  }
  return -1;
}

// Moves into tiles that only such loops would read.
void TileBuilder::spare_moves() {
  TileLoops& f = *made_;
  if (f.row_loops.empty()) return;
  std::vector<int> uses(f.places.size());
  for (const Call& c : calls_) {
    for (int operand : operands_of(c)) {
      if (values_[operand].kind == Made::Memory) ++uses[values_[operand].place];
    }
  }
  for (const TileLoops::RowLoop& r : f.row_loops) {
    --uses[r.repeated];
    if (r.row >= 0) --uses[r.row];
  }
  for (TileLoops::Action& a : f.actions)
    a.spared = !a.loop && !a.assembles && !f.places[a.at].written && uses[a.at] == 0;
}

}  // namespace adjoint
