// Read block.h first.
#include "program/fuse/block.h"

#include <map>

#include "dispatch/elementwise_forward.h"
#include "kernels/convert.h"
#include "kernels/elementwise/faults.h"

namespace adjoint {
namespace {

using Place = TileLoops::Place;
using Way = TileLoops::Way;
using Argument = TileLoops::Argument;

// Besides kernels, loops of the block are these. The first of their arguments says what to do.
struct Moving {
  std::shared_ptr<TileLoops> tiles;
  uint32_t place;
};
void move_loop(char* const* p, int64_t n) {  // Moving, tile, memory
  const auto& m = *reinterpret_cast<const Moving*>(p[0]);
  move(*m.tiles, m.tiles->places[m.place], p[2], 0, n, p[1]);
}
void repeat_loop(char* const* p, int64_t n) {  // the same
  const auto& m = *reinterpret_cast<const Moving*>(p[0]);
  const Place& place = m.tiles->places[m.place];
  copy_run(p[1], static_cast<int64_t>(item_size(place.wanted)), place.wanted, p[2], 0, place.dtype,
           n);
}
struct Tiling {
  std::shared_ptr<TileLoops> tiles;
  std::vector<char> numbers;
};
void tiles_loop(char* const* p, int64_t n) {  // Tiling, memory by place
  const auto& t = *reinterpret_cast<const Tiling*>(p[0]);
  run_piece(*t.tiles, const_cast<char*>(t.numbers.data()), p + 1, 0, n);
}

class Block final : public FusedLoops {
 public:
  void run(const Instruction& i, Tensor* registers) const override {
    for (size_t w = 0; w < results.size(); ++w) {
      const Tensor& like = like_[w];
      const Geometry& g = results[w];
      registers[i.writes[w]] = like ? empty_contiguous_like(like.get(), g.dtype)
                                    : empty_strided(g.shape, g.strides, g.dtype);
    }
    for (const Patch& p : patches_)
      pointers_[p.at] =
          registers[p.written ? i.writes[p.index] : i.reads[p.index].reg]->data + p.offset;
    for (const BoundLoop& s : loops_) s.loop(s.arguments, s.n);
    if (may_fault_) check_division(!take_integer_fault());
  }

 private:
  friend class BlockBuilder;
  struct BoundLoop {
    Loop loop;
    char** arguments;
    int64_t n;
  };
  struct Patch {
    uint32_t at;  // into pointers_
    int index;    // of the reads or writes
    bool written;
    int64_t offset;
  };

  std::vector<BoundLoop> loops_;
  std::vector<Patch> patches_;
  mutable std::vector<char*> pointers_;
  std::vector<std::unique_ptr<Moving>> movings_;
  std::vector<std::unique_ptr<Tiling>> tilings_;
  std::vector<std::shared_ptr<void>> calls_;
  Tensors like_;  // by result: a contiguous tensor of its shape, or none
  std::unique_ptr<char[]> memory_;
  bool may_fault_ = false;
};

class BlockBuilder {
 public:
  BlockBuilder(const std::vector<Part>& parts, const Instruction& i,
               const std::vector<Register>& registers)
      : parts_(parts), i_(i), registers_(registers) {
    for (size_t k = 0; k < i.reads.size(); ++k) outside_[i.reads[k].reg] = {false, k};
    for (size_t k = 0; k < i.writes.size(); ++k) outside_[i.writes[k]] = {true, k};
  }

  std::shared_ptr<FusedLoops> build() {
    find_last_uses();
    for (size_t k = 0; k < parts_.size(); ++k) {
      const Part& part = parts_[k];
      part.each_register([&](int reg, bool written) {
        if (written) give_memory(reg);
      });
      if (part.loop) {
        add_call(part);
      } else if (part.tiles->numel > 0) {
        part.tiles->is_one_tile() ? add_tile(part) : add_tiles(part);
        block_->may_fault_ |= part.tiles->may_fault;
      }
      part.each_register([&](int reg, bool) { release_memory(reg, k); });
    }
    finish();
    return block_;
  }

 private:
  // A pointer, before the memory is there.
  struct Pointer {
    enum { Local, Scratch, Number, Fixed } kind = Local;
    size_t offset = 0;
    char* fixed = nullptr;
  };
  struct Outside {
    bool written;
    size_t index;
  };
  struct PlannedLoop {
    Loop loop;
    size_t at;
    int64_t n;
  };

  // --- memory of the block's own values, reused when nobody reads them any more
  void find_last_uses() {
    for (size_t k = 0; k < parts_.size(); ++k)
      parts_[k].each_register([&](int reg, bool) { last_use_[reg] = k; });
  }
  size_t bytes_of(int reg) const {
    const Geometry& g = registers_[reg].geometry;
    return (static_cast<size_t>(g.numel()) * item_size(g.dtype) + 63) / 64 * 64;
  }
  void give_memory(int reg) {
    if (outside_.count(reg) || local_.count(reg)) return;
    std::vector<size_t>& idle = idle_[bytes_of(reg)];
    if (idle.empty()) {
      local_[reg] = local_bytes_;
      local_bytes_ += bytes_of(reg);
    } else {
      local_[reg] = idle.back();
      idle.pop_back();
    }
  }
  void release_memory(int reg, size_t part) {
    auto found = local_.find(reg);
    if (found == local_.end() || last_use_[reg] != part) return;
    idle_[bytes_of(reg)].push_back(found->second);
    local_.erase(found);
  }

