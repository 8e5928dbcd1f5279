// Read block_plan.h first.
#include "program/native/block_plan.h"

#include "program/native/nest.h"

namespace adjoint::native {
namespace {

NestPart nest_part(const BlockPart& part, size_t first_pointer, size_t last_part) {
  NestPart made;
  if (part.tiles) {
    made.tiles = part.tiles.get();
    made.pointers = part.places - first_pointer;
  } else if (part.loop == sum_loop || part.loop == fold_rows) {
    if (part.loop == sum_loop)
      made.sum = static_cast<const reduce::Problem*>(part.what);
    else
      made.fold = static_cast<const FoldedRows*>(part.what);
    made.from = part.from;
    made.to = part.to;
    made.offset = part.offset;
    made.pointers = part.first + 1 - first_pointer;
  }
  for (size_t use : part.last_use) made.kept.push_back(use > last_part);
  return made;
}

// Memory that the block uses again for another value must not be written while a nest still reads
// it: what its parts do one after another, a nest does side by side.
bool is_apart(const Nest& nest, const char* const* pointers, size_t first,
              const std::vector<bool>& is_set_anew) {
  std::vector<Nest::Touched> all = nest.touched();
  std::erase_if(all, [&](const Nest::Touched& t) { return is_set_anew[first + t.pointer]; });
  for (const Nest::Touched& a : all) {
    for (const Nest::Touched& b : all) {
      if (!a.written || a.reg == b.reg) continue;
      const char *x = pointers[a.pointer], *y = pointers[b.pointer];
      if (x + a.low < y + b.high && y + b.low < x + a.high) return false;
    }
  }
  return true;
}

}  // namespace

void BlockPlan::add(BlockPart part, const std::vector<Patch>& patches) {
  parts_.push_back(std::move(part));
  patches_.insert(patches_.end(), patches.begin(), patches.end());
}

int BlockPlan::alone(const BlockPart& part, Module& m) const {
  if (part.tiles) return m.add(*part.tiles, Extent::Whole);
  if (part.loop == sum_loop) return m.add_sum(*static_cast<const reduce::Problem*>(part.what));
  if (part.loop == fold_rows) return m.add_sum(*static_cast<const FoldedRows*>(part.what));
  return -1;
}

// As many neighbours as can be one nest; none where that is only one.
BlockPlan::Chosen BlockPlan::nested(size_t first, Module& m, const std::vector<char*>& pointers,
                                    const std::vector<bool>& is_set_anew) const {
  const size_t base = parts_[first].first;
  size_t last = first;
  for (Nest nest; last < parts_.size() && nest.add(nest_part(parts_[last], base, last)); ++last) {
  }
  for (; last > first + 1; --last) {
    Nest nest;  // once more: which values are read by others depends on where it ends
    for (size_t k = first; k < last; ++k) nest.add(nest_part(parts_[k], base, last - 1));
    if (nest.size() != last - first || !is_apart(nest, pointers.data() + base, base, is_set_anew))
      continue;
    int function = m.add(nest.key(), [&](const std::string& name) { return nest.code(name); });
    if (function >= 0) return {first, last, function};
  }
  return {first, first, -1};
}

void BlockPlan::ask(Module& m, const std::vector<char*>& pointers,
                    const std::vector<Patch>& patches) {
  std::vector<bool> is_set_anew(pointers.size());
  for (const Patch& p : patches) is_set_anew[p.at] = true;
  for (const Patch& p : patches_) is_set_anew[p.at] = true;
  for (size_t k = 0; k < parts_.size();) {
    Chosen chosen = nested(k, m, pointers, is_set_anew);
    if (chosen.function < 0) chosen = {k, k + 1, alone(parts_[k], m)};
    chosen_.push_back(chosen);
    k = chosen.last;
  }
}

size_t BlockPlan::take(const Module& m, std::vector<BoundLoop>& loops, std::vector<char*>& pointers,
                       std::vector<Patch>& patches) const {
  std::vector<bool> used(pointers.size());
  auto use = [&](size_t first, size_t last) {
    std::fill(used.begin() + static_cast<std::ptrdiff_t>(first),
              used.begin() + static_cast<std::ptrdiff_t>(last), true);
  };
  std::vector<BoundLoop> left;
  size_t native = 0;
  for (const Chosen& c : chosen_) {
    const BlockPart& first = parts_[c.first];
    for (size_t k = c.first; k < c.last; ++k) {
      const BlockPart& part = parts_[k];
      if (part.tiles && c.function >= 0)
        use(part.places, part.places + part.tiles->places.size());
      else
        use(part.first, part.last);
    }
    if (c.function < 0) {
      left.insert(left.end(), loops.begin() + static_cast<std::ptrdiff_t>(first.first_loop),
                  loops.begin() + static_cast<std::ptrdiff_t>(first.last_loop));
      continue;
    }
    native += c.last - c.first;
    size_t at = c.last > c.first + 1 || !first.tiles ? first.first : first.places;
    left.push_back({reinterpret_cast<Loop>(m.address(c.function)), &pointers[at],
                    first.tiles ? first.tiles->numel : 1});
  }
  patches.insert(patches.end(), patches_.begin(), patches_.end());
  std::erase_if(patches, [&](const Patch& p) { return !used[p.at]; });
  loops = std::move(left);
  return native;
}

}  // namespace adjoint::native
