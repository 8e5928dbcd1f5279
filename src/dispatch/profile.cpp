// Read profile.h first.
#include "dispatch/profile.h"

#include <chrono>
#include <memory>

#include "tensor/allocator.h"

namespace adjoint {
namespace {

uint64_t now() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

std::unique_ptr<Profile> g_profile;
// Rises with each profile: what began in one that is over ends nothing in the next.
int g_generation = 0;
uint64_t g_threads = 0;
constexpr int kWholeStack = 1000;

struct OfThread {
  int open = -1;  // the event under way
  int generation = 0;
  uint64_t number = 0;
};
thread_local OfThread t_events;

int64_t allocated() { return static_cast<int64_t>(memory::detail::state.allocated); }

OfThread& of_thread() {
  OfThread& t = t_events;
  if (t.generation != g_generation) {
    t.open = -1;
    t.generation = g_generation;
  }
  if (t.number == 0) t.number = ++g_threads;
  return t;
}

Value shape_of(const Value& v) {
  if (v.is_tensor()) return Value(Dims(Span{v.object()->shape, v.object()->ndim}));
  if (!v.is_tensors()) return Value(Dims());
  std::vector<Value> each;
  for (const Tensor& t : v.tensors()) each.push_back(t ? Value(Dims(t.shape())) : Value(Dims()));
  return Value(std::move(each));
}

// The clock is read last, so that the event does not hold what it costs to note it.
int begin(Profiled kind, std::string name, const SourceLine* line, const Value* args, int count) {
  if (!g_profile) {  // another thread has ended it, or a hook in a pass that put its modes back
    set_mode(kProfiled, false);
    return -1;
  }
  OfThread& t = of_thread();
  ProfiledEvent e{std::move(name), kind};
  e.thread = t.number;
  e.parent = t.open;
  if (line)
    e.line = *line;
  else
    e.stack = users_stack(g_profile->stacks ? kWholeStack : 1);
  if (g_profile->shapes) {
    std::vector<Value> shapes;
    for (int i = 0; i < count; ++i) shapes.push_back(shape_of(args[i]));
    e.shapes = Value(std::move(shapes));
  }
  t.open = static_cast<int>(g_profile->events.size());
  e.live = allocated();
  g_profile->events.push_back(std::move(e));
  g_profile->events.back().start = now();
  return t.open;
}

ProfiledEvent* event_at(int event) {
  if (event < 0 || !g_profile || t_events.generation != g_generation ||
      static_cast<size_t>(event) >= g_profile->events.size())
    return nullptr;
  return &g_profile->events[static_cast<size_t>(event)];
}

std::string node_name(const Node* n) {
  bool leaf = n->variable || !n->backward;
  return leaf ? text("torch::autograd::", n->name) : std::string(n->name);
}

}  // namespace

void refuse_second_profile() {
  if (!g_profile && !tally_under_way()) return;
  runtime_error(
      "a profiler is running already: its ranges cannot be told from those of a second one.\n"
      "  fix: end the first one (leave its with block, or call stop()) before the second starts");
}

void start_profile(bool shapes, bool stacks) {
  refuse_second_profile();
  g_profile = std::make_unique<Profile>();
  g_profile->shapes = shapes;
  g_profile->stacks = stacks;
  ++g_generation;
  set_mode(kProfiled, true);
}

Profile stop_profile() {
  set_mode(kProfiled, false);
  if (!g_profile) return {};
  std::unique_ptr<Profile> done = std::move(g_profile);
  uint64_t end = now();
  for (ProfiledEvent& e : done->events) {
    if (e.end) continue;  // still under way
    e.end = end;
    e.memory = allocated() - e.live;
  }
  return std::move(*done);
}

bool profile_under_way() { return g_profile != nullptr; }

int begin_profiled(Profiled kind, std::string name) {
  return begin(kind, std::move(name), nullptr, nullptr, 0);
}

void end_profiled(int event) {
  if (event < 0) return;  // a tally's: no clock is read for it here
  uint64_t end = now();
  ProfiledEvent* e = event_at(event);
  if (!e || e->end) return;
  e->end = end;
  e->memory = allocated() - e->live;
  if (t_events.open == event) t_events.open = e->parent;
}

ProfiledScope::~ProfiledScope() { end_profiled(event_); }

ProfiledScope::ProfiledScope(const Op& op, const Value* args, bool inplace) {
  if (mode_on(kTallied)) {
    TallyStream& stream = made_tally_stream(op.calls, tally_elements(op, args));
    tally_.open(Profiled::Op, op.name.c_str(), nullptr, &stream);
    return;
  }
  event_ = begin(Profiled::Op, text("aten::", op.name, inplace ? "_" : ""), nullptr, args,
                 op.argument_count);
}

ProfiledScope::ProfiledScope(Profiled kind, Node* node, TallyStream* stream) {
  bool is_engine = kind == Profiled::Engine;
  if (mode_on(kTallied)) {
    tally_.open(kind, is_engine ? "handing on" : node->name, &node->line, stream);
    return;
  }
  event_ = begin(kind, (is_engine ? "autograd::engine::evaluate_function: " : "") + node_name(node),
                 &node->line, nullptr, 0);
  if (ProfiledEvent* e = event_at(event_)) e->sequence = node->sequence;
}

ProfiledScope::ProfiledScope(Profiled kind, const std::string& name, TallyStream* stream) {
  if (mode_on(kTallied)) {
    tally_.open(kind, name, nullptr, stream);
    return;
  }
  event_ = begin_profiled(kind, name);
}

ProfiledScope::ProfiledScope(Profiled kind, std::string name, const SourceLine& line) {
  if (mode_on(kTallied)) {
    tally_.open(kind, name, &line);
    return;
  }
  event_ = begin(kind, std::move(name), &line, nullptr, 0);
}

void ProfiledScope::made(const Value& out) {
  const TensorObject* t = out.is_tensor() ? out.object() : nullptr;
  if (out.is_tensors() && !out.tensors().empty()) t = out.tensors()[0].get();
  if (!t || !t->grad_fn) return;
  tally_.made(t->grad_fn);
  if (ProfiledEvent* e = event_at(event_)) e->sequence = t->grad_fn->sequence;
}

}  // namespace adjoint
