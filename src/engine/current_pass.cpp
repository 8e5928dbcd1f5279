// Questions about the pass under way in this thread. Read run.h first.
#include <algorithm>

#include "engine/run.h"

namespace adjoint {
namespace {

Run& current(const char* what) {
  Run* r = Run::current();
  if (!r) runtime_error(what);
  return *r;
}

}  // namespace

void Run::add_callback(PyObject* callable) {
  Py_INCREF(callable);
  callbacks_.push_back(callable);
}

bool Run::will_execute(Node* node) {
  if (restricted_) {
    const Plan::Part* part = plan_.find(node);
    // As PyTorch: for grad(), the accumulator of a leaf is neither executed nor unreached.
    if (part && !part->execute && node->variable) {
      runtime_error(
          "A leaf node was passed to _will_engine_execute_node but we are currently running "
          "autograd.grad(). This is currently not supported.");
    }
    return part && part->execute;
  }
  if (reached_.empty()) {
    std::vector<Node*> all = reachable(roots_);
    reached_.insert(all.begin(), all.end());
  }
  return reached_.count(node);
}

bool Run::wants(Node* node) const {
  if (!restricted_) return true;
  Root root{{node, 0}, {}};
  for (Node* n : reachable({&root, 1})) {
    for (const Edge& e : options_.inputs) {
      if (e.node == n) return true;
    }
  }
  return false;
}

std::vector<Node*> Run::execution_order() const {
  std::vector<Node*> all = reachable(roots_);
  if (restricted_) std::erase_if(all, [&](Node* n) { return !plan_.find(n); });
  std::sort(all.begin(), all.end(), [](Node* a, Node* b) { return older(b, a); });
  return all;
}

std::vector<Node*> Run::waiting() const {
  std::vector<Node*> nodes = ready_.all();
  nodes.insert(nodes.end(), complete_.begin(), complete_.end());
  if (upcoming_) nodes.push_back(upcoming_);
  std::sort(nodes.begin(), nodes.end(), older);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::erase_if(nodes, [&](Node* n) { return restricted_ && n != upcoming_ && plan_.is_done(n); });
  return nodes;
}

Tensor Run::sum_at(const Edge& e) {
  if (e.node->run == this) return e.node->pending_of(static_cast<uint32_t>(e.slot));
  auto found = elsewhere_.find(e.node);
  return found == elsewhere_.end() ? Tensor() : found->second[e.slot];
}

Tensor Run::take_sum(int edge) {
  Node* n = busy_;
  if (!n || edge < 0 || edge >= n->edge_count || !n->edges[edge].node) return {};
  if ((modes_ & (kAnomaly | kStrongZeros)) || options_.observer ||
      (n->extra && n->extra->post_hooks))
    return {};
  Edge e = n->edges[edge];
  Tensor sum = sum_at(e);
  if (!sum || (sum->flags & kTransformed)) return {};
  (e.node->run == this ? e.node->pending_of(static_cast<uint32_t>(e.slot))
                       : elsewhere_[e.node][e.slot]) = Tensor();
  return sum;
}

int Run::traverse(visitproc visit, void* arg) {
  for (Node* n : ready_.all()) Py_VISIT(n);
  for (Node* n : complete_) Py_VISIT(n);
  Py_VISIT(upcoming_);
  for (PyObject* c : callbacks_) Py_VISIT(c);
  for (Tensor& t : captured_) Py_VISIT(t.get());
  for (auto& [node, table] : elsewhere_) {
    for (Tensor& t : table) Py_VISIT(t.get());
  }
  return 0;
}

int64_t current_run_id() { return Run::current() ? Run::current()->id() : -1; }

Tensor take_sum_of_current(int edge) {
  return Run::current() ? Run::current()->take_sum(edge) : Tensor();
}
Node* current_node() { return Run::current() ? Run::current()->busy() : nullptr; }
bool current_run_keeps_graph() { return Run::current() && Run::current()->keeps_graph(); }
bool current_run_wants(Node* node) { return !Run::current() || Run::current()->wants(node); }
bool current_run_restricted() { return Run::current() && Run::current()->restricted(); }

void queue_callback(PyObject* callable) {
  current("Final callbacks can only be installed during backward pass.").add_callback(callable);
}

bool will_execute(Node* node) {
  return current(
             "_get_should_execute_nodes/_will_engine_execute_node should only be called during the "
             "backward pass")
      .will_execute(node);
}

std::vector<Node*> execution_order() {
  return current(
             "_current_graph_task_execution_order should only be called during the backward pass")
      .execution_order();
}

}  // namespace adjoint
