// What a tensor carries besides its value while a transform is under way: tangents (forward mode),
// or a batch axis that the function being mapped does not see (vmap).
//
// Every transform opens a level; a level has a number that no other ever had, so that threads do
// not meet, and a higher one than those it is inside.
// A dual tensor is an ordinary tensor, its primal, with one tangent per level of forward mode that
// it depends on. Every tensor that carries something is in one list, so that a level that ends
// takes its tangents with it.
// A batched tensor stands for one sample of `batch`, whose first axis counts the samples: its own
// geometry is that of the first sample. Read transforms/batched.h.
// Note [Tangents of views]: the tangent of a view is the same view of its base's tangent, so that
// base and views agree after in-place changes as they do in their values. It is made when it is
// first asked for, since the base may have got its tangent after the view was made. For that a
// tangent is laid out in memory as its tensor is, from the moment the first view is made. Where elements
// share places (a primal that was expanded) they may have tangents that differ: those are dense, and
// neither the tensor nor its views can be changed in place.
// Read next: transforms/tangents.h (what ops do with them).
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace adjoint {

using Level = int64_t;

struct TangentAt {
  Level level;
  Tensor value;  // undefined: known to have none, whatever the base has
};

struct Transformed {
  TensorObject* owner;
  Transformed* previous = nullptr;
  Transformed* next = nullptr;
  std::vector<TangentAt> tangents;  // levels ascending
  Level newest = 0;                 // when it was made, or got a tangent last: the last level then
  Tensor batch;                     // defined for a batched tensor, which has no tangents itself
  Level batch_level = 0;
};

// How many tensors carry something: zero in most programs, and asked before anything else.
extern int64_t g_transformed;

inline Transformed* transformed_of(const TensorObject* t) {
  return t->flags & kTransformed ? t->extra->transformed : nullptr;
}
// The batch that `t` is a sample of, or null.
inline Transformed* batch_of(const TensorObject* t) {
  Transformed* x = transformed_of(t);
  return x && x->batch ? x : nullptr;
}
inline bool is_batched(const Tensor& t) { return batch_of(t.get()) != nullptr; }
// Made if need be.
Transformed& transformed(TensorObject* t);
// Moves it to the front of the list, where the end of the newest level looks: it gets a tangent.
void touch(Transformed& x);
// Called when `t` is cleared, and when the last tangent goes.
void drop_transformed(TensorObject* t) noexcept;
int traverse_transformed(const TensorObject* t, visitproc visit, void* arg);

// --- levels --------------------------------------------------------------------------------------
enum class Randomness : uint8_t { Error, Different, Same };
struct OpenLevel {
  Level level;
  bool batch = false;       // a vmap; otherwise forward mode
  bool directions = false;  // only tangents are batched, as in jacfwd: values are not
  int64_t size = 0;         // of its batch
  Randomness randomness = Randomness::Error;
};
// The transforms under way in this thread, the outermost first; a set of levels is written as bits.
extern thread_local std::vector<OpenLevel> t_levels;
inline constexpr int kMaxLevels = 64;
Level open_level(OpenLevel what);
void close_level(Level level);  // the newest one; its tangents are dropped everywhere

// Tangents of this level and those inside it are not seen by this thread: 0 turns forward mode off.
extern thread_local Level t_tangent_limit;
class TangentLimit {
 public:
  explicit TangentLimit(Level limit) : before_(t_tangent_limit) {
    if (limit < before_) t_tangent_limit = limit;
  }
  ~TangentLimit() { t_tangent_limit = before_; }
  TangentLimit(const TangentLimit&) = delete;

 private:
  Level before_;
};

}  // namespace adjoint
