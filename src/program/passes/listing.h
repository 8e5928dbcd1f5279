// Instructions as text, for people who look into a program.
#pragma once
#include <string>
#include <vector>

namespace adjoint {

struct Instruction;

struct Line {
  std::string name;
  bool in_place;
  std::vector<int> reads, writes;  // registers
  std::string where;               // in the user's program
};
std::vector<Line> listing(const std::vector<Instruction>& code);

// The code as a pass has left it.
struct Stage {
  const char* pass;
  std::vector<Line> code;
};

}  // namespace adjoint
