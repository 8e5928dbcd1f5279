// What one period of a stretch (stretch.h) comes to when it is simplified by itself: views are
// aliases, and what is the same in every period is computed once, before the first. Nothing that
// other periods do is made use of, so it holds for all of them.
#pragma once
#include "program/capture/stretch.h"

namespace adjoint {

class Pattern {
 public:
  // `kept`: registers of the stretch that are read elsewhere, sorted; each has to be computed where it stands.
  Pattern(const Stretch& s, const std::vector<Register>& registers,
          const std::vector<Memory>& roots, const std::vector<int>& kept);

  const Stretch& stretch() const { return s_; }
  // Of a period.
  size_t size() const { return lines_.size(); }
  // All of them, of all periods.
  size_t count() const { return lines_.size() * static_cast<size_t>(s_.periods()); }
  Instruction at(size_t k) const;
  const std::vector<Instruction>& before() const { return before_; }

  // Where a register of the stretch is made, and as which result; false if it is computed before.
  struct Place {
    size_t line;
    size_t write;
  };
  bool find(int reg, Place& found) const;
  // The alias that makes a register, if one does.
  std::optional<Instruction> view(int reg) const;
  // The register of the first period, for one that is the same in all.
  int equal(int reg) const;
  bool is_same_in_all(int reg) const { return s_.has(reg) && once_[slot(reg)]; }
  const Instruction& line(size_t n) const { return lines_[n].i; }
  const Moves& moves(size_t n) const { return lines_[n].by; }
  void set_read(size_t n, size_t read, int reg, int step);
  // One more instruction before the n-th; what it makes is none of the registers of the stretch.
  void insert(size_t n, Instruction i, Moves by);

 private:
  struct Line {
    Instruction i;  // of the first period
    Moves by;
  };
  size_t slot(int reg) const {
    int d = (reg - s_.first) % s_.step;
    return static_cast<size_t>(d < 0 ? d + s_.step : d);
  }
  void add(Line line);
  void take_apart(const Instruction& i, const Moves& by);
  void see_through(Line& line) const;
  bool is_the_same_in_all(const Line& line) const;

  const Stretch& s_;
  const std::vector<Register>& registers_;
  const std::vector<Memory>& roots_;
  std::vector<Line> lines_;
  std::vector<Instruction> before_;
  // By register of a period.
  std::vector<bool> once_, kept_;
  std::vector<int> line_, write_;
};

}  // namespace adjoint
