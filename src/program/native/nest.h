// Neighbouring parts of a block as one nest of loops: values that one of them makes and others read at
// the same place stay in registers, and those that nobody else reads never reach memory.
//
// A nest goes over rows of lanes, R x L. A part goes over all of them, or does so once for each of a few
// planes (the axes of space, which program/fuse/layouts.h has put outermost). Sums over planes are
// values like others. Sums over rows, and over lanes, are taken as the rows come, eight at a time, and are
// complete when the nest ends. Read program/fuse/block.h and tile_body.h first.
#pragma once
#include <optional>
#include <span>

#include "program/fuse/layouts.h"
#include "program/fuse/tiles.h"

namespace adjoint::native {

// A part, and where its pointers stand among those of the function.
struct NestPart {
  const TileLoops* tiles = nullptr;      // pointers by place; or a sum,
  const reduce::Problem* sum = nullptr;  // of one register to another: one pointer, to its result;
  const FoldedRows* fold = nullptr;      // or a sum over lanes
  int from = -1, to = -1;                // registers
  int64_t offset = 0;                    // of what is summed, in bytes
  size_t pointers = 0;
  std::vector<bool> kept;  // by place, or of the sum: whether anybody else reads what is written
};

class Nest {
 public:
  // Whether the part can join those that are there; it has if so.
  bool add(const NestPart& part);
  size_t size() const { return members_.size(); }
  std::optional<std::string> code(const std::string& name) const;
  std::string key() const;

  // Memory that the code touches: bytes [low, high) from where a pointer points.
  struct Touched {
    size_t pointer;
    int reg;
    bool written;
    int64_t low, high;
  };
  std::vector<Touched> touched() const;

 private:
  friend class NestCode;
  enum class What : uint8_t { Tiles, PlaneSum, RowSum, LaneSum };
  struct Member {
    NestPart part;
    What what = What::Tiles;
    int64_t planes = 1;
    bool split = false;  // the rows and lanes are two axes of its shape
    DType summed() const {
      return part.sum ? part.sum->dtype : part.fold->narrow ? DType::Float32 : DType::Float64;
    }
  };
  struct Strides {
    int64_t plane, row, lane;  // in bytes
  };
  // What a register is where the nest makes it.
  struct Written {
    int64_t planes, offset;
    Strides strides;
    DType dtype;
    bool late;  // a sum over rows or lanes
  };

  bool form_of(const TileLoops& f, Member* m, int64_t* lanes) const;
  Strides strides_of(const Member& m, const TileLoops::Place& p) const;
  std::optional<Written> writer_of(int reg) const;
  bool is_touched(int reg) const;
  bool fits(const Member& m) const;
  bool add_sum(const NestPart& part);
  bool add_fold(const NestPart& part);
  bool is_dense(const Written& w) const;
  int64_t rows() const { return lanes_ ? all_ / lanes_ : 1; }

  std::vector<Member> members_;
  int64_t all_ = 0;    // rows times lanes
  int64_t lanes_ = 0;  // 0: not known yet, one row
};

}  // namespace adjoint::native
