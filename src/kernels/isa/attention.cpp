// Attention of one head by tiles. Read kernels/attention.h first.
//
// Forward goes through the keys tile by tile and keeps, for each query, the largest score so far and
// the sum of exponentials relative to it; when a larger score turns up, what was gathered shrinks.
// A query whose keys are all masked gets zeros. NaN in a row of scores makes the row NaN.
#include "kernels/attention.h"

#include "kernels/isa/tile_product.h"
#include "kernels/isa/transposed.h"
#include "kernels/isa/math/exp.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

using attention::Head;
using attention::kTileColumns;
using attention::kTileRows;

template <class T>
T* at(const attention::Rows& rows, int64_t i) {
  return reinterpret_cast<T*>(rows.data) + i * rows.row;
}

// Rows as columns: to[e][i] = from[i][e], with whole vectors to a row of the result.
template <class T>
void pack_columns(const attention::Rows& from, int64_t rows, int64_t width, T* to) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const int64_t step = attention::whole_vectors(rows);
  for (int64_t i = 0; i < rows; i += W) {
    const int64_t count = rows - i < W ? rows - i : W;
    int64_t e = 0;
    for (; e + W <= width; e += W) {
      V x[W];
#pragma GCC unroll 16
      for (int r = 0; r < W; ++r) x[r] = r < count ? load<T, V>(at<T>(from, i + r) + e) : V{};
      across<W>(x);
#pragma GCC unroll 16
      for (int l = 0; l < W; ++l) store<T, V>(to + (e + l) * step + i, x[l]);
    }
    for (; e < width; ++e) {
      for (int64_t r = 0; r < W; ++r)
        to[e * step + i + r] = r < count ? at<T>(from, i + r)[e] : T(0);
    }
  }
}

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  V sum = {};
  int64_t i = 0;
  for (; i + W <= n; i += W) sum += load<T, V>(x + i) * load<T, V>(y + i);
  T total = sum_of_lanes(sum);
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

// Rows of a tile that are taken together, and how many keys they see at most. Only where the tile
// lies across the diagonal of a causal head do strips differ.
struct Strips {
  int64_t rows, height, seen, past;

  // `past`: how far the first query of the tile is behind its first key.
  Strips(const Head& h, int64_t query, int64_t key, int64_t m, int64_t n)
      : rows(m), height(m), seen(n), past(query - key) {
    if (h.causal && past < n) height = 16;
  }
  int64_t count(int64_t row) const { return rows - row < height ? rows - row : height; }
  int64_t keys(int64_t row) const {
    const int64_t last = height == rows ? seen : past + row + height;
    return last < 0 ? 0 : last < seen ? last : seen;
  }
  // The first row that sees a key.
  int64_t first(int64_t key) const {
    if (height == rows || key <= past) return 0;
    const int64_t row = (key - past) / height * height;
    return row < rows ? row : rows;
  }
};

// Which keys of a tile a query sees: the first `count`, and of these what the mask says.
template <class T>
struct Seen {
  int64_t count;
  const T* added;
  const uint8_t* kept;
  int64_t column;

  Seen(const Head& h, int64_t query, int64_t key, int64_t n) : count(n), column(h.mask_column) {
    if (h.causal) count = query - key + 1 < n ? query - key + 1 : n;
    if (count < 0) count = 0;
    const int64_t place = query * h.mask_row + key * h.mask_column;
    added = h.added ? reinterpret_cast<const T*>(h.added) + place : nullptr;
    kept = h.kept ? h.kept + place : nullptr;
  }

  // The scores of one vector, scaled and masked.
  template <class V>
  __attribute__((always_inline)) inline V scores(const T* s, int64_t j, T scale) const {
    const int64_t left = count - j;
    if (left <= 0) return splat<V>(-kInf<V>);
    V x = load<T, V>(s + j) * scale;
    if (added) {
      if (column) {
        x += left >= kLanes<V> ? load<T, V>(added + j) : load_part<T, V>(added + j, left);
      } else {
        x += added[0];
      }
    }
    if (kept) {
      IntOf<V> keep;
      for (int l = 0; l < kLanes<V>; ++l) {
        const bool inside = l < left;
        keep[l] = -(inside && kept[inside ? (j + l) * column : 0] != 0);
      }
      x = keep ? x : splat<V>(-kInf<V>);
    }
    return left >= kLanes<V> ? x : first_lanes<V>(left) ? x : splat<V>(-kInf<V>);
  }
};

template <class T>
ADJOINT_INLINE T largest_lane(VecOf<T> v) {
  T lane[kLanes<VecOf<T>>], best = -kInf<VecOf<T>>;
  memcpy(lane, &v, sizeof v);
  for (T x : lane) best = x > best ? x : best;
  return best;
}

