// Histories of the outputs of custom functions. Read function_outputs.h first.
//
// An input that is returned becomes a view of itself, since it cannot have two histories; one that
// was changed in place is rebased as by an in-place op.
#include "bindings/function/function_outputs.h"

#include <algorithm>

#include "dispatch/view.h"
#include "graph/retained_grad.h"
#include "graph/cut.h"

namespace adjoint {

bool is_among(PyObject* tuple, PyObject* o) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  }
  return false;
}
bool is_among(Arguments a, PyObject* o) {
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    if (a.items[i] == o) return true;
  }
  return false;
}

namespace {

Object view_of_itself(PyObject* o) {
  if (Py_TYPE(o) != tensor_type) return checked(PyObject_CallMethod(o, "view_as", "O", o));
  Tensor t = Tensor::borrow(as_tensor(o));
  return checked(to_python(make_view(t, t.shape(), t.strides(), t.offset())));
}

}  // namespace

void Outputs::set_without_history(Object& item, bool is_input, bool changed) {
  TensorObject* t = as_tensor(item.get());
  if (!needs_grad(t)) {
    if (is_input && !changed) {
      item = view_of_itself(item.get());
      if (t->cut) pass_cut(as_tensor(item.get()), t->cut);
    }
    return;
  }
  if (is_input && !changed) {
    item = checked(to_python(alias(Tensor::borrow(t))));
  } else if (!t->base) {  // a view stays what no_grad would have made of it
    Py_CLEAR(t->grad_fn);
    t->flags &= ~kRequiresGrad;
  }
}

void Outputs::set_changed(const Tensor& t, int slot, bool is_input) {
  if (t.is_leaf() && t.requires_grad() && !stale_view(t.get())) {
    if (t.is_view()) {
      runtime_error(
          "a view of a leaf Variable that requires grad is being used in an in-place operation: ",
          function_name(n_), ".forward marked it dirty");
    }
    runtime_error("a leaf Variable that requires grad has been used in an in-place operation: ",
                  function_name(n_), ".forward marked it dirty");
  }
  refuse_captured(t, text(function_name(n_), ".forward").c_str());
  if (t.is_view() && n_->output_count > 1) {
    runtime_error(
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor. This is not supported by the current "
        "autograd engine. You should either make sure the input is not a view (using .clone() for "
        "example) or make your Function only return one Tensor (",
        function_name(n_), " returns ", n_->output_count, ")");
  }
  if (!is_input) {
    checked(PyErr_WarnEx(PyExc_UserWarning,
                         "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is "
                         "not an input, there is no need to pass it to mark_dirty().",
                         1));
  }
  if (!t.is_view() || !is_input) return change_history(t, n_, slot);
  // The graph expects the edge of what was changed to be the first.
  if (needs_grad(t->base) && !t->base->grad_fn) {
    runtime_error(
        "a view of a leaf Variable that requires grad is being used in an in-place operation: ",
        function_name(n_), ".forward marked it dirty");
  }
  uint32_t k = 0;
  for (Py_ssize_t i = 0; in_.items[i] != reinterpret_cast<PyObject*>(t.get()); ++i)
    k += n_->inputs()[i] != kPlainInput;
  std::rotate(n_->edges, n_->edges + k, n_->edges + k + 1);
  n_->first_edge = k;
  rebase_history(t, n_);
}

void Outputs::set(Object& item, int slot) {
  PyObject* o = item.get();
  bool is_input = is_among(in_, o), changed = is_among(n_->dirty, o);
  bool marked = is_among(n_->non_differentiable, o);
  bool wanted = n_->executable && !marked && is_differentiable(as_tensor(o)->dtype);
  Tensor t = Tensor::borrow(as_tensor(o));
  n_->outputs()[slot] = wanted ? kGradOutput : marked ? kMarkedOutput : kNoGradOutput;
  set_meta(n_, slot, t);
  if (!wanted) return set_without_history(item, is_input, changed);
  ++with_history_;
  if (changed) return set_changed(t, slot, is_input);
  if (is_input) {
    if (split_ && is_among(n_->to_save, o)) {
      runtime_error(
          "A input that has been returned as-is as output is being saved for backward. This is not "
          "supported if you override setup_context. You should return and save a view of the input "
          "instead, e.g. with x.view_as(x) or setup ctx inside the forward function itself.");
    }
    item = view_of_itself(o);
  } else if (t.is_leaf() && t.requires_grad()) {
    item = view_of_itself(o);  // somebody else's leaf stays one
  }
  t = Tensor::borrow(as_tensor(item.get()));
  if (t->cut) drop_cut(t.get());
  set_history(t, n_, slot);
}

