// Ops that do nothing but copy: concatenation, the transposes of slices. As pieces of a result they
// are loops like any other.
#pragma once
#include "program/program.h"

namespace adjoint {

// Operand `read` goes to the part of the result at `offset`, in bytes, with these strides.
struct Piece {
  int read;
  int64_t offset;
  Dims byte_strides;  // by axis of the operand
};
struct Pieces {
  bool zeros = false;  // elsewhere the result is zero
  std::vector<Piece> pieces;
};

// What a copying op does, if its result is small; nothing for others. `headers` are the tensors of
// the registers.
std::shared_ptr<const Pieces> pieces_of(const Instruction& i, const Tensors& headers);

}  // namespace adjoint
