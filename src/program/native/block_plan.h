// Machine code for blocks: which functions take the place of which of a block's loops. A function does a
// part, or several neighbours (nest.h). Read program/fuse/block.h and native.h first.
#pragma once
#include "program/fuse/block.h"
#include "program/native/native.h"

namespace adjoint::native {

// A part of a block as it stands there: its loops, and their pointers; then the pointers that a
// function of its own takes, which are memory by place.
struct BlockPart {
  std::shared_ptr<TileLoops> tiles;  // null for a call:
  Loop loop = nullptr;
  const void* what = nullptr;
  int from = -1, to = -1;  // registers, the first that it reads
  int64_t offset = 0;      // there, in bytes
  size_t number = 0;       // among the parts
  size_t first_loop = 0, last_loop = 0, first = 0, last = 0, places = 0;
  std::vector<size_t> last_use;  // by place, or of `to`: the last part that has to do with it
};

class BlockPlan {
 public:
  bool empty() const { return parts_.empty(); }
  // `patches` of the pointers by place.
  void add(BlockPart part, const std::vector<Patch>& patches);

  void ask(Module& m, const std::vector<char*>& pointers, const std::vector<Patch>& patches);
  // Functions take the place of loops; how many parts they do.
  size_t take(const Module& m, std::vector<BoundLoop>& loops, std::vector<char*>& pointers,
              std::vector<Patch>& patches) const;

 private:
  // Parts [first, last) that have a function, or one that has none.
  struct Chosen {
    size_t first, last;
    int function;
  };
  int alone(const BlockPart& part, Module& m) const;
  Chosen nested(size_t first, Module& m, const std::vector<char*>& pointers,
                const std::vector<bool>& is_set_anew) const;

  std::vector<BlockPart> parts_;
  std::vector<Patch> patches_;
  std::vector<Chosen> chosen_;
};

}  // namespace adjoint::native
