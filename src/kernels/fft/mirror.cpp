// The second half of a real signal's spectrum. See mirror.h.
#include "kernels/fft/mirror.h"

#include "parallel/pool.h"

namespace adjoint::fft {
namespace {

template <class T>
void fill(T* spectrum, const int64_t* shape, int ndim, int last, uint64_t transformed) {
  int64_t inner = 1, outer = 1;
  for (int d = last + 1; d < ndim; ++d) inner *= shape[d];
  for (int d = 0; d < last; ++d) outer *= shape[d];
  const int64_t n = shape[last], known = n / 2 + 1;
  // Where the place with this number among the axes begin .. end - 1 is seen, backwards.
  auto opposite = [&](int64_t place, int begin, int end) {
    int64_t found = 0, step = 1;
    for (int d = end - 1; d >= begin; --d) {
      const int64_t size = shape[d], at = place % size;
      found += step * (transformed >> d & 1 ? (size - at) % size : at);
      place /= size;
      step *= size;
    }
    return found;
  };
  bool inner_same = true;
  for (int d = last + 1; d < ndim; ++d) inner_same &= !(transformed >> d & 1);
  parallel::parallel_ranges(outer, 1 + (1 << 15) / (n * inner + 1),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t o = begin; o < end; ++o) {
                                const int64_t across = opposite(o, 0, last);
                                for (int64_t k = known; k < n; ++k) {
                                  T* to = spectrum + 2 * (o * n + k) * inner;
                                  const T* from = spectrum + 2 * (across * n + n - k) * inner;
                                  for (int64_t i = 0; i < inner; ++i) {
                                    const int64_t j = inner_same ? i : opposite(i, last + 1, ndim);
                                    to[2 * i] = from[2 * j];
                                    to[2 * i + 1] = -from[2 * j + 1];
                                  }
                                }
                              }
                            });
}

}  // namespace

void fill_mirrored(bool is_double, char* spectrum, const int64_t* shape, int ndim, int last,
                   uint64_t transformed) {
  if (is_double) {
    fill(reinterpret_cast<double*>(spectrum), shape, ndim, last, transformed);
  } else {
    fill(reinterpret_cast<float*>(spectrum), shape, ndim, last, transformed);
  }
}

}  // namespace adjoint::fft
