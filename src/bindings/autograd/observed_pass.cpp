// A backward pass that is watched, for explain_grad (python/adjoint/graph/_observed_pass.py): which nodes
// let the gradient vanish, go NaN, or pass on nothing.
#include <algorithm>
#include <cmath>

#include "bindings/autograd/autograd.h"
#include "engine/node_table.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

// What is to be said about some gradients together.
struct Seen {
  bool any = false, nan = false, infinite = false, nonzero = false;  // a NaN is not zero
  double largest = 0;                                                // absolute value, NaN left out
};

template <class T>
void look_at(Seen& s, const T* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    s.nan |= std::isnan(p[i]);
    s.infinite |= std::isinf(p[i]);
    s.nonzero |= p[i] != 0;
    s.largest = std::max(s.largest, static_cast<double>(std::abs(p[i])));
  }
}

void look_at(Seen& s, const Tensor& given) {
  if (!given) return;
  s.any = true;
  Tensor t = innermost(given);
  if (is_half(t.dtype()) || !is_differentiable(t.dtype())) t = cast(t, DType::Float32);
  t = contiguous(t);
  int64_t n = t.numel() * (is_complex(t.dtype()) ? 2 : 1);
  double before = s.largest;
  if (real_dtype(t.dtype()) == DType::Float32)
    look_at(s, t.data<float>(), n);
  else
    look_at(s, t.data<double>(), n);
  if (!is_complex(t.dtype())) return;
  s.largest = before;
  Tensor z = contiguous(cast(t, DType::Complex128));
  for (int64_t i = 0; i < z.numel(); ++i)
    s.largest = std::max(s.largest, std::abs(z.data<complex128_t>()[i]));
}

class GradientObserver : public PassObserver {
 public:
  GradientObserver(PyObject* nodes, PyObject* events) : events_(events) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i)
      inside_[reinterpret_cast<Node*>(PyList_GET_ITEM(nodes, i))] = i + 1;
  }

  void ran(Node* n, const Tensor* grads, const Tensor* results) override {
    const Py_ssize_t* place = inside_.find(n);
    if (!place) return;
    Seen arrived, sent;
    for (int k = 0; k < n->output_count; ++k) look_at(arrived, grads[k]);
    bool leads_on = false;
    for (int i = 0; i < n->edge_count; ++i) {
      if (!n->edges[i].node || !inside_.find(n->edges[i].node)) continue;
      leads_on = true;
      look_at(sent, results[i]);
    }
    if (!arrived.any || !leads_on) return;
    auto finite = [](const Seen& s) { return !s.nan && !s.infinite; };
    if (sent.nan && !arrived.nan) tell(*place, "made_nan", arrived);
    if (!sent.any)
      tell(*place, "withheld", arrived);
    else if (finite(arrived) && !finite(sent))
      tell(*place, "poisoned", arrived);
    else if (arrived.nonzero && !sent.nonzero)
      tell(*place, "zeroed", arrived);
  }

 private:
  void tell(Py_ssize_t place, const char* what, const Seen& arrived) {
    Object event = checked(Py_BuildValue("(nsd)", place - 1, what, arrived.largest));
    checked(PyList_Append(events_, event.get()));
  }

  NodeTable<Py_ssize_t> inside_;
  PyObject* events_;
};

// _observe_backward(output, grad, input, nodes): the gradient that arrives at the input, or None, and
// what happened at the nodes: a list of (place in the list of nodes, "zeroed", "poisoned",
// "withheld" or "made_nan", the largest absolute value of the gradient that arrived there).
PyObject* observe_backward(PyObject*, PyObject* args) {
  PyObject *output, *grad, *input, *nodes;
  if (!PyArg_ParseTuple(args, "OOOO!:_observe_backward", &output, &grad, &input, &PyList_Type,
                        &nodes))
    return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_tensor(output) || !is_tensor(grad) || !is_tensor(input))
      type_error("_observe_backward(): expected tensors");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i) {
      if (!is_node(PyList_GET_ITEM(nodes, i))) type_error("_observe_backward(): expected nodes");
    }
    Edges from, to;
    from.items.push_back(gradient_edge(as_tensor(output)));
    to.items.push_back(gradient_edge(as_tensor(input)));
    Root root{from.items[0], Tensor::borrow(as_tensor(grad))};
    Object events = checked(PyList_New(0));
    GradientObserver observer(nodes, events.get());
    BackwardOptions options;
    options.keep_graph = true;
    options.accumulate = false;
    options.inputs = to.items;
    options.observer = &observer;
    std::vector<Tensor> results = run_backward({&root, 1}, options);
    return Py_BuildValue("(NO)", to_python(results[0]), events.get());
  });
}

PyMethodDef functions[] = {{"_observe_backward", observe_backward, METH_VARARGS,
                            "Runs the engine and says where the gradient vanished or went NaN."},
                           {nullptr}};

}  // namespace

void add_observed_pass(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
