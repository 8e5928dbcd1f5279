// Reductions: planning, tiles, cascades and threads around the loops. Read reduce.h first.
//
// Two ways through memory. If the fastest axis is reduced, each result is a few rows, each row one
// value (by rows). If the fastest axis is kept, rows are added to a row of results (by columns), so
// that memory is never read against the grain. Rows that the loops can't read, because of their
// dtype or stride, are converted a tile at a time.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/convert.h"
#include "parallel/pool.h"

namespace adjoint {
namespace Base {
const reduce::Loop3& reduce_loops(reduce::Kind kind, DType d);
}
#if defined(__x86_64__)
namespace V3 {
const reduce::Loop3& reduce_loops(reduce::Kind kind, DType d);
}
namespace V4 {
const reduce::Loop3& reduce_loops(reduce::Kind kind, DType d);
}
#endif

namespace reduce {
namespace {

constexpr int64_t kTile = 512;          // accumulators of one item by columns
constexpr int64_t kRowTile = 1024;      // elements converted at a time by rows
constexpr int64_t kGrain = 32768;       // elements worth handing to a thread
constexpr int64_t kSplit = 4 * kGrain;  // a result of more elements is split among threads
constexpr int64_t kChunk = 2 * kGrain;  // into chunks of so many
constexpr int64_t kCascadeRows = 128;   // rows added to one accumulator before it is folded
constexpr int64_t kCascadeFolds = 64;   // and folds before the next level
constexpr int kCascadeLevels = 4;
constexpr size_t kMaxItem = 16;

// How partial results are joined.
Kind joining(Kind k) { return k <= Min ? k : Sum; }

int64_t offset_of(int64_t linear, const Axes& a, int first = 0) {
  int64_t at = 0;
  for (int i = a.count - 1; i >= first; --i) {
    at += linear % a.size[i] * a.stride[i];
    linear /= a.size[i];
  }
  return at;
}

// f(offset) for every index of axes [0, count), until it says that it had enough.
template <class F>
void each_offset(const Axes& a, int count, F&& f) {
  int64_t index[kMaxDims];
  std::fill_n(index, count, 0);
  int64_t at = 0;
  for (;;) {
    if (!f(at)) return;
    int i = count - 1;
    for (; i >= 0; --i) {
      at += a.stride[i];
      if (++index[i] < a.size[i]) break;
      at -= a.stride[i] * a.size[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

void divide(DType d, char* x, int64_t n, double by) {
  switch (d) {
    case DType::Float32:
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(x)[i] /= static_cast<float>(by);
      break;
    case DType::Float64:
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<double*>(x)[i] /= by;
      break;
    case DType::Complex64:
      divide(DType::Float32, x, 2 * n, by);
      break;
    case DType::Complex128:
      divide(DType::Float64, x, 2 * n, by);
      break;
    default:
      break;
  }
}

// Now and then, whether the work is to end: one result can be that of an axis as long as anybody
// likes, since expanded ones take no memory.
class Patience {
 public:
  bool lost(int64_t elements) {
    if ((left_ -= elements) > 0) return false;
    left_ = kGrain;
    return parallel::stopping();
  }

 private:
  int64_t left_ = kGrain;
};

// Joins partial results, each of one accumulator, as a tree of buffers.
class Gather {
 public:
  Gather(Row join, size_t item) : join_(join), item_(item) {}
  // `value` may be an element of a lower buffer.
  void push(const char* value, int level = 0) {
    if (count_[level] == kRoom) {
      alignas(16) char joined[kMaxItem];
      join_(room_[level], kRoom, joined, nullptr);
      count_[level] = 0;
      if (level + 1 < kLevels) {
        push(joined, level + 1);
      } else {
        std::memcpy(room_[level], joined, item_);
        count_[level] = 1;
      }
    }
    std::memcpy(room_[level] + count_[level]++ * item_, value, item_);
  }
  void finish(char* result) {
    alignas(16) char joined[kMaxItem];
    for (int level = 0; level < kLevels; ++level) {
      if (count_[level] == 0) continue;
      join_(room_[level], count_[level], joined, nullptr);
      if (level + 1 < kLevels) {
        push(joined, level + 1);
      }
    }
    std::memcpy(result, joined, item_);
  }

 private:
  static constexpr int kRoom = 128, kLevels = 4;
  Row join_;
  size_t item_;
  int count_[kLevels] = {};
  alignas(64) char room_[kLevels][kRoom * kMaxItem];
};

// --- by rows -------------------------------------------------------------------------------------
class Job {
 public:
  explicit Job(const Problem& p)
      : p_(p),
        loop_(loops(p.kind, p.accumulator)),
        join_(loops(joining(p.kind), p.accumulator)),
        item_(item_size(p.accumulator)),
        in_item_(static_cast<int64_t>(item_size(p.dtype))) {
    const Axes &k = p.kept, &r = p.reduced;
    int64_t kept_step = k.count ? k.stride[k.count - 1] : 0;
    int64_t reduced_step = r.stride[r.count - 1];
    by_columns_ = k.count > 0 && kept_step != 0 && (reduced_step == 0 || kept_step < reduced_step);
    results_ = k.total();
    per_result_ = r.total();
    columns_ = by_columns_ ? k.size[k.count - 1] : 1;
    blocks_ = by_columns_ ? (columns_ - 1) / kTile + 1 : 1;
    items_ = results_ / columns_ * blocks_;
  }

  void run();

 private:
  void range(int64_t first, int64_t last, char* partial) const;
  void rows_range(int64_t first, int64_t last, char* partial) const;
  bool short_rows(int64_t first, int64_t n, char* acc) const;
  void one_column_item(int64_t item, char* partial) const;
  void reduce_rows(const char* x, char* result, const char* centre) const;
  void reduce_tiles(const char* x, int64_t n, int64_t step, bool direct, char* result,
                    const char* centre) const;
  void reduce_columns(const char* x, int64_t width, char* acc, const char* centre) const;
  void emit(char* acc, int64_t n, int64_t index, char* partial) const;
  void split();

  const Problem& p_;
  const Loop3 &loop_, &join_;
  size_t item_;
  int64_t in_item_;
  bool by_columns_;
  int64_t results_, per_result_, columns_, blocks_, items_;
};

void Job::emit(char* acc, int64_t n, int64_t index, char* partial) const {
  if (partial) {
    std::memcpy(partial + index * item_, acc, n * item_);
    return;
  }
  if (p_.divisor != 0) divide(p_.accumulator, acc, n, p_.divisor);
  const int64_t out_item = static_cast<int64_t>(item_size(p_.out_dtype));
  if (p_.out_dtype == p_.accumulator) {
    std::memcpy(p_.out + index * out_item, acc, n * item_);
  } else {
    copy_run(p_.out + index * out_item, out_item, p_.out_dtype, acc, static_cast<int64_t>(item_),
             p_.accumulator, n);
  }
}

void Job::reduce_rows(const char* x, char* result, const char* centre) const {
  const Axes& r = p_.reduced;
  const int64_t n = r.size[r.count - 1], step = r.stride[r.count - 1];
  const bool direct = p_.dtype == p_.accumulator && (step == in_item_ || n == 1);
  if (direct && r.count == 1) return loop_.row(x, n, result, centre);
  reduce_tiles(x, n, step, direct, result, centre);
}

void Job::reduce_tiles(const char* x, int64_t n, int64_t step, bool direct, char* result,
                       const char* centre) const {
  const Axes& r = p_.reduced;
  alignas(16) char value[kMaxItem];
  if (!direct && r.count == 1 && n <= kRowTile) {
    alignas(64) char tile[kRowTile * kMaxItem];
    copy_run(tile, static_cast<int64_t>(item_), p_.accumulator, x, step, p_.dtype, n);
    return loop_.row(tile, n, result, centre);
  }
  Gather gather(join_.row, item_);
  Patience patience;
  alignas(64) char tile[kRowTile * kMaxItem];
  each_offset(r, r.count - 1, [&](int64_t at) {
    if (direct) {
      loop_.row(x + at, n, value, centre);
      gather.push(value);
      return !patience.lost(n);
    }
    for (int64_t i = 0; i < n; i += kRowTile) {
      const int64_t w = std::min(kRowTile, n - i);
      copy_run(tile, static_cast<int64_t>(item_), p_.accumulator, x + at + i * step, step, p_.dtype,
               w);
      loop_.row(tile, w, value, centre);
      gather.push(value);
      if (patience.lost(w)) return false;
    }
    return true;
  });
  gather.finish(result);
}

// Rows too short for lanes are added from the left, as the loop of a row does.
template <class T>
void add_short_rows(const char* x, int64_t step, int64_t n, int64_t rows, T* result) {
  for (int64_t r = 0; r < rows; ++r, x += step) {
    T sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      T v;
      std::memcpy(&v, x + k * sizeof(T), sizeof v);
      sum += v;
    }
    result[r] = sum;
  }
}

bool Job::short_rows(int64_t first, int64_t n, char* acc) const {
  const Axes &k = p_.kept, &r = p_.reduced;
  if (p_.kind != Sum || k.count != 1 || r.count != 1 || r.size[0] >= kShortRow || p_.centre ||
      p_.dtype != p_.accumulator || r.stride[0] != in_item_)
    return false;
  const char* x = p_.data + first * k.stride[0];
  if (p_.dtype == DType::Float32)
    add_short_rows(x, k.stride[0], r.size[0], n, reinterpret_cast<float*>(acc));
  else if (p_.dtype == DType::Float64)
    add_short_rows(x, k.stride[0], r.size[0], n, reinterpret_cast<double*>(acc));
  else
    return false;
  return true;
}

void Job::rows_range(int64_t first, int64_t last, char* partial) const {
  const Axes& k = p_.kept;
  alignas(64) char acc[kTile * kMaxItem];
  for (int64_t begin = first; begin < last; begin += kTile) {
    const int64_t n = std::min(kTile, last - begin);
    const bool done = short_rows(begin, n, acc);
    for (int64_t i = 0; !done && i < n; ++i) {
      const int64_t index = begin + i;
      const int64_t at = k.count == 1 ? index * k.stride[0] : offset_of(index, k);
      const char* centre = p_.centre ? p_.centre + index * item_ : nullptr;
      reduce_rows(p_.data + at, acc + i * item_, centre);
    }
    emit(acc, n, begin, partial);
  }
}

// --- by columns ----------------------------------------------------------------------------------
void Job::reduce_columns(const char* x, int64_t width, char* acc, const char* centre) const {
  const Axes &k = p_.kept, &r = p_.reduced;
  const int64_t step = k.stride[k.count - 1];
  const int64_t rows = r.size[r.count - 1], row_step = r.stride[r.count - 1];
  const bool direct = p_.dtype == p_.accumulator && step == in_item_ && row_step % in_item_ == 0;
  const bool cascade = p_.kind != Max && p_.kind != Min && p_.accumulator != DType::Int64;
  alignas(64) char tile[8 * kTile * kMaxItem];
  alignas(64) char higher[kCascadeLevels - 1][kTile * kMaxItem];
  int64_t held = 0, folds[kCascadeLevels] = {};
  int levels = 0;  // higher levels in use
  auto fold = [&](char* from, int level) {
    if (level == levels) join_.identity(higher[levels++], width);
    join_.columns(from, width, 1, width, higher[level], nullptr);
    join_.identity(from, width);
  };
  auto added = [&](int64_t n) {
    held += n;
    if (!cascade || held < kCascadeRows) return;
    held = 0;
    fold(acc, 0);
    for (int level = 0; level + 2 < kCascadeLevels && ++folds[level] == kCascadeFolds; ++level) {
      folds[level] = 0;
      fold(higher[level], level + 1);
    }
  };
  join_.identity(acc, width);
  Patience patience;
  each_offset(r, r.count - 1, [&](int64_t at) {
    const char* p = x + at;
    for (int64_t i = 0; i < rows;) {
      if (patience.lost(8 * width)) return false;
      if (direct) {
        const int64_t n = std::min(kCascadeRows, rows - i);
        loop_.columns(p + i * row_step, row_step / in_item_, n, width, acc, centre);
        added(n);
        i += n;
        continue;
      }
      const int64_t n = std::min<int64_t>(8, rows - i);
      for (int64_t q = 0; q < n; ++q) {
        copy_run(tile + q * width * static_cast<int64_t>(item_), static_cast<int64_t>(item_),
                 p_.accumulator, p + (i + q) * row_step, step, p_.dtype, width);
      }
      loop_.columns(tile, width, n, width, acc, centre);
      added(n);
      i += n;
    }
    return true;
  });
  for (int level = 0; level < levels; ++level)
    join_.columns(higher[level], width, 1, width, acc, nullptr);
}

void Job::one_column_item(int64_t item, char* partial) const {
  const Axes& k = p_.kept;
  const int64_t outer = item / blocks_, begin = item % blocks_ * kTile;
  const int64_t width = std::min(kTile, columns_ - begin), index = outer * columns_ + begin;
  alignas(64) char acc[kTile * kMaxItem];
  reduce_columns(p_.data + offset_of(index, k), width, acc,
                 p_.centre ? p_.centre + index * item_ : nullptr);
  emit(acc, width, index, partial);
}

// --- threads -------------------------------------------------------------------------------------
void Job::range(int64_t first, int64_t last, char* partial) const {
  if (!by_columns_) return rows_range(first, last, partial);
  for (int64_t i = first; i < last; ++i) one_column_item(i, partial);
}

// Few results of many elements each: the outermost reduced axis is cut into chunks.
void Job::split() {
  const Axes& r = p_.reduced;
  int cut = 0;
  for (int i = 1; i < r.count; ++i) cut = r.size[i] > r.size[cut] ? i : cut;
  const int64_t step = std::max<int64_t>(1, kChunk / (results_ * (per_result_ / r.size[cut])));
  const int64_t chunks = (r.size[cut] - 1) / step + 1;
  std::unique_ptr<char[]> partial(new char[chunks * results_ * item_]);
  parallel::parallel_for(chunks, [&](int64_t c) {
    Problem piece = p_;
    piece.data += c * step * r.stride[cut];
    piece.reduced.size[cut] = std::min(step, r.size[cut] - c * step);
    Job job(piece);
    job.by_columns_ = by_columns_;
    job.range(0, items_, partial.get() + c * results_ * item_);
  });
  Problem rest;
  rest.kind = joining(p_.kind);
  rest.data = partial.get();
  rest.dtype = rest.accumulator = p_.accumulator;
  rest.kept.count = rest.reduced.count = 1;
  rest.kept.size[0] = results_;
  rest.kept.stride[0] = static_cast<int64_t>(item_);
  rest.reduced.size[0] = chunks;
  rest.reduced.stride[0] = results_ * static_cast<int64_t>(item_);
  rest.out = p_.out;
  rest.out_dtype = p_.out_dtype;
  rest.divisor = p_.divisor;
  if (results_ == 1) rest.kept.count = 0;
  Job last(rest);
  last.range(0, last.items_, nullptr);
}

void Job::run() {
  const int64_t per_item = std::max<int64_t>(1, per_result_ * (results_ / items_));
  if (items_ < 8 && per_item * items_ > kSplit && per_result_ > kCascadeRows) return split();
  parallel::parallel_ranges(items_, std::max<int64_t>(1, kGrain / per_item),
                            [&](int64_t begin, int64_t end) { range(begin, end, nullptr); });
}

// Joins axis i + 1 into axis i where one follows the other in memory.
void coalesce(Axes& a) {
  int n = 0;
  for (int i = 0; i < a.count; ++i) {
    int64_t span = 0;  // of an axis of an empty tensor it may not fit
    if (n && !__builtin_mul_overflow(a.stride[i], a.size[i], &span) && a.stride[n - 1] == span) {
      a.size[n - 1] *= a.size[i];
      a.stride[n - 1] = a.stride[i];
    } else {
      a.size[n] = a.size[i];
      a.stride[n++] = a.stride[i];
    }
  }
  a.count = n;
}

// Outermost first; axes of stride zero stay where they are relative to their neighbours.
bool sort_by_stride(int* axis, int n, Span strides) {
  bool moved = false;
  for (int i = 1; i < n; ++i) {
    for (int j = i; j > 0; --j) {
      int64_t before = strides[axis[j - 1]], here = strides[axis[j]];
      if (before == 0 || here == 0 || before >= here) break;
      std::swap(axis[j - 1], axis[j]);
      moved = true;
    }
  }
  return moved;
}

}  // namespace

const Loop3& loops(Kind kind, DType d) {
#if defined(__x86_64__)
  static const Isa isa = active_isa();
  if (isa == Isa::V4) return V4::reduce_loops(kind, d);
  if (isa == Isa::V3) return V3::reduce_loops(kind, d);
#endif
  return Base::reduce_loops(kind, d);
}

void plan_axes(Span shape, Span strides, size_t item, uint64_t mask, Problem* p, int* order,
               bool* ordered) {
  int kept = 0, reduced = 0, reduced_axis[kMaxDims];
  for (int i = 0; i < shape.n; ++i) {
    if (mask >> i & 1) {
      if (shape[i] != 1) reduced_axis[reduced++] = i;
    } else {
      order[kept++] = i;
    }
  }
  *ordered = !sort_by_stride(order, kept, strides);
  sort_by_stride(reduced_axis, reduced, strides);
  // Strides of an empty tensor may not fit when counted in bytes, and lead nowhere.
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  auto fill = [&](Axes& a, const int* axis, int n) {
    a.count = 0;
    for (int i = 0; i < n; ++i) {
      if (shape[axis[i]] == 1) continue;
      a.size[a.count] = shape[axis[i]];
      a.stride[a.count++] = empty ? 0 : strides[axis[i]] * static_cast<int64_t>(item);
    }
    if (!empty) coalesce(a);
  };
  fill(p->kept, order, kept);
  fill(p->reduced, reduced_axis, reduced);
  if (p->reduced.count == 0) {
    p->reduced.count = 1;
    p->reduced.size[0] = 1;
    p->reduced.stride[0] = p->kept.count ? int64_t{1} << 40 : static_cast<int64_t>(item);
  }
}

namespace {

constexpr int64_t kNarrow = 32;

// A long column of short rows without gaps, (n, 3) say, runs too short for the loops.
bool is_narrow(const Problem& p) {
  const Axes &k = p.kept, &r = p.reduced;
  return k.count == 1 && r.count == 1 && !p.centre && k.size[0] <= kNarrow && r.size[0] >= 1024 &&
         k.stride[0] == static_cast<int64_t>(item_size(p.dtype)) &&
         r.stride[0] == k.size[0] * k.stride[0];
}

// Sees many short rows as one long row: (n, 3) as (n / 42, 126), whose results are 42 rows of 3.
void run_narrow(const Problem& p) {
  const int64_t width = p.kept.size[0], factor = 128 / width, rows = p.reduced.size[0];
  const int64_t item = static_cast<int64_t>(item_size(p.accumulator));
  alignas(64) char partial[(128 + kNarrow) * kMaxItem];
  Problem wide = p;
  wide.out = partial;
  wide.out_dtype = p.accumulator;
  wide.divisor = 0;
  wide.kept.size[0] = factor * width;
  wide.reduced.size[0] = rows / factor;
  wide.reduced.stride[0] = factor * p.reduced.stride[0];
  Job(wide).run();
  Problem rest = p;
  rest.kind = joining(p.kind);
  if (const int64_t left = rows % factor) {
    Problem tail = wide;
    tail.data += (rows - left) * p.reduced.stride[0];
    tail.kept = p.kept;
    tail.reduced = p.reduced;
    tail.reduced.size[0] = left;
    tail.out = partial + factor * width * item;
    Job(tail).run();
  }
  rest.data = partial;
  rest.dtype = p.accumulator;
  rest.kept.stride[0] = item;
  rest.reduced.size[0] = factor + (rows % factor != 0);
  rest.reduced.stride[0] = width * item;
  Job(rest).run();
}

}  // namespace

void run(const Problem& p) {
  if (p.kept.total() == 0) return;
  is_narrow(p) ? run_narrow(p) : Job(p).run();
}

// --- sums of what is just being made -------------------------------------------------------------
namespace {

// Sums of blocks joined as the loop of a row does: two of equal rank at once.
template <class T>
T joined(const T* sums, int64_t count) {
  T stack[64];
  int depth = 0;
  for (int64_t b = 0; b < count; ++b) {
    stack[depth++] = sums[b];
    for (int64_t m = b + 1; !(m & 1); m >>= 1, --depth) stack[depth - 2] += stack[depth - 1];
  }
  for (; depth > 1; --depth) stack[depth - 2] += stack[depth - 1];
  return stack[0];
}

template <class T>
void join_all(const Problem& p, const T* sums) {
  const int64_t n = p.reduced.size[0], blocks = (n - 1) / kBlock + 1;
  T result;
  if (n <= kSplit) {
    result = joined(sums, blocks);
  } else {
    constexpr int64_t kBlocks = kChunk / kBlock;
    std::vector<T> chunks;
    for (int64_t b = 0; b < blocks; b += kBlocks)
      chunks.push_back(joined(sums + b, std::min(kBlocks, blocks - b)));
    loops(Sum, p.accumulator)
        .row(chunks.data(), static_cast<int64_t>(chunks.size()), &result, nullptr);
  }
  if (p.divisor != 0) result /= static_cast<T>(p.divisor);
  std::memcpy(p.out, &result, sizeof result);
}

}  // namespace

bool sums_by_blocks(const Problem& p) {
  bool known = p.dtype == DType::Float32 || p.dtype == DType::Float64;
  return known && p.kind == Sum && p.kept.count == 0 && p.reduced.count == 1 && !p.centre &&
         p.reduced.stride[0] == static_cast<int64_t>(item_size(p.dtype)) && p.reduced.size[0] > 0 &&
         p.accumulator == p.dtype && p.out_dtype == p.dtype;
}

void sum_block(DType d, const char* x, int64_t n, char* sum) {
  loops(Sum, d).row(x, n, sum, nullptr);
}

void join_blocks(const Problem& p, const char* sums) {
  if (p.dtype == DType::Float32)
    join_all(p, reinterpret_cast<const float*>(sums));
  else
    join_all(p, reinterpret_cast<const double*>(sums));
}

}  // namespace reduce
}  // namespace adjoint