// exp, but 0 for what is masked or smaller than the smallest normal number: masks should not take the
// slow path of exp.
template <class V>
ADJOINT_INLINE V weight_of(V x) {
  constexpr ScalarOf<V> least = -ExpTable<V>::safe;
  const V e = exp(at_least(x, least));
  return x < least ? V{} : e;
}

// One row of scores becomes weights; returns what the results gathered so far are multiplied by.
template <class T>
T weigh_row(T* s, int64_t n, const Seen<T>& seen, T scale, T& top, T& sum) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  V most = splat<V>(top);
  for (int64_t j = 0; j < n; j += W) {
    const V x = seen.template scores<V>(s, j, scale);
    store<T, V>(s + j, x);
    most = x > most ? x : most;
  }
  const T highest = largest_lane<T>(most);
  V total = {};
  if (highest == -kInf<V>) {  // nothing is seen, unless it is NaN
    for (int64_t j = 0; j < n; j += W) {
      const V x = load<T, V>(s + j), p = x == x ? V{} : x;
      store<T, V>(s + j, p);
      total += p;
    }
  } else {
    for (int64_t j = 0; j < n; j += W) {
      const V p = weight_of(load<T, V>(s + j) - highest);
      store<T, V>(s + j, p);
      total += p;
    }
  }
  const T shrink =
      top == highest ? T(1) : static_cast<T>(__builtin_exp(double(top) - double(highest)));
  top = highest;
  sum = sum * shrink + sum_of_lanes(total);
  return shrink;
}

template <class T>
void scale_row(T* row, int64_t n, T by) {
  using V = VecOf<T>;
  for (int64_t e = 0; e < n; e += kLanes<V>) store<T, V>(row + e, load<T, V>(row + e) * by);
}

// p: the Head, scratch, the packed keys. `block` counts tiles of queries.
template <class T>
void attention_forward(char* const* p, int64_t block) {
  const Head& h = *reinterpret_cast<const Head*>(p[0]);
  T* scores = reinterpret_cast<T*>(p[1]);
  const T* keys = reinterpret_cast<const T*>(p[2]);
  const int64_t first = block * kTileRows, wide = attention::whole_vectors(h.out_width);
  const int64_t m = h.queries - first < kTileRows ? h.queries - first : kTileRows;
  const int64_t step = attention::whole_vectors(h.keys);
  T* sums = scores + kTileRows * kTileColumns;
  T *top = sums + kTileRows * wide, *total = top + kTileRows;
  for (int64_t i = 0; i < m; ++i) top[i] = -kInf<VecOf<T>>, total[i] = 0;
  const T scale = static_cast<T>(h.scale);
  const int64_t seen = h.causal && first + m < h.keys ? first + m : h.keys;
  for (int64_t key = 0; key < seen; key += kTileColumns) {
    const int64_t n = seen - key < kTileColumns ? seen - key : kTileColumns;
    const Strips strips(h, first, key, m, n);
    for (int64_t r = 0; r < m; r += strips.height) {
      const int64_t count = strips.count(r), some = strips.keys(r);
      const int64_t whole = attention::whole_vectors(some);
      T *rows = scores + r * kTileColumns, *to = sums + r * wide;
      tile_product<T>({count, whole, h.width, at<T>(h.q, first + r), h.q.row, 1, keys + key, step,
                       rows, kTileColumns, false});
      for (int64_t i = 0; i < count; ++i) {
        const Seen<T> what(h, first + r + i, key, some);
        const T shrink =
            weigh_row(rows + i * kTileColumns, whole, what, scale, top[r + i], total[r + i]);
        if (key && shrink != 1) scale_row(to + i * wide, wide, shrink);
      }
      tile_product<T>({count, h.out_width, some, rows, kTileColumns, 1, at<T>(h.v, key), h.v.row,
                       to, wide, key > 0});
    }
  }
  T* logs = reinterpret_cast<T*>(h.logs);
  for (int64_t i = 0; i < m; ++i) {
    T *to = at<T>(h.out, first + i), *row = sums + i * wide;
    const T over = total[i] == 0 ? T(0) : 1 / total[i];
    for (int64_t e = 0; e < h.out_width; ++e) to[e] = seen ? row[e] * over : T(0);
    logs[first + i] = static_cast<T>(double(top[i]) + __builtin_log(double(total[i])));
  }
}

// The weights of a strip again, and (in place of their gradients) the gradients of the scores.
template <class T>
void score_gradients(const Head& h, int64_t query, int64_t key, int64_t m, int64_t n, T* weights,
                     T* gradients, const T* delta) {
  using V = VecOf<T>;
  const T* logs = reinterpret_cast<const T*>(h.logs);
  const T scale = static_cast<T>(h.scale);
  for (int64_t i = 0; i < m; ++i) {
    T *s = weights + i * kTileColumns, *d = gradients + i * kTileColumns;
    const T log = logs[query + i], mean = delta[query + i];
    const Seen<T> seen(h, query + i, key, n);
    for (int64_t j = 0; j < n; j += kLanes<V>) {
      const V x = seen.template scores<V>(s, j, scale);
      const V w = log == -kInf<V> ? V{} : weight_of(x - log);
      store<T, V>(s + j, w);
      store<T, V>(d + j, w * (load<T, V>(d + j) - mean) * scale);
    }
  }
}

