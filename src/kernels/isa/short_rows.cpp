// Many short rows at a time, for the loops of compiled programs (program/fuse): elements that are
// repeated along a row, arithmetic with them, sums of few rows, and sums of rows in the order in which
// columns are summed.
//
// The last operand of each loop is its geometry; n counts rows, of sum_columns columns.
#include "kernels/isa/row_vectors.h"
#include "kernels/short_rows.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

// Row r is element r of the input, again and again.
template <class T>
void repeat_elements(char* const* p, int64_t n) {
  using V = VecOf<T>;
  const auto& g = *reinterpret_cast<const RepeatedElements*>(p[2]);
  T* out = reinterpret_cast<T*>(p[0]);
  const char* in = p[1];
  for (int64_t r = 0; r < n; ++r, in += g.step, out += g.length) {
    T one;
    std::memcpy(&one, in, sizeof one);
    const V all = splat<V>(one);
    int64_t k = 0;
    for (; k + kLanes<V> <= g.length; k += kLanes<V>) store<T, V>(out + k, all);
    if (k < g.length) store_part<T, V>(out + k, all, g.length - k);
  }
}

// The same for rows of so many vectors; one row for all stays in registers.
template <class T, int Vectors, class F>
ADJOINT_INLINE void with_repeated_vectors(char* const* p, int64_t n, F f) {
  using V = VecOf<T>;
  const auto& g = *reinterpret_cast<const RepeatedOperand*>(p[3]);
  T* out = reinterpret_cast<T*>(p[0]);
  const char *rows = p[1], *in = p[2];
  V row[Vectors];
  auto read = [&] {
    for (int k = 0; k < Vectors; ++k)
      row[k] = load<T, V>(reinterpret_cast<const T*>(rows) + k * kLanes<V>);
  };
  auto write = [&] {
    T one;
    std::memcpy(&one, in, sizeof one);
    const V all = splat<V>(one);
    for (int k = 0; k < Vectors; ++k) store<T, V>(out + k * kLanes<V>, f(row[k], all));
    in += g.step;
    out += Vectors * kLanes<V>;
  };
  if (n > 0) read();
  if (g.row == 0) {
    for (int64_t r = 0; r < n; ++r) write();
    return;
  }
  for (int64_t r = 0; r < n; ++r, rows += g.row) {
    read();
    write();
  }
}

// Row r of the first operand with element r of the second.
template <class T, class F>
ADJOINT_INLINE void with_repeated(char* const* p, int64_t n, F f) {
  using V = VecOf<T>;
  const auto& g = *reinterpret_cast<const RepeatedOperand*>(p[3]);
  if (g.length == kLanes<V>) return with_repeated_vectors<T, 1>(p, n, f);
  if (g.length == 2 * kLanes<V>) return with_repeated_vectors<T, 2>(p, n, f);
  if (g.length == 4 * kLanes<V>) return with_repeated_vectors<T, 4>(p, n, f);
  T* out = reinterpret_cast<T*>(p[0]);
  const char *rows = p[1], *in = p[2];
  for (int64_t r = 0; r < n; ++r, rows += g.row, in += g.step, out += g.length) {
    const T* row = reinterpret_cast<const T*>(rows);
    T one;
    std::memcpy(&one, in, sizeof one);
    const V all = splat<V>(one);
    int64_t k = 0;
    for (; k + kLanes<V> <= g.length; k += kLanes<V>)
      store<T, V>(out + k, f(load<T, V>(row + k), all));
    for (; k < g.length; ++k) out[k] = f(row[k], one);
  }
}
#define REPEATED_KERNEL(name, result)                              \
  template <class T>                                               \
  void name(char* const* p, int64_t n) {                           \
    with_repeated<T>(p, n, [](auto x, auto y) { return result; }); \
  }                                                                \
  ROW_KERNEL(name, 3)

REPEATED_KERNEL(add_repeated, x + y)
REPEATED_KERNEL(repeated_add, y + x)
REPEATED_KERNEL(sub_repeated, x - y)
REPEATED_KERNEL(repeated_sub, y - x)
REPEATED_KERNEL(mul_repeated, x* y)
REPEATED_KERNEL(repeated_mul, y* x)

