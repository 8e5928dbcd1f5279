// Read block.h first.
#include "program/fuse/block.h"

#include <deque>
#include <map>
#include <numeric>
#include <variant>

#include "dispatch/elementwise_forward.h"
#include "kernels/convert.h"
#include "kernels/elementwise/faults.h"
#include "kernels/short_rows.h"
#include "program/fuse/block_loops.h"
#include "program/fuse/box_cuts.h"
#include "program/fuse/layouts.h"
#include "program/fuse/loop_parts.h"
#include "program/native/block_plan.h"

namespace adjoint {
namespace {

using Place = TileLoops::Place;
using Way = TileLoops::Way;
using Argument = TileLoops::Argument;

// Small pieces of memory wait for so many parts before they are used again: machine code does
// neighbours side by side, and what one reads another must not write.
constexpr size_t kWaits = 2048;  // bytes
constexpr size_t kNeighbours = 8;
constexpr size_t kMostFilled = 64;      // elements from outside that have room of their own
constexpr int64_t kFewCalls = 8;        // of a kernel for one sum
constexpr size_t kMostLoops = 1 << 15;  // of a block, from which on tiles share theirs

class Block final : public FusedLoops {
 public:
  void run(const Instruction& i, Tensor* registers) const override {
    for (size_t w = 0; w < results.size(); ++w) {
      const Tensor& like = like_[w];
      const TensorGeometry& g = results[w];
      registers[i.writes[w]] = like ? empty_contiguous_like(like.get(), g.dtype)
                                    : empty_strided(g.shape, g.strides, g.dtype);
    }
    for (const Patch& p : patches_)
      pointers_[p.at] =
          registers[p.written ? i.writes[p.index] : i.reads[p.index].reg]->data + p.offset;
    for (Filled& f : filled_) f.refresh(registers[i.reads[f.read].reg]->data + f.offset);
    for (const BoundLoop& s : loops_) s.loop(s.arguments, s.n);
    if (may_fault_) check_division(!take_integer_fault());
  }

  void ask_native(native::Module& m) override { plan_.ask(m, pointers_, patches_); }
  void take_native(const native::Module& m) override {
    if (plan_.empty()) return;
    owner_ = m.owner();
    native_.native = plan_.take(m, loops_, pointers_, patches_);
    plan_ = {};
  }
  NativeParts native_parts() const override { return native_; }

 private:
  friend class BlockBuilder;
  std::vector<BoundLoop> loops_;
  std::vector<Patch> patches_;
  mutable std::vector<char*> pointers_;
  native::BlockPlan plan_;
  NativeParts native_;
  std::shared_ptr<void> owner_;  // of machine code
  mutable std::vector<Filled> filled_;
  std::vector<std::unique_ptr<Moving>> movings_;
  std::vector<std::unique_ptr<Assembling>> assemblings_;
  std::vector<std::unique_ptr<Tiling>> tilings_;
  std::deque<std::variant<RepeatedOperand, SummedColumns, SummedRows>> told_;
  std::vector<std::shared_ptr<void>> calls_;
  Tensors like_;  // by result: a contiguous tensor of its shape, or none
  std::unique_ptr<char[]> memory_;
  bool may_fault_ = false;
};

class BlockBuilder {
 public:
  BlockBuilder(const std::vector<Part>& parts, const Instruction& i,
               const std::vector<Register>& registers, const std::function<int64_t(int)>& margin)
      : parts_(parts), i_(i), registers_(registers), margin_(margin) {
    for (size_t k = 0; k < i.reads.size(); ++k) known(i.reads[k].reg).outside = static_cast<int>(k);
    for (size_t k = 0; k < i.writes.size(); ++k) {
      known(i.writes[k]).outside = static_cast<int>(k);
      known(i.writes[k]).written = true;
    }
  }

