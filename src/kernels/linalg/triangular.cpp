// Triangular systems of batches. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

// A triangle as BLAS takes it: where it lies if one of its strides is 1, else a copy.
template <class T>
struct BlasTriangle {
  const T* data;
  int ld;
  bool transposed;
};

template <class T>
bool as_it_lies(int64_t n, const ConstPlace& a, BlasTriangle<T>& out) {
  auto fits = [&](int64_t ld) { return ld >= n && ld >= 1 && ld <= INT_MAX; };
  const T* data = static_cast<const T*>(a.data);
  if (a.row == 1 && fits(a.col)) return out = {data, static_cast<int>(a.col), false}, true;
  if (a.col == 1 && fits(a.row)) return out = {data, static_cast<int>(a.row), true}, true;
  return false;
}

}  // namespace

void solve_triangular(DType dtype, int64_t count, int64_t m, int64_t n, Triangle how, ConstPlace a,
                      ConstPlace b, void* x) {
  if (m == 0 || n == 0) return;
  const int64_t order = how.left ? m : n;
  const double work = double(m) * double(n) * double(order);
  if (is_small(dtype, order)) {
    const Place to{x, 1, m, m * n};
    const int columns = size(how.left ? n : m);
    share(count, work, [&](int64_t begin, int64_t end) {
      const auto& loops = small::loops(dtype);
      if (how.left)
        loops.triangular(static_cast<int>(order), columns, a, b, to, how.upper, how.unit, begin,
                         end);
      else
        loops.triangular(static_cast<int>(order), columns, a.transposed(), b.transposed(),
                         to.transposed(), !how.upper, how.unit, begin, end);
      return true;
    });
    return;
  }
  gather(dtype, count, m, n, b, x);
  with_element(dtype, [&]<class T>(T) {
    const int rows = size(m), cols = size(n);
    BlasTriangle<T> t{};
    const bool direct = as_it_lies(order, a, t);
    share(count, work, [&](int64_t begin, int64_t end) {
      Piece<T> memory(order * order);
      if (!direct && !allocate(memory)) return false;
      T* copy = memory.data;
      for (int64_t k = begin; k < end; ++k) {
        BlasTriangle<T> one{t.data + k * a.step, t.ld, t.transposed};
        if (!direct) {
          const T* from = static_cast<const T*>(a.data) + k * a.step;
          for (int64_t j = 0; j < order; ++j)
            for (int64_t i = 0; i < order; ++i) copy[j * order + i] = from[i * a.row + j * a.col];
          one = {copy, size(order), false};
        }
        lapack::trsm(how.left, how.upper != one.transposed, one.transposed ? 'T' : 'N', how.unit,
                     rows, cols, one.data, one.ld, static_cast<T*>(x) + k * m * n, leading(m));
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
