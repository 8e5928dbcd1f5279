// Roots of unity. Angles are brought into an eighth of the circle by whole numbers, which loses
// nothing; sine and cosine are then taken in long double.
#include "kernels/fft/roots.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace adjoint::fft {

Root root_of_unity(int64_t k, int64_t n) {
  // In eighths of a turn and the rest: 8 k = octant * n + rest.
  const __int128 eighths = static_cast<__int128>(k) * 8;
  const int octant = static_cast<int>(eighths / n);
  auto rest = static_cast<int64_t>(eighths % n);
  if (octant & 1) rest = n - rest;  // measured back from the next multiple of two octants
  const long double angle =
      std::numbers::pi_v<long double> / 4 * (static_cast<long double>(rest) / n);
  long double c = std::cos(angle), s = std::sin(angle);
  if (octant == 1 || octant == 2 || octant == 5 || octant == 6) std::swap(c, s);
  if (octant >= 2 && octant <= 5) c = -c;
  if (octant >= 4) s = -s;
  return {c, -s};
}

Roots::Roots(int64_t n) : n_(n), shift_(0) {
  while ((int64_t{1} << (2 * shift_)) < n) ++shift_;
  const int64_t fine = int64_t{1} << shift_;
  for (int64_t k = 0; k < fine && k < n; ++k) fine_.push_back(root_of_unity(k, n));
  for (int64_t k = 0; k < n; k += fine) coarse_.push_back(root_of_unity(k, n));
}

Root Roots::operator[](int64_t k) const {
  k %= n_;
  const Root a = coarse_[static_cast<size_t>(k >> shift_)];
  const Root b = fine_[static_cast<size_t>(k & ((int64_t{1} << shift_) - 1))];
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

}  // namespace adjoint::fft
