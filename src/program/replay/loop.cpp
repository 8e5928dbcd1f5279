// Read loop.h first.
#include "program/replay/loop.h"

#include <cstring>
#include <unordered_set>

#include "dispatch/op.h"
#include "engine/engine.h"
#include "program/replay/replay.h"

namespace adjoint {

namespace {

constexpr int64_t kSignals = 64;  // steps between two looks

Tensor row_of(const Tensor& stacked, int64_t row) {
  Span shape = stacked.shape(), strides = stacked.strides();
  Tensor found = on_storage(stacked->storage, Span{shape.p + 1, shape.n - 1},
                            Span{strides.p + 1, strides.n - 1}, stacked.offset() + row * strides[0],
                            stacked.dtype());
  found.turn_sign(stacked.pending());
  return found;
}

bool is_whole(const Tensor& t) { return t.contiguous() && !t.pending(); }

void write_row(const Tensor& stacked, int64_t row, const Tensor& value) {
  Tensor at = row_of(stacked, row);
  if (is_whole(at) && is_whole(value) && at.dtype() == value.dtype() && at.numel() == value.numel())
    std::memcpy(at->data, value->data, static_cast<size_t>(at.numel()) * at.itemsize());
  else
    op_inplace<"copy">(at, value);
}

Tensor plus(const Tensor& sum, const Tensor& more) {
  if (!more) [[unlikely]]
    value_error("a gradient that a step backward takes is not there");
  return sum ? op<"add">(sum, more).tensor() : more;
}

}  // namespace

int64_t Tape::bytes(const Tensors& others) const {
  std::unordered_set<const Storage*> seen;
  for (const Tensor& t : others) seen.insert(t->storage);
  int64_t sum = 0;
  for (const Value& v : values_) {
    if (seen.insert(v.storage).second) sum += static_cast<int64_t>(v.storage->bytes);
  }
  return sum;
}

static bool is_true(const Tensor& flag) {
  if (flag.dtype() != DType::Bool || flag.numel() != 1)
    type_error("the condition of a loop is a bool, not ", flag.dtype(), " ", flag.shape());
  return *flag->data != 0;
}

Ran loop_forward(const Program& p, const StepForm& form, Tensors& carry, const Tensors& xs,
                 const Tensors& reached, const Tensors& ys, Rows rows, Tape* tape, int64_t* at) {
  for (int64_t step = 0; step < rows.count(); ++step) {
    *at = step;
    int64_t row = rows.at(step);
    Tensors given = std::move(carry);
    given.reserve(given.size() + xs.size());
    for (const Tensor& x : xs) given.push_back(row_of(x, row));
    Tensors found = run(p, given, reached);
    auto source = [&](int k) -> const Tensor& {
      if (k >= 0) return found[k];
      size_t input = static_cast<size_t>(~k);
      return input < given.size() ? given[input] : reached[input - given.size()];
    };
    for (size_t k = 0; k < form.ys.size(); ++k)
      if (ys[k]) write_row(ys[k], row, source(form.ys[k]));
    bool go_on = form.stop < 0 || is_true(source(form.ys[static_cast<size_t>(form.stop)]));
    carry.clear();
    carry.reserve(form.carry.size());
    for (int k : form.carry) carry.push_back(source(k));
    if (tape) {
      for (size_t k = form.results; k < found.size(); ++k) tape->add(found[k]);
    }
    if (step % kSignals == kSignals - 1 && engine_hooks.interrupted()) throw PythonError{};
    if (!go_on) return {step + 1, true};
  }
  return {rows.count(), form.stop < 0};
}

namespace {

const TensorGeometry& input_of(const Program& p, size_t k) {
  return p.registers[p.inputs[k]].geometry();
}

// A gradient that lies in memory as the one that the program was recorded with.
Tensor laid_as(const TensorGeometry& g, const Tensor& grad) {
  if (!grad || grad.dtype() != g.dtype || grad.shape() != Span(g.shape)) [[unlikely]]
    value_error("a step backward takes a gradient of ", g.dtype, " ", Span(g.shape),
                ", which is not there");
  return g.is_of(grad.get()) ? grad : op<"_with_strides">(grad, g.strides).tensor();
}

Tensor sum_of(const Arriving& a, const LoopGradients& g, int64_t row, int64_t earlier) {
  Tensor sum = a.reached >= 0 ? g.reached[a.reached] : Tensor();
  for (int k : a.carry) sum = plus(sum, g.carry[k]);
  for (int k : a.ys) {
    const Tensor& stacked = g.ys[k >= 0 ? k : ~k];
    sum = plus(sum, stacked ? row_of(stacked, k >= 0 ? row : earlier) : Tensor());
  }
  return sum;
}

// Puts a gradient in its place; whether one was there before exactly if one is there now.
bool put(Tensor& place, Tensor grad) {
  bool same = static_cast<bool>(place) == static_cast<bool>(grad);
  place = std::move(grad);
  return same;
}

}  // namespace

int64_t loop_backward(const Program& p, const BackForm& form, const Tape& tape, size_t first,
                      size_t each, LoopGradients& g, Rows rows, int64_t* at) {
  const size_t carries = g.carry.size(), inputs = carries + g.xs.size();
  for (int64_t step = rows.count() - 1, done = 1; step >= 0; --step, ++done) {
    *at = step;
    Tensors given, rest;
    given.reserve(form.arriving.size());
    rest.reserve(form.kept.size());
    for (const Arriving& a : form.arriving) {
      Tensor sum = sum_of(a, g, rows.at(step), rows.at(step - 1));
      given.push_back(laid_as(input_of(p, given.size()), sum));
    }
    for (int k : form.kept) {
      size_t place = first + static_cast<size_t>(step) * each + static_cast<size_t>(k);
      rest.push_back(tape.at(place, input_of(p, given.size() + rest.size())));
    }
    for (int k : form.kept) {
      size_t place = first + static_cast<size_t>(step) * each + static_cast<size_t>(k);
      if (step > 0) tape.fetch_memory(place - each);
      if (step > 1) tape.fetch_storage(place - 2 * each);
    }
    Tensors found = run(p, given, rest);
    bool same = true;
    for (size_t k = 0; k < found.size(); ++k) {
      if (k < carries)
        same &= put(g.carry[k], std::move(found[k]));
      else if (k >= inputs)
        same &= put(g.reached[k - inputs], std::move(found[k]));
      else if (found[k] && g.xs[k - carries])
        write_row(g.xs[k - carries], rows.at(step), found[k]);
    }
    if (!same) return done;
    if (done % kSignals == 0 && engine_hooks.interrupted()) throw PythonError{};
  }
  return rows.count();
}

}  // namespace adjoint
