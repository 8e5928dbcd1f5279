// Loops over tiles: elementwise ops of one shape, each a kernel, run one after another on a few
// hundred elements at a time. What lies between two of them stays in the first-level cache and
// never reaches memory.
//
// Everything that can be known before a run is decided once, by TileBuilder: which axes are merged,
// what is read where it lies and what has to be gathered, which tile buffer holds which value. A
// run fetches pointers and calls loops. Read next: tiles.cpp; block.h for small tensors; loop_parts.h,
// which says what is computed.
#pragma once
#include <memory>
#include <span>

#include "program/program.h"

namespace adjoint {
namespace native {
class Module;
}

struct TileLoops {
  // How a loop gets at memory.
  enum class Way : uint8_t {
    Flat,      // where it lies, in the order of the tiles
    Row,       // where it lies, along the innermost axis, or in tiles that are periods
    Repeated,  // one element for all: a tile is filled once
    Again,     // the same in every tile, since they are whole periods: gathered once
    Moved,     // gathered into a tile, or scattered from one
    Boxed,     // a box of a value that is put together: see Assembly
  };
  struct Place {
    int reg = 0;
    bool written = false;
    Way way = Way::Flat;
    DType dtype = DType::Float32, wanted = DType::Float32;  // in memory, in the tile
    int64_t offset = 0;                                     // in bytes
    Dims strides;                                           // in bytes, by axis of `shape`
    uint32_t tile = 0;                                      // the buffer, if one is used
    int64_t row = 0;  // elements of a row that there are, where a gap follows; 0: all
    int sum = -1;     // written by blocks that are summed: see `sums`; the register has the sum
    uint32_t first = 0, last = 0;  // pointers to it: a range of `pointed`
  };
  // A value that is put together from boxes of others. A tile of it that lies in one of them is read
  // there; others are filled box by box.
  struct Box {
    int place = -1;  // where its elements are read, or
    int number = 0;  // what they all are
    Dims start, size;
    bool flat =
        false;  // lies in memory in the order of the tiles: at `place`, the box's first element, minus `before`
    int64_t before = 0;           // positions before the first of the box
    int64_t low = 0, high = 0;    // positions for which there is memory, if it is flat
    int64_t first = 0, last = 0;  // if it is flat and without gaps: its positions
  };
  struct Assembly {
    int reg = 0;  // the value, which is not made
    DType dtype = DType::Float32;
    std::vector<Box> boxes;  // a flat one is first, if there is any
    uint32_t tile = 0;
    uint32_t first = 0, last = 0;  // pointers to it: a range of `pointed`
  };
  struct Action {
    Loop loop;  // null: place `at` is moved, or assembly `at` is put together
    uint32_t at;
    bool assembles = false;
    bool spared = false;   // a move that tiles of whole rows do without,
    int by_rows = -1;      // since they have another loop: into `row_loops`
    bool in_next = false;  // done by the next one,
    int chain = -1;        // which is that of `chains`
  };
  // Two loops in one, and its arguments.
  struct Chain {
    Loop loop;
    uint32_t arguments[4];
  };
  // What a loop does in tiles of whole rows, of which one operand repeats an element along each: it
  // is read where it lies, and so is the other one if it is one row for all (kernels/short_rows.h).
  struct RowLoop {
    Loop loop;
    uint32_t repeated;  // a place
    int row = -1;       // a place, or
    uint32_t rows = 0;  // an argument of the loop
  };
  struct Argument {
    enum : uint8_t { Tile, Number, Memory, Assembled } kind;
    DType dtype;
    uint32_t index;  // of the tile, the number, the place, the assembly
  };
  struct Number {
    DType dtype;
    alignas(16) char bytes[16];
  };
  // A result that may take the memory of an operand, if nobody reads that any more: places.
  struct Takeover {
    uint32_t to, from;
  };

  // The sum of all elements of a value, which need not be in memory: a block of reduce::kBlock
  // elements is, and is summed when it is full.
  struct Sum {
    uint32_t place;
    std::shared_ptr<const reduce::Problem> problem;
  };

