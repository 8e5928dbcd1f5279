// Tensors that a custom function's forward read although they are not arguments: backward is held to
// account for their gradients. Read graph/hidden_reads.h first.
//
// The result requires grad because of them, whatever the arguments do, as that of an op would. A
// hook on each of them, there while backward runs, sees the passes that backward runs itself; a
// `.grad` that changed tells that it was written by hand. What got neither is lost, and that is an
// error, if the gradient was asked for at all.
#include <unordered_set>

#include "bindings/function/function_node.h"
#include "engine/engine.h"
#include "graph/hidden_reads.h"

namespace adjoint {
namespace {

// Called with a gradient that arrived; `self` is a list that must not stay empty.
PyObject* arrived(PyObject* self, PyObject* grad) {
  if (grad != Py_None && PyList_Append(self, Py_None) < 0) return nullptr;
  Py_RETURN_NONE;
}
PyMethodDef arrived_method = {"arrived", arrived, METH_O, nullptr};

// What messages call each of them ("net.0.weight (argument 'net', float32 [3, 2])"), and what they
// say about all.
void put_into_words(FunctionNode* n, PyObject* args, ForwardReads& all,
                    std::vector<HiddenRead>& reads, bool tangents) {
  Object tensors = checked(PyList_New(static_cast<Py_ssize_t>(reads.size())));
  for (size_t i = 0; i < reads.size(); ++i)
    PyList_SET_ITEM(tensors.get(), static_cast<Py_ssize_t>(i), to_python(reads[i].tensor));
  Object words = checked(PyObject_CallFunctionObjArgs(from_structures("describe_reads"),
                                                      forward_class(n), args, tensors.get(),
                                                      tangents ? Py_True : Py_False, nullptr));
  PyObject* names = PyTuple_GET_ITEM(words.get(), 0);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].tensor)
      reads[i].what = PyUnicode_AsUTF8(PyList_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
  }
  all.cause = PyUnicode_AsUTF8(PyTuple_GET_ITEM(words.get(), 1));
  all.fix = PyUnicode_AsUTF8(PyTuple_GET_ITEM(words.get(), 2));
}

[[noreturn]] void refuse(FunctionNode* n, const char* what, const ForwardReads& all,
                         const HiddenRead& r) {
  runtime_error(lost_text(n, what, all, r));
}

// Whether a node hands gradients on as they are, in another shape or order: an argument such as
// `cat([p.view(-1) for p in params])` stands for what it was put together from.
bool only_moves(const Node* n) { return n->op && n->op->facts.rearranges; }

