// Matrix products against a plain triple loop in wide arithmetic: every dtype, layout and shape
// class, garbage in the output, NaN, batches, and the same bits for any number of threads.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kernels/convert.h"
#include "kernels/products/gemm.h"
#include "parallel/pool.h"
#include "check.h"

using namespace adjoint;

namespace {

std::mt19937 generator(7);

constexpr DType kAll[] = {DType::UInt8,   DType::Int8,      DType::Int16,     DType::Int32,
                          DType::Int64,   DType::Float16,   DType::BFloat16,  DType::Float32,
                          DType::Float64, DType::Complex64, DType::Complex128};

// `count` elements: small whole numbers for integers (so that nothing overflows here), normals
// else.
std::vector<char> random_elements(DType dtype, int64_t count) {
  std::vector<char> out(static_cast<size_t>(count) * item_size(dtype) + 1);
  const auto uniform = [] { return static_cast<double>(generator()) * 0x1p-31 - 1; };
  for (int64_t i = 0; i < count; ++i) {
    char* p = out.data() + i * static_cast<int64_t>(item_size(dtype));
    if (is_integral(dtype))
      store_scalar(dtype, p, static_cast<int64_t>(generator() % 3));
    else
      store_scalar(dtype, p, std::complex<double>(uniform(), uniform()));
  }
  return out;
}

Scale element(DType dtype, const void* base, int64_t index) {
  return load_complex(
      dtype, static_cast<const char*>(base) + index * static_cast<int64_t>(item_size(dtype)));
}

double tolerance(DType dtype, int64_t k) {
  const double n = std::sqrt(static_cast<double>(k) + 1);
  switch (dtype) {
    case DType::Float16:
      return 1e-3 * n;
    case DType::BFloat16:
      return 8e-3 * n;
    case DType::Float32:
    case DType::Complex64:
      return 1e-6 * n;
    case DType::Float64:
    case DType::Complex128:
      return 2e-15 * n;
    default:
      return 0;
  }
}

enum class Kind { Rows, Cols, PaddedRows, Steps, Reversed, ExpandedRow, ExpandedCol };
constexpr Kind kKinds[] = {Kind::Rows,     Kind::Cols,        Kind::PaddedRows, Kind::Steps,
                           Kind::Reversed, Kind::ExpandedRow, Kind::ExpandedCol};

struct Stored {
  std::vector<char> bytes;
  Matrix matrix;
};

Stored make(DType dtype, int64_t rows, int64_t cols, Kind kind) {
  Stored s;
  const auto item = static_cast<int64_t>(item_size(dtype));
  s.bytes = random_elements(dtype, (kind == Kind::Steps ? 3 : 1) * (rows + 1) * (cols + 3));
  const char* p = s.bytes.data();
  switch (kind) {
    case Kind::Rows:
      s.matrix = {p, cols, 1};
      break;
    case Kind::Cols:
      s.matrix = {p, 1, rows};
      break;
    case Kind::PaddedRows:
      s.matrix = {p, cols + 3, 1};
      break;
    case Kind::Steps:
      s.matrix = {p, 3 * cols, 3};
      break;
    case Kind::Reversed:
      s.matrix = {p + (rows * cols - 1) * item, -cols, -1};
      break;
    case Kind::ExpandedRow:
      s.matrix = {p, 0, 1};
      break;
    case Kind::ExpandedCol:
      s.matrix = {p, 1, 0};
      break;
  }
  return s;
}

std::vector<Scale> values(DType dtype, const Matrix& matrix, int64_t rows, int64_t cols) {
  std::vector<Scale> out;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      out.push_back(element(dtype, matrix.data, i * matrix.row_stride + j * matrix.col_stride));
  return out;
}

void compare(DType dtype, int64_t m, int64_t n, int64_t k, Kind ka, Kind kb, Scale alpha,
             Scale beta) {
  if (!is_complex(dtype)) alpha = alpha.real(), beta = beta.real();
  const Stored a = make(dtype, m, k, ka), b = make(dtype, k, n, kb);
  const int64_t ldc = n + 2;
  std::vector<char> c = random_elements(dtype, m * ldc);
  if (beta == 0.0 && !is_integral(dtype))
    for (int64_t i = 0; i < m * ldc; ++i)
      store_scalar(dtype, c.data() + i * static_cast<int64_t>(item_size(dtype)), std::nan(""));
  const std::vector<char> before = c;
  gemm(dtype, m, n, k, a.matrix, b.matrix, c.data(), ldc, alpha, beta);
  const auto va = values(dtype, a.matrix, m, k), vb = values(dtype, b.matrix, k, n);
  bool right = true, margin = true;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Scale sum = 0;
      double size = 1;
      for (int64_t p = 0; p < k; ++p) {
        const Scale x = va[static_cast<size_t>(i * k + p)], y = vb[static_cast<size_t>(p * n + j)];
        sum += Scale(x.real() * y.real() - x.imag() * y.imag(),
                     x.real() * y.imag() + x.imag() * y.real());
        size = std::max({size, std::abs(sum.real()), std::abs(sum.imag())});
      }
      Scale want = alpha * sum;
      if (beta != 0.0) want += beta * element(dtype, before.data(), i * ldc + j);
      if (is_integral(dtype)) {  // wraps: compare what is stored
        char stored[16];
        store_scalar(dtype, stored, static_cast<int64_t>(want.real()));
        want = load_complex(dtype, stored);
      }
      size = std::max(size * std::abs(alpha), std::abs(want));
      right &= std::abs(element(dtype, c.data(), i * ldc + j) - want) <=
               tolerance(dtype, k) * (size + 1);
    }
    const size_t row_end = static_cast<size_t>(i * ldc + n) * item_size(dtype);
    margin &= !std::memcmp(c.data() + row_end, before.data() + row_end, 2 * item_size(dtype));
  }
  if (!right || !margin)
    std::fprintf(stderr, "%s %ldx%ldx%ld layouts %d %d alpha %g beta %g\n", name_of(dtype), m, n, k,
                 static_cast<int>(ka), static_cast<int>(kb), alpha.real(), beta.real());
  CHECK(right);
  CHECK(margin);
}

