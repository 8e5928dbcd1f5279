// Machine code for the loops of programs that run often, through llvmlite where that is installed.
//
// A program starts with the loops of program/fuse. When it has taken about as long as it would take
// to compile, the functions that its fused instructions ask for are written (tile_code.h), each
// distinct one once, compiled as one module by Python, and handed to the instructions, which run them
// in place of their loops from then on. What cannot be written stays as it is. The results are
// the same to the last bit, so nobody has to know when that happens.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/native/sum_code.h"
#include "program/native/tile_code.h"

namespace adjoint::native {

// The functions that a program wants.
class Module {
 public:
  // The number of a function, or -1 where there is none.
  int add(const TileLoops& f, Extent extent) {
    return add(tile_key(f, extent),
               [&](const std::string& name) { return tile_code(f, extent, name); });
  }
  // Of a reduce::Problem or FoldedRows.
  template <class Sum>
  int add_sum(const Sum& sum) {
    return add(sum_key(sum), [&](const std::string& name) { return sum_code(sum, name); });
  }
  int add(const std::string& key,
          const std::function<std::optional<std::string>(const std::string&)>& write);

  bool compile();
  void* address(int number) const { return addresses_[static_cast<size_t>(number)]; }
  // What keeps the machine code in memory.
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  std::unordered_map<std::string, int> known_;
  std::vector<std::string> names_;
  std::string text_;
  std::vector<void*> addresses_;
  std::shared_ptr<void> owner_;
};

// Turns text into functions: addresses by name, and what owns them; null where that failed. Set by
// the bindings; needs the GIL.
using Compiler = std::shared_ptr<void> (*)(const std::string& text,
                                           const std::vector<std::string>& names,
                                           std::vector<void*>* addresses);
extern Compiler compiler;

enum class When : uint8_t { Never, Worthwhile, Always };
extern When when;

// Called before a run, with the GIL: may compile the program. Whether the run is to be timed.
bool before_run(const Program& p);
void after_run(const Program& p, int64_t nanoseconds);

}  // namespace adjoint::native
