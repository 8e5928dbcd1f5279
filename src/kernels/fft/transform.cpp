// Transforms along one axis: cuts an array into tiles, or into single lines where there are too few
// transforms to fill a tile, or where they are too long for one. See transform.h.
#include "kernels/fft/transform.h"

#include <algorithm>

#include "kernels/fft/line.h"
#include "parallel/pool.h"

namespace adjoint::fft {
namespace {

constexpr int kMaxLanes = 64;
constexpr int64_t kLongestBatchedTile = 4096;  // cells: two tiles of them fit the cache
constexpr int64_t kNumbersPerChunk = 1 << 15;  // of work that a thread takes at a time

// A whole call in numbers of type T, of which a complex element has two.
template <class T>
struct Work {
  Kind kind;
  bool inverse;
  int64_t n, cells;
  bool even;
  T scale;
  const T* in;
  T* out;
  int64_t in_step, out_step;
  std::vector<Loop> loops;
  int64_t transforms = 1;

  explicit Work(const Axis& a)
      : kind(a.kind),
        inverse(a.inverse),
        n(a.n),
        cells(a.kind == Kind::Complex || a.n % 2 ? a.n : a.n / 2),
        even(a.n % 2 == 0),
        scale(static_cast<T>(a.scale)),
        in(reinterpret_cast<const T*>(a.in)),
        out(reinterpret_cast<T*>(a.out)) {
    const int64_t from = a.kind == Kind::Forward ? 1 : 2, to = a.kind == Kind::Back ? 1 : 2;
    in_step = from * a.in_stride;
    out_step = to * a.out_stride;
    for (Loop l : a.loops) {
      if (l.size == 1) continue;
      transforms *= l.size;
      l.in_stride *= from;
      l.out_stride *= to;
      // Axes that lie in memory as one are one.
      if (!loops.empty() && loops.back().in_stride == l.size * l.in_stride &&
          loops.back().out_stride == l.size * l.out_stride) {
        loops.back() = {loops.back().size * l.size, l.in_stride, l.out_stride};
      } else {
        loops.push_back(l);
      }
    }
  }
};

// Where transform number `first` and the `count` - 1 after it start.
void starts(const std::vector<Loop>& loops, int64_t first, int count, int64_t* in, int64_t* out) {
  if (loops.empty()) {
    in[0] = out[0] = 0;
    return;
  }
  const Loop& inner = loops.back();
  int64_t at = first % inner.size, rest = first / inner.size;
  int64_t from = at * inner.in_stride, to = at * inner.out_stride;
  for (auto l = loops.rbegin() + 1; l != loops.rend(); ++l) {
    from += rest % l->size * l->in_stride;
    to += rest % l->size * l->out_stride;
    rest /= l->size;
  }
  for (int i = 0; i < count; ++i) {
    in[i] = from;
    out[i] = to;
    from += inner.in_stride;
    to += inner.out_stride;
    if (++at == inner.size && i + 1 < count)
      return starts(loops, first + i + 1, count - i - 1, in + i + 1, out + i + 1);
  }
}

// --- tiles ---------------------------------------------------------------------------------------
template <class T>
void in_tiles(const Work<T>& w) {
  const auto plan = plan_for<TilePlan<T>>(w.cells);
  const bool half = w.kind != Kind::Complex && w.even;
  const auto roots = half ? plan_for<RealRoots<T>>(w.n) : nullptr;
  TileJob<T> job{.plan = plan.get(),
                 .in = {w.in, nullptr, w.in_step, 1},
                 .out = {w.out, nullptr, w.out_step, 1},
                 .lanes = 0,
                 .swap_in = w.kind == Kind::Back || w.inverse,
                 .swap_out = w.kind == Kind::Back || w.inverse,
                 .scale = w.scale,
                 .scratch = nullptr};
  if (half) job.real_roots = roots->roots.data();
  if (w.kind == Kind::Forward) {
    job.write = w.even ? Form::HalfEven : Form::HalfOdd;
    job.in.imag = w.even ? w.in_step : 0;
    job.in.step = w.even ? 2 * w.in_step : w.in_step;
  } else if (w.kind == Kind::Back) {
    job.read = w.even ? Form::HalfEven : Form::HalfOdd;
    job.out.imag = w.even ? w.out_step : 0;
    job.out.step = w.even ? 2 * w.out_step : w.out_step;
  }
  // Tiles end where the innermost loop does if it is long: then lanes follow one another in memory.
  const int lanes = tile_lanes<T>();
  const int64_t inner = w.loops.empty() ? 1 : w.loops.back().size;
  const int64_t run = inner >= lanes ? inner : w.transforms;
  const int64_t tiles_per_run = (run - 1) / lanes + 1, tiles = w.transforms / run * tiles_per_run;
  const int64_t grain = std::max<int64_t>(1, kNumbersPerChunk / (lanes * plan->cells()));
  const int64_t numbers = 2 * tile_cells(*plan) * 2 * lanes;
  Failed failed;
  parallel::parallel_ranges(tiles, grain, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch(numbers, failed);
    if (!scratch) return;
    int64_t in[kMaxLanes], out[kMaxLanes], next[kMaxLanes];
    TileJob<T> j = job;
    j.scratch = scratch.get();
    j.in.lane = in;
    j.out.lane = out;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t within = i % tiles_per_run * lanes;
      j.lanes = static_cast<int>(std::min<int64_t>(lanes, run - within));
      starts(w.loops, i / tiles_per_run * run + within, j.lanes, in, out);
      j.next = nullptr;
      if (i + 1 < end && within + 2 * lanes <= inner) {
        for (int l = 0; l < lanes; ++l) next[l] = in[l] + lanes * w.loops.back().in_stride;
        j.next = next;
      }
      run_tile(j);
    }
  });
  failed.check();
}