  std::shared_ptr<FusedLoops> build() {
    find_last_uses();
    for (size_t k = 0; k < parts_.size(); ++k) {
      const Part& part = parts_[k];
      reuse_released(k);
      part.each_register([&](int reg, bool written) {
        if (written) give_memory(reg);
      });
      native::BlockPart made = described(part, k);
      if (part.loop) {
        add_call(part);
      } else if (part.tiles->numel > 0) {
        add_tiles(part);
        block_->may_fault_ |= part.tiles->may_fault;
      }
      if (native::when != native::When::Never) note(std::move(made));
      ++block_->native_.all;
      part.each_register([&](int reg, bool) { release_memory(reg, k); });
    }
    finish();
    return block_;
  }

 private:
  // A pointer, before the memory is there.
  struct Pointer {
    enum { Local, Scratch, Number, Filled, Fixed } kind = Local;
    size_t offset = 0;  // of a number, or what is filled: which; of what is fixed: the address
  };
  // What is known of a register.
  struct Known {
    int reg;
    int outside = -1;  // of the reads or writes
    bool written = false;
    size_t last_use = 0;  // the part
    int64_t local = -1;   // where it stands in the block's memory
  };
  // Memory that nobody reads after a part.
  struct Released {
    size_t part, bytes;
    int64_t offset;
  };
  struct Constant {
    TileLoops::Number number;
    int64_t count;  // elements
    size_t offset = 0;
  };
  struct PlannedLoop {
    Loop loop;
    size_t at;
    int64_t n;
  };

  Known& known(int reg) {
    size_t hash = mix(0, static_cast<size_t>(reg));
    int at = known_at_.find(hash, [&](int k) { return known_[k].reg == reg; });
    if (at < 0) {
      at = static_cast<int>(known_.size());
      known_.push_back({reg});
      known_at_.add(hash, at);
    }
    return known_[at];
  }

  // --- memory of the block's own values, reused when nobody reads them any more
  void find_last_uses() {
    for (size_t k = 0; k < parts_.size(); ++k)
      parts_[k].each_register([&](int reg, bool) { known(reg).last_use = k; });
  }
  static int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t before(int reg) const { return whole_lines(margin_(reg)); }
  size_t bytes_of(int reg) const {
    const TensorGeometry& g = registers_[reg].geometry();
    const int64_t elements = g.numel ? extent(g) : 0;
    return static_cast<size_t>(before(reg) + whole_lines(elements + margin_(reg)));
  }
  void give_memory(int reg) {
    Known& k = known(reg);
    if (k.outside >= 0 || k.local >= 0) return;
    std::vector<int64_t>& idle = idle_[bytes_of(reg)];
    if (idle.empty()) {
      k.local = local_bytes_;
      local_bytes_ += static_cast<int64_t>(bytes_of(reg));
    } else {
      k.local = idle.back();
      idle.pop_back();
    }
    k.local += before(reg);
  }
  void release_memory(int reg, size_t part) {
    Known& k = known(reg);
    if (k.local < 0 || k.last_use != part) return;
    Released r{part, bytes_of(reg), std::exchange(k.local, -1) - before(reg)};
    if (r.bytes <= kWaits)
      waiting_.push_back(r);
    else
      idle_[r.bytes].push_back(r.offset);
  }
  void reuse_released(size_t part) {
    for (; !waiting_.empty() && waiting_.front().part + kNeighbours <= part; waiting_.pop_front())
      idle_[waiting_.front().bytes].push_back(waiting_.front().offset);
  }

  // --- pointers
  void point_to(int reg, int64_t offset) {
    const Known& k = known(reg);
    if (k.outside >= 0) {
      block_->patches_.push_back(
          {static_cast<uint32_t>(pointers_.size()), k.outside, k.written, offset});
      pointers_.push_back({Pointer::Fixed});
    } else if (k.local >= 0) {
      pointers_.push_back({Pointer::Local, static_cast<size_t>(k.local + offset)});
    } else {
      throw std::logic_error("a block reads a value that it does not have");
    }
  }
  void fixed(const void* p) { pointers_.push_back({Pointer::Fixed, reinterpret_cast<size_t>(p)}); }
  void scratch(const TileLoops& f, uint32_t tile, int64_t offset = 0) {
    if (auto filled = filled_tiles_.find(tile); filled != filled_tiles_.end())
      return pointers_.push_back({Pointer::Filled, filled->second});
    pointers_.push_back({Pointer::Scratch, tile * f.tile_bytes() + static_cast<size_t>(offset)});
  }
  void number(const TileLoops::Number& n, int64_t count) {
    size_t words[2];
    std::memcpy(words, n.bytes, sizeof words);
    size_t hash = mix(mix(static_cast<size_t>(n.dtype), words[0]), words[1]);
    int at = number_at_.find(hash, [&](int k) {
      const TileLoops::Number& known = numbers_[k].number;
      return known.dtype == n.dtype && std::memcmp(known.bytes, n.bytes, sizeof n.bytes) == 0;
    });
    if (at < 0) {
      at = static_cast<int>(numbers_.size());
      numbers_.push_back({n, count});
      number_at_.add(hash, at);
    }
    numbers_[at].count = std::max(numbers_[at].count, count);
    pointers_.push_back({Pointer::Number, static_cast<size_t>(at)});
  }

