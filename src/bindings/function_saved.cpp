// What save_for_backward keeps, and how it comes back. Read function_node.h first.
//
// An input is kept as it is. An output is kept as a second header without history, since the output
// itself holds this node: it gets its history back when it is read. What is neither is kept as it
// is.
#include "function_node.h"

namespace adjoint {
namespace {

[[noreturn]] void freed(FunctionNode* n) {
  runtime_error(
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already been freed). Saved intermediate values of the graph are freed when you "
      "call .backward() or autograd.grad().\n"
      "  the node      ",
      n->name, " made at ", n->line.describe(), "\n  freed here    ",
      n->cleared ? "by ctx.maybe_clear_saved_tensors()" : n->freed_by.describe(),
      "\n"
      "  fix: Specify retain_graph=True there if you need to backward through the graph a second "
      "time");
}

[[noreturn]] void changed(FunctionNode* n, int i, const Tensor& t, uint32_t version) {
  runtime_error(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: tensor ",
      i, " saved by ", function_name(n),
      " was changed in place.\n"
      "  saved here    ",
      n->line.describe(), "          (", t.dtype(), " ", t.shape(), ", version ", version,
      ")\n"
      "  changed here  ",
      t->storage->changed.describe(), "          (now version ", t.version(),
      ")\n"
      "  fix: use the out-of-place form of the second line, or save a copy with .clone() before "
      "it");
}

// `t` with the history it had as an input.
Tensor with_edge(const Tensor& t, const Edge& e) {
  bool same =
      t->grad_fn ? t->grad_fn == e.node && t->output_nr == e.slot : t->accumulator == e.node;
  if (same || !e.node || !e.node->backward) return t;
  Tensor a = alias(t);
  set_history(a, e.node, e.slot);
  return a;
}

SavedRole role_of(FunctionNode* n, PyObject* t, PyObject* const* inputs, PyObject* const* outputs) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n->input_count; ++i) {
    if (n->inputs()[i] == kPlainInput) continue;
    if (inputs[i] == t) {
      bool is_output = false;  // changed in place: it is the new value that is kept
      for (int o = 0; o < n->output_count; ++o) is_output |= outputs[o] == t;
      if (!is_output) return {SavedRole::Input, n->edge_of(k)};
    }
    ++k;
  }
  for (int o = 0; o < n->output_count; ++o) {
    if (outputs[o] == t && n->outputs()[o] == kGradOutput)
      return {SavedRole::Output, static_cast<uint32_t>(o)};
  }
  return {};
}

}  // namespace

void keep_saved(FunctionNode* n, PyObject* const* inputs, PyObject* const* outputs) {
  Object list = Object::steal(std::exchange(n->to_save, nullptr));
  if (!list) return;
  int count = static_cast<int>(PyTuple_GET_SIZE(list.get()));
  if (count > UINT16_MAX) runtime_error("save_for_backward: ", count, " tensors are too many");
  make_room_for_saved(n, count);
  if (count > kInlineSaved) n->roles = new SavedRole[count];
  for (int i = 0; i < count; ++i) {
    PyObject* o = PyTuple_GET_ITEM(list.get(), i);
    if (o == Py_None) continue;
    n->roles[i] = role_of(n, o, inputs, outputs);
    Tensor t = Tensor::borrow(as_tensor(o));
    n->saved[i] = save(Value(n->roles[i].kind == SavedRole::Output ? alias(t) : t));
  }
}

PyObject* saved_tensors(FunctionNode* n) {
  if (n->released) freed(n);
  Object result = checked(PyTuple_New(n->saved_count));
  for (int i = 0; i < n->saved_count; ++i) {
    Tensor t = n->saved[i].value.tensor();
    if (t && t.version() != n->saved[i].version) changed(n, i, t, n->saved[i].version);
    SavedRole role = n->roles[i];
    if (t && role.kind == SavedRole::Input) {
      t = with_edge(t, n->edges[role.index]);
    } else if (t && role.kind == SavedRole::Output) {
      t = alias(t);
      set_history(t, n, role.index);
    }
    PyTuple_SET_ITEM(result.get(), i, to_python(t));
  }
  return result.release();
}

}  // namespace adjoint
