// Keeping and replaying results. Read checkpoint_cache.h first.
#include "dispatch/checkpoint_cache.h"

#include "dispatch/pending_calls.h"
#include "dispatch/program_recorder.h"

namespace adjoint {

constinit thread_local const CheckpointCacheUse* t_checkpoint_cache = nullptr;

namespace {

// The ops that an op or a policy uses are none of the cache's business.
struct Suspend {
  const CheckpointCacheUse* before = std::exchange(t_checkpoint_cache, nullptr);
  ~Suspend() { t_checkpoint_cache = before; }
};

template <class F>
Value each_result(const Value& v, F&& f) {
  if (v.is_tensor()) return f(v.tensor());
  if (!v.is_tensors()) return v;
  Tensors ts;
  for (const Tensor& t : v.tensors()) ts.push_back(t ? f(t) : t);
  return ts;
}

bool is_argument(const Call& c, const Value& out) {
  bool found = false;
  each_result(out, [&](const Tensor& t) {
    for (int i = 0; i < c.op.argument_count; ++i)
      found |= c.args[i].is_tensor() && c.args[i].object() == t.get();
    return t;
  });
  return found;
}

Value keep(const CheckpointCacheUse& use, Call& c) {
  Value out = compute(c);
  CheckpointCache::Entry entry;
  if (is_argument(c, out)) {
    entry.computed_again = true;
  } else {
    entry.kept = c.kept;
    entry.out = each_result(out, [&](const Tensor& t) {
      entry.versions.push_back(t.version());
      return alias(t);
    });
  }
  use.cache->entries[&c.op].push_back(std::move(entry));
  return out;
}

Value replay(const CheckpointCacheUse& use, Call& c) {
  auto& queue = use.cache->entries[&c.op];
  if (queue.empty()) {
    runtime_error(
        "Trying to backward an extra time. You are only allowed to backward once on any region "
        "computed under selective activation checkpoint. (no kept result of `",
        c.op.name, "` is left)");
  }
  CheckpointCache::Entry entry = std::move(queue.front());
  queue.pop_front();
  if (entry.computed_again) return compute(c);
  size_t k = 0;
  Value out = each_result(entry.out, [&](const Tensor& t) {
    if (t.version() != entry.versions[k++] && !use.cache->allow_changes) {
      runtime_error("Tensor cached during selective activation checkpoint has been mutated: a ",
                    t.dtype(), " ", t.shape(), " result of `", c.op.name, "`, changed at ",
                    t->storage->changed.describe(),
                    ".\n  fix: do not keep results that are changed in place, or pass "
                    "allow_cache_entry_mutation=True");
    }
    return alias(t);
  });
  c.kept = std::move(entry.kept);
  return out;
}

}  // namespace

Value cached_forward(Call& c) {
  refuse_recording("results are kept by a selective checkpoint");
  const CheckpointCacheUse& use = *t_checkpoint_cache;
  // An op without a derivative of its own is written with others, which are asked one by one.
  if (!c.op.differentiable()) return compute(c);
  Suspend suspend;
  if (c.op.is_view || !use.wants(c)) return compute(c);
  return use.replay ? replay(use, c) : keep(use, c);
}

}  // namespace adjoint
