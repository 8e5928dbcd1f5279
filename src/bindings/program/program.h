// What the binding files of programs share: program.cpp has the types, program_node.cpp the node of a
// replayed call, compiled_call.cpp the call of a compiled function.
#pragma once
#include <span>

#include "bindings/python.h"
#include "program/program.h"

namespace adjoint {

// Modes in which compiled functions run eagerly. A program knows its precisions, which autocast does
// not change, and times its own instructions.
inline constexpr uint32_t kEagerModes = (kSlowModes & ~(kAutocast | kProfiled)) | kStrongZeros;

// What compiled functions leave to eager execution: transforms, anomaly mode, hooks of saved
// values, inference mode, another recording, and where a program is compared with the function.
bool is_unusual_mode();
// The modes that recordings are sorted by: whether ops record, and autocast where it is on.
uint32_t call_mode();
// Whether all is as it was that a `_Guards` speaks of, arguments included (guards.cpp).
bool guards_hold(PyObject* guards, std::span<PyObject* const> arguments);
void check_guards(PyObject* o);  // a TypeError for anything else

// The program in a `_Program`; a TypeError for anything else.
const Program& program_in(PyObject* o);
// The same of a `_Recording`.
class Capture;
Capture& capture_in(PyObject* o);
void add_exchange(PyObject* module);
// A list or tuple of tensors; None is not a tensor where `optional`.
Tensors tensors_of(PyObject* o, const char* what, bool optional = false);
PyObject* list_of(const Tensors& ts);

// Runs a program and makes its first `count` outputs results of a node with an edge for each of the
// tensors; those at `places` have a gradient.
Tensors replay_as_node(PyObject* recorded, const Program& p, const Tensors& given,
                       const Tensors& reached, size_t count, const Dims& places);
// A ValueError where a place is not one of `count`.
void check_places(const Dims& places, size_t count, const char* what);
PyObject* as_node(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* replay(PyObject*, PyObject* const* args, Py_ssize_t n);
void add_program_node();
// A program is one node, which has no gradient between its results: an error where that is asked
// for, of a result that another one is computed from.
void refuse_inner_result(const Edge& e, const char* what);
// Whether that has refused a state of a loop since this was last asked.
bool state_of_loop_was_asked();
void ask_state_of_loop();
// Raises where a node has made such a state.
void refuse_state_of_loop(const Node* node, const char* what);
// Compiled functions are the plain functions that they are (verify.cpp).
extern constinit thread_local bool t_plain_functions;
// hash(t): by identity, which a recording is then tied to.
Py_hash_t hash_tensor(PyObject* t);

}  // namespace adjoint
