// Pooling by windows that lie anywhere, and planes by indices. See pool.h.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "kernels/windows/conv_geometry.h"
#include "kernels/windows/pool.h"
#include "kernels/moved_item.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kGrain = 32768;

template <class F>
void with_pool_type(DType dtype, F f) {
  if (dtype == DType::Int64) return f(int64_t{});
  if (dtype == DType::Float64) return f(double{});
  f(float{});
}

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_same_v<T, int64_t>)
    return false;
  else
    return v != v;
}

// f(place of the element) for each element of the window of q.
template <class F>
void each_element(const WindowSizes& s, const Windows3& w, const Axes3& q, F f) {
  for (int64_t a = w[0].begin[q[0]]; a < w[0].end[q[0]]; ++a)
    for (int64_t b = w[1].begin[q[1]]; b < w[1].end[q[1]]; ++b)
      for (int64_t c = w[2].begin[q[2]]; c < w[2].end[q[2]]; ++c)
        f((a * s.in[1] + b) * s.in[2] + c);
}

int64_t elements(const Windows3& w, const Axes3& q) {
  int64_t n = 1;
  for (size_t d = 0; d < 3; ++d) n *= w[d].end[q[d]] - w[d].begin[q[d]];
  return n;
}

template <class F>
void each_plane(const WindowSizes& s, F f) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max(volume(s.in), volume(s.out)));
  parallel::parallel_ranges(s.planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

}  // namespace

void max_of_windows(const WindowSizes& s, DType dtype, const Windows3& windows, const char* x,
                    char* y, int64_t* index) {
  with_pool_type(dtype, [&]<class T>(T) {
    using Limits = std::numeric_limits<T>;
    each_plane(s, [&](int64_t plane) {
      const T* from = reinterpret_cast<const T*>(x) + plane * volume(s.in);
      int64_t to = plane * volume(s.out);
      each_place(s.out, [&](const Axes3& q) {
        T best = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
        int64_t at = (windows[0].begin[q[0]] * s.in[1] + windows[1].begin[q[1]]) * s.in[2] +
                     windows[2].begin[q[2]];
        each_element(s, windows, q, [&](int64_t place) {
          const T v = from[place];
          if (v > best || is_nan(v)) best = v, at = place;
        });
        reinterpret_cast<T*>(y)[to] = best;
        index[to++] = at;
      });
    });
  });
}

void mean_of_windows(const WindowSizes& s, DType dtype, const Windows3& windows, const char* x,
                     char* y) {
  with_pool_type(dtype, [&]<class T>(T) {
    each_plane(s, [&](int64_t plane) {
      const T* from = reinterpret_cast<const T*>(x) + plane * volume(s.in);
      T* to = reinterpret_cast<T*>(y) + plane * volume(s.out);
      each_place(s.out, [&](const Axes3& q) {
        T sum = 0;
        each_element(s, windows, q, [&](int64_t place) { sum += from[place]; });
        *to++ = sum / static_cast<T>(elements(windows, q));
      });
    });
  });
}

void mean_of_windows_back(const WindowSizes& s, DType dtype, const Windows3& windows, const char* g,
                          char* dx) {
  with_pool_type(dtype, [&]<class T>(T) {
    each_plane(s, [&](int64_t plane) {
      const T* from = reinterpret_cast<const T*>(g) + plane * volume(s.out);
      T* to = reinterpret_cast<T*>(dx) + plane * volume(s.in);
      std::fill(to, to + volume(s.in), T(0));
      each_place(s.out, [&](const Axes3& q) {
        const T part = *from++ / static_cast<T>(elements(windows, q));
        each_element(s, windows, q, [&](int64_t place) { to[place] += part; });
      });
    });
  });
}

namespace {

// f(element of the list, element of the plane or -1), both counted over all planes.
template <class F>
bool each_index(const PlaneIndices& p, int64_t least, int64_t* bad, F f) {
  std::atomic<bool> ok = true;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, p.count));
  parallel::parallel_ranges(p.planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * p.count; i < end * p.count; ++i) {
      const int64_t at = p.index[i];
      if (at < least || at >= p.size) {
        if (ok.exchange(false)) *bad = at;
        return;
      }
      f(i, at < 0 ? -1 : i / p.count * p.size + at);
    }
  });
  return ok;
}

}  // namespace

bool gather_planes(const PlaneIndices& p, size_t item, const char* x, char* y, int64_t* bad) {
  bool ok = true;
  by_item_size(item, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(x);
    T* to = reinterpret_cast<T*>(y);
    ok = each_index(p, -1, bad,
                    [&](int64_t i, int64_t place) { to[i] = place < 0 ? T{} : from[place]; });
  });
  return ok;
}

bool add_to_planes(const PlaneIndices& p, DType dtype, const char* g, char* dx, int64_t* bad) {
  bool ok = true;
  const auto add = [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(g);
    T* to = reinterpret_cast<T*>(dx);
    std::fill(to, to + p.planes * p.size, T(0));
    ok = each_index(p, -1, bad, [&](int64_t i, int64_t place) {
      if (place >= 0) to[place] += from[i];
    });
  };
  if (dtype == DType::Complex64) return add(complex64_t{}), ok;
  if (dtype == DType::Complex128) return add(complex128_t{}), ok;
  return with_pool_type(dtype, add), ok;
}

bool put_into_planes(const PlaneIndices& p, size_t item, const char* g, char* dx, int64_t* bad) {
  bool ok = true;
  std::memset(dx, 0, static_cast<size_t>(p.planes * p.size) * item);
  by_item_size(item, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(g);
    T* to = reinterpret_cast<T*>(dx);
    ok = each_index(p, 0, bad, [&](int64_t i, int64_t place) { to[place] = from[i]; });
  });
  return ok;
}

}  // namespace adjoint
