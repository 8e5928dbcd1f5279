// Read capture.h first.
#include "program/capture/capture.h"

#include "dispatch/kernel_observer.h"
#include "dispatch/operands.h"
#include "dispatch/pending_calls.h"
#include "dispatch/record_node.h"
#include "dispatch/view.h"
#include "engine/engine.h"
#include "program/capture/copying_ops.h"
#include "program/operand_rules.h"
#include "program/passes/sources.h"
#include "program/replay/replay.h"
#include "tensor/handmade_tensors.h"
#include "transforms/batched.h"

namespace adjoint {

constinit thread_local Recorder* t_recorder = nullptr;

uint16_t next_generation() {
  static uint16_t last = 0;
  last = static_cast<uint16_t>(last % 255 + 1);
  return last;
}

namespace {

// Every tensor of a result, lists of lists included; false if it holds what no program can repeat.
template <class F>
bool each_result(const Value& v, F&& f) {
  switch (v.kind()) {
    case Value::Tensor_:
      f(v.object());
      return true;
    case Value::Tensors_:
      for (const Tensor& t : v.tensors()) f(t.get());
      return true;
    case Value::List:
      for (const Value& item : v.list()) {
        if (!each_result(item, f)) return false;
      }
      return true;
    default:
      return true;
  }
}

bool holds_tensors(const Value& out) {
  return out.is_tensor() || out.is_tensors() || out.kind() == Value::List;
}

// Whether the shape of a result, or the result itself, depends on values.
bool depends_on_values(const Op& op, const Value* args) {
  return op.facts.by_values && op.facts.by_values(args);
}

// Indices that may be out of range, divisors that may be zero.
bool has_integers(const Op& op, const Value* args) {
  bool any = false;
  for (int i = 0; i < op.argument_count; ++i) {
    each_tensor(args[i], [&](const Tensor& t) {
      any |= !is_differentiable(t.dtype()) && t.dtype() != DType::Bool;
    });
  }
  return any;
}

// Versions of the memory of operands, to see whether a forward changes it.
struct Version {
  TensorObject* of;
  uint32_t version;
};
using Versions = Few<Version, 4>;
Versions versions_of(const Op& op, const Value* args) {
  Versions v;
  for (int i = 0; i < op.argument_count; ++i)
    each_tensor(args[i], [&](const Tensor& t) { v.push_back({t.get(), t.version()}); });
  return v;
}

// A history, or a tangent.
bool carries_derivative(const TensorObject* t) {
  return (grad_enabled() && needs_grad(t)) || (t->flags & kTransformed);
}
bool is_differentiated(const Op& op, const Value* args) {
  bool any = false;
  for (int i = 0; i < op.argument_count; ++i)
    each_tensor(args[i], [&](const Tensor& t) { any |= carries_derivative(t.get()); });
  return any;
}

Tensor recorded_zeros(Span shape, DType dtype) {
  return captured() ? op<"zeros">(shape, dtype).tensor() : Tensor();
}
void recorded_alias(const Tensor& from, const Tensor& made) {
  if (captured()) t_recorder->alias(from.get(), made.get());
}

// The kernel that stands for an op, if the forward ran one on the op's own operands and did nothing
// else.
const KernelCall* kernel_of(const KernelObserver& seen, const Call& c, const Value& out,
                            const Instruction& i, Descriptions& descriptions) {
  bool only = seen.calls == 1 && (c.op.is_elementwise || c.op.is_partial) && !c.kept &&
              out.is_tensor() && out.object() == seen.result;
  if (!only) return nullptr;
  int reads[kMaxOperands];
  for (int k = 0; k < seen.count; ++k) {
    reads[k] = -1;
    for (size_t n = 0; seen.tensors[k] && n < i.reads.size(); ++n) {
      const Read& r = i.reads[n];
      if (r.item < 0 && c[r.argument].object() == seen.tensors[k]) reads[k] = static_cast<int>(n);
    }
    if (seen.tensors[k] && reads[k] < 0) return nullptr;
  }
  return descriptions.kernel(seen.kernel, seen.common, {reads, static_cast<size_t>(seen.count)},
                             seen.numbers);
}

// The same for sums: what is reduced, if it is the op's operand and nothing else happens.
std::shared_ptr<const reduce::Problem> sum_of(const KernelObserver& seen, const Call& c,
                                              const Value& out) {
  if (!c.op.facts.sums || seen.reductions != 1 || seen.calls != 0 || seen.problem.centre ||
      c.kept || !c[0].is_tensor() || c[0].object() != seen.reduced || !out.is_tensor() ||
      out.object()->data != seen.reduced_to)
    return nullptr;
  return std::make_shared<reduce::Problem>(seen.problem);
}

}  // namespace

Capture::Capture(const Tensors& arguments) : arguments_(arguments), generation_(next_generation()) {
  handmade_observer = {recorded_zeros, recorded_alias};
  add_inputs(arguments);
}

Capture::~Capture() { stop(); }

void Capture::start(bool until_inputs) {
  if (running_ || !refused_.empty()) return;
  if (captured()) throw std::logic_error("a recording is under way already");
  if (!std::exchange(started_, true)) newest_before_ = last_sequence;
  if (until_inputs) {
    if (!std::exchange(passes_, true)) std::swap(first_, code_);
    first_.close();
    code_.divide(static_cast<int>(registers_.size()));
  }
  until_inputs_ = until_inputs;
  modes_ = t_modes;
  outer_ = std::exchange(t_recorder, this);
  t_modes |= kCaptured;
  outer_birth_ = t_birth & 0xff00;
  t_birth = static_cast<uint16_t>((t_birth & 0xff) | generation_ << 8);
  running_ = true;
}

void Capture::stop() {
  if (std::exchange(running_, false) && t_recorder == this && refused_.empty() &&
      (t_modes & ~kCaptured) != modes_) {
    return refuse("a mode (grad, anomaly, inference) is left switched; fix: use a with block");
  }
  // A guard that ended after a refusal may have put the mode back.
  if (!t_recorder || t_recorder == this) t_modes &= ~kCaptured;
  if (t_recorder != this) return;
  t_recorder = std::exchange(outer_, nullptr);
  t_birth = static_cast<uint16_t>((t_birth & 0xff) | outer_birth_);
}

void Capture::refuse(std::string reason) {
  if (!refused_.empty()) return;
  refused_ = std::move(reason);
  refused_at_ = SourceLine::here();
  if (!until_inputs_) return stop();
  running_ = false;  // a pass on placeholders goes on, and must still not change anything
}

constexpr size_t kHeaderBytes = 256;  // what a tensor takes besides its elements, about

// --- registers -----------------------------------------------------------------------------------
int Capture::new_register(TensorObject* t, int root, bool first) {
  int reg = static_cast<int>(registers_.size());
  registers_.push_back({descriptions_->geometry(t), t->data - roots_[root].origin, root});
  headers_.push_back(Tensor::borrow(t));
  places_.emplace_back(t->storage, t->data);
  alive_.push_back(reg);
  is_first_.push_back(first);
  young_registers_at_.add(hash_of(t), reg);
  if (first) young_storages_at_.add(hash_of(t->storage), reg);
  fresh_bytes_ += kHeaderBytes;
  return reg;
}

// The tables may hold numbers of registers that were rolled back, and of headers that were let go of.
int Capture::register_of(const TensorObject* t) const {
  auto is_it = [&](int reg) {
    return reg < static_cast<int>(headers_.size()) && headers_[reg].get() == t;
  };
  size_t hash = hash_of(t);
  int found = young_registers_at_.find(hash, is_it);
  return found >= 0 ? found : registers_at_.find(hash, is_it);
}

int Capture::first_on(const Storage* s) const {
  auto is_it = [&](int reg) {
    return reg < static_cast<int>(places_.size()) && is_first_[reg] && places_[reg].first == s;
  };
  size_t hash = hash_of(s);
  int found = young_storages_at_.find(hash, is_it);
  return found >= 0 ? found : storages_at_.find(hash, is_it);
}

// Most headers die before they are in the large tables, which are slow to reach.
void Capture::grow_old(int reg) {
  registers_at_.add_in_place_of(hash_of(headers_[reg].get()), reg,
                                [&](int r) { return r > reg || !headers_[r]; });
  if (is_first_[reg])
    storages_at_.add_in_place_of(hash_of(places_[reg].first), reg,
                                 [&](int r) { return r > reg || !places_[r].first; });
}

int Capture::define(TensorObject* t, bool fresh) {
  if (int first = fresh ? -1 : first_on(t->storage); first >= 0)
    return new_register(t, registers_[first].root, false);
  int root = -1;
  // Arrays from outside that overlap are one memory, under several storages.
  if (!t->storage->own) {
    for (size_t reg = 0; reg < registers_.size(); ++reg) {
      const Storage* storage = places_[reg].first;
      if (!storage || storage->own || !overlap(storage, t->storage)) continue;
      if (root >= 0 && root != registers_[reg].root)
        refuse("an array overlaps two others in memory; fix: pass a copy of it");
      root = registers_[reg].root;
    }
  }
  if (root < 0) {
    root = static_cast<int>(roots_.size());
    roots_.push_back({t->data});
    fresh_bytes_ += t->storage->bytes;
  }
  return new_register(t, root, true);
}

void Capture::add_inputs(const Tensors& ts) {
  for (const Tensor& t : ts) {
    if (register_of(t.get()) >= 0) continue;
    int reg = define(t.get());
    roots_[registers_[reg].root].external = true;
    inputs_.insert(t.get());
    if (started_) placeholders_.insert(t->storage);
  }
}

void Capture::constant(TensorObject* t) {
  if (register_of(t) >= 0 || first_on(t->storage) >= 0) return;
  Instruction i;
  i.kind = Kind::Constant;
  i.line = SourceLine::here();
  {
    Uncaptured quiet;
    GradMode off(false);
    i.with_more().constant = op<"clone">(Tensor::borrow(t));
  }
  if (t->numel == 1) i.more->element = i.more->constant->data;
  i.writes.push_back(define(t));
  write_down(std::move(i));
}

void Capture::add_alias(int from, TensorObject* made) {
  Instruction i;
  i.kind = Kind::Alias;
  i.line = SourceLine::here();
  i.reads.push_back({from});
  i.writes.push_back(define(made));
  write_down(std::move(i));
}

void Capture::append(Instruction i, const Tensors& reads, const Tensors& results) {
  for (const Tensor& t : reads) i.reads.push_back({read(t.get())});
  if (!running_) return;
  for (const Tensor& t : results) i.writes.push_back(define(t.get()));
  write_down(std::move(i));
}

Tensors Capture::last_results() const {
  Tensors found;
  if (code_.empty()) return found;
  for (int w : code_.last().writes) found.push_back(w < 0 ? Tensor() : headers_[w]);
  return found;
}

void Capture::alias(TensorObject* from, TensorObject* made) {
  if (register_of(made) >= 0 || batch_of(from)) return;
  int reg = read(from);
  if (reg >= 0) add_alias(reg, made);
}

int Capture::read(TensorObject* t) {
  if (t->flags & kSubclass || batch_of(t)) {
    refuse(batch_of(t) ? std::string("a batch of a transform from outside takes part")
                       : text("an object of the class ", Py_TYPE(t)->tp_name, " takes part"));
    return -1;
  }
  if (int reg = register_of(t); reg >= 0) {
    bool same_place = places_[reg] == std::pair(t->storage, t->data);
    if (same_place && registers_[reg].geometry().is_of(t)) return reg;
    refuse("the shape or memory of a tensor is changed in place; fix: make a new tensor instead");
    return -1;
  }
  int on = first_on(t->storage);
  // A header that is older than the recording is one that the function reached, whatever memory it
  // is on.
  if (on >= 0 && t->recording == generation_) {
    add_alias(on, t);
    return register_of(t);
  }
  if (made_here(t)) {
    refuse("a tensor takes part that was made by something else than an op");
    return -1;
  }
  if (changed_aside_.count(t->storage)) {
    refuse_changed_aside();
    return -1;
  }
  int reg = define(t);
  roots_[registers_[reg].root].external = true;
  reached_.push_back(Tensor::borrow(t));
  inputs_.insert(t);
  return reg;
}

const Value* Capture::take_reads(Few<Read, 3>& reads, const Op& op, const Value* args) {
  for (int k = 0; k < op.argument_count && running_; ++k) {
    const Value& v = args[k];
    if (v.is_tensor()) {
      reads.push_back({read(v.object()), k});
    } else if (v.is_tensors()) {
      for (size_t n = 0; n < v.tensors().size() && running_; ++n) {
        if (v.tensors()[n]) reads.push_back({read(v.tensors()[n].get()), k, static_cast<int>(n)});
      }
    } else if (v.kind() == Value::List && v.each_object([](PyObject*) { return 1; })) {
      refuse(text("an argument of `", op.name, "` is a list that tensors stand in"));
    }
  }
  return descriptions_->arguments(op, args);
}

void Capture::take_results(Instruction& i, const Value& out, const Value& kept) {
  auto take = [&](TensorObject* t) {
    if (!t) return i.writes.push_back(-1);
    // One of the operands, or a result that stands in two places. A header that nobody else holds is neither, since those
    // that have a register are held here; and where it is alone on its memory, that is new too.
    bool held = Py_REFCNT(t) > 1;
    bool again = held && register_of(t) >= 0;
    bool fresh = !held && t->storage->own && t->storage->references == 1;
    i.writes.push_back(again ? -1 : define(t, fresh));
  };
  each_result(out, take);
  each_result(kept, take);
}

void Capture::roll_back(size_t instructions, size_t registers) {
  code_.cut(instructions);
  while (registers_.size() > registers) {
    TensorObject* t = headers_.back().get();
    // What was reached for the first time stays reached: its register is an input's.
    if (roots_[registers_.back().root].external && !reached_.empty() && reached_.back().get() == t)
      reached_.pop_back();
    inputs_.erase(t);
    registers_.pop_back();
    headers_.pop_back();
    places_.pop_back();
    is_first_.pop_back();
  }
  std::erase_if(alive_, [&](int reg) { return reg >= static_cast<int>(registers); });
  young_ = std::min(young_, alive_.size());
}

// Memory that only the recording holds is nobody's any more: a call that is recorded should take
// about as much as one that is not. Headers go together with their memory, and only so can neither
// be taken for another of the same address. Most die young: those from `from` on are looked at.
void Capture::let_go(size_t from) {
  std::unordered_map<const Storage*, int> ours;        // headers that nobody else holds
  std::unordered_map<const TensorObject*, int> views;  // of a tensor, by such headers
  auto holders = [&](const TensorObject* t) {
    auto found = views.find(t);
    return found == views.end() ? 1 : 1 + found->second;
  };
  std::vector<bool> dead(alive_.size());
  for (size_t k = alive_.size(); k-- > from;) {  // views come after what they are views of
    const TensorObject* t = headers_[alive_[k]].get();
    dead[k] = Py_REFCNT(t) == holders(t) && t->storage == places_[alive_[k]].first;
    if (!dead[k]) continue;
    ++ours[t->storage];
    if (t->base) ++views[t->base];
  }
  size_t left = from, bytes = 0;
  std::vector<int> gone;
  for (size_t k = from; k < alive_.size(); ++k) {
    int reg = alive_[k];
    const Storage* s = headers_[reg]->storage;
    auto count = ours.find(s);
    if (dead[k] && count != ours.end() && count->second == s->references) {
      gone.push_back(reg);
      continue;
    }
    bytes += kHeaderBytes + (is_first_[reg] ? s->bytes : 0);
    if (k >= young_) grow_old(reg);
    alive_[left++] = reg;
  }
  young_registers_at_.clear();
  young_storages_at_.clear();
  alive_.resize(left);
  for (size_t k = gone.size(); k-- > 0;) {
    registers_[gone[k]].data = headers_[gone[k]].has(kData);
    headers_[gone[k]] = Tensor();
    places_[gone[k]].first = nullptr;
  }
  young_ = left;
  old_bytes_ = from ? old_bytes_ + bytes : bytes;
  if (!from) kept_bytes_ = bytes;
  fresh_bytes_ = 0;
}

void Capture::let_go_sometimes() {
  constexpr size_t kYoung = 1 << 20, kMuch = 4 << 20;  // bytes
  if (fresh_bytes_ < kYoung) return;
  // A walk over all registers, in a small part of the time in which so much memory was written.
  bool all = old_bytes_ + fresh_bytes_ > kept_bytes_ + std::max(kMuch, kept_bytes_ / 8);
  let_go(all ? 0 : young_);
}

PyObject* on_repetition = nullptr;

[[gnu::noinline]] void Capture::write_down(Instruction i) {
  code_.push(registers_, std::move(i));
  if (!code_.has_begun_to_repeat() || passes_ || !on_repetition) return;
  PyObject* found = PyObject_CallNoArgs(on_repetition);
  if (!found) throw PythonError{};
  Py_DECREF(found);
}

// --- ops -----------------------------------------------------------------------------------------
// What was seen of a call while it ran.
struct Capture::Seen {
  const Value* args;
  Few<Read, 3> reads;
  const KernelObserver& kernel;
  const Versions& before;
};

void Capture::take_call(Call& c, Seen seen, const Value& out) {
  const Op& op = c.op;
  if (!holds_tensors(out))
    return refuse(text("`", op.name, "` gives a value that is not a tensor"));
  Instruction i;
  i.op = &op;
  i.args = seen.args;
  i.reads = std::move(seen.reads);
  SourceLine::capture(&i.line);
  take_results(i, out, c.kept);
  for (const Version& v : seen.before) {
    if (v.of->storage->version == v.version) continue;
    i.changes = true;
    roots_[registers_[register_of(v.of)].root].changed = true;
  }
  i.may_fail = !until_inputs_ && (values_checked || has_integers(op, c.args));
  if (!i.changes) {
    i.kernel = kernel_of(seen.kernel, c, out, i, *descriptions_);
    if (auto sum = sum_of(seen.kernel, c, out)) i.with_more().sum = std::move(sum);
    if (op.facts.part) {
      Uncaptured quiet;
      if (auto pieces = pieces_of(i, headers_)) i.with_more().pieces = std::move(pieces);
    }
    if (Sources::fills(i) && out.is_tensor() && out.object()->numel > 0)
      i.with_more().element = descriptions_->element(out.object());
  }
  write_down(std::move(i));
}

Value Capture::forward(Call& c) {
  const Op& op = c.op;
  if (distrusts_) check_operands(c);
  if (!running_) {  // a pass on placeholders, after a refusal
    Uncaptured quiet;
    return compute(c);
  }
  let_go_sometimes();
  check_draws(op);
  if (depends_on_values(op, c.args)) {
    refuse(text("the result of `", op.name,
                "` has a shape or a value that depends on data; fix: keep the shape, by where() or "
                "a mask to multiply with, or leave this line out of the compiled function"));
    return forward(c);
  }
  if (int at = op.facts.storage_offset;
      at >= 0 && !c.args[at].is_none() && is_outside(c.args[0].object())) {
    refuse(text(op.name, "() with a storage_offset depends on where a tensor from outside lies"));
    return forward(c);
  }
  size_t instructions = code_.size(), registers = registers_.size();
  // Of what an op is written with counts for the op too.
  struct Checks {
    bool& now;
    bool before = std::exchange(now, false);
    ~Checks() { now |= before; }
  } checks{values_checked};
  KernelObserver seen;
  Versions before = versions_of(op, c.args);
  // An op may also fail where it is caught, and not fail with other values. What is not an error (a
  // checkpoint has all it wants) does not depend on values.
  auto computed = [&] {
    try {
      return compute(c);
    } catch (...) {
      if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))
        refuse(text("`", op.name, "` raised an error, which it might not do with other values"));
      throw;
    }
  };
  Few<Read, 3> reads;
  // An op without a derivative is written with others where it is differentiated: those are what
  // backward will refer to.
  // So is one whose ops autocast asks: what they were given is part of the program.
  bool asked = mode_on(kAutocast) && op.facts.autocast == Autocast::Inside;
  bool inside = asked || (!op.differentiable() && is_differentiated(op, c.args));
  if (inside) {
    Value out = computed();
    bool any = false;
    each_result(out, [&](TensorObject* t) { any |= t && carries_derivative(t); });
    if (any || asked || !running_) return out;
    roll_back(instructions, registers);
    const Value* args = take_reads(reads, op, c.args);
    if (running_) take_call(c, {args, std::move(reads), seen, before}, out);
    return out;
  }
  const Value* args = take_reads(reads, op, c.args);
  if (!running_) return forward(c);
  Value out;
  {
    Uncaptured quiet;
    out = computed();
  }
  take_call(c, {args, std::move(reads), seen, before}, out);
  return out;
}

