// Making, traversing and freeing nodes. Read node.h first.
#include "graph/node.h"

#include "graph/accumulator.h"
#include "graph/foreign_node.h"
#include "graph/fresh_node.h"
#include "tensor/zero.h"

namespace adjoint {

PyTypeObject* node_type = nullptr;
uint64_t last_sequence = 0;
BackwardFn function_backward = nullptr;
void (*free_function_node)(Node* n) noexcept = nullptr;
constinit ObjectPool node_pool(sizeof(Node));

namespace {

void free_extra(NodeExtra* extra) {
  for (Meta& m : extra->more_meta) m.clear();
  for (auto& h : extra->tensor_hooks) Py_XDECREF(h.second);
  for (auto& r : extra->retains) Py_XDECREF(r.second);
  Py_XDECREF(extra->pre_hooks);
  Py_XDECREF(extra->post_hooks);
  delete extra;
}

// The dead, waiting to be taken apart. One list and one loop instead of recursion, so that a chain
// of a million nodes is freed on a small stack. Guarded by the GIL.
std::vector<Node*> g_dead;
bool g_reaping = false;

// Lists, strings and objects, which few nodes keep: out of line, so that the rest needs no stack.
[[gnu::noinline]] void reset_rare(Value& v) noexcept { v.reset(); }

[[gnu::always_inline]] inline void drop_value(Value& v) noexcept {
  if (v.is_tensor()) {
    TensorObject* t = v.release_object();
    Py_DECREF(t);
  } else if (v.kind() >= Value::String) [[unlikely]] {
    reset_rare(v);
  } else {
    v.forget();
  }
}

[[gnu::always_inline]] inline void drop_edges_and_saved(Node* n) noexcept {
  for (Edge *e = n->edges, *end = e + n->edge_count; e != end; ++e) {
    Node* next = std::exchange(e->node, nullptr);
    Py_XDECREF(next);
  }
  for (Saved *s = n->saved, *end = s + n->saved_count; s != end; ++s) drop_value(s->value);
  drop_value(n->output.value);
  drop_value(n->kept);
}

// What most nodes have none of.
[[gnu::noinline]] void drop_rare(Node* n) noexcept {
  if (n->weakrefs) {
    PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(n));
    n->weakrefs = nullptr;
  }
  if (n->dict || n->extra || n->variable || n->pending) clear_node(n);
  if (n->edges != n->inline_edges || n->saved != n->inline_saved) {
    drop_edges_and_saved(n);
    if (n->edges != n->inline_edges) delete[] n->edges;
    if (n->saved != n->inline_saved) delete[] n->saved;
    n->edge_count = n->saved_count = 0;
  }
  n->meta.clear();
}

// A node that Python has given a class is a plain one again. True for custom functions: they are gone.
[[gnu::noinline]] bool free_memory(Node* n) noexcept {
  gc::forget_ring(n);
  if (is_function_node(n) && n->backward) {
    free_function_node(n);
    return true;
  }
  Py_DECREF(Py_TYPE(n));
  Py_SET_TYPE(n, node_type);
  return false;
}

void take_apart(Node* n) noexcept {
  gc::leave_ring(n);
  auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  bool outside = n->edges != n->inline_edges || n->saved != n->inline_saved;
  if (bits(n->weakrefs) | bits(n->dict) | bits(n->extra) | bits(n->variable) |
      bits(n->pending.get()) | bits(n->meta.heap) | outside)
    drop_rare(n);
  drop_edges_and_saved(n);
  n->line.clear();
  n->freed_by.clear();
  if (Py_TYPE(n) != node_type && free_memory(n)) [[unlikely]]
    return;
  n->variable = nullptr;
  n->run = nullptr;
  node_pool.put(reinterpret_cast<PyObject*>(n));
}

}  // namespace

Node* new_node(const char* name, BackwardFn backward, int edges, int saved) {
  Node* n = fresh_node(nullptr, name, backward, edges, saved);
  n->sequence = ++last_sequence;
  n->meta.ndim = 0;
  n->meta.dtype = DType{};
  for (Saved& s : n->inline_saved) s.version = 0;
  return n;
}

void init_foreign_node(Node* n, const char* name, BackwardFn backward, int edges) {
  n->name = name;
  n->backward = backward;
  n->sequence = ++last_sequence;
  n->edge_count = edges;
  n->output_count = 1;
  SourceLine::capture(&n->line);
  n->edges = edges <= kInlineEdges ? n->inline_edges : new Edge[edges];
  n->saved = n->inline_saved;
}

void make_room_for_saved(Node* n, int saved) {
  n->saved = saved <= kInlineSaved ? n->inline_saved : new Saved[saved];
  n->saved_count = saved;
}

