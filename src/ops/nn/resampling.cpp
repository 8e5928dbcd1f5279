// The weights of neighbours, for each mode of resizing. Read resampling.h first.
#include "ops/nn/resampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace adjoint {

bool Band::is_identity() const {
  if (from != to || width != 1) return false;
  for (int64_t o = 0; o < to; ++o) {
    if (first[o] != o || weight[o] != 1) return false;
  }
  return true;
}

// `first` never falls, so the results that an element takes part in follow one another.
Band Band::transposed() const {
  Band t;
  t.from = to;
  t.to = from;
  t.first.assign(from, 0);
  t.count.assign(from, 0);
  for (int64_t o = 0; o < to; ++o) {
    for (int64_t k = 0; k < count[o]; ++k) {
      const int64_t i = first[o] + k;
      if (t.count[i] == 0) t.first[i] = o;
      t.count[i] = o - t.first[i] + 1;
    }
  }
  t.width = std::max<int64_t>(1, *std::max_element(t.count.begin(), t.count.end()));
  t.weight.assign(from * t.width, 0);
  for (int64_t o = 0; o < to; ++o) {
    for (int64_t k = 0; k < count[o]; ++k) {
      const int64_t i = first[o] + k;
      t.weight[i * t.width + (o - t.first[i])] += weight[o * width + k];
    }
  }
  return t;
}

namespace {

// What an element of the result is made of, put down one after the other.
class Builder {
 public:
  Builder(int64_t from, int64_t to, int64_t width) {
    band_.from = from;
    band_.to = to;
    band_.width = std::min(width, from);
    band_.first.assign(to, 0);
    band_.count.assign(to, 0);
    band_.weight.assign(to * band_.width, 0);
  }
  // Elements beyond the ends count as those at the ends.
  void add(int64_t o, int64_t i, double w) {
    i = std::clamp<int64_t>(i, 0, band_.from - 1);
    if (band_.count[o] == 0) band_.first[o] = i;
    const int64_t k = i - band_.first[o];
    band_.count[o] = std::max(band_.count[o], k + 1);
    band_.weight[o * band_.width + k] += w;
  }
  Band done() { return std::move(band_); }