void Capture::check_draws(const Op& op) {
  if (op.facts.draws != Draws::Nothing) check_draws(op.name.c_str());
}

void Capture::check_draws(const char* what) {
  if (draws_allowed_) return;
  refuse(text("`", what,
              "` draws random numbers in a checkpoint, which its recomputation would have to draw "
              "again; fix: draw them outside the checkpoint"));
}

// A pass on placeholders is none of the program's: what it would leave behind must not happen.
void Capture::fail_if_placeholders(const std::string& what) {
  if (!until_inputs_) return;
  refuse(what);
  runtime_error(what);
}

void Capture::change(Call& c, const Tensor& self) {
  const Op& op = c.op;
  if (distrusts_) check_operands(c);
  if (is_outside(self.get()) && !placeholders_.count(self->storage))
    fail_if_placeholders(text("`", op.name, "_` changes a tensor from outside in a backward pass"));
  check_draws(op);
  Instruction i;
  i.kind = Kind::Change;
  i.op = &op;
  i.line = SourceLine::here();
  if (depends_on_values(op, c.args)) refuse(text("what `", op.name, "_` does depends on data"));
  int reg = running_ ? read(self.get()) : -1;
  if (running_) i.args = take_reads(i.reads, op, c.args);
  if (running_ && roots_[registers_[reg].root].external && grad_enabled() &&
      wants_recording(op, c.args)) {
    refuse(text("`", op.name,
                "_` changes a tensor from outside the function, with a gradient; fix: return "
                "the new value instead"));
  }
  try {
    Uncaptured quiet;
    compute_into(c, self);
    uint32_t before = self.version();
    bump_version(self);
    i.counted = self.version() != before;
  } catch (...) {
    refuse(text("`", op.name, "_` raised an error, which it might not do with other values"));
    throw;
  }
  if (!running_) return;
  i.reads.push_front({reg, -1, -1});
  each_result(c.kept, [&](TensorObject* t) {
    i.writes.push_back(!t || register_of(t) >= 0 ? -1 : define(t));
  });
  roots_[registers_[reg].root].changed = true;
  write_down(std::move(i));
}

// --- tensors from outside ------------------------------------------------------------------------
void Capture::look_at(TensorObject* t) {
  if (!made_here(t) && !batch_of(t) && register_of(t) < 0) read(t);
}

bool Capture::is_outside(TensorObject* t) const {
  int on = first_on(t->storage);
  if (on >= 0) return roots_[registers_[on].root].external;
  return t->storage->born >> 8 != generation_;
}

void Capture::refuse_outside(TensorObject* t, const char* what) {
  if (batch_of(t)) return;
  if (register_of(t) >= 0 ? is_input(t) : !made_here(t))
    refuse(text(what, ", on a tensor from outside the function"));
}

}  // namespace adjoint