  // --- parts
  // What machine code would do instead (program/native/block_plan.h).
  native::BlockPart described(const Part& part, size_t number) {
    native::BlockPart made;
    made.tiles = part.tiles;
    made.loop = part.loop;
    made.what = part.what.get();
    made.to = part.to;
    if (!part.from.empty()) {
      made.from = part.from[0].reg;
      made.offset = part.from[0].offset;
    }
    made.number = number;
    made.first_loop = loops_.size();
    made.first = pointers_.size();
    auto last_use = [&](int reg) {
      const Known& k = known(reg);
      made.last_use.push_back(k.outside >= 0 ? parts_.size() : k.last_use);
    };
    if (part.loop) last_use(part.to);
    for (size_t k = 0; part.tiles && k < part.tiles->places.size(); ++k)
      last_use(part.tiles->places[k].reg);
    return made;
  }
  void note(native::BlockPart part) {
    part.last_loop = loops_.size();
    part.last = part.places = pointers_.size();
    std::vector<Patch>& patches = block_->patches_;
    size_t before = patches.size();
    for (size_t k = 0; part.tiles && k < part.tiles->places.size(); ++k)
      point_to(part.tiles->places[k].reg, part.tiles->places[k].offset);
    block_->plan_.add(std::move(part),
                      {patches.begin() + static_cast<std::ptrdiff_t>(before), patches.end()});
    patches.resize(before);
  }

  void add_call(const Part& part) {
    block_->calls_.push_back(part.what);
    size_t at = pointers_.size();
    fixed(part.what.get());
    point_to(part.to, 0);
    for (const Part::From& source : part.from) point_to(source.reg, source.offset);
    std::optional<KernelSum> sum = kernel_sum_of(part);
    if (sum && sum->calls <= kFewCalls) return add_sum(part, *sum);
    loops_.push_back({part.loop, at, 1});
  }
  static std::optional<KernelSum> kernel_sum_of(const Part& part) {
    if (part.loop == sum_loop)
      return kernel_sum(*static_cast<const reduce::Problem*>(part.what.get()));
    if (part.loop == fold_rows) return kernel_sum(*static_cast<const FoldedRows*>(part.what.get()));
    return {};
  }
  void add_sum(const Part& part, const KernelSum& sum) {
    const void* about = std::visit([&](const auto& a) { return shared(a); }, sum.about);
    for (int64_t k = 0; k < sum.calls; ++k) {
      size_t at = pointers_.size();
      point_to(part.to, k * sum.to);
      point_to(part.from[0].reg, part.from[0].offset + k * sum.from);
      fixed(about);
      loops_.push_back({sum.loop, at, sum.n});
    }
  }
  // Where the block holds what loops are told: one for most that are told the same.
  static constexpr std::ptrdiff_t kRecent = 32;
  template <class T>
  const void* shared(const T& about) {
    auto& held = block_->told_;
    auto recent = held.end() - std::min<std::ptrdiff_t>(kRecent, std::ssize(held));
    for (; recent != held.end(); ++recent) {
      const T* known = std::get_if<T>(&*recent);
      if (known && std::memcmp(known, &about, sizeof about) == 0) return known;
    }
    return &std::get<T>(held.emplace_back(about));
  }

