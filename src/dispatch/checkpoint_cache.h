// Results of chosen ops, kept in the order of their calls and handed out again in that order: what
// selective checkpoints are made of. The policy that chooses is Python's
// (python/adjoint/utils/checkpoint/_selective.py).
//
// Only the forward of an op is replaced: it is recorded as ever, so that the recomputation saves
// the same values as the first run did. The short way through an op does not ask; checkpoints leave
// it anyway, since their saved values pass through hooks.
#pragma once
#include <deque>
#include <map>

#include "dispatch/op.h"

namespace adjoint {

struct CheckpointCache {
  struct Entry {
    Value out;   // headers without history
    Value kept;  // what forward left for backward
    std::vector<uint32_t> versions;
    bool computed_again = false;  // it returned one of its arguments
  };
  std::map<const Op*, std::deque<Entry>> entries;
  bool allow_changes = false;
};

// The cache in use by a thread.
struct CheckpointCacheUse {
  CheckpointCache* cache;
  bool replay;
  bool (*wants)(Call& c);  // asks the policy
};
extern constinit thread_local const CheckpointCacheUse* t_checkpoint_cache;

// The forward of an op by way of the cache.
Value cached_forward(Call& c);

}  // namespace adjoint
