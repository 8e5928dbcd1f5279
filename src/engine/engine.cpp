// The engine. Nodes wait in a heap ordered by age; the newest runs first, because only nodes made
// later send gradients to it (Note [Order of nodes] in ../graph/node.h): when it runs, its sum is
// complete.
//
// Gradients gather in the node itself (`pending`), which belongs to one Run at a time. A second
// pass over the same node, started by a hook or by another thread, keeps its gradients in a table
// of its own.
#include "engine.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "../kernels/elementwise.h"
#include "../ops/elementwise_forward.h"
#include "../ops/op.h"
#include "../tensor/gil.h"

namespace adjoint {

EngineHooks engine_hooks;

class Run {
 public:
  explicit Run(const BackwardOptions& o) : options_(o), line_(SourceLine::here()) {}
  ~Run();

  std::vector<Tensor> go(const std::vector<Root>& roots);

 private:
  void deliver(const Edge& e, Tensor grad, const Node* from);
  void add(Tensor& sum, Tensor grad);
  Tensor& slot_of(const Edge& e);
  void take(Node* node, Tensor* grads);
  void run_node(Node* node);
  void run_hooks(Node* node, Tensor* grads);
  void capture(Node* node, const Tensor* grads);
  void find_needed(const std::vector<Root>& roots);
  bool is_needed(Node* n) const { return options_.inputs.empty() || needed_.count(n); }

