// How transforms are scaled: the numbers that `_fft_c2c` and its like take, as PyTorch has them.
#pragma once
#include <cstdint>

namespace adjoint {

enum FftScaling : int64_t { kNotScaled = 0, kByRoot = 1, kByCount = 2 };

}  // namespace adjoint
