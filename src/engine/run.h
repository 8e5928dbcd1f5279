// One backward pass.
//
// Gradients gather in the node itself (`pending`), which belongs to one Run at a time. A second
// pass over the same node, started by a hook or by another thread, keeps its gradients in a table
// of its own. All runs are linked, so that one of them can see what another is busy with.
// Everything here happens with the GIL held; it is let go inside kernels, hooks and pause(), and
// then other runs may proceed. Read next: engine.cpp.
#pragma once
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "dispatch/anomaly.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/ready.h"

namespace adjoint {

class Run {
 public:
  Run(std::span<const Root> roots, const BackwardOptions& options);
  ~Run();
  Run(const Run&) = delete;

  void go();
  std::vector<Tensor>& captured() { return captured_; }

  // The same pass, one node at a time (Note [Stepping]): start, step while there is an upcoming
  // node, finish. To drop the Run before that is to abandon the pass.
  void start();
  Node* upcoming() const { return upcoming_; }  // borrowed; null when all have run
  void step();
  void finish();
  // What the pass holds, for Python's garbage collector; and the nodes that wait, newest last.
  int traverse(visitproc visit, void* arg);
  std::vector<Node*> waiting() const;
  // The sum so far of the gradients that arrived for an output; undefined where none has.
  Tensor sum_at(const Edge& e);
  // The same, taken out for the node that runs, which goes on adding to it: its result there is the
  // whole sum. Undefined where somebody looks at what each node gives.
  Tensor take_sum(int edge);

  static Run* current();  // of this thread; null outside a pass
  bool keeps_graph() const { return keep_graph_; }
  static int depth();                   // how many passes of this thread are inside one another
  int level() const { return level_; }  // how many passes are inside one another, over threads
  int64_t id() const { return id_; }
  std::span<const Root> roots() const { return roots_; }
  // Whether an earlier pass that started there freed the graph of the first root.
  bool root_was_freed() const { return root_was_freed_; }
  Node* busy() const { return busy_; }
  bool restricted() const { return restricted_ && !options_.all_leaves; }
  void add_callback(PyObject* callable);
  bool will_execute(Node* node);
  bool wants(Node* node) const;
  std::vector<Node*> execution_order() const;

 private:
  template <class F>
  void inside(uint32_t modes, F&& body);
  Node* next_node();
  void deliver_roots();
  void forget(Node* node);
  void run_nodes();
  void run_node(Node* node);
  void run_tallied(Node* node);
  void run_looked_at(Node* node, TallyStream* stream);
  void run_other(Node* node);
  void run_plain(Node* node);
  void run_general(Node* node);
  bool note_recorded(Node* node, Tensor* grads);
  void run_fully(Node* node, Tensor* grads, Tensor* results);
  void run_tensor_hooks(Node* node, Tensor* grads);
  void run_pre_hooks(Node* node, Tensor* grads);
  void run_post_hooks(Node* node, Tensor* results, Tensor* grads);
  void run_callbacks();
  bool take_out(Node* node, Tensor* grads);
  void capture(Node* node, const Tensor* grads);

  void deliver(const Edge& e, Tensor grad, const Node* from);
  void deliver_now(const Edge& e, Tensor grad, const Node* from);
  void hand_on(const Edge& e, Tensor& grad, const Node* from);
  void add(Tensor& sum, Tensor grad);
  Tensor& slot_of(const Edge& e);
  Tensor& slot_elsewhere(const Edge& e);
  void take(Node* node, Tensor* grads);
  void release(Node* node);
  bool busy_elsewhere(const Node* node) const;
  void pause();

  std::span<const Root> roots_;
  const BackwardOptions& options_;
  const bool restricted_;  // to the paths that lead to options_.inputs
  const bool keep_graph_;
  const uint32_t modes_;  // kAnomaly, kStrongZeros, kCaptured: as when the pass was asked for
  const bool ordinary_;   // nothing of all that, and nobody watches
  const bool plain_;      // nothing of all that but a tally
  const uint32_t tally_;  // that looks at where the pass was asked for; 0: none
  const Anomaly anomaly_;
  std::deque<Node*> complete_;  // accumulators that have all their gradients; owned
  Node* busy_ = nullptr;        // whose backward is running
  bool tallied_ = false;        // whether it still does, in this step
  Node* upcoming_ = nullptr;    // where the pass is stepped through: owned
  Ready ready_;                 // a node is in it exactly while it holds gradients
  std::unordered_map<Node*, Tensors> elsewhere_;  // gradients of nodes that another run holds
  Plan plan_;
  std::vector<Tensor> captured_;
  SourceLine line_;
  const int level_;
  int64_t id_;
  bool root_was_freed_;  // asked at the start: this pass, too, frees as it goes
  std::vector<PyObject*> callbacks_;
  std::unordered_set<Node*> reached_;  // without a plan: made when somebody asks
  Run *next_ = nullptr, *previous_ = nullptr;
};

// A pass from these roots, called at `line`, was completed and freed its graph.
void note_freed(std::span<const Root> roots, const SourceLine& line);

}  // namespace adjoint
