// Python that a program calls again: externals, steps of optimisers. Each call is an instruction,
// and what happens inside is not looked at. Read capture.h first.
#include "program/capture/capture.h"
#include "program/replay/replay.h"

namespace adjoint {

Tensors Capture::host(PyObject* run, const Tensors& operands, const Tensors* like) {
  return take_host(run, operands, like, false);
}

void Capture::host_change(PyObject* run, const Tensors& operands) {
  take_host(run, operands, nullptr, true);
}

Tensors Capture::take_host(PyObject* run, const Tensors& operands, const Tensors* like,
                           bool changes) {
  Instruction i;
  i.kind = Kind::Host;
  i.with_more().host = Value::object(run);
  i.line = SourceLine::here();
  i.drawing = host_draws(run);
  if (i.drawing) check_draws("a loop");
  for (size_t n = 0; n < operands.size() && running_; ++n)
    i.reads.push_back({read(operands[n].get()), static_cast<int>(n)});
  Tensors results;
  {
    Uncaptured quiet;
    if (like) {
      for (const Tensor& t : *like) results.push_back(zeros(t.shape(), t.dtype()));
    } else {
      results = call_host(run, operands);
    }
  }
  if (!running_) return results;
  if (changes) {
    i.changes = true;
    for (const Read& r : i.reads) roots_[registers_[r.reg].root].changed = true;
    for (const Tensor& t : operands) changed_aside_.erase(t->storage);
  }
  // Instructions are put in order by what they are known to change.
  for (Storage* s : changed_aside_) {
    if (first_on(s) < 0) continue;
    refuse_changed_aside();
    return results;
  }
  for (const Tensor& t : results) {
    if (register_of(t.get()) >= 0 || first_on(t->storage) >= 0) {
      refuse("a host call gives back memory of its operands");
      return results;
    }
    i.writes.push_back(define(t.get()));
  }
  write_down(std::move(i));
  return results;
}

Tensors Capture::call_host(PyObject* run, const Tensors& operands) {
  in_host_ = true;
  try {
    Tensors results = host_call(run, operands);
    in_host_ = false;
    return results;
  } catch (...) {
    in_host_ = false;
    refuse("Python code that is called with values (an external) raises an error");
    throw;
  }
}

// Memory that the call itself has made is nobody's until it gives it back; and it may be freed, and stand for
// other memory then.
void Capture::changed_aside(const Tensor& t) {
  bool own = t->storage->born >> 8 == generation_ && first_on(t->storage) < 0;
  if (in_host_ && !own) changed_aside_.insert(t->storage);
}

void Capture::refuse_changed_aside() {
  refuse(
      "Python code that is called with values (an external, an optimiser) changes a tensor that "
      "the function uses; fix: return the new value from it");
}

}  // namespace adjoint
