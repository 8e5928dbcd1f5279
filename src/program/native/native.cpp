// Read native.h first.
#include "program/native/native.h"

#include <bit>

#include "program/native/code.h"

namespace adjoint::native {

Compiler compiler = nullptr;
When when = When::Never;

namespace {

// Nanoseconds that a program has to have taken: what it takes to compile one, and before the first
// one to import llvmlite.
constexpr int64_t kFirst = 150'000'000, kLater = 30'000'000;
bool has_compiled = false;

constexpr const char* kEnd =
    "attributes #0 = { nounwind \"min-legal-vector-width\"=\"512\" }\n"
    "attributes #1 = { cold nounwind }\n"
    "!0 = !{!\"branch_weights\", i32 1, i32 100000}\n";

void compile(const Program& p) {
  Module module;
  for (const Instruction& i : p.code) {
    if (i.kind == Kind::Fused) i.more->fused->ask_native(module);
  }
  if (!module.compile()) return;
  for (const Instruction& i : p.code) {
    if (i.kind == Kind::Fused) i.more->fused->take_native(module);
  }
}

}  // namespace

int Module::add(const std::string& key,
                const std::function<std::optional<std::string>(const std::string&)>& write) {
  auto [found, is_new] = known_.try_emplace(key, -1);
  if (!is_new) return found->second;
  std::string name = joined("f", names_.size());
  if (std::optional<std::string> text = write(name)) {
    found->second = static_cast<int>(names_.size());
    names_.push_back(std::move(name));
    text_ += *text;
  }
  return found->second;
}

bool Module::compile() {
  if (names_.empty()) return false;
  owner_ = compiler(text_ + kEnd, names_, &addresses_);
  return owner_ != nullptr;
}

bool before_run(const Program& p) {
  Pace& pace = p.pace;
  ++pace.runs;
  bool due = when == When::Always || pace.spent > (has_compiled ? kLater : kFirst);
  if (due) {
    pace.open = false;  // another thread may come here while this one compiles
    has_compiled = true;
    compile(p);
    return false;
  }
  // Few runs are timed: a clock takes longer than the shortest programs.
  return pace.runs < 64 ? std::has_single_bit(pace.runs) : pace.runs % 64 == 0;
}

void after_run(const Program& p, int64_t nanoseconds) {
  p.pace.spent = nanoseconds * static_cast<int64_t>(p.pace.runs);
}

}  // namespace adjoint::native
