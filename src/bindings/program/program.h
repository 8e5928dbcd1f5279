// What the two binding files of programs share: program.cpp has the types, program_node.cpp the
// node of a replayed call.
#pragma once
#include "bindings/python.h"
#include "program/program.h"

namespace adjoint {

// Modes in which compiled functions run eagerly. A program knows its precisions, which autocast does
// not change, and times its own instructions.
inline constexpr uint32_t kEagerModes = (kSlowModes & ~(kAutocast | kProfiled)) | kStrongZeros;

// The program in a `_Program`; a TypeError for anything else.
const Program& program_in(PyObject* o);
// A list or tuple of tensors; None is not a tensor where `optional`.
Tensors tensors_of(PyObject* o, const char* what, bool optional = false);
PyObject* list_of(const Tensors& ts);

PyObject* as_node(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* replay(PyObject*, PyObject* const* args, Py_ssize_t n);
void add_program_node();
// A program is one node, which has no gradient between its results: an error where that is asked
// for, of a result that another one is computed from.
void refuse_inner_result(const Edge& e, const char* what);
// Compiled functions are the plain functions that they are (verify.cpp).
extern constinit thread_local bool t_plain_functions;
// hash(t): by identity, which a recording is then tied to.
Py_hash_t hash_tensor(PyObject* t);

}  // namespace adjoint
