// Running loops over tiles. Read tiles.h first.
#include "program/fuse/tiles.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "dispatch/elementwise_forward.h"
#include "kernels/convert.h"
#include "kernels/elementwise/faults.h"
#include "kernels/short_rows.h"
#include "parallel/pool.h"
#include "program/fuse/short_rows.h"
#include "program/native/native.h"
#include "python/gil.h"

namespace adjoint {
namespace {

using Place = TileLoops::Place;
using Way = TileLoops::Way;
using Argument = TileLoops::Argument;

constexpr int64_t kWorthTaking = 64 << 10;  // bytes of a result for which memory is looked for

char* aligned(char* p) { return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64; }

// The index of a position, by axis.
void find_index(const TileLoops& f, int64_t position, int64_t* index) {
  for (int i = f.shape.size() - 1; i >= 0; --i) {
    index[i] = position % f.shape[i];
    position /= f.shape[i];
  }
}
// Where it lies.
char* row_at(const TileLoops& f, const Place& p, char* data, const int64_t* index) {
  for (int i = f.shape.size() - 1; i >= 0; --i) data += index[i] * p.strides[i];
  return data;
}

size_t block_bytes(const TileLoops& f) {
  return f.sums.size() * static_cast<size_t>(reduce::kBlock) * f.item;
}

// Tiles and arguments of the thread that runs a piece; after the tiles, blocks that are summed.
struct Workspace {
  std::vector<char> memory;
  std::vector<char*> arguments;

  char* prepare(const TileLoops& f, char* numbers) {
    size_t bytes = f.tiles * f.tile_bytes() + block_bytes(f) + 64;
    if (memory.size() < bytes) memory.resize(bytes);
    char* tiles = aligned(memory.data());
    if (arguments.size() < f.arguments.size()) arguments.resize(f.arguments.size());
    for (size_t k = 0; k < f.arguments.size(); ++k) {
      const Argument& a = f.arguments[k];
      if (a.kind == Argument::Tile || a.kind == Argument::Number)
        arguments[k] = (a.kind == Argument::Tile ? tiles : numbers) + a.index * f.tile_bytes();
    }
    return tiles;
  }
};

thread_local Workspace t_workspace;

// The sums of blocks, while a loop runs.
struct Sums {
  std::vector<char> memory;
  std::vector<char*> blocks;  // by sum

  explicit Sums(const TileLoops& f) {
    if (f.sums.empty()) return;
    size_t each = static_cast<size_t>(f.numel / reduce::kBlock + 1) * sizeof(double);
    memory.resize(f.sums.size() * each);
    for (size_t k = 0; k < f.sums.size(); ++k) blocks.push_back(memory.data() + k * each);
  }
  void join(const TileLoops& f, char* const* data) const {
    for (size_t k = 0; k < f.sums.size(); ++k) {
      reduce::Problem p = *f.sums[k].problem;
      p.out = data[f.sums[k].place];
      reduce::join_blocks(p, blocks[k]);
    }
  }
};

void run_chain(const TileLoops::Chain& c, char* const* arguments, int64_t n) {
  char* const p[] = {arguments[c.arguments[0]], arguments[c.arguments[1]],
                     arguments[c.arguments[2]], arguments[c.arguments[3]]};
  c.loop(p, n);
}

// A loop that has an operand which is repeated along rows, on whole rows.
void run_rows(const TileLoops& f, const TileLoops::RowLoop& r, char* const* data,
              char* const* arguments, int64_t at, int64_t n) {
  const int last = f.shape.size() - 1;
  const int64_t length = f.shape[last], most = f.shape[last - 1];
  const auto bytes = length * static_cast<int64_t>(item_size(f.places[r.repeated].dtype));
  const Place& repeated = f.places[r.repeated];
  RepeatedOperand g{length, repeated.strides[last - 1], r.row < 0 ? bytes : 0};
  char *out = arguments[0], *rows = arguments[r.rows];
  int64_t index[kMaxDims];
  for (int64_t left = n / length; left > 0;) {
    find_index(f, at, index);
    const int64_t count = std::min(left, most - index[last - 1]);
    char* const p[] = {out, r.row < 0 ? rows : row_at(f, f.places[r.row], data[r.row], index),
                       row_at(f, repeated, data[r.repeated], index), reinterpret_cast<char*>(&g)};
    r.loop(p, count);
    left -= count;
    at += count * length;
    out += count * bytes;
    rows += count * bytes;
  }
}

// Memory of the next tile, fetched while this one is computed. Where many loops take turns the processor
// sees no stream: the first to read waits for memory, the last to write does, and those between have no
// use for it. A few loops on as many tensors keep memory busy by themselves.
class Ahead {
 public:
  Ahead(const TileLoops& f, char* const* data) : loops_(static_cast<int64_t>(f.actions.size())) {
    for (size_t k = 0; k < f.places.size() && count_ < kMost; ++k) {
      const Place& p = f.places[k];
      const auto item = static_cast<int64_t>(item_size(p.dtype));
      if (p.way == Way::Flat && p.sum < 0 && f.numel * item >= kFar)
        streams_[count_++] = {data[k], item, p.written};
    }
    if (loops_ < kLoopsPerStream * count_) count_ = 0;
    loops_ -= std::ranges::count_if(f.actions, &TileLoops::Action::in_next);
  }
  // The next tile has these positions.
  void start(int64_t position, int64_t n) {
    if (count_ == 0) return;
    int64_t lines = 0;
    for (int k = 0; k < count_; ++k) {
      Stream& s = streams_[k];
      s.at = s.data + position * s.item;
      s.end = s.at + n * s.item;
      lines += n * s.item / kLine;
    }
    stream_ = 0;
    // The last share of a stream may be cut short.
    share_ = (lines / std::max<int64_t>(1, loops_ - count_) + 1) * kLine;
  }
  // A part of it, before each loop.
  void fetch_some() {
    if (stream_ == count_) return;
    Stream& s = streams_[stream_];
    const char* at = s.at;
    const char* end = std::min(s.end, at + share_);
    if (s.written)
      for (; at < end; at += kLine) __builtin_prefetch(at, 1);
    else
      for (; at < end; at += kLine) __builtin_prefetch(at, 0);
    s.at = at;
    stream_ += at >= s.end;
  }

