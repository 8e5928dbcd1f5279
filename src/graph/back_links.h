// Links from a tensor or a node to something newer, which can close a cycle (Note [Objects aside]
// in python/gc_list.h). What hooks and attributes do is said where they are set; here are the
// links that the graph itself makes.
#pragma once
#include "graph/node.h"

namespace adjoint {

// Puts `g`, which may be undefined, in the place of t.grad. It is a back link if the gradient leads
// anywhere itself; if not, it is marked as held, so that a history it gets later is noticed.
void give_grad(TensorObject* t, Tensor g);

// `t`, which others may have seen, is about to get a new history: a back link if something that
// the history leads to may hold `t`, itself or by one of its views. Nothing but the caller holds
// `own_views` of those.
void note_new_history(TensorObject* t, int own_views);

// `t` is about to get other memory than its views, by which they could be counted until now.
void note_parting(TensorObject* t);

// A node keeps `v` for backward: marks tensors as held. Python objects are back links.
void note_saved_list(Node* n, const Value& v);
inline void note_saved(Node* n, const Value& v) {
  if (v.is_tensor())
    v.object()->flags |= kHeld;
  else if (v.kind() > Value::Tensor_)
    note_saved_list(n, v);
}

}  // namespace adjoint