  const BackwardOptions& options_;
  SourceLine line_;
  std::vector<Node*>
      heap_;  // each with a reference; a node is in it exactly while it holds gradients
  std::unordered_map<Node*, Tensors> elsewhere_;  // gradients of nodes that another run holds
  std::unordered_set<Node*> needed_;
  std::vector<Tensor> captured_;
};

namespace {

bool older(const Node* a, const Node* b) { return a->sequence < b->sequence; }

struct Expected {
  Span shape;
  DType dtype;
};

Expected expected_at(const Edge& e) {
  if (TensorObject* v = e.node->variable) return {{v->shape, v->ndim}, v->dtype};
  const Meta& m = e.node->meta_of(e.slot);
  return {m.shape(), m.dtype};
}

bool fits(const Tensor& g, const Edge& e) {
  Expected m = expected_at(e);
  return g.dtype() == m.dtype && g.shape() == m.shape;
}

// Sums broadcast axes and casts, so that the gradient looks like the value it belongs to.
Tensor fitted(Tensor g, const Edge& e, const Node* from) {
  Expected m = expected_at(e);
  if (is_complex(g.dtype()) && !is_complex(m.dtype)) g = op<"real">(g);
  if (!(g.shape() == m.shape)) {
    int lead = g.ndim() - m.shape.size();
    bool fine = lead >= 0;
    for (int i = 0; fine && i < m.shape.size(); ++i)
      fine = m.shape[i] == g.size(lead + i) || m.shape[i] == 1;
    if (!fine) {
      runtime_error("Function ", from ? from->name : "backward",
                    " returned an invalid gradient - got ", g.shape(),
                    " but expected shape compatible with ", m.shape);
    }
    g = op<"sum_to_size">(g, m.shape);
  }
  if (g.dtype() != m.dtype) g = op<"_to_copy">(g, m.dtype);
  return g;
}

// sum += grad where nobody else sees `sum`: no version to count, nothing to check.
bool add_directly(const Tensor& sum, const Tensor& grad) {
  static const Kernel& kernel = kernel_named("add");
  Loop loop = kernel.loop[static_cast<int>(sum.dtype())];
  if (!loop || is_half(sum.dtype()) || grad.dtype() != sum.dtype() ||
      (grad->flags & (kContiguous | kTransformed)) != kContiguous ||
      !(grad.shape() == sum.shape())) {
    return false;
  }
  char* data[3] = {sum->data, sum->data, grad->data};
  size_t item[3] = {sum.itemsize(), sum.itemsize(), sum.itemsize()};
  WithoutGil release(sum.numel() >= kReleaseGil);
  run_contiguous(loop, item, data, 3, sum.numel());
  return true;
}

}  // namespace

Run::~Run() {
  for (Node* n : heap_) {  // only after an error: forget what was gathered
    if (n->run == this) {
      for (uint32_t k = 0; k < n->output_count; ++k) n->pending_of(k) = Tensor();
      n->run = nullptr;
    }
    Py_DECREF(n);
  }
}

Tensor& Run::slot_of(const Edge& e) {
  Node* n = e.node;
  if (n->run == this) return n->pending_of(e.slot);
  auto found = n->run ? elsewhere_.find(n) : elsewhere_.end();
  if (found != elsewhere_.end()) return found->second[e.slot];
  Py_INCREF(n);
  heap_.push_back(n);
  std::push_heap(heap_.begin(), heap_.end(), older);
  if (n->run) {
    Tensors& table = elsewhere_[n];
    table.resize(n->output_count);
    return table[e.slot];
  }
  n->run = this;
  return n->pending_of(e.slot);
}

void Run::add(Tensor& sum, Tensor grad) {
  if (!sum) {
    sum = std::move(grad);
  } else if (!options_.create_graph && sum.unique() && sum.contiguous()) {
    if (!add_directly(sum, grad)) op_inplace<"add">(sum, std::move(grad));
  } else {
    sum = sum + grad;
  }
}

void Run::deliver(const Edge& e, Tensor grad, const Node* from) {
  if (!e.node || !grad || !is_needed(e.node)) return;
  if (!fits(grad, e)) grad = fitted(std::move(grad), e, from);
  add(slot_of(e), std::move(grad));
}

void Run::take(Node* node, Tensor* grads) {
  if (node->run == this) {
    for (uint32_t k = 0; k < node->output_count; ++k) grads[k] = std::move(node->pending_of(k));
    node->run = nullptr;
  } else if (auto found = elsewhere_.find(node); found != elsewhere_.end()) {
    std::move(found->second.begin(), found->second.end(), grads);
    elsewhere_.erase(found);
  }
}

void Run::run_hooks(Node* node, Tensor* grads) {
  if (TensorObject* v = node->variable) {
    if (v->extra && v->extra->hooks)
      grads[0] = engine_hooks.tensor_hooks(v->extra->hooks, grads[0]);
  }
  if (!node->extra) return;
  for (size_t i = 0; i < node->extra->tensor_hooks.size(); ++i) {
    auto [slot, dict] = node->extra->tensor_hooks[i];
    if (grads[slot]) grads[slot] = engine_hooks.tensor_hooks(dict, grads[slot]);
  }
  if (node->extra->pre_hooks)
    engine_hooks.pre_hooks(node->extra->pre_hooks, grads, node->output_count);
  for (size_t i = 0; i < node->extra->retains.size(); ++i) {
    auto [slot, weak] = node->extra->retains[i];
    if (grads[slot]) engine_hooks.retain(weak, grads[slot]);
  }
}

void Run::capture(Node* node, const Tensor* grads) {
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    const Edge& e = options_.inputs[i];
    if (e.node == node) captured_[i] = grads[e.slot];
  }
}

void Run::run_node(Node* node) {
  Tensor few[4];
  Tensors many(
      node->output_count > 2 || node->edge_count > 2 ? node->output_count + node->edge_count : 0);
  Tensor* grads = many.empty() ? few : many.data();
  Tensor* results = grads + (many.empty() ? 2 : node->output_count);
  take(node, grads);
  run_hooks(node, grads);
  if (!options_.inputs.empty()) capture(node, grads);
  if (!node->backward) {
    if (options_.accumulate && node->variable) accumulate_grad(node->variable, std::move(grads[0]));
    return;
  }
  bool useful = options_.inputs.empty();
  for (int i = 0; i < node->edge_count && !useful; ++i)
    useful = node->edges[i].node && needed_.count(node->edges[i].node);
  if (!useful) return;
  node->backward(node, grads, results);
  if (node->extra && node->extra->post_hooks) {
    engine_hooks.post_hooks(node->extra->post_hooks, results, node->edge_count, grads,
                            node->output_count);
  }
  for (int k = 0; k < node->output_count; ++k)
    grads[k] = Tensor();  // so that sums can reuse their memory
  for (int i = 0; i < node->edge_count; ++i) deliver(node->edges[i], std::move(results[i]), node);
  if (!options_.keep_graph) {
    release_saved(node);
    if (node->released) node->freed_by = line_;
  }
}

