// The engine: runs nodes, newest first, because only nodes made later send gradients to a node
// (Note [Order of nodes] in graph/node.h): when it runs, its sum is complete. Read run.h first;
// match_edge.h, plan.h and accumulate.cpp hold what a pass needs besides.
#include "engine/engine.h"

#include <chrono>
#include <optional>

#include "dispatch/profile.h"
#include "dispatch/program_recorder.h"
#include "dispatch/reuse.h"
#include "dispatch/strong_zeros.h"
#include "engine/accumulate.h"
#include "engine/run.h"
#include "engine/match_edge.h"
#include "graph/foreign_node.h"
#include "graph/second_backward.h"
#include "python/gil.h"

namespace adjoint {

EngineHooks engine_hooks;
void PassObserver::arrived(Node*, const Tensor*) {}
void PassObserver::ended(Node*, const Tensor*) {}
void (*compiled_backward)(Node* n, Tensor* grads, Tensor* results) = nullptr;
bool g_accumulates_early = false;

namespace {

Run* g_runs = nullptr;  // the newest of all passes under way, in whatever thread
int64_t g_last_id = -1;

thread_local Run* t_current = nullptr;
thread_local int t_depth = 0;

// The pass this thread is in, while it is.
class Entered {
 public:
  explicit Entered(Run* r) : before_(std::exchange(t_current, r)) { ++t_depth; }
  ~Entered() {
    t_current = before_;
    --t_depth;
  }
  Entered(const Entered&) = delete;

 private:
  Run* before_;
};

class NodeReference {
 public:
  explicit NodeReference(Node* n) : n_(n) {}
  ~NodeReference() { Py_DECREF(n_); }
  NodeReference(const NodeReference&) = delete;

 private:
  Node* n_;
};

// What a thread looks for is what it was, after a step of a pass that looked for something else.
class AnomalyKept {
 public:
  AnomalyKept() : before_(t_anomaly) {}
  ~AnomalyKept() { t_anomaly = before_; }
  AnomalyKept(const AnomalyKept&) = delete;

