// The loops of reductions, once per instruction set: one contiguous row to one value, and many rows
// to one row. The lanes are 256 bytes wide whatever the registers are, so that every instruction
// set adds in the same order. Read kernels/reduce/reduce.h first.
#include "kernels/reduce/reduce.h"

#include <limits>

#include "kernels/convert_element.h"
#include "kernels/isa/vec.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

using reduce::kKinds;
using reduce::Loop3;

using reduce::kBlock;  // elements that are summed without pairing

template <class T>
struct LanesOf {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  static constexpr int width = kVectorBytes / sizeof(T);
  static constexpr int vectors = 256 / kVectorBytes;
};

// --- how two values become one; both for scalars and for vectors
struct Add {
  template <class T>
  static constexpr T identity = T(0);
  template <class V>
  ADJOINT_INLINE V combine(V a, V b) {
    return a + b;
  }
};
struct Multiply {
  template <class T>
  static constexpr T identity = T(1);
  template <class V>
  ADJOINT_INLINE V combine(V a, V b) {
    return a * b;
  }
};
struct Larger {
  template <class T>
  static constexpr T identity =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                           : std::numeric_limits<T>::lowest();
  template <class V>
  ADJOINT_INLINE V combine(V a, V b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Smaller {
  template <class T>
  static constexpr T identity =
      std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                           : std::numeric_limits<T>::max();
  template <class V>
  ADJOINT_INLINE V combine(V a, V b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};

// --- what happens to an element first
struct Same {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S) {
    return x;
  }
};
struct Magnitude {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S) {
    return x < S(0) ? -x : x;
  }
};
struct Squared {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S) {
    return x * x;
  }
};
struct Centred {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S centre) {
    return x - centre;
  }
};
struct CentredSquare {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S centre) {
    return (x - centre) * (x - centre);
  }
};
struct WithoutNan {
  template <class V, class S>
  ADJOINT_INLINE V map(V x, S) {
    return x != x ? V{} : x;
  }
};

// The lanes of one vector, halved until `Width` are left: shuffles, no memory.
template <class T, class Op, int Width, int Bytes, class V>
ADJOINT_INLINE void fold_lanes(V v, T* result) {
  if constexpr (Bytes == Width * sizeof(T)) {
    std::memcpy(result, &v, Bytes);
  } else {
    typedef T Half __attribute__((vector_size(Bytes / 2)));
    Half low, high;
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
    fold_lanes<T, Op, Width, Bytes / 2>(Half(Op::combine(low, high)), result);
  }
}

template <class T, class Op, class Map, int Width>
inline void short_block(const T* x, int64_t n, T* result, T centre) {
  for (int w = 0; w < Width; ++w) {
    T r = Op::template identity<T>;
    for (int64_t i = w; i < n; i += Width) r = Op::combine(r, Map::map(x[i], centre));
    result[w] = r;
  }
}

// n counts numbers of type T; a complex sum is one with Width = 2. Out of line: it is called twice.
template <class T, class Op, class Map, int Width>
[[gnu::noinline]] void block(const T* x, int64_t n, T* result, T centre) {
  using L = LanesOf<T>;
  using V = typename L::Vector;
  if (n < reduce::kShortRow) return short_block<T, Op, Map, Width>(x, n, result, centre);
  V acc[L::vectors];
  for (V& a : acc) a = V{} + Op::template identity<T>;
  int64_t i = 0;
  for (; i + L::width * L::vectors <= n; i += L::width * L::vectors) {
#pragma GCC unroll 16
    for (int k = 0; k < L::vectors; ++k) {
      V v;
      std::memcpy(&v, x + i + k * L::width, sizeof v);
      acc[k] = Op::combine(acc[k], V(Map::map(v, centre)));
    }
  }
  // The rest: whole vectors, and one that is filled up.
  int last = 0;
#pragma GCC unroll 16
  for (int k = 0; k < L::vectors - 1; ++k) {
    if (i + L::width > n) break;
    V v;
    std::memcpy(&v, x + i, sizeof v);
    acc[k] = Op::combine(acc[k], V(Map::map(v, centre)));
    i += L::width;
    ++last;
  }
  if (i < n) {
    T rest[L::width];
    for (int j = 0; j < L::width; ++j)
      rest[j] = i + j < n ? Map::map(x[i + j], centre) : Op::template identity<T>;
    V v;
    std::memcpy(&v, rest, sizeof v);
#pragma GCC unroll 16
    for (int k = 0; k < L::vectors; ++k) {
      if (k == last) acc[k] = Op::combine(acc[k], v);
    }
  }
#pragma GCC unroll 16
  for (int half = L::vectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int k = 0; k < half; ++k) acc[k] = Op::combine(acc[k], acc[k + half]);
  }
  fold_lanes<T, Op, Width, kVectorBytes>(acc[0], result);
}

