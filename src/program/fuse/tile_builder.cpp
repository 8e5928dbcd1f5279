// Deciding how tiles are computed. Read tiles.h first.
#include <limits>
#include <numeric>

#include "kernels/convert.h"
#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

constexpr int64_t kTile = 512;
constexpr int64_t kSmallTileBytes = 4096;  // where all is in the cache anyway, calls count for more
constexpr int64_t kShortRow = 256;         // rows shorter than this are gathered several to a tile
constexpr size_t kTilesBytes = 128 << 10;  // tiles are made shorter where all take more

template <size_t Size>
void copy_elements(char* const* p, int64_t n) {
  std::memmove(p[0], p[1], static_cast<size_t>(n) * Size);
}

}  // namespace

Loop copy_loop(DType d) {
  switch (item_size(d)) {
    case 1:
      return copy_elements<1>;
    case 2:
      return copy_elements<2>;
    case 4:
      return copy_elements<4>;
    case 8:
      return copy_elements<8>;
    default:
      return copy_elements<16>;
  }
}

TileBuilder::TileBuilder(Span shape, size_t calls, int64_t pitch) : shape_(shape), pitch_(pitch) {
  values_.reserve(calls + 4);
  calls_.reserve(calls);
  call_values_.reserve(3 * calls);
  made_->actions.reserve(calls);
  made_->arguments.reserve(3 * calls);
}

// --- values --------------------------------------------------------------------------------------
int TileBuilder::number(const Value& v, DType wanted) {
  alignas(16) char bytes[16] = {};
  if (v.kind() == Value::Int || v.kind() == Value::Bool)
    store_scalar(wanted, bytes, v.integer());
  else
    store_scalar(wanted, bytes, v.complex());
  return element(bytes, wanted, wanted);
}

int TileBuilder::element(const char* bytes, DType from, DType wanted) {
  TileLoops::Number n{wanted, {}};
  copy_run(n.bytes, 0, wanted, bytes, 0, from, 1);
  size_t words[2];
  std::memcpy(words, n.bytes, sizeof words);
  size_t hash = mix(mix(static_cast<size_t>(wanted), words[0]), words[1]);
  int known = known_.find(hash, [&](int k) {
    const Made& v = values_[k];
    return v.kind == Made::Number && v.dtype == wanted &&
           std::memcmp(made_->numbers[v.place].bytes, n.bytes, sizeof n.bytes) == 0;
  });
  if (known >= 0) return known;
  Made m{wanted, Made::Number};
  m.place = static_cast<int>(made_->numbers.size());
  made_->numbers.push_back(n);
  values_.push_back(m);
  known_.add(hash, static_cast<int>(values_.size()) - 1);
  return static_cast<int>(values_.size()) - 1;
}

bool TileBuilder::is_one(int value) const {
  const Made& m = values_[value];
  return m.kind == Made::Number && load_complex(m.dtype, made_->numbers[m.place].bytes) == 1.0;
}

int TileBuilder::memory(int reg, int64_t offset, Span byte_strides, DType dtype, DType wanted) {
  size_t hash =
      mix(mix(static_cast<size_t>(wanted), static_cast<size_t>(reg)), static_cast<size_t>(offset));
  int known = known_.find(hash, [&](int k) {
    const Made& v = values_[k];
    if (v.kind != Made::Memory || v.dtype != wanted) return false;
    const TileLoops::Place& p = made_->places[v.place];
    return p.reg == reg && p.offset == offset && p.dtype == dtype &&
           Span(p.strides) == byte_strides;
  });
  if (known >= 0) return known;
  TileLoops::Place p;
  p.reg = reg;
  p.offset = offset;
  p.strides = byte_strides;
  p.dtype = dtype;
  p.wanted = wanted;
  Made m{wanted, Made::Memory};
  m.place = static_cast<int>(made_->places.size());
  made_->places.push_back(std::move(p));
  values_.push_back(m);
  known_.add(hash, static_cast<int>(values_.size()) - 1);
  return static_cast<int>(values_.size()) - 1;
}