// The sums of columns: eight rows as a tree, one tree after another, then what is left.
template <class T, class V>
ADJOINT_INLINE void sum_column(const char* at, const SummedColumns& g, T* out) {
  auto row = [&](int64_t r) {
    V x;
    std::memcpy(&x, at + r * g.step, sizeof x);
    return x;
  };
  V total{};
  int64_t r = 0;
  for (; r + 8 <= g.rows; r += 8) {
    V x[4];
    for (int k = 0; k < 4; ++k) x[k] = row(r + k) + row(r + k + 4);
    total = total + ((x[0] + x[2]) + (x[1] + x[3]));
  }
  for (; r < g.rows; ++r) total = total + row(r);
  std::memcpy(out, &total, sizeof total);
}
template <class T>
ADJOINT_INLINE void sum_all_columns(char* const* p, int64_t n, const SummedColumns& g) {
  using V = VecOf<T>;
  T* out = reinterpret_cast<T*>(p[0]);
  const T* in = reinterpret_cast<const T*>(p[1]);
  int64_t k = 0;
  for (; k + kLanes<V> <= n; k += kLanes<V>)
    sum_column<T, V>(reinterpret_cast<const char*>(in + k), g, out + k);
  for (; k < n; ++k) sum_column<T, T>(reinterpret_cast<const char*>(in + k), g, out + k);
}
template <class T>
void sum_columns(char* const* p, int64_t n) {
  const auto& g = *reinterpret_cast<const SummedColumns*>(p[2]);
  // The axes of space, whose number the compiler is told.
  if (g.rows == 2) return sum_all_columns<T>(p, n, {2, g.step});
  if (g.rows == 3) return sum_all_columns<T>(p, n, {3, g.step});
  sum_all_columns<T>(p, n, g);
}

// The sum of one row from element `from` on: eight elements as a tree, one tree after another.
template <class T>
T sum_tree(const T* x, int64_t from, int64_t length, T total) {
  int64_t k = from;
  for (; k + 8 <= length; k += 8) {
    T a[4];
    for (int i = 0; i < 4; ++i) a[i] = x[k + i] + x[k + i + 4];
    total += (a[0] + a[2]) + (a[1] + a[3]);
  }
  for (; k < length; ++k) total += x[k];
  return total;
}

#if ADJOINT_SIMD == 512
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));

// Four trees of a row side by side, each folded once.
ADJOINT_INLINE f32 fold_once(const float* x) {
  const f32 a = load<float, f32>(x), b = load<float, f32>(x + 16);
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
// The same of two rows, folded once more.
ADJOINT_INLINE f32 fold_twice(f32 a, f32 b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
         __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
// Of four rows: the sums of a tree of each stand side by side, one tree after another.
ADJOINT_INLINE f32 fold_thrice(f32 a, f32 b) {
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

// The sums of the first elements of four rows, in whole runs of four trees.
ADJOINT_INLINE f32x4 sum_four_rows(const char* row, int64_t step, int64_t end) {
  f32x4 total = {};
  for (int64_t k = 0; k < end; k += 32) {
    f32 folded[4];
    for (int r = 0; r < 4; ++r)
      folded[r] = fold_once(reinterpret_cast<const float*>(row + r * step) + k);
    const f32 sums =
        fold_thrice(fold_twice(folded[0], folded[1]), fold_twice(folded[2], folded[3]));
    total += __builtin_shufflevector(sums, sums, 0, 1, 2, 3);
    total += __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
    total += __builtin_shufflevector(sums, sums, 8, 9, 10, 11);
    total += __builtin_shufflevector(sums, sums, 12, 13, 14, 15);
  }
  return total;
}
#endif

template <class T>
void sum_rows_as_columns(char* const* p, int64_t n) {
  const auto& g = *reinterpret_cast<const SummedRows*>(p[2]);
  T* out = reinterpret_cast<T*>(p[0]);
  const char* row = p[1];
  const T divisor = static_cast<T>(g.divisor);
  auto put = [&](int64_t r, T total) { out[r] = divisor != 0 ? total / divisor : total; };
  int64_t r = 0;
#if ADJOINT_SIMD == 512
  if constexpr (sizeof(T) == 4) {
    const int64_t end = g.length / 32 * 32;
    for (; end == g.length && divisor == 0 && r + 4 <= n; r += 4) {
      const f32x4 sums = sum_four_rows(row + r * g.step, g.step, end);
      std::memcpy(out + r, &sums, sizeof sums);
    }
    for (; r + 4 <= n; r += 4) {
      const f32x4 sums = sum_four_rows(row + r * g.step, g.step, end);
      for (int64_t k = 0; k < 4; ++k) {
        const T* x = reinterpret_cast<const T*>(row + (r + k) * g.step);
        put(r + k, sum_tree<T>(x, end, g.length, sums[k]));
      }
    }
  }
#endif
  for (; r < n; ++r)
    put(r, sum_tree<T>(reinterpret_cast<const T*>(row + r * g.step), 0, g.length, 0));
}

ROW_KERNEL(repeat_elements, 2)
ROW_KERNEL(sum_columns, 2)
ROW_KERNEL(sum_rows_as_columns, 2)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
