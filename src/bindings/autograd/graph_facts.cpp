// What the graph view (python/adjoint/graph) asks of nodes, of one or of all of a graph at once: a
// picture of a million nodes must not take a million small steps in Python. Read next:
// node_type.cpp, what users ask of a node; graph_search.cpp, ways through the graph.
#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "bindings/function/function_node.h"
#include "bindings/python.h"
#include "dispatch/copy_slices.h"
#include "engine/node_table.h"
#include "engine/plan.h"
#include "graph/hidden_reads.h"
#include "python/weak.h"

namespace adjoint {
namespace {

// One block of memory that a node keeps alive: where it starts tells blocks apart.
struct Held {
  const Storage* storage;
  int64_t bytes;  // of the largest tensor saved on it
};

void add_held(std::vector<Held>& held, const TensorObject* t) {
  if (!t->storage) return;
  auto bytes = static_cast<int64_t>(t->numel * item_size(t->dtype));
  auto same = std::find_if(held.begin(), held.end(),
                           [&](const Held& h) { return h.storage == t->storage; });
  if (same == held.end())
    held.push_back({t->storage, bytes});
  else
    same->bytes = std::max(same->bytes, bytes);
}

void add_saved(std::vector<Held>& held, const Node* n);

void add_saved(std::vector<Held>& held, const Value& v) {
  v.each_object([&](PyObject* o) {
    if (!o) return 0;
    if (is_tensor(o)) {
      add_held(held, as_tensor(o));
    } else if (is_node(o)) {  // CopySlices keeps the node of the in-place op
      add_saved(held, reinterpret_cast<Node*>(o));
    }
    return 0;
  });
}

void add_saved(std::vector<Held>& held, const Node* n) {
  for (int i = 0; i < n->saved_count; ++i) add_saved(held, n->saved[i].value);
  add_saved(held, n->output.value);
  add_saved(held, n->kept);
}

Object held_tuple(const Node* n) {
  std::vector<Held> held;
  add_saved(held, n);
  if (held.empty()) return checked(PyTuple_New(0));
  Object t = checked(PyTuple_New(static_cast<Py_ssize_t>(held.size())));
  for (size_t i = 0; i < held.size(); ++i) {
    PyTuple_SET_ITEM(t.get(), i,
                     checked(Py_BuildValue("(KLL)",
                                           static_cast<unsigned long long>(
                                               reinterpret_cast<uintptr_t>(held[i].storage->data)),
                                           static_cast<long long>(held[i].storage->bytes),
                                           static_cast<long long>(held[i].bytes)))
                         .release());
  }
  return t;
}

Object outputs_tuple(const Node* n) {
  if (const TensorObject* v = n->variable) {
    Object size = checked(new_size({v->shape, v->ndim}));
    return checked(Py_BuildValue("((OO))", size.get(), dtype_object(v->dtype)));
  }
  Object t = checked(PyTuple_New(n->output_count));
  for (int k = 0; k < n->output_count; ++k) {
    const Meta& m = n->meta_of(static_cast<uint32_t>(k));
    Object size = checked(new_size(m.shape()));
    PyTuple_SET_ITEM(t.get(), k,
                     checked(Py_BuildValue("(OO)", size.get(), dtype_object(m.dtype))).release());
  }
  return t;
}

Object line_tuple(const SourceLine& line) {
  if (!line) return Object::borrow(Py_None);
  return checked(Py_BuildValue("(si)", line.file().c_str(), line.line()));
}

// The op inside CopySlices is the one the user wrote.
const Op* op_of(const Node* n) {
  if (n->op) return n->op;
  for (int i = 0; i < n->saved_count; ++i) {
    const Value& v = n->saved[i].value;
    if (v.kind() == Value::Object && v.python() && is_node(v.python()))
      return reinterpret_cast<Node*>(v.python())->op;
  }
  return nullptr;
}

// Facts about nodes. What is equal is one object: the nodes of a loop have few lines, names and
// shapes between them.
class Facts {
 public:
  // (name, op or None, outputs, held memory, line or None, freed, line that freed it or None)
  Object of(const Node* n) {
    Common c = common(n);
    Object held = held_tuple(n);
    return checked(PyTuple_Pack(7, c.name, c.op, c.outputs.get(), held.get(), c.line,
                                n->released ? Py_True : Py_False, line(n->freed_by)));
  }
  // The same number for nodes of the same name, op, outputs and line.
  Py_ssize_t kind(const Node* n) {
    Common c = common(n);
    // Of several outputs, too, equal ones become one object.
    PyObject* outputs = PyDict_SetDefault(several_.get(), c.outputs.get(), c.outputs.get());
    if (!outputs) throw PythonError{};
    auto next = static_cast<Py_ssize_t>(kinds_.size());
    return kinds_.try_emplace({c.name, c.op, outputs, c.line}, next).first->second;
  }

 private:
  struct HashLine {
    size_t operator()(const SourceLine& l) const { return l.hash(); }
  };