void every_dtype_layout_and_shape() {
  for (DType dtype : kAll)
    for (Kind ka : kKinds)
      for (Kind kb : kKinds)
        for (auto [m, n, k] : {std::tuple{3, 4, 5},
                               {8, 8, 8},
                               {1, 1, 1},
                               {17, 9, 33},
                               {1, 20, 30},
                               {20, 1, 30},
                               {1, 1, 40},
                               {30, 20, 1}}) {
          compare(dtype, m, n, k, ka, kb, 1, 0);
          compare(dtype, m, n, k, ka, kb, Scale(-2, 1), Scale(3, -1));
        }
  for (DType dtype : kAll) compare(dtype, 4, 5, 0, Kind::Rows, Kind::Rows, 1, 0);
  for (DType dtype : kAll) compare(dtype, 4, 5, 0, Kind::Rows, Kind::Rows, 1, 2);
  for (auto [m, n, k] :
       {std::tuple{300, 200, 150}, {70, 1000, 130}, {2000, 1, 400}, {1, 2000, 400}})
    for (DType dtype : {DType::Float32, DType::BFloat16, DType::Int32})
      for (Kind kind : {Kind::Rows, Kind::Cols, Kind::Steps})
        compare(dtype, m, n, k, kind, kind, 1, 0);
}