 private:
  static constexpr int kMost = 6;
  static constexpr int64_t kFar = 2 << 20;  // bytes of a tensor that is beyond the inner caches
  static constexpr int64_t kLoopsPerStream = 4;
  static constexpr int64_t kLine = 64;
  struct Stream {
    const char* data;
    int64_t item;
    bool written;
    const char *at = nullptr, *end = nullptr;  // what is still to be fetched
  };
  Stream streams_[kMost];
  int count_ = 0, stream_ = 0;
  int64_t loops_, share_ = 0;  // in bytes
};

// The same by machine code; of sums, what is summed goes through a block of memory as well.
void run_native(const TileLoops& f, native::RangeFunction function, char* const* data,
                int64_t begin, int64_t end, char* const* sums) {
  if (f.sums.empty()) return function(data, begin, end);
  std::vector<char>& memory = t_workspace.memory;
  std::vector<char*> places(data, data + f.places.size());
  if (memory.size() < block_bytes(f) + 64) memory.resize(block_bytes(f) + 64);
  auto block_of = [&](size_t k) {
    return aligned(memory.data()) + k * static_cast<size_t>(reduce::kBlock) * f.item;
  };
  for (size_t k = 0; k < f.sums.size(); ++k) places[f.sums[k].place] = block_of(k);
  for (int64_t at = begin; at < end; at += reduce::kBlock) {
    const int64_t last = std::min(end, at + reduce::kBlock);
    function(places.data(), at, last);
    for (size_t k = 0; k < f.sums.size(); ++k) {
      DType d = f.places[f.sums[k].place].dtype;
      char* to = sums[k] + at / reduce::kBlock * static_cast<int64_t>(item_size(d));
      reduce::sum_block(d, block_of(k), last - at, to);
    }
  }
}

class LargeLoops final : public FusedLoops {
 public:
  LargeLoops(std::shared_ptr<TileLoops> tiles, const Instruction& i) : tiles_(std::move(tiles)) {
    const TileLoops& f = *tiles_;
    numbers_.resize(f.numbers.size() * f.tile_bytes() + 64);
    fill_numbers(f, aligned(numbers_.data()));
    // Pieces of about as much work as one op on 16384 elements, in whole tiles.
    auto actions = static_cast<int64_t>(f.actions.size());
    int64_t whole = f.sums.empty() ? f.tile : reduce::kBlock;
    grain_ = std::max<int64_t>(4096, 16384 / (1 + actions / 4)) / whole * whole;
    std::unordered_map<int, int> reads, writes;
    for (const Read& r : i.reads) reads.emplace(r.reg, static_cast<int>(reads.size()));
    for (int w : i.writes) writes.emplace(w, static_cast<int>(writes.size()));
    for (const Place& p : f.places) index_.push_back((p.written ? writes : reads).at(p.reg));
  }

