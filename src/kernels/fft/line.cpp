// One long transform of n = rows * columns elements, seen as a matrix: its columns are transformed,
// multiplied by roots of unity, and then its rows. Both are tiles of short transforms. With large
// prime factors: Bluestein's algorithm, over another line.
#include "kernels/fft/line.h"

#include <utility>

#include "parallel/pool.h"

namespace adjoint::fft {
namespace {

constexpr int kMaxLanes = 64;

template <class T>
int64_t tile_numbers(const TilePlan<T>& plan) {
  return 2 * tile_cells(plan) * 2 * tile_lanes<T>();
}

// Tiles 0 .. tiles - 1, `lanes` short transforms each but the last.
template <class T, class F>
void each_tile(int64_t transforms, const TilePlan<T>& plan, Failed& failed, F&& job) {
  const int lanes = tile_lanes<T>();
  const int64_t tiles = (transforms - 1) / lanes + 1;
  const int64_t grain = 1 + (int64_t{1} << 14) / (plan.cells() * lanes);
  parallel::parallel_ranges(tiles, grain, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch(tile_numbers(plan), failed);
    if (!scratch) return;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * lanes, left = transforms - first;
      job(i, first, static_cast<int>(left < lanes ? left : lanes), scratch.get());
    }
  });
}

template <class T>
void spread(int64_t* lane, int64_t first, int lanes, int64_t gap) {
  for (int l = 0; l < lanes; ++l) lane[l] = (first + l) * gap;
}

template <class T>
void run_matrix(const Line<T>& line, Strip<const T> in, Strip<T> out, bool inverse, T scale,
                T* matrix, Failed& failed) {
  const int64_t rows = line.rows, columns = line.columns;
  each_tile(columns, *line.down, failed, [&](int64_t tile, int64_t first, int lanes, T* scratch) {
    int64_t from[kMaxLanes], to[kMaxLanes];
    spread<T>(from, first, lanes, in.step);
    spread<T>(to, first, lanes, 2);
    TileJob<T> j{.plan = line.down.get(),
                 .in = {in.base, from, columns * in.step, in.imag},
                 .out = {matrix, to, 2 * columns, 1},
                 .lanes = lanes,
                 .swap_in = inverse,
                 .swap_out = false,
                 .scratch = scratch};
    j.lane_roots = line.lane_roots.data();
    j.group_roots = line.group_roots.data() + 2 * tile * rows;
    run_tile(j);
  });
  each_tile(rows, *line.across, failed, [&](int64_t, int64_t first, int lanes, T* scratch) {
    int64_t from[kMaxLanes], to[kMaxLanes];
    spread<T>(from, first, lanes, 2 * columns);
    spread<T>(to, first, lanes, out.step);
    TileJob<T> j{.plan = line.across.get(),
                 .in = {matrix, from, 2, 1},
                 .out = {out.base, to, rows * out.step, out.imag},
                 .lanes = lanes,
                 .swap_in = false,
                 .swap_out = inverse,
                 .scale = scale,
                 .scratch = scratch};
    run_tile(j);
  });
}

// The inverse transform is the forward one with real and imaginary parts swapped.
template <class T>
void run_convolution(const Line<T>& line, Strip<const T> in, Strip<T> out, bool inverse, T scale,
                     T* scratch, Failed& failed) {
  const int64_t n = line.n, m = line.inner->n;
  T *signal = scratch, *rest = scratch + 2 * m;
  const T *chirp = line.chirp.data(), *spectrum = line.spectrum.data();
  for (int64_t k = 0; k < n; ++k) {
    const T* p = in.base + k * in.step;
    T re = p[0], im = in.imag ? p[in.imag] : 0;
    if (inverse) std::swap(re, im);
    const T c = chirp[2 * k], s = chirp[2 * k + 1];
    signal[2 * k] = re * c - im * s;
    signal[2 * k + 1] = re * s + im * c;
  }
  for (int64_t k = 2 * n; k < 2 * m; ++k) signal[k] = 0;
  const Strip<T> strip{signal, 2, 1};
  const Strip<const T> same{signal, 2, 1};
  run_line<T>(*line.inner, same, strip, false, 1, rest, failed);
  for (int64_t k = 0; k < m; ++k) {
    const T re = signal[2 * k], im = signal[2 * k + 1];
    const T c = spectrum[2 * k], s = spectrum[2 * k + 1];
    signal[2 * k] = re * c - im * s;
    signal[2 * k + 1] = re * s + im * c;
  }
  run_line<T>(*line.inner, same, strip, true, 1, rest, failed);
  for (int64_t k = 0; k < n; ++k) {
    const T c = chirp[2 * k], s = chirp[2 * k + 1];
    T re = signal[2 * k] * c - signal[2 * k + 1] * s;
    T im = signal[2 * k] * s + signal[2 * k + 1] * c;
    if (inverse) std::swap(re, im);
    T* p = out.base + k * out.step;
    p[0] = re * scale;
    if (out.imag) p[out.imag] = im * scale;
  }
}

}  // namespace

template <class T>
int64_t line_scratch(const Line<T>& line) {
  return line.inner ? line.inner->n + line_scratch(*line.inner) : line.n;
}

template <class T>
void run_line(const Line<T>& line, Strip<const T> in, Strip<T> out, bool inverse, T scale,
              T* scratch, Failed& failed) {
  line.inner ? run_convolution(line, in, out, inverse, scale, scratch, failed)
             : run_matrix(line, in, out, inverse, scale, scratch, failed);
}

template int64_t line_scratch(const Line<float>&);
template int64_t line_scratch(const Line<double>&);
template void run_line(const Line<float>&, Strip<const float>, Strip<float>, bool, float, float*,
                       Failed&);
template void run_line(const Line<double>&, Strip<const double>, Strip<double>, bool, double,
                       double*, Failed&);

}  // namespace adjoint::fft
