// From what was recorded to a program: a range of instructions, its inputs and its outputs. What is
// done to it then stands in program/passes/pipeline.h. Read capture.h first.
#include "program/capture/capture.h"
#include "program/capture/sharing.h"
#include "program/passes/passes.h"
#include "program/passes/pipeline.h"

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
  return found;
}

std::vector<bool> Capture::inner(const Tensors& results) const {
  std::vector<bool> found(results.size());
  std::vector<Node*> stack;
  std::unordered_set<Node*> seen;
  for (const Tensor& t : results) {
    if (seen.insert(t->grad_fn).second) stack.push_back(t->grad_fn);
  }
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (int k = 0; n && k < n->edge_count; ++k) {
      const Edge& e = n->edges[k];
      if (!e.node || e.node->sequence <= newest_before_) continue;
      for (size_t r = 0; r < results.size(); ++r) {
        if (results[r]->grad_fn == e.node && results[r]->output_nr == e.slot) found[r] = true;
      }
      if (seen.insert(e.node).second) stack.push_back(e.node);
    }
  }
  return found;
}

// The instructions of a part, which has them for itself; the forward part comes last.
void Capture::take_code(Program& p, size_t from, size_t to) {
  if (code_.size() < to) throw std::logic_error("instructions are in a program already");
  if (from == 0) {
    code_.erase(code_.begin() + static_cast<std::ptrdiff_t>(to), code_.end());
    p.code = std::move(code_);
    code_.clear();
    return;
  }
  auto first = code_.begin() + static_cast<std::ptrdiff_t>(from);
  auto last = code_.begin() + static_cast<std::ptrdiff_t>(to);
  p.code.assign(std::make_move_iterator(first), std::make_move_iterator(last));
}

// What the forward part does, for those that come after it.
const std::vector<Instruction>& Capture::forward_code() {
  if (forward_) return *forward_;
  Program forward;
  forward.descriptions = descriptions_;
  forward.registers = registers_;
  forward.roots = roots_;
  forward.code.assign(code_.begin(), code_.begin() + static_cast<std::ptrdiff_t>(forward_size_));
  make_aliases(forward);
  return forward_.emplace(std::move(forward.code));
}

Program Capture::program(size_t from, size_t to, const Tensors& given, const Tensors& outputs) {
  if (!refused_.empty()) throw std::logic_error("a refused recording has no program");
  Program p;
  p.descriptions = descriptions_;
  p.registers = registers_;
  for (int r : alive_) p.registers[r].data = headers_[r].has(kData);
  p.roots = roots_;
  take_code(p, from, to);
  for (const Tensor& t : given) p.inputs.push_back(register_of(t.get()));
  p.given = static_cast<int>(given.size());
  bool first = from == 0;
  if (first) p.identity = Identity(given, asked_);
  p.default_dtype = default_dtype();
  p.passes = first && passed_;
  for (const Tensor& t : outputs) p.outputs.push_back(t ? register_of(t.get()) : -1);
  run_passes(p, {first ? nullptr : &forward_code(), [&](Program& made) {
                   find_inputs(made, first);
                   describe_inputs(made);
                 }});
  return p;
}

void Capture::find_inputs(Program& p, bool first) {
  std::vector<bool> defined(registers_.size());
  for (int reg : p.inputs) defined[reg] = true;
  auto need = [&](int reg) {
    if (defined[reg]) return;
    defined[reg] = true;
    if (first && !p.roots[p.registers[reg].root].external)
      refuse("one backward pass reads what another one has computed");
    p.inputs.push_back(reg);
    p.held.push_back(headers_[reg]);
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
    for (const Tensor& t : reached_) need(register_of(t.get()));
  }
  // Inputs of a later part may be memory that an earlier part made.
  for (int r : p.inputs) p.roots[p.registers[r].root].external = true;
}

void Capture::describe_inputs(Program& p) const {
  bool changes = false;
  for (const Instruction& i : p.code)
    changes |=
        i.changes || (i.kind == Kind::Change && p.roots[p.registers[i.reads[0].reg].root].external);
  Sharing sharing;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    auto state = grad_states_.find(p.inputs[k]);
    if (state != grad_states_.end()) {
      auto& [found, gradient] = state->second;
      p.grads.push_back({static_cast<int>(k), found, gradient.get()});
    }
    TensorObject* t = headers_[p.inputs[k]].get();
    p.requires_grad.push_back(needs_grad(t));
    p.leaf.push_back(!t->grad_fn);
    p.view.push_back(view_kind(t));
    if (changes) p.shares.push_back(sharing.first_on(t->storage, static_cast<int>(k)));
  }
}

}  // namespace adjoint
