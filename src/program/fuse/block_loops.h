// What a block runs besides kernels (block.h): tiles that are gathered, put together or filled, and parts
// whose tiles find their pointers when they run. The first argument of each loop says what to do.
#pragma once
#include "program/fuse/tiles.h"

namespace adjoint {

struct Moving {
  std::shared_ptr<TileLoops> tiles;
  uint32_t place;
  int64_t start;  // the first position of the tile
};
void move_loop(char* const* p, int64_t n);    // Moving, tile, memory
void repeat_loop(char* const* p, int64_t n);  // the same

struct Assembling {
  std::shared_ptr<TileLoops> tiles;
  uint32_t assembly;
  int64_t start;                    // the first position of the tile
  std::vector<int> places;          // those of its boxes,
  mutable std::vector<char*> data;  // and memory by place
};
void assemble_loop(char* const* p, int64_t n);  // Assembling, tile, memory of its boxes

struct Tiling {
  std::shared_ptr<TileLoops> tiles;
  std::vector<char> numbers;
};
void tiles_loop(char* const* p, int64_t n);  // Tiling, memory by place

// One element of an operand from outside as often as loops read it: filled in again when it has changed,
// which numbers that a loop's steps share do not.
struct Filled {
  int read;        // of the instruction
  int64_t offset;  // in bytes
  DType from, to;
  int64_t count = 0;
  char* memory = nullptr;
  bool there = false;
  alignas(16) char last[16] = {};

  bool is_of(int r, const TileLoops::Place& p) const {
    return read == r && offset == p.offset && from == p.dtype && to == p.wanted;
  }
  void refresh(const char* element);
};

}  // namespace adjoint