// Every node from which one of the inputs can be reached.
void Run::find_needed(const std::vector<Root>& roots) {
  for (const Edge& e : options_.inputs) needed_.insert(e.node);
  std::unordered_set<Node*> seen;
  std::vector<std::pair<Node*, int>> stack;  // depth first, without recursion
  for (const Root& r : roots) {
    if (r.edge.node && seen.insert(r.edge.node).second) stack.push_back({r.edge.node, 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->edge_count) {
        Node* child = node->edges[next++].node;
        if (child && seen.insert(child).second) stack.push_back({child, 0});
        continue;
      }
      for (int i = 0; i < node->edge_count; ++i) {
        if (node->edges[i].node && needed_.count(node->edges[i].node)) needed_.insert(node);
      }
      stack.pop_back();
    }
  }
}

std::vector<Tensor> Run::go(const std::vector<Root>& roots) {
  GradMode mode(options_.create_graph);
  ModeGuard quiet(kNoCuts, !options_.create_graph);
  captured_.resize(options_.inputs.size());
  if (!options_.inputs.empty()) find_needed(roots);
  for (const Root& r : roots) deliver(r.edge, r.grad, nullptr);
  for (uint32_t count = 1; !heap_.empty(); ++count) {
    std::pop_heap(heap_.begin(), heap_.end(), older);
    Node* node = heap_.back();
    heap_.pop_back();
    struct Release {
      Node* n;
      ~Release() { Py_DECREF(n); }
    } release{node};
    run_node(node);
    if (count % 1024 == 0 && engine_hooks.interrupted()) throw PythonError{};
  }
  return std::move(captured_);
}

std::vector<Tensor> run_backward(const std::vector<Root>& roots, const BackwardOptions& options) {
  return Run(options).go(roots);
}

namespace {

// Note [Leaves shared by threads]. Adding a large gradient lets go of the GIL, and another thread's
// pass may reach the same leaf meanwhile: its read, sum and store must not fall in between. One
// lock serves all leaves, since the sum is bound by memory; it is waited for without the GIL, which
// its holder needs to finish. Recursive, because a collection of garbage during the sum may run
// anything.
class AccumulateLock {
 public:
  explicit AccumulateLock(bool wanted) {
    if (!wanted) return;
    lock_ = std::unique_lock(mutex(), std::try_to_lock);
    if (lock_) return;
    WithoutGil release;
    lock_.lock();
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex m;
    return m;
  }
  std::unique_lock<std::recursive_mutex> lock_;
};

void add_to_leaf(TensorObject* leaf, Tensor grad) {
  AccumulateLock lock(grad.numel() >= kReleaseGil);
  Tensor held = Tensor::borrow(leaf->grad);
  Tensor sum;
  if (!held) {
    // Memory that somebody else can see is copied, so that changing one gradient changes no other.
    bool own = grad_enabled() || (grad.unique() && grad.contiguous());
    sum = own ? std::move(grad) : op<"clone">(grad).tensor();
  } else if (grad_enabled()) {
    sum = held + grad;
  } else {
    sum = op_inplace<"add">(held, std::move(grad));
  }
  TensorObject* before = leaf->grad;
  leaf->grad = sum.release();
  Py_XDECREF(before);
}

}  // namespace

void accumulate_grad(TensorObject* leaf, Tensor grad) {
  if (!grad) return;
  add_to_leaf(leaf, std::move(grad));
  if (leaf->extra && leaf->extra->post_accumulate)
    engine_hooks.post_accumulate(leaf->extra->post_accumulate, leaf);
}

}  // namespace adjoint