  void run(const Instruction& i, Tensor* registers) const override {
    const TileLoops& f = *tiles_;
    std::vector<char*> data(f.places.size());
    for (size_t k = 0; k < f.places.size(); ++k) {
      if (!f.places[k].written)
        data[k] = registers[i.reads[index_[k]].reg]->data + f.places[k].offset;
    }
    for (size_t w = 0; w < results.size(); ++w) {
      const TensorGeometry& g = results[w];
      Tensor out = taken(i, registers, static_cast<int>(w));
      if (!out) out = empty_strided(g.shape, g.strides, g.dtype);
      registers[i.writes[w]] = std::move(out);
    }
    for (size_t k = 0; k < f.places.size(); ++k) {
      if (f.places[k].written) data[k] = registers[i.writes[index_[k]]]->data + f.places[k].offset;
    }
    bool fine;
    {
      WithoutGil release(f.numel >= kReleaseGil);
      fine = run_all(data.data());
    }
    check_division(fine);
  }

  void ask_native(native::Module& m) override { number_ = m.add(*tiles_, native::Extent::Range); }
  void take_native(const native::Module& m) override {
    if (number_ < 0) return;
    owner_ = m.owner();
    auto function = reinterpret_cast<native::RangeFunction>(m.address(number_));
    function_.store(function, std::memory_order_release);  // others may be running the loops
  }
  NativeParts native_parts() const override { return {function_.load() ? size_t{1} : 0, 1}; }

 private:
  bool run_all(char* const* data) const {
    const TileLoops& f = *tiles_;
    char* numbers = aligned(const_cast<char*>(numbers_.data()));
    std::atomic<bool> fault{false};
    Sums sums(f);
    const native::RangeFunction function = function_.load(std::memory_order_acquire);
    auto piece = [&](int64_t begin, int64_t end) {
      if (function)
        run_native(f, function, data, begin, end, sums.blocks.data());
      else
        run_piece(f, numbers, data, begin, end, sums.blocks.data());
      if (f.may_fault && take_integer_fault()) fault = true;
    };
    if (f.numel < 2 * grain_)
      piece(0, f.numel);
    else
      parallel::parallel_ranges(f.numel, grain_, piece);
    sums.join(f, data);
    return !fault;
  }

  // The memory of an operand that nobody reads after this, for result `write`.
  Tensor taken(const Instruction& i, Tensor* registers, int write) const {
    const TensorGeometry& g = results[write];
    if (tiles_->numel * static_cast<int64_t>(item_size(g.dtype)) < kWorthTaking) return {};
    for (const TileLoops::Takeover& t : tiles_->takeovers) {
      int reg = i.reads[index_[t.from]].reg;
      bool last = std::find(i.last.begin(), i.last.end(), reg) != i.last.end();
      if (index_[t.to] != write || !last) continue;
      const Tensor& from = registers[reg];
      if (from && from.unique() && g.is_of(from.get())) return std::move(registers[reg]);
    }
    return {};
  }

