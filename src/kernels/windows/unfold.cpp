// See unfold.h.
#include "kernels/windows/unfold.h"

#include <algorithm>
#include <cstring>

#include "kernels/windows/conv_geometry.h"
#include "kernels/convert.h"
#include "kernels/element_type.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

// The windows of a row in which tap t is inside: [begin, end), and where it lies for window 0.
struct Inside {
  int64_t begin, end, first;
  Inside(const Unfold& u, size_t d, int64_t t) : first(t * u.dilation[d] - u.padding[d]) {
    const int64_t step = u.stride[d];
    begin = std::min(first >= 0 ? 0 : (-first + step - 1) / step, u.out[d]);
    end = std::clamp(floor_div(u.in[d] - 1 - first, step) + 1, begin, u.out[d]);
  }
};

// f(channel over all samples, tap, row of windows, offset in x of window 0 of that row).
template <class F>
void each_row(const Unfold& u, int64_t channel, F f) {
  for (int64_t i = 0; i < u.kernel[1]; ++i)
    for (int64_t j = 0; j < u.kernel[2]; ++j) {
      const Inside rows(u, 1, i), along(u, 2, j);
      for (int64_t q = 0; q < u.out[1]; ++q) {
        const int64_t row = ((channel * u.kernel[1] + i) * u.kernel[2] + j) * u.out[1] + q;
        const bool inside = q >= rows.begin && q < rows.end;
        const int64_t y = rows.first + q * u.stride[1];
        f(row * u.out[2], inside, (channel * u.in[1] + y) * u.in[2] + along.first, along);
      }
    }
}

template <class F>
void each_channel(const Unfold& u, F f) {
  const int64_t work = u.kernel[1] * u.kernel[2] * u.out[1] * u.out[2];
  parallel::parallel_ranges(u.samples * u.channels,
                            std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t c = begin; c < end; ++c) f(c);
                            });
}

template <class T>
void fold(const Unfold& u, const T* columns, T* x) {
  const int64_t plane = u.in[1] * u.in[2], step = u.stride[2];
  each_channel(u, [&](int64_t channel) {
    std::fill(x + channel * plane, x + (channel + 1) * plane, T(0));
    each_row(u, channel, [&](int64_t from, bool inside, int64_t to, const Inside& along) {
      if (!inside) return;
      for (int64_t q = along.begin; q < along.end; ++q) x[to + q * step] += columns[from + q];
    });
  });
}

}  // namespace

void unfold_windows(const Unfold& u, DType dtype, const char* x, char* columns) {
  const auto item = static_cast<int64_t>(item_size(dtype));
  each_channel(u, [&](int64_t channel) {
    each_row(u, channel, [&](int64_t to, bool inside, int64_t from, const Inside& along) {
      char* row = columns + to * item;
      const int64_t begin = inside ? along.begin : u.out[2], end = inside ? along.end : u.out[2];
      std::memset(row, 0, static_cast<size_t>(begin * item));
      if (begin < end)
        copy_run(row + begin * item, item, dtype, x + (from + begin * u.stride[2]) * item,
                 u.stride[2] * item, dtype, end - begin);
      std::memset(row + end * item, 0, static_cast<size_t>((u.out[2] - end) * item));
    });
  });
}

void fold_windows(const Unfold& u, DType dtype, const char* columns, char* x) {
  const auto run = [&]<class T>(T) {
    fold(u, reinterpret_cast<const T*>(columns), reinterpret_cast<T*>(x));
  };
  if (dtype == DType::Complex64) return run(complex64_t{});
  if (dtype == DType::Complex128) return run(complex128_t{});
  if (dtype == DType::Float64) return run(double{});
  if (dtype == DType::Float32) return run(float{});
  run(int64_t{});
}

}  // namespace adjoint
