// Noting what a custom forward reads. Read hidden.h first.
#include "hidden.h"

namespace adjoint {

thread_local ForwardReads* t_forward_reads = nullptr;

void ForwardReads::forget() {
  for (HiddenRead& r : reads_) Py_XDECREF(r.node);
  reads_.clear();
}

ForwardReads::~ForwardReads() { forget(); }

bool ForwardReads::note(TensorObject* t, const char* op) {
  if (stale_view(t)) return false;  // its history may be refused; the op that needs it says so
  Edge e = gradient_edge(t);
  if (!e.node) return false;
  bool mine = e.node->backward && e.node->sequence > function_->sequence;  // made inside
  for (int i = 0; i < function_->edge_count && !mine; ++i)
    mine = function_->edges[i].node == e.node && function_->edges[i].slot == e.slot;
  PyObject* node = reinterpret_cast<PyObject*>(e.node);
  bool known = mine;
  for (size_t i = 0; i < reads_.size() && !known; ++i)
    known = PyWeakref_GetObject(reads_[i].node) == node && reads_[i].slot == e.slot;
  PyObject* weak = known ? nullptr : PyWeakref_NewRef(node, nullptr);
  Py_DECREF(node);
  if (known) return !mine;
  if (!weak) throw PythonError{};
  reads_.push_back(
      {weak, static_cast<uint32_t>(e.slot), Tensor::borrow(t), op, SourceLine::here(), {}});
  return true;
}

// One with a history of its own was recorded inside, where nothing is noted; one without a cut came
// from outside (an array of NumPy's), where nothing is known.
bool ForwardReads::reach(const TensorObject* output, bool is_input) const {
  if (everywhere_) return true;
  return !is_input && (needs_grad(output) || !output->cut || output->cut->hidden);
}

}  // namespace adjoint
