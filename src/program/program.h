// A program: ops that were recorded once (program/capture/capture.h), put in order (program/passes/pipeline.h) and are run again
// without Python (program/replay/replay.h).
//
// Values live in registers. Each result of an instruction gets a new one, so a register is written
// once; what is changed in place is its memory, and registers that share memory (views) have the
// same root. A program has inputs (the arguments of the function, then the tensors it reached by
// other ways) and outputs. Read next: program/capture/capture.h.
#pragma once
#include <memory>
#include <optional>

#include "dispatch/op.h"
#include "graph/node.h"
#include "kernels/reduce/reduce.h"
#include "program/capture/identity.h"
#include "program/descriptions.h"
#include "program/few.h"
#include "program/passes/listing.h"

namespace adjoint {

inline constexpr int64_t kBlockNumel = 16384;  // elements that are small: see program/fuse/block.h

struct Register {
  const TensorGeometry* form;
  int64_t offset;     // in bytes from where the first register on that memory lies
  int root;           // into Program::roots: the memory behind it
  bool data = false;  // a header that `.data` made: kData

  const TensorGeometry& geometry() const { return *form; }
};

// The memory behind registers.
struct Memory {
  const char* origin = nullptr;  // where the first register on it lay when it was recorded
  bool external = false;         // it exists outside the program: an input's
  bool changed = false;          // some instruction writes into it after it was made
};

// Argument `argument` of an op, or item `item` of the list that it is.
struct Read {
  int reg;
  int argument = 0;
  int item = -1;
};

struct Pieces;  // program/capture/copying_ops.h

// Several elementwise ops as one instruction (program/fuse/fuse.h).
struct FusedLoops;

struct Repeat;  // program/repeat.h

enum class Kind : uint8_t {
  Apply,       // results = op(args)
  Change,      // op in place: reads[0] is what is changed
  Alias,       // another header on the memory of reads[0]
  Constant,    // a tensor made from numbers that stand in the function
  Host,        // Python is called with the operands and gives the results
  Accumulate,  // adds reads[1] to the gradient of the leaf reads[0]
  GradOf,      // the gradient of the leaf reads[0]
  SetGrad,     // makes reads[1] (or nothing) the gradient of reads[0]
  Fused,
  Repeat,  // a body that runs many times (program/repeat.h)
  Rows,    // a tensor whose rows are the operands (program/repeat.h)
};

// What few instructions have.
struct Particulars {
  Tensor constant;
  Value host;                                  // what to call
  const char* element = nullptr;               // what all elements of the result are
  std::shared_ptr<const reduce::Problem> sum;  // of sums and means, without the memory
  std::shared_ptr<const Pieces> pieces;        // of small results that are put together by copying
  std::shared_ptr<FusedLoops> fused;
  std::shared_ptr<const Repeat> repeat;
  // In the body of a loop: the arguments of the op by run, where they are not always the same.
  std::shared_ptr<const std::vector<const Value*>> table;
  std::vector<int64_t> places;  // of Kind::Rows, by read: where it goes, in bytes
};

struct Instruction {
  Kind kind = Kind::Apply;
  bool changes = false;   // a host call, or an op, that changes memory of its operands
  bool counted = true;    // a change that raises the version of what it changes
  bool may_fail = false;  // by the values of its operands: it runs even if nobody wants the result
  bool fresh = false;     // a constant that others get to see: each run has a copy
  bool drawing = false;   // a loop, or a host call, that draws random numbers
  const Op* op = nullptr;
  const Value* args = nullptr;         // of the op, without its tensors
  const KernelCall* kernel = nullptr;  // of elementwise ops
  Few<Read, 3> reads;
  // A register per tensor of the result, then of what backward keeps; -1: nobody wants it.
  Few<int, 2> writes;
  Few<int, 2> last;  // registers that nobody reads after this
  SourceLine line;
  std::shared_ptr<Particulars> more;

  Particulars& with_more() {
    if (!more) more = std::make_shared<Particulars>();
    return *more;
  }
  const char* element() const { return more ? more->element : nullptr; }
  const reduce::Problem* sum() const { return more ? more->sum.get() : nullptr; }
  const Pieces* pieces() const { return more ? more->pieces.get() : nullptr; }

  const Repeat* repeat() const { return more ? more->repeat.get() : nullptr; }
  bool has_table() const { return more && more->table; }

  bool draws() const { return drawing || (op && op->facts.draws != Draws::Nothing); }
  // Whether it does something besides writing its registers.
  bool has_effect() const {
    return kind == Kind::Host || kind == Kind::Accumulate || kind == Kind::SetGrad || draws() ||
           changes;
  }
};

// 0: a tensor of its own, 1: a view, 2: a view of what requires grad. detach_() raises for views, and
// a view that is made without gradients requires grad as its base does.
inline uint8_t view_kind(const TensorObject* t) {
  return !t->base ? 0 : needs_grad(t->base) ? 2 : 1;
}

// The code of a program before its ops were fused: what can be written to a file.
struct Unfused {
  std::vector<Register> registers;
  std::vector<Instruction> code;
  std::vector<int> inputs, outputs;
};

// How long a program has run, until it is decided whether machine code is worth its while
// (program/native/native.h).
struct Pace {
  bool open = true;
  uint32_t runs = 0;
  int64_t spent = 0;  // nanoseconds, about
};

struct Program {
  mutable Pace pace;
  TallyStreamsRef runs;                        // which of them a profile looks at
  std::shared_ptr<Descriptions> descriptions;  // that registers and instructions refer to
  std::vector<Register> registers;
  std::vector<Memory> roots;
  std::vector<Instruction> code;
  std::vector<int> inputs;
  std::vector<int> outputs;  // -1: None
  int given = 0;             // inputs that are the caller's; the others are `held`
  Tensors held;              // tensors that the function reached by itself, inputs after `given`
  // Leaves (inputs) whose gradient the program reads or changes, and what it found at its start.
  struct GradState {
    int input;
    std::optional<TensorGeometry> found;  // of the gradient, if there was one
    const TensorObject* known;            // which it was, if the function also finds it by itself
  };
  std::vector<GradState> grads;
  bool passes = false;  // it has backward passes of its own, which call hooks of inputs
  std::vector<bool> requires_grad, leaf;  // by input
  std::vector<uint8_t> view;              // by input: view_kind
  DType default_dtype = DType::Float32;   // when it was recorded
  // Where memory of inputs is changed: the first input on the same memory, by input: see program/capture/sharing.h.
  std::vector<int> shares;
  Identity identity;  // of the arguments
  std::shared_ptr<const Unfused> unfused;
  std::vector<Stage>
      stages;  // what each pass has left; empty unless somebody asked (program/passes/pipeline.h)
};

}  // namespace adjoint
