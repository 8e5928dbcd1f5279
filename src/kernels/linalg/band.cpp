// Banded matrices: systems, products, and products of two matrices inside a band. See linalg.h.
//
// A matrix with `lower` diagonals below and `upper` above the main one lies as SciPy and LAPACK
// have it: row upper + i - j, column j holds the element (i, j). Right sides lie row by row, so that
// the loops over several of them run along memory.
#include <cmath>
#include <complex>

#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

template <class T>
T conj_of(T x) {
  if constexpr (lapack::kComplex<T>)
    return std::conj(x);
  else
    return x;
}

template <class T>
const T* at(const ConstPlace& p, int64_t k) {
  return static_cast<const T*>(p.data) + k * p.step;
}

// --- three diagonals -----------------------------------------------------------------------------
// The system with op(a), whose elements in row i are before[i], middle[i] and after[i].
template <class T>
struct Rows {
  int64_t n;
  const T *before, *middle, *after;
};

// Where the diagonals of ab lie, or copies of them; op is the adjoint or nothing.
template <class T>
Rows<T> rows_of(const T* ab, int64_t row, int64_t col, int64_t n, bool adjoint, T* memory) {
  // In ab the element (i, i + 1) stands in column i + 1, and (i, i - 1) in column i - 1.
  const T *above = ab + col, *below = ab + 2 * row - col;
  const T *before = adjoint ? ab : below, *after = adjoint ? ab + 2 * row : above;
  if (col == 1 && !(adjoint && lapack::kComplex<T>)) return {n, before, ab + row, after};
  const T* from[3] = {before, ab + row, after};
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t first = k == 0, end = k == 2 ? n - 1 : n;
    for (int64_t i = first; i < end; ++i) {
      const T value = from[k][i * col];
      memory[k * n + i] = adjoint ? conj_of(value) : value;
    }
  }
  return {n, memory, memory + n, memory + 2 * n};
}

// Whether each row, or each column, is dominated by its diagonal: then no rows need be exchanged.
template <class T>
bool is_dominant(const Rows<T>& a) {
  using std::abs;
  const int64_t n = a.n;
  if (n == 1) return true;
  // Counted without branches; what compares with NaN is not counted.
  int64_t rows = abs(a.middle[0]) >= abs(a.after[0]);
  int64_t columns = abs(a.middle[0]) >= abs(a.before[1]);
  rows += abs(a.middle[n - 1]) >= abs(a.before[n - 1]);
  columns += abs(a.middle[n - 1]) >= abs(a.after[n - 2]);
  for (int64_t i = 1; i < n - 1; ++i)
    rows += abs(a.middle[i]) >= abs(a.before[i]) + abs(a.after[i]);
  if (rows == n) return true;
  for (int64_t i = 1; i < n - 1; ++i)
    columns += abs(a.middle[i]) >= abs(a.after[i - 1]) + abs(a.before[i + 1]);
  return columns == n;
}

// One end of an elimination: what the next row needs of the last one. The right side's row of the
// last step is in a register where there is one column, else in memory.
template <class T, bool One>
struct End {
  T *x, *ratios;
  int64_t columns;
  T ratio{}, value{};
  bool good = true;

  // `from` couples row i to the last one, `towards` to the next.
  [[gnu::always_inline]] inline void step(int64_t i, int64_t last, T from, T middle, T towards) {
    const T pivot = middle - from * ratio, inverse = T(1) / pivot;
    good &= pivot != T(0);
    ratios[i] = ratio = towards * inverse;
    if constexpr (One) {
      x[i] = value = (x[i] - from * value) * inverse;
    } else {
      for (int64_t c = 0; c < columns; ++c)
        x[i * columns + c] = (x[i * columns + c] - from * x[last * columns + c]) * inverse;
    }
  }
  [[gnu::always_inline]] inline void back(int64_t i, int64_t last) {
    if constexpr (One) {
      x[i] = value = x[i] - ratios[i] * value;
    } else {
      for (int64_t c = 0; c < columns; ++c) x[i * columns + c] -= ratios[i] * x[last * columns + c];
    }
  }
};

