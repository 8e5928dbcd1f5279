// Weighted means of neighbours along an axis: what resizing a signal or an image is made of.
// Read ops/nn/resampling.cpp for who calls them.
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

// Whole rows: out[j] = sum_k weight[k] * in[k * step + j], for n elements.
// p: out, in, the weights, {how many, step}.
template <class T>
void resample_rows(char* const* p, int64_t n) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  T* out = reinterpret_cast<T*>(p[0]);
  const T *in = reinterpret_cast<const T*>(p[1]), *weight = reinterpret_cast<const T*>(p[2]);
  const int64_t* given = reinterpret_cast<const int64_t*>(p[3]);
  const int64_t count = given[0], step = given[1];
  int64_t j = 0;
  for (; j + W <= n; j += W) {
    V sum = load<T, V>(in + j) * weight[0];
    for (int64_t k = 1; k < count; ++k) sum += load<T, V>(in + k * step + j) * weight[k];
    store<T, V>(out + j, sum);
  }
  if (j < n) {
    V sum = load_part<T, V>(in + j, n - j) * weight[0];
    for (int64_t k = 1; k < count; ++k)
      sum += load_part<T, V>(in + k * step + j, n - j) * weight[k];
    store_part<T, V>(out + j, sum, n - j);
  }
}

// Within one row: out[o] = sum_k weight[k][o] * in[at[k][o]], for n results.
// p: out, in, the weights, the places (int32), {how many}.
template <class T>
void resample_line(char* const* p, int64_t n) {
  T* __restrict out = reinterpret_cast<T*>(p[0]);
  const T *in = reinterpret_cast<const T*>(p[1]), *weight = reinterpret_cast<const T*>(p[2]);
  const int32_t* at = reinterpret_cast<const int32_t*>(p[3]);
  const int64_t count = *reinterpret_cast<const int64_t*>(p[4]);
  if (count == 2) {
    for (int64_t o = 0; o < n; ++o) out[o] = in[at[o]] * weight[o] + in[at[n + o]] * weight[n + o];
    return;
  }
  for (int64_t o = 0; o < n; ++o) out[o] = in[at[o]] * weight[o];
  for (int64_t k = 1; k < count; ++k) {
    const T* w = weight + k * n;
    const int32_t* place = at + k * n;
    for (int64_t o = 0; o < n; ++o) out[o] += in[place[o]] * w[o];
  }
}

ROW_KERNEL(resample_rows, 3)
ROW_KERNEL(resample_line, 4)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
