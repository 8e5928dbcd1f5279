// Read replay.h first.
#include "program/replay/replay.h"

#include <chrono>
#include <cstring>
#include <optional>

#include "dispatch/autocast.h"
#include "dispatch/pending_calls.h"
#include "dispatch/profile.h"
#include "dispatch/record_node.h"
#include "dispatch/reuse.h"
#include "dispatch/view.h"
#include "engine/engine.h"
#include "program/capture/sharing.h"
#include "program/repeat.h"
#include "program/fuse/tiles.h"
#include "program/native/native.h"
#include "transforms/batched.h"

namespace adjoint {

Tensors (*host_call)(PyObject* run, const Tensors& operands) = nullptr;
bool (*host_draws)(PyObject* run) = nullptr;

constinit thread_local const SourceLine* t_program_line = nullptr;

namespace {

template <class F>
void each_result(const Value& v, F&& f) {
  if (v.is_tensor()) return f(v.tensor());
  if (v.is_tensors()) {
    for (const Tensor& t : v.tensors()) f(t);
  } else if (v.kind() == Value::List) {
    for (const Value& item : v.list()) each_result(item, f);
  }
}

template <class List>
bool contains(const List& list, int x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// One run: the registers and what is done with them.
class Replay {
 public:
  Replay(const Program& p) : p_(p), registers_(p.registers.size()) {}

  void set(int reg, Tensor t) { registers_[reg] = std::move(t); }
  const Tensor& get(int reg) const { return registers_[reg]; }
  void begin(int64_t run) { run_ = run; }

  void run() {
    int count = 0;
    for (const Instruction& i : p_.code) {
      t_program_line = &i.line;
      if (t_modes & kWatched) [[unlikely]]
        timed_step(i);
      else
        step(i);
      for (int reg : i.last) registers_[reg] = Tensor();
      if (++count % kSignals == 0 && engine_hooks.interrupted()) throw PythonError{};
    }
  }

 private:
  static constexpr int kSignals = 64;  // instructions, or runs of a loop, between two looks

  void timed_step(const Instruction& i) {
    const char* other = i.kind == Kind::Fused    ? "fused loop"
                        : i.kind == Kind::Host   ? "host call"
                        : i.kind == Kind::Repeat ? "loop"
                                                 : "move";
    std::string name = i.op ? text("aten::", i.op->name, i.kind == Kind::Change ? "_" : "") : other;
    ProfiledScope timed(Profiled::Instruction, text("compiled ", name), i.line);
    step(i);
  }

  void step(const Instruction& i) {
    switch (i.kind) {
      case Kind::Apply:
        return apply(i);
      case Kind::Change:
        return change(i);
      case Kind::Fused:
        return i.more->fused->run(i, registers_.data());
      case Kind::Alias:
        return alias_of(i);
      case Kind::Constant:
        registers_[i.writes[0]] = constant(i);
        return;
      case Kind::Host:
        return host(i);
      case Kind::Accumulate:
        return accumulate_grad(get(i.reads[0].reg).get(), taken(i, i.reads[1].reg));
      case Kind::GradOf:
        registers_[i.writes[0]] = Tensor::borrow(get(i.reads[0].reg)->grad);
        return;
      case Kind::SetGrad: {
        TensorObject* leaf = get(i.reads[0].reg).get();
        Tensor grad = i.reads.size() > 1 ? get(i.reads[1].reg) : Tensor();
        Py_XSETREF(leaf->grad, grad.release());
        return;
      }
      case Kind::Repeat:
        return repeat(i);
      case Kind::Rows:
        return rows(i);
    }
  }

  static Tensor constant(const Instruction& i) {
    const Tensor& t = i.more->constant;
    return i.fresh ? op<"clone">(t).tensor() : t;
  }

  // The value of a register, which goes with it where this is its last reader.
  Tensor taken(const Instruction& i, int reg) {
    if (!contains(i.last, reg)) return registers_[reg];
    Tensor t = std::move(registers_[reg]);
    return t;
  }

  // The arguments of an op, taken away again when this ends. Those of all instructions stand in one
  // place, since to make and to clear room for as many as an op may have costs more than some ops.
  class Arguments {
   public:
    explicit Arguments(Value* at, int count) : at_(at), count_(count) {}
    ~Arguments() {
      for (int k = 0; k < count_; ++k) at_[k].reset();
    }
    Arguments(const Arguments&) = delete;

   private:
    Value* at_;
    int count_;
  };

  Value* arguments() {
    if (!arguments_) arguments_ = std::make_unique<Value[]>(kMaxArguments);
    return arguments_.get();
  }

  void fill(const Instruction& i, Value* args, bool take) {
    int n = i.op->argument_count;
    const Value* given = i.has_table() ? (*i.more->table)[static_cast<size_t>(run_)] : i.args;
    for (int k = 0; k < n; ++k) args[k].fill(given[k]);
    Tensors list;
    for (size_t k = i.kind == Kind::Change ? 1 : 0; k < i.reads.size(); ++k) {
      const Read& r = i.reads[k];
      if (r.item < 0) {
        args[r.argument] = take ? taken(i, r.reg) : registers_[r.reg];
        continue;
      }
      // Items of one list stand next to one another.
      if (list.empty()) list = given[r.argument].tensors();
      list[r.item] = registers_[r.reg];
      bool more = k + 1 < i.reads.size() && i.reads[k + 1].argument == r.argument;
      if (!more) args[r.argument] = Value(std::exchange(list, {}));
    }
  }

  void keep(const Instruction& i, size_t& place, const Tensor& t) {
    int reg = place < i.writes.size() ? i.writes[place] : -1;
    ++place;
    if (reg < 0) return;
    if (!t || !p_.registers[reg].geometry().is_of(t.get())) changed_shape(i, reg, t);
    registers_[reg] = t;
  }

  [[noreturn]] void changed_shape(const Instruction& i, int reg, const Tensor& t) {
    const TensorGeometry& g = p_.registers[reg].geometry();
    std::string found = t ? text(t.dtype(), " ", t.shape()) : std::string("nothing");
    runtime_error(
        "a compiled function has found a result of another kind than when it was "
        "recorded: `",
        i.op ? i.op->name : std::string("a host call"), "` gave ", found, " where it had given ",
        g.dtype, " ", Span(g.shape), "\n  recorded  ", i.line.describe(),
        "\n  fix: leave this function uncompiled (disable=True)");
  }

  void apply(const Instruction& i) {
    Value* args = arguments();
    Arguments ended(args, i.op->argument_count);
    bool elementwise = i.op->is_elementwise && i.reads.size() <= 2;
    bool twice = i.reads.size() == 2 && i.reads[0].reg == i.reads[1].reg;
    fill(i, args, elementwise && !twice);
    if (elementwise && !twice) {
      for (const Read& r : i.reads) {
        TensorObject* t = args[r.argument].object();
        if (registers_[r.reg] || !unique(t) || !lies_as_result(i, t)) continue;
        t_reuse = t;
        break;
      }
    }
    Call c{*i.op, args};
    Value out;
    try {
      out = compute(c);
    } catch (...) {
      t_reuse = nullptr;
      throw;
    }
    t_reuse = nullptr;
    size_t place = 0;
    auto keep_one = [&](const Tensor& t) { keep(i, place, t); };
    each_result(out, keep_one);
    each_result(c.kept, keep_one);
  }

  // Where axes of length one leave strides open, those of the recording count.
  bool lies_as_result(const Instruction& i, const TensorObject* t) const {
    return i.writes.size() == 1 && i.writes[0] >= 0 &&
           p_.registers[i.writes[0]].geometry().is_of(t);
  }

  static bool unique(TensorObject* t) {
    return Py_REFCNT(t) == 1 && t->storage->references == 1 && !t->base && !t->extra &&
           !t->weakrefs && t->storage->own && (t->flags & kContiguous);
  }

  void change(const Instruction& i) {
    Value* args = arguments();
    Arguments ended(args, i.op->argument_count);
    fill(i, args, false);
    Tensor self = registers_[i.reads[0].reg];
    Call c{*i.op, args, self};
    compute_into(c, self);
    if (i.counted) bump_version(self);
    size_t place = 0;
    each_result(c.kept, [&](const Tensor& t) { keep(i, place, t); });
  }

  void alias_of(const Instruction& i) {
    const Tensor& t = get(i.reads[0].reg);
    const TensorGeometry& g = p_.registers[i.writes[0]].geometry();
    int64_t item = static_cast<int64_t>(item_size(g.dtype));
    int64_t moved = p_.registers[i.writes[0]].offset - p_.registers[i.reads[0].reg].offset;
    int64_t at = t->data - static_cast<char*>(t->storage->data) + moved;
    Tensor made = on_storage(t->storage, g.shape, g.strides, at / item, g.dtype);
    made.turn_sign(g.pending);
    registers_[i.writes[0]] = std::move(made);
  }

  void host(const Instruction& i) {
    Tensors operands;
    for (const Read& r : i.reads) operands.push_back(get(r.reg));
    Tensors results = host_call(i.more->host.python(), operands);
    t_program_line = &i.line;  // a program may have run there
    size_t place = 0;
    for (const Tensor& t : results) keep(i, place, t);
    if (place < i.writes.size()) changed_shape(i, i.writes[place], Tensor());
  }

  // --- loops: program/repeat.h
  static void copy_to(const Tensor& t, char* place) {
    if (t.numel()) std::memcpy(place, t->data, static_cast<size_t>(t.numel()) * t.itemsize());
  }

  Tensor stack_for(const Instruction& i, int write, int base) {
    if (base >= 0) return std::move(registers_[i.reads[base].reg]);
    const TensorGeometry& g = p_.registers[i.writes[write]].geometry();
    return empty_strided(g.shape, g.strides, g.dtype);
  }

  void rows(const Instruction& i) {
    const std::vector<int64_t>& places = i.more->places;
    bool based = places[0] < 0;
    Tensor stack = stack_for(i, 0, based ? 0 : -1);
    for (size_t k = based; k < places.size(); ++k)
      copy_to(get(i.reads[k].reg), stack->data + places[k]);
    registers_[i.writes[0]] = std::move(stack);
  }

  // Part of a tensor as an input that was recorded so, `offset` bytes from where it lies.
  static Tensor part_of(const Tensor& t, const TensorGeometry& g, int64_t offset) {
    int64_t at = t->data - static_cast<char*>(t->storage->data) + offset;
    Tensor made = on_storage(t->storage, g.shape, g.strides,
                             at / static_cast<int64_t>(item_size(g.dtype)), g.dtype);
    made.turn_sign(g.pending);
    return made;
  }

  void repeat(const Instruction& i) {
    const Repeat& loop = *i.repeat();
    const Program& body = loop.body;
    const size_t first_fixed = loop.carries + loop.rows.size();
    Tensors carry;
    for (size_t n = 0; n < loop.carries; ++n) carry.push_back(get(i.reads[n].reg));
    for (const Repeat::Stack& s : loop.stacks) {
      if (i.writes[s.write] >= 0) registers_[i.writes[s.write]] = stack_for(i, s.write, s.read);
    }
    Replay inner(body);
    auto next = loop.taken.begin();
    for (int64_t run = 0; run < loop.count; ++run) {
      inner.begin(run);
      for (size_t n = 0; n < loop.carries; ++n) inner.set(body.inputs[n], std::move(carry[n]));
      for (size_t n = 0; n < loop.rows.size(); ++n) {
        int reg = body.inputs[loop.carries + n];
        inner.set(reg, part_of(get(i.reads[loop.carries + n].reg), body.registers[reg].geometry(),
                               loop.rows[n].offset + run * loop.rows[n].step));
      }
      for (size_t n = first_fixed; n < body.inputs.size(); ++n)
        inner.set(body.inputs[n], get(i.reads[n].reg));
      inner.run();
      for (; next != loop.taken.end() && next->run == run; ++next) {
        int reg = i.writes[next->write];
        if (reg >= 0) registers_[reg] = inner.get(body.outputs[next->output]);
      }
      for (const Repeat::Written& w : loop.written) {
        int reg = i.writes[w.write];
        if (reg >= 0 && run >= w.first && run < w.last)
          copy_to(inner.get(body.outputs[w.output]),
                  registers_[reg]->data + w.offset + run * w.step);
      }
      for (size_t n = 0; n < loop.carries; ++n) carry[n] = inner.get(body.outputs[n]);
      for (int reg : body.outputs) inner.set(reg, Tensor());
      if (run % kSignals == kSignals - 1 && engine_hooks.interrupted()) throw PythonError{};
    }
    t_program_line = &i.line;
  }

  const Program& p_;
  Tensors registers_;
  std::unique_ptr<Value[]>
      arguments_;    // once an op needs them: most programs are fused loops alone
  int64_t run_ = 0;  // of the body of a loop
};

}  // namespace

std::vector<size_t> changed_reads(const Instruction& i) {
  const Program& body = i.repeat()->body;
  std::vector<bool> changed(body.roots.size());
  for (const Instruction& one : body.code) {
    if (one.kind == Kind::Change) changed[body.registers[one.reads[0].reg].root] = true;
    if (one.kind != Kind::Repeat) continue;
    for (size_t n : changed_reads(one)) changed[body.registers[one.reads[n].reg].root] = true;
  }
  std::vector<size_t> found;
  for (size_t n = 0; n < body.inputs.size(); ++n) {
    if (changed[body.registers[body.inputs[n]].root]) found.push_back(n);
  }
  return found;
}

bool changes_outside(const Program& p, const Instruction& i) {
  auto outside = [&](size_t n) { return p.roots[p.registers[i.reads[n].reg].root].external; };
  if (i.kind == Kind::Repeat) return std::ranges::any_of(changed_reads(i), outside);
  size_t written = i.changes ? i.reads.size() : i.kind == Kind::Change ? 1 : 0;
  for (size_t n = 0; n < written; ++n) {
    if (outside(n)) return true;
  }
  return false;
}

// Hooks that a backward pass would call, or a gradient that it would keep.
static bool has_hooks(const TensorObject* t) {
  if (t->flags & kRetainsGrad) return true;
  if (t->extra && (t->extra->hooks || t->extra->post_accumulate)) return true;
  if (!t->grad_fn || !t->grad_fn->extra) return false;
  const NodeExtra& x = *t->grad_fn->extra;
  return !x.tensor_hooks.empty() || x.pre_hooks;
}

bool accepts(const Program& p, const Tensors& given, std::string* why) {
  auto fail = [&](std::string text) {
    if (why) *why = std::move(text);
    return false;
  };
  if (static_cast<int>(given.size()) != p.given) return fail("another number of tensors");
  if (default_dtype() != p.default_dtype) return fail("the default dtype has changed");
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const TensorGeometry& g = p.registers[p.inputs[k]].geometry();
    const TensorObject* t = (k < given.size() ? given[k] : p.held[k - given.size()]).get();
    if (!g.is_of(t))
      return fail(text("a tensor was ", g.dtype, " ", Span(g.shape), " and is ", t->dtype, " ",
                       Span{t->shape, t->ndim}));
    if (needs_grad(t) != p.requires_grad[k])
      return fail(text("requires_grad of a tensor ", g.dtype, " ", Span(g.shape), " has changed"));
    if ((t->grad_fn == nullptr) != p.leaf[k])
      return fail(text("is_leaf of a tensor ", g.dtype, " ", Span(g.shape), " has changed"));
    if (view_kind(t) != p.view[k])
      return fail(text("what a tensor ", g.dtype, " ", Span(g.shape), " is a view of has changed"));
    if (t->flags & (kTransformed | kSubclass | kInference | kSparse))
      return fail("a tensor of another kind");
    if (((t->flags & kData) != 0) != p.registers[p.inputs[k]].data)
      return fail("a tensor was made by .data, another was not");
    if (p.passes && p.requires_grad[k] && has_hooks(t)) return fail("a tensor has hooks");
  }
  if (!p.shares.empty()) {
    Sharing sharing;
    for (size_t k = 0; k < p.inputs.size(); ++k) {
      const Tensor& t = k < given.size() ? given[k] : p.held[k - given.size()];
      if (sharing.first_on(t->storage, static_cast<int>(k)) != p.shares[k])
        return fail("other tensors share memory");
    }
  }
  if (!p.identity.holds(given, why)) return false;
  std::vector<const Storage*> of_gradients;
  for (const Program::GradState& s : p.grads) {
    size_t k = static_cast<size_t>(s.input);
    const TensorObject* t = (k < given.size() ? given[k] : p.held[k - given.size()]).get();
    if ((t->grad != nullptr) != s.found.has_value())
      return fail(t->grad ? "a leaf has a gradient already" : "a leaf has no gradient yet");
    if (!t->grad) continue;
    if (!s.found->is_of(t->grad)) return fail("a gradient lies in memory otherwise");
    if (!is_plain_gradient(t->grad))
      return fail("a gradient has a history, hooks, attributes or a class of its own");
    if (s.known ? t->grad != s.known : p.identity.is_there(t->grad))
      return fail("a gradient is, or was, a tensor that the function reaches by itself");
    of_gradients.push_back(t->grad->storage);
  }
  std::ranges::sort(of_gradients);
  if (std::ranges::adjacent_find(of_gradients) != of_gradients.end())
    return fail("two gradients share memory");
  for (size_t k = 0; k < p.inputs.size() && !of_gradients.empty(); ++k) {
    const Tensor& t = k < given.size() ? given[k] : p.held[k - given.size()];
    if (std::ranges::binary_search(of_gradients, t->storage))
      return fail("a tensor shares memory with a gradient");
  }
  return true;
}

// A view that leaves the program, as the function would have made it: not a part of the history of
// a tensor that the function has detached, and not made without gradients where they are on.
static Tensor result_of(const Program& p, int reg, const Tensor& t, bool with_grad) {
  bool data = p.registers[reg].data;
  if (!t->base && t.has(kData) == data) return t;
  if (std::find(p.inputs.begin(), p.inputs.end(), reg) != p.inputs.end()) return t;
  t.set(kData, data);
  if (with_grad) t->flags &= ~kNoGradView;
  if (!t->base || (!needs_grad(t->base) && !needs_grad(t.get()))) return t;
  int64_t item = static_cast<int64_t>(t.itemsize());
  int64_t at = (t->data - static_cast<char*>(t->storage->data)) / item;
  Tensor own = on_storage(t->storage, t.shape(), t.strides(), at, t.dtype());
  own->flags |= t.pending();
  own.set(kData, data);
  return own;
}

Tensors run(const Program& p, const Tensors& given, const Tensors& rest) {
  bool with_grad = grad_enabled();
  GradMode off(false);
  ModeGuard quiet(kNoCuts, true);
  AutocastOff as_recorded;
  std::optional<ProfiledScope> timed;
  std::optional<TallyOff> unseen;
  if (mode_on(kTallied) && tally_passes_over(p.runs, 0)) [[unlikely]]
    unseen.emplace();
  else if (t_modes & kWatched) [[unlikely]]
    timed.emplace(Profiled::Function, "CompiledFunction", &made_tally_stream(p.runs, 0));
  Replay replay(p);
  const Tensors& others = rest.empty() ? p.held : rest;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const Tensor& t = k < given.size() ? given[k] : others[k - given.size()];
    const TensorGeometry& g = p.registers[p.inputs[k]].geometry();
    if (!g.is_of(t.get()) || batch_of(t.get())) {
      runtime_error("a program was recorded with ", g.dtype, " ", Span(g.shape), " as input ", k,
                    " and cannot run with ", t.dtype(), " ", t.shape(),
                    batch_of(t.get()) ? ", a batch" : "");
    }
    replay.set(p.inputs[k], t);
  }
  if (p.pace.open && native::when != native::When::Never) [[unlikely]] {
    bool timed = native::before_run(p);
    auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    replay.run();
    if (timed) native::after_run(p, (std::chrono::steady_clock::now() - start).count());
  } else {
    replay.run();
  }
  Tensors out;
  out.reserve(p.outputs.size());
  for (int reg : p.outputs)
    out.push_back(reg < 0 ? Tensor() : result_of(p, reg, replay.get(reg), with_grad));
  return out;
}

}  // namespace adjoint