// Elimination from both ends at once, which meet in the middle: two chains of divisions that wait
// for one another half as long. x holds b at first. Returns whether no pivot was zero.
template <class T, bool One>
bool eliminate(const Rows<T>& a, int64_t columns, T* x, T* ratios) {
  const int64_t n = a.n, middle = n / 2, below = n - 1 - middle;  // as many above, or one more
  End<T, One> top{x, ratios, columns}, bottom{x, ratios, columns};
  if (middle > 0) top.step(0, 0, T(0), a.middle[0], a.after[0]);
  if (below > 0) bottom.step(n - 1, n - 1, T(0), a.middle[n - 1], a.before[n - 1]);
  for (int64_t s = 1; s < below; ++s) {
    top.step(s, s - 1, a.before[s], a.middle[s], a.after[s]);
    const int64_t i = n - 1 - s;
    bottom.step(i, i + 1, a.after[i], a.middle[i], a.before[i]);
  }
  for (int64_t s = std::max<int64_t>(below, 1); s < middle; ++s)
    top.step(s, s - 1, a.before[s], a.middle[s], a.after[s]);
  T pivot = a.middle[middle];
  T* row = x + middle * columns;
  if (middle > 0) {
    pivot -= a.before[middle] * top.ratio;
    for (int64_t c = 0; c < columns; ++c) row[c] -= a.before[middle] * row[c - columns];
  }
  if (below > 0) {
    pivot -= a.after[middle] * bottom.ratio;
    for (int64_t c = 0; c < columns; ++c) row[c] -= a.after[middle] * row[c + columns];
  }
  for (int64_t c = 0; c < columns; ++c) row[c] /= pivot;
  if constexpr (One) top.value = bottom.value = row[0];
  for (int64_t s = 1; s <= below; ++s) {
    top.back(middle - s, middle - s + 1);
    bottom.back(middle + s, middle + s - 1);
  }
  if (middle > below) top.back(0, 1);
  return top.good && bottom.good && pivot != T(0);
}

// --- any band, with exchanges of rows ------------------------------------------------------------
// Factors as LAPACK's gbtrf has them: column j, of 2 lower + upper + 1 elements, holds u above and
// at place lower + upper, and the multipliers of l below it.
struct Band {
  int64_t n, lower, upper;
  int64_t diagonal() const { return lower + upper; }
  int64_t height() const { return 2 * lower + upper + 1; }
};

template <class T>
void spread(const Band& s, const T* ab, int64_t row, int64_t col, T* f) {
  std::fill_n(f, s.n * s.height(), T(0));
  for (int64_t j = 0; j < s.n; ++j) {
    const int64_t first = std::max<int64_t>(0, j - s.upper), end = std::min(s.n, j + s.lower + 1);
    for (int64_t i = first; i < end; ++i)
      f[j * s.height() + s.diagonal() + i - j] = ab[(s.upper + i - j) * row + j * col];
  }
}

template <class T>
int factor_narrow(const Band& s, T* f, int* pivots) {
  using std::abs;
  const int64_t ld = s.height(), mid = s.diagonal();
  int info = 0;
  int64_t reach = 0;  // the last column that an exchange has filled so far
  for (int64_t j = 0; j < s.n; ++j) {
    T* column = f + j * ld + mid;
    const int64_t count = std::min(s.lower, s.n - 1 - j);
    int64_t best = 0;
    // A triangle needs no exchanges: it is solved as it stands.
    for (int64_t i = 1; i <= count && s.upper > 0; ++i)
      if (abs(column[i]) > abs(column[best])) best = i;
    pivots[j] = static_cast<int>(j + best + 1);
    if (column[best] == T(0)) {
      if (!info) info = static_cast<int>(j + 1);
      continue;
    }
    reach = std::max(reach, std::min(j + s.upper + best, s.n - 1));
    if (best)
      for (int64_t c = j; c <= reach; ++c)
        std::swap(f[c * ld + mid + j - c], f[c * ld + mid + j + best - c]);
    const T inverse = T(1) / column[0];
    for (int64_t i = 1; i <= count; ++i) column[i] *= inverse;
    for (int64_t c = j + 1; c <= reach; ++c) {
      T* other = f + c * ld + mid + j - c;
      const T factor = other[0];
      for (int64_t i = 1; i <= count; ++i) other[i] -= factor * column[i];
    }
  }
  return info;
}