  // --- pointers
  void point_to(int reg, int64_t offset) {
    if (auto found = outside_.find(reg); found != outside_.end()) {
      block_->patches_.push_back({static_cast<uint32_t>(pointers_.size()),
                                  static_cast<int>(found->second.index), found->second.written,
                                  offset});
      pointers_.push_back({Pointer::Fixed});
    } else {
      pointers_.push_back({Pointer::Local, local_.at(reg) + static_cast<size_t>(offset)});
    }
  }
  void fixed(const void* p) {
    pointers_.push_back({Pointer::Fixed, 0, static_cast<char*>(const_cast<void*>(p))});
  }
  void scratch(const TileLoops& f, uint32_t tile) {
    pointers_.push_back({Pointer::Scratch, tile * f.tile_bytes()});
  }
  size_t number(const TileLoops::Number& n, int64_t count) {
    std::string key(n.bytes, sizeof(n.bytes));
    key += static_cast<char>(n.dtype);
    auto [at, fresh] = numbers_.emplace(std::move(key), std::pair{n, count});
    at->second.second = std::max(at->second.second, count);
    return static_cast<size_t>(std::distance(numbers_.begin(), at));
  }

  // --- parts
  void add_call(const Part& part) {
    block_->calls_.push_back(part.what);
    size_t at = pointers_.size();
    fixed(part.what.get());
    point_to(part.to, 0);
    for (const Part::From& source : part.from) point_to(source.reg, source.offset);
    loops_.push_back({part.loop, at, 1});
  }

  void add_moving(Loop loop, const Part& part, uint32_t place) {
    block_->movings_.push_back(std::make_unique<Moving>(Moving{part.tiles, place}));
    const Place& p = part.tiles->places[place];
    size_t at = pointers_.size();
    fixed(block_->movings_.back().get());
    scratch(*part.tiles, p.tile);
    point_to(p.reg, p.offset);
    loops_.push_back({loop, at, part.tiles->numel});
  }

  void add_tile(const Part& part) {
    const TileLoops& f = *part.tiles;
    scratch_bytes_ = std::max(scratch_bytes_, f.tiles * f.tile_bytes());
    for (uint32_t k = 0; k < f.places.size(); ++k) {
      if (f.places[k].way == Way::Repeated) add_moving(repeat_loop, part, k);
    }
    for (size_t s = 0; s < f.actions.size(); ++s) {
      if (!f.actions[s].loop) {
        add_moving(move_loop, part, f.actions[s].at);
        continue;
      }
      size_t end = f.arguments.size();
      for (size_t next = s + 1; next < f.actions.size(); ++next) {
        if (!f.actions[next].loop) continue;
        end = f.actions[next].at;
        break;
      }
      size_t at = pointers_.size();
      for (size_t k = f.actions[s].at; k < end; ++k) {
        const Argument& a = f.arguments[k];
        if (a.kind == Argument::Tile) {
          scratch(f, a.index);
        } else if (a.kind == Argument::Memory) {
          point_to(f.places[a.index].reg, f.places[a.index].offset);
        } else {
          number(f.numbers[a.index], f.numel);
          number_at_.push_back({pointers_.size(), f.numbers[a.index]});
          pointers_.push_back({Pointer::Number});
        }
      }
      loops_.push_back({f.actions[s].loop, at, f.numel});
    }
  }

  void add_tiles(const Part& part) {
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

  // Numbers, then tiles, then values.
  void finish() {
    std::vector<size_t> number_offset;
    size_t numbers = 0;
    for (const auto& [key, n] : numbers_) {
      number_offset.push_back(numbers);
      numbers += (static_cast<size_t>(n.second) * item_size(n.first.dtype) + 63) / 64 * 64;
    }
    size_t bytes = numbers + scratch_bytes_ + local_bytes_;
    block_->memory_.reset(new char[bytes + 64]);
    char* memory = block_->memory_.get();
    memory += (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64;
    size_t k = 0;
    for (const auto& [key, n] : numbers_)
      fill_run(memory + number_offset[k++], n.first.dtype, n.first.bytes, n.second);
    for (auto& [at, n] : number_at_) pointers_[at].offset = number_offset[number(n, 0)];
    for (const Pointer& p : pointers_) {
      size_t region = p.kind == Pointer::Scratch ? numbers
                      : p.kind == Pointer::Local ? numbers + scratch_bytes_
                                                 : 0;
      block_->pointers_.push_back(p.kind == Pointer::Fixed ? p.fixed : memory + region + p.offset);
    }
    for (const PlannedLoop& s : loops_)
      block_->loops_.push_back({s.loop, block_->pointers_.data() + s.at, s.n});
    for (int reg : i_.writes) {
      const Geometry& g = registers_[reg].geometry;
      block_->results.push_back(g);
      bool plain = g.shape.size() <= kInlineDims && g.strides == contiguous_strides(g.shape);
      block_->like_.push_back(plain ? empty(g.shape, g.dtype) : Tensor());
    }
  }

  const std::vector<Part>& parts_;
  const Instruction& i_;
  const std::vector<Register>& registers_;
  std::shared_ptr<Block> block_ = std::make_shared<Block>();
  std::unordered_map<int, Outside> outside_;
  std::unordered_map<int, size_t> local_, last_use_;
  std::map<size_t, std::vector<size_t>> idle_;  // offsets by size
  std::map<std::string, std::pair<TileLoops::Number, int64_t>> numbers_;
  std::vector<std::pair<size_t, TileLoops::Number>> number_at_;  // pointers to numbers
  std::vector<Pointer> pointers_;
  std::vector<PlannedLoop> loops_;
  size_t local_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::shared_ptr<FusedLoops> make_block(const std::vector<Part>& parts, const Instruction& i,
                                       const std::vector<Register>& registers) {
  return BlockBuilder(parts, i, registers).build();
}

}  // namespace adjoint
