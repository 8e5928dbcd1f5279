// A loop that takes the place of periods of instructions (periods.h): what goes in, what comes out, its body.
//
// `make` is the order of the work. What goes in stands in loop_inputs.cpp, what was made by an earlier part of the recording in
// loop_before.cpp, what comes out in loop_outputs.cpp, the body and the instruction in loop_body.cpp. program/repeat.h is what
// they become.
#pragma once
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "program/passes/periods.h"
#include "program/passes/roll.h"
#include "program/repeat.h"

namespace adjoint {

inline constexpr size_t kLeastRuns = 4;  // of a loop

inline bool is_plain_row(const TensorGeometry& g) { return g.dense && !g.pending; }

inline bool is_stackable(const Program& p, int reg) {
  const Memory& memory = p.roots[p.registers[reg].root];
  return !memory.external && is_plain_row(p.registers[reg].geometry());
}

class RolledLoop {
 public:
  // Runs of about `target` instructions.
  RolledLoop(Program& p, const Loops& from, const Periods& periods, const Period& period,
             size_t target);

  // Puts the loop in place of its instructions; false if it cannot be one.
  bool make();
  // The same in two steps: between them it is known which instructions the runs are.
  bool choose();
  void finish();
  size_t start() const { return start_; }
  size_t end() const { return end_; }
  size_t length() const { return length_; }
  // Whether the loop has taken the place of an instruction elsewhere.
  bool has_ended(const Instruction* i) const { return ended_.count(i) > 0; }

 private:
  // An input of a body, by the register that the last run reads.
  struct Input {
    Relation::Kind kind = Relation::Fixed;
    int reg =
        -1;  // Moved: what the first run reads; Row: the base; Stacked: what the first run reads
    int next = -1;       // Moved: what the next run reads
    int64_t offset = 0;  // Row: in the first run
    int64_t step = 0;    // Row, Stacked: from run to run
  };

  const std::vector<Relation>& relations(size_t k) const {
    size_t d = period_.length;
    return period_.relations[(k % d + d - period_.last % d) % d];
  }
  size_t rep() const { return end_ - length_; }  // where the last run begins
  int64_t run_of(size_t k) const { return static_cast<int64_t>((k - start_) / length_); }
  // The same instruction in the first run, of one in the last.
  const Instruction& first(size_t k) const {
    return p_.code[k - static_cast<size_t>(count_ - 1) * length_];
  }
  const std::pair<int64_t, int>* elided(int reg) const {
    if (!from_.elided) return nullptr;
    auto found = from_.elided->made.find(reg);
    return found == from_.elided->made.end() ? nullptr : &found->second;
  }
  // How many runs there are, with those that the code does not have.
  int64_t all_runs() const { return count_ + (from_.elided ? from_.elided->runs : 0); }
  int64_t run_that_makes(int reg) const {
    const auto* found = elided(reg);
    return found ? found->first : run_of(static_cast<size_t>(periods_.maker(reg)));
  }
  bool in_loop(int reg) const {
    if (elided(reg)) return true;
    int m = periods_.maker(reg);
    return m >= static_cast<int>(start_) && m < static_cast<int>(end_);
  }
  // The register of the last run that stands where this one does in its own.
  int in_last(int reg) const {
    if (const auto* found = elided(reg)) return found->second;
    auto m = static_cast<size_t>(periods_.maker(reg));
    size_t k = m + static_cast<size_t>(count_ - 1 - run_of(m)) * length_;
    return p_.code[k].writes[static_cast<size_t>(periods_.slot(reg))];
  }
  int root(int reg) const { return p_.registers[reg].root; }

  // --- what goes in
  size_t best_cut() const;
  bool choose_runs();
  bool add_input(int reg, const Input& in);
  bool add_carry(int reg, int begins);
  bool find_inputs();
  bool add_read(const Relation& r, int reg, int begins);
  bool varies(size_t k) const;
  bool add_numbers(size_t k);
  bool fit_changes();

  // --- what comes out
  void note_changes();
  bool is_settled(int reg) const;
  int output(int reg);
  void take(int reg);
  void find_outputs();
  bool stack_of(Instruction& i);
  void take_rows(Instruction& i, const std::vector<int64_t>& places,
                 const std::vector<bool>& covered, std::vector<Repeat::Written>& written);
  static void set_rows(Instruction& i, Few<Read, 3> reads, std::vector<int64_t> places);
  // A stack goes from loop to loop, in the order of the code: what this one takes, and the next
  // loop, if there is one, which takes it from this.
  struct Chain {
    int base = -1;
    Instruction* later = nullptr;
    size_t at = 0;  // of the stacks of that loop
  };
  Chain chain_of(int base);
  static void hand_on(const Chain& chain, int made);

  // --- what was made before
  void fit_before();
  bool find_window(const Periods& periods, const Period& loop);
  bool follows(const Periods& periods, const Period& loop, size_t k, int64_t behind) const;
  // What was made before and is read run by run stands in a stack, of which there is one for each
  // register of a period.
  struct Range {
    int lowest, highest;
    std::vector<int> regs;
  };
  std::map<std::pair<int, int>, Range> ranges();
  bool fit_stacks();
  void make_stacks();

  // --- the body
  void make_body();
  void lend_registers();
  void return_registers();
  void adopt_registers();
  void copy_numbers();
  void prune();
  void set_outputs();
  void connect();
  void finish_body();
  void replace();
  int add_register(const TensorGeometry* form);
  int place(int made, const TensorGeometry* form);

  Program& p_;
  const Loops& from_;
  const Periods& periods_;
  const Period& period_;
  size_t length_;  // of a run, in instructions
  int64_t each_;   // periods in one
  size_t start_ = 0, end_ = 0;
  int64_t count_ = 0;
  std::unordered_map<int, Input> inputs_;
  std::vector<int> order_;  // of the inputs
  std::vector<bool> gone_;  // instructions of the last run that are inputs of it
  std::map<size_t, std::shared_ptr<std::vector<const Value*>>> tables_;
  std::vector<Instruction> constants_;
  std::vector<size_t>
      window_;  // instructions of the code before that may make again what the last run reads
  std::unordered_map<int, int> output_at_;
  std::vector<int> outputs_;  // after the carries
  std::unordered_set<int> taken_;
  std::vector<int> bases_;
  std::vector<int> lent_;  // memory that is outside for the body alone
  std::unordered_map<int, size_t> changed_at_;
  std::unordered_set<const Instruction*> ended_;
  Instruction made_;
  std::shared_ptr<Repeat> loop_ = std::make_shared<Repeat>();
};

}  // namespace adjoint
