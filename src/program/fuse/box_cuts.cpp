// Read box_cuts.h first.
#include "program/fuse/box_cuts.h"

#include <algorithm>
#include <numeric>

namespace adjoint {
namespace {

constexpr int64_t kWorthABox = 16;      // elements of a loop for each box that it is cut at
constexpr int64_t kVector = 16;         // elements of a cache line, or of two
constexpr int64_t kWorthCopying = 256;  // elements of a loop that is cut at whole vectors

}  // namespace

bool is_plain(const TileLoops& f, const TileLoops::Assembly& a) {
  bool plain = f.shape.size() == 1;
  for (const TileLoops::Box& b : a.boxes) plain &= b.place < 0 || b.flat;
  return plain;
}

bool is_read_in_place(const TileLoops& f, const TileLoops::Assembly& a) {
  return is_plain(f, a) && static_cast<int64_t>(a.boxes.size()) * kWorthABox <= f.numel;
}

const TileLoops::Box& box_at(const TileLoops::Assembly& a, int64_t at) {
  return *std::ranges::find_if(a.boxes, [&](const TileLoops::Box& b) {
    return at >= b.start[0] && at < b.start[0] + b.size[0];
  });
}

bool is_in_one_box(const TileLoops::Assembly& a, Range part) {
  const TileLoops::Box& b = box_at(a, part.start);
  return part.end <= b.start[0] + b.size[0];
}

const TileLoops::Box* whole_box(const TileLoops::Assembly& a, Range tile) {
  auto found = std::ranges::find_if(a.boxes, [&](const TileLoops::Box& b) {
    return b.first <= tile.start && tile.end <= b.last;
  });
  return found == a.boxes.end() ? nullptr : &*found;
}

std::vector<uint32_t> arguments_of(const TileLoops& f, size_t action) {
  auto next = std::find_if(f.actions.begin() + static_cast<std::ptrdiff_t>(action) + 1,
                           f.actions.end(), [](const auto& a) { return a.loop != nullptr; });
  const size_t end = next == f.actions.end() ? f.arguments.size() : next->at;
  std::vector<uint32_t> arguments(end - f.actions[action].at);
  std::iota(arguments.begin(), arguments.end(), f.actions[action].at);
  return arguments;
}

// Long loops are cut at whole vectors, and what is between is copied: results that straddle cache lines
// cost more.
std::vector<int64_t> cuts_of(const TileLoops& f, std::span<const uint32_t> arguments, Range tile) {
  std::vector<int64_t> cuts{tile.start, tile.end};
  const int64_t whole = f.numel < kWorthCopying ? 1 : kVector;
  for (uint32_t k : arguments) {
    if (f.arguments[k].kind != TileLoops::Argument::Assembled) continue;
    const TileLoops::Assembly& a = f.assemblies[f.arguments[k].index];
    if (!is_read_in_place(f, a)) continue;
    for (const TileLoops::Box& b : a.boxes) {
      for (int64_t cut : {b.start[0], b.start[0] + whole - 1})
        cuts.push_back(std::clamp(cut / whole * whole, tile.start, tile.end));
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

}  // namespace adjoint
