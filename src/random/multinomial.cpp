// Sampling of indices with given weights. See distributions.h.
//
// With replacement: a uniform number is looked up in the cumulative weights. Without it (or for one
// sample, where it makes no difference): an exponential race. Each index gets the time e / weight
// with e exponential, and the first to arrive win, which is sampling without replacement exactly.
// PyTorch ranks weight / e downwards, in the dtype of the weights, and so does this.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "random/distributions.h"
#include "random/elements.h"

namespace adjoint::random {

namespace {

// Indices are counted in float32 elsewhere in PyTorch, which fixed this limit.
constexpr int64_t kMostCategories = int64_t{1} << 24;

void require(bool ok, const std::string& message) {
  if (!ok) throw std::runtime_error(message);
}

template <class T>
void check_weights(const T* probs, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row) {
    bool positive = false;
    for (int64_t i = 0; i < n; ++i) {
      const auto weight = widen(probs[row * n + i]);
      if (!(weight >= 0 && std::isfinite(weight))) {
        throw std::runtime_error(
            "probability tensor contains either `inf`, `nan` or element < 0: element " +
            std::to_string(i) + " of row " + std::to_string(row) + " is " + std::to_string(weight));
      }
      positive |= weight > 0;
    }
    if (!positive) {
      throw std::runtime_error(
          "invalid multinomial distribution (sum of probabilities <= 0) in row " +
          std::to_string(row));
    }
  }
}

template <class W>
using Entry = std::pair<W, int64_t>;

template <class W>
bool ahead(const Entry<W>& a, const Entry<W>& b) {
  return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
}

// The k largest entries first, in descending order. The choice of algorithm decides the order among
// equal entries (weights of 0, or 16-bit floats), and is PyTorch's.
template <class W>
void rank(std::vector<Entry<W>>& entries, int64_t k) {
  const auto first = entries.begin(), last = entries.end();
  if (k == 1) {
    // The earliest of equals.
    std::swap(*first, *std::min_element(first, last, ahead<W>));
  } else if (k * 64 <= static_cast<int64_t>(entries.size())) {
    std::partial_sort(first, first + k, last, ahead<W>);
  } else {
    std::nth_element(first, first + k - 1, last, ahead<W>);
    std::sort(first, first + k - 1, ahead<W>);
  }
}

template <class T>
void race(Generator& g, const T* probs, int64_t rows, int64_t n, int64_t k, int64_t* out,
          bool column_major) {
  using W = Wide<T>;
  std::vector<W> score(static_cast<size_t>(rows * n));
  draw<uint64_t>(g, rows * n, [&](const uint64_t* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t drawn = start + i;
      const int64_t at = column_major ? drawn % rows * n + drawn / rows : drawn;
      const W e = widen(cast<T>(-std::log1p(-unit(words[i]))));
      score[at] = widen(cast<T>(widen(probs[at]) / e));
    }
  });
  std::vector<Entry<W>> entries(static_cast<size_t>(n));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < n; ++i) entries[i] = {score[row * n + i], i};
    rank(entries, k);
    for (int64_t i = 0; i < k; ++i) out[row * k + i] = entries[i].second;
  }
}

template <class T>
void look_up(Generator& g, const T* probs, int64_t rows, int64_t n, int64_t k, int64_t* out) {
  using W = Wide<T>;
  std::vector<W> cumulative(static_cast<size_t>(n));
  for (int64_t row = 0; row < rows; ++row) {
    W sum = 0;
    for (int64_t i = 0; i < n; ++i) cumulative[i] = sum += widen(probs[row * n + i]);
    for (W& c : cumulative) c /= sum;
    cumulative.back() = 1;  // whatever the rounding
    for (int64_t i = 0; i < k; ++i) {
      const double u = unit(g.random64());
      const auto found = std::lower_bound(cumulative.begin(), cumulative.end(), u,
                                          [](W c, double x) { return c < x; });
      out[row * k + i] = found - cumulative.begin();
    }
  }
}

}  // namespace

void multinomial(Generator& g, DType dtype, const void* probs, int64_t rows, int64_t n,
                 int64_t num_samples, bool replacement, int64_t* out, bool column_major) {
  require(is_floating(dtype),
          std::string("multinomial only supports floating-point dtypes for input, got: ") +
              name_of(dtype));
  require(num_samples > 0,
          "cannot sample n_sample <= 0 samples: got num_samples=" + std::to_string(num_samples));
  require(replacement || num_samples <= n,
          "cannot sample n_sample > prob_dist.size(-1) samples without replacement: got "
          "num_samples=" +
              std::to_string(num_samples) + " of " + std::to_string(n) + " categories");
  require(n <= kMostCategories,
          "number of categories cannot exceed 2^24, but got " + std::to_string(n));
  if (rows == 0) return;
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T* weights = static_cast<const T*>(probs);
    check_weights(weights, rows, n);
    std::lock_guard lock(g.mutex);
    if (!replacement || num_samples == 1) {
      race(g, weights, rows, n, num_samples, out, column_major);
    } else {
      look_up(g, weights, rows, n, num_samples, out);
    }
  });
}

}  // namespace adjoint::random