template <class T>
int factor(const Band& s, T* f, int* pivots) {
  constexpr int64_t kNarrow = 24;  // beyond, LAPACK's blocks win
  if (s.n == 0) return 0;
  if (s.lower <= kNarrow || s.upper == 0) return factor_narrow(s, f, pivots);
  const int n = size(s.n);
  return lapack::gbtrf(n, n, size(s.lower), size(s.upper), f, size(s.height()), pivots);
}

template <class T>
void exchange(T* x, int64_t columns, int64_t i, int64_t j) {
  if (i != j) std::swap_ranges(x + i * columns, x + (i + 1) * columns, x + j * columns);
}

template <class T>
void subtract(T* to, T factor, const T* from, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) to[c] -= factor * from[c];
}

template <class T>
void solve_forward(const Band& s, const T* f, const int* pivots, int64_t columns, T* x) {
  const int64_t ld = s.height(), mid = s.diagonal();
  for (int64_t j = 0; j < s.n; ++j) {
    exchange(x, columns, j, int64_t{pivots[j]} - 1);
    const T* column = f + j * ld + mid;
    for (int64_t i = 1; i <= std::min(s.lower, s.n - 1 - j); ++i)
      subtract(x + (j + i) * columns, column[i], x + j * columns, columns);
  }
  for (int64_t j = s.n - 1; j >= 0; --j) {
    const T* column = f + j * ld + mid;
    const T inverse = T(1) / column[0];
    for (int64_t c = 0; c < columns; ++c) x[j * columns + c] *= inverse;
    for (int64_t i = std::max<int64_t>(0, j - mid); i < j; ++i)
      subtract(x + i * columns, column[i - j], x + j * columns, columns);
  }
}

template <class T>
void solve_adjoint(const Band& s, const T* f, const int* pivots, int64_t columns, T* x) {
  const int64_t ld = s.height(), mid = s.diagonal();
  for (int64_t j = 0; j < s.n; ++j) {
    const T* column = f + j * ld + mid;
    for (int64_t i = std::max<int64_t>(0, j - mid); i < j; ++i)
      subtract(x + j * columns, conj_of(column[i - j]), x + i * columns, columns);
    const T inverse = T(1) / conj_of(column[0]);
    for (int64_t c = 0; c < columns; ++c) x[j * columns + c] *= inverse;
  }
  for (int64_t j = s.n - 1; j >= 0; --j) {
    const T* column = f + j * ld + mid;
    for (int64_t i = 1; i <= std::min(s.lower, s.n - 1 - j); ++i)
      subtract(x + j * columns, conj_of(column[i]), x + (j + i) * columns, columns);
    exchange(x, columns, j, int64_t{pivots[j]} - 1);
  }
}

template <class T>
void copy_rows(const ConstPlace& from, int64_t k, int64_t n, int64_t columns, T* to) {
  const T* data = at<T>(from, k);
  if (columns == 1 && from.row == 1) {
    std::copy_n(data, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) to[i * columns + c] = data[i * from.row + c * from.col];
}

}  // namespace

void tridiagonal_solve(DType dtype, int64_t count, int64_t n, int64_t columns, bool adjoint,
                       ConstPlace ab, ConstPlace b, void* x, int* info) {
  with_element(dtype, [&]<class T>(T) {
    share(count, 10.0 * double(n) * double(columns + 1), [&](int64_t begin, int64_t end) {
      const Band band{n, 1, 1};
      Piece<T> ratios(n), copies(3 * n), factors(n * band.height());
      Piece<int> pivots(n);
      if (!allocate(ratios, copies, factors, pivots)) return false;
      for (int64_t k = begin; k < end; ++k) {
        T* to = static_cast<T*>(x) + k * n * columns;
        copy_rows(b, k, n, columns, to);
        info[k] = 0;
        if (n == 0) continue;
        const Rows<T> rows = rows_of(at<T>(ab, k), ab.row, ab.col, n, adjoint, copies.data);
        if (is_dominant(rows)) {
          info[k] = columns == 1 ? !eliminate<T, true>(rows, columns, to, ratios.data)
                                 : !eliminate<T, false>(rows, columns, to, ratios.data);
          continue;
        }
        spread(band, at<T>(ab, k), ab.row, ab.col, factors.data);
        info[k] = factor(band, factors.data, pivots.data);
        if (info[k]) continue;
        if (adjoint)
          solve_adjoint(band, factors.data, pivots.data, columns, to);
        else
          solve_forward(band, factors.data, pivots.data, columns, to);
      }
      return true;
    });
  });
}