  void add_moving(Loop loop, const Part& part, uint32_t place, Range tile) {
    block_->movings_.push_back(std::make_unique<Moving>(Moving{part.tiles, place, tile.start}));
    const Place& p = part.tiles->places[place];
    size_t at = pointers_.size();
    fixed(block_->movings_.back().get());
    scratch(*part.tiles, p.tile);
    point_to(p.reg, p.offset);
    loops_.push_back({loop, at, tile.count()});
  }

  // --- values that are put together from boxes
  void point_into(const TileLoops& f, const TileLoops::Assembly& a, int64_t at, int64_t count) {
    const TileLoops::Box& b = box_at(a, at);
    if (b.place < 0) return number(f.numbers[b.number], count);
    const Place& p = f.places[b.place];
    point_to(p.reg, p.offset + (at - b.start[0]) * static_cast<int64_t>(item_size(a.dtype)));
  }
  // Copies what boxes of one axis have at some positions of a tile.
  void add_copies(const TileLoops& f, const TileLoops::Assembly& a, Range part, Range tile) {
    const auto item = static_cast<int64_t>(item_size(a.dtype));
    for (const TileLoops::Box& b : a.boxes) {
      const int64_t first = std::max(part.start, b.start[0]);
      const int64_t count = std::min(part.end, b.start[0] + b.size[0]) - first;
      if (count <= 0) continue;
      size_t at = pointers_.size();
      scratch(f, a.tile, (first - tile.start) * item);
      point_into(f, a, first, count);
      loops_.push_back({copy_loop(a.dtype), at, count});
    }
  }

  void add_assembling(const Part& part, uint32_t assembly, Range tile) {
    const TileLoops& f = *part.tiles;
    const TileLoops::Assembly& a = f.assemblies[assembly];
    if (is_read_in_place(f, a)) return;
    if (is_plain(f, a)) return add_copies(f, a, tile, tile);
    if (whole_box(a, tile)) return;
    auto made = std::make_unique<Assembling>();
    made->tiles = part.tiles;
    made->assembly = assembly;
    made->start = tile.start;
    made->data.resize(f.places.size());
    size_t at = pointers_.size();
    fixed(made.get());
    scratch(f, a.tile);
    for (const TileLoops::Box& b : a.boxes) {
      if (b.place < 0) continue;
      made->places.push_back(b.place);
      point_to(f.places[b.place].reg, f.places[b.place].offset);
    }
    loops_.push_back({assemble_loop, at, tile.count()});
    block_->assemblings_.push_back(std::move(made));
  }
  // Each tile has loops of its own, whose pointers are known now.
  void add_tiles(const Part& part) {
    const TileLoops& f = *part.tiles;
    const auto tiles = static_cast<size_t>((f.numel + f.tile - 1) / f.tile);
    if (tiles > 1 && loops_.size() + tiles * f.actions.size() > kMostLoops)
      return add_tiles_together(part);
    scratch_bytes_ = std::max(scratch_bytes_, f.tiles * f.tile_bytes());
    const Range first{0, std::min(f.tile, f.numel)};
    filled_tiles_.clear();
    for (uint32_t k = 0; k < f.places.size(); ++k) {
      if (f.places[k].way == Way::Repeated && !is_filled(f.places[k], first.count()))
        add_moving(repeat_loop, part, k, first);
      if (f.places[k].way == Way::Again) add_moving(move_loop, part, k, first);
    }
    for (size_t k = 0; k < f.once; ++k) add_loop(f, f.actions[k].loop, arguments_of(f, k), first);
    for (int64_t at = 0; at < f.numel;) {
      Range tile{at, std::min(f.numel, at + f.tile)};
      if (f.by_rows) tile.end = std::min(tile.end, (at / f.shape.back() + 1) * f.shape.back());
      add_tile(part, tile);
      at = tile.end;
    }
  }

  // Whether the tile of a place that repeats an element is filled before all loops.
  bool is_filled(const Place& p, int64_t count) {
    const Known& k = known(p.reg);
    if (k.outside < 0 || k.written) return false;
    std::vector<Filled>& all = block_->filled_;
    auto at = std::ranges::find_if(all, [&](const Filled& f) { return f.is_of(k.outside, p); });
    if (at == all.end()) {
      if (all.size() == kMostFilled) return false;
      at = all.insert(at, {k.outside, p.offset, p.dtype, p.wanted});
    }
    at->count = std::max(at->count, count);
    filled_tiles_[p.tile] = static_cast<size_t>(at - all.begin());
    return true;
  }

