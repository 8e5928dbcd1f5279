// The body of a loop as a program, and the instruction that runs it. Read rolled_loop.h first.
#include <algorithm>

#include "program/fuse/fuse.h"
#include "program/passes/fold.h"
#include "program/passes/recompute.h"
#include "program/passes/rolled_loop.h"
#include "program/passes/simplify.h"

namespace adjoint {

// The code of the last run, in the registers of the whole.
void RolledLoop::make_body() {
  Program& body = loop_->body;
  body.descriptions = p_.descriptions;
  body.default_dtype = p_.default_dtype;
  copy_numbers();
  for (size_t k = rep(); k < end_; ++k) {
    if (gone_[k - rep()]) continue;
    Instruction& i = body.code.emplace_back(p_.code[k]);
    if (i.more) i.more = std::make_shared<Particulars>(*i.more);
    auto table = tables_.find(k);
    if (table == tables_.end()) continue;
    i.kernel = nullptr;
    i.more = std::make_shared<Particulars>();
    i.more->table = table->second;
  }
  lend_registers();
  prune();
  if (!window_.empty()) {
    std::vector<Instruction> code;
    for (size_t k : window_) code.push_back((*from_.before)[k]);
    recompute(body, code, {});
    prune();
  }
  return_registers();
  make_stacks();
  connect();
  adopt_registers();
  finish_body();
}

// The body has the registers of the whole, which are many, until it has its own.
void RolledLoop::lend_registers() {
  for (int reg : order_) {
    if (!std::exchange(p_.roots[root(reg)].external, true)) lent_.push_back(root(reg));
  }
  std::swap(loop_->body.registers, p_.registers);
  std::swap(loop_->body.roots, p_.roots);
}

void RolledLoop::return_registers() {
  std::swap(loop_->body.registers, p_.registers);
  std::swap(loop_->body.roots, p_.roots);
  for (int r : lent_) p_.roots[r].external = false;
}

// Gives the body registers of its own.
void RolledLoop::adopt_registers() {
  Program& body = loop_->body;
  std::unordered_map<int, int> to, roots;
  auto number = [&](int& reg) {
    if (reg < 0) return;
    auto [found, added] = to.try_emplace(reg, static_cast<int>(body.registers.size()));
    if (added) {
      Register r = p_.registers[reg];
      auto [at, first] = roots.try_emplace(r.root, static_cast<int>(body.roots.size()));
      if (first) body.roots.push_back(p_.roots[r.root]);
      r.root = at->second;
      body.registers.push_back(r);
    }
    reg = found->second;
  };
  for (int& r : body.inputs) number(r);
  for (int r : body.inputs) body.roots[body.registers[r].root].external = true;
  for (Instruction& i : body.code) {
    for (Read& r : i.reads) number(r.reg);
    for (int& w : i.writes) number(w);
  }
  for (int& r : body.outputs) number(r);
}

// Single numbers are part of the body rather than memory that it reads, unless something changes them.
void RolledLoop::copy_numbers() {
  std::erase_if(order_, [&](int reg) {
    int m = periods_.maker(reg);
    if (inputs_[reg].kind != Relation::Fixed || m < 0 || p_.code[m].kind != Kind::Constant ||
        !p_.code[m].element() || p_.roots[root(reg)].changed ||
        std::ranges::find(outputs_, reg) != outputs_.end())
      return false;
    Instruction& i = loop_->body.code.emplace_back(p_.code[m]);
    i.more = std::make_shared<Particulars>(*i.more);
    return true;
  });
}

// Drops what no run needs: inputs that are not read, code.
void RolledLoop::prune() {
  Program& body = loop_->body;
  for (size_t before = order_.size() + 1; order_.size() < before;) {
    before = order_.size();
    set_outputs();
    merge_common(body);
    remove_dead(body);
    std::vector<bool> read(body.registers.size());
    for (const Instruction& i : body.code) {
      for (const Read& r : i.reads) read[r.reg] = true;
    }
    for (int r : outputs_) read[r] = true;
    // A carry that goes further back gets its values from another one.
    for (bool more = true; std::exchange(more, false);) {
      for (int reg : order_) {
        const Input& in = inputs_[reg];
        if (in.kind != Relation::Moved || !read[reg] || read[in.next]) continue;
        read[in.next] = more = true;
      }
    }
    // What is computed again is no input any more.
    for (const Instruction& i : body.code) {
      for (int w : i.writes) {
        if (w >= 0) read[w] = false;
      }
    }
    std::erase_if(order_, [&](int reg) { return !read[reg]; });
  }
}

void RolledLoop::set_outputs() {
  Program& body = loop_->body;
  body.outputs.clear();
  for (int reg : order_) {
    if (inputs_[reg].kind == Relation::Moved) body.outputs.push_back(inputs_[reg].next);
  }
  body.outputs.insert(body.outputs.end(), outputs_.begin(), outputs_.end());
}

// The instruction that runs it: its operands, in the order of the inputs.
void RolledLoop::connect() {
  Program& body = loop_->body;
  body.inputs.clear();
  for (Relation::Kind kind : {Relation::Moved, Relation::Row, Relation::Fixed}) {
    for (int reg : order_) {
      const Input& in = inputs_[reg];
      if (in.kind != kind) continue;
      body.inputs.push_back(reg);
      made_.reads.push_back({in.reg});
      if (kind == Relation::Moved) ++loop_->carries;
      if (kind == Relation::Row) loop_->rows.push_back({in.offset, in.step});
    }
  }
  for (Repeat::Stack& s : loop_->stacks) {
    if (s.read < 0) continue;
    made_.reads.push_back({bases_[static_cast<size_t>(s.read)]});
    s.read = static_cast<int>(made_.reads.size()) - 1;
  }
  body.given = static_cast<int>(body.inputs.size());
  set_outputs();
  auto carries = static_cast<int>(loop_->carries);
  for (Repeat::Taken& t : loop_->taken) t.output += carries;
  for (Repeat::Written& w : loop_->written) w.output += carries;
  for (const Instruction& i : body.code) {
    made_.may_fail |= i.may_fail;
    made_.drawing |= i.draws();
  }
  loop_->count = all_runs();
}

void RolledLoop::finish_body() {
  Program& body = loop_->body;
  roll(body, {});
  fold(body);
  mark_seen_constants(body);
  keep_unfused(body);
  fuse(body);
  remove_dead(body);
  renumber(body);
  find_last_reads(body);
}

void RolledLoop::replace() {
  made_.with_more().repeat = std::move(loop_);
  std::vector<Instruction> code;
  code.reserve(p_.code.size() - (end_ - start_) + constants_.size() + 1);
  auto move = [&](size_t from, size_t to) {
    for (size_t k = from; k < to; ++k) {
      if (!ended_.count(&p_.code[k])) code.push_back(std::move(p_.code[k]));
    }
  };
  move(0, start_);
  for (Instruction& i : constants_) code.push_back(std::move(i));
  code.push_back(std::move(made_));
  move(end_, p_.code.size());
  p_.code = std::move(code);
}

// A register on memory of its own.
int RolledLoop::add_register(const TensorGeometry* form) {
  return place(from_.add ? from_.add(form) : static_cast<int>(p_.registers.size()), form);
}

int RolledLoop::place(int made, const TensorGeometry* form) {
  Register r{form, 0, static_cast<int>(p_.roots.size())};
  p_.roots.push_back({});
  if (p_.registers.size() <= static_cast<size_t>(made))
    p_.registers.resize(static_cast<size_t>(made) + 1, r);
  p_.registers[made] = r;
  return made;
}

}  // namespace adjoint
