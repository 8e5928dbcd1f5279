// The same elements and weights as in kernels/isa/sample.cpp, as tensors. Read that first.
#include "ops/nn/grid_sample_rules.h"

namespace adjoint {

grid::Settings grid_settings(const Value& mode, const Value& padding, const Value& align_corners) {
  return {static_cast<int>(mode.integer()), static_cast<int>(padding.integer()),
          align_corners.boolean()};
}

namespace {

using T = const Tensor&;
using C = Context&;
using grid::Settings;

Tensor chosen(const Value& where, const Value& yes, const Value& no) {
  return op<"where">(where, yes, no);
}

// One of the elements of an axis that a place is made of, for all places.
struct Tap {
  Tensor at, seen;       // int64, in range everywhere; which of them are inside
  Tensor weight, slope;  // a slope of nothing is undefined
};

// A coordinate in elements, and how it moves with the grid's.
struct Coordinate {
  Tensor x, slope;
};

Coordinate clipped(Coordinate c, int64_t size) {
  const double last = static_cast<double>(size - 1);
  Tensor outside = op<"logical_or">(op<"le">(c.x, 0.0), op<"ge">(c.x, last));
  return {op<"clamp">(c.x, 0.0, last), op<"masked_fill">(c.slope, outside, 0.0)};
}

Coordinate mirrored(Coordinate c, int64_t size, bool align_corners) {
  const double low = align_corners ? 0.0 : -0.5;
  const double span = static_cast<double>(align_corners ? size - 1 : size);
  if (span == 0) return {op<"mul">(c.x, 0.0), op<"mul">(c.slope, 0.0)};
  Tensor x = c.x - low, slope = chosen(op<"lt">(x, 0.0), -c.slope, c.slope);
  x = op<"abs">(x);
  Tensor extra = op<"fmod">(x, span);
  Tensor even = op<"eq">(op<"fmod">(op<"floor">(x / span), 2.0), 0.0);
  Tensor back = op<"rsub">(extra, span);
  return {chosen(even, extra, back) + low, chosen(even, slope, -slope)};
}

Coordinate inside(Coordinate c, int64_t size, const Settings& how) {
  if (how.padding == grid::Border) c = clipped(c, size);
  if (how.padding == grid::Reflection) c = clipped(mirrored(c, size, how.align_corners), size);
  return c;
}

// Where no integer reaches and where there is no number.
Tensor reachable(T x) {
  Tensor near = op<"lt">(op<"abs">(x), static_cast<double>(1 << 30));
  return chosen(near, x, -100.0);
}

Tap tap_at(T place, T weight, T slope, int64_t size) {
  GradMode off(false);
  Tensor at = op<"_to_copy">(place, DType::Int64);
  Tensor seen = op<"logical_and">(op<"ge">(at, 0), op<"lt">(at, size));
  return {op<"clamp">(at, 0, size - 1), seen, weight, slope};
}

// Results without a history: whole numbers and constants, which do not move.
Tensor floored(T x) {
  GradMode off(false);
  return op<"floor">(x);
}
Tensor rounded(T x) {
  GradMode off(false);
  return op<"round">(x);
}
Tensor constant(T like, double value) {
  GradMode off(false);
  return op<"full_like">(like, value);
}

// An element, not a place between some, brought inside.
Tensor element(T before, int k, int64_t size, const Settings& how) {
  GradMode off(false);
  return reachable(inside({before + static_cast<double>(k), before}, size, how).x);
}

std::vector<Tap> cubic_taps(const Coordinate& c, int64_t size, const Settings& how) {
  const double a = -0.75;
  Tensor x = reachable(c.x), before = floored(x), t = x - before;
  auto near = [&](T u) -> Tensor { return (u * (a + 2) - (a + 3)) * u * u + 1.0; };
  auto far = [&](T u) -> Tensor { return ((u * a - 5 * a) * u + 8 * a) * u - 4 * a; };
  auto near_slope = [&](T u) -> Tensor { return (u * (3 * (a + 2)) - 2 * (a + 3)) * u; };
  auto far_slope = [&](T u) -> Tensor { return (u * (3 * a) - 10 * a) * u + 8 * a; };
  Tensor past = t + 1.0, rest = op<"rsub">(t, 1.0), over = op<"rsub">(t, 2.0);
  const Tensor weight[4] = {far(past), near(t), near(rest), far(over)};
  const Tensor slope[4] = {far_slope(past), near_slope(t), -near_slope(rest), -far_slope(over)};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k) {
    taps.push_back(tap_at(element(before, k - 1, size, how), weight[k], slope[k] * c.slope, size));
  }
  return taps;
}

std::vector<Tap> taps_of(T grid, int64_t size, const Settings& how) {
  const double n = static_cast<double>(size);
  Coordinate c;
  const double step = how.align_corners ? (n - 1) / 2 : n / 2;
  c.x = how.align_corners ? (grid + 1.0) / 2.0 * (n - 1) : ((grid + 1.0) * n - 1.0) / 2.0;
  c.slope = constant(grid, step);
  if (how.mode == grid::Bicubic) return cubic_taps(c, size, how);
  c = inside(c, size, how);
  Tensor x = reachable(c.x);
  if (how.mode == grid::Nearest) return {tap_at(rounded(x), constant(x, 1.0), {}, size)};
  Tensor before = floored(x), t = x - before;
  return {tap_at(before, op<"rsub">(t, 1.0), -c.slope, size),
          tap_at(before + 1.0, t, c.slope, size)};
}

// All combinations of taps of the axes, one after the other.
struct Lookup {
  Tensor input;                        // [N, C, elements]
  Dims size;                           // of the input's axes
  std::vector<std::vector<Tap>> axes;  // the last axis of the input first

