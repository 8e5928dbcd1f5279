// The list of tensors that carry tangents, and the levels they belong to. Read transformed.h first.
#include "graph/transformed.h"

#include "graph/node.h"

namespace adjoint {

int64_t g_transformed = 0;
thread_local Level t_tangent_limit = INT64_MAX;
thread_local std::vector<OpenLevel> t_levels;

namespace {

Transformed* g_first = nullptr;
Level g_last = 0;

// The list is in the order of `newest`, the latest first.
void put_first(Transformed* x) {
  x->previous = nullptr;
  x->next = g_first;
  if (g_first) g_first->previous = x;
  g_first = x;
  x->newest = g_last;
}

void take_out(Transformed* x) {
  (x->previous ? x->previous->next : g_first) = x->next;
  if (x->next) x->next->previous = x->previous;
}

}  // namespace

Transformed& transformed(TensorObject* t) {
  if (Transformed* x = transformed_of(t)) return *x;
  TensorExtra& extra = extra_of(t);
  auto* x = new Transformed{t};
  put_first(x);
  ++g_transformed;
  extra.transformed = x;
  t->flags |= kTransformed;
  return *x;
}

void touch(Transformed& x) {
  if (x.newest == g_last) return;
  take_out(&x);
  put_first(&x);
}

void drop_transformed(TensorObject* t) noexcept {
  Transformed* x = transformed_of(t);
  if (!x) return;
  t->flags &= static_cast<uint16_t>(~kTransformed);
  t->extra->transformed = nullptr;
  take_out(x);
  --g_transformed;
  delete x;
}

int traverse_transformed(const TensorObject* t, visitproc visit, void* arg) {
  if (const Transformed* x = transformed_of(t)) {
    for (const TangentAt& tangent : x->tangents) Py_VISIT(tangent.value.get());
    Py_VISIT(x->batch.get());
  }
  return 0;
}

Level open_level(OpenLevel what) {
  if (t_levels.size() == kMaxLevels)
    runtime_error("more than ", kMaxLevels, " transforms inside one another");
  what.level = ++g_last;
  t_levels.push_back(what);
  set_mode(kTransforms, true);
  return what.level;
}

void close_level(Level level) {
  if (t_levels.empty() || t_levels.back().level != level) {
    runtime_error(
        "Trying to exit a forward AD level that was not the last one that was created. This is not "
        "supported.");
  }
  t_levels.pop_back();
  if (t_levels.empty()) set_mode(kTransforms, false);
  // Taken out first and dropped afterwards: freeing one tangent may free other tensors of the list.
  Tensors dropped;
  // Those behind had their last tangent before the level began: a level inside a long computation with
  // tangents costs what happened in it.
  for (Transformed *x = g_first, *next; x && x->newest >= level; x = next) {
    next = x->next;
    for (size_t i = 0; i < x->tangents.size(); ++i) {
      if (x->tangents[i].level != level) continue;
      dropped.push_back(std::move(x->tangents[i].value));
      x->tangents.erase(x->tangents.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    if (x->tangents.empty() && !x->batch) drop_transformed(x->owner);
  }
}

}  // namespace adjoint