  struct Common {
    PyObject *name, *op, *line;
    Object outputs;
  };
  Common common(const Node* n) {
    const Op* op = op_of(n);
    return {text(n->name), op ? text(op->name.c_str()) : Py_None, line(n->line), outputs_of(n)};
  }
  PyObject* text(const char* s) {
    Object& known = texts_[s];
    if (!known) known = checked(PyUnicode_FromString(s));
    return known.get();
  }
  PyObject* line(const SourceLine& l) {
    Object& known = lines_[l];
    if (!known) known = line_tuple(l);
    return known.get();
  }
  Object outputs_of(const Node* n) {
    if (n->variable || n->output_count != 1) return outputs_tuple(n);
    Span shape = n->meta.shape();
    std::vector<int64_t> key(shape.begin(), shape.end());
    key.push_back(static_cast<int64_t>(n->meta.dtype));
    Object& known = outputs_[std::move(key)];
    if (!known) known = outputs_tuple(n);
    return known;
  }

  std::unordered_map<const char*, Object> texts_;  // of names and ops, which are never freed
  std::unordered_map<SourceLine, Object, HashLine> lines_;
  std::map<std::vector<int64_t>, Object> outputs_;
  Object several_ = checked(PyDict_New());
  std::map<std::array<PyObject*, 4>, Py_ssize_t> kinds_;
};

PyObject* node_facts(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_node(o)) type_error("expected a graph node, got ", Py_TYPE(o)->tp_name);
    return Facts().of(reinterpret_cast<Node*>(o)).release();
  });
}

// Where gradients of a node go: a tuple of pairs (place in the graph or None, slot).
Object places_of(const Node* n, const NodeTable<Py_ssize_t>& places) {
  Object t = checked(PyTuple_New(n->edge_count));
  for (int i = 0; i < n->edge_count; ++i) {
    const Edge& e = n->edges[i];
    auto slot = static_cast<Py_ssize_t>(e.slot);
    PyObject* pair = e.node ? Py_BuildValue("(nn)", *places.find(e.node), slot)
                            : Py_BuildValue("(On)", Py_None, slot);
    PyTuple_SET_ITEM(t.get(), i, checked(pair).release());
  }
  return t;
}

// The op of a node by its full name, a key of op_table(); None for nodes that no op made.
PyObject* node_op(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_node(o)) type_error("expected a graph node, got ", Py_TYPE(o)->tp_name);
    const Op* op = op_of(reinterpret_cast<Node*>(o));
    return op ? PyUnicode_FromString(op->full_name.c_str()) : Py_NewRef(Py_None);
  });
}

// _graph_facts(nodes): everything behind them, newest first, as four lists: the nodes, their facts,
// where their gradients go (places in the lists), and a number that alike nodes share.
PyObject* graph_facts(PyObject*, PyObject* starts) {
  return guard([&]() -> PyObject* {
    Object given = checked(PySequence_List(starts));
    NodeTable<Py_ssize_t> places;
    std::vector<Node*> nodes;
    auto add = [&](Node* n) {
      if (n && places.insert(n).second) nodes.push_back(n);
    };
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given.get()); ++i) {
      PyObject* o = PyList_GET_ITEM(given.get(), i);
      if (!is_node(o)) type_error("expected a graph node, got ", Py_TYPE(o)->tp_name);
      add(reinterpret_cast<Node*>(o));
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (int k = 0; k < nodes[i]->edge_count; ++k) add(nodes[i]->edges[k].node);
    }
    std::sort(nodes.begin(), nodes.end(),
              [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
    for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i]] = static_cast<Py_ssize_t>(i);
    Facts facts;
    auto count = static_cast<Py_ssize_t>(nodes.size());
    Object all = checked(PyList_New(count)), known = checked(PyList_New(count)),
           edges = checked(PyList_New(count)), kinds = checked(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyList_SET_ITEM(all.get(), i, checked(to_python(nodes[i])).release());
      PyList_SET_ITEM(known.get(), i, facts.of(nodes[i]).release());
      PyList_SET_ITEM(edges.get(), i, places_of(nodes[i], places).release());
      PyList_SET_ITEM(kinds.get(), i, checked(PyLong_FromSsize_t(facts.kind(nodes[i]))).release());
    }
    return PyTuple_Pack(4, all.get(), known.get(), edges.get(), kinds.get());
  });
}

// (reason, op or None, (file, line), node or None): the node is None when it is gone.
Object cut_tuple(const Cut& c) {
  PyObject* node = c.from ? referent(c.from) : nullptr;
  Object n = node ? checked(to_python(reinterpret_cast<Node*>(node))) : Object::borrow(Py_None);
  return checked(
      Py_BuildValue("(szNO)", to_string(c.reason), c.op, line_tuple(c.line).release(), n.get()));
}