template <class T, class Op, class Map, int Width>
void row(const void* data, int64_t count, void* out, const void* centre_at) {
  const T* x = static_cast<const T*>(data);
  T* result = static_cast<T*>(out);
  const T centre = centre_at ? *static_cast<const T*>(centre_at) : T(0);
  const int64_t n = count * Width;
  if (n <= kBlock) return block<T, Op, Map, Width>(x, n, result, centre);
  // A binary counter of partial results: two of equal rank are joined at once.
  T stack[64][Width];
  int depth = 0;
  auto join = [&] {
    --depth;
    for (int w = 0; w < Width; ++w)
      stack[depth - 1][w] = Op::combine(stack[depth - 1][w], stack[depth][w]);
  };
  for (int64_t b = 0; b * kBlock < n; ++b) {
    const int64_t left = n - b * kBlock;
    block<T, Op, Map, Width>(x + b * kBlock, left < kBlock ? left : kBlock, stack[depth++], centre);
    for (int64_t m = b + 1; !(m & 1); m >>= 1) join();
  }
  while (depth > 1) join();
  for (int w = 0; w < Width; ++w) result[w] = stack[0][w];
}

// Rows [r, r + Rows) joined as a tree and then with acc, at column j: V is a vector or one number.
template <class V, class Op, class Map, int Rows, class T>
ADJOINT_INLINE void join_rows(const T* p, int64_t step, int64_t j, T* acc, const T* centre) {
  V c{}, total, x[Rows];
  constexpr bool square = std::is_same_v<Map, CentredSquare>;
  constexpr bool centred = square || std::is_same_v<Map, Centred>;
  if constexpr (centred) std::memcpy(&c, centre + j, sizeof c);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    std::memcpy(&x[r], p + r * step + j, sizeof(V));
    if constexpr (square)
      x[r] = (x[r] - c) * (x[r] - c);
    else if constexpr (centred)
      x[r] = x[r] - c;
    else
      x[r] = Map::map(x[r], T(0));
  }
#pragma GCC unroll 4
  for (int half = Rows / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int r = 0; r < half; ++r) x[r] = Op::combine(x[r], x[r + half]);
  }
  std::memcpy(&total, acc + j, sizeof total);
  total = Op::combine(total, x[0]);
  std::memcpy(acc + j, &total, sizeof total);
}

template <class T, class Op, class Map, int Rows>
ADJOINT_INLINE void join_row_group(const T* p, int64_t step, int64_t n, T* acc, const T* centre) {
  using L = LanesOf<T>;
  int64_t j = 0;
  for (; j + L::width <= n; j += L::width)
    join_rows<typename L::Vector, Op, Map, Rows>(p, step, j, acc, centre);
  for (; j < n; ++j) join_rows<T, Op, Map, Rows>(p, step, j, acc, centre);
}

template <class T, class Op, class Map, int Width>
void columns(const void* data, int64_t stride, int64_t rows, int64_t count, void* out,
             const void* centre_at) {
  const T* x = static_cast<const T*>(data);
  T* acc = static_cast<T*>(out);
  const T* centre = static_cast<const T*>(centre_at);
  const int64_t n = count * Width, step = stride * Width;
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) join_row_group<T, Op, Map, 8>(x + r * step, step, n, acc, centre);
  for (; r < rows; ++r) join_row_group<T, Op, Map, 1>(x + r * step, step, n, acc, centre);
}

