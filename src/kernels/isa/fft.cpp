// Transforms of a tile, once per instruction set: see kernels/fft/plan.h for what a tile is, kernels/fft/tile.h for
// what a job says, kernels/fft/butterflies.h for the arithmetic.
#include "kernels/fft/tile_memory.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

using fft::Form;
using fft::TileJob;
using fft::TilePlan;

// Two tiles that passes read and write in turn.
template <class T>
struct Tiles {
  T *now, *next;
  void turn() { std::swap(now, next); }
};

template <class T>
void run_stage(const TilePlan<T>& plan, const fft::Stage& stage, Tiles<T>& t) {
  const T* numbers = plan.numbers.data();
  switch (stage.radix) {
    case 2:
      pass<T, 2>(t.now, t.next, stage, numbers);
      break;
    case 3:
      pass<T, 3>(t.now, t.next, stage, numbers);
      break;
    case 4:
      pass<T, 4>(t.now, t.next, stage, numbers);
      break;
    case 5:
      pass<T, 5>(t.now, t.next, stage, numbers);
      break;
    case 7:
      pass<T, 7>(t.now, t.next, stage, numbers);
      break;
    case 8:
      pass<T, 8>(t.now, t.next, stage, numbers);
      break;
    default:
      pass_of_any<T>(t.now, t.next, stage, numbers);
  }
  t.turn();
}
template <class T>
void run_stages(const TilePlan<T>& plan, Tiles<T>& t) {
  for (const fft::Stage& stage : plan.stages) run_stage(plan, stage, t);
}

// --- passes that read or write memory ------------------------------------------------------------
// The first pass on blocks of cells as they are read, the last on blocks that are written at once:
// a tile is larger than the nearest cache, a few blocks are not.
template <class T, int R>
void first_pass(const Reader<T>& in, T* y, const fft::Stage& stage, const T* numbers) {
  using V = VecOf<T>;
  constexpr int64_t B = kBlockCells<T>, cell = 2 * kLanes<V>;
  alignas(64) T blocks[R * B * cell];
  const T* roots = numbers + stage.roots - 2 * (R - 1);
  for (int64_t p = 0; p < stage.m; p += B) {
    for (int j = 0; j < R; ++j)
      in.read(blocks + j * B * cell, p + stage.m * j, p + stage.m * j + B);
    for (int64_t i = 0; i < B; ++i) {
      T* to = y + cell * R * (p + i);
      if (p + i == 0)
        step<R, false, V>(blocks, B, to, 1, nullptr);
      else
        step<R, true, V>(blocks + cell * i, B, to, 1,
                         RootsOf<R, V>(roots + 2 * (R - 1) * (p + i)).at);
    }
  }
}
template <class T, int R>
void last_pass(const T* x, const Writer<T>& out, const fft::Stage& stage) {
  using V = VecOf<T>;
  constexpr int64_t B = kBlockCells<T>, cell = 2 * kLanes<V>;
  alignas(64) T blocks[R * B * cell];
  for (int64_t q = 0; q < stage.s; q += B) {
    for (int64_t i = 0; i < B; ++i)
      step<R, false, V>(x + cell * (q + i), stage.s, blocks + cell * i, B, nullptr);
    for (int k = 0; k < R; ++k)
      out.write(blocks + k * B * cell, q + stage.s * k, q + stage.s * k + B);
  }
}

// Whether there is such a pass for the stage, and it was run.
template <class T>
bool read_first(const TilePlan<T>& plan, const Reader<T>& in, T* y) {
  const fft::Stage& stage = plan.stages.front();
  const T* numbers = plan.numbers.data();
  if (stage.m % kBlockCells<T> || plan.stages.size() < 2) return false;
  switch (stage.radix) {
    case 3:
      first_pass<T, 3>(in, y, stage, numbers);
      return true;
    case 4:
      first_pass<T, 4>(in, y, stage, numbers);
      return true;
    case 5:
      first_pass<T, 5>(in, y, stage, numbers);
      return true;
    case 8:
      first_pass<T, 8>(in, y, stage, numbers);
      return true;
    default:
      return false;
  }
}
template <class T>
bool write_last(const TilePlan<T>& plan, const T* x, const Writer<T>& out) {
  const fft::Stage& stage = plan.stages.back();
  if (stage.s % kBlockCells<T> || plan.stages.size() < 2) return false;
  switch (stage.radix) {
    case 3:
      last_pass<T, 3>(x, out, stage);
      return true;
    case 4:
      last_pass<T, 4>(x, out, stage);
      return true;
    case 5:
      last_pass<T, 5>(x, out, stage);
      return true;
    case 8:
      last_pass<T, 8>(x, out, stage);
      return true;
    default:
      return false;
  }
}

