// Optimizer steps over a list of parameters: small ones in turn, large ones in chunks on the pool.
// A chunk's elements depend on nothing outside it, so neither does the result on who computes it.
#include "kernels/optim/optim.h"

#include <algorithm>
#include <utility>

#include "kernels/kernel.h"
#include "parallel/pool.h"

namespace adjoint {
namespace Base {
extern const optim::Loop* const kOptimLoops;
}
#if defined(__x86_64__)
namespace V3 {
extern const optim::Loop* const kOptimLoops;
}
namespace V4 {
extern const optim::Loop* const kOptimLoops;
}
#endif

namespace optim {
namespace {

// About 100 KB of parameter, gradient and state: enough work to be worth handing out.
constexpr int64_t kChunk = 16384;

const Loop* loops() {
  static const Loop* chosen = [] {
#if defined(__x86_64__)
    if (active_isa() == Isa::V4) return V4::kOptimLoops;
    if (active_isa() == Isa::V3) return V3::kOptimLoops;
#endif
    return Base::kOptimLoops;
  }();
  return chosen;
}

// A piece of memory that the step reads, or writes too.
struct Range {
  const char* begin;
  const char* end;
  bool written;
};

// True when nothing that one parameter's update writes is read or written by another's. Without
// this (a parameter listed twice, one parameter's gradient being another's memory) order matters.
bool independent(const std::vector<Arrays>& all) {
  std::vector<Range> ranges;
  for (const Arrays& a : all) {
    const int64_t bytes = a.n * static_cast<int64_t>(item_size(a.dtype));
    auto add = [&](const void* p, bool written) {
      const char* begin = static_cast<const char*>(p);
      if (begin && bytes) ranges.push_back({begin, begin + bytes, written});
    };
    for (int k = 0; k < kMaxColumns; ++k) add(a.columns[k], k != 1);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char *end = nullptr, *written_end = nullptr;  // the furthest so far
  for (const Range& r : ranges) {
    if (r.begin < written_end || (r.written && r.begin < end)) return false;
    end = std::max(end, r.end);
    if (r.written) written_end = std::max(written_end, r.end);
  }
  return true;
}

}  // namespace

void run_step(const std::vector<Arrays>& all, const Step& step) {
  const Loop loop = loops()[step.rule];
  int64_t total = 0;
  for (const Arrays& a : all) total += a.n;
  if (total <= 2 * kChunk || !independent(all)) {
    for (const Arrays& a : all) loop(a, step, 0, a.n);
    return;
  }
  std::vector<std::pair<const Arrays*, int64_t>> chunks;
  for (const Arrays& a : all)
    for (int64_t begin = 0; begin < a.n; begin += kChunk) chunks.emplace_back(&a, begin);
  parallel::parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t i) {
    const auto [a, begin] = chunks[i];
    loop(*a, step, begin, a->n - begin < kChunk ? a->n : begin + kChunk);
  });
}

}  // namespace optim
}  // namespace adjoint
