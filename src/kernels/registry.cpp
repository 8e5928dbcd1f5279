// The table of kernels: static registrars fill it before main, find_kernel reads it at import.
// See kernel.h for the interface.
#include "kernels/kernel.h"
#include "kernels/kernel_pair.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace adjoint {
namespace {

struct Entry {
  Kernel chosen;  // what find_kernel hands out; its address is stable
  Loop loop[kIsas][kDTypes] = {};
};

struct PairEntry {
  const char *first, *second, *product;
  Loop loop[kIsas][kDTypes] = {};
};

struct Table {
  std::mutex lock;
  std::map<std::string_view, PairEntry> pairs;  // by the first
  std::map<std::string_view, Entry> entries;    // names are string literals
};

// A function's static, since registrars of other files may run before this file's own statics.
Table& table() {
  static Table* t = new Table;  // never destroyed: kernels outlive every static
  return *t;
}

Isa best_of_processor() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return v4 ? Isa::V4 : v3 ? Isa::V3 : Isa::Base;
#else
  return Isa::Base;
#endif
}

Isa choose_isa() {
  Isa best = best_of_processor();
  const char* asked = std::getenv("ADJOINT_ISA");
  if (!asked) return best;
  for (Isa isa : {Isa::Base, Isa::V3, Isa::V4})
    if (std::string_view(asked) == isa_name(isa)) return isa < best ? isa : best;
  return best;
}

}  // namespace

const char* isa_name(Isa isa) { return isa == Isa::V4 ? "v4" : isa == Isa::V3 ? "v3" : "base"; }

Isa active_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

void register_loop(Isa isa, const char* name, int inputs, Result result, DType dtype, Loop loop) {
  Table& t = table();
  std::lock_guard<std::mutex> hold(t.lock);
  Entry& e = t.entries[name];
  e.chosen.name = name;
  e.chosen.inputs = static_cast<uint8_t>(inputs);
  // abs is Same for reals and Real for complex; for a real dtype Real means the same dtype.
  if (result != Result::Same) e.chosen.result = result;
  e.loop[static_cast<int>(isa)][static_cast<int>(dtype)] = loop;
}

void register_trait(const char* name, KernelTrait trait) {
  Table& t = table();
  std::lock_guard<std::mutex> hold(t.lock);
  t.entries[name].chosen.traits |= trait;
}

void register_pair(Isa isa, const char* first, const char* second, const char* product, DType dtype,
                   Loop loop) {
  Table& t = table();
  std::lock_guard<std::mutex> hold(t.lock);
  PairEntry& e = t.pairs.try_emplace(first, PairEntry{first, second, product}).first->second;
  e.loop[static_cast<int>(isa)][static_cast<int>(dtype)] = loop;
}

const KernelPair* kernel_pairs(int* count) {
  // Of the instruction set that the kernels themselves are taken from, and of no other: reductions
  // differ in their last bits.
  static const std::vector<KernelPair> pairs = [] {
    std::vector<KernelPair> found;
    for (const auto& [name, e] : table().pairs) {
      KernelPair pair{find_kernel(e.first), e.second ? find_kernel(e.second) : nullptr,
                      find_kernel(e.product)};
      std::copy_n(e.loop[static_cast<int>(active_isa())], kDTypes, pair.loop);
      if (pair.first && pair.product) found.push_back(pair);
    }
    return found;
  }();
  *count = static_cast<int>(pairs.size());
  return pairs.data();
}

const Kernel* find_kernel(const char* name) {
  Table& t = table();
  std::lock_guard<std::mutex> hold(t.lock);
  auto found = t.entries.find(name);
  if (found == t.entries.end()) return nullptr;
  Entry& e = found->second;
  for (int d = 0; d < kDTypes; ++d) {
    Loop best = nullptr;
    for (int i = 0; i <= static_cast<int>(active_isa()); ++i)
      if (e.loop[i][d]) best = e.loop[i][d];
    if (e.chosen.loop[d] != best) e.chosen.loop[d] = best;
  }
  if (e.chosen.has(kSignless)) {
    for (DType d : {DType::UInt16, DType::UInt32, DType::UInt64})
      e.chosen.loop[static_cast<int>(d)] = e.chosen.loop[static_cast<int>(signed_dtype(d))];
  }
  return &e.chosen;
}

}  // namespace adjoint
