// A function that is a polynomial on each of several intervals: fits.h has the numbers, and
// tools/fit_special.py computed them.
#pragma once

namespace adjoint::special {

struct Piece {
  double high;             // the end of the interval; the piece before has its begin
  double middle, inverse;  // t = (x - middle) * inverse is in [-1, 1]
  double root, root_rest;  // the function's, in two numbers, if it has one here
  bool has_root;
  int first, count;  // of its coefficients, of 1, t, t^2 ...
};

struct Fit {
  const Piece* pieces;
  const double* numbers;

  // x is not above the last interval.
  double operator()(double x) const {
    const Piece* p = pieces;
    while (x > p->high) ++p;
    return at(*p, x);
  }
  double at(const Piece& p, double x) const {
    const double t = (x - p.middle) * p.inverse;
    const double* c = numbers + p.first;
    double sum = c[p.count - 1];
    for (int k = p.count - 2; k >= 0; --k) sum = sum * t + c[k];
    return p.has_root ? ((x - p.root) - p.root_rest) * sum : sum;
  }
};

// a * b = high + low, exactly.
struct TwoNumbers {
  double high, low;
};
inline TwoNumbers exact_product(double a, double b) {
  const double high = a * b;
  return {high, __builtin_fma(a, b, -high)};
}

}  // namespace adjoint::special
