// What loops over tiles do with one vector of elements, as generated code: values in registers, and
// memory where the caller says. Read program/fuse/tiles.h and vectors.h first.
#pragma once
#include <functional>
#include <map>

#include "program/fuse/tiles.h"
#include "program/native/vectors.h"

namespace adjoint::native {

class TileBody {
 public:
  // The elements of a place in hand, as its `wanted` dtype; and new ones for it.
  using Load = std::function<std::string(size_t place)>;
  using Store = std::function<void(size_t place, const std::string& value)>;

  // Whether there is code for all that the loops do; and whether that would be short enough.
  static bool is_known(const TileLoops& f);
  static bool is_short(const TileLoops& f);

  TileBody(const TileLoops& f, Vectors& vectors, Load load, Store store);
  // The elements in hand of a value that is put together, by assembly.
  void assemble_by(Load load) { assemble_ = std::move(load); }
  void write();

 private:
  using Argument = TileLoops::Argument;
  std::string operand(const Argument& a);
  std::string number(const TileLoops::Number& n);
  void keep(const Argument& a, const std::string& v);
  void compute(const TileLoops::Action& action);

  const TileLoops& f_;
  Vectors& vectors_;
  Load load_, assemble_;
  Store store_;
  std::vector<std::string> tiles_, places_, assembled_;  // values
  std::map<uint32_t, size_t> from_tile_;  // places that tiles are filled from beforehand
};

// Bytes of the widest element in lanes.
size_t widest_item(const TileLoops& f);

}  // namespace adjoint::native
