// Least squares of batches. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

template <class T>
struct Problem {
  using R = lapack::Real<T>;
  Driver driver;
  int m, n, columns;
  R rcond;

  int call(T* a, T* b, int* rank, R* s, T* work, int lwork, R* rwork, int* iwork) const {
    const int ldb = std::max(std::max(m, n), 1), lda = std::max(m, 1);
    switch (driver) {
      case Driver::Gels:
        return lapack::gels('N', m, n, columns, a, lda, b, ldb, work, lwork);
      case Driver::Gelsy:
        return lapack::gelsy(m, n, columns, a, lda, b, ldb, iwork, rcond, rank, work, lwork, rwork);
      case Driver::Gelsd:
        return lapack::gelsd(m, n, columns, a, lda, b, ldb, s, rcond, rank, work, lwork, rwork,
                             iwork);
      default:
        return lapack::gelss(m, n, columns, a, lda, b, ldb, s, rcond, rank, work, lwork, rwork);
    }
  }
};

template <class T>
bool all_finite(const T* a, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(a[i] - a[i] == T(0))) return false;
  }
  return true;
}

}  // namespace

void least_squares(DType dtype, Driver driver, int64_t count, int64_t m, int64_t n, int64_t columns,
                   double rcond, void* a, void* b, int* rank, void* s, int* info) {
  const int64_t k = std::min(m, n), height = std::max(m, n);
  with_element(dtype, [&]<class T>(T) {
    using R = lapack::Real<T>;
    const Problem<T> p{driver, size(m), size(n), size(columns), static_cast<R>(rcond)};
    T answer{};
    R real_answer{}, value{};
    int int_answer = 0, none = 0;
    p.call(static_cast<T*>(a), static_cast<T*>(b), &none, &value, &answer, -1, &real_answer,
           &int_answer);
    const int lwork = std::max(asked(answer), 1);
    // gelsd says how much it wants of these; the others want less than the rest.
    const int64_t reals = std::max<int64_t>(asked(real_answer), 5 * k + 2 * n);
    const int64_t ints = std::max<int64_t>(int_answer, n);
    // Iterations on what is not finite need not end.
    const bool by_values = driver == Driver::Gelsd || driver == Driver::Gelss;
    share(count, 4 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      Piece<T> work(lwork);
      Piece<R> rwork(reals), values(k);
      Piece<int> iwork(ints);
      if (!allocate(work, rwork, values, iwork)) return false;
      for (int64_t i = begin; i < end; ++i) {
        if (driver == Driver::Gelsy) std::fill(iwork.data, iwork.data + n, 0);
        int found = 0;
        if (by_values && !all_finite(static_cast<T*>(a) + i * m * n, m * n)) {
          info[i] = 1;
          continue;
        }
        R* to = s ? static_cast<R*>(s) + i * k : values.data;
        info[i] = p.call(static_cast<T*>(a) + i * m * n, static_cast<T*>(b) + i * height * columns,
                         &found, to, work.data, lwork, rwork.data, iwork.data);
        if (rank) rank[i] = found;
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