// A small output over a long k is cut along k.
void long_sums() {
  for (DType dtype :
       {DType::Float32, DType::Float16, DType::Float64, DType::Complex128, DType::Int32})
    for (Kind kind : {Kind::Rows, Kind::Cols, Kind::Reversed})
      for (int64_t k : {8191, 8192, 10'001}) {
        compare(dtype, 5, 7, k, kind, kind, 1, 0);
        compare(dtype, 5, 7, k, kind, kind, Scale(-2, 1), Scale(3, -1));
      }
}

void batches_match_single_products() {
  for (DType dtype : {DType::Float32, DType::Float16, DType::Int64})
    for (auto [batch, m, n, k] : {std::tuple{40, 5, 6, 7}, {100, 32, 32, 32}, {3, 300, 200, 250}}) {
      const int64_t item = static_cast<int64_t>(item_size(dtype));
      const auto a = random_elements(dtype, batch * m * k), b = random_elements(dtype, k * n);
      std::vector<char> c(static_cast<size_t>(batch * m * n * item)),
          one(static_cast<size_t>(m * n * item));
      gemm_batch(dtype, batch, m, n, k, {a.data(), k, 1}, m * k, {b.data(), n, 1}, 0, c.data(),
                 m * n, n);
      bool same = true;
      for (int64_t i = 0; i < batch; ++i) {
        gemm(dtype, m, n, k, {a.data() + i * m * k * item, k, 1}, {b.data(), n, 1}, one.data(), n);
        same &= !std::memcmp(one.data(), c.data() + i * m * n * item, one.size());
      }
      CHECK(same);
    }
}

void threads_do_not_change_a_bit() {
  for (DType dtype : {DType::Float32, DType::Float64, DType::Complex64, DType::BFloat16})
    for (auto [m, n, k] :
         {std::tuple{333, 400, 300}, {64, 2000, 200}, {32, 48, 100'000}, {5000, 1, 700}}) {
      const Stored a = make(dtype, m, k, Kind::Rows), b = make(dtype, k, n, Kind::Cols);
      const size_t bytes = static_cast<size_t>(m * n) * item_size(dtype);
      std::vector<char> first(bytes), c(bytes);
      parallel::set_num_threads(1);
      gemm(dtype, m, n, k, a.matrix, b.matrix, first.data(), n);
      for (int threads : {2, 3, 5}) {
        parallel::set_num_threads(threads);
        gemm(dtype, m, n, k, a.matrix, b.matrix, c.data(), n);
        CHECK(first == c);
      }
    }
  parallel::set_num_threads(2);
}

void dots() {
  for (DType dtype : kAll)
    for (int64_t n : {0, 1, 7, 1000, 200'000})
      for (auto [ix, iy] : {std::pair{1, 1}, {2, 3}, {0, 1}, {-1, 1}}) {
        if (is_half(dtype) && n > 1000) continue;  // overflows its range of exact sums
        const auto x = random_elements(dtype, 2 * n + 1), y = random_elements(dtype, 3 * n + 1);
        const int64_t start = ix < 0 ? n - 1 : 0;
        const char* px = x.data() + (n ? start : 0) * static_cast<int64_t>(item_size(dtype));
        alignas(16) char out[16], again[16];
        dot(dtype, n, px, ix, y.data(), iy, out);
        parallel::set_num_threads(1);
        dot(dtype, n, px, ix, y.data(), iy, again);
        parallel::set_num_threads(2);
        CHECK(!std::memcmp(out, again, item_size(dtype)));
        Scale want = 0;
        for (int64_t i = 0; i < n; ++i)
          want += element(dtype, px, i * ix) * element(dtype, y.data(), i * iy);
        if (is_integral(dtype)) {
          char stored[16];
          store_scalar(dtype, stored, static_cast<int64_t>(want.real()));
          want = load_complex(dtype, stored);
        }
        CHECK(std::abs(element(dtype, out, 0) - want) <=
              tolerance(dtype, n) * (8 + std::abs(want)));
      }
}

void nan_and_infinity_propagate() {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  for (int64_t size : {2, 8, 30, 300}) {
    std::vector<float> a(static_cast<size_t>(size * size), 0.f), b(a.size(), 0.f), c(a.size());
    a[1] = inf;  // inf * 0 is NaN, in all of row 0
    b[0] = nan;  // 0 * NaN is NaN, in all of column 0
    gemm(DType::Float32, size, size, size, {a.data(), size, 1}, {b.data(), size, 1}, c.data(),
         size);
    bool right = true;
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        right &= std::isnan(c[static_cast<size_t>(i * size + j)]) == (i == 0 || j == 0);
    CHECK(right);
    std::vector<float> y(static_cast<size_t>(size), nan);
    gemv(DType::Float32, size, size, {a.data(), size, 1}, b.data(), size, y.data(), 1);
    for (float v : y) CHECK(std::isnan(v));
  }
}

void misuse_is_refused() {
  float x = 0;
  for (auto [dtype, m] : {std::pair{DType::Bool, int64_t{1}}, {DType::Float32, int64_t{1} << 31}}) {
    bool refused = false;
    try {
      gemm(dtype, m, 1, 1, {&x, 0, 0}, {&x, 1, 1}, &x, 1);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  parallel::set_num_threads(2);
  every_dtype_layout_and_shape();
  long_sums();
  batches_match_single_products();
  threads_do_not_change_a_bit();
  dots();
  nan_and_infinity_propagate();
  misuse_is_refused();
  return report("gemm");
}