// Bluestein: a convolution with a chirp. The transform back swaps real and imaginary parts.
template <class T>
void run_convolution(const TilePlan<T>& plan, Tiles<T>& t) {
  using V = VecOf<T>;
  const int64_t n = plan.n, m = plan.inner->n;
  const T *chirp = plan.chirp.data(), *spectrum = plan.spectrum.data();
  for (int64_t k = 0; k < n; ++k)
    set_cell<V>(t.now, k, cell_at<V>(t.now, k) * number_at<V>(chirp, k));
  for (int64_t k = n; k < m; ++k) set_cell<V>(t.now, k, ComplexCell<V>{});
  run_stages(*plan.inner, t);
  for (int64_t k = 0; k < m; ++k)
    set_cell<V>(t.now, k, swapped(cell_at<V>(t.now, k) * number_at<V>(spectrum, k)));
  run_stages(*plan.inner, t);
  for (int64_t k = 0; k < n; ++k)
    set_cell<V>(t.now, k, swapped(cell_at<V>(t.now, k)) * number_at<V>(chirp, k));
}

// --- real signals --------------------------------------------------------------------------------
// Two neighbours of a real signal of 2 h numbers are a complex one. Of the transform Z of these h,
// even places have E[k] = (Z[k] + conj Z[h-k]) / 2 and odd ones O[k] = (Z[k] - conj Z[h-k]) / 2i;
// the signal's own is E[k] + w^k O[k], and at h - k its mirror image.
template <class T>
void pairs_to_half(int64_t h, Tiles<T>& t, const T* roots) {
  using V = VecOf<T>;
  const ComplexCell<V> z = cell_at<V>(t.now, 0);
  set_cell<V>(t.next, 0, ComplexCell<V>{z.re + z.im, V{}});
  set_cell<V>(t.next, h, ComplexCell<V>{z.re - z.im, V{}});
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const ComplexCell<V> a = cell_at<V>(t.now, k), b = cell_at<V>(t.now, h - k);
    const ComplexCell<V> even{T(0.5) * (a.re + b.re), T(0.5) * (a.im - b.im)};
    const ComplexCell<V> odd{T(0.5) * (a.im + b.im), T(0.5) * (b.re - a.re)};
    const ComplexCell<V> turn = odd * number_at<V>(roots, k);
    set_cell<V>(t.next, k, even + turn);
    set_cell<V>(t.next, h - k, ComplexCell<V>{even.re - turn.re, turn.im - even.im});
  }
  t.turn();
}

// The way back, with parts swapped for the inverse transform and twice the size. What the ends have
// of imaginary parts does not count.
template <class T>
void half_to_pairs(int64_t h, Tiles<T>& t, const T* roots) {
  using V = VecOf<T>;
  const V first = cell_at<V>(t.now, 0).re, last = cell_at<V>(t.now, h).re;
  set_cell<V>(t.next, 0, ComplexCell<V>{first - last, first + last});
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const ComplexCell<V> a = cell_at<V>(t.now, k), b = cell_at<V>(t.now, h - k),
                         w = number_at<V>(roots, k);
    const ComplexCell<V> even{a.re + b.re, a.im - b.im};
    const ComplexCell<V> odd =
        ComplexCell<V>{a.re - b.re, a.im + b.im} * ComplexCell<V>{w.re, -w.im};
    set_cell<V>(t.next, k, ComplexCell<V>{even.im + odd.re, even.re - odd.im});
    set_cell<V>(t.next, h - k, ComplexCell<V>{odd.re - even.im, even.re + odd.im});
  }
  t.turn();
}

