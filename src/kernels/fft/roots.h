// Roots of unity, exp(-2 pi i k / n), correctly rounded or nearly so: an FFT is as good as they are.
#pragma once
#include <cstdint>
#include <vector>

namespace adjoint::fft {

struct Root {
  long double re, im;
};

// exp(-2 pi i k / n) for 0 <= k < n.
Root root_of_unity(int64_t k, int64_t n);

// Many roots of one order: products of a coarse and a fine one, so that few are computed by sines.
class Roots {
 public:
  explicit Roots(int64_t n);
  // k may be any number that is not negative.
  Root operator[](int64_t k) const;

 private:
  int64_t n_;
  int shift_;
  std::vector<Root> fine_, coarse_;
};

}  // namespace adjoint::fft
