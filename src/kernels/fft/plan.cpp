// Plans are made here: stages and their roots of unity, chirps, and the cache of them.
#include "kernels/fft/plan.h"

#include <list>
#include <mutex>
#include <unordered_map>

#include "kernels/fft/factors.h"
#include "kernels/fft/line.h"
#include "kernels/fft/roots.h"
#include "kernels/kernel.h"

namespace adjoint::fft {

const TileFunctions& tile_functions() {
  static const TileFunctions functions = [] {
    TileFunctions f;
    char* p[1] = {reinterpret_cast<char*>(&f)};
    find_kernel("fft_tile_functions")->loop[static_cast<int>(DType::Float32)](p, 0);
    return f;
  }();
  return functions;
}

namespace {

// Transforms alone from this length on are cut in two: shorter ones cost less than a call does.
constexpr int64_t kLineFrom = 128;
// The longest columns of a line whose tile still fits the second level of the cache, or nearly so.
constexpr int64_t kLongestTile = 16384;

template <class T>
void append(std::vector<T>& to, Root w) {
  to.push_back(static_cast<T>(w.re));
  to.push_back(static_cast<T>(w.im));
}

// exp(-i pi k^2 / n), k = 0 .. n - 1.
template <class T>
std::vector<T> chirp_of(int64_t n) {
  const Roots roots(2 * n);
  std::vector<T> chirp;
  chirp.reserve(static_cast<size_t>(2 * n));
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < n; ++k) {
    append(chirp, roots[square]);
    square = (square + 2 * k + 1) % (2 * n);
  }
  return chirp;
}

// What the chirp's conjugate, laid out in a circle of m, is transformed to, divided by m.
template <class T, class F>
std::vector<T> spectrum_of(const std::vector<T>& chirp, int64_t m, F&& transform) {
  std::vector<T> circle(static_cast<size_t>(2 * m)), spectrum(static_cast<size_t>(2 * m));
  const auto n = static_cast<int64_t>(chirp.size() / 2);
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t at : {k, (m - k) % m}) {
      circle[static_cast<size_t>(2 * at)] = chirp[static_cast<size_t>(2 * k)];
      circle[static_cast<size_t>(2 * at + 1)] = -chirp[static_cast<size_t>(2 * k + 1)];
    }
  }
  transform(circle.data(), spectrum.data(), 1 / static_cast<T>(m));
  return spectrum;
}

template <class T>
void add_stages(TilePlan<T>& plan) {
  int64_t rest = plan.n, s = 1;
  for (int64_t r : radices(plan.n)) {
    const int64_t m = rest / r;
    Stage stage{r, m, s, static_cast<int64_t>(plan.numbers.size()), 0};
    const Roots roots(rest);
    for (int64_t p = 1; p < m; ++p) {
      for (int64_t k = 1; k < r; ++k) append(plan.numbers, roots[p * k]);
    }
    stage.matrix = static_cast<int64_t>(plan.numbers.size());
    for (int64_t k = 1; r > 8 && k <= r / 2; ++k) {
      for (int64_t j = 1; j <= r / 2; ++j) {
        const Root w = root_of_unity(j * k % r, r);
        append(plan.numbers, Root{w.re, -w.im});
      }
    }
    plan.stages.push_back(stage);
    rest = m;
    s *= r;
  }
}

template <class T>
void add_roots_between(Line<T>& line) {
  const int lanes = tile_lanes<T>();
  const Roots roots(line.n);
  line.lane_roots.resize(static_cast<size_t>(2 * lanes * line.rows));
  for (int64_t k = 0; k < line.rows; ++k) {
    T* cell = line.lane_roots.data() + 2 * lanes * k;
    for (int64_t l = 0; l < lanes; ++l) {
      const Root w = roots[k * l];
      cell[l] = static_cast<T>(w.re);
      cell[lanes + l] = static_cast<T>(w.im);
    }
  }
  for (int64_t first = 0; first < line.columns; first += lanes) {
    for (int64_t k = 0; k < line.rows; ++k) append(line.group_roots, roots[k * first]);
  }
}

}  // namespace

