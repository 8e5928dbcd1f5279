// Scans and searches. Read scan.h first.
#include "kernels/reduce/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "kernels/complex_logarithms.h"
#include "kernels/element_type.h"
#include "kernels/reduce/reduce.h"
#include "parallel/pool.h"

namespace adjoint::scan {
namespace {

constexpr int64_t kGrain = 16384;  // elements worth handing to a thread
constexpr int64_t kTile = 256;     // lanes of one item where the scan runs across rows

// f(outer index, first lane, lanes), over all lanes, on all threads.
template <class F>
void each_strip(Shape s, F&& f) {
  const int64_t strips = (s.inner - 1) / kTile + 1, items = s.outer * strips;
  const int64_t per_item = std::max<int64_t>(1, s.n * std::min(s.inner, kTile));
  parallel::parallel_ranges(items, std::max<int64_t>(1, kGrain / per_item),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t i = begin; i < end; ++i) {
                                const int64_t first = i % strips * kTile;
                                f(i / strips, first, std::min(kTile, s.inner - first));
                              }
                            });
}

double log_add(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double high = std::max(a, b), low = std::min(a, b);
  if (std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

// The running sum of contiguous elements, each way (Step is 1 or -1). Four floats are added among
// themselves first, so that one addition in four waits for the one before; in double precision,
// where that cannot overflow and costs no digit of a float.
template <int Step, class T, class Acc>
void sum_row(const T* x, T* y, int64_t n, Acc acc) {
  if (Step < 0) x += n - 1, y += n - 1;
  int64_t i = 0;
  if constexpr (!std::is_same_v<T, Acc> && std::is_floating_point_v<T>) {
    for (; i + 4 <= n; i += 4) {
      const T* p = x + Step * i;
      T* q = y + Step * i;
      const Acc a = p[0], b = p[Step], c = p[2 * Step], d = p[3 * Step], ab = a + b;
      q[0] = static_cast<T>(acc + a);
      q[Step] = static_cast<T>(acc + ab);
      q[2 * Step] = static_cast<T>(acc + (ab + c));
      acc += ab + (c + d);
      q[3 * Step] = static_cast<T>(acc);
    }
  }
  for (; i < n; ++i) {
    acc += static_cast<Acc>(x[Step * i]);
    y[Step * i] = static_cast<T>(acc);
  }
}

template <int Step, class Acc, class T>
void sum_rows(const T* in, T* out, Shape s) {
  parallel::parallel_ranges(s.outer, std::max<int64_t>(1, kGrain / s.n),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t o = begin; o < end; ++o)
                                sum_row<Step>(in + o * s.n, out + o * s.n, s.n, Acc(0));
                            });
}

template <class T, class Acc, class Step>
void scan_with(const T* in, T* out, Shape s, Acc start, bool from_end, Step&& step) {
  each_strip(s, [&](int64_t o, int64_t first, int64_t lanes) {
    Acc acc[kTile];
    std::fill_n(acc, lanes, start);
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t i = from_end ? s.n - 1 - k : k;
      const int64_t at = (o * s.n + i) * s.inner + first;
      for (int64_t j = 0; j < lanes; ++j) {
        acc[j] = step(acc[j], static_cast<Acc>(in[at + j]));
        out[at + j] = static_cast<T>(acc[j]);
      }
    }
  });
}

template <class T, class Acc>
void run_typed(Kind kind, const char* in, char* out, Shape s) {
  const T* x = reinterpret_cast<const T*>(in);
  T* y = reinterpret_cast<T*>(out);
  const bool from_end = kind == SumFromEnd;
  if (kind == Sum || from_end) {
    if (s.inner > 1)
      return scan_with(x, y, s, Acc(0), from_end, [](Acc a, Acc b) { return a + b; });
    return from_end ? sum_rows<-1, Acc>(x, y, s) : sum_rows<1, Acc>(x, y, s);
  }
  if (kind == Prod) return scan_with(x, y, s, Acc(1), false, [](Acc a, Acc b) { return a * b; });
  if constexpr (std::is_floating_point_v<T>) {
    scan_with(x, y, s, -std::numeric_limits<Acc>::infinity(), false, log_add);
  } else if constexpr (!std::is_integral_v<T>) {
    scan_with(x, y, s, Acc(-std::numeric_limits<double>::infinity()), false,
              [](Acc a, Acc b) { return adjoint::log_add(b, a); });
  }
}