 private:
  Band band_;
};

// The step between places of the input that neighbours in the result stand for.
template <class S>
S step_of(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  if (how.align_corners) return to > 1 ? static_cast<S>(from - 1) / static_cast<S>(to - 1) : S(0);
  if (scale && *scale > 0) return static_cast<S>(1.0 / *scale);
  return static_cast<S>(from) / static_cast<S>(to);
}

// The place of the input that an element of the result stands for.
template <class S>
S place_of(const Resampling& how, S step, int64_t o) {
  return how.align_corners ? step * static_cast<S>(o)
                           : step * (static_cast<S>(o) + S(0.5)) - S(0.5);
}

Band nearest(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  const bool exact = how.mode == "nearest-exact";
  // Images alone, as in PyTorch: the same size and twice the size do not go by the factor.
  if (how.image && !exact && (to == from || to == 2 * from)) scale.reset();
  Builder b(from, to, 1);
  const float step = scale && *scale > 0 ? static_cast<float>(1.0 / *scale)
                                         : static_cast<float>(from) / static_cast<float>(to);
  for (int64_t o = 0; o < to; ++o) {
    const float place = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * step;
    b.add(o, std::min(static_cast<int64_t>(std::floor(place)), from - 1), 1);
  }
  return b.done();
}

template <class S>
Band linear(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  Builder b(from, to, 2);
  const S step = step_of<S>(how, from, to, scale);
  for (int64_t o = 0; o < to; ++o) {
    const S place = std::max(place_of<S>(how, step, o), S(0));
    const int64_t i = std::min(static_cast<int64_t>(place), from - 1);
    const S after = std::clamp(place - static_cast<S>(i), S(0), S(1));
    b.add(o, i, S(1) - after);
    b.add(o, i + 1, after);
  }
  return b.done();
}

// Keys' convolution with parameter `a`, for a distance.
template <class S>
S cubic_weight(S x, S a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

template <class S>
Band cubic(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  Builder b(from, to, 4);
  const S step = step_of<S>(how, from, to, scale);
  for (int64_t o = 0; o < to; ++o) {
    const S place = place_of<S>(how, step, o);
    const int64_t i = std::min(static_cast<int64_t>(std::floor(place)), from - 1);
    const S t = std::clamp(place - static_cast<S>(i), S(0), S(1));
    for (int64_t k = -1; k <= 2; ++k)
      b.add(o, i + k, cubic_weight(t - static_cast<S>(k), S(-0.75)));
  }
  return b.done();
}

template <class S>
S lanczos_weight(S x) {
  if (x == 0) return 1;
  if (x <= -3 || x >= 3) return 0;
  const S y = static_cast<S>(std::numbers::pi) * x;
  return 3 * std::sin(y) * std::sin(y / 3) / (y * y);
}

template <class S>
S filter_weight(const std::string& mode, S x) {
  if (mode == "linear") return std::max(S(1) - std::abs(x), S(0));
  return mode == "cubic" ? cubic_weight(x, S(-0.5)) : lanczos_weight(x);
}

// A filter as wide as the elements of the result are: nothing of the input is passed over.
template <class S>
Band filtered(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  const S step = step_of<S>(how, from, to, scale), wide = std::max(step, S(1));
  const S radius = how.mode == "linear" ? S(1) : how.mode == "cubic" ? S(2) : S(3);
  const S reach = radius * wide;
  Builder b(from, to, static_cast<int64_t>(std::ceil(reach)) * 2 + 1);
  for (int64_t o = 0; o < to; ++o) {
    const S centre = step * (static_cast<S>(o) + S(0.5));
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - reach + S(0.5)), 0);
    const int64_t end = std::min(static_cast<int64_t>(centre + reach + S(0.5)), from);
    S total = 0;
    auto weight = [&](int64_t i) {
      return filter_weight<S>(how.mode, (static_cast<S>(i) - centre + S(0.5)) / wide);
    };
    for (int64_t i = begin; i < end; ++i) total += weight(i);
    for (int64_t i = begin; i < end; ++i) b.add(o, i, total != 0 ? weight(i) / total : weight(i));
    if (end <= begin) b.add(o, begin, 0);
  }
  return b.done();
}

Band area(int64_t from, int64_t to) {
  Builder b(from, to, from / to + 2);
  for (int64_t o = 0; o < to; ++o) {
    // Without overflow: o * from may not fit where from and to do.
    const int64_t begin = o / to * from + o % to * from / to;
    const int64_t end = ((o + 1) / to * from) + ((o + 1) % to * from + to - 1) / to;
    for (int64_t i = begin; i < end; ++i) b.add(o, i, 1.0 / static_cast<double>(end - begin));
  }
  return b.done();
}

Band identity(int64_t n) {
  Builder b(n, n, 1);
  for (int64_t o = 0; o < n; ++o) b.add(o, o, 1);
  return b.done();
}

template <class S>
Band band_in(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale) {
  if (how.mode == "nearest" || how.mode == "nearest-exact") return nearest(how, from, to, scale);
  if (how.mode == "area") return area(from, to);
  // An axis that keeps its size stays as it is, whatever factor was given.
  if (from == to && (how.antialias || how.mode == "linear")) return identity(to);
  if (how.antialias) return filtered<S>(how, from, to, scale);
  return how.mode == "linear" ? linear<S>(how, from, to, scale) : cubic<S>(how, from, to, scale);
}

}  // namespace

Band make_band(const Resampling& how, int64_t from, int64_t to, std::optional<double> scale,
               DType dtype) {
  return dtype == DType::Float64 ? band_in<double>(how, from, to, scale)
                                 : band_in<float>(how, from, to, scale);
}

}  // namespace adjoint
