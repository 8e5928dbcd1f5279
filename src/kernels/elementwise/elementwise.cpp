// How strided, broadcast and converted operands reach a contiguous loop.
//
// The shape is first simplified: axes of length one dropped, the rest put in the order in which
// they lie in the output (a transposed result of a transposed operand is one run of memory),
// neighbours merged where every operand steps through them evenly. Then work goes tile by tile: an
// operand that lies contiguously in the wanted dtype is handed to the loop where it is; any other
// is gathered (and converted) into a tile buffer that stays in L1, and an output scattered from
// one. So a kernel exists once, for contiguous memory.
#include "kernels/elementwise/elementwise.h"

#include <atomic>

#include "kernels/convert.h"
#include "kernels/elementwise/faults.h"
#include "parallel/pool.h"
#include "tensor/self_overlap.h"

namespace adjoint {
namespace {

constexpr int64_t kTile = 512;
constexpr int64_t kGrain = 16384;  // elements per parallel chunk
constexpr int64_t kShortRow = 32;  // rows shorter than this are gathered several to a tile

struct Plan {
  Loop loop;
  int count;
  Dims shape;
  Operand* operand;
  size_t item[kMaxOperands];       // bytes of an element in memory
  size_t tile_item[kMaxOperands];  // bytes of an element in a tile
  DType wanted[kMaxOperands];
  bool flat[kMaxOperands];      // contiguous over the whole shape, in the wanted dtype
  bool constant[kMaxOperands];  // one element for the whole shape
  bool all_flat;
  bool repeats;  // elements of the output share places: the last one of the shape's order counts
};

// Whether the output's axes lie in memory in another order than the shape has them.
bool out_of_order(const Plan& p) {
  const Dims& strides = p.operand[0].strides;
  bool out = false;
  int64_t outer = INT64_MAX;
  for (int i = 0; i < p.shape.size(); ++i) {
    if (p.shape[i] == 1) continue;
    out |= strides[i] > outer;
    outer = strides[i];
  }
  return out;
}

// Sorts the axes by the output's strides, outermost first.
void put_in_order(Plan& p) {
  const Dims& strides = p.operand[0].strides;
  for (int i = 1; i < p.shape.size(); ++i) {
    for (int j = i; j > 0 && strides[j - 1] < strides[j]; --j) {
      std::swap(p.shape[j - 1], p.shape[j]);
      for (int k = 0; k < p.count; ++k)
        std::swap(p.operand[k].strides[j - 1], p.operand[k].strides[j]);
    }
  }
}

void simplify(Plan& p) {
  if (!p.repeats && out_of_order(p)) put_in_order(p);
  Dims shape;
  Dims strides[kMaxOperands];
  for (int i = 0; i < p.shape.size(); ++i) {
    int64_t s = p.shape[i];
    if (s == 1) continue;
    bool merge = !shape.empty();
    for (int k = 0; merge && k < p.count; ++k) {
      merge = strides[k].back() == p.operand[k].strides[i] * s;
    }
    if (merge) {
      shape.back() *= s;
      for (int k = 0; k < p.count; ++k) strides[k].back() = p.operand[k].strides[i];
    } else {
      shape.push_back(s);
      for (int k = 0; k < p.count; ++k) strides[k].push_back(p.operand[k].strides[i]);
    }
  }
  p.shape = shape;
  for (int k = 0; k < p.count; ++k) p.operand[k].strides = strides[k];
}

void classify(Plan& p) {
  p.all_flat = true;
  for (int k = 0; k < p.count; ++k) {
    const Operand& o = p.operand[k];
    bool flat = o.dtype == p.wanted[k], constant = true;
    int64_t step = static_cast<int64_t>(p.item[k]);
    for (int i = p.shape.size() - 1; i >= 0; --i) {
      flat &= o.strides[i] == step;
      constant &= o.strides[i] == 0;
      step *= p.shape[i];
    }
    p.flat[k] = flat;
    p.constant[k] = constant && k > 0 && p.shape.size() > 0;
    p.all_flat &= flat;
  }
}

// A position in the shape, and the byte offset of it in one operand.
struct Cursor {
  const Plan& plan;
  int64_t index[kMaxDims];

