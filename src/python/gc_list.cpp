// Finding the ring of tracked objects, and the ring beside it. Read gc_list.h first.
#include "python/gc_list.h"

namespace adjoint::gc {

Link* ring = nullptr;

namespace {

Link* g_youngest = nullptr;
Link g_aside;
int64_t g_back_links = 0;

void empty_aside() { g_aside.next = g_aside.previous = reinterpret_cast<uintptr_t>(&g_aside); }

// 3.14 had another collector first (its lists have marks in `next`), and the old one again from
// 3.14.5 on. One build serves all of them, so the version asked is that of the running Python.
bool has_known_lists() {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return Py_Version < 0x030E0000 || (Py_Version >= 0x030E05F0 && Py_Version < 0x030F0000);
#endif
}

}  // namespace

void find_youngest() {
  empty_aside();
  if (!has_known_lists()) return;
  PyObject* first = PyList_New(0);
  PyObject* second = first ? PyList_New(0) : nullptr;
  if (second) {
    // Two objects made one after the other stand at the end of the ring, before its head.
    Link *a = link_of(first), *b = link_of(second);
    auto* head = reinterpret_cast<Link*>(b->next);
    bool as_known = a->next == reinterpret_cast<uintptr_t>(b) &&
                    (b->previous & ~kCollectorBits) == reinterpret_cast<uintptr_t>(a) && head &&
                    head->previous == reinterpret_cast<uintptr_t>(b);
    if (as_known) {
      g_youngest = head;
      ring = g_back_links ? g_youngest : &g_aside;
    }
  }
  PyErr_Clear();
  Py_XDECREF(first);
  Py_XDECREF(second);
}

void see_everything() {
  auto* first = reinterpret_cast<Link*>(g_aside.next);
  auto* last = reinterpret_cast<Link*>(g_aside.previous);
  if (!g_youngest || first == &g_aside) return;
  auto* before = reinterpret_cast<Link*>(g_youngest->previous);
  before->next = reinterpret_cast<uintptr_t>(first);
  first->previous = (first->previous & kCollectorBits) | reinterpret_cast<uintptr_t>(before);
  last->next = reinterpret_cast<uintptr_t>(g_youngest);
  g_youngest->previous = reinterpret_cast<uintptr_t>(last);
  empty_aside();
}

int64_t back_links() { return g_back_links; }

void BackLink::add() {
  if (g_back_links++ || !g_youngest) return;
  see_everything();
  ring = g_youngest;
}

BackLink* BackLink::patient = nullptr;

void BackLink::set_patiently() {
  if (patient || on_) return set();
  patient = this;
}

void BackLink::remove() {
  if (--g_back_links || !g_youngest) return;
  ring = &g_aside;
}

}  // namespace adjoint::gc