// An odd number of elements: the whole spectrum, by its symmetry.
template <class T>
void mirror(int64_t n, T* tile) {
  using V = VecOf<T>;
  set_cell<V>(tile, 0, ComplexCell<V>{V{}, cell_at<V>(tile, 0).im});  // parts are swapped
  for (int64_t k = 1; 2 * k < n; ++k) {
    const ComplexCell<V> c = cell_at<V>(tile, k);
    set_cell<V>(tile, n - k, ComplexCell<V>{-c.re, c.im});
  }
}

template <class T>
void multiply(const TileJob<T>& j, T* tile) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  for (int64_t k = 0; k < j.plan->n; ++k) {
    const T* p = j.lane_roots + 2 * W * k;
    const ComplexCell<V> lane{load<T, V>(p), load<T, V>(p + W)};
    set_cell<V>(tile, k, cell_at<V>(tile, k) * (lane * number_at<V>(j.group_roots, k)));
  }
}

// Rows of a tile are more than the processor follows by itself: those that will be written, and those
// of the next tile, are asked for while this one is transformed.
template <class T>
void fetch_early(const TileJob<T>& j) {
  constexpr int64_t line = 64 / sizeof(T);
  const int64_t reach = 2 * j.plan->n;
  if (j.out.imag == 1 && j.out.step == 2)
    for (int l = 0; l < j.lanes; ++l)
      for (int64_t k = 0; k < reach; k += line)
        __builtin_prefetch(j.out.base + j.out.lane[l] + k, 1, 2);
  if (j.next && j.in.imag == 1 && j.in.step == 2)
    for (int l = 0; l < kLanes<VecOf<T>>; ++l)
      for (int64_t k = 0; k < reach; k += line) __builtin_prefetch(j.in.base + j.next[l] + k, 0, 2);
}

// Everything but the last steps for plain elements. What the stages leave is in t.now.
template <class T>
void transform(const TileJob<T>& j, Tiles<T>& t, size_t stages) {
  const TilePlan<T>& plan = *j.plan;
  const int64_t n = plan.n;
  const Reader<T> in(j.in, j.lanes, j.swap_in && j.read != Form::HalfEven);
  size_t done = 0;
  if (j.read == Form::HalfEven) {
    in.read(t.now, 0, n + 1);
    half_to_pairs(n, t, j.real_roots);
  } else if (j.read == Form::HalfOdd) {
    in.read(t.now, 0, n / 2 + 1);
    mirror(n, t.now);
  } else if (!plan.inner && stages && read_first(plan, in, t.next)) {
    t.turn();
    done = 1;
  } else {
    in.read(t.now, 0, n);
  }
  fetch_early(j);
  if (plan.inner) return run_convolution(plan, t);
  for (; done < stages; ++done) run_stage(plan, plan.stages[done], t);
}

template <class T>
void run(const TileJob<T>& j) {
  const TilePlan<T>& plan = *j.plan;
  const int64_t n = plan.n, cells = fft::tile_cells(plan) * 2 * kLanes<VecOf<T>>;
  Tiles<T> t{j.scratch, j.scratch + cells};
  const Writer<T> out(j.out, j.lanes, j.swap_out, j.scale);
  const size_t stages = plan.stages.size();
  if (j.write == Form::Plain && !j.lane_roots && stages > 1) {
    transform(j, t, stages - 1);
    if (write_last(plan, t.now, out)) return;
    run_stage(plan, plan.stages.back(), t);
  } else {
    transform(j, t, stages);
  }
  int64_t wanted = n;
  if (j.write == Form::HalfEven) {
    pairs_to_half(n, t, j.real_roots);
    wanted = n + 1;
  } else if (j.write == Form::HalfOdd) {
    wanted = n / 2 + 1;
  }
  if (j.lane_roots) multiply(j, t.now);
  out.write(t.now, 0, wanted);
}

// Handed over by way of the table of kernels, which knows what the processor can do.
void functions(char* const* p, int64_t) {
  *reinterpret_cast<fft::TileFunctions*>(p[0]) = {kLanes<f32>, kLanes<f64>, run<float>,
                                                  run<double>};
}
const LoopRegistrar registered{kIsa,         "fft_tile_functions", 0,
                               Result::Same, DType::Float32,       functions};

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
