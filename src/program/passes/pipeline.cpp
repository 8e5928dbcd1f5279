// Read pipeline.h first.
#include "program/passes/pipeline.h"

#include "program/fuse/fuse.h"
#include "program/passes/early_slopes.h"
#include "program/passes/fold.h"
#include "program/passes/simplify.h"
#include "program/passes/recompute.h"

namespace adjoint {
namespace {

constexpr Pass kPasses[] = {
    {"views", [](Program& p, const Origin&) { make_aliases(p); }},
    {"merge", [](Program& p, const Origin&) { merge_common(p); }},
    {"remove", [](Program& p, const Origin&) { remove_dead(p); }},
    {"loops", [](Program& p, const Origin& from) { roll(p, from.loops); }},
    {"recompute",
     [](Program& p, const Origin& from) {
       if (from.before && !is_rolled(p)) recompute(p, *from.before, from.there);
     }},
    {"inputs", [](Program& p, const Origin& from) { from.find_inputs(p); }},
    {"fold", [](Program& p, const Origin&) { fold(p); }},
    {"constants", [](Program& p, const Origin&) { mark_seen_constants(p); }},
    {"keep", [](Program& p, const Origin&) { keep_unfused(p); }},
    {"slopes", [](Program& p, const Origin&) { compute_slopes_early(p); }},
    {"fuse", [](Program& p, const Origin&) { fuse(p); }},
    {"remove", [](Program& p, const Origin&) { remove_dead(p); }},
    {"number", [](Program& p, const Origin&) { renumber(p); }},
    {"last reads", [](Program& p, const Origin&) { find_last_reads(p); }},
};

}  // namespace

constinit thread_local bool t_keep_stages = false;

std::span<const Pass> passes() { return kPasses; }

void run_passes(Program& p, const Origin& from) {
  if (t_keep_stages) p.stages.push_back({"record", listing(p.code)});
  for (const Pass& pass : passes()) {
    pass.run(p, from);
    if (t_keep_stages) p.stages.push_back({pass.name, listing(p.code)});
  }
}

}  // namespace adjoint
