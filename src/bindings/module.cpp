// adjoint._core: the module. What is in it comes from the other files of this folder.
#include "bindings/autograd/saved_hooks.h"
#include "python/gc_list.h"

namespace adjoint {

void add_error_classes(PyObject* module);         // bindings/errors.cpp
void add_function_node(PyObject* module);         // bindings/function/function_node.cpp
void add_checkpoint_cache(PyObject* module);      // bindings/autograd/checkpoint_cache.cpp
void add_programs(PyObject* module);              // bindings/program/program.cpp
void add_loops(PyObject* module);                 // bindings/program/loop.cpp
void add_native(PyObject* module);                // bindings/program/native.cpp
void add_inference(PyObject* module);             // bindings/autograd/inference.cpp
void add_colouring(PyObject* module);             // bindings/autograd/colouring.cpp
void add_vmap(PyObject* module);                  // bindings/autograd/vmap.cpp
void add_composite_arithmetic(PyObject* module);  // bindings/tensor/composite_arithmetic.cpp
void add_guards(PyObject* module);                // bindings/program/guards.cpp
void add_compiled_call(PyObject* module);         // bindings/program/compiled_call.cpp
void add_walk(PyObject* module);                  // bindings/program/walk.cpp
void add_frame_slots(PyObject* module);           // bindings/program/frame_slots.cpp
void add_beside(PyObject* module);                // bindings/program/verify.cpp
void add_shared_memory(PyObject* module);         // bindings/interop/shared_memory.cpp
void add_profile(PyObject* module);               // bindings/profile.cpp
void add_at_callers_line(PyObject* module);       // bindings/at_callers_line.cpp
void add_tensor_class(PyObject* module);          // bindings/tensor/tensor_class.cpp
void add_checksums(PyObject* module);             // bindings/interop/checksum.cpp
void add_foreign_calls(PyObject* module);         // bindings/interop/foreign_calls.cpp
void add_foreign_reductions(PyObject* module);    // bindings/interop/foreign_reductions.cpp
void add_shared_reduction(PyObject* module);      // bindings/interop/shared_reduction.cpp

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "adjoint._core", "The native core of adjoint.", -1,
                          nullptr};

void fill(PyObject* module) {
  add_error_classes(module);
  add_dtypes(module);
  add_tensor_type(module);
  add_tensor_class(module);
  add_node_type(module);
  add_saved_hooks(module);
  add_checkpoint_cache(module);
  add_programs(module);
  add_loops(module);
  add_native(module);
  add_inference(module);
  finish_ops();
  add_autograd(module);
  add_autocast(module);
  add_graph_facts(module);
  add_graph_search(module);
  add_observed_pass(module);
  add_stepped_pass(module);
  add_function_node(module);
  add_anomaly(module);
  add_profile(module);
  add_at_callers_line(module);
  add_creation(module);
  add_settings(module);
  add_history_attributes();
  add_shape_attributes();
  add_sparse_attributes();
  add_optim(module);
  add_random(module);
  add_buffers(module);
  add_checksums(module);
  add_dlpack(module);
  add_shared_memory(module);
  add_foreign_calls(module);
  add_foreign_reductions(module);
  add_shared_reduction(module);
  add_subclasses(module);
  add_casts();
  add_forward_mode(module);
  add_transforms(module);
  add_plain_parts(module);
  add_apart(module);
  add_vmap(module);
  add_promotion(module);
  add_colouring(module);
  add_composite_arithmetic(module);
  add_guards(module);
  add_compiled_call(module);
  add_attributes(module);
  add_walk(module);
  add_frame_slots(module);
  add_beside(module);
  add_op_functions(module, tensor_type);
}

}  // namespace
}  // namespace adjoint

PyMODINIT_FUNC PyInit__core() {
  // Free lists and types are the process's own: a second interpreter would share them.
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError, "adjoint cannot be imported in a subinterpreter");
    return nullptr;
  }
  adjoint::gc::find_youngest();
  PyObject* module = PyModule_Create(&adjoint::definition);
  if (!module) return nullptr;
  try {
    adjoint::fill(module);
  } catch (...) {
    adjoint::set_python_error();
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