  std::shared_ptr<TileLoops> tiles_;
  std::vector<int> index_;  // by place: of the instruction's reads or writes
  std::vector<char> numbers_;
  int64_t grain_ = 0;
  int number_ = -1;  // of the function in its module
  std::shared_ptr<void> owner_;
  std::atomic<native::RangeFunction> function_{nullptr};
};

}  // namespace

void move(const TileLoops& f, const Place& p, char* data, int64_t start, int64_t n, char* tile) {
  int nd = f.shape.size();
  auto item = static_cast<int64_t>(item_size(p.wanted));
  auto run = [&](int64_t stride, int64_t count) {
    if (p.written)
      copy_run(data, stride, p.dtype, tile, item, p.wanted, count);
    else
      copy_run(tile, item, p.wanted, data, stride, p.dtype, count);
    tile += count * item;
  };
  if (nd == 0) return run(0, 1);
  if (has_short_rows(f, p)) return move_short_rows(f, p, data, start, n, tile);
  int64_t index[kMaxDims];
  for (int i = nd - 1; i >= 0; --i) {
    index[i] = start % f.shape[i];
    start /= f.shape[i];
    data += index[i] * p.strides[i];
  }
  int64_t row = f.shape[nd - 1], stride = p.strides[nd - 1];
  while (true) {
    int64_t count = std::min(n, row - index[nd - 1]);
    int64_t there = p.row ? std::clamp<int64_t>(p.row - index[nd - 1], 0, count) : count;
    run(stride, there);
    tile += (count - there) * item;
    n -= count;
    if (n == 0) return;
    data -= index[nd - 1] * stride;
    index[nd - 1] = 0;
    for (int i = nd - 2; i >= 0; --i) {
      data += p.strides[i];
      if (++index[i] < f.shape[i]) break;
      data -= p.strides[i] * f.shape[i];
      index[i] = 0;
    }
  }
}

void fill_numbers(const TileLoops& f, char* memory) {
  for (size_t k = 0; k < f.numbers.size(); ++k)
    fill_run(memory + k * f.tile_bytes(), f.numbers[k].dtype, f.numbers[k].bytes, f.tile);
}

void run_piece(const TileLoops& f, char* numbers, char* const* data, int64_t begin, int64_t end,
               char* const* sums) {
  char* tiles = t_workspace.prepare(f, numbers);
  char** arguments = t_workspace.arguments.data();
  for (size_t k = 0; k < f.places.size(); ++k) {
    const Place& p = f.places[k];
    char* tile = tiles + p.tile * f.tile_bytes();
    int64_t n = std::min(f.tile, end - begin);
    if (p.way == Way::Repeated)
      copy_run(tile, static_cast<int64_t>(item_size(p.wanted)), p.wanted, data[k], 0, p.dtype, n);
    else if (p.way == Way::Again)
      move(f, p, data[k], begin, n, tile);
  }
  for (size_t k = 0; k < f.once; ++k)
    f.actions[k].loop(arguments + f.actions[k].at, std::min(f.tile, end - begin));
  int64_t row = f.by_rows ? f.shape.back() : f.numel;
  char* blocks = tiles + f.tiles * f.tile_bytes();
  auto block_of = [&](int sum) {
    return blocks + static_cast<size_t>(sum) * static_cast<size_t>(reduce::kBlock) * f.item;
  };
  Ahead ahead(f, data);
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(f.tile, end - at), in_block = at % reduce::kBlock;
    if (f.by_rows) n = std::min(n, row - at % row);
    if (!f.sums.empty()) n = std::min(n, reduce::kBlock - in_block);
    int64_t index[kMaxDims];
    if (f.indexed) find_index(f, at, index);
    const bool whole_rows =
        !f.row_loops.empty() && at % f.shape.back() == 0 && n % f.shape.back() == 0;
    for (size_t k = 0; k < f.places.size(); ++k) {
      const Place& p = f.places[k];
      if (p.first == p.last) continue;
      auto item = static_cast<int64_t>(item_size(p.dtype));
      char* here = p.sum >= 0           ? block_of(p.sum) + in_block * item
                   : p.way == Way::Flat ? data[k] + at * item
                                        : row_at(f, p, data[k], index);
      for (uint32_t q = p.first; q < p.last; ++q) arguments[f.pointed[q]] = here;
    }
    ahead.start(at + n, std::min(f.tile, end - at - n));
    for (const TileLoops::Action& s : std::span(f.actions).subspan(f.once)) {
      if (s.in_next) continue;
      ahead.fetch_some();
      if (s.loop) [[likely]] {
        if (s.chain >= 0)
          run_chain(f.chains[s.chain], arguments, n);
        else if (s.by_rows >= 0 && whole_rows)
          run_rows(f, f.row_loops[s.by_rows], data, arguments + s.at, at, n);
        else
          s.loop(arguments + s.at, n);
      } else if (s.spared && whole_rows) {
        continue;
      } else if (s.assembles) {
        const TileLoops::Assembly& a = f.assemblies[s.at];
        char* here = assemble(f, a, data, at, n, tiles + a.tile * f.tile_bytes());
        for (uint32_t q = a.first; q < a.last; ++q) arguments[f.pointed[q]] = here;
      } else {
        const Place& p = f.places[s.at];
        move(f, p, data[s.at], at, n, tiles + p.tile * f.tile_bytes());
      }
    }
    at += n;
    if (in_block + n < reduce::kBlock && at < f.numel) continue;
    for (size_t k = 0; k < f.sums.size(); ++k) {
      DType d = f.places[f.sums[k].place].dtype;
      char* to = sums[k] + (at - 1) / reduce::kBlock * static_cast<int64_t>(item_size(d));
      reduce::sum_block(d, block_of(static_cast<int>(k)), in_block + n, to);
    }
  }
}

std::shared_ptr<FusedLoops> large_loops(std::shared_ptr<TileLoops> tiles, const Instruction& i) {
  return std::make_shared<LargeLoops>(std::move(tiles), i);
}

}  // namespace adjoint
