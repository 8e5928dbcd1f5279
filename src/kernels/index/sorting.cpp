// Sorting. Read sorting.h first.
#include "kernels/index/sorting.h"

#include <algorithm>
#include <complex>
#include <numeric>
#include <vector>

#include "kernels/element_type.h"
#include "kernels/stored_bool.h"
#include "kernels/convert_element.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

using namespace ADJOINT_ISA_TAG;

template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, truth_t>) {
    return static_cast<bool>(x);
  } else if constexpr (std::is_same_v<T, half_t>) {
    return half_to_float(x);
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return bfloat16_to_float(x);
  } else {
    return x;
  }
}

template <class K>
bool less(K a, K b) {
  if constexpr (std::is_floating_point_v<K>) {
    return a < b || (b != b && a == a);
  } else {
    return a < b;
  }
}

template <class T>
void sort_row(const T* in, T* values, int64_t* positions, int64_t n, int64_t keep, bool down,
              std::vector<int64_t>& order) {
  order.resize(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  auto before = [&](int64_t i, int64_t j) {
    const auto a = key_of(in[i]), b = key_of(in[j]);
    return down ? less(b, a) : less(a, b);
  };
  if (keep < n) {
    // A total order, so that the result is that of the stable sort.
    auto strict = [&](int64_t i, int64_t j) {
      if (before(i, j)) return true;
      return !before(j, i) && i < j;
    };
    std::partial_sort(order.begin(), order.begin() + keep, order.end(), strict);
  } else {
    std::stable_sort(order.begin(), order.end(), before);
  }
  for (int64_t k = 0; k < keep; ++k) {
    values[k] = in[order[k]];
    positions[k] = order[k];
  }
}

// The type of elements as they lie in memory.
template <class T>
using Lying = std::conditional_t<std::is_same_v<T, bool>, truth_t, T>;

}  // namespace

void sort_rows(const char* in, char* values, int64_t* positions, DType dtype, int64_t rows,
               int64_t n, int64_t keep, bool descending) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(n, 1));
  with_real_type(dtype, [&](auto item) {
    using T = Lying<decltype(item)>;
    parallel::parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> order;
      for (int64_t r = begin; r < end; ++r) {
        sort_row(reinterpret_cast<const T*>(in) + r * n, reinterpret_cast<T*>(values) + r * keep,
                 positions + r * keep, n, keep, descending, order);
      }
    });
  });
}

void search_sorted(const char* row, const int64_t* order, int64_t n, const char* values,
                   int64_t count, DType dtype, bool right, int64_t* out) {
  with_real_type(dtype, [&](auto item) {
    using T = Lying<decltype(item)>;
    const T *sorted = reinterpret_cast<const T*>(row), *v = reinterpret_cast<const T*>(values);
    for (int64_t i = 0; i < count; ++i) {
      const auto x = key_of(v[i]);
      int64_t low = 0, high = n;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const auto y = key_of(sorted[order ? order[middle] : middle]);
        const bool before = right ? !less(x, y) : less(y, x);
        (before ? low : high) = before ? middle + 1 : middle;
      }
      out[i] = low;
    }
  });
}

}  // namespace adjoint
