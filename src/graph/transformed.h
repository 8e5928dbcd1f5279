// What a tensor carries besides its value while a transform is under way: tangents (forward mode).
//
// A dual tensor is an ordinary tensor, its primal, with one tangent per level of forward mode that
// it depends on. Levels are numbered from the outside in. Every tensor that carries something is in
// one list, so that a level that ends takes its tangents with it.
// Note [Tangents of views]: the tangent of a view is the same view of its base's tangent, so that
// base and views agree after in-place changes as they do in their values. It is made when it is
// first asked for, since the base may have got its tangent after the view was made. For that a
// tangent is laid out in memory as its tensor is, from the moment the first view is made.
// Read next: ../ops/tangents.h (what ops do with them).
#pragma once
#include <climits>
#include <vector>

#include "../tensor/tensor.h"

namespace adjoint {

struct TangentAt {
  int level;
  Tensor value;  // undefined: known to have none, whatever the base has
};

struct Transformed {
  TensorObject* owner;
  Transformed* previous = nullptr;
  Transformed* next = nullptr;
  std::vector<TangentAt> tangents;  // levels ascending
};

// How many tensors carry something: zero in most programs, and asked before anything else.
extern int64_t g_transformed;

inline Transformed* transformed_of(const TensorObject* t) {
  return t->flags & kTransformed ? t->extra->transformed : nullptr;
}
// Made if need be.
Transformed& transformed(TensorObject* t);
// Called when `t` is cleared, and when the last tangent goes.
void drop_transformed(TensorObject* t) noexcept;
int traverse_transformed(const TensorObject* t, visitproc visit, void* arg);

// --- levels
// ---------------------------------------------------------------------------------------------
inline constexpr int kMaxLevels = 64;
int open_level();             // its number
void close_level(int level);  // the newest one; its tangents are dropped everywhere

// Tangents of this level and above are not seen by this thread: 0 turns forward mode off.
extern thread_local int t_tangent_limit;
class TangentLimit {
 public:
  explicit TangentLimit(int limit) : before_(t_tangent_limit) {
    if (limit < before_) t_tangent_limit = limit;
  }
  ~TangentLimit() { t_tangent_limit = before_; }
  TangentLimit(const TangentLimit&) = delete;

 private:
  int before_;
};

}  // namespace adjoint
