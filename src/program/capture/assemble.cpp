// From what was recorded to a program: a range of instructions, its inputs and its outputs. What is
// done to it then stands in program/passes/pipeline.h. Read capture.h first.
#include "dispatch/saved.h"
#include "program/capture/capture.h"
#include "program/capture/sharing.h"
#include "program/passes/simplify.h"
#include "program/passes/pipeline.h"
#include "program/repeat.h"

namespace adjoint {

void Capture::refuse_carried(TensorObject* t) {
  bool hooks = t->extra && (t->extra->hooks || t->extra->post_accumulate);
  if (t->grad_fn && t->grad_fn->extra) {
    for (auto& [slot, hook] : t->grad_fn->extra->tensor_hooks) hooks |= slot == t->output_nr;
  }
  if (hooks) refuse("a result has hooks; fix: register them on what the compiled function returns");
  if (t->flags & kRetainsGrad)
    refuse(
        "retain_grad() was called on a result; fix: call it on what the compiled function returns");
  if ((t->flags & kRequiresGrad) && !t->grad_fn)
    refuse(
        "a result is a new leaf that requires grad; fix: call requires_grad_() on what the "
        "compiled function returns");
}

std::vector<int> Capture::outside(const Tensors& ts) {
  std::vector<int> found;
  std::unordered_map<int, TensorObject*> seen;
  running_ = true;
  for (const Tensor& t : ts) {
    int reg = read(t.get());
    if (!running_) return {};
    int root = registers_[reg].root;
    bool input = is_input(t.get());
    if (!input) refuse_carried(t.get());
    if (!running_) return {};
    TensorObject* first = seen.emplace(root, t.get()).first->second;
    found.push_back(input ? 2 : roots_[root].external || first != t.get() ? 1 : 0);
  }
  running_ = false;
  note_inputs();
  return found;
}

Capture::Input::Input(const TensorObject* t)
    : requires_grad(needs_grad(t)), leaf(!t->grad_fn), view(view_kind(t)), storage(t->storage) {}

void Capture::note_inputs() {
  for (TensorObject* t : inputs_) described_.emplace(register_of(t), Input(t));
  identity_ = Identity(arguments_, asked_);
  default_dtype_ = default_dtype();
}

// Whether its backward calls no Python: hooks, custom functions, values that were packed.
static bool is_plain(const Node* n) {
  if ((!n->op && !n->variable) || n->dict) return false;
  const NodeExtra* x = n->extra;
  if (x && (!x->tensor_hooks.empty() || !x->retains.empty() || x->pre_hooks || x->post_hooks))
    return false;
  // The version of an output that is not kept is that of the node's earlier life.
  bool packed = !n->output.value.is_none() && is_packed(n->output);
  packed |= n->kept.kind() >= Value::List;
  for (int k = 0; k < n->saved_count; ++k) packed |= is_packed(n->saved[k]);
  return !packed;
}

Capture::History Capture::history(const Tensors& results) const {
  // A pass that the function ran itself has freed the graph, or a part of it.
  History found{std::vector<bool>(results.size()), !passed_};
  std::vector<Node*> stack;
  std::vector<bool> seen(last_sequence - newest_before_ + 1);  // by number
  auto visit = [&](Node* n) {
    if (!n || n->sequence <= newest_before_) return;
    size_t at = n->sequence - newest_before_;
    if (seen[at]) return;
    seen[at] = true;
    stack.push_back(n);
  };
  for (const Tensor& t : results) visit(t->grad_fn);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    found.plain &= is_plain(n);
    for (int k = 0; k < n->edge_count; ++k) {
      const Edge& e = n->edges[k];
      for (size_t r = 0; r < results.size() && results.size() > 1; ++r) {
        if (results[r]->grad_fn == e.node && results[r]->output_nr == e.slot) found.inner[r] = true;
      }
      visit(e.node);
    }
  }
  return found;
}

