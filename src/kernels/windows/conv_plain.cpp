// Convolutions by plain loops over whatever lies inside. See conv.h.
#include <algorithm>

#include "kernels/windows/conv_geometry.h"
#include "kernels/convert.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

// The taps t along one axis for which the input at q * stride - padding + t * dilation exists.
struct Taps {
  int64_t begin, end, first;  // `first`: the input at tap 0
  Taps(const Conv& c, int d, int64_t q) : first(q * c.stride[d] - c.padding[d]) {
    const int64_t step = c.dilation[d];
    begin = first >= 0 ? 0 : (-first + step - 1) / step;
    end = c.in[d] > first ? std::min(c.kernel[d], (c.in[d] - first - 1) / step + 1) : 0;
  }
};

// f(offset in x, tap) for each product of the output at q.
template <class F>
void each_product(const Conv& c, const Axes3& q, const Axes3& x, F f) {
  const Taps a(c, 0, q[0]), b(c, 1, q[1]), e(c, 2, q[2]);
  for (int64_t i = a.begin; i < a.end; ++i)
    for (int64_t j = b.begin; j < b.end; ++j)
      for (int64_t k = e.begin; k < e.end; ++k)
        f((a.first + i * c.dilation[0]) * x[0] + (b.first + j * c.dilation[1]) * x[1] +
              (e.first + k * c.dilation[2]) * x[2],
          (i * c.kernel[1] + j) * c.kernel[2] + k);
}

// Numbers of a dtype, read and written as T.
template <class T>
struct Numbers {
  const char* data;
  DType dtype;
  T operator[](int64_t i) const {
    const char* p = data + i * static_cast<int64_t>(item_size(dtype));
    if constexpr (std::is_same_v<T, int64_t>)
      return load_int(dtype, p);
    else
      return static_cast<T>(load_double(dtype, p));
  }
};
template <class T>
void put(char* data, DType dtype, int64_t i, T value) {
  if constexpr (std::is_same_v<T, int64_t>)
    store_scalar(dtype, data + i * static_cast<int64_t>(item_size(dtype)), value);
  else
    store_scalar(dtype, data + i * static_cast<int64_t>(item_size(dtype)),
                 static_cast<double>(value));
}

// Integers wrap.
template <class T>
void add_product(T& sum, T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    sum = static_cast<T>(static_cast<uint64_t>(sum) +
                         static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    sum += a * b;
}

template <class F>
void with_sum_type(DType dtype, F f) {
  if (is_integral(dtype)) return f(int64_t{});
  if (dtype == DType::Float64) return f(double{});
  f(float{});
}

}  // namespace

void plain_conv_output(const Conv& c, DType dtype, const Planes& x, const char* w, const char* bias,
                       char* y) {
  const int64_t taps = volume(c.kernel), plane = volume(c.out), channels = c.groups * c.co;
  with_sum_type(dtype, [&]<class T>(T) {
    const Numbers<T> in{x.data, dtype}, weight{w, dtype}, added{bias, dtype};
    parallel::parallel_for(c.samples * channels, [&](int64_t i) {
      const int64_t o = i % channels, group = o / c.co;
      int64_t at = i * plane;
      each_place(c.out, [&](const Axes3& q) {
        T sum = bias ? added[o] : T(0);
        for (int64_t k = 0; k < c.ci; ++k) {
          const int64_t from = i / channels * x.sample + (group * c.ci + k) * x.channel;
          each_product(c, q, x.strides, [&](int64_t place, int64_t t) {
            add_product(sum, in[from + place], weight[(o * c.ci + k) * taps + t]);
          });
        }
        put(y, dtype, at++, sum);
      });
    });
  });
}

void plain_conv_input(const Conv& c, DType dtype, const Planes& g, const char* w, const char* bias,
                      char* dx) {
  const int64_t taps = volume(c.kernel), plane = volume(c.in), channels = c.groups * c.ci;
  with_sum_type(dtype, [&]<class T>(T) {
    const Numbers<T> in{g.data, dtype}, weight{w, dtype}, added{bias, dtype};
    parallel::parallel_for(c.samples * channels, [&](int64_t i) {
      const int64_t channel = i % channels, group = channel / c.ci, k = channel % c.ci;
      std::vector<T> sums(static_cast<size_t>(plane), bias ? added[channel] : T(0));
      for (int64_t o = group * c.co; o < (group + 1) * c.co; ++o) {
        each_place(c.out, [&](const Axes3& q) {
          const T value = in[i / channels * g.sample + o * g.channel + q[0] * g.strides[0] +
                             q[1] * g.strides[1] + q[2] * g.strides[2]];
          each_product(c, q, steps_of(c.in), [&](int64_t place, int64_t t) {
            add_product(sums[static_cast<size_t>(place)], value, weight[(o * c.ci + k) * taps + t]);
          });
        });
      }
      for (int64_t p = 0; p < plane; ++p)
        put(dx, dtype, i * plane + p, sums[static_cast<size_t>(p)]);
    });
  });
}

void plain_conv_weight(const Conv& c, DType dtype, const Planes& g, const Planes& x, char* dw) {
  const int64_t taps = volume(c.kernel);
  with_sum_type(dtype, [&]<class T>(T) {
    const Numbers<T> gradient{g.data, dtype}, in{x.data, dtype};
    parallel::parallel_for(c.groups * c.co * c.ci, [&](int64_t i) {
      const int64_t o = i / c.ci, channel = o / c.co * c.ci + i % c.ci;
      std::vector<T> sums(static_cast<size_t>(taps));
      for (int64_t n = 0; n < c.samples; ++n)
        each_place(c.out, [&](const Axes3& q) {
          const T value = gradient[n * g.sample + o * g.channel + q[0] * g.strides[0] +
                                   q[1] * g.strides[1] + q[2] * g.strides[2]];
          each_product(c, q, x.strides, [&](int64_t place, int64_t t) {
            add_product(sums[static_cast<size_t>(t)], value,
                        in[n * x.sample + channel * x.channel + place]);
          });
        });
      for (int64_t t = 0; t < taps; ++t) put(dw, dtype, i * taps + t, sums[static_cast<size_t>(t)]);
    });
  });
}

}  // namespace adjoint
