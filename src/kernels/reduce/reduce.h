// Reductions: many elements to one, by a sum, a product, a maximum ...
//
//   Problem      which elements go to which result: kept axes, reduced axes, in bytes
//   plan_axes    makes the axes of a Problem from a shape and a set of axes to reduce
//   run          carries it out, on all threads
//
// Floats are summed in 64 lanes over blocks of 4096 elements, blocks pairwise: the rounding error
// grows with the logarithm of the length. Which elements are added in which order depends on the
// problem only, neither on the threads nor on the instruction set.
// Read next: reduce.cpp, kernels/isa/reduce_rows.cpp for the loops.
#pragma once
#include "kernels/kernel.h"
#include "tensor/dims.h"

namespace adjoint::reduce {

enum Kind : uint8_t {
  Sum,
  Prod,
  Max,  // NaN wins
  Min,
  SumAbs,
  SumSquare,
  SumCentred,        // of x - centre
  SumCentredSquare,  // of its square
  NanSum,            // NaN counts as zero
};
inline constexpr int kKinds = 9;

// Rows of fewer elements are reduced from the left, one element after the other.
inline constexpr int64_t kShortRow = 12;

// Reduces n contiguous elements.
using Row = void (*)(const void* x, int64_t n, void* result, const void* centre);
// acc[j] = acc[j] op x[r][j], for all rows; rows are `stride` elements apart.
using Columns = void (*)(const void* x, int64_t stride, int64_t rows, int64_t columns, void* acc,
                         const void* centre);
// n times the value that changes nothing.
using Identity = void (*)(void* acc, int64_t n);

struct Loop3 {
  Row row = nullptr;
  Columns columns = nullptr;
  Identity identity = nullptr;
};
// Null where there is no loop: Int64, floats and complex have all sums and products, real dtypes
// have Max and Min. Other dtypes are converted on the way.
const Loop3& loops(Kind kind, DType dtype);

// The axes of a reduction; sizes of one are left out and neighbours joined. Results lie linearly in
// the order of the kept axes.
struct Axes {
  int count = 0;
  int64_t size[kMaxDims];
  int64_t stride[kMaxDims];  // of the input, in bytes
  int64_t total() const {
    int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= size[i];
    return n;
  }
};

struct Problem {
  Kind kind = Sum;
  const char* data = nullptr;
  DType dtype = DType::Float32;        // of the memory
  DType accumulator = DType::Float32;  // what the loops compute in
  Axes kept, reduced;
  char* out = nullptr;
  DType out_dtype = DType::Float32;
  double divisor = 0;            // means divide before the result is rounded to out_dtype
  const char* centre = nullptr;  // one accumulator value per result
};

// Splits the axes of a tensor by a bit mask. `order` receives the kept axes, outermost first, in
// the order in which the results lie; `ordered` says whether that is their natural order.
void plan_axes(Span shape, Span strides, size_t item, uint64_t mask, Problem* p, int* order,
               bool* ordered);
void run(const Problem& p);

// A sum of everything in contiguous memory can be taken while that memory is made, kBlock elements at a time, with the
// result of `run` to the last bit: `sum_block` gives the sum of one block (the last may be shorter), `join_blocks` the
// result from those of all blocks, in order, and writes it to p.out. Only if `sums_by_blocks`.
inline constexpr int64_t kBlock = 4096;
bool sums_by_blocks(const Problem& p);
void sum_block(DType d, const char* x, int64_t n, char* sum);
void join_blocks(const Problem& p, const char* sums);

}  // namespace adjoint::reduce
