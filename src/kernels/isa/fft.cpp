// Transforms of a tile, once per instruction set: see fft/plan.h for what a tile is, fft/tile.h for
// what a job says, fft/butterflies.h for the arithmetic.
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
void run_stages(const TilePlan<T>& plan, Tiles<T>& t) {
  const T* numbers = plan.numbers.data();
  for (const fft::Stage& stage : plan.stages) {
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
}

// Bluestein: a convolution with a chirp. The transform back swaps real and imaginary parts.
template <class T>
void run_convolution(const TilePlan<T>& plan, Tiles<T>& t) {
  using V = VecOf<T>;
  const int64_t n = plan.n, m = plan.inner->n;
  const T *chirp = plan.chirp.data(), *spectrum = plan.spectrum.data();
  for (int64_t k = 0; k < n; ++k)
    set_cell<V>(t.now, k, cell_at<V>(t.now, k) * number_at<V>(chirp, k));
  for (int64_t k = n; k < m; ++k) set_cell<V>(t.now, k, Cell<V>{});
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
  const Cell<V> z = cell_at<V>(t.now, 0);
  set_cell<V>(t.next, 0, Cell<V>{z.re + z.im, V{}});
  set_cell<V>(t.next, h, Cell<V>{z.re - z.im, V{}});
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Cell<V> a = cell_at<V>(t.now, k), b = cell_at<V>(t.now, h - k);
    const Cell<V> even{T(0.5) * (a.re + b.re), T(0.5) * (a.im - b.im)};
    const Cell<V> odd{T(0.5) * (a.im + b.im), T(0.5) * (b.re - a.re)};
    const Cell<V> turn = odd * number_at<V>(roots, k);
    set_cell<V>(t.next, k, even + turn);
    set_cell<V>(t.next, h - k, Cell<V>{even.re - turn.re, turn.im - even.im});
  }
  t.turn();
}

// The way back, with parts swapped for the inverse transform and twice the size. What the ends have
// of imaginary parts does not count.
template <class T>
void half_to_pairs(int64_t h, Tiles<T>& t, const T* roots) {
  using V = VecOf<T>;
  const V first = cell_at<V>(t.now, 0).re, last = cell_at<V>(t.now, h).re;
  set_cell<V>(t.next, 0, Cell<V>{first - last, first + last});
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Cell<V> a = cell_at<V>(t.now, k), b = cell_at<V>(t.now, h - k),
                  w = number_at<V>(roots, k);
    const Cell<V> even{a.re + b.re, a.im - b.im};
    const Cell<V> odd = Cell<V>{a.re - b.re, a.im + b.im} * Cell<V>{w.re, -w.im};
    set_cell<V>(t.next, k, Cell<V>{even.im + odd.re, even.re - odd.im});
    set_cell<V>(t.next, h - k, Cell<V>{odd.re - even.im, even.re + odd.im});
  }
  t.turn();
}

// An odd number of elements: the whole spectrum, by its symmetry.
template <class T>
void mirror(int64_t n, T* tile) {
  using V = VecOf<T>;
  set_cell<V>(tile, 0, Cell<V>{V{}, cell_at<V>(tile, 0).im});  // parts are swapped
  for (int64_t k = 1; 2 * k < n; ++k) {
    const Cell<V> c = cell_at<V>(tile, k);
    set_cell<V>(tile, n - k, Cell<V>{-c.re, c.im});
  }
}

template <class T>
void multiply(const TileJob<T>& j, T* tile) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  for (int64_t k = 0; k < j.plan->n; ++k) {
    const T* p = j.lane_roots + 2 * W * k;
    const Cell<V> lane{load<T, V>(p), load<T, V>(p + W)};
    set_cell<V>(tile, k, cell_at<V>(tile, k) * (lane * number_at<V>(j.group_roots, k)));
  }
}

template <class T>
void run(const TileJob<T>& j) {
  const TilePlan<T>& plan = *j.plan;
  const int64_t n = plan.n;
  const int64_t cells = fft::tile_cells(plan, true) * 2 * kLanes<VecOf<T>>;
  Tiles<T> t{j.scratch, j.scratch + cells};
  if (j.read == Form::HalfEven) {
    read_cells<T, false>(j.in, j.lanes, t.now, n + 1);
    half_to_pairs(n, t, j.real_roots);
  } else {
    const int64_t given = j.read == Form::HalfOdd ? n / 2 + 1 : n;
    j.swap_in ? read_cells<T, true>(j.in, j.lanes, t.now, given)
              : read_cells<T, false>(j.in, j.lanes, t.now, given);
    if (j.read == Form::HalfOdd) mirror(n, t.now);
  }
  plan.inner ? run_convolution(plan, t) : run_stages(plan, t);
  int64_t wanted = n;
  if (j.write == Form::HalfEven) {
    pairs_to_half(n, t, j.real_roots);
    wanted = n + 1;
  } else if (j.write == Form::HalfOdd) {
    wanted = n / 2 + 1;
  }
  if (j.lane_roots) multiply(j, t.now);
  j.swap_out ? write_cells<T, true>(j.out, j.lanes, t.now, wanted, j.scale)
             : write_cells<T, false>(j.out, j.lanes, t.now, wanted, j.scale);
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