int TileBuilder::loop(Loop l, std::span<const int> operands, DType result) {
  int value = static_cast<int>(values_.size());
  values_.push_back({result, Made::Tile});
  calls_.push_back(call_of(l, {&value, 1}, operands));
  return value;
}

TileBuilder::Call TileBuilder::call_of(Loop l, std::span<const int> results,
                                       std::span<const int> operands) {
  Call c{l, static_cast<uint32_t>(call_values_.size()),
         static_cast<uint32_t>(results.size() + operands.size()),
         static_cast<uint32_t>(results.size())};
  call_values_.insert(call_values_.end(), results.begin(), results.end());
  call_values_.insert(call_values_.end(), operands.begin(), operands.end());
  return c;
}

int TileBuilder::converted(int value, DType to) {
  const Made& m = values_[value];
  if (m.dtype == to) return value;
  if (m.kind == Made::Number) {
    alignas(16) char bytes[16];
    std::memcpy(bytes, made_->numbers[m.place].bytes, sizeof(bytes));
    return element(bytes, m.dtype, to);
  }
  if (m.kind == Made::Memory) {
    const TileLoops::Place& p = made_->places[m.place];
    if (p.dtype == p.wanted) return memory(p.reg, p.offset, Dims(p.strides), p.dtype, to);
  }
  for (int c = m.conversion; c >= 0; c = values_[c].next) {
    if (values_[c].dtype == to) return c;
  }
  int c = loop(conversion(to, m.dtype), {&value, 1}, to);
  values_[c].next = std::exchange(values_[value].conversion, c);
  return c;
}

int TileBuilder::copied(int value) {
  return loop(copy_loop(values_[value].dtype), {&value, 1}, values_[value].dtype);
}

void TileBuilder::result(int value, int reg, int64_t offset, const Dims& byte_strides) {
  TileLoops::Place p;
  p.reg = reg;
  p.written = true;
  p.offset = offset;
  p.dtype = p.wanted = values_[value].dtype;
  p.strides = byte_strides;
  values_[value].place = static_cast<int>(made_->places.size());
  made_->places.push_back(std::move(p));
}

void TileBuilder::summed(int value, int reg, const Dims& byte_strides,
                         std::shared_ptr<const reduce::Problem> problem) {
  if (!is_fresh(value)) value = copied(value);
  result(value, reg, 0, byte_strides);
  TileLoops::Place& p = made_->places.back();
  p.sum = static_cast<int>(made_->sums.size());
  made_->sums.push_back({static_cast<uint32_t>(values_[value].place), std::move(problem)});
}

// --- axes ----------------------------------------------------------------------------------------
// Axes of length one are dropped, the others put in the order in which they lie in what is summed,
// or in the first result, outermost first.
void TileBuilder::order_axes() {
  std::vector<TileLoops::Place>& places = made_->places;
  for (int i = shape_.size() - 1; i >= 0; --i) {
    if (shape_[i] != 1) continue;
    shape_.erase(i);
    for (TileLoops::Place& p : places) p.strides.erase(i);
    each_box([&](TileLoops::Box& b) {
      b.start.erase(i);
      b.size.erase(i);
    });
  }
  auto out = made_->sums.empty() ? std::find_if(places.begin(), places.end(),
                                                [](const auto& p) { return p.written; })
                                 : places.begin() + made_->sums[0].place;
  for (int i = 1; i < shape_.size(); ++i) {
    for (int j = i; j > 0 && out->strides[j - 1] < out->strides[j]; --j) {
      std::swap(shape_[j - 1], shape_[j]);
      for (TileLoops::Place& p : places) std::swap(p.strides[j - 1], p.strides[j]);
      each_box([&](TileLoops::Box& b) {
        std::swap(b.start[j - 1], b.start[j]);
        std::swap(b.size[j - 1], b.size[j]);
      });
    }
  }
}

