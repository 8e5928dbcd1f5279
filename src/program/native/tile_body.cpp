// Read tile_body.h first.
#include "program/native/tile_body.h"

#include "kernels/convert.h"
#include "program/native/formulas.h"

namespace adjoint::native {
namespace {

using Place = TileLoops::Place;
using Argument = TileLoops::Argument;

constexpr size_t kMostActions = 192;  // longer functions take too long to compile

// Arguments of a loop end where those of the next one start.
size_t end_of(const TileLoops& f, size_t action) {
  for (size_t next = action + 1; next < f.actions.size(); ++next) {
    if (f.actions[next].loop) return f.actions[next].at;
  }
  return f.arguments.size();
}

bool is_known_loop(const TileLoops& f, size_t action) {
  Loop loop = f.actions[action].loop;
  size_t at = f.actions[action].at;
  for (size_t k = at; k < end_of(f, action); ++k) {
    if (!native::is_known(f.arguments[k].dtype)) return false;
  }
  if (formula_of(loop).formula) return true;
  DType to = f.arguments[at].dtype, from = f.arguments[at + 1].dtype;
  return loop == copy_loop(to) || loop == conversion(to, from);
}

}  // namespace

bool TileBody::is_known(const TileLoops& f) {
  if (f.may_fault || f.numel == 0) return false;
  int64_t all = 1;
  for (int64_t n : f.shape) all *= n;
  if (f.numel != all) return false;
  for (const Place& p : f.places) {
    if (!native::is_known(p.dtype) || !native::is_known(p.wanted)) return false;
    if ((p.written && p.dtype != p.wanted) || p.row) return false;
  }
  for (const TileLoops::Number& n : f.numbers) {
    if (!native::is_known(n.dtype)) return false;
  }
  for (const TileLoops::Assembly& a : f.assemblies) {
    if (!native::is_known(a.dtype)) return false;
  }
  for (size_t k = 0; k < f.actions.size(); ++k) {
    if (f.actions[k].loop && !is_known_loop(f, k)) return false;
  }
  return true;
}

bool TileBody::is_short(const TileLoops& f) { return f.actions.size() <= kMostActions; }

size_t widest_item(const TileLoops& f) {
  for (const Argument& a : f.arguments)
    if (a.dtype == DType::Float64) return 8;
  return 4;
}

TileBody::TileBody(const TileLoops& f, Vectors& vectors, Load load, Store store)
    : f_(f),
      vectors_(vectors),
      load_(std::move(load)),
      store_(std::move(store)),
      tiles_(f.tiles),
      places_(f.places.size()),
      assembled_(f.assemblies.size()) {
  for (size_t k = 0; k < f_.places.size(); ++k) {
    const Place& p = f_.places[k];
    if (p.way == TileLoops::Way::Repeated || p.way == TileLoops::Way::Again) from_tile_[p.tile] = k;
  }
}

void TileBody::write() {
  for (const TileLoops::Action& s : f_.actions) {
    if (s.loop) {
      compute(s);
      continue;
    }
    if (s.assembles) continue;
    std::string& tile = tiles_[f_.places[s.at].tile];
    if (f_.places[s.at].written)
      store_(s.at, tile);
    else
      tile = load_(s.at);
  }
}

std::string TileBody::operand(const Argument& a) {
  switch (a.kind) {
    case Argument::Number:
      return number(f_.numbers[a.index]);
    case Argument::Memory:
      if (places_[a.index].empty()) places_[a.index] = load_(a.index);
      return places_[a.index];
    case Argument::Assembled:
      if (assembled_[a.index].empty()) assembled_[a.index] = assemble_(a.index);
      return assembled_[a.index];
    default:
      if (tiles_[a.index].empty()) tiles_[a.index] = load_(from_tile_.at(a.index));
      return tiles_[a.index];
  }
}

std::string TileBody::number(const TileLoops::Number& n) {
  if (n.dtype == DType::Bool)
    return vectors_.lanes(DType::Float32).all(n.bytes[0] ? "i1 true" : "i1 false");
  return vectors_.lanes(n.dtype).number(load_double(n.dtype, n.bytes)).name;
}

void TileBody::keep(const Argument& a, const std::string& v) {
  if (a.kind == Argument::Tile) {
    tiles_[a.index] = v;
  } else {
    places_[a.index] = v;
    store_(a.index, v);
  }
}

void TileBody::compute(const TileLoops::Action& action) {
  const Argument* a = f_.arguments.data() + action.at;
  Known known = formula_of(action.loop);
  if (!known.formula) return keep(a[0], vectors_.as_dtype(operand(a[1]), a[1].dtype, a[0].dtype));
  const Formula& f = *known.formula;
  Value in[4];
  for (int k = 0; k < f.inputs; ++k) in[k] = {operand(a[f.results + k]), a[f.results + k].dtype};
  std::string out[2];
  f.write(vectors_.lanes(known.dtype), in, out);
  for (int k = 0; k < f.results; ++k) keep(a[k], out[k]);
}

}  // namespace adjoint::native
