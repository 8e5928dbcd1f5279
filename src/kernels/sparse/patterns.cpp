// Read patterns.h first.
#include "kernels/sparse/patterns.h"

#include <algorithm>

#include <utility>

namespace adjoint::sparse {

void flat_positions(const int64_t* indices, int64_t n, const int64_t* shape, int axes,
                    int64_t* positions) {
  std::fill_n(positions, n, 0);
  for (int d = 0; d < axes; ++d) {
    const int64_t* at = indices + d * n;
    for (int64_t k = 0; k < n; ++k) positions[k] = positions[k] * shape[d] + at[k];
  }
}

bool ascending(const int64_t* positions, int64_t n) {
  for (int64_t k = 1; k < n; ++k) {
    if (positions[k - 1] >= positions[k]) return false;
  }
  return true;
}

void row_starts(const int64_t* row, int64_t n, int64_t rows, int64_t* start) {
  int64_t k = 0;
  for (int64_t i = 0; i <= rows; ++i) {
    while (k < n && row[k] < i) ++k;
    start[i] = k;
  }
}

void row_numbers(const int64_t* start, int64_t rows, int64_t* row) {
  for (int64_t i = 0; i < rows; ++i) std::fill(row + start[i], row + start[i + 1], i);
}

void by_columns(const Pattern& p, int64_t* start, int64_t* row, int64_t* from) {
  std::fill_n(start, p.columns + 1, 0);
  for (int64_t k = 0; k < p.entries(); ++k) ++start[p.column[k] + 1];
  for (int64_t j = 0; j < p.columns; ++j) start[j + 1] += start[j];
  std::vector<int64_t> next(start, start + p.columns);
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t k = p.start[i]; k < p.start[i + 1]; ++k) {
      const int64_t to = next[p.column[k]]++;
      row[to] = i;
      from[to] = k;
    }
  }
}

void number_distinct(const int64_t* positions, const int64_t* order, int64_t n, int64_t* place,
                     std::vector<int64_t>& first) {
  for (int64_t k = 0; k < n; ++k) {
    if (k == 0 || positions[order[k]] != positions[order[k - 1]]) first.push_back(order[k]);
    place[order[k]] = static_cast<int64_t>(first.size()) - 1;
  }
}

void product_pattern(const Pattern& a, const Pattern& b, std::vector<int64_t>& start,
                     std::vector<int64_t>& column) {
  std::vector<int64_t> seen(b.columns, -1);
  start.assign(1, 0);
  for (int64_t i = 0; i < a.rows; ++i) {
    const size_t begin = column.size();
    for (int64_t k = a.start[i]; k < a.start[i + 1]; ++k) {
      const int64_t j = a.column[k];
      for (int64_t l = b.start[j]; l < b.start[j + 1]; ++l) {
        if (seen[b.column[l]] == i) continue;
        seen[b.column[l]] = i;
        column.push_back(b.column[l]);
      }
    }
    std::sort(column.begin() + static_cast<std::ptrdiff_t>(begin), column.end());
    start.push_back(static_cast<int64_t>(column.size()));
  }
}

namespace {

template <class T>
void values_of(const Pattern& a, const T* a_values, const Pattern& b, const T* b_values,
               const Pattern& out, T* values) {
  std::vector<T> sum(b.columns, T{});
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = a.start[i]; k < a.start[i + 1]; ++k) {
      const int64_t j = a.column[k];
      for (int64_t l = b.start[j]; l < b.start[j + 1]; ++l)
        sum[b.column[l]] += a_values[k] * b_values[l];
    }
    for (int64_t k = out.start[i]; k < out.start[i + 1]; ++k)
      values[k] = std::exchange(sum[out.column[k]], T{});
  }
}

}  // namespace

void product_values(DType dtype, const Pattern& a, const char* a_values, const Pattern& b,
                    const char* b_values, const Pattern& out, char* values) {
  auto run = [&](auto number) {
    using T = decltype(number);
    values_of(a, reinterpret_cast<const T*>(a_values), b, reinterpret_cast<const T*>(b_values), out,
              reinterpret_cast<T*>(values));
  };
  if (dtype == DType::Float32) return run(float{});
  if (dtype == DType::Float64) return run(double{});
  if (dtype == DType::Complex64) return run(complex64_t{});
  if (dtype == DType::Complex128) return run(complex128_t{});
  return run(uint64_t{});
}

}  // namespace adjoint::sparse