  void add_tile(const Part& part, Range tile) {
    const TileLoops& f = *part.tiles;
    const bool whole_rows =
        !f.row_loops.empty() && tile.start % f.shape.back() == 0 && tile.end % f.shape.back() == 0;
    for (size_t k = f.once; k < f.actions.size(); ++k) {
      const TileLoops::Action& s = f.actions[k];
      if (s.in_next || (s.spared && whole_rows)) continue;
      if (!s.loop && s.assembles)
        add_assembling(part, s.at, tile);
      else if (!s.loop)
        add_moving(move_loop, part, s.at, tile);
      else if (s.chain >= 0)
        add_loop(f, f.chains[s.chain].loop, f.chains[s.chain].arguments, tile);
      else if (s.by_rows >= 0 && whole_rows)
        add_row_loop(f, s, tile);
      else
        add_loop(f, s.loop, arguments_of(f, k), tile);
    }
  }
  // A loop, box by box where its arguments come in boxes.
  void add_loop(const TileLoops& f, Loop loop, std::span<const uint32_t> arguments, Range tile) {
    std::vector<int64_t> cuts = cuts_of(f, arguments, tile);
    for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
      const Range part{cuts[cut], cuts[cut + 1]};
      for (uint32_t k : arguments) {
        if (f.arguments[k].kind != Argument::Assembled) continue;
        const TileLoops::Assembly& a = f.assemblies[f.arguments[k].index];
        if (is_read_in_place(f, a) && !is_in_one_box(a, part)) add_copies(f, a, part, tile);
      }
      size_t at = pointers_.size();
      for (uint32_t k : arguments) point_to_argument(f, f.arguments[k], part, tile);
      loops_.push_back({loop, at, part.count()});
    }
  }
  void point_to_argument(const TileLoops& f, const Argument& a, Range part, Range tile) {
    const int64_t offset = (part.start - tile.start) * static_cast<int64_t>(item_size(a.dtype));
    switch (a.kind) {
      case Argument::Tile:
        return scratch(f, a.index, offset);
      case Argument::Memory:
        return point_to(f.places[a.index].reg,
                        offset_at(f, f.places[a.index], tile.start) + offset);
      case Argument::Number:
        return number(f.numbers[a.index], part.count());
      case Argument::Assembled: {
        const TileLoops::Assembly& of = f.assemblies[a.index];
        if (is_read_in_place(f, of) && is_in_one_box(of, part))
          return point_into(f, of, part.start, part.count());
        const TileLoops::Box* box = is_plain(f, of) ? nullptr : whole_box(of, tile);
        if (!box) return scratch(f, of.tile, offset);
        const int64_t before =
            (tile.start - box->before) * static_cast<int64_t>(item_size(a.dtype));
        return point_to(f.places[box->place].reg, f.places[box->place].offset + before + offset);
      }
    }
  }

  // A loop with an operand that is repeated along rows, on whole ones: a loop for each run of rows that lie evenly.
  void add_row_loop(const TileLoops& f, const TileLoops::Action& s, Range tile) {
    const TileLoops::RowLoop& r = f.row_loops[static_cast<size_t>(s.by_rows)];
    const int last = f.shape.size() - 1;
    const int64_t length = f.shape[last], most = f.shape[last - 1];
    const Place& repeated = f.places[r.repeated];
    const auto bytes = length * static_cast<int64_t>(item_size(repeated.dtype));
    const void* about =
        shared(RepeatedOperand{length, repeated.strides[last - 1], r.row < 0 ? bytes : 0});
    for (int64_t at = tile.start; at < tile.end;) {
      const int64_t rows = std::min((tile.end - at) / length, most - at / length % most);
      const Range part{at, at + rows * length};
      size_t first = pointers_.size();
      point_to_argument(f, f.arguments[s.at], part, tile);
      if (r.row < 0)
        point_to_argument(f, f.arguments[s.at + r.rows], part, tile);
      else
        point_to(f.places[r.row].reg, offset_at(f, f.places[r.row], at));
      point_to(repeated.reg, offset_at(f, repeated, at));
      fixed(about);
      loops_.push_back({r.loop, first, rows});
      at = part.end;
    }
  }