template <class T, class Op, int Width>
void identity(void* out, int64_t n) {
  T* acc = static_cast<T*>(out);
  for (int64_t i = 0; i < n * Width; ++i) acc[i] = Op::template identity<T>;
}

template <class T, class Op, class Map = Same, int Width = 1>
constexpr Loop3 all_three() {
  return {row<T, Op, Map, Width>, columns<T, Op, Map, Width>, identity<T, Op, Width>};
}

// Products of complex numbers do not split into lanes of real ones.
template <class T>
Pair<T> times(Pair<T> a, Pair<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
constexpr Loop3 complex_product() {
  Loop3 l;
  l.row = [](const void* data, int64_t n, void* out, const void*) {
    const Pair<T>* x = static_cast<const Pair<T>*>(data);
    Pair<T> r{1, 0};
    for (int64_t i = 0; i < n; ++i) r = times(r, x[i]);
    *static_cast<Pair<T>*>(out) = r;
  };
  l.columns = [](const void* data, int64_t stride, int64_t rows, int64_t n, void* out,
                 const void*) {
    const Pair<T>* x = static_cast<const Pair<T>*>(data);
    Pair<T>* acc = static_cast<Pair<T>*>(out);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < n; ++j) acc[j] = times(acc[j], x[r * stride + j]);
    }
  };
  l.identity = [](void* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Pair<T>*>(out)[i] = {1, 0};
  };
  return l;
}

constexpr int at(DType d) { return static_cast<int>(d); }

struct Table {
  Loop3 loop[kKinds][kDTypes];
};

constexpr Table make_table() {
  using namespace reduce;
  Table t{};
  t.loop[Sum][at(DType::Float32)] = all_three<float, Add>();
  t.loop[Sum][at(DType::Float64)] = all_three<double, Add>();
  t.loop[Sum][at(DType::Int64)] = all_three<uint64_t, Add>();  // wraps around
  t.loop[Sum][at(DType::Complex64)] = all_three<float, Add, Same, 2>();
  t.loop[Sum][at(DType::Complex128)] = all_three<double, Add, Same, 2>();
  t.loop[Prod][at(DType::Float32)] = all_three<float, Multiply>();
  t.loop[Prod][at(DType::Float64)] = all_three<double, Multiply>();
  t.loop[Prod][at(DType::Int64)] = all_three<uint64_t, Multiply>();
  t.loop[Prod][at(DType::Complex64)] = complex_product<float>();
  t.loop[Prod][at(DType::Complex128)] = complex_product<double>();
  auto extrema = [&]<class T>(DType d, T) {
    t.loop[Max][at(d)] = all_three<T, Larger>();
    t.loop[Min][at(d)] = all_three<T, Smaller>();
  };
  extrema(DType::Bool, uint8_t{});
  extrema(DType::UInt8, uint8_t{});
  extrema(DType::Int8, int8_t{});
  extrema(DType::Int16, int16_t{});
  extrema(DType::Int32, int32_t{});
  extrema(DType::Int64, int64_t{});
  extrema(DType::Float32, float{});
  extrema(DType::Float64, double{});
  auto mapped = [&]<class T>(DType d, T) {
    t.loop[SumAbs][at(d)] = all_three<T, Add, Magnitude>();
    t.loop[SumSquare][at(d)] = all_three<T, Add, Squared>();
    t.loop[SumCentred][at(d)] = all_three<T, Add, Centred>();
    t.loop[SumCentredSquare][at(d)] = all_three<T, Add, CentredSquare>();
    t.loop[NanSum][at(d)] = all_three<T, Add, WithoutNan>();
  };
  mapped(DType::Float32, float{});
  mapped(DType::Float64, double{});
  return t;
}

constexpr Table kTable = make_table();

}  // namespace

const Loop3& reduce_loops(reduce::Kind kind, DType d);
const Loop3& reduce_loops(reduce::Kind kind, DType d) { return kTable.loop[kind][at(d)]; }

}  // namespace adjoint::ADJOINT_ISA_TAG
