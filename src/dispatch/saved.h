// Keeping values for backward, and getting them back.
//
//   pack      a value as a node keeps it: with its version, or as whatever the innermost
//             saved_tensors_hooks made of it
//   unpack    the value again: checked against its version, or rebuilt by the unpack hook, with the
//             history it had when it was saved
//
// Note [Packed values]: a packed tensor is a Value of kind Object whose Saved has the version
// kPacked; a packed list of tensors is a List of such objects and Nones. The objects are made by
// the bindings (bindings/autograd/saved_hooks.cpp) and are seen by the garbage collector, so that hooks
// may return anything. A rule may ask for a value several times; the hook runs once, because
// unpacked values stay with their objects until the UnpackScope around the rule ends.
#pragma once
#include "graph/node.h"

namespace adjoint {

inline constexpr uint32_t kNotSaved = UINT32_MAX;
inline constexpr uint32_t kPacked = UINT32_MAX - 1;

// A value as the node that is being recorded keeps it. Runs the pack hook, if there is one, which
// may raise. Refuses inference tensors.
Saved pack(const Value& v);
// What an output is kept as: an alias without history, so that the node does not keep itself alive.
Saved pack_output(const Tensor& t);
// Keeps what forward left for backward, in the same way.
void keep_left(Node* n, Value v);
inline void keep(Node* n, Value v) {
  if (v) keep_left(n, std::move(v));
}

// The tensor that `s`, a value of `n`, stands for. While gradients are recorded it has the history
// of `e`: the edge that the node has for it, or that of the node itself for an output.
Tensor unpack(Node* n, const Saved& s, const Edge& e);
Tensors unpack_list(Node* n, const Saved& s, const Edge* edges);
const Value& unpack_kept(Node* n);
// Item k of a saved list, as a saved value of its own.
Saved saved_item(const Saved& s, int k);
inline bool is_packed(const Saved& s) { return s.version == kPacked; }

// `t` with the history it had, which user code may want even while nothing is recorded: it can turn
// recording on in its backward. An accumulator as grad_fn marks a stand-in for a leaf.
Tensor with_history(const Tensor& t, const Edge& e);

// What a list of tensors is saved with: it changes when the memory of any of them does.
uint32_t version_of(const Tensors& ts);

// Around everything that unpacks.
extern constinit thread_local bool t_unpacked;
void forget_unpacked() noexcept;
struct UnpackScope {
  UnpackScope() = default;
  UnpackScope(const UnpackScope&) = delete;
  ~UnpackScope() {
    if (t_unpacked) [[unlikely]]
      forget_unpacked();
  }
};

// What is asked of Python; set by the bindings.
struct SavedHooks {
  Value (*pack)(const Tensor& t) = nullptr;
  Tensor (*unpack)(PyObject* packed) = nullptr;
  void (*forget)() noexcept = nullptr;
  // allow_mutation_on_saved_tensors: `t` is about to be changed in place.
  void (*before_change)(const Tensor& t) = nullptr;
};
extern SavedHooks saved_hooks;
// Whether before_change is wanted in this thread.
extern constinit thread_local bool t_watch_changes;

[[noreturn]] void refuse_change_by_pack_hook(const Tensor& t);
[[noreturn]] void changed_in_place(Node* n, const Tensor& t, uint32_t saved_version);

}  // namespace adjoint
