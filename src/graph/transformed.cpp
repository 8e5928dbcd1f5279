// The list of tensors that carry tangents, and the levels they belong to. Read transformed.h first.
#include "transformed.h"

#include "node.h"

namespace adjoint {

int64_t g_transformed = 0;
thread_local int t_tangent_limit = INT_MAX;

namespace {

Transformed* g_first = nullptr;
int g_levels = 0;

}  // namespace

Transformed& transformed(TensorObject* t) {
  if (Transformed* x = transformed_of(t)) return *x;
  if (!t->extra) t->extra = new TensorExtra;
  auto* x = new Transformed{t};
  x->next = g_first;
  if (g_first) g_first->previous = x;
  g_first = x;
  ++g_transformed;
  t->extra->transformed = x;
  t->flags |= kTransformed;
  return *x;
}

void drop_transformed(TensorObject* t) noexcept {
  Transformed* x = transformed_of(t);
  if (!x) return;
  t->flags &= static_cast<uint16_t>(~kTransformed);
  t->extra->transformed = nullptr;
  (x->previous ? x->previous->next : g_first) = x->next;
  if (x->next) x->next->previous = x->previous;
  --g_transformed;
  delete x;
}

int traverse_transformed(const TensorObject* t, visitproc visit, void* arg) {
  if (const Transformed* x = transformed_of(t)) {
    for (const TangentAt& tangent : x->tangents) Py_VISIT(tangent.value.get());
  }
  return 0;
}

int open_level() {
  if (g_levels == kMaxLevels)
    runtime_error("more than ", kMaxLevels, " nested levels of forward mode");
  set_mode(kTransforms, true);
  return g_levels++;
}

void close_level(int level) {
  if (level != g_levels - 1) {
    runtime_error(
        "Trying to exit a forward AD level that was not the last one that was created. This is not "
        "supported.");
  }
  if (--g_levels == 0) set_mode(kTransforms, false);
  // Taken out first and dropped afterwards: freeing one tangent may free other tensors of the list.
  Tensors dropped;
  for (Transformed *x = g_first, *next; x; x = next) {
    next = x->next;
    if (x->tangents.empty() || x->tangents.back().level < level) continue;
    dropped.push_back(std::move(x->tangents.back().value));
    x->tangents.pop_back();
    if (x->tangents.empty()) drop_transformed(x->owner);
  }
}

}  // namespace adjoint
