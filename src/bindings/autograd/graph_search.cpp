// Ways through the graph, for explanations (python/adjoint/graph/_breaks.py): from node to node,
// and on the way the places where histories were cut off (graph/cut.h).
#include <vector>

#include "bindings/python.h"
#include "engine/node_table.h"
#include "graph/cut.h"

namespace adjoint {
namespace {

constexpr char kName[] = "adjoint._seen_nodes";

// Nodes that a search has been to; the caller keeps them alive.
using Seen = NodeTable<char>;

PyObject* new_seen(PyObject*, PyObject*) {
  return PyCapsule_New(new Seen, kName, [](PyObject* o) {
    delete static_cast<Seen*>(PyCapsule_GetPointer(o, kName));
  });
}

bool has_cuts(const Node* n) {
  return (n->extra && !n->extra->cuts.empty()) || (n->variable && n->variable->cut);
}

// _walk(start, target, seen): goes from a node to all those behind it that have not been seen.
// Returns whether the target is one of them, and a list of those that know of cuts, in the order in
// which they were met.
PyObject* walk(PyObject*, PyObject* args) {
  PyObject *start, *target, *capsule;
  if (!PyArg_ParseTuple(args, "OOO:_walk", &start, &target, &capsule)) return nullptr;
  auto* seen = static_cast<Seen*>(PyCapsule_GetPointer(capsule, kName));
  if (!seen) return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_node(start) || !is_node(target)) type_error("_walk(): expected two nodes");
    auto* end = reinterpret_cast<Node*>(target);
    std::vector<Node*> open{reinterpret_cast<Node*>(start)};
    Object cuts = checked(PyList_New(0));
    while (!open.empty()) {
      Node* n = open.back();
      open.pop_back();
      if (!seen->insert(n).second) continue;
      if (n == end) return Py_BuildValue("(OO)", Py_True, cuts.get());
      if (has_cuts(n)) checked(PyList_Append(cuts.get(), checked(to_python(n)).get()));
      for (int i = 0; i < n->edge_count; ++i) {
        Node* next = n->edges[i].node;
        if (next && !seen->find(next)) open.push_back(next);
      }
    }
    return Py_BuildValue("(OO)", Py_False, cuts.get());
  });
}

// _with_cuts(nodes): those of a list that took an operand without history.
PyObject* with_cuts(PyObject*, PyObject* list) {
  return guard([&]() -> PyObject* {
    Object all = checked(PySequence_List(list)), found = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject* o = PyList_GET_ITEM(all.get(), i);
      if (!is_node(o)) type_error("expected a graph node, got ", Py_TYPE(o)->tp_name);
      const NodeExtra* extra = reinterpret_cast<Node*>(o)->extra;
      if (extra && !extra->cuts.empty()) checked(PyList_Append(found.get(), o));
    }
    return found.release();
  });
}

PyMethodDef functions[] = {
    {"_new_seen", new_seen, METH_NOARGS, "An empty set of nodes, for _walk."},
    {"_walk", walk, METH_VARARGS, "Goes from a node to all those behind it that are not seen yet."},
    {"_with_cuts", with_cuts, METH_O, "The nodes among some that took operands without history."},
    {nullptr}};

}  // namespace

void add_graph_search(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
