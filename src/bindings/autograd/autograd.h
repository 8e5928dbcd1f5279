// What the files that bind the engine share.
#pragma once
#include "bindings/python.h"
#include "engine/engine.h"

namespace adjoint {

// Edges that hold references to their nodes.
struct Edges {
  std::vector<Edge> items;
  Edges() = default;
  Edges(const Edges&) = delete;
  ~Edges() {
    for (Edge& e : items) Py_XDECREF(e.node);
  }
};

Object tuple_of(const Tensor* ts, int n);  // None where undefined

// Refuses what is not a tensor.
Tensor tensor_of(PyObject* o);

void add_grad_mode(PyObject* module);
void add_cuts(PyObject* module);
void add_hooks(PyObject* module);
void prepare_fresh_threads();  // fresh_thread.cpp
void run_on_fresh_thread(void (*body)(void*), void* argument);
// Ctrl-C arrived: a Python exception is set.
bool interrupted();

// Makes a non-leaf keep its gradient; does nothing to a leaf.
void keep_gradient(TensorObject* t);

}  // namespace adjoint