  Dims shape;            // of the tiles' order: merged axes
  int64_t numel = 0;     // less than those of the shape where the last row ends before its gap
  int64_t tile = 0;      // elements in one
  int64_t period = 0;    // a tile is a multiple of so many elements: axes from some on; 0: of any
  bool by_rows = false;  // no tile goes beyond a row
  bool indexed = false;  // some place is found by the index of its first element
  bool may_fault = false;
  size_t item = 1;     // bytes of the widest element
  uint32_t tiles = 0;  // buffers
  size_t once = 0;     // actions at the front whose results are the same in every tile
  std::vector<Place> places;
  std::vector<Action> actions;
  std::vector<RowLoop> row_loops;
  std::vector<Chain> chains;
  std::vector<Argument> arguments;  // of the loops, one after another
  std::vector<uint32_t>
      pointed;  // arguments that are pointers to memory, by place, then by assembly
  std::vector<Assembly> assemblies;
  std::vector<Number> numbers;
  std::vector<Takeover> takeovers;
  std::vector<Sum> sums;

  size_t tile_bytes() const { return (static_cast<size_t>(tile) * item + 63) / 64 * 64; }
  bool is_one_tile() const { return numel <= tile; }
};

class TileBuilder {
 public:
  // `calls`: how many loops there may be, or more. `pitch`: elements from row to row, where loops run
  // through the gaps between rows (pitches.h).
  explicit TileBuilder(Span shape, size_t calls = 1, int64_t pitch = 0);

  // Values, by number. Numbers are converted as operands of ops are.
  int number(const Value& v, DType wanted);
  int element(const char* bytes, DType from, DType wanted);
  // Memory of a register, as seen from the shape.
  int memory(int reg, int64_t offset, Span byte_strides, DType dtype, DType wanted);
  // A value put together from boxes, which cover the shape and do not overlap. `reg` stands for it.
  struct BoxOf {
    Dims start, size;
    int reg = -1;        // memory, as seen from the shape,
    int64_t offset = 0;  // in bytes; and how many bytes from the register's first element on
    int64_t bytes = 0;   // may be read;
    Dims byte_strides;
    const char* element = nullptr;  // or what all elements are, of the same dtype
  };
  int assembled(int reg, std::span<const BoxOf> boxes, DType dtype);
  int loop(Loop l, std::span<const int> operands, DType result);
  int converted(int value, DType to);
  int copied(int value);
  bool is_one(int value) const;  // the number 1
  // Made by a loop, and not written yet.
  bool is_fresh(int value) const {
    return values_[value].kind == Made::Tile && values_[value].place < 0;
  }
  // The value, which a loop made, is written to memory of a register.
  void result(int value, int reg, int64_t offset, const Dims& byte_strides);
  // The sum of a value's elements, which lie as `byte_strides` say where they are in memory: in the
  // order of the shape.
  void summed(int value, int reg, const Dims& byte_strides,
              std::shared_ptr<const reduce::Problem> problem);
  void may_fault() { may_fault_ = true; }

  std::shared_ptr<TileLoops> finish();

 private:
  struct Made {
    DType dtype;
    enum : uint8_t { Number, Memory, Tile, Assembled } kind;
    bool ready = false;
    int place = -1;     // memory it is read from or written to; of a number or an assembly, which
    int defined = -1;   // the step that makes it
    int last_use = -1;  // the last one that reads it
    int tile = -1;
    int conversion = -1;  // the first copy of it in another dtype,
    int next = -1;        // and the next one of what this is a copy of
  };
  struct Call {
    Loop loop;
    uint32_t first, count;  // of call_values_: the results, then the operands
    uint32_t results = 1;
  };
  std::span<const int> results_of(const Call& c) const {
    return {call_values_.data() + c.first, c.results};
  }
  std::span<const int> operands_of(const Call& c) const {
    return {call_values_.data() + c.first + c.results, c.count - c.results};
  }