// The instructions of a part, which has them for itself; the forward part comes last, unless they
// are copied. Those of the last part are no longer there.
void Capture::take_code(Program& p, size_t from, size_t to, bool copied) {
  if (size() < to) throw std::logic_error("instructions are in a program already");
  size_t before = first_.size();
  bool late = from >= before;
  if (!late && to > before) throw std::logic_error("a program of several parts");
  std::vector<Instruction>& part = (late ? code_ : first_).code();
  auto first = part.begin() + static_cast<std::ptrdiff_t>(late ? from - before : from);
  auto last = part.begin() + static_cast<std::ptrdiff_t>(late ? to - before : to);
  if (copied) {
    p.code.assign(first, last);
    for (Instruction& i : p.code)
      if (i.more) i.more = std::make_shared<Particulars>(*i.more);
    return;
  }
  bool at_end = last == part.end();
  if (from == 0 || (first == part.begin() && at_end)) {
    part.erase(last, part.end());
    p.code = std::move(part);
    part.clear();
    if (from == 0) code_ = {};
    return;
  }
  p.code.assign(std::make_move_iterator(first), std::make_move_iterator(last));
  if (at_end) part.erase(first, last);
}

// What the forward part does, for those that come after it.
const std::vector<Instruction>& Capture::forward_code() {
  if (forward_) return *forward_;
  Program forward;
  forward.descriptions = descriptions_;
  std::swap(forward.registers, registers_);  // lent: there may be millions
  std::swap(forward.roots, roots_);
  forward.code = first_.code();
  make_aliases(forward);
  equal_ = merge_common(forward);
  std::swap(forward.registers, registers_);
  std::swap(forward.roots, roots_);
  return forward_.emplace(std::move(forward.code));
}

// Of values of the forward part that are equal, one is read.
void Capture::read_equal(Program& p) {
  forward_code();
  for (Instruction& i : p.code) {
    for (Read& r : i.reads) {
      if (r.reg < static_cast<int>(equal_.size())) r.reg = equal_[r.reg];
    }
  }
}

Program Capture::program(size_t from, size_t to, const Tensors& given, const Tensors& outputs,
                         bool copied, const Tensors& there) {
  if (!refused_.empty()) throw std::logic_error("a refused recording has no program");
  Program p;
  p.descriptions = descriptions_;
  bool first = from == 0;
  for (const Tensor& t : given) p.inputs.push_back(register_of(t.get()));
  p.given = static_cast<int>(given.size());
  if (first) p.identity = identity_;
  p.default_dtype = default_dtype_;
  p.passes = first && passed_;
  for (const Tensor& t : outputs) p.outputs.push_back(t ? register_of(t.get()) : -1);
  bool whole =
      first ? to == (passes_ ? first_ : code_).size() : from == first_.size() && to == size();
  if (whole && !copied && there.empty() && take_short(p, first)) return p;
  p.registers = registers_;
  for (int r : alive_) p.registers[r].data = headers_[r].has(kData);
  p.roots = roots_;
  take_code(p, from, to, copied);
  if (!first) read_equal(p);
  add_stacks(p);
  std::vector<int> kept;
  for (const Tensor& t : there) kept.push_back(register_of(t.get()));
  auto take_inputs = [&](Program& made) {
    find_inputs(made, first);
    describe_inputs(made);
  };
  Loops asked = loops(first);
  if (!first) asked.before = &forward_code();
  run_passes(p, {asked.before, kept, take_inputs, asked});
  return p;
}

// --- loops ---------------------------------------------------------------------------------------
Loops Capture::loops(bool first) {
  Loops found;
  found.form = [this](const TensorObject* t) { return descriptions_->geometry(t); };
  found.add = [this](const TensorGeometry* form) {
    registers_.push_back({form, 0, static_cast<int>(roots_.size())});
    roots_.push_back({});
    headers_.push_back(Tensor());
    places_.emplace_back(nullptr, nullptr);
    is_first_.push_back(false);
    return static_cast<int>(registers_.size()) - 1;
  };
  found.wanted = first && !stacks_.empty();
  if (first) return found;
  // Others know it by a header, whose memory nobody looks at.
  found.stack = [this](int from, int step, int64_t count) {
    for (const Stacked& s : stacks_) {
      if (s.first == from && s.step == step && s.count == count)
        return std::pair(s.reg, registers_[s.reg].form);
    }
    const TensorGeometry& g = registers_[from].geometry();
    Dims shape, strides;
    shape.push_back(count);
    strides.push_back(g.numel);
    for (int k = 0; k < g.shape.size(); ++k) {
      shape.push_back(g.shape[k]);
      strides.push_back(g.strides[k]);
    }
    Tensor header = empty_strided(shape, strides, g.dtype);
    roots_.push_back({header->data});
    int reg = new_register(header.get(), static_cast<int>(roots_.size()) - 1, true);
    stacks_.push_back({from, step, count, reg});
    return std::pair(reg, registers_[reg].form);
  };
  return found;
}

