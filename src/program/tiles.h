// Loops over tiles: the elementwise ops of a fused instruction, each a kernel, run one after
// another on a few hundred elements at a time. What lies between two of them stays in the
// first-level cache and never reaches memory.
//
// Everything that can be known before a run is decided once, by TileBuilder: which axes are merged,
// what is read where it lies and what has to be gathered, which tile buffer holds which value. A
// run fetches pointers and calls loops. Read next: tiles.cpp, then fuse.cpp, which says what is
// computed.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "program.h"

namespace adjoint {

struct FusedLoops {
  // How a loop gets at memory.
  enum class Way : uint8_t {
    Flat,      // where it lies, in the order of the tiles
    Row,       // where it lies, along the innermost axis
    Repeated,  // one element for all: a tile is filled once
    Moved,     // gathered into a tile, or scattered from one
  };
  struct Place {
    int index = 0;  // into the instruction's reads, or its writes
    bool written = false;
    Way way = Way::Flat;
    DType dtype = DType::Float32, wanted = DType::Float32;  // in memory, in the tile
    int64_t offset = 0;                                     // in bytes
    Dims strides;                                           // in bytes, by axis of `shape`
    uint32_t tile = 0;                                      // the buffer, if one is used
    uint32_t first = 0, last = 0;                           // pointers to it: a range of `pointed`
  };
  struct Step {
    Loop loop;  // null: place `at` is moved
    uint32_t at;
  };
  // A pointer of `arguments`, before there is memory: a tile, or a number's.
  struct Argument {
    uint32_t tile;
    bool is_number;
  };
  // Write `write` may take the memory of read `read`, if nobody reads that any more.
  struct Takeover {
    int write, read;
  };

  Dims shape;  // of the tiles' order: merged axes
  int64_t numel = 0;
  int64_t tile = 0;      // elements in one
  int64_t grain = 0;     // elements in a parallel piece
  bool by_rows = false;  // no tile goes beyond a row
  bool may_fault = false;
  size_t item = 1;     // bytes of the widest element
  uint32_t tiles = 0;  // buffers
  std::vector<Place> places;
  std::vector<Step> steps;
  std::vector<Argument> arguments;  // of the loops, one after another
  std::vector<uint32_t> pointed;    // arguments that are pointers to memory, by place
  std::vector<Takeover> takeovers;
  std::vector<Geometry> results;
  std::unique_ptr<char[]> numbers_memory;  // a tile of each number
  char* numbers = nullptr;
  // Of loops that have one tile, which run while the GIL is held.
  std::unique_ptr<char[]> own_memory;
  std::vector<char*> own_arguments;

  size_t tile_bytes() const { return (static_cast<size_t>(tile) * item + 63) / 64 * 64; }
};

class TileBuilder {
 public:
  explicit TileBuilder(Span shape) : shape_(shape) {}

  // Values, by number. Numbers are converted as operands of ops are.
  int number(const Value& v, DType wanted);
  int element(const char* bytes, DType from, DType wanted);
  // Memory of a read, as seen from the shape.
  int memory(int read, int64_t offset, Dims byte_strides, DType dtype, DType wanted);
  int loop(Loop l, const std::vector<int>& operands, DType result);
  int converted(int value, DType to);
  int copied(int value);
  DType dtype(int value) const { return values_[value].dtype; }
  // The value is result `write` of the instruction.
  void result(int value, int write, const Geometry& g);
  void may_fault() { may_fault_ = true; }

  std::shared_ptr<FusedLoops> finish();

 private:
  struct Made {
    DType dtype;
    enum { Number, Memory, Tile } kind;
    int place = -1;       // memory it is read from or written to
    char bytes[16] = {};  // of a number
    int last_use = -1;
    int tile = -1;
    bool ready = false;
  };
  struct Call {
    Loop loop;
    std::vector<int> values;  // the result first
  };

  void order_axes();
  void merge_axes();
  void classify(FusedLoops::Place& p) const;
  void count_uses();
  int take_tile();
  int take_tile_for(int value, const Call& c, int step);
  void place_operand(int value);
  void emit(int step);
  void find_takeovers();
  void lay_out();

  Dims shape_;
  std::vector<Made> values_;
  std::vector<Call> calls_;
  std::unordered_map<std::string, int> known_;  // numbers and memory
  std::vector<std::vector<int>> conversions_;   // by value: copies in other dtypes
  std::vector<int> free_tiles_;
  std::vector<int> defined_at_;  // the step that makes a value
  bool may_fault_ = false;
  std::shared_ptr<FusedLoops> made_ = std::make_shared<FusedLoops>();
};

// Computes the results of an instruction into its registers.
void run_tiles(const FusedLoops& f, const Instruction& i, Tensor* registers);

}  // namespace adjoint
