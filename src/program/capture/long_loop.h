// The loop of a stretch (stretch.h): made of a few of its periods, then told how many there are.
//
// The few are a program of their own, with registers of its own and inputs of which nothing is
// known, so what is found out about a run holds for any run; the passes' RolledLoop makes a loop of
// them. Its count, the rows that it reads and writes, and the runs that single values are taken
// from follow from the stretch, whose registers are known by a sum each.
#pragma once
#include "program/capture/pattern.h"
#include "program/passes/roll.h"
#include "program/passes/rolled_loop.h"

namespace adjoint {

// A program of other registers than those of the recording.
class Renumbered {
 public:
  Renumbered(const std::vector<Register>& registers, const std::vector<Memory>& roots)
      : registers_(registers), roots_(roots) {}
  Program p;
  int to(int reg);
  void to(Instruction& i);
  // The register of the recording; `add` makes one for what has none.
  int from(int reg, const std::function<int(const TensorGeometry*)>& add);
  void from(Instruction& i, const std::function<int(const TensorGeometry*)>& add);

 private:
  const std::vector<Register>& registers_;
  const std::vector<Memory>& roots_;
  std::vector<int> truth_;
  std::unordered_map<int, int> numbers_, root_numbers_;
};

class LongLoop {
 public:
  // `loops` in the registers of the recording. `before`: the patterns of the part before, if there is one.
  LongLoop(Pattern& pattern, const std::vector<Register>& registers,
           const std::vector<Memory>& roots, const Loops& loops, int part,
           const std::deque<Pattern>& before);

  // The instructions; false if there is no loop. `wanted`: registers of the stretch that are read elsewhere.
  // `readers`: instructions that may be stacks of such.
  bool make(const std::vector<int>& wanted, const std::vector<Instruction*>& readers,
            const Program& like, std::vector<Instruction>& code, std::vector<Instruction*>& ended);

 private:
  bool read_before();
  bool is_before(const Pattern& p, size_t first, size_t last) const;
  void trim();
  void make_views_again();
  bool lay_out(size_t periods);
  bool fits(int lowest, int highest, int step) const;
  bool try_with(size_t periods);
  void want(int reg, bool output);
  void write(std::vector<Instruction>& code, std::vector<Instruction*>& ended);

  Pattern& pattern_;
  std::optional<Pattern> runs_;  // the same for periods that are runs
  const std::vector<Register>& registers_;
  const std::vector<Memory>& roots_;
  const Loops& loops_;
  const int part_;
  const std::deque<Pattern>& before_;
  const Pattern* forward_ = nullptr;  // that all runs read
  size_t first_, last_;               // periods that may be runs
  const Program* like_ = nullptr;
  std::optional<Renumbered> few_;
  int lowest_ = 0;   // register of the earlier part that has the number 0
  int earlier_ = 0;  // how many of that part have numbers
  std::vector<Instruction> window_;
  Loops few_loops_;
  Elided elided_;
  Period period_;
  std::optional<Periods> periods_;
  std::optional<RolledLoop> loop_;
  size_t more_ = 0;  // instructions that are left out
};

}  // namespace adjoint
