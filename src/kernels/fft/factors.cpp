// Lengths and what they cost. See factors.h.
#include "kernels/fft/factors.h"

#include <cstddef>
#include <limits>

namespace adjoint::fft {
namespace {

std::vector<int64_t> odd_primes(int64_t& n) {
  std::vector<int64_t> found;
  for (int64_t p = 3; p * p <= n; p += 2) {
    for (; n % p == 0; n /= p) found.push_back(p);
  }
  if (n > 2) found.push_back(n), n = 1;
  return found;
}

// Operations per cell of a pass, sums and products and what memory costs.
double cost_of_radix(int64_t r) {
  switch (r) {
    case 2:
      return 6;
    case 3:
      return 9;
    case 4:
      return 8;
    case 5:
      return 12;
    case 7:
      return 16;
    case 8:
      return 11;
    default:
      return 12 + 1.5 * static_cast<double>(r);
  }
}

}  // namespace

std::vector<int64_t> radices(int64_t n) {
  int twos = 0;
  for (; n % 2 == 0 && n > 0; n /= 2) ++twos;
  std::vector<int64_t> found;
  // Eights as long as what remains is no single two: 16 is 4 * 4.
  for (; twos >= 5 || twos == 3; twos -= 3) found.push_back(8);
  for (; twos >= 2; twos -= 2) found.push_back(4);
  if (twos) found.push_back(2);
  // Powers of two in the middle: then the first and the last pass work on whole blocks.
  std::vector<int64_t> odd = odd_primes(n);
  const auto first = static_cast<std::ptrdiff_t>((odd.size() + 1) / 2);
  found.insert(found.begin(), odd.begin(), odd.begin() + first);
  found.insert(found.end(), odd.begin() + first, odd.end());
  return found;
}

double cost_of_passes(int64_t n) {
  double sum = 0;
  for (int64_t r : radices(n)) sum += cost_of_radix(r);
  return sum * static_cast<double>(n);
}

int64_t good_length(int64_t least) {
  int64_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (int64_t fives = 1; fives < 2 * least; fives *= 5) {
    for (int64_t threes = fives; threes < 2 * least; threes *= 3) {
      int64_t n = threes;
      while (n < least) n *= 2;
      const double cost = cost_of_passes(n);
      if (cost < lowest) lowest = cost, best = n;
    }
  }
  return best;
}

bool wants_convolution(int64_t n) {
  int64_t largest = 1;
  for (int64_t r : radices(n)) largest = r > largest ? r : largest;
  if (largest > kMaxRadix) return true;
  if (largest < 30) return false;
  const int64_t m = good_length(2 * n - 1);
  return 2 * cost_of_passes(m) + 14.0 * static_cast<double>(m) < cost_of_passes(n);
}

int64_t balanced_divisor(int64_t n) {
  std::vector<int64_t> divisors{1};
  int64_t best = 1;
  for (int64_t r : radices(n)) {
    // Each two by itself: eights would hide the divisors between.
    for (int64_t left = r; left > 1;) {
      const int64_t p = left % 2 ? left : 2;
      left /= p;
      const size_t count = divisors.size();
      for (size_t i = 0; i < count; ++i) {
        const int64_t d = divisors[i] * p;
        bool known = d > n / d;
        for (size_t j = 0; j < divisors.size() && !known; ++j) known = divisors[j] == d;
        if (!known) divisors.push_back(d);
      }
    }
  }
  for (int64_t d : divisors) {
    if (d > best) best = d;
  }
  return best;
}

}  // namespace adjoint::fft
