// Exponentials and powers of matrices. Read matrices.h first.
//
// Note [Exponentials]
// exp(a) = exp(a / 2^s)^(2^s), with Pade's approximation of degree q for the inner one. Up to which norm
// a degree is exact in float64: Higham, The scaling and squaring method for the matrix exponential
// revisited, SIAM J. Matrix Anal. Appl. 26 (2005). The degree is chosen for the largest matrix of a
// batch, s for each.
//
// Note [Balanced exponentials]
// Squaring loses the digits of what is small beside the norm. exp(a) = d exp(d^-1 a d) d^-1 for any
// diagonal d, and with powers of two no digit is lost on the way: amounts in units of 1e-6 and 1e6
// have rates of 1e12 and 1e-12 between them, and of one in units of their own. Rows and columns get
// the same size in turn, as Parlett and Reinsch, Balancing a matrix for calculation of eigenvalues
// and eigenvectors, Numer. Math. 13 (1969), have it; one of zeros gets a size that is no matter.
//
// Note [Derivatives of exponentials]
// exp of [[a, e], [0, a]] has the derivative of exp at a in the direction e as its upper right block
// (Mathias, 1996), and what is computed with ops has derivatives again. Gradients are derivatives at
// a^H.
#include <cmath>

#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

// b_j of Pade's numerator of degree q: (2q - j)! q! / ((2q)! (q - j)! j!).
double pade(int q, int j) {
  double b = 1;
  for (int k = 1; k <= j; ++k) b *= double(q - k + 1) / (double(2 * q - k + 1) * k);
  return b;
}

// (v - u)^-1 (v + u), u the odd part of the polynomial and v the even one.
Tensor pade_exp(T a, int q) {
  const int64_t n = a.size(-1);
  Tensor one = op<"eye">(n, a.dtype()), a2 = mul(a, a);
  Tensors even{one, a2};  // powers of a2
  while (2 * static_cast<int>(even.size()) <= std::min(q, 9) && even.size() < (q == 13 ? 4u : 5u))
    even.push_back(mul(even.back(), a2));
  auto sum = [&](int from, int to, int parity, int shift) {  // of b_j a2^((j - parity) / 2 - shift)
    Tensor total;
    for (int j = from; j <= to; j += 2) {
      Tensor term = even[static_cast<size_t>((j - parity) / 2 - shift)] * pade(q, j);
      total = plus(total, term);
    }
    return total;
  };
  Tensor u, v;
  if (q < 13) {
    u = mul(a, sum(1, q, 1, 0));
    v = sum(0, q - 1, 0, 0);
  } else {  // a2^3 is taken out of the higher half
    const Tensor& a6 = even[3];
    u = mul(a, mul(a6, sum(9, 13, 1, 3)) + sum(1, 7, 1, 0));
    v = mul(a6, sum(8, 12, 0, 3)) + sum(0, 6, 0, 0);
  }
  return op<"_linalg_solve_ex">(v - u, v + u).tensors()[0];
}

// Finds the exponents of d for one matrix of sizes, and gives its norm then; Note [Balanced exponentials].
double balance(const double* a, int64_t n, int reach, double* d) {
  auto size = [&](int64_t i, int64_t j) {
    return i == j ? 0.0 : a[i * n + j] * std::exp2(d[j] - d[i]);
  };
  bool changed = true;
  for (int sweep = 0; changed && sweep < 30; ++sweep) {  // five are many
    changed = false;
    for (int64_t i = 0; i < n; ++i) {
      double row = 0, column = 0;
      for (int64_t k = 0; k < n; ++k) row += size(i, k), column += size(k, i);
      if (row > 1) column = std::max(column, 1 / row);
      if (column > 1) row = std::max(row, 1 / column);
      if (row == 0 || column == 0) continue;
      const double by = std::round(std::log2(row / column) / 2);
      if (by == 0 || std::fabs(d[i] + by) > reach) continue;
      if (row * std::exp2(-by) + column * std::exp2(by) >= 0.95 * (row + column)) continue;
      d[i] += by;
      changed = true;
    }
  }
  double found = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = a[j * n + j];
    for (int64_t i = 0; i < n; ++i) sum += size(i, j);
    found = std::max(found, sum);
  }
  return found;
}

// The diagonals d of all matrices, as columns, and norms with them; nothing where none gains by it.
Tensor balanced(T flat, T norms) {
  const int64_t count = flat.size(0), n = flat.size(1);
  double* norm = norms.data<double>();
  if (std::none_of(norm, norm + count, [](double v) { return std::isfinite(v) && v > 8; }))
    return Tensor();
  Tensor sizes = contiguous(cast(op<"abs">(flat), DType::Float64));
  Tensor exponents = zeros(Dims{count, n, 1}, DType::Float64);
  const int reach = real_dtype(flat.dtype()) == DType::Float64 ? 400 : 40;
  bool any = false;
  for (int64_t b = 0; b < count; ++b) {
    double* d = exponents.data<double>() + b * n;
    const double* a = sizes.data<double>() + b * n * n;
    if (!(std::isfinite(norm[b]) && norm[b] > 8)) continue;
    const double found = balance(a, n, reach, d);
    if (found > norm[b] / 8) {  // a squaring or two is not worth it
      std::fill(d, d + n, 0.0);
      continue;
    }
    norm[b] = found;
    any = true;
  }
  if (!any) return Tensor();
  return cast(op<"exp2">(exponents), real_dtype(flat.dtype()));
}