 private:
  Anomaly before_;
};

// Nothing that needs more than: backward, deliver, release.
bool is_plain(const Node* n) { return !n->extra && n->edge_count <= 2 && n->backward; }

}  // namespace

Run::Run(std::span<const Root> roots, const BackwardOptions& options)
    : roots_(roots),
      options_(options),
      restricted_(!options.inputs.empty()),
      keep_graph_(options.keep_graph),
      modes_(t_modes & (kAnomaly | kStrongZeros | kCaptured | kWatched)),
      ordinary_(!restricted_ && !modes_ && !options.observer),
      plain_(!restricted_ && !(modes_ & ~kTallied) && !options.observer),
      tally_(mode_on(kTallied) ? tally_of_thread() : 0),
      anomaly_(t_anomaly),
      level_(t_current ? t_current->level_ + 1 : 1),
      id_(++g_last_id),
      root_was_freed_(!roots.empty() && roots[0].edge.node && roots[0].edge.node->freed_by) {
  SourceLine::capture(&line_);
  next_ = g_runs;
  if (next_) next_->previous_ = this;
  g_runs = this;
}

Run::~Run() {
  if (next_) next_->previous_ = previous_;
  (previous_ ? previous_->next_ : g_runs) = next_;
  if (upcoming_) forget(upcoming_);
  while (Node* n = ready_.pop()) forget(n);  // only after an error, or if the pass is abandoned
  for (Node* n : complete_) Py_DECREF(n);
  for (PyObject* c : callbacks_) Py_DECREF(c);
}

// Drops what was gathered for a node, and the reference to it.
void Run::forget(Node* n) {
  if (n->run == this) {
    n->run = nullptr;
    for (uint32_t k = 0; k < static_cast<uint32_t>(n->output_count); ++k)
      n->pending_of(k) = Tensor();
  }
  Py_DECREF(n);
}

Run* Run::current() { return t_current; }
int Run::depth() { return t_depth; }

// --- gradients on their way ----------------------------------------------------------------------
Tensor& Run::slot_elsewhere(const Edge& e) {
  Tensors& table = elsewhere_[e.node];
  if (table.empty()) {
    table.resize(e.node->output_count);
    Py_INCREF(e.node);
    ready_.push(e.node);
  }
  return table[e.slot];
}

inline Tensor& Run::slot_of(const Edge& e) {
  Node* n = e.node;
  if (n->run != this) {
    if (n->run || (!elsewhere_.empty() && elsewhere_.count(n))) return slot_elsewhere(e);
    n->run = this;
    Py_INCREF(n);
    ready_.push(n);
  }
  return n->pending_of(e.slot);
}

void Run::add(Tensor& sum, Tensor grad) {
  bool ours = !options_.create_graph && sum.unique() && sum.contiguous();
  if (!ours) {
    sum = sum + grad;
  } else if (!add_directly(sum, grad)) {
    // A batched gradient has more elements than the sum has room for.
    sum = grad->flags & kTransformed ? sum + grad : op_inplace<"add">(sum, grad);
  }
}

void Run::deliver(const Edge& e, Tensor grad, const Node* from) {
  if (!e.node) return;
  if (!restricted_) return deliver_now(e, std::move(grad), from);
  if (!plan_.find(e.node)) return;
  deliver_now(e, std::move(grad), from);
  if (!plan_.completes(e.node)) return;
  // Nothing but edges of compiled functions that give no gradient: as if it had not been reached.
  if (e.node->run != this && !elsewhere_.count(e.node)) return;
  Py_INCREF(e.node);
  complete_.push_back(e.node);
}

inline void Run::deliver_now(const Edge& e, Tensor grad, const Node* from) {
  // Without a gradient the node still gets its turn: a custom function may make zeros of it.
  if (!grad) {
    if (!from || from->backward != compiled_backward) slot_of(e);
    return;
  }
  if (!matches_edge(grad, e)) grad = match_edge(std::move(grad), e, from);
  Tensor& sum = slot_of(e);
  if (sum) return add(sum, std::move(grad));
  sum = std::move(grad);
}

// The same for a pass without a plan: most gradients are the only ones of their node, and fit.
inline void Run::hand_on(const Edge& e, Tensor& grad, const Node* from) {
  Node* n = e.node;
  if (!n) return;
  if (!grad || n->run || !elsewhere_.empty() || !matches_edge(grad, e))
    return deliver(e, std::move(grad), from);
  n->run = this;
  Py_INCREF(n);
  ready_.push(n);
  n->pending_of(e.slot) = std::move(grad);
}

inline void Run::take(Node* node, Tensor* grads) {
  if (node->run == this) {
    node->run = nullptr;
    grads[0] = std::move(node->pending);
    for (uint32_t k = 1; k < static_cast<uint32_t>(node->output_count); ++k)
      grads[k] = std::move(node->pending_of(k));
  } else if (auto found = elsewhere_.find(node); found != elsewhere_.end()) {
    std::move(found->second.begin(), found->second.end(), grads);
    elsewhere_.erase(found);
  }
}

// --- running a node ------------------------------------------------------------------------------
void Run::run_tensor_hooks(Node* node, Tensor* grads) {
  TensorObject* v = node->variable;
  // As in PyTorch, without a gradient too: then a hook is called with None.
  if (v && v->extra && v->extra->hooks)
    grads[0] = engine_hooks.tensor_hooks(v->extra->hooks, grads[0]);
  if (!node->extra) return;
  // By index: a hook may add hooks for another output.
  for (size_t i = 0; i < node->extra->tensor_hooks.size(); ++i) {
    auto [slot, dict] = node->extra->tensor_hooks[i];
    grads[slot] = engine_hooks.tensor_hooks(dict, grads[slot]);
  }
  // Last, whenever they were asked for: what a tensor keeps is what its hooks made.
  for (size_t i = 0; i < node->extra->retains.size(); ++i) {
    auto [slot, weak] = node->extra->retains[i];
    if (grads[slot]) engine_hooks.retain(weak, grads[slot]);
  }
}

void Run::run_pre_hooks(Node* node, Tensor* grads) {
  if (node->extra && node->extra->pre_hooks)
    engine_hooks.pre_hooks(node->extra->pre_hooks, grads, node->output_count);
}

void Run::run_post_hooks(Node* node, Tensor* results, Tensor* grads) {
  if (!node->extra || !node->extra->post_hooks) return;
  engine_hooks.post_hooks(node->extra->post_hooks, results, node->edge_count, grads,
                          node->output_count);
}

// Gradients that were asked for. True when the node is to be executed as well. As in PyTorch, the
// tensor's hooks have changed what is captured exactly if the node is not executed.
bool Run::take_out(Node* node, Tensor* grads) {
  const Plan::Part* part = plan_.find(node);
  if (!part->execute && !options_.end_at_inputs) run_tensor_hooks(node, grads);
  capture(node, grads);
  return part->execute;
}

void Run::capture(Node* node, const Tensor* grads) {
  int first = plan_.find(node)->first_capture;
  for (int i = options_.accumulate ? -1 : first; i >= 0; i = plan_.next_capture(i))
    captured_[i] = grads[options_.inputs[i].slot];
}

// Another pass may be in the middle of this node, in another thread or further up the stack.
bool Run::busy_elsewhere(const Node* node) const {
  for (Run* r = g_runs; r; r = r->next_) {
    if (r != this && r->busy_ == node) return true;
  }
  return false;
}

inline void Run::release(Node* node) {
  if (next_ || previous_) {
    if (busy_elsewhere(node)) {
      // For passes to come; the values go with that one, or with the node.
      node->released = true;
      node->freed_by = line_;
      return;
    }
  }
  release_saved(node);
  if (node->released) node->freed_by = line_;
}

// No hooks, one output, at most two edges: what nearly all nodes are.
void Run::run_plain(Node* node) {
  Tensor grad, results[2];
  if (node->run == this) [[likely]] {
    node->run = nullptr;
    grad = std::move(node->pending);
  } else {
    take(node, &grad);
  }
  if (grad || is_function_node(node)) {
    busy_ = node;
    t_grads_unread = node->op && !grad_enabled();
    node->backward(node, &grad, results);
    if (node->extra) [[unlikely]]  // given by somebody that ran inside
      run_post_hooks(node, results, &grad);
    grad = Tensor();  // so that sums can reuse its memory
  }
  int edges = node->edge_count;
  if (edges > 0) hand_on(node->edges[0], results[0], node);
  if (edges > 1) hand_on(node->edges[1], results[1], node);
  busy_ = nullptr;
  if (!keep_graph_) release(node);
}

void Run::run_node(Node* node) {
  if (ordinary_ && is_plain(node)) return run_plain(node);
  if (tallied_) [[unlikely]]
    return run_tallied(node);
  run_other(node);
}

// Whether hooks run at this node: they are the program's, and take as long as they like.
static bool has_hooks(const Node* n) {
  const NodeExtra* e = n->extra;
  if (e && (e->pre_hooks || e->post_hooks || !e->tensor_hooks.empty())) return true;
  return n->variable && n->variable->extra && n->variable->extra->hooks;
}

// The streams of nodes that one profile looks at in turns; null: it looks at all.
static inline const TallyStreamsRef* streams_of(const Node* n) {
  static TallyStreamsRef accumulators;
  if (n->op && !n->extra) [[likely]]
    return &n->op->nodes;
  if (has_hooks(n)) return nullptr;
  return n->op ? &n->op->nodes : n->variable ? &accumulators : nullptr;
}

void Run::run_tallied(Node* node) {
  const TallyStreamsRef* streams = streams_of(node);
  int64_t elements = node->pending ? node->pending.numel() : 0;
  if (!streams || !tally_passes_over(*streams, elements)) [[unlikely]]
    return run_looked_at(node, streams ? &made_tally_stream(*streams, elements) : nullptr);
  if (plain_ && is_plain(node)) return run_plain(node);
  run_other(node);
}

// A pass goes from node to node with kTallied off: it is on in those that are looked at.
[[gnu::noinline]] void Run::run_looked_at(Node* node, TallyStream* stream) {
  TallyOn seen;
  if (plain_ && is_plain(node)) {
    TallyScope scope;
    scope.open(Profiled::Node, node->name, &node->line, stream);
    run_plain(node);
  } else {
    ProfiledScope scope(Profiled::Engine, node, stream);
    run_other(node);
  }
}

void Run::run_other(Node* node) {
  if (plain_ && is_plain(node)) return run_plain(node);
  std::optional<ProfiledScope> timed;
  if (mode_on(kProfiled)) [[unlikely]]  // not modes_: a hook may have ended the profile
    timed.emplace(Profiled::Engine, node);
  if (!(modes_ & kAnomaly)) return run_general(node);
  NodeAnomalyScope scope(node);
  try {
    run_general(node);
  } catch (...) {
    anomaly_hooks.failed(node);
    throw;
  }
}

// A program repeats what the function did; what lies before it is not the function's. False: the
// pass ends here.
bool Run::note_recorded(Node* node, Tensor* grads) {
  if (!adjoint::captured()) return true;
  if (modes_ & kStrongZeros) refuse_recording("strong_zeros() looks at values");
  if (t_recorder->pass(node, !restricted_ || plan_.find(node)->execute)) return true;
  if (restricted_) capture(node, grads);
  return false;
}

void Run::run_general(Node* node) {
  Tensor few[4];
  Tensors many;
  int outputs = node->output_count, edges = node->edge_count;
  if (outputs > 2 || edges > 2) many.resize(outputs + edges);
  Tensor* grads = many.empty() ? few : many.data();
  Tensor* results = grads + (many.empty() ? 2 : outputs);
  take(node, grads);
  if ((modes_ & kCaptured) && !note_recorded(node, grads)) [[unlikely]]
    return;
  if (options_.observer) [[unlikely]]
    options_.observer->arrived(node, grads);
  if (restricted_ && !take_out(node, grads)) {
    if (options_.observer) options_.observer->ended(node, grads);
    return;
  }
  run_tensor_hooks(node, grads);
  run_pre_hooks(node, grads);
  run_fully(node, grads, results);
}

void Run::run_fully(Node* node, Tensor* grads, Tensor* results) {
  std::optional<ProfiledScope> timed;
  if (t_modes & kWatched) [[unlikely]]
    timed.emplace(Profiled::Node, node);
  if (!node->backward) {
    if (node->variable) accumulate_grad(node->variable, grads[0]);
    timed.reset();
    run_post_hooks(node, results, grads);
    if (options_.observer) options_.observer->ended(node, grads);
    return;
  }
  bool any = is_function_node(node);
  for (int k = 0; k < node->output_count; ++k) any |= static_cast<bool>(grads[k]);
  busy_ = node;
  if (any) node->backward(node, grads, results);
  timed.reset();
  if (modes_ & kStrongZeros) keep_zeros(node, grads, results);
  run_post_hooks(node, results, grads);
  if (options_.observer) options_.observer->ran(node, grads, results);
  if (modes_ & kAnomaly) check_backward(node, grads, results);
  for (int k = 0; k < node->output_count; ++k) grads[k] = Tensor();
  for (int i = 0; i < node->edge_count; ++i) deliver(node->edges[i], std::move(results[i]), node);
  busy_ = nullptr;
  if (!keep_graph_) release(node);
}

// Ctrl-C and other threads get their turn.
void Run::pause() {
  {
    WithoutGil others;
  }
  if (engine_hooks.interrupted()) throw PythonError{};
}

// Accumulators that are complete, first come first served, then the newest node. With its first
// gradient an accumulator was put among the others as well.
inline Node* Run::next_node() {
  if (!restricted_) return ready_.pop();
  if (!complete_.empty()) {
    Node* n = complete_.front();
    complete_.pop_front();
    plan_.set_done(n);
    return n;
  }
  Node* n = ready_.pop();
  while (n && plan_.is_done(n)) {
    Py_DECREF(n);
    n = ready_.pop();
  }
  return n;
}

// Note [A turn for others]. A thread that waits for the GIL asks for it after 5 ms without a change
// of hands; only then is it sure to get it. To let go more often would start its patience anew each
// time.
void Run::run_nodes() {
  using Clock = std::chrono::steady_clock;
  // Nodes between two looks. A node of large matrices takes long, so signals are looked at often.
  constexpr uint32_t kSignals = 8, kClock = 64;
  constexpr auto kTurn = std::chrono::milliseconds(6);
  Clock::time_point last = Clock::now();
  for (uint32_t count = 1; Node* node = next_node(); ++count) {
    NodeReference held(node);
    run_node(node);
    if (count % kSignals != 0) continue;
    if (count % kClock == 0 && Clock::now() - last > kTurn) {
      pause();
      last = Clock::now();
    }
    if (engine_hooks.interrupted()) throw PythonError{};
  }
}

// Callbacks may add callbacks.
void Run::run_callbacks() {
  std::optional<TallyOn> seen;
  if (tallied_) seen.emplace();
  for (size_t i = 0; i < callbacks_.size(); ++i) engine_hooks.callback(callbacks_[i]);
}

// On a fresh thread, and in a later step, too, what was switched on where the pass was asked for.
template <class F>
void Run::inside(uint32_t modes, F&& body) {
  Entered entered(this);
  GradMode mode(options_.create_graph);
  ModeGuard quiet(kNoCuts, !options_.create_graph);
  AnomalyKept kept;
  if (modes & kTallied) join_tally(tally_);  // on a fresh thread
  tallied_ = ((t_modes | modes) & kTallied) && tally_of_thread();
  t_modes = (t_modes | modes) & ~kTallied;
  if (modes & kAnomaly) t_anomaly = anomaly_;
  body();
}

void Run::deliver_roots() {
  captured_.resize(options_.inputs.size());
  if (restricted_) plan_.make(roots_, options_);
  for (const Root& r : roots_) deliver(r.edge, r.grad, nullptr);
}

void Run::go() {
  inside(modes_, [&] {
    deliver_roots();
    run_nodes();
    if (!callbacks_.empty()) run_callbacks();
  });
  if (!keep_graph_) note_freed(roots_, line_);
}

// Note [Stepping]. Between two nodes nothing of a pass is on the C stack: what it has gathered is in
// the nodes and in the Run. So a pass that is stepped through (bindings/autograd/stepped_pass.cpp)
// enters and leaves the Run for each node, on the thread of whoever asks for it, instead of waiting
// in a thread of its own; Ctrl-C and exceptions are as in any call, and a pass that nobody goes on
// with is freed like any object. Other passes over the same nodes may run in between, as in hooks.
// A profile that was on at the start may have ended by now: its mode is not carried along.
void Run::start() {
  inside(modes_ & ~kWatched, [&] { deliver_roots(); });
  upcoming_ = next_node();
}

void Run::step() {
  inside(modes_ & ~kWatched, [&] {
    run_node(upcoming_);
    if (engine_hooks.interrupted()) throw PythonError{};
  });
  Py_DECREF(std::exchange(upcoming_, next_node()));
}

void Run::finish() {
  inside(modes_ & ~kWatched, [&] { run_callbacks(); });
  if (!keep_graph_) note_freed(roots_, line_);
}

// Note [Reentrant passes]. A hook or a custom function may run a pass of its own, and so on: each
// level takes some of the C stack and of Python's recursion limit. After a number of levels the
// next pass is handed to a fresh thread, with an empty stack and a recursion count of its own,
// while this one waits. A pass that starts itself over and over would go on until memory is out, so
// there is a level at which it is refused; docs/guides/backward.md names it.
[[noreturn]] static void refuse_level(int level) {
  std::string message = text(
      "backward passes started inside one another are ", level - 1,
      " levels deep: a hook or a Function's backward starts a pass that runs it again, without "
      "end.\n  started here  ",
      SourceLine::here().describe(),
      "\n  fix: let the inner pass run on another graph than the one that is being run "
      "(detach() what it starts from), or remove the hook before it starts the pass");
  PyErr_SetString(PyExc_RecursionError, message.c_str());
  throw PythonError{};
}

// A pass with a plan counts what its leaves await: all leaves are its inputs.
static BackwardOptions with_all_leaves(std::span<const Root> roots, BackwardOptions options) {
  options.all_leaves = true;
  for (Node* n : reachable(roots)) {
    if (!n->backward && n->variable) options.inputs.push_back({n, 0});
  }
  return options;
}

std::vector<Tensor> run_backward(std::span<const Root> roots, const BackwardOptions& options) {
  if (g_accumulates_early && options.accumulate && options.inputs.empty()) {
    BackwardOptions planned = with_all_leaves(roots, options);
    if (!planned.inputs.empty()) return run_backward(roots, planned);
  }
  constexpr int kDeepest = 40, kRefused = 5000;
  Run run(roots, options);
  if (run.level() > kRefused) refuse_level(run.level());
  if (Run::depth() < kDeepest) {
    run.go();
  } else {
    engine_hooks.on_fresh_thread([](void* r) { static_cast<Run*>(r)->go(); }, &run);
  }
  return std::move(run.captured());
}

}  // namespace adjoint
