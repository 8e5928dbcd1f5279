// Noting what a custom forward reads. Read hidden.h first.
#include "hidden.h"

namespace adjoint {

thread_local ForwardReads* t_forward_reads = nullptr;

ForwardReads::~ForwardReads() {
  for (HiddenRead& r : reads_) Py_XDECREF(r.node);
}

void ForwardReads::note(TensorObject* t, const char* op) {
  if (stale_view(t)) return;  // its history may be refused; the op that needs it says so
  Edge e = gradient_edge(t);
  if (!e.node) return;
  bool known = e.node->backward && e.node->sequence > function_->sequence;  // made inside
  for (int i = 0; i < function_->edge_count && !known; ++i)
    known = function_->edges[i].node == e.node && function_->edges[i].slot == e.slot;
  PyObject* node = reinterpret_cast<PyObject*>(e.node);
  for (size_t i = 0; i < reads_.size() && !known; ++i)
    known = PyWeakref_GetObject(reads_[i].node) == node && reads_[i].slot == e.slot;
  PyObject* weak = known ? nullptr : PyWeakref_NewRef(node, nullptr);
  Py_DECREF(node);
  if (known) return;
  if (!weak) throw PythonError{};
  reads_.push_back({weak, e.slot, Tensor::borrow(t), op, SourceLine::here(), {}});
}

}  // namespace adjoint
