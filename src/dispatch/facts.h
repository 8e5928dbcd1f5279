// What a block says of its op besides values and derivatives. Batching, sparsity patterns, compiled
// programs, `out=` and explanations go by these facts, and know no op by its name.
//
// Most blocks state none of them: what is left unstated follows from the kind of the op
// (settle_facts in facts.cpp). Read next: facts.cpp, then op.h for the words of a block.
#pragma once
#include <cstdint>

#include "tensor/value.h"

namespace adjoint {

struct Op;

// Which elements of its operands an element of the result depends on. Each kind has a rule of its
// name in python/adjoint/func, which passes sparsity patterns on.
enum class Depends : uint8_t {
  Unstated,
  Everything,  // on all of them
  Pointwise,   // on those in its place
  Moved,       // on one element of each operand, or elements are summed into it
  Along,       // on what shares its place on the axes other than `dim`
  Product,     // on a row and a column
  // With rules of their own:
  Scattered,  // moved, unless `reduce` says how to combine
  ScatterReduced,
  IndexReduced,
  NormalizedRows,
  NormalizedRowsBackward,
  ClassRows,
  ClassRowsBackward,
  PairSplit,  // a complex number as two real ones
  PairJoined,
  Distances,
  Convolution,  // on the elements of a window and of the weight that meet there
  ConvolutionInput,
  ConvolutionWeight,
  Matrices,  // on whole matrices (the last two axes), or vectors that go with them
};
inline constexpr int kDepends = static_cast<int>(Depends::Matrices) + 1;
const char* to_string(Depends d);

// A product of two arguments that follow one another.
enum class Product : uint8_t {
  None,
  Matrices,
  Batches,  // of matrices
  MatrixVector,
  Vectors,
  Transposed,  // by the transpose of the second
  Outer,
  ByAxes,  // one of these, by how many axes the factors have
};
struct ProductForm {
  Product form = Product::None;
  int8_t first = 0;   // the argument that is the first factor
  int8_t added = -1;  // an argument that is added to the product
};

// How random numbers are drawn under vmap, where each sample has its own.
enum class Draws : uint8_t {
  Nothing,
  Batch,   // for all samples at once: one more axis
  Like,    // the same; the first argument gives shape and dtype only
  Sample,  // for one sample after the other
  Rows,    // for the rows of all samples
  Mask,    // a mask for the first argument; none outside training
};

// Which dtype a tensor given as out= may have.
enum class OutDType : uint8_t {
  Unstated,
  Exact,        // the result's own
  ExactOrByte,  // or uint8 for a bool
  Converts,     // any that promotion lets the result be cast to
  ConvertsElseTypeError,
  Decides,   // any: it stands for the argument `dtype`, unless that is given
  SameKind,  // any precision; complex for a complex result, real for a real one
  Input,     // that of the first argument
  Bool,
};
using OutRule = OutDType (*)(const Value* args);

// Which precision an op's floating-point operands take under autocast, where they are not float64.
enum class Autocast : uint8_t {
  Untouched,  // their own
  Lower,      // the lower one, that of the context
  Float32,
  Widest,  // float32 if one of them has it, the lower one otherwise
  Inside,  // it is written with ops, which are asked one by one
};
const char* to_string(Autocast a);

// A result that is put together from its operands: which part of `whole` one of them fills, or a box
// of it. An undefined tensor: the rule does not hold for these arguments.
struct Placing {
  const Tensor& whole;
  const Value* args;  // of the op, without its tensors
  const Tensor& operand;
  int item;     // its place in the list
  int64_t& at;  // zero at first; the rule's own
  Dims& from;   // where the box of the operand starts: zeros at first
  bool& again;  // the operand fills one more part, for which the rule is asked again
};
using PartRule = Tensor (*)(const Placing& p);

// What an op does where operands are sparse: other ops, which record themselves.
using SparseRule = Value (*)(const Op& op, Value* args);

// Whether the shape of the result, or what is not a tensor in it, depends on the values of operands.
using ByValues = bool (*)(const Value* args);

struct Facts {
  Depends depends = Depends::Unstated;
  Draws draws = Draws::Nothing;
  OutDType out_dtype = OutDType::Unstated;
  OutRule out_rule = nullptr;  // where it depends on the arguments
  Autocast autocast = Autocast::Untouched;
  ProductForm product;

  PartRule part = nullptr;
  bool zero_elsewhere = false;  // of the result, where no part lies
  ByValues by_values = nullptr;
  int8_t storage_offset = -1;  // an argument that counts from the start of the storage

  SparseRule sparse = nullptr;   // null: sparse operands are refused (sparse_calls.h)
  bool takes_sparse = false;     // its forward knows them
  bool copies = false;           // the result holds the elements of the first argument, converted
  bool fills = false;            // with one number, which no tensor argument gives
  bool cheap = false;            // costs less than reading its result from memory
  bool sums = false;             // its forward is one sum, perhaps divided
  bool flat = false;             // its derivative is zero wherever there is one
  bool uninitialised = false;    // the result is whatever its memory held
  bool overwrites = false;       // in place, nothing is left of the first argument
  bool writes_all = false;       // in place, every element of it is written
  bool fills_out = false;        // draws in the order in which the memory of out= lies
  bool out_apart = false;        // an out= that shares memory with an argument is refused
  bool any_dtype = false;        // takes uint16, uint32 and uint64: see wide_unsigned.h
  bool to_any_dtype = false;     // and its argument `dtype` may be one of them
  bool takes_numbers = false;    // may be called with no tensor at all
  bool rearranges = false;       // the result holds every element of its tensors, none changed
  bool takes_pending = false;    // its forward knows operands with a pending sign
  const char* called = nullptr;  // by people, where the op's own name means nothing to them
  const char* zero_text = nullptr;  // why it may pass on no gradient but zeros, after its name
};

// Does each element of the result belong to one place of all operands?
bool is_pointwise(const Op& op);
// Fills in what blocks left unstated; called once, when kernels are known.
void settle_facts(Op& op);

}  // namespace adjoint
