// Read profile.h first.
#include "dispatch/profile.h"

#include <chrono>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "tensor/allocator.h"

namespace adjoint {
namespace {

uint64_t now() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

struct KeyHash {
  size_t operator()(const TallyKey& k) const {
    return k.line.hash() * 31 + reinterpret_cast<uintptr_t>(k.name) + 7 * k.backward;
  }
};

// A clock that costs a third of the steady one: its ticks are compared with that one at the end.
uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now();
#endif
}

struct Tallies {
  uint64_t start = now(), first_tick = ticks();
  std::unordered_map<TallyKey, Tally, KeyHash> sums;
  std::unordered_set<std::string> names;  // those that are put together while it runs
};

std::unique_ptr<Profile> g_profile;
std::unique_ptr<Tallies> g_tallies;
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
  if (!g_profile) return -1;
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

void refuse_second() {
  if (!g_profile && !g_tallies) return;
  runtime_error(
      "a profiler is running already: its ranges cannot be told from those of a second one.\n"
      "  fix: end the first one (leave its with block, or call stop()) before the second starts");
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

void start_profile(bool shapes, bool stacks) {
  refuse_second();
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

void start_tally() {
  refuse_second();
  g_tallies = std::make_unique<Tallies>();
  ++g_generation;
  set_mode(kProfiled, true);
}

std::vector<std::pair<TallyKey, Tally>> stop_tally() {
  set_mode(kProfiled, false);
  if (!g_tallies) return {};
  std::unique_ptr<Tallies> done = std::move(g_tallies);
  std::vector<std::pair<TallyKey, Tally>> rows(done->sums.begin(), done->sums.end());
  uint64_t passed = ticks() - done->first_tick;
  double per_tick = static_cast<double>(now() - done->start) / static_cast<double>(passed | 1);
  for (auto& [key, tally] : rows)
    tally.nanoseconds = static_cast<uint64_t>(static_cast<double>(tally.nanoseconds) * per_tick);
  // Names of the table's own memory go with it.
  static std::unordered_set<std::string>* const kept = new std::unordered_set<std::string>;
  for (auto& [key, tally] : rows)
    if (done->names.count(key.name)) key.name = kept->insert(key.name).first->c_str();
  return rows;
}

int begin_profiled(Profiled kind, std::string name) {
  return begin(kind, std::move(name), nullptr, nullptr, 0);
}

void end_profiled(int event) {
  uint64_t end = now();
  ProfiledEvent* e = event_at(event);
  if (!e || e->end) return;
  e->end = end;
  e->memory = allocated() - e->live;
  if (t_events.open == event) t_events.open = e->parent;
}

// The innermost event of a tally, in this thread.
struct TallyThread {
  ProfiledScope::Open* innermost = nullptr;
  int generation = 0;
};
namespace {
thread_local TallyThread t_tally;
}

bool ProfiledScope::open(Profiled kind, const char* name, const SourceLine* line) {
  if (!g_tallies) return false;
  TallyThread& t = t_tally;
  if (t.generation != g_generation) t = {nullptr, g_generation};
  open_.outer = t.innermost;
  open_.key.name = name;
  open_.key.kind = kind;
  open_.key.backward = kind == Profiled::Node || kind == Profiled::Engine ||
                       (open_.outer && open_.outer->key.backward);
  if (line)
    open_.key.line = *line;
  else if (open_.outer)
    open_.key.line = open_.outer->key.line;
  else
    SourceLine::capture(&open_.key.line);
  t.innermost = &open_;
  is_tallied_ = true;
  open_.live = allocated();
  open_.start = ticks();
  return true;
}

void ProfiledScope::close() {
  uint64_t took = ticks() - open_.start;
  TallyThread& t = t_tally;
  if (!g_tallies || t.generation != g_generation || t.innermost != &open_) return;
  t.innermost = open_.outer;
  int64_t grown = allocated() - open_.live;
  if (open_.outer) {
    open_.outer->inner_time += took;
    open_.outer->inner_memory += grown;
  }
  Tally& sum = g_tallies->sums[open_.key];
  sum.count += 1;
  sum.nanoseconds += took - std::min(open_.inner_time, took);
  sum.memory += grown - open_.inner_memory;
}

ProfiledScope::~ProfiledScope() {
  if (is_tallied_)
    close();
  else
    end_profiled(event_);
}

ProfiledScope::ProfiledScope(const Op& op, const Value* args, bool inplace) {
  if (open(Profiled::Op, op.name.c_str(), nullptr)) return;
  event_ = begin(Profiled::Op, text("aten::", op.name, inplace ? "_" : ""), nullptr, args,
                 op.argument_count);
}

ProfiledScope::ProfiledScope(Profiled kind, Node* node) {
  bool is_engine = kind == Profiled::Engine;
  if (open(kind, is_engine ? "handing on" : node->name, &node->line)) return;
  event_ = begin(kind, (is_engine ? "autograd::engine::evaluate_function: " : "") + node_name(node),
                 &node->line, nullptr, 0);
  if (ProfiledEvent* e = event_at(event_)) e->sequence = node->sequence;
}

ProfiledScope::ProfiledScope(Profiled kind, const std::string& name) {
  if (g_tallies && open(kind, g_tallies->names.insert(name).first->c_str(), nullptr)) return;
  event_ = begin_profiled(kind, name);
}

ProfiledScope::ProfiledScope(Profiled kind, std::string name, const SourceLine& line) {
  if (g_tallies && open(kind, g_tallies->names.insert(name).first->c_str(), &line)) return;
  event_ = begin(kind, std::move(name), &line, nullptr, 0);
}

void ProfiledScope::made(const Value& out) {
  ProfiledEvent* e = event_at(event_);
  const TensorObject* t = out.is_tensor() ? out.object() : nullptr;
  if (out.is_tensors() && !out.tensors().empty()) t = out.tensors()[0].get();
  if (e && t && t->grad_fn) e->sequence = t->grad_fn->sequence;
}

}  // namespace adjoint