// Neighbours are merged where everything steps through them evenly.
void TileBuilder::merge_axes() {
  std::vector<TileLoops::Place>& places = made_->places;
  for (int i = shape_.size() - 2; i >= 0; --i) {
    bool even = can_merge_boxes(i);
    for (const TileLoops::Place& p : places) {
      even &= p.way == TileLoops::Way::Boxed || p.strides[i] == p.strides[i + 1] * shape_[i + 1];
    }
    if (!even) continue;
    merge_boxes(i);
    shape_[i + 1] *= shape_[i];
    shape_.erase(i);
    for (TileLoops::Place& p : places) p.strides.erase(i);
  }
}

// Tiles of whole rows, or several, where rows are short: what is broadcast along the outer axes is
// then the same in each.
void TileBuilder::choose_tile() {
  TileLoops& f = *made_;
  int64_t most = kTile;
  if (f.numel < kBlockNumel) most = std::max(kTile, kSmallTileBytes / static_cast<int64_t>(f.item));
  f.tile = std::min(most, f.numel);
  bool rows = f.numel > most && f.shape.size() > 1;
  f.by_rows = rows && f.shape.back() >= kShortRow;
  if (!rows || f.by_rows || !f.sums.empty()) return;
  int64_t length = 1;
  for (int i = f.shape.size() - 1; i > 0; --i) {
    length *= f.shape[i];
    if (length <= most) f.period = length;
  }
  if (!f.period) return;
  // Of whole cache lines, if that is not much less: then tiles begin where lines do.
  const int64_t line = 64 / static_cast<int64_t>(f.item), lines = std::lcm(f.period, line);
  const int64_t whole = most / f.period * f.period, even = most / lines * lines;
  f.tile = 4 * even >= 3 * whole ? even : whole;
}

void TileBuilder::classify(TileLoops::Place& p) const {
  if (p.way == TileLoops::Way::Boxed) return;
  bool same = p.dtype == p.wanted, flat = same, repeated = !p.written && !shape_.empty();
  bool again = !p.written && made_->period > 0;
  auto item = static_cast<int64_t>(item_size(p.dtype)), step = item;
  for (int i = shape_.size() - 1; i >= 0; --i) {
    flat &= p.strides[i] == step;
    repeated &= p.strides[i] == 0;
    again &= p.strides[i] == 0 || step < item * made_->period;
    step *= shape_[i];
  }
  bool row = same && made_->by_rows && p.strides.back() == item;
  p.way = flat                          ? TileLoops::Way::Flat
          : repeated                    ? TileLoops::Way::Repeated
          : same && is_dense_in_tile(p) ? TileLoops::Way::Row
          : again                       ? TileLoops::Way::Again
          : row                         ? TileLoops::Way::Row
                                        : TileLoops::Way::Moved;
}

// Whether it lies in the order of a tile, where each is one period.
bool TileBuilder::is_dense_in_tile(const TileLoops::Place& p) const {
  if (!made_->period || made_->tile != made_->period || pitch_) return false;
  auto step = static_cast<int64_t>(item_size(p.dtype)), inside = int64_t{1};
  for (int i = shape_.size() - 1; inside < made_->period; --i) {
    if (p.strides[i] != step) return false;
    step *= shape_[i];
    inside *= shape_[i];
  }
  return true;
}

// --- tiles ---------------------------------------------------------------------------------------
void TileBuilder::count_uses() {
  for (size_t s = 0; s < calls_.size(); ++s) {
    for (int operand : operands_of(calls_[s])) values_[operand].last_use = static_cast<int>(s);
  }
  for (int s = 0; s < once_; ++s)
    values_[results_of(calls_[s])[0]].last_use = std::numeric_limits<int>::max();
}

int TileBuilder::take_tile() {
  if (free_tiles_.empty()) return static_cast<int>(made_->tiles++);
  int t = free_tiles_.back();
  free_tiles_.pop_back();
  return t;
}

// An operand that is read here for the last time gives its tile to the result, if elements are of
// one size: a loop may write over what it reads.
int TileBuilder::take_tile_for(int value, std::span<const int> operands, int step) {
  for (int operand : operands) {
    Made& m = values_[operand];
    if (m.tile >= 0 && m.last_use == step && item_size(m.dtype) == item_size(values_[value].dtype))
      return std::exchange(m.tile, -1);
  }
  return take_tile();
}