// Stacks that later parts read are made last.
void Capture::add_stacks(Program& p) const {
  for (const Stacked& s : stacks_) {
    if (std::ranges::find(p.outputs, s.reg) == p.outputs.end()) continue;
    Instruction i;
    i.kind = Kind::Rows;
    const TensorGeometry& g = registers_[s.first].geometry();
    int64_t row = g.numel * static_cast<int64_t>(item_size(g.dtype));
    for (int64_t k = 0; k < s.count; ++k) {
      i.reads.push_back({s.first + static_cast<int>(k) * s.step});
      i.with_more().places.push_back(k * row);
    }
    i.writes.push_back(s.reg);
    p.code.push_back(std::move(i));
  }
}

// A header for a value that was let go of, and that programs which run will have: its memory is
// nobody's.
void Capture::stand_in(int reg) {
  const TensorGeometry& g = registers_[reg].geometry();
  Tensor header = empty_strided(g.shape, g.strides, g.dtype);
  header.turn_sign(g.pending);
  registers_at_.add(hash_of(header.get()), reg);
  headers_[reg] = std::move(header);
}

// The number that a program has for a register.
int Capture::number_of(Program& p, int reg) {
  if (!named_ || reg < 0) return reg;
  auto [found, added] = numbers_.try_emplace(reg, static_cast<int>(p.registers.size()));
  if (!added) return found->second;
  Register r = registers_[reg];
  if (headers_[reg]) r.data = headers_[reg].has(kData);
  auto [root, first] = root_numbers_.try_emplace(r.root, static_cast<int>(p.roots.size()));
  if (first) p.roots.push_back(roots_[r.root]);
  r.root = root->second;
  p.registers.push_back(r);
  truth_.resize(p.registers.size(), -1);
  truth_.back() = reg;
  return found->second;
}

void Capture::find_inputs(Program& p, bool first) {
  if (named_) truth_.resize(p.registers.size(), -1);  // others are made by loops
  std::vector<bool> defined(named_ ? p.registers.size() : registers_.size());
  for (int reg : p.inputs) defined[reg] = true;
  auto need = [&](int reg) {
    if (static_cast<size_t>(reg) >= defined.size()) defined.resize(static_cast<size_t>(reg) + 1);
    if (defined[reg]) return;
    defined[reg] = true;
    if (first && !p.roots[p.registers[reg].root].external)
      refuse("one backward pass reads what another one has computed");
    int at = truth(reg);
    if (!headers_[at]) stand_in(at);
    p.inputs.push_back(reg);
    p.held.push_back(headers_[at]);
  };
  for (const Instruction& i : p.code) {
    for (const Read& r : i.reads) need(r.reg);
    for (int w : i.writes) {
      if (w >= 0) defined[w] = true;
    }
  }
  for (int r : p.outputs) {
    if (r >= 0) need(r);
  }
  // What the function has looked at only: it must be as it was.
  if (first) {
    for (const Tensor& t : reached_) need(number_of(p, register_of(t.get())));
  }
  // Inputs of a later part may be memory that an earlier part made.
  for (int r : p.inputs) p.roots[p.registers[r].root].external = true;
}

void Capture::describe_inputs(Program& p) const {
  bool changes =
      std::ranges::any_of(p.code, [&](const Instruction& i) { return changes_outside(p, i); });
  Sharing sharing;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    auto state = grad_states_.find(truth(p.inputs[k]));
    if (state != grad_states_.end()) {
      auto& [found, gradient] = state->second;
      p.grads.push_back({static_cast<int>(k), found, gradient.get()});
    }
    auto noted = described_.find(truth(p.inputs[k]));
    Input input =
        noted != described_.end() ? noted->second : Input(headers_[truth(p.inputs[k])].get());
    p.requires_grad.push_back(input.requires_grad);
    p.leaf.push_back(input.leaf);
    p.view.push_back(input.view);
    if (changes) p.shares.push_back(sharing.first_on(input.storage, static_cast<int>(k)));
  }
}

}  // namespace adjoint
