// A backward pass that is run node by node, for adjoint.step (python/adjoint/graph/_step.py):
// Note [Stepping] in engine/engine.cpp. The object owns what a pass borrows from its caller: roots,
// options, and the Run itself.
#include <chrono>
#include <memory>

#include "bindings/autograd/autograd.h"
#include "bindings/autograd/backward_arguments.h"
#include "dispatch/program_recorder.h"
#include "engine/run.h"

namespace adjoint {
namespace {

// What a step was told by the engine.
class StepObserver : public PassObserver {
 public:
  Tensors came, got, sent;
  bool ended_here = false;

  void arrived(Node* n, const Tensor* grads) override {
    came.assign(grads, grads + n->output_count);
  }
  void ran(Node* n, const Tensor* grads, const Tensor* results) override {
    got.assign(grads, grads + n->output_count);
    sent.assign(results, results + n->edge_count);
  }
  void ended(Node* n, const Tensor* grads) override {
    got.assign(grads, grads + n->output_count);
    ended_here = true;
  }
  void forget() {
    came = got = sent = {};
    ended_here = false;
  }
};

struct Pass {
  Edges from, to;
  std::vector<Root> roots;
  BackwardOptions options;
  StepObserver observer;
  std::unique_ptr<Run> run;  // null when the pass is over
  Tensors gradients;         // of the inputs, when it is
  bool stepping = false;
};

struct PassObject {
  PyObject_HEAD Pass* pass;
};
PyTypeObject pass_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Pass& pass_of(PyObject* o) { return *reinterpret_cast<PassObject*>(o)->pass; }

// While a node runs, the pass may not be entered again: by a hook, or from another thread.
class Stepping {
 public:
  explicit Stepping(Pass& p) : pass_(p) {
    if (p.stepping) {
      runtime_error(
          "this backward pass is in the middle of a step: it cannot be stepped from a hook or a "
          "function that the step itself calls, nor from two threads at once");
    }
    p.stepping = true;
  }
  ~Stepping() { pass_.stepping = false; }
  Stepping(const Stepping&) = delete;

 private:
  Pass& pass_;
};

// A recording, or a transform, would see half a pass.
void refuse_inside_others() {
  if (captured()) refuse_recording("a backward pass is stepped through");
  if (mode_on(kTransforms)) {
    runtime_error(
        "a backward pass cannot be stepped through inside vmap or forward mode: it would go on "
        "after they have ended.\n  fix: step outside, on the graph of the plain function");
  }
}

// _Pass(outputs, grads, keep_graph, create_graph, inputs, accumulate): as _run_backward.
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *outputs, *grads, *inputs;
  int keep, create, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!ppO!p:_Pass", &PyTuple_Type, &outputs, &PyTuple_Type, &grads,
                        &keep, &create, &PyTuple_Type, &inputs, &accumulate)) {
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    refuse_inside_others();
    auto pass = std::make_unique<Pass>();
    take_outputs(outputs, grads, pass->from, pass->roots);
    pass->options.keep_graph = keep;
    pass->options.create_graph = create;
    pass->options.accumulate = accumulate;
    pass->options.observer = &pass->observer;
    take_inputs(inputs, accumulate, pass->to);
    pass->options.inputs = pass->to.items;
    pass->run = std::make_unique<Run>(pass->roots, pass->options);
    pass->run->start();
    Object made = checked(type->tp_alloc(type, 0));
    reinterpret_cast<PassObject*>(made.get())->pass = pass.release();
    return made.release();
  });
}

Object all_of(const Tensors& ts) { return tuple_of(ts.data(), static_cast<int>(ts.size())); }

// step(): runs the upcoming node. (sums that arrived, gradients after hooks, gradients passed on or
// None at an end, seconds)
PyObject* step(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Pass& p = pass_of(self);
    Stepping stepping(p);
    if (captured()) refuse_recording("a backward pass is stepped through");
    if (!p.run || !p.run->upcoming()) runtime_error("this backward pass is over");
    Run& run = *p.run;
    p.observer.forget();
    using Clock = std::chrono::steady_clock;
    Clock::time_point start = Clock::now();
    double seconds = 0;
    try {
      run.step();
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (!run.upcoming()) {
        run.finish();
        p.gradients = std::move(run.captured());
        p.run.reset();
      }
    } catch (...) {  // as in any pass: what was gathered is gone
      p.observer.forget();
      p.run.reset();
      throw;
    }
    StepObserver told = std::exchange(p.observer, StepObserver{});
    Object sent = told.ended_here ? Object::borrow(Py_None) : all_of(told.sent);
    return Py_BuildValue("(NNNd)", all_of(told.came).release(), all_of(told.got).release(),
                         sent.release(), seconds);
  });
}

PyObject* upcoming(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Pass& p = pass_of(self);
    return to_python(p.run ? p.run->upcoming() : nullptr);
  });
}

// waiting(): the nodes that hold gradients, newest first, each with its sums so far.
PyObject* waiting(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Pass& p = pass_of(self);
    Object list = checked(PyList_New(0));
    if (!p.run) return list.release();
    std::vector<Node*> nodes = p.run->waiting();
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      Tensors sums;
      for (uint32_t k = 0; k < static_cast<uint32_t>((*n)->output_count); ++k)
        sums.push_back(p.run->sum_at({*n, k}));
      Object pair = checked(Py_BuildValue("(NN)", to_python(*n), all_of(sums).release()));
      checked(PyList_Append(list.get(), pair.get()));
    }
    return list.release();
  });
}

// captured(): the gradients of `inputs` so far.
PyObject* captured_(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Pass& p = pass_of(self);
    return all_of(p.run ? p.run->captured() : p.gradients).release();
  });
}

PyObject* close(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Pass& p = pass_of(self);
    Stepping stepping(p);
    p.run.reset();
    Py_RETURN_NONE;
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Pass* p = reinterpret_cast<PassObject*>(self)->pass;
  if (!p) return 0;
  for (Edge& e : p->from.items) Py_VISIT(e.node);
  for (Edge& e : p->to.items) Py_VISIT(e.node);
  for (Root& r : p->roots) Py_VISIT(r.grad.get());
  for (Tensor& t : p->gradients) Py_VISIT(t.get());
  return p->run ? p->run->traverse(visit, arg) : 0;
}
int clear(PyObject* self) {
  auto* o = reinterpret_cast<PassObject*>(self);
  delete std::exchange(o->pass, new Pass);
  return 0;
}
void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<PassObject*>(self)->pass;
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef methods[] = {
    {"step", step, METH_NOARGS, "Runs the upcoming node."},
    {"upcoming", upcoming, METH_NOARGS, "The node that runs next, or None."},
    {"waiting", waiting, METH_NOARGS, "The nodes that hold gradients, with their sums."},
    {"captured", captured_, METH_NOARGS, "The gradients of the inputs so far."},
    {"close", close, METH_NOARGS, "Abandons the pass."},
    {nullptr}};

}  // namespace

void add_stepped_pass(PyObject* module) {
  pass_type.tp_name = "adjoint._core._Pass";
  pass_type.tp_doc = "A backward pass that is run node by node; see adjoint.step.";
  pass_type.tp_basicsize = sizeof(PassObject);
  pass_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  pass_type.tp_new = make;
  pass_type.tp_traverse = traverse;
  pass_type.tp_clear = clear;
  pass_type.tp_dealloc = destroy;
  pass_type.tp_methods = methods;
  checked(PyType_Ready(&pass_type));
  checked(PyModule_AddObjectRef(module, "_Pass", reinterpret_cast<PyObject*>(&pass_type)));
}

}  // namespace adjoint
