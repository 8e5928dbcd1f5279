// How elements along an axis of one size become those of another: each is a weighted mean of
// neighbours. Read resampling.cpp for the weights of each mode, resize.cpp for the ops.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace adjoint {

// Result o is the sum of weight[o * width + k] * input[first[o] + k], over k < count[o].
struct Band {
  int64_t from = 0, to = 0, width = 0;
  std::vector<int64_t> first, count;
  std::vector<double> weight;

  bool is_identity() const;
  Band transposed() const;
};

struct Resampling {
  std::string mode;  // nearest, nearest-exact, linear, cubic, lanczos, area
  bool align_corners = false, antialias = false;
  bool image = false;  // of two axes
};

// `scale` is the factor that a caller gave, where it is not that of the sizes. Places and weights
// are computed in the precision of `dtype`, as PyTorch does.
Band make_band(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale,
               DType dtype);

}  // namespace adjoint