Tensor matrix_exp(T given) {
  GradMode off(false);
  if (given.numel() == 0) return op<"clone">(given);
  const DType dtype = given.dtype();
  Tensor a = is_half(dtype) ? cast(given, DType::Float32) : given;
  const int64_t n = a.size(-1), count = count_of(leading_of(a));
  Tensor flat = contiguous(op<"reshape">(a, Dims{count, n, n}));
  Tensor norms = cast(op<"amax">(op<"sum">(op<"abs">(flat), Dims{-2}), Dims{-1}), DType::Float64);
  Tensor around = balanced(flat, norms);
  double* size = norms.data<double>();
  double most = 0;
  for (int64_t b = 0; b < count; ++b) {
    if (std::isfinite(size[b])) most = std::max(most, size[b]);
  }
  if (around) flat = flat * transposed(around) / around;
  constexpr int kDegrees[] = {3, 5, 7, 9, 13};
  constexpr double kReach[] = {1.495585217958292e-2, 2.539398330063230e-1, 9.504178996162932e-1,
                               2.097847961257068, 5.371920351148152};
  int at = 0;
  while (at < 4 && most > kReach[at]) ++at;
  Tensor times = empty(Dims{count, 1, 1}, DType::Int64);
  int64_t rounds = 0;
  for (int64_t b = 0; b < count; ++b) {
    const bool large = std::isfinite(size[b]) && size[b] > kReach[4];
    const int64_t s = large ? static_cast<int64_t>(std::ceil(std::log2(size[b] / kReach[4]))) : 0;
    times.data<int64_t>()[b] = s;
    rounds = std::max(rounds, s);
  }
  Tensor x = flat;
  if (rounds) x = flat * cast(op<"exp2">(-times), real_dtype(flat.dtype()));
  x = pade_exp(x, kDegrees[at]);
  for (int64_t k = 0; k < rounds; ++k) x = op<"where">(op<"gt">(times, k), mul(x, x), x);
  if (around) x = x * around / transposed(around);
  // In one order whatever the rounds were, and in memory of its own.
  Tensor result = empty(given.shape(), dtype);
  copy_into(result, op<"reshape">(x, given.shape()));
  return result;
}

// Note [Derivatives of exponentials]
Tensor exp_derivative(T a, T e_given) {
  Tensor e = e_given, factor;
  {
    // A large direction would be scaled along with the matrix; the derivative is linear in it.
    GradMode off(false);
    auto size = [](T t) -> Tensor { return op<"amax">(op<"abs">(t), Dims{-2, -1}, true); };
    factor = op<"clamp_min">(size(e) / (size(a) + 1.0), 1.0);
    factor = op<"where">(op<"isfinite">(factor), factor, 1.0);
  }
  e = e / factor;
  Tensor zero = op<"zeros_like">(a);
  Tensor top = op<"cat">(Tensors{a, e}, -1), bottom = op<"cat">(Tensors{zero, a}, -1);
  Tensor whole = op<"linalg_matrix_exp">(op<"cat">(Tensors{top, bottom}, -2));
  const int64_t n = a.size(-1);
  return columns_from(first_rows(whole, n), n) * factor;
}

}  // namespace

static const Op& linalg_matrix_exp_ =
    def("linalg_matrix_exp(input|A)", "The exponential of square matrices.")
        .forward([](Call& c) -> Value {
          check_square("linalg.matrix_exp", c.tensor(0));
          check_floating("linalg.matrix_exp", c.tensor(0));
          return matrix_exp(c.tensor(0));
        })
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                if (g.numel() == 0) return g;
                return exp_derivative(adjoint_of(c.tensor(0)), g);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          if (t[0].numel() == 0) return t[0];
          return exp_derivative(c.tensor(0), t[0]);
        })
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& matrix_exp_ =
    def("matrix_exp(input)", "The exponential of square matrices; linalg.matrix_exp.")
        .forward([](Call& c) -> Value { return op<"linalg_matrix_exp">(c[0]); })
        .no_out();

namespace {

Tensor matrix_power(const char* name, T given, int64_t n) {
  check_square(name, given);
  if (n == 0) {
    Tensor one = op<"eye">(given.size(-1), given.dtype());
    return op<"copy">(given, op<"expand">(one, given.shape()));
  }
  Tensor a = n < 0 ? op<"linalg_inv">(given).tensor() : given;
  uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  if (left == 1) return n < 0 ? a : op<"clone">(a).tensor();
  Tensor square = a, out;
  for (; left; left >>= 1) {
    if (left & 1) out = out ? mul(out, square) : square;
    if (left > 1) square = mul(square, square);
  }
  return out;
}

}  // namespace

static const Op& linalg_matrix_power_ =
    def("linalg_matrix_power(input|A, n: int)",
        "The n-th power of square matrices; of their inverses for negative n.")
        .forward([](Call& c) -> Value {
          return matrix_power("linalg.matrix_power", c.tensor(0), c.integer(1));
        })
        .function_only()
        .autocast(Autocast::Inside)
        .out_dtype(OutDType::Converts);

static const Op& matrix_power_ =
    def("matrix_power(input, n: int)", "The n-th power of square matrices; linalg.matrix_power.")
        .forward([](Call& c) -> Value {
          return matrix_power("linalg.matrix_power", c.tensor(0), c.integer(1));
        })
        .autocast(Autocast::Inside);

}  // namespace adjoint
