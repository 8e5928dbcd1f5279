// Noting what a custom forward reads. Read hidden_reads.h first.
#include "graph/hidden_reads.h"

#include "tensor/error.h"

namespace adjoint {

thread_local ForwardReads* t_forward_reads = nullptr;
const ForwardReads* (*hidden_of)(const Node*) = nullptr;
int64_t g_accountable = 0;

void ForwardReads::release() noexcept {
  for (HiddenRead& r : reads_) {
    released_ |= r.held != nullptr;
    Py_CLEAR(r.held);
  }
}

void ForwardReads::forget() {
  release();
  for (HiddenRead& r : reads_) Py_XDECREF(r.node);
  reads_.clear();
}

ForwardReads::~ForwardReads() { forget(); }

bool ForwardReads::is_inside(const Node* n) const {
  return n->backward && n->sequence > function_->sequence;
}

bool ForwardReads::is_mine(const Edge& e) const {
  if (e.node->variable && known_ && known_->own.count(e.node->variable)) return true;
  for (int i = 0; i < function_->edge_count; ++i) {
    if (function_->edges[i].node == e.node && function_->edges[i].slot == e.slot) return true;
  }
  return false;
}

bool ForwardReads::add(const Edge& e, TensorObject* t, const char* op, const SourceLine& line) {
  if (is_mine(e)) return false;
  PyObject* node = reinterpret_cast<PyObject*>(e.node);
  for (const HiddenRead& r : reads_) {
    if (referent(r.node) == node && r.slot == e.slot) return true;
  }
  PyObject* weak = PyWeakref_NewRef(node, nullptr);
  if (!weak) throw PythonError{};
  std::string what;
  if (!t) {
    const Meta& m = e.node->meta_of(e.slot);
    what = text("a tensor (", m.dtype, " ", m.shape(), ")");
  }
  Node* held = e.node->backward ? e.node : nullptr;
  Py_XINCREF(held);
  reads_.push_back({weak, held, static_cast<uint32_t>(e.slot), t ? Tensor::borrow(t) : Tensor(), op,
                    line, std::move(what)});
  return true;
}

// What the graph that forward recorded from `root` on depends on.
bool ForwardReads::note_graph(Node* root) {
  auto& inside = known().inside;
  if (auto known = inside.find(root->sequence); known != inside.end()) return known->second;
  bool hidden = false;
  std::vector<Node*> open{root};
  std::unordered_set<uint64_t> seen{root->sequence};
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    for (int i = 0; i < n->edge_count; ++i) {
      const Edge& e = n->edges[i];
      if (!e.node) continue;
      if (!is_inside(e.node)) {
        hidden |= add(e, e.node->variable, n->op ? n->name : "a custom function", n->line);
      } else if (seen.insert(e.node->sequence).second) {
        auto known = inside.find(e.node->sequence);
        if (known == inside.end())
          open.push_back(e.node);
        else
          hidden |= known->second;
      }
    }
  }
  inside[root->sequence] = hidden;
  if (!hidden) {
    for (uint64_t n : seen) inside[n] = false;
  }
  return hidden;
}

namespace {

// The history of a stale view may be refused; the op that needs it says so.
struct HeldEdge {
  Edge e;
  explicit HeldEdge(TensorObject* t) : e(stale_view(t) ? Edge{} : gradient_edge(t)) {}
  ~HeldEdge() { Py_XDECREF(e.node); }
  HeldEdge(const HeldEdge&) = delete;
};

}  // namespace

bool ForwardReads::note(TensorObject* t, const char* op) {
  if (!recording_) return false;
  HeldEdge held(t);
  if (!held.e.node) return false;
  if (is_inside(held.e.node)) return note_graph(held.e.node);
  return add(held.e, t, op, SourceLine::here());
}

bool ForwardReads::note_detached(TensorObject* t) {
  if (!recording_) return false;
  HeldEdge held(t);
  if (!held.e.node) return false;
  if (is_inside(held.e.node)) return note_graph(held.e.node);
  if (known_ && known_->watched.count(t)) add(held.e, t, "detach", SourceLine::here());
  return false;
}

void ForwardReads::note_tangent(TensorObject* t, const char* op) {
  if (known().given.count(t->storage)) return;
  for (const HiddenRead& r : tangents_) {
    if (r.tensor.get() == t) return;
  }
  tangents_.push_back({nullptr, nullptr, 0, Tensor::borrow(t), op, SourceLine::here(), {}});
}

// One with a history of its own was recorded inside, and what that depends on was noted; one
// without a cut came from outside (an array of NumPy's), where nothing is known.
bool ForwardReads::reach(const TensorObject* output, bool is_input) const {
  if (everywhere_) return true;
  return !is_input && (needs_grad(output) || !output->cut || output->cut->hidden);
}

}  // namespace adjoint
