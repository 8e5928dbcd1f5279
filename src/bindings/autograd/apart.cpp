// Calls of code that is no part of the computation around it: externals (python/adjoint/external).
//
// Such a function may use adjoint itself, to solve for something by its gradients, say. What is
// under way outside (levels of vmap and forward mode, no_grad, autocast, hooks on saved values)
// would reach into that: here it is put aside for the length of the call. Anomaly mode, profiles
// and what a program takes down stay: they look at what runs.
#include "bindings/autograd/autograd.h"
#include "graph/hidden_reads.h"
#include "graph/intermediate.h"
#include "graph/transformed.h"

namespace adjoint {
namespace {

constexpr uint32_t kStay = kAnomaly | kCaptured | kNoValues | kWatched | kTalliedWhole | kNoCuts;

thread_local bool t_apart = false;

class Apart {
 public:
  Apart()
      : before_apart_(std::exchange(t_apart, true)),
        modes_(t_modes),
        levels_(std::exchange(t_levels, {})),
        limit_(std::exchange(t_tangent_limit, INT64_MAX)),
        recorded_(std::exchange(t_recorded_function, nullptr)),
        reads_(t_forward_reads) {
    t_modes = modes_ & kStay;
    if (!reads_) return;
    // A tensor of these levels that is read in secret is still told of.
    if (reads_->aside) all_ = *reads_->aside;
    all_.insert(all_.end(), levels_.begin(), levels_.end());
    before_ = std::exchange(reads_->aside, &all_);
  }
  ~Apart() {
    t_apart = before_apart_;
    t_modes = modes_;
    t_levels.swap(levels_);
    t_tangent_limit = limit_;
    t_recorded_function = recorded_;
    if (reads_) reads_->aside = before_;
  }
  Apart(const Apart&) = delete;

 private:
  bool before_apart_;
  uint32_t modes_;
  std::vector<OpenLevel> levels_, all_;
  std::vector<OpenLevel>* before_ = nullptr;
  Level limit_;
  Node* recorded_;
  ForwardReads* reads_;
};

// _call_apart(function, args, kwargs or None)
PyObject* call_apart(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3 || !PyTuple_Check(args[1]) || (args[2] != Py_None && !PyDict_Check(args[2]))) {
    PyErr_SetString(PyExc_TypeError, "_call_apart(function, args, kwargs or None)");
    return nullptr;
  }
  Apart apart;
  return PyObject_Call(args[0], args[1], args[2] == Py_None ? nullptr : args[2]);
}

PyObject* is_apart(PyObject*, PyObject*) { return PyBool_FromLong(t_apart); }

PyMethodDef functions[] = {
    {"_call_apart", reinterpret_cast<PyCFunction>(call_apart), METH_FASTCALL,
     "Calls a function as if nothing were under way around it."},
    {"_is_apart", is_apart, METH_NOARGS, "Whether such a call is under way."},
    {nullptr}};

}  // namespace

void add_apart(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