// Changing such a view in place would replace the custom backward, so it is refused later.
void Outputs::mark_views(std::vector<Object>& items) {
  for (Object& item : items) {
    if (!is_tensor(item.get())) continue;
    Tensor t = Tensor::borrow(as_tensor(item.get()));
    if (!t.is_view() || is_among(n_->dirty, item.get())) continue;
    t.set(kNoGradView, false);
    t.set(with_history_ > 1 ? kMultiView : kFunctionView);
  }
}

void Outputs::finish(std::vector<Object>& items) {
  if (n_->dirty) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(n_->dirty); ++i) {
      bool returned = false;
      for (Object& item : items) returned |= item.get() == PyTuple_GET_ITEM(n_->dirty, i);
      if (!returned) {
        runtime_error(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function (",
            function_name(n_), ").");
      }
    }
  }
  int count = static_cast<int>(items.size());
  if (count > UINT16_MAX) runtime_error(function_name(n_), " returned ", count, " outputs");
  n_->set_output_count(count);
  if (count > kInlineOutputs) n_->more_outputs = new uint8_t[count]{};
  bool any_view = false;
  for (int k = 0; k < count; ++k) {
    if (!is_tensor(items[k].get())) continue;
    set(items[k], k);
    any_view |= as_tensor(items[k].get())->base != nullptr;
  }
  if (any_view && recording_) mark_views(items);
}

Object as_result(FunctionNode* n, PyObject* raw, std::vector<Object>& items) {
  if (n->out_structure) {
    Object flat = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); ++i)
      PyTuple_SET_ITEM(flat.get(), static_cast<Py_ssize_t>(i), items[i].release());
    return checked(PyObject_CallMethod(n->out_structure, "rebuild", "(O)", flat.get()));
  }
  if (!PyTuple_Check(raw)) return std::move(items[0]);
  Object result = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), items[i].release());
  return result;
}

std::vector<Object> output_items(FunctionNode* n, PyObject* raw) {
  std::vector<Object> items;
  if (is_tensor(raw)) {
    items.push_back(Object::borrow(raw));
    return items;
  }
  bool nested = !PyTuple_CheckExact(raw)
                    ? PyTuple_Check(raw) || PyList_Check(raw) || PyDict_Check(raw) ||
                          (Py_TYPE(raw)->tp_flags & Py_TPFLAGS_HEAPTYPE)
                    : false;
  if (PyTuple_CheckExact(raw)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw) && !nested; ++i) {
      PyObject* o = PyTuple_GET_ITEM(raw, i);
      nested = !is_tensor(o) && (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) ||
                                 (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE));
    }
  }
  if (nested) {
    Object structure = checked(PyObject_CallOneArg(from_structures("output_structure"), raw));
    if (structure.get() != Py_None) {
      n->out_structure = structure.release();
      Object leaves = checked(PyObject_GetAttrString(n->out_structure, "leaves"));
      checked(PyObject_SetAttrString(n->out_structure, "leaves", Py_None));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves.get()); ++i)
        items.push_back(Object::borrow(PyTuple_GET_ITEM(leaves.get(), i)));
      return items;
    }
  }
  if (!PyTuple_Check(raw)) {
    items.push_back(Object::borrow(raw));
    return items;
  }
  items.reserve(PyTuple_GET_SIZE(raw));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i)
    items.push_back(Object::borrow(PyTuple_GET_ITEM(raw, i)));
  return items;
}

}  // namespace adjoint
