// Deciding how tiles are computed. Read tiles.h first.
#include "../kernels/convert.h"
#include "../parallel/pool.h"
#include "../tensor/gil.h"
#include "tiles.h"

namespace adjoint {
namespace {

constexpr int64_t kTile = 512;
constexpr int64_t kShortRow = 32;          // rows shorter than this are gathered several to a tile
constexpr size_t kTilesBytes = 128 << 10;  // tiles are made shorter where all take more

template <size_t Size>
void copy_loop(char* const* p, int64_t n) {
  std::memmove(p[0], p[1], static_cast<size_t>(n) * Size);
}
Loop copy_loop_of(DType d) {
  switch (item_size(d)) {
    case 1:
      return copy_loop<1>;
    case 2:
      return copy_loop<2>;
    case 4:
      return copy_loop<4>;
    case 8:
      return copy_loop<8>;
    default:
      return copy_loop<16>;
  }
}

}  // namespace

// --- values
// ----------------------------------------------------------------------------------------
int TileBuilder::number(const Value& v, DType wanted) {
  Made m{wanted, Made::Number};
  if (v.kind() == Value::Int || v.kind() == Value::Bool)
    store_scalar(wanted, m.bytes, v.integer());
  else
    store_scalar(wanted, m.bytes, v.complex());
  return element(m.bytes, wanted, wanted);
}

int TileBuilder::element(const char* bytes, DType from, DType wanted) {
  Made m{wanted, Made::Number};
  copy_run(m.bytes, 0, wanted, bytes, 0, from, 1);
  std::string key(m.bytes, sizeof(m.bytes));
  key += static_cast<char>(wanted);
  auto [at, fresh] = known_.emplace(std::move(key), static_cast<int>(values_.size()));
  if (fresh) values_.push_back(m);
  return at->second;
}

int TileBuilder::memory(int read, int64_t offset, Dims byte_strides, DType dtype, DType wanted) {
  std::string key = text(read, " ", offset, " ", Span(byte_strides), " ", dtype, " ", wanted);
  auto [at, fresh] = known_.emplace(std::move(key), static_cast<int>(values_.size()));
  if (!fresh) return at->second;
  FusedLoops::Place p;
  p.index = read;
  p.offset = offset;
  p.strides = std::move(byte_strides);
  p.dtype = dtype;
  p.wanted = wanted;
  Made m{wanted, Made::Memory};
  m.place = static_cast<int>(made_->places.size());
  made_->places.push_back(std::move(p));
  values_.push_back(m);
  return static_cast<int>(values_.size()) - 1;
}

int TileBuilder::loop(Loop l, const std::vector<int>& operands, DType result) {
  int value = static_cast<int>(values_.size());
  values_.push_back({result, Made::Tile});
  Call c{l, {value}};
  c.values.insert(c.values.end(), operands.begin(), operands.end());
  calls_.push_back(std::move(c));
  return value;
}

int TileBuilder::converted(int value, DType to) {
  const Made& m = values_[value];
  if (m.dtype == to) return value;
  if (m.kind == Made::Number) {
    char bytes[16];
    std::memcpy(bytes, m.bytes, sizeof(bytes));
    return element(bytes, m.dtype, to);
  }
  if (m.kind == Made::Memory) {
    const FusedLoops::Place& p = made_->places[m.place];
    if (p.dtype == p.wanted) return memory(p.index, p.offset, Dims(p.strides), p.dtype, to);
  }
  if (static_cast<size_t>(value) >= conversions_.size()) conversions_.resize(value + 1);
  for (int c : conversions_[value]) {
    if (values_[c].dtype == to) return c;
  }
  int c = loop(conversion(to, m.dtype), {value}, to);
  conversions_[value].push_back(c);
  return c;
}

int TileBuilder::copied(int value) {
  return loop(copy_loop_of(values_[value].dtype), {value}, values_[value].dtype);
}

void TileBuilder::result(int value, int write, const Geometry& g) {
  FusedLoops::Place p;
  p.index = write;
  p.written = true;
  p.dtype = p.wanted = g.dtype;
  p.strides = g.strides;
  for (int64_t& s : p.strides) s *= static_cast<int64_t>(item_size(g.dtype));
  values_[value].place = static_cast<int>(made_->places.size());
  made_->places.push_back(std::move(p));
  made_->results.push_back(g);
}

// --- axes
// ------------------------------------------------------------------------------------------
// Axes of length one are dropped, the others put in the order in which they lie in the first
// result, outermost first.
void TileBuilder::order_axes() {
  std::vector<FusedLoops::Place>& places = made_->places;
  for (int i = shape_.size() - 1; i >= 0; --i) {
    if (shape_[i] != 1) continue;
    shape_.erase(i);
    for (FusedLoops::Place& p : places) p.strides.erase(i);
  }
  auto out = std::find_if(places.begin(), places.end(), [](const auto& p) { return p.written; });
  for (int i = 1; i < shape_.size(); ++i) {
    for (int j = i; j > 0 && out->strides[j - 1] < out->strides[j]; --j) {
      std::swap(shape_[j - 1], shape_[j]);
      for (FusedLoops::Place& p : places) std::swap(p.strides[j - 1], p.strides[j]);
    }
  }
}

// Neighbours are merged where everything steps through them evenly.
void TileBuilder::merge_axes() {
  std::vector<FusedLoops::Place>& places = made_->places;
  for (int i = shape_.size() - 2; i >= 0; --i) {
    bool even = true;
    for (const FusedLoops::Place& p : places)
      even &= p.strides[i] == p.strides[i + 1] * shape_[i + 1];
    if (!even) continue;
    shape_[i + 1] *= shape_[i];
    shape_.erase(i);
    for (FusedLoops::Place& p : places) p.strides.erase(i);
  }
}

void TileBuilder::classify(FusedLoops::Place& p) const {
  bool same = p.dtype == p.wanted, flat = same, repeated = !p.written && !shape_.empty();
  auto item = static_cast<int64_t>(item_size(p.dtype)), step = item;
  for (int i = shape_.size() - 1; i >= 0; --i) {
    flat &= p.strides[i] == step;
    repeated &= p.strides[i] == 0;
    step *= shape_[i];
  }
  bool row = same && made_->by_rows && p.strides.back() == item;
  p.way = flat       ? FusedLoops::Way::Flat
          : repeated ? FusedLoops::Way::Repeated
          : row      ? FusedLoops::Way::Row
                     : FusedLoops::Way::Moved;
}

// --- tiles
// -----------------------------------------------------------------------------------------
void TileBuilder::count_uses() {
  for (size_t s = 0; s < calls_.size(); ++s) {
    for (size_t k = 1; k < calls_[s].values.size(); ++k)
      values_[calls_[s].values[k]].last_use = static_cast<int>(s);
  }
}

int TileBuilder::take_tile() {
  if (free_tiles_.empty()) return static_cast<int>(made_->tiles++);
  int t = free_tiles_.back();
  free_tiles_.pop_back();
  return t;
}

// An operand that is read here for the last time gives its tile to the result, if elements are of
// one size: a loop may write over what it reads.
int TileBuilder::take_tile_for(int value, const Call& c, int step) {
  for (size_t k = 1; k < c.values.size(); ++k) {
    Made& m = values_[c.values[k]];
    if (m.tile >= 0 && m.last_use == step && item_size(m.dtype) == item_size(values_[value].dtype))
      return std::exchange(m.tile, -1);
  }
  return take_tile();
}

// Makes an operand ready: a tile for what is repeated or gathered.
void TileBuilder::place_operand(int value) {
  Made& m = values_[value];
  if (m.ready || m.kind != Made::Memory) return;
  m.ready = true;
  FusedLoops::Place& p = made_->places[m.place];
  if (p.way == FusedLoops::Way::Repeated) {
    p.tile = made_->tiles++;  // filled once for all tiles: nobody else's
  } else if (p.way == FusedLoops::Way::Moved) {
    m.tile = take_tile();
    p.tile = static_cast<uint32_t>(m.tile);
    made_->steps.push_back({nullptr, static_cast<uint32_t>(m.place)});
  }
}

void TileBuilder::emit(int step) {
  using Way = FusedLoops::Way;
  const Call& c = calls_[step];
  FusedLoops& f = *made_;
  for (size_t k = 1; k < c.values.size(); ++k) place_operand(c.values[k]);
  auto at = static_cast<uint32_t>(f.arguments.size());
  auto point = [&](int value) {
    const Made& m = values_[value];
    bool number = m.kind == Made::Number;
    bool in_memory =
        m.place >= 0 && (f.places[m.place].way == Way::Flat || f.places[m.place].way == Way::Row);
    if (in_memory) {
      // Sorted by place at the end.
      f.pointed.push_back(static_cast<uint32_t>(f.arguments.size()));
      f.arguments.push_back({static_cast<uint32_t>(m.place), false});
      return;
    }
    uint32_t tile = number        ? static_cast<uint32_t>(value)
                    : m.tile >= 0 ? static_cast<uint32_t>(m.tile)
                                  : f.places[m.place].tile;
    f.arguments.push_back({tile, number});
  };
  f.arguments.push_back({});
  for (size_t k = 1; k < c.values.size(); ++k) point(c.values[k]);
  // The result.
  Made& out = values_[c.values[0]];
  defined_at_[c.values[0]] = step;
  bool in_memory = out.place >= 0 && f.places[out.place].way != Way::Moved;
  if (in_memory) {
    f.arguments[at] = {static_cast<uint32_t>(out.place), false};
    f.pointed.push_back(at);
  } else {
    out.tile = take_tile_for(c.values[0], c, step);
    f.arguments[at] = {static_cast<uint32_t>(out.tile), false};
  }
  f.steps.push_back({c.loop, at});
  if (out.place >= 0 && !in_memory) {
    f.places[out.place].tile = static_cast<uint32_t>(out.tile);
    f.steps.push_back({nullptr, static_cast<uint32_t>(out.place)});
  }
  auto release = [&](int value) {
    Made& m = values_[value];
    if (m.tile >= 0 && m.last_use <= step) free_tiles_.push_back(std::exchange(m.tile, -1));
  };
  for (int value : c.values) release(value);
}

// A result may be written over an operand of the same geometry that is read no later than the
// result is made.
void TileBuilder::find_takeovers() {
  using Way = FusedLoops::Way;
  std::vector<int> places_of_read;
  for (const Made& m : values_) {
    if (m.kind != Made::Memory) continue;
    int read = made_->places[m.place].index;
    if (read >= static_cast<int>(places_of_read.size())) places_of_read.resize(read + 1);
    ++places_of_read[read];
  }
  for (size_t v = 0; v < values_.size(); ++v) {
    const Made& out = values_[v];
    if (out.kind != Made::Tile || out.place < 0) continue;
    const FusedLoops::Place& to = made_->places[out.place];
    for (const Made& in : values_) {
      if (in.kind != Made::Memory || in.last_use > defined_at_[v]) continue;
      const FusedLoops::Place& from = made_->places[in.place];
      if (to.way == Way::Flat && from.way == Way::Flat && from.dtype == to.dtype &&
          from.offset == 0 && places_of_read[from.index] == 1)
        made_->takeovers.push_back({to.index, from.index});
    }
  }
}

// Numbers get tiles of their own, and loops of one tile their memory.
void TileBuilder::lay_out() {
  FusedLoops& f = *made_;
  std::stable_sort(f.pointed.begin(), f.pointed.end(), [&](uint32_t a, uint32_t b) {
    return f.arguments[a].tile < f.arguments[b].tile;
  });
  for (uint32_t k = 0; k < f.pointed.size(); ++k) {
    FusedLoops::Place& p = f.places[f.arguments[f.pointed[k]].tile];
    if (p.first == p.last) p.first = k;
    p.last = k + 1;
  }
  std::vector<int> number_of(values_.size(), -1);
  int numbers = 0;
  for (FusedLoops::Argument& a : f.arguments) {
    if (!a.is_number) continue;
    int& n = number_of[a.tile];
    if (n < 0) n = numbers++;
    a.tile = static_cast<uint32_t>(n);
  }
  auto aligned = [](std::unique_ptr<char[]>& memory, size_t bytes) {
    memory.reset(new char[bytes + 64]);
    return memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64) % 64;
  };
  f.numbers = aligned(f.numbers_memory, numbers * f.tile_bytes());
  for (size_t v = 0; v < values_.size(); ++v) {
    if (number_of[v] < 0) continue;
    fill_run(f.numbers + number_of[v] * f.tile_bytes(), values_[v].dtype, values_[v].bytes, f.tile);
  }
  if (f.numel > f.tile) return;
  char* tiles = aligned(f.own_memory, f.tiles * f.tile_bytes());
  std::vector<bool> to_memory(f.arguments.size());
  for (uint32_t k : f.pointed) to_memory[k] = true;
  for (size_t k = 0; k < f.arguments.size(); ++k) {
    const FusedLoops::Argument& a = f.arguments[k];
    f.own_arguments.push_back(
        to_memory[k] ? nullptr : (a.is_number ? f.numbers : tiles) + a.tile * f.tile_bytes());
  }
}

std::shared_ptr<FusedLoops> TileBuilder::finish() {
  FusedLoops& f = *made_;
  f.numel = 1;
  for (int64_t s : shape_) f.numel *= s;
  f.may_fault = may_fault_;
  if (f.numel == 0) return made_;
  order_axes();
  merge_axes();
  f.shape = shape_;
  f.by_rows = f.numel > kTile && shape_.size() > 1 && shape_.back() >= kShortRow;
  for (FusedLoops::Place& p : f.places) classify(p);
  for (const Made& m : values_) f.item = std::max(f.item, item_size(m.dtype));
  count_uses();
  defined_at_.assign(values_.size(), -1);
  for (size_t s = 0; s < calls_.size(); ++s) emit(static_cast<int>(s));
  find_takeovers();
  f.tile = std::min(kTile, f.numel);
  while (f.tile > 64 && f.tiles * f.tile_bytes() > kTilesBytes) f.tile /= 2;
  // Pieces of about as much work as one op on 16384 elements, in whole tiles.
  auto steps = static_cast<int64_t>(f.steps.size());
  f.grain = std::max<int64_t>(4096, 16384 / (1 + steps / 4)) / f.tile * f.tile;
  lay_out();
  return made_;
}

}  // namespace adjoint
