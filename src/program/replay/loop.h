// A program as the body of a loop: each run gets what the run before has made (the carry) and a row
// of stacked inputs, and leaves rows of stacked outputs. Read program/replay/replay.h first;
// python/adjoint/loops says which steps are run, and when.
#pragma once
#include "program/program.h"

namespace adjoint {

// A step forward. Inputs of the program are the carry, the rows, and then what it reached by itself.
// Results are named by output k of the program, or ~k for its input k, which is handed on.
struct StepForm {
  std::vector<int> carry, ys;  // what becomes the next carry, and rows of the outputs
  size_t results = 0;          // outputs of the program before those that backward reads
  int stop = -1;               // the output (of `ys`) that ends the loop where it is false
};

// Steps run over the rows [from, to), one by one, downwards where to < from.
struct Rows {
  int64_t from, to;
  int64_t count() const { return to < from ? from - to : to - from; }
  int64_t at(int64_t step) const { return to < from ? from - 1 - step : from + step; }
};

// Values that backward reads, step after step: memory and a place in it. As tensors they would be
// objects that Python's collector walks over, millions of them.
class Tape {
 public:
  Tape() = default;
  ~Tape() {
    for (size_t k = 0; k < values_.size(); ++k) {
      if (k + kAhead < values_.size()) fetch_storage(k + kAhead);
      drop(values_[k].storage);
    }
  }
  Tape(const Tape&) = delete;

  size_t size() const { return values_.size(); }
  void add(const Tensor& t) {
    values_.push_back({t->storage, t->data - static_cast<char*>(t->storage->data)});
    retain(t->storage);
  }
  // A value as an input of a program that was recorded with such a tensor.
  Tensor at(size_t place, const TensorGeometry& g) const {
    const Value& v = values_[place];
    int64_t item = static_cast<int64_t>(item_size(g.dtype));
    Tensor found = on_storage(v.storage, g.shape, g.strides, v.offset / item, g.dtype);
    found.turn_sign(g.pending);
    return found;
  }
  // A long tape lies outside of the processor's caches: a value is asked for before its turn comes,
  // first where it is and then what it holds.
  void fetch_storage(size_t place) const { __builtin_prefetch(values_[place].storage); }
  void fetch_memory(size_t place) const {
    const Value& v = values_[place];
    __builtin_prefetch(static_cast<const char*>(v.storage->data) + v.offset);
  }
  // Bytes of the memory behind the values, each once, without that of other tensors.
  int64_t bytes(const Tensors& others) const;

 private:
  struct Value {
    Storage* storage;
    int64_t offset;  // in bytes
  };
  static constexpr size_t kAhead = 16;
  std::vector<Value> values_;
};

// Runs steps; `carry` becomes what the last one made. What backward reads of each step is added to
// `tape`, unless that is null. Tensors of `ys` that are undefined are not wanted. How many steps ran,
// and whether the loop has ended. `reached` stands for what the program reached by itself. `at` is the
// step of `rows` that runs, for those who catch an error.
struct Ran {
  int64_t steps;
  bool ended;
};
Ran loop_forward(const Program& p, const StepForm& form, Tensors& carry, const Tensors& xs,
                 const Tensors& reached, const Tensors& ys, Rows rows, Tape* tape, int64_t* at);

// A step backward. Inputs of the program are gradients, each a sum of what is listed, then values
// from the tape; its outputs are gradients of the inputs of the forward program.
struct Arriving {
  int reached = -1;        // the sum so far of the gradient of something reached
  std::vector<int> carry;  // gradients of carries
  std::vector<int>
      ys;  // rows of gradients of outputs: of output k, or ~k for the row of the step before
};
struct BackForm {
  std::vector<Arriving> arriving;
  std::vector<int> kept;  // by input after those: which value of the step
};

// Gradients as they are carried from step to step; undefined ones are not there.
struct LoopGradients {
  Tensors carry, reached;
  Tensors ys, xs;  // stacked: what arrives, and what is made
};

// Runs steps of `rows` backward, the last one first, until a gradient comes or goes that had not,
// or had, been there before: how many it ran. `tape` has `each` values for every step of `rows`, from
// place `first` on. `at` is the step of `rows` that runs.
int64_t loop_backward(const Program& p, const BackForm& form, const Tape& tape, size_t first,
                      size_t each, LoopGradients& g, Rows rows, int64_t* at);

}  // namespace adjoint
