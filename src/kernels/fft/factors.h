// Lengths and what they cost: how n is cut into factors, and when another length is better.
#pragma once
#include <cstdint>
#include <vector>

namespace adjoint::fft {

// Of the passes; from here on Bluestein's algorithm is better in any case.
inline constexpr int64_t kMaxRadix = 211;

// The radices of the passes over a tile of n cells, in order; powers of two as eights and fours.
std::vector<int64_t> radices(int64_t n);
// Vector operations of these passes, roughly.
double cost_of_passes(int64_t n);
// A length of at least `least` whose prime factors are 2, 3 and 5, the cheapest of those at hand.
int64_t good_length(int64_t least);
// Whether Bluestein's algorithm beats the passes.
bool wants_convolution(int64_t n);
// The largest divisor of n that is not above its square root.
int64_t balanced_divisor(int64_t n);

}  // namespace adjoint::fft