  Cursor(const Plan& p, int64_t flat) : plan(p) {
    for (int i = p.shape.size() - 1; i >= 0; --i) {
      index[i] = flat % p.shape[i];
      flat /= p.shape[i];
    }
  }
  int64_t offset(int k) const {
    int64_t at = 0;
    for (int i = 0; i < plan.shape.size(); ++i) at += index[i] * plan.operand[k].strides[i];
    return at;
  }
  // Within a row, or to the start of the next one.
  void advance(int64_t n) {
    int i = plan.shape.size() - 1;
    for (index[i] += n; i > 0 && index[i] == plan.shape[i]; ++index[--i]) index[i] = 0;
  }
};

// Moves `n` elements between operand k, from flat position `start` on, and a tile.
template <bool Gather>
void transfer(const Plan& p, int k, int64_t start, int64_t n, char* tile) {
  const Operand& o = p.operand[k];
  int nd = p.shape.size();
  int64_t step = static_cast<int64_t>(p.tile_item[k]);
  if (nd == 0) {
    if constexpr (Gather)
      copy_run(tile, step, p.wanted[k], o.data, 0, o.dtype, 1);
    else
      copy_run(o.data, 0, o.dtype, tile, step, p.wanted[k], 1);
    return;
  }
  Cursor c(p, start);
  int64_t row = p.shape[nd - 1], stride = o.strides[nd - 1];
  char* at = o.data + c.offset(k);
  while (n > 0) {
    int64_t run = std::min(n, row - c.index[nd - 1]);
    if constexpr (Gather)
      copy_run(tile, step, p.wanted[k], at, stride, o.dtype, run);
    else
      copy_run(at, stride, o.dtype, tile, step, p.wanted[k], run);
    tile += run * step;
    n -= run;
    at -= c.index[nd - 1] * stride;
    c.index[nd - 1] = 0;
    for (int i = nd - 2; i >= 0; --i) {
      at += o.strides[i];
      if (++c.index[i] < p.shape[i]) break;
      at -= o.strides[i] * p.shape[i];
      c.index[i] = 0;
    }
  }
}

void run_range(const Plan& p, int64_t begin, int64_t end) {
  alignas(64) char buffer[kMaxOperands][kTile * 16];
  char* at[kMaxOperands];
  if (p.all_flat) {
    for (int k = 0; k < p.count; ++k)
      at[k] = p.operand[k].data + begin * static_cast<int64_t>(p.item[k]);
    p.loop(at, end - begin);
    return;
  }
  int nd = p.shape.size();
  int64_t row = nd ? p.shape[nd - 1] : 1;
  bool by_rows = row >= kShortRow;
  for (int k = 1; k < p.count; ++k) {
    if (p.constant[k]) {
      copy_run(buffer[k], static_cast<int64_t>(p.tile_item[k]), p.wanted[k], p.operand[k].data, 0,
               p.operand[k].dtype, std::min(kTile, end - begin));
    }
  }
  Cursor cursor(p, by_rows ? begin : 0);
  for (int64_t pos = begin; pos < end;) {
    int64_t n = std::min(kTile, end - pos);
    if (by_rows) n = std::min(n, row - cursor.index[nd - 1]);
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      int64_t item = static_cast<int64_t>(p.item[k]);
      if (p.flat[k]) {
        at[k] = o.data + pos * item;
      } else if (by_rows && o.strides[nd - 1] == item && o.dtype == p.wanted[k]) {
        at[k] = o.data + cursor.offset(k);
      } else {
        at[k] = buffer[k];
        if (k > 0 && !p.constant[k]) transfer<true>(p, k, pos, n, at[k]);
      }
    }
    p.loop(at, n);
    if (at[0] == buffer[0]) transfer<false>(p, 0, pos, n, at[0]);
    pos += n;
    if (by_rows) cursor.advance(n);
  }
}

bool run_plan(const Plan& p, int64_t n) {
  if (n < 2 * kGrain || p.repeats) {
    run_range(p, 0, n);
    return !take_integer_fault();
  }
  std::atomic<bool> fault{false};
  parallel::parallel_ranges(n, kGrain, [&](int64_t b, int64_t e) {
    run_range(p, b, e);
    if (take_integer_fault()) fault = true;
  });
  return !fault;
}

}  // namespace

bool run_elementwise(Loop loop, const DType* wanted, Span shape, Operand* operand, int count) {
  Plan p;
  p.loop = loop;
  p.count = count;
  p.operand = operand;
  p.shape = Dims(shape);
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  if (n == 0) return true;
  for (int k = 0; k < count; ++k) {
    p.wanted[k] = wanted[k];
    p.item[k] = item_size(operand[k].dtype);
    p.tile_item[k] = item_size(wanted[k]);
  }
  p.repeats = places_repeat(shape, operand[0].strides, static_cast<int64_t>(p.item[0]));
  simplify(p);
  classify(p);
  return run_plan(p, n);
}

bool run_contiguous(Loop loop, const size_t* item, char* const* data, int count, int64_t n) {
  if (n < 2 * kGrain) {
    loop(data, n);
    return !take_integer_fault();
  }
  std::atomic<bool> fault{false};
  parallel::parallel_ranges(n, kGrain, [&](int64_t b, int64_t e) {
    char* at[kMaxOperands];
    for (int k = 0; k < count; ++k) at[k] = data[k] + b * static_cast<int64_t>(item[k]);
    loop(at, e - b);
    if (take_integer_fault()) fault = true;
  });
  return !fault;
}

}  // namespace adjoint