  explicit Lookup(C c) {
    Tensor whole = c.in(0), grid = c.in(1);
    const Settings how = grid_settings(c.in(2), c.in(3), c.in(4));
    size = Dims(Span{whole->shape + 2, whole.ndim() - 2});
    input = op<"flatten">(whole, 2, -1);
    for (int a = 0; a < size.size(); ++a) {
      Tensor one = op<"flatten">(op<"select">(grid, -1, a), 1, -1);
      axes.push_back(taps_of(one, size[size.size() - 1 - a], how));
    }
  }

  // f(places, weights without the slope of axis `of` (-1: of none)) for each combination; weights of
  // what is outside are zero.
  template <class F>
  void each(int of, F&& f) const {
    const int n = static_cast<int>(axes.size()), each = static_cast<int>(axes[0].size());
    int total = 1;
    for (int a = 0; a < n; ++a) total *= each;
    for (int k = 0; k < total; ++k) {
      Tensor at, seen, weight;
      int left = k;
      int64_t stride = 1;
      for (int a = 0; a < n; ++a, left /= each) {
        const Tap& t = axes[a][left % each];
        T w = a == of ? t.slope : t.weight;
        Tensor place = stride == 1 ? t.at : op<"mul">(t.at, stride).tensor();
        at = at ? at + place : place;
        seen = seen ? op<"logical_and">(seen, t.seen).tensor() : t.seen;
        weight = weight ? weight * w : w;
        stride *= size[size.size() - 1 - a];
      }
      f(at, chosen(seen, weight, 0.0));
    }
  }

  // Elements of all channels at the places of one combination: [N, C, P].
  Tensor picked(T from, T at) const { return op<"gather">(from, 2, spread(at)); }
  Tensor spread(T at) const {
    Dims shape{at.size(0), input.size(1), at.size(1)};
    return op<"expand">(op<"unsqueeze">(at, 1), shape);
  }
};

Tensor over_channels(T w) { return op<"unsqueeze">(w, 1); }

bool has_slopes(C c) { return c.in(2).integer() != grid::Nearest; }

}  // namespace

void grid_sample_gradients(C c, Tensor* grads) {
  Lookup look(c);
  Tensor g = op<"flatten">(c.grad(), 2, -1), grid = c.in(1);
  if (c.needs(0)) {
    Tensor sum = op<"zeros_like">(look.input);
    look.each(-1, [&](T at, T w) {
      sum = op<"scatter_add">(sum, 2, look.spread(at), g * over_channels(w));
    });
    grads[0] = op<"reshape">(sum, c.in(0).tensor().shape());
  }
  if (!c.needs(1)) return;
  if (!has_slopes(c)) {
    grads[1] = op<"zeros_like">(grid);
    return;
  }
  Tensors parts;
  for (int a = 0; a < look.size.size(); ++a) {
    Tensor sum;
    look.each(a, [&](T at, T w) {
      Tensor part = op<"sum">(g * look.picked(look.input, at), Dims{1}).tensor() * w;
      sum = sum ? sum + part : part;
    });
    parts.push_back(sum);
  }
  grads[1] = op<"reshape">(op<"stack">(parts, -1), grid.shape());
}

Value grid_sample_tangent(C c, const Tensor* t) {
  Lookup look(c);
  Tensor sum;
  auto add = [&](T part) { sum = sum ? sum + part : part; };
  if (t[0]) {
    Tensor moved = op<"flatten">(t[0], 2, -1);
    look.each(-1, [&](T at, T w) { add(look.picked(moved, at) * over_channels(w)); });
  }
  for (int a = 0; t[1] && has_slopes(c) && a < look.size.size(); ++a) {
    Tensor moved = op<"flatten">(op<"select">(t[1], -1, a), 1, -1);
    look.each(a, [&](T at, T w) { add(look.picked(look.input, at) * over_channels(w * moved)); });
  }
  if (!sum) return op<"zeros_like">(c.out());
  return op<"reshape">(sum, c.out().shape());
}

}  // namespace adjoint