NodeExtra& extra_of(Node* n) {
  if (!n->extra) n->extra = new NodeExtra;
  return *n->extra;
}

int traverse_node(Node* n, visitproc visit, void* arg) {
  auto value = [&](const Value& v) {
    return v.sole_owner() ? v.each_object([&](PyObject* o) { return o ? visit(o, arg) : 0; }) : 0;
  };
  Py_VISIT(n->dict);
  if (n->owns_variable) Py_VISIT(n->variable);
  for (int i = 0; i < n->edge_count; ++i) Py_VISIT(n->edges[i].node);
  for (int i = 0; i < n->saved_count; ++i) {
    if (int r = value(n->saved[i].value)) return r;
  }
  if (int r = value(n->output.value)) return r;
  if (int r = value(n->kept)) return r;
  Py_VISIT(n->pending.get());
  if (n->extra) {
    for (Tensor& t : n->extra->more_pending) Py_VISIT(t.get());
    for (auto& h : n->extra->tensor_hooks) Py_VISIT(h.second);
    for (auto& h : n->extra->retains) Py_VISIT(h.second);
    Py_VISIT(n->extra->pre_hooks);
    Py_VISIT(n->extra->post_hooks);
  }
  return 0;
}

void clear_node(Node* n) noexcept {
  Py_CLEAR(n->dict);
  if (n->owns_variable) {
    n->owns_variable = false;
    TensorObject* v = std::exchange(n->variable, nullptr);
    if (v->accumulator == n) v->accumulator = nullptr;
    Py_DECREF(v);
  }
  drop_edges_and_saved(n);
  n->released = true;
  n->pending = Tensor();
  if (NodeExtra* extra = std::exchange(n->extra, nullptr)) free_extra(extra);
}

void destroy_node(Node* n) noexcept {
  if (g_reaping) {
    g_dead.push_back(n);
    return;
  }
  g_reaping = true;
  take_apart(n);
  while (!g_dead.empty()) {
    Node* next = g_dead.back();
    g_dead.pop_back();
    take_apart(next);
  }
  g_reaping = false;
}

void release_saved(Node* n) noexcept {
  auto release = [n](Value& v) {
    if (v.kind() < Value::Tensor_) return;  // numbers, shapes and names cost nothing to keep
    if (v.kind() == Value::List && !v.each_object([](PyObject*) { return 1; })) return;
    v.reset();
    n->released = true;
  };
  for (int i = 0; i < n->saved_count; ++i) release(n->saved[i].value);
  release(n->output.value);
  release(n->kept);
}

Node* accumulator_of(TensorObject* t) {
  if (Node* n = t->accumulator) {
    // No graph uses it yet: it takes its place in the order with the first node that does, so that
    // the gradient is added as soon as it is complete.
    if (Py_REFCNT(n) == 1) n->sequence = ++last_sequence;
    Py_INCREF(n);
    return n;
  }
  Node* n = new_node("AccumulateGrad", nullptr, 0, 0);
  gc::forget_finalized(t);  // see finalize in bindings/tensor/tensor_type.cpp
  n->variable = t;
  t->accumulator = n;
  Py_INCREF(n);
  return n;
}

bool disown_accumulator(TensorObject* t) {
  Node* n = t->accumulator;
  if (!n || n->owns_variable || Py_REFCNT(n) == 1) return false;
  n->owns_variable = true;
  t->flags |= kHeld;
  Py_INCREF(t);
  Py_DECREF(n);
  return true;
}

void drop_accumulator(TensorObject* t) noexcept {
  Node* n = std::exchange(t->accumulator, nullptr);
  if (!n) return;
  bool owned = !n->owns_variable;
  n->variable = nullptr;
  n->owns_variable = false;
  if (owned) {
    Py_DECREF(n);
  } else {
    Py_DECREF(t);  // the collector clears a cycle, and holds `t` while it does
  }
}

void renew_accumulator(TensorObject* t) {
  Node* n = std::exchange(t->accumulator, nullptr);
  if (!n || n->owns_variable) return;  // in that case it keeps `t` already
  if (Py_REFCNT(n) > 1) {
    n->owns_variable = true;
    t->flags |= kHeld;
    Py_INCREF(t);
  } else {
    n->variable = nullptr;
  }
  Py_DECREF(n);
}

Edge make_gradient_edge(TensorObject* t) {
  if (!needs_grad(t)) return {};
  if (stale_view(t)) refresh_view_history(t);
  if (!t->grad_fn) return {accumulator_of(t), 0};
  Py_INCREF(t->grad_fn);
  return {t->grad_fn, t->output_nr};
}

}  // namespace adjoint