// Two tiles of one head: the weights, and the gradients of the scores.
template <class T>
struct Tiles {
  T *weights, *gradients;
  const T *keys, *values;  // packed
  const T* delta;          // the sum of g * out, for each query
};

// What the queries from `query` on and the keys from `key` on give to each other.
template <class T>
void pair_gradients(const Head& h, const Tiles<T>& t, int64_t query, int64_t key, int64_t m,
                    int64_t n, bool add) {
  const int64_t step = attention::whole_vectors(h.keys);
  const Strips strips(h, query, key, m, n);
  for (int64_t r = 0; r < m; r += strips.height) {
    const int64_t count = strips.count(r), some = strips.keys(r);
    const int64_t whole = attention::whole_vectors(some), at_row = query + r;
    T *weights = t.weights + r * kTileColumns, *gradients = t.gradients + r * kTileColumns;
    tile_product<T>({count, whole, h.width, at<T>(h.q, at_row), h.q.row, 1, t.keys + key, step,
                     weights, kTileColumns, false});
    tile_product<T>({count, whole, h.out_width, at<T>(h.g, at_row), h.g.row, 1, t.values + key,
                     step, gradients, kTileColumns, false});
    score_gradients(h, at_row, key, count, some, weights, gradients, t.delta);
    tile_product<T>({count, h.width, some, gradients, kTileColumns, 1, at<T>(h.k, key), h.k.row,
                     at<T>(h.dq, at_row), h.dq.row, key > 0});
  }
  const int64_t width = strips.height == m ? n : strips.height;
  for (int64_t c = 0; c < n; c += width) {
    const int64_t count = n - c < width ? n - c : width, r = strips.first(c);
    const int64_t from = r * kTileColumns + c, at_row = r < m ? query + r : query;
    tile_product<T>({count, h.out_width, m - r, t.weights + from, 1, kTileColumns,
                     at<T>(h.g, at_row), h.g.row, at<T>(h.dv, key + c), h.dv.row, add});
    tile_product<T>({count, h.width, m - r, t.gradients + from, 1, kTileColumns, at<T>(h.q, at_row),
                     h.q.row, at<T>(h.dk, key + c), h.dk.row, add});
  }
}

// p: the Head, scratch. `dk` and `dv` are added to unless it is the first head that has them.
template <class T>
void attention_backward(char* const* p, int64_t) {
  const Head& h = *reinterpret_cast<const Head*>(p[0]);
  T* keys = reinterpret_cast<T*>(p[1]);
  T* values = keys + attention::packed_size(h.keys, h.width);
  T* weights = values + attention::packed_size(h.keys, h.out_width);
  T* gradients = weights + kTileRows * kTileColumns;
  T* delta = gradients + kTileRows * kTileColumns;
  pack_columns(h.k, h.keys, h.width, keys);
  pack_columns(h.v, h.keys, h.out_width, values);
  for (int64_t i = 0; i < h.queries; ++i) {
    delta[i] = dot(at<T>(h.g, i), at<T>(h.out, i), h.out_width);
  }
  const Tiles<T> tiles{weights, gradients, keys, values, delta};
  for (int64_t key = 0; key < h.keys; key += kTileColumns) {
    const int64_t n = h.keys - key < kTileColumns ? h.keys - key : kTileColumns;
    bool add = !h.first;
    // Queries before the first key of the tile do not see it.
    const int64_t from = h.causal ? key / kTileRows * kTileRows : 0;
    for (int64_t query = from; query < h.queries; query += kTileRows, add = true) {
      const int64_t m = h.queries - query < kTileRows ? h.queries - query : kTileRows;
      pair_gradients(h, tiles, query, key, m, n, add);
    }
    for (int64_t i = key; i < key + n && !add; ++i) {  // no query sees them
      memset(at<T>(h.dk, i), 0, h.width * sizeof(T));
      memset(at<T>(h.dv, i), 0, h.out_width * sizeof(T));
    }
  }
}

// p: the Head, the packed keys.
template <class T>
void attention_pack(char* const* p, int64_t) {
  const Head& h = *reinterpret_cast<const Head*>(p[0]);
  pack_columns(h.k, h.keys, h.width, reinterpret_cast<T*>(p[1]));
}

ROW_KERNEL(attention_forward, 2)
ROW_KERNEL(attention_backward, 1)
ROW_KERNEL(attention_pack, 1)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