  Call call_of(Loop l, std::span<const int> results, std::span<const int> operands);
  void join_pairs();         // kernel_pairs.cpp
  void drop_unit_factors();  // once.cpp, as the next one
  void find_once();
  void order_axes();
  void merge_axes();
  void choose_tile();
  void classify(TileLoops::Place& p) const;
  bool is_dense_in_tile(const TileLoops::Place& p) const;
  int row_loop(const Call& c);
  Loop loop_of_calls(const Call& a, const Call& b,
                     bool* right) const;  // chains.cpp, as the next two
  void bring_together();
  void join_chain(int step);
  void spare_moves();
  template <class F>
  void each_box(F&& f) {
    for (TileLoops::Assembly& a : made_->assemblies) {
      for (TileLoops::Box& b : a.boxes) f(b);
    }
  }
  bool can_merge_boxes(int axis) const;  // tile_boxes.cpp, as the next two
  void merge_boxes(int axis);
  void classify_boxes();
  void count_uses();
  int take_tile();
  int take_tile_for(int value, std::span<const int> operands, int step);
  void place_operand(int value);
  void place_result(int value, std::span<const int> operands, int step);
  TileLoops::Argument argument(int value);
  void emit(int step);
  void leave_unread();
  void find_takeovers();
  void sort_pointers();

  Dims shape_;
  int64_t pitch_;
  std::vector<Made> values_;
  std::vector<Call> calls_;
  int once_ = 0;  // calls at the front that are made once for all tiles
  std::vector<int> call_values_;
  std::vector<int> assembled_;  // by assembly: the value
  Lookup known_;                // numbers and memory
  std::vector<int> free_tiles_;
  bool may_fault_ = false;
  std::shared_ptr<TileLoops> made_ = std::make_shared<TileLoops>();
};

// Where the element at a position lies in a register, in bytes.
inline int64_t offset_at(const TileLoops& f, const TileLoops::Place& p, int64_t position) {
  int64_t offset = p.offset;
  for (int i = f.shape.size() - 1; i >= 0; --i) {
    offset += position % f.shape[i] * p.strides[i];
    position /= f.shape[i];
  }
  return offset;
}
// Moves `n` elements, from position `start` on, between memory and a tile: gathers what is read,
// scatters what is written.
void move(const TileLoops& f, const TileLoops::Place& p, char* data, int64_t start, int64_t n,
          char* tile);
// The loop that copies elements as they are.
Loop copy_loop(DType d);
// Puts `n` elements of a value together, from position `start` on; `data` by place. Returns where they
// are: in the tile, or where they lie in memory.
char* assemble(const TileLoops& f, const TileLoops::Assembly& a, char* const* data, int64_t start,
               int64_t n, char* tile);
// Tiles of each number, one after another.
void fill_numbers(const TileLoops& f, char* memory);
// Positions [begin, end), which are whole tiles unless the last one is not, and whole blocks where
// there are sums; `data` by place, `sums` by sum: room for one of each block.
void run_piece(const TileLoops& f, char* numbers, char* const* data, int64_t begin, int64_t end,
               char* const* sums = nullptr);

// What copies elements as they are.
Loop copy_loop(DType d);

// What a fused instruction does.
struct FusedLoops {
  std::vector<TensorGeometry> results;  // of its writes
  virtual ~FusedLoops() = default;
  virtual void run(const Instruction& i, Tensor* registers) const = 0;

  // Machine code for it (program/native/native.h): which functions it could use; to use them, once
  // they are there; how many of its parts do.
  struct NativeParts {
    size_t native = 0, all = 0;
  };
  virtual void ask_native(native::Module&) {}
  virtual void take_native(const native::Module&) {}
  virtual NativeParts native_parts() const { return {}; }
};

// Large tensors: on all threads, without the GIL. Places refer to registers that are among the
// reads and writes of the instruction; `results` are in the order of the writes.
std::shared_ptr<FusedLoops> large_loops(std::shared_ptr<TileLoops> tiles, const Instruction& i);

}  // namespace adjoint
