// Ops that do nothing but copy: concatenation, rolling, padding, the transposes of slices. As pieces
// of a result they are loops like any other, and loops can read the pieces instead of the result
// (program/fuse/boxes.h).
#pragma once
#include "program/program.h"

namespace adjoint {

// A box of operand `read` goes to the part of the result at `offset`, in bytes, with these strides.
struct Piece {
  int read;
  int64_t offset;
  Dims byte_strides;  // by axis of the operand
  Dims from, size;    // the box
};
struct Pieces {
  bool zeros = false;  // elsewhere the result is zero
  std::vector<Piece> pieces;
};

// What a copying op does; nothing for others. `headers` are the tensors of the registers.
std::shared_ptr<const Pieces> pieces_of(const Instruction& i, const Tensors& headers);

}  // namespace adjoint