// Makes an operand ready: a tile for what is repeated or gathered.
void TileBuilder::place_operand(int value) {
  Made& m = values_[value];
  if (m.ready || (m.kind != Made::Memory && m.kind != Made::Assembled)) return;
  m.ready = true;
  if (m.kind == Made::Assembled) {
    m.tile = take_tile();
    made_->assemblies[m.place].tile = static_cast<uint32_t>(m.tile);
    made_->actions.push_back({nullptr, static_cast<uint32_t>(m.place), true});
    return;
  }
  TileLoops::Place& p = made_->places[m.place];
  if (p.way == TileLoops::Way::Repeated || p.way == TileLoops::Way::Again) {
    p.tile = made_->tiles++;  // filled once for all tiles: nobody else's
  } else if (p.way == TileLoops::Way::Moved) {
    m.tile = take_tile();
    p.tile = static_cast<uint32_t>(m.tile);
    made_->actions.push_back({nullptr, static_cast<uint32_t>(m.place)});
  }
}

TileLoops::Argument TileBuilder::argument(int value) {
  using Way = TileLoops::Way;
  using Argument = TileLoops::Argument;
  const Made& m = values_[value];
  Argument a{Argument::Tile, m.dtype, static_cast<uint32_t>(m.place)};
  if (m.kind == Made::Number || m.kind == Made::Assembled) {
    a.kind = m.kind == Made::Number ? Argument::Number : Argument::Assembled;
    return a;
  }
  Way way = m.place < 0 ? Way::Moved : made_->places[m.place].way;
  if (way == Way::Flat || way == Way::Row)
    a.kind = Argument::Memory;
  else if (way == Way::Repeated || way == Way::Again)
    a.index = made_->places[m.place].tile;
  else
    a.index = static_cast<uint32_t>(m.tile);
  return a;
}

// Where a result goes that a loop is about to make: into memory, or a tile.
void TileBuilder::place_result(int value, std::span<const int> operands, int step) {
  Made& m = values_[value];
  m.defined = step;
  bool in_memory = m.place >= 0 && made_->places[m.place].way != TileLoops::Way::Moved;
  if (in_memory) return;
  m.tile = step < once_ ? static_cast<int>(made_->tiles++) : take_tile_for(value, operands, step);
}

void TileBuilder::emit(int step) {
  const Call& c = calls_[step];
  std::span<const int> results = results_of(c), operands = operands_of(c);
  TileLoops& f = *made_;
  for (int operand : operands) place_operand(operand);
  size_t first = f.arguments.size();
  f.arguments.resize(first + results.size());
  for (int operand : operands) f.arguments.push_back(argument(operand));
  for (size_t k = 0; k < results.size(); ++k) {
    place_result(results[k], operands, step);
    f.arguments[first + k] = argument(results[k]);
  }
  f.actions.push_back({c.loop, static_cast<uint32_t>(first)});
  f.actions.back().by_rows = row_loop(c);
  join_chain(step);
  for (int result : results) {
    const Made& m = values_[result];
    if (m.place < 0 || m.tile < 0) continue;
    f.places[m.place].tile = static_cast<uint32_t>(m.tile);
    f.actions.push_back({nullptr, static_cast<uint32_t>(m.place)});
  }
  for (std::span<const int> values : {results, operands}) {
    for (int value : values) {
      Made& m = values_[value];
      if (m.tile >= 0 && m.last_use <= step) free_tiles_.push_back(std::exchange(m.tile, -1));
    }
  }
}

// Memory that no loop reads, since all read it converted, has no tile: to fill one before the tiles
// would be to fill another's.
void TileBuilder::leave_unread() {
  using Way = TileLoops::Way;
  for (const Made& m : values_) {
    if (m.kind != Made::Memory || m.ready) continue;
    Way& way = made_->places[m.place].way;
    if (way == Way::Repeated || way == Way::Again) way = Way::Moved;
  }
}