// --- lines ---------------------------------------------------------------------------------------
// The same as in kernels/isa/fft.cpp, for one signal: read pairs_to_half there.
template <class T>
void pairs_to_half(const T* z, int64_t h, T* out, int64_t step, T scale, const T* roots) {
  T *first = out, *last = out + h * step;
  const T re = z[0], im = z[1];
  first[0] = (re + im) * scale;
  last[0] = (re - im) * scale;
  first[1] = last[1] = 0;
  const T factor = scale / 2;
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const T *a = z + 2 * k, *b = z + 2 * (h - k), *w = roots + 2 * k;
    const T even_re = a[0] + b[0], even_im = a[1] - b[1];
    const T odd_re = a[1] + b[1], odd_im = b[0] - a[0];
    const T turn_re = odd_re * w[0] - odd_im * w[1], turn_im = odd_re * w[1] + odd_im * w[0];
    T *low = out + k * step, *high = out + (h - k) * step;
    low[0] = (even_re + turn_re) * factor;
    low[1] = (even_im + turn_im) * factor;
    high[0] = (even_re - turn_re) * factor;
    high[1] = (turn_im - even_im) * factor;
  }
}

template <class T>
void half_to_pairs(const T* in, int64_t step, int64_t h, T* z, const T* roots) {
  const T first = in[0], last = in[h * step];
  z[0] = first + last;
  z[1] = first - last;
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const T *a = in + k * step, *b = in + (h - k) * step, *w = roots + 2 * k;
    const T even_re = a[0] + b[0], even_im = a[1] - b[1];
    const T re = a[0] - b[0], im = a[1] + b[1];
    const T odd_re = re * w[0] + im * w[1], odd_im = im * w[0] - re * w[1];
    z[2 * k] = even_re - odd_im;
    z[2 * k + 1] = even_im + odd_re;
    z[2 * (h - k)] = even_re + odd_im;
    z[2 * (h - k) + 1] = odd_re - even_im;
  }
}

template <class T>
struct LineJob {
  const Work<T>& w;
  const Line<T>& line;
  const T* roots;
  Failed& failed;

  void run(const T* in, T* out, T* scratch) const {
    const int64_t cells = w.cells;
    if (w.kind == Kind::Complex) {
      run_line<T>(line, {in, w.in_step, 1}, {out, w.out_step, 1}, w.inverse, w.scale, scratch,
                  failed);
      return;
    }
    T *signal = scratch, *rest = scratch + 2 * cells;
    if (w.kind == Kind::Forward) {
      const Strip<const T> from =
          w.even ? Strip<const T>{in, 2 * w.in_step, w.in_step} : Strip<const T>{in, w.in_step, 0};
      run_line<T>(line, from, {signal, 2, 1}, false, w.even ? T(1) : w.scale, rest, failed);
      if (w.even) return pairs_to_half(signal, cells, out, w.out_step, w.scale, roots);
      for (int64_t k = 0; k <= cells / 2; ++k) {
        out[k * w.out_step] = signal[2 * k];
        out[k * w.out_step + 1] = signal[2 * k + 1];
      }
      return;
    }
    if (w.even) {
      half_to_pairs(in, w.in_step, cells, signal, roots);
    } else {
      signal[0] = in[0];
      signal[1] = 0;
      for (int64_t k = 1; 2 * k < cells; ++k) {
        const T* p = in + k * w.in_step;
        signal[2 * k] = signal[2 * (cells - k)] = p[0];
        signal[2 * k + 1] = p[1];
        signal[2 * (cells - k) + 1] = -p[1];
      }
    }
    const Strip<T> to =
        w.even ? Strip<T>{out, 2 * w.out_step, w.out_step} : Strip<T>{out, w.out_step, 0};
    run_line<T>(line, {signal, 2, 1}, to, true, w.scale, rest, failed);
  }
};

template <class T>
void in_lines(const Work<T>& w) {
  const auto line = plan_for<Line<T>>(w.cells);
  const bool half = w.kind != Kind::Complex && w.even;
  const auto roots = half ? plan_for<RealRoots<T>>(w.n) : nullptr;
  Failed failed;
  const LineJob<T> job{w, *line, half ? roots->roots.data() : nullptr, failed};
  const int64_t numbers = 2 * (line_scratch(*line) + (w.kind == Kind::Complex ? 0 : w.cells));
  auto one = [&](int64_t i) {
    int64_t in, out;
    starts(w.loops, i, 1, &in, &out);
    Scratch<T> scratch(numbers, failed);
    if (scratch) job.run(w.in + in, w.out + out, scratch.get());
  };
  // A few: one after the other, each on all threads. Many: each thread takes its own.
  if (w.transforms < 2 * parallel::get_num_threads()) {
    for (int64_t i = 0; i < w.transforms; ++i) one(i);
  } else {
    parallel::parallel_for(w.transforms, one);
  }
  failed.check();
}

template <class T>
void transform_as(const Axis& axis) {
  const Work<T> w(axis);
  const bool few = 2 * w.transforms < tile_lanes<T>();
  if (better_as_line(w.cells) && (few || w.cells > kLongestBatchedTile)) {
    in_lines(w);
  } else {
    in_tiles(w);
  }
}

}  // namespace

void transform(const Axis& axis) {
  axis.is_double ? transform_as<double>(axis) : transform_as<float>(axis);
}

}  // namespace adjoint::fft
