// Loops over one row of a recurrent cell: the pointwise half of an LSTM's and of a GRU's step, and its
// derivative. `n` is the number of hidden values; gates of a row lie one after the other, n each.
// Read next: ops/nn/recurrent.cpp, who calls them.
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/hyperbolic.h"
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

// f(i, read, write) for vectors of lanes from i on; the last one may be a part.
template <class T, class F>
ADJOINT_INLINE void each_vector(int64_t n, F f) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    f(i, [](const T* p) { return load<T, V>(p); }, [](T* p, V v) { store<T, V>(p, v); });
  }
  if (const int64_t rest = n - i; rest > 0) {
    f(
        i, [=](const T* p) { return load_part<T, V>(p, rest); },
        [=](T* p, V v) { store_part<T, V>(p, v, rest); });
  }
}

// What a sequence wrote long ago is no longer near, and rows are too short for the processor to look ahead.
template <class T>
ADJOINT_INLINE void fetch_next_row(const T* p, int64_t row) {
  __builtin_prefetch(p + row);
}

template <class T>
ADJOINT_INLINE T* at(char* const* p, int k) {
  return reinterpret_cast<T*>(p[k]);
}

// gates (i, f, g, o: sums of the state in, activations out), c before, c after, h, sums of the input.
template <class T>
void lstm_cell(char* const* p, int64_t n) {
  using V = VecOf<T>;
  T *gates = at<T>(p, 0), *before = at<T>(p, 1), *after = at<T>(p, 2), *h = at<T>(p, 3),
    *x = at<T>(p, 4);
  // In two passes: what follows one after the other is too long for a processor to see the next vector.
  each_vector<T>(n, [=](int64_t k, auto read, auto write) __attribute__((always_inline)) {
    auto sum = [&](int64_t gate) {
      fetch_next_row(x + gate * n + k, 4 * n);
      return read(gates + gate * n + k) + read(x + gate * n + k);
    };
    write(gates + k, sigmoid(sum(0)));
    write(gates + n + k, sigmoid(sum(1)));
    write(gates + 2 * n + k, tanh(sum(2)));
    write(gates + 3 * n + k, sigmoid(sum(3)));
  });
  each_vector<T>(n, [=](int64_t k, auto read, auto write) __attribute__((always_inline)) {
    V i = read(gates + k), f = read(gates + n + k), g = read(gates + 2 * n + k);
    V c = f * read(before + k) + i * g;
    write(after + k, c);
    write(h + k, read(gates + 3 * n + k) * tanh(c));
  });
}

// Gradients of the sums, activations, c before, c after, the gradient of h that later steps send,
// that of c (which becomes the one for c before), and those of h and c themselves or null.
template <class T>
void lstm_cell_grad(char* const* p, int64_t n) {
  using V = VecOf<T>;
  T *to = at<T>(p, 0), *gates = at<T>(p, 1), *before = at<T>(p, 2), *after = at<T>(p, 3);
  T *later_h = at<T>(p, 4), *later_c = at<T>(p, 5), *own_h = at<T>(p, 6), *own_c = at<T>(p, 7);
  each_vector<T>(n, [=](int64_t k, auto read, auto write) {
    for (int gate = 0; gate < 4; ++gate) fetch_next_row(gates + gate * n + k, 4 * n);
    fetch_next_row(after + k, n);
    fetch_next_row(before + k, n);
    V i = read(gates + k), f = read(gates + n + k);
    V g = read(gates + 2 * n + k), o = read(gates + 3 * n + k);
    V dh = read(later_h + k), dc = read(later_c + k), t = tanh(read(after + k));
    if (own_h) dh += read(own_h + k);
    if (own_c) dc += read(own_c + k);
    dc += dh * o * (1 - t * t);
    write(to + k, dc * g * i * (1 - i));
    write(to + n + k, dc * read(before + k) * f * (1 - f));
    write(to + 2 * n + k, dc * i * (1 - g * g));
    write(to + 3 * n + k, dh * t * o * (1 - o));
    write(later_c + k, dc * f);
  });
}

// gates (r, z, n: sums in, activations out; then the part of n that r multiplies), h before, h after.
template <class T>
void gru_cell(char* const* p, int64_t n) {
  using V = VecOf<T>;
  T *gates = at<T>(p, 0), *before = at<T>(p, 1), *after = at<T>(p, 2);
  each_vector<T>(n, [=](int64_t k, auto read, auto write) {
    V r = sigmoid(read(gates + k)), z = sigmoid(read(gates + n + k));
    V m = tanh(read(gates + 2 * n + k) + r * read(gates + 3 * n + k));
    write(gates + k, r);
    write(gates + n + k, z);
    write(gates + 2 * n + k, m);
    write(after + k, m + z * (read(before + k) - m));
  });
}

// Gradients of r's, z's and n's sums and of the part that r multiplies; gates, h before, the gradient of
// h that later steps send (which becomes what h before gets at once), that of h itself or null.
template <class T>
void gru_cell_grad(char* const* p, int64_t n) {
  using V = VecOf<T>;
  T *to = at<T>(p, 0), *gates = at<T>(p, 1), *before = at<T>(p, 2);
  T *later = at<T>(p, 3), *own = at<T>(p, 4);
  each_vector<T>(n, [=](int64_t k, auto read, auto write) {
    V r = read(gates + k), z = read(gates + n + k), m = read(gates + 2 * n + k);
    V dh = read(later + k);
    if (own) dh += read(own + k);
    V dm = dh * (1 - z) * (1 - m * m);
    write(to + k, dm * read(gates + 3 * n + k) * r * (1 - r));
    write(to + n + k, dh * (read(before + k) - m) * z * (1 - z));
    write(to + 2 * n + k, dm);
    write(to + 3 * n + k, dm * r);
    write(later + k, dh * z);
  });
}

ROW_KERNEL(lstm_cell, 4)
ROW_KERNEL(lstm_cell_grad, 7)
ROW_KERNEL(gru_cell, 2)
ROW_KERNEL(gru_cell_grad, 4)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
