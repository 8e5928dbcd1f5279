// Finding the ring of tracked objects. Read gc_list.h first.
#include "gc_list.h"

namespace adjoint::gc {

Link* youngest = nullptr;

void find_youngest() {
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
  PyObject* first = PyList_New(0);
  PyObject* second = first ? PyList_New(0) : nullptr;
  if (second) {
    // Two objects made one after the other stand at the end of the ring, before its head.
    Link *a = link_of(first), *b = link_of(second);
    auto* head = reinterpret_cast<Link*>(b->next);
    bool as_known = a->next == reinterpret_cast<uintptr_t>(b) &&
                    (b->previous & ~kCollectorBits) == reinterpret_cast<uintptr_t>(a) && head &&
                    head->previous == reinterpret_cast<uintptr_t>(b);
    if (as_known) youngest = head;
  }
  PyErr_Clear();
  Py_XDECREF(first);
  Py_XDECREF(second);
#endif
}

}  // namespace adjoint::gc