// Whether an argument is the hidden tensor in another shape, so that backward gave it a gradient.
bool was_given(const FunctionNode* function, const Node* hidden) {
  std::vector<const Node*> open{function};
  std::unordered_set<const Node*> seen;
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    for (int i = 0; i < n->edge_count; ++i) {
      const Node* next = n->edges[i].node;
      if (next == hidden) return true;
      if (next && only_moves(next) && seen.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

PyObject* allow_name() {
  static PyObject* name = interned("allow_hidden_tensors");
  return name;
}

const ForwardReads* reads_of(const Node* n) {
  return is_function_node(n) ? static_cast<const FunctionNode*>(n)->hidden : nullptr;
}

}  // namespace

std::string lost_text(const Node* n, const char* what, const ForwardReads& all,
                      const HiddenRead& r) {
  return text("the ", what, " of ", r.what, " is lost: ", all.cause, ".\n  read here     ",
              r.line.describe(), "          (by `", r.op, "`)\n  called here   ",
              n->line.describe(), "\n  fix: ", all.fix);
}

void keep_hidden(FunctionNode* n, PyObject* args, ForwardReads& reads) {
  if (class_says(n, allow_name())) return;
  put_into_words(n, args, reads, reads.reads(), false);
  // A leaf that forward dropped has nobody to miss its gradient.
  bool missed = false;
  for (HiddenRead& r : reads.reads()) r.tensor = Tensor();
  for (const HiddenRead& r : reads.reads()) missed |= node_of(r) != nullptr;
  if (!missed) return;
  n->executable = true;
  n->hidden = new ForwardReads(n, true, 0);
  n->hidden->reads().swap(reads.reads());
  n->hidden->cause.swap(reads.cause);
  n->hidden->fix.swap(reads.fix);
  hidden_of = reads_of;
  ++g_accountable;
}

void drop_hidden(FunctionNode* n) noexcept {
  delete std::exchange(n->hidden, nullptr);
  --g_accountable;
}

int visit_hidden(FunctionNode* n, visitproc visit, void* arg) {
  for (const HiddenRead& r : n->hidden->reads()) Py_VISIT(r.held);
  return 0;
}

void release_hidden(FunctionNode* n) noexcept { n->hidden->release(); }

// A jvp of its own may see to them, if the class says that something does.
void refuse_hidden_tangents(FunctionNode* n, PyObject* args, ForwardReads& reads) {
  static PyObject* jvp = interned("jvp");
  static PyObject* base_jvp =
      _PyType_Lookup(reinterpret_cast<PyTypeObject*>(from_function_module("Function")), jvp);
  auto* type = reinterpret_cast<PyTypeObject*>(forward_class(n));
  if (class_says(n, allow_name()) && _PyType_Lookup(type, jvp) != base_jvp) return;
  put_into_words(n, args, reads, reads.tangents(), true);
  refuse(n, "tangent", reads, reads.tangents().front());
}

struct HiddenGradientCheck::Place {
  const HiddenRead* read;
  Object node;           // holds it
  Object seen, hooks;    // the list that `arrived` appends to, and the dict with the hook
  Object grad;           // as it was before
  uint32_t version = 0;  // of that

  Node* at() const { return reinterpret_cast<Node*>(node.get()); }
  TensorObject* grad_now() const { return at()->variable ? at()->variable->grad : nullptr; }
  bool delivered() const {
    TensorObject* now = grad_now();
    return PyList_GET_SIZE(seen.get()) > 0 || reinterpret_cast<PyObject*>(now) != grad.get() ||
           (now && now->storage->version != version);
  }
};

HiddenGradientCheck::HiddenGradientCheck(FunctionNode* n) : n_(n) {
  for (const HiddenRead& r : n->hidden->reads()) {
    Node* node = node_of(r);
    if (!node) continue;
    Place p{.read = &r, .node = Object::borrow(reinterpret_cast<PyObject*>(node))};
    p.seen = checked(PyList_New(0));
    p.hooks = checked(PyDict_New());
    Object hook = checked(PyCFunction_New(&arrived_method, p.seen.get()));
    checked(PyDict_SetItem(p.hooks.get(), Py_None, hook.get()));
    if (TensorObject* g = p.grad_now()) {
      p.grad = Object::borrow(reinterpret_cast<PyObject*>(g));
      p.version = g->storage->version;
    }
    extra_of(node).tensor_hooks.emplace_back(r.slot, Object(p.hooks).release());
    places_.push_back(std::move(p));
  }
}

// The newest first. Another thread's pass may be going through the hooks by index: one that is not
// the last is emptied rather than taken out.
HiddenGradientCheck::~HiddenGradientCheck() {
  for (auto p = places_.rbegin(); p != places_.rend(); ++p) {
    PyDict_Clear(p->hooks.get());
    auto& hooks = extra_of(p->at()).tensor_hooks;
    if (hooks.empty() || hooks.back().second != p->hooks.get()) continue;
    hooks.pop_back();
    Py_DECREF(p->hooks.get());
  }
}

void HiddenGradientCheck::check() {
  for (const Place& p : places_) {
    if (p.delivered() || !current_run_wants(p.at()) || was_given(n_, p.at())) continue;
    refuse(n_, "gradient", *n_->hidden, *p.read);
  }
}

}  // namespace adjoint