template <class T>
TilePlan<T>::TilePlan(int64_t length) : n(length) {
  if (!wants_convolution(n)) {
    add_stages(*this);
    return;
  }
  const int64_t m = good_length(2 * n - 1);
  inner = plan_for<TilePlan>(m);
  chirp = chirp_of<T>(n);
  spectrum = spectrum_of(chirp, m, [&](const T* in, T* out, T scale) {
    Failed failed;
    Scratch<T> scratch(2 * tile_cells(*inner) * 2 * tile_lanes<T>(), failed);
    failed.check();
    const int64_t lane = 0;
    run_tile(TileJob<T>{.plan = inner.get(),
                        .in = {in, &lane, 2, 1},
                        .out = {out, &lane, 2, 1},
                        .lanes = 1,
                        .swap_in = false,
                        .swap_out = false,
                        .scale = scale,
                        .scratch = scratch.get()});
  });
}

template <class T>
size_t TilePlan<T>::bytes() const {
  return (numbers.size() + chirp.size() + spectrum.size()) * sizeof(T);
}

template <class T>
Line<T>::Line(int64_t length) : n(length) {
  rows = balanced_divisor(n);
  columns = n / rows;
  if (columns <= 8 * rows || (rows >= 4 && columns <= kLongestTile)) {
    down = plan_for<TilePlan<T>>(rows);
    across = plan_for<TilePlan<T>>(columns);
    add_roots_between(*this);
    return;
  }
  const int64_t m = good_length(2 * n - 1);
  inner = plan_for<Line>(m);
  chirp = chirp_of<T>(n);
  spectrum = spectrum_of(chirp, m, [&](const T* in, T* out, T scale) {
    Failed failed;
    Scratch<T> scratch(2 * line_scratch(*inner), failed);
    failed.check();
    run_line<T>(*inner, {in, 2, 1}, {out, 2, 1}, false, scale, scratch.get(), failed);
    failed.check();
  });
}

template <class T>
size_t Line<T>::bytes() const {
  return (lane_roots.size() + group_roots.size() + chirp.size() + spectrum.size()) * sizeof(T);
}

template <class T>
RealRoots<T>::RealRoots(int64_t n) {
  const Roots all(n);
  roots.reserve(static_cast<size_t>(n / 2 + 2));
  for (int64_t k = 0; k <= n / 4; ++k) append(roots, all[k]);
}

bool better_as_line(int64_t n) {
  return n >= kLineFrom || (n > kLineFrom / 2 && balanced_divisor(n) < 4);
}

// --- the cache -----------------------------------------------------------------------------------
namespace {

constexpr size_t kCacheBytes = size_t{64} << 20;

template <class P>
struct Cache {
  std::mutex lock;
  std::list<std::pair<int64_t, std::shared_ptr<const P>>> plans;  // the latest first
  std::unordered_map<int64_t, typename decltype(plans)::iterator> places;
  size_t bytes = 0;

  std::shared_ptr<const P> find(int64_t n) {
    std::lock_guard<std::mutex> hold(lock);
    auto found = places.find(n);
    if (found == places.end()) return nullptr;
    plans.splice(plans.begin(), plans, found->second);
    return found->second->second;
  }
  void keep(int64_t n, const std::shared_ptr<const P>& plan) {
    std::lock_guard<std::mutex> hold(lock);
    if (places.count(n)) return;
    plans.emplace_front(n, plan);
    places[n] = plans.begin();
    bytes += plan->bytes() + sizeof(P);
    while (bytes > kCacheBytes && plans.size() > 1) {
      bytes -= plans.back().second->bytes() + sizeof(P);
      places.erase(plans.back().first);
      plans.pop_back();
    }
  }
};

template <class P>
Cache<P>& cache_of() {
  static auto* cache = new Cache<P>;  // never destroyed: threads may outlive statics
  return *cache;
}

}  // namespace

template <class P>
std::shared_ptr<const P> plan_for(int64_t n) {
  Cache<P>& cache = cache_of<P>();
  if (auto found = cache.find(n)) return found;
  auto made = std::make_shared<const P>(n);
  cache.keep(n, made);
  return made;
}

#define INSTANTIATE(T)                                                        \
  template struct TilePlan<T>;                                                \
  template struct Line<T>;                                                    \
  template struct RealRoots<T>;                                               \
  template std::shared_ptr<const TilePlan<T>> plan_for<TilePlan<T>>(int64_t); \
  template std::shared_ptr<const Line<T>> plan_for<Line<T>>(int64_t);         \
  template std::shared_ptr<const RealRoots<T>> plan_for<RealRoots<T>>(int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace adjoint::fft