// Of a tensor: the cut it carries. Of a node: those of its operands.
PyObject* cut_facts(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    auto add = [&](const Cut& c) { checked(PyList_Append(list.get(), cut_tuple(c).get())); };
    if (is_tensor(o)) {
      if (as_tensor(o)->cut) add(*as_tensor(o)->cut);
    } else if (is_node(o)) {
      NodeExtra* extra = reinterpret_cast<Node*>(o)->extra;
      for (size_t i = 0; extra && i < extra->cuts.size(); ++i)
        add(*extra->cuts[i].second.operator->());
    } else {
      type_error("expected a Tensor or a graph node, got ", Py_TYPE(o)->tp_name);
    }
    return list.release();
  });
}

// Of a CopySlices node: (shape, strides, start, strides of the base, dtype, node of the op that
// made the new value); None of others.
PyObject* window_facts(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    CopiedWindow w;
    if (!is_node(o)) type_error("expected a graph node, got ", Py_TYPE(o)->tp_name);
    if (!copied_window(reinterpret_cast<Node*>(o), &w)) Py_RETURN_NONE;
    Object shape = checked(new_size(w.shape)), strides = checked(new_size(w.strides)),
           base = checked(new_size(w.base_strides));
    return Py_BuildValue("(OOLOON)", shape.get(), strides.get(), static_cast<long long>(w.at),
                         base.get(), dtype_object(w.dtype), to_python(w.inner));
  });
}

constexpr char kTensor[] = "tensor";
constexpr char kParameter[] = "Parameter";

// The value of a tensor without its history, for the constructor `by` that takes it: the cut is
// named after what the user wrote, who wrote no detach().
template <const char* by>
PyObject* copy_source(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Object out = checked(PyObject_CallMethod(o, "detach", nullptr));
    // A tensor without a gradient shares its cut, which has a cause of its own.
    if (is_tensor(out.get()) && needs_grad(as_tensor(o)) && as_tensor(out.get())->cut)
      as_tensor(out.get())->cut->op = by;
    return out.release();
  });
}

// _share_cut(to, from): `to` holds values of `from` that went through another library.
PyObject* share_cut(PyObject*, PyObject* args) {
  PyObject *to, *from;
  if (!PyArg_ParseTuple(args, "OO:_share_cut", &to, &from)) return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_tensor(to) || !is_tensor(from)) type_error("_share_cut(): expected two tensors");
    if (as_tensor(from)->cut) pass_cut(as_tensor(to), as_tensor(from)->cut);
    Py_RETURN_NONE;
  });
}

// _hidden_reads(root, target): what custom functions below `root` have to say about `target`, or
// about what was computed from it, which they read although it is none of their arguments.
PyObject* hidden_reads(PyObject*, PyObject* args) {
  PyObject *root, *target;
  if (!PyArg_ParseTuple(args, "OO:_hidden_reads", &root, &target)) return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_node(root) || !is_node(target)) type_error("_hidden_reads(): expected two nodes");
    Object list = checked(PyList_New(0));
    if (!g_accountable) return list.release();
    auto below = [](PyObject* o) {
      Root from{{reinterpret_cast<Node*>(o), 0}, {}};
      return reachable({&from, 1});
    };
    for (Node* n : below(root)) {
      const ForwardReads* hidden = hidden_of(n);
      for (size_t i = 0; hidden && i < hidden->reads().size(); ++i) {
        const HiddenRead& r = hidden->reads()[i];
        auto* read = reinterpret_cast<PyObject*>(node_of(r));
        if (!read) continue;
        std::vector<Node*> all = below(read);
        if (std::find(all.begin(), all.end(), reinterpret_cast<Node*>(target)) == all.end())
          continue;
        Object words = checked(PyUnicode_FromString(lost_text(n, "gradient", *hidden, r).c_str()));
        checked(PyList_Append(list.get(), words.get()));
      }
    }
    return list.release();
  });
}

PyObject* last_sequence_(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(last_sequence);
}

PyMethodDef functions[] = {
    {"_hidden_reads", hidden_reads, METH_VARARGS, "What functions read in secret of a tensor."},
    {"_share_cut", share_cut, METH_VARARGS, "Gives a tensor the memory of another's lost history."},
    {"_parameter_source", copy_source<kParameter>, METH_O, "detach(), as nn.Parameter() does it."},
    {"_tensor_source", copy_source<kTensor>, METH_O, "detach(), as tensor() does it."},
    {"_cut_facts", cut_facts, METH_O, "Where a tensor, or operands of a node, lost their history."},
    {"_window_facts", window_facts, METH_O, "Which part of its base a CopySlices node replaced."},
    {"_graph_facts", graph_facts, METH_O, "All nodes behind some, newest first, with their facts."},
    {"_node_op", node_op, METH_O, "The full name of the op that made a node, or None."},
    {"_node_facts", node_facts, METH_O, "What a node is, keeps and where it was made."},
    {"_last_sequence", last_sequence_, METH_NOARGS, "The number of the newest node of all."},
    {nullptr}};

}  // namespace

void add_graph_facts(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