// Whether b takes the place of a; `Equal`: also where they are equal.
template <class T, bool Equal>
bool replaces(bool largest, T b, T a) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return Equal || a == a;
    if (a != a) return false;
  }
  if (Equal && b == a) return true;
  return largest ? b > a : b < a;
}

template <class T>
void running_typed(bool largest, const char* in, char* out, int64_t* index, Shape s) {
  const T* x = reinterpret_cast<const T*>(in);
  T* y = reinterpret_cast<T*>(out);
  each_strip(s, [&](int64_t o, int64_t first, int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) {
      int64_t best = 0;
      const int64_t base = o * s.n * s.inner + first + j;
      for (int64_t i = 0; i < s.n; ++i) {
        const int64_t at = base + i * s.inner;
        if (replaces<T, true>(largest, x[at], x[base + best * s.inner])) best = i;
        y[at] = x[base + best * s.inner];
        index[at] = best;
      }
    }
  });
}

constexpr int64_t kBlock = 4096;

// Along contiguous memory: the vector loops find the best block, a search the place in it.
template <class T>
int64_t find_in_row(bool largest, DType d, const T* x, int64_t n) {
  if (n < 16) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) best = replaces<T, false>(largest, x[i], x[best]) ? i : best;
    return best;
  }
  reduce::Row row = reduce::loops(largest ? reduce::Max : reduce::Min, d).row;
  T best{}, here;
  int64_t block = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    row(x + at, std::min(kBlock, n - at), &here, nullptr);
    if (at == 0 || replaces<T, false>(largest, here, best)) {
      best = here;
      block = at;
    }
    if (best != best) break;
  }
  int64_t i = block;
  while (!(x[i] == best || (best != best && x[i] != x[i]))) ++i;
  return i;
}

template <class T>
void find_typed(bool largest, DType d, const char* in, int64_t* index, Shape s) {
  const T* x = reinterpret_cast<const T*>(in);
  if (s.inner == 1) {
    parallel::parallel_ranges(s.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.n)),
                              [&](int64_t begin, int64_t end) {
                                for (int64_t o = begin; o < end; ++o)
                                  index[o] = find_in_row(largest, d, x + o * s.n, s.n);
                              });
    return;
  }
  each_strip(s, [&](int64_t o, int64_t first, int64_t lanes) {
    T best[kTile];
    int64_t* place = index + o * s.inner + first;
    const T* p = x + o * s.n * s.inner + first;
    std::copy_n(p, lanes, best);
    std::fill_n(place, lanes, 0);
    for (int64_t i = 1; i < s.n; ++i) {
      const T* row = p + i * s.inner;
      for (int64_t j = 0; j < lanes; ++j) {
        const bool take = replaces<T, false>(largest, row[j], best[j]);
        best[j] = take ? row[j] : best[j];
        place[j] = take ? i : place[j];
      }
    }
  });
}

// Bits are compared as bytes.
template <class F>
void for_real(DType d, F&& f) {
  with_real_type(d, [&]<class T>(T) {
    f(std::conditional_t<std::is_same_v<T, bool>, uint8_t, ComputeType<T>>{});
  });
}

}  // namespace

void run(Kind kind, DType d, const char* in, char* out, Shape s) {
  if (s.outer * s.n * s.inner == 0) return;
  switch (d) {
    case DType::Float32:
      return run_typed<float, double>(kind, in, out, s);
    case DType::Float64:
      return run_typed<double, double>(kind, in, out, s);
    case DType::Complex64:
      return run_typed<complex64_t, complex128_t>(kind, in, out, s);
    case DType::Complex128:
      return run_typed<complex128_t, complex128_t>(kind, in, out, s);
    default:
      return run_typed<uint64_t, uint64_t>(kind, in, out, s);  // wraps around
  }
}

void running_extremum(bool largest, DType d, const char* in, char* out, int64_t* index, Shape s) {
  if (s.outer * s.n * s.inner == 0) return;
  for_real(d, [&]<class T>(T) { running_typed<T>(largest, in, out, index, s); });
}

void find_extremum(bool largest, DType d, const char* in, int64_t* index, Shape s) {
  if (s.outer * s.inner == 0) return;
  for_real(d, [&]<class T>(T) { find_typed<T>(largest, d, in, index, s); });
}

}  // namespace adjoint::scan