  // One loop for all tiles of a part, which finds the pointers when it runs.
  void add_tiles_together(const Part& part) {
    const TileLoops& f = *part.tiles;
    auto tiling = std::make_unique<Tiling>();
    tiling->tiles = part.tiles;
    tiling->numbers.resize(f.numbers.size() * f.tile_bytes());
    fill_numbers(f, tiling->numbers.data());
    size_t at = pointers_.size();
    fixed(tiling.get());
    for (const Place& p : f.places) point_to(p.reg, p.offset);
    loops_.push_back({tiles_loop, at, f.numel});
    block_->tilings_.push_back(std::move(tiling));
  }

  // What is filled, numbers, then tiles, then values.
  void finish() {
    size_t numbers = 0;
    std::vector<size_t> filled;
    for (const Filled& f : block_->filled_) {
      filled.push_back(numbers);
      numbers += static_cast<size_t>(whole_lines(f.count * static_cast<int64_t>(item_size(f.to))));
    }
    for (Constant& c : numbers_) {
      c.offset = numbers;
      numbers += (static_cast<size_t>(c.count) * item_size(c.number.dtype) + 63) / 64 * 64;
    }
    size_t tiles_end = numbers + scratch_bytes_;
    block_->memory_.reset(new char[tiles_end + static_cast<size_t>(local_bytes_) + 64]);
    char* memory = block_->memory_.get();
    memory += (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64;
    for (const Constant& c : numbers_)
      fill_run(memory + c.offset, c.number.dtype, c.number.bytes, c.count);
    for (size_t k = 0; k < filled.size(); ++k) block_->filled_[k].memory = memory + filled[k];
    block_->pointers_.reserve(pointers_.size());
    for (const Pointer& p : pointers_) {
      block_->pointers_.push_back(p.kind == Pointer::Fixed     ? reinterpret_cast<char*>(p.offset)
                                  : p.kind == Pointer::Number  ? memory + numbers_[p.offset].offset
                                  : p.kind == Pointer::Filled  ? memory + filled[p.offset]
                                  : p.kind == Pointer::Scratch ? memory + numbers + p.offset
                                                               : memory + tiles_end + p.offset);
    }
    block_->loops_.reserve(loops_.size());
    for (const PlannedLoop& s : loops_)
      block_->loops_.push_back({s.loop, block_->pointers_.data() + s.at, s.n});
    for (int reg : i_.writes) {
      const TensorGeometry& g = registers_[reg].geometry();
      block_->results.push_back(g);
      bool plain = g.shape.size() <= kInlineDims && g.strides == contiguous_strides(g.shape);
      block_->like_.push_back(plain ? empty(g.shape, g.dtype) : Tensor());
    }
  }

  const std::vector<Part>& parts_;
  const Instruction& i_;
  const std::vector<Register>& registers_;
  const std::function<int64_t(int)>& margin_;
  std::shared_ptr<Block> block_ = std::make_shared<Block>();
  std::vector<Known> known_;
  Lookup known_at_;
  std::map<size_t, std::vector<int64_t>> idle_;  // offsets by size
  std::deque<Released> waiting_;
  std::vector<Constant> numbers_;
  Lookup number_at_;
  std::vector<Pointer> pointers_;
  std::vector<PlannedLoop> loops_;
  int64_t local_bytes_ = 0;
  size_t scratch_bytes_ = 0;
  std::map<uint32_t, size_t> filled_tiles_;  // of the part in hand: into what is filled
};

}  // namespace

std::shared_ptr<FusedLoops> make_block(const std::vector<Part>& parts, const Instruction& i,
                                       const std::vector<Register>& registers,
                                       const std::function<int64_t(int)>& margin) {
  return BlockBuilder(parts, i, registers, margin).build();
}

}  // namespace adjoint