// A result may be written over an operand of the same geometry that is read no later than the
// result is made.
void TileBuilder::find_takeovers() {
  using Way = TileLoops::Way;
  // Operands that may be written over, and registers that several places read.
  std::vector<const Made*> operands;
  std::vector<int> read;
  for (const TileLoops::Place& p : made_->places) {
    if (!p.written) read.push_back(p.reg);
  }
  std::ranges::sort(read);
  auto once = [&](int reg) {
    auto [first, last] = std::equal_range(read.begin(), read.end(), reg);
    return last - first == 1;
  };
  for (const Made& in : values_) {
    if (in.kind != Made::Memory) continue;
    const TileLoops::Place& from = made_->places[in.place];
    if (from.way == Way::Flat && from.offset == 0 && once(from.reg)) operands.push_back(&in);
  }
  for (const Made& out : values_) {
    if (out.kind != Made::Tile || out.place < 0) continue;
    const TileLoops::Place& to = made_->places[out.place];
    if (to.sum >= 0) continue;
    for (const Made* in : operands) {
      if (in->last_use <= out.defined && to.way == Way::Flat &&
          made_->places[in->place].dtype == to.dtype)
        made_->takeovers.push_back(
            {static_cast<uint32_t>(out.place), static_cast<uint32_t>(in->place)});
    }
  }
}

// Counts the pointers to each place, and puts them one place after another.
void TileBuilder::sort_pointers() {
  TileLoops& f = *made_;
  // The end of the range of what an argument points to; null for tiles and numbers.
  auto range_end = [&](const TileLoops::Argument& a) {
    return a.kind == TileLoops::Argument::Memory      ? &f.places[a.index].last
           : a.kind == TileLoops::Argument::Assembled ? &f.assemblies[a.index].last
                                                      : nullptr;
  };
  for (const TileLoops::Argument& a : f.arguments) {
    if (uint32_t* end = range_end(a)) ++*end;
  }
  uint32_t count = 0;
  auto begin = [&](auto& x) {
    x.first = count;
    count += std::exchange(x.last, count);
  };
  for (TileLoops::Place& p : f.places) begin(p);
  for (TileLoops::Assembly& a : f.assemblies) begin(a);
  f.pointed.resize(count);
  for (uint32_t k = 0; k < f.arguments.size(); ++k) {
    if (uint32_t* end = range_end(f.arguments[k])) f.pointed[(*end)++] = k;
  }
}

std::shared_ptr<TileLoops> TileBuilder::finish() {
  TileLoops& f = *made_;
  int64_t& row = shape_.empty() ? f.numel : shape_[shape_.size() - 1];
  const int64_t gap = pitch_ ? pitch_ - row : 0;
  row += gap;
  f.numel = 1;
  for (int64_t s : shape_) f.numel *= s;
  f.numel -= gap;
  f.may_fault = may_fault_;
  if (f.numel == 0) return made_;
  join_pairs();
  drop_unit_factors();
  order_axes();
  merge_axes();
  f.shape = shape_;
  for (const Made& m : values_) f.item = std::max(f.item, item_size(m.dtype));
  choose_tile();
  for (TileLoops::Place& p : f.places) {
    classify(p);
    bool gathered = p.way == TileLoops::Way::Again || p.way == TileLoops::Way::Moved;
    if (gap && gathered) p.row = pitch_ - gap;
  }
  classify_boxes();
  for (const TileLoops::Sum& sum : f.sums) {
    if (f.places[sum.place].way != TileLoops::Way::Flat)
      throw std::logic_error("a sum in another order than that of its tiles");
  }
  find_once();
  bring_together();
  count_uses();
  for (size_t s = 0; s < calls_.size(); ++s) emit(static_cast<int>(s));
  leave_unread();
  f.once = static_cast<size_t>(once_);
  spare_moves();
  for (const TileLoops::Place& p : f.places) f.indexed |= p.way == TileLoops::Way::Row;
  if (!f.is_one_tile()) find_takeovers();
  int64_t least = std::max<int64_t>(1, f.period);
  while (f.tile > 64 && f.tile >= 2 * least && f.tiles * f.tile_bytes() > kTilesBytes)
    f.tile = f.tile / 2 / least * least;
  sort_pointers();
  return made_;
}

}  // namespace adjoint
