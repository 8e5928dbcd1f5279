// Backward passes that the function runs itself, as a program repeats them: how far they go, and
// the gradients of leaves from outside, which are read, added to and set. Read capture.h first.
#include "engine/engine.h"
#include "program/capture/capture.h"

namespace adjoint {

bool Capture::pass(Node* node, bool executed) {
  TensorObject* leaf = node->variable;
  bool before = leaf ? register_of(leaf) < 0 || is_input(leaf) : node->sequence <= newest_before_;
  if (before && until_inputs_) return false;
  passed_ |= !until_inputs_;
  if (before && executed && node->backward) {
    refuse(text("a backward pass goes on into `", node->name,
                "`, which was recorded before the function was called (", node->line.describe(),
                "); fix: detach() what comes from outside"));
    return true;
  }
  bool hooks = leaf && leaf->extra && (leaf->extra->hooks || leaf->extra->post_accumulate);
  if (NodeExtra* x = node->extra)
    hooks |= !x->tensor_hooks.empty() || !x->retains.empty() || x->pre_hooks || x->post_hooks;
  if (before && hooks)
    refuse("a tensor from outside the function has hooks, or keeps its gradient by retain_grad()");
  return true;
}

bool Capture::known_outside(TensorObject* t) {
  if (t->extra && t->extra->post_accumulate) {
    refuse("a leaf has a hook that runs after its gradient was added");
    return false;
  }
  return read(t) >= 0 && is_input(t);
}

void Capture::watch_grad(TensorObject* leaf) {
  std::optional<TensorGeometry> found;
  if (leaf->grad) {
    found.emplace(leaf->grad);
    if (!is_plain_gradient(leaf->grad))
      refuse("a gradient has a history, hooks, attributes or a class of its own");
    // The same memory under two names, of which one is the caller's choice in each call.
    if (int on = first_on(leaf->grad->storage); on >= 0 && is_input(headers_[on].get()))
      refuse("a tensor shares memory with a gradient that the function uses; fix: pass a clone()");
  }
  grad_states_.emplace(register_of(leaf), std::pair(std::move(found), Tensor::borrow(leaf->grad)));
}

bool Capture::accumulate(TensorObject* leaf, const Tensor& grad) {
  if (!known_outside(leaf)) return false;
  if (grad_enabled()) {
    refuse("a gradient with a history of its own is added to a leaf");
    return false;
  }
  fail_if_placeholders("a backward pass runs another one, which adds to the gradient of a leaf");
  watch_grad(leaf);
  if (leaf->grad) read_grad(leaf);
  Instruction i;
  i.kind = Kind::Accumulate;
  i.line = SourceLine::here();
  i.reads.push_back({register_of(leaf), 0});
  i.reads.push_back({read(grad.get()), 1});
  if (!running_) return false;
  {
    Uncaptured quiet;
    accumulate_grad(leaf, grad);
  }
  if (int held = register_of(leaf->grad); held >= 0) roots_[registers_[held].root].changed = true;
  write_down(std::move(i));
  read_grad(leaf);
  return true;
}

void Capture::read_grad(TensorObject* t) {
  if (!t->grad || register_of(t->grad) >= 0) {
    if (!t->grad && known_outside(t)) watch_grad(t);
    return;
  }
  if (!known_outside(t)) return;
  watch_grad(t);
  Instruction i;
  i.kind = Kind::GradOf;
  i.line = SourceLine::here();
  i.reads.push_back({register_of(t), 0});
  int reg = define(t->grad);
  roots_[registers_[reg].root].external = true;
  i.writes.push_back(reg);
  write_down(std::move(i));
}

void Capture::set_grad(TensorObject* t) {
  if (!known_outside(t)) return;
  Instruction i;
  i.kind = Kind::SetGrad;
  i.line = SourceLine::here();
  i.reads.push_back({register_of(t), 0});
  if (t->grad) {
    int reg = read(t->grad);
    i.reads.push_back({reg, 1});
    if (reg >= 0) roots_[registers_[reg].root].external = true;
  }
  if (running_) write_down(std::move(i));
}

}  // namespace adjoint
