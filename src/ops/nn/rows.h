// Ops that work along one axis, a contiguous row at a time: what their forwards share. The loops
// are in kernels/isa/rows.cpp and kernels/isa/columns.cpp.
#pragma once
#include "dispatch/op.h"
#include "parallel/pool.h"
#include "python/gil.h"

namespace adjoint {

// A row loop for float32 or float64, by name.
Loop row_loop(const char* name, DType dtype);

// The tensor with axis `dim` last and the others as they were: a header without history.
Tensor with_axis_last(const Tensor& t, int dim);
// The elements as contiguous rows of `dtype` along axis `dim`: the tensor itself where it is that.
Tensor as_rows(const Tensor& t, int dim, DType dtype);

// f(row) for every row, on all threads; how rows are shared out depends on the sizes only.
template <class F>
void each_row(int64_t rows, int64_t length, F&& f) {
  constexpr int64_t kGrain = 16384;  // elements worth handing to a thread
  WithoutGil release(rows * length >= kReleaseGil);
  parallel::parallel_ranges(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r) f(r);
                            });
}

// One row of the result from one row of each input, all of one shape, along axis `dim`: with the
// first loop where that axis is last, with the second where the rows lie side by side as columns.
Tensor map_rows(const char* loop, const char* by_columns, const Tensor* inputs, int count,
                int64_t dim, DType result);

// PyTorch's refusal of a dtype that has no loop.
[[noreturn]] void no_loop(const char* name, DType dtype);
// A float32 or float64 that the arithmetic is carried out in; refuses integers and complex.
DType row_dtype(const char* name, DType dtype);

}  // namespace adjoint