void band_factor(DType dtype, int64_t count, int64_t n, int64_t lower, int64_t upper, ConstPlace ab,
                 void* factors, int* pivots, int* info) {
  const Band band{n, lower, upper};
  with_element(dtype, [&]<class T>(T) {
    share(count, double(n) * double(lower + 1) * double(upper + 1),
          [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
              T* f = static_cast<T*>(factors) + k * n * band.height();
              spread(band, at<T>(ab, k), ab.row, ab.col, f);
              info[k] = factor(band, f, pivots + k * n);
            }
            return true;
          });
  });
}

void band_solve(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                int64_t upper, bool adjoint, const void* factors, int64_t factor_step,
                const int* pivots, int64_t pivot_step, ConstPlace b, void* x) {
  const Band band{n, lower, upper};
  with_element(dtype, [&]<class T>(T) {
    share(count, 2.0 * double(n) * double(band.height()) * double(columns),
          [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
              T* to = static_cast<T*>(x) + k * n * columns;
              const T* f = static_cast<const T*>(factors) + k * factor_step;
              const int* p = pivots + k * pivot_step;
              copy_rows(b, k, n, columns, to);
              if (adjoint)
                solve_adjoint(band, f, p, columns, to);
              else
                solve_forward(band, f, p, columns, to);
            }
            return true;
          });
  });
}

void band_product(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                  int64_t upper, bool adjoint, ConstPlace ab, ConstPlace x, void* y) {
  with_element(dtype, [&]<class T>(T) {
    share(count, double(n) * double(lower + upper + 1) * double(columns),
          [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
              const T *a = at<T>(ab, k), *from = at<T>(x, k);
              T* to = static_cast<T*>(y) + k * n * columns;
              std::fill_n(to, n * columns, T(0));
              for (int64_t d = -upper; d <= lower; ++d) {  // i = j + d
                const int64_t first = std::max<int64_t>(0, -d), end_j = std::min(n, n - d);
                for (int64_t j = first; j < end_j; ++j) {
                  const T value = a[(upper + d) * ab.row + j * ab.col];
                  const int64_t into = adjoint ? j : j + d, of = adjoint ? j + d : j;
                  const T factor = adjoint ? conj_of(value) : value;
                  for (int64_t c = 0; c < columns; ++c)
                    to[into * columns + c] += factor * from[of * x.row + c * x.col];
                }
              }
            }
            return true;
          });
  });
}

void band_outer(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                int64_t upper, ConstPlace p, ConstPlace q, void* ab) {
  with_element(dtype, [&]<class T>(T) {
    share(count, double(n) * double(lower + upper + 1) * double(columns),
          [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
              const T *left = at<T>(p, k), *right = at<T>(q, k);
              T* to = static_cast<T*>(ab) + k * n * (lower + upper + 1);
              for (int64_t d = -upper; d <= lower; ++d) {
                T* row = to + (upper + d) * n;
                const int64_t first = std::min(n, std::max<int64_t>(0, -d));
                const int64_t end_j = std::max(first, std::min(n, n - d));
                std::fill_n(row, first, T(0));
                std::fill_n(row + end_j, n - end_j, T(0));
                if (columns == 1 && p.row == 1 && q.row == 1) {
                  for (int64_t j = first; j < end_j; ++j) row[j] = left[j + d] * conj_of(right[j]);
                  continue;
                }
                for (int64_t j = first; j < end_j; ++j) {
                  T sum(0);
                  for (int64_t c = 0; c < columns; ++c)
                    sum +=
                        left[(j + d) * p.row + c * p.col] * conj_of(right[j * q.row + c * q.col]);
                  row[j] = sum;
                }
              }
            }
            return true;
          });
  });
}

}  // namespace adjoint::linalg
