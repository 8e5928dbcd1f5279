// A replayed call as one node of the graph: its backward runs the backward part of the recording.
//
// Where that part does not say it all (a graph of the backward is wanted, a transform is under way,
// some gradients are missing), Python runs the function once more, eagerly:
// python/adjoint/compiler/_recorded.py. Read program/program.h first.
#include <optional>

#include "bindings/program/program.h"
#include "dispatch/checkpoint_cache.h"
#include "dispatch/record_node.h"
#include "dispatch/saved.h"
#include "engine/engine.h"
#include "graph/second_backward.h"
#include "program/replay/replay.h"

namespace adjoint {
namespace {

// What a node keeps, before the values that the backward part reads.
enum Slot { kRecorded_, kGiven, kVersions, kPlaces, kFirst };

// The value again, as it was when it was saved.
Tensor intact(Node* n, const Saved& s) {
  if (is_packed(s)) return unpack(n, s, Edge{});
  Tensor t = s.value.tensor();
  if (t->storage->version != s.version) changed_in_place(n, t, s.version);
  return t;
}

// A gradient that lies in memory as the one that the backward part was recorded with.
Tensor laid_as(const TensorGeometry& g, const Tensor& given) {
  Tensor grad = given.pending() ? op<"clone">(given).tensor() : given;
  bool same = true, alone = true;  // but for axes of length one, which may have any stride
  for (int k = 0; k < grad.ndim(); ++k) {
    bool equal = grad.strides()[k] == g.strides[k];
    same &= equal;
    alone &= equal || grad.size(k) == 1;
  }
  if (same) return grad;
  if (alone) return on_storage(grad->storage, grad.shape(), g.strides, grad.offset(), grad.dtype());
  return op<"_with_strides">(grad, g.strides);
}

// What the function was called with and has reached. Packed, as inside a checkpoint, it has come into
// being again since, and whoever packed it answers for it.
Tensors given_of(Node* n, Dims& versions) {
  const Saved& s = n->saved[kGiven];
  if (s.value.is_tensors()) {
    versions = n->saved[kVersions].value.ints();
    return s.value.tensors();
  }
  Tensors given = unpack_list(n, s, n->edges);
  for (size_t k = 0; k < given.size(); ++k) {
    const Node* from = n->edges[k].node;
    if (from && from->variable) given[k] = Tensor::borrow(from->variable);  // a leaf is there
    versions.push_back(given[k].version());
  }
  return given;
}

void eager_backward(Node* n, Tensor* grads, Tensor* result) {
  Dims known;
  Tensors tensors = given_of(n, known);
  // As `_version` shows them; -1 where a tensor has been given other memory (`.data =`) since.
  for (size_t k = 0; k < tensors.size(); ++k) {
    auto was = static_cast<uint32_t>(known[static_cast<int>(k)]);
    bool same = was >> kCountBits == tensors[k].version() >> kCountBits;
    known[static_cast<int>(k)] = same ? static_cast<int64_t>(count_of(was)) : -1;
  }
  Object given = checked(list_of(tensors));
  Object arrived = checked(PyList_New(0));
  for (uint32_t k = 0; k < static_cast<uint32_t>(n->output_count); ++k)
    checked(PyList_Append(arrived.get(), checked(to_python(grads[k])).get()));
  Object versions = checked(to_python(Value(std::move(known))));
  Object method = checked(PyObject_GetAttrString(n->saved[kRecorded_].value.python(), "gradients"));
  Object found = checked(PyObject_CallFunctionObjArgs(method.get(), given.get(), versions.get(),
                                                      arrived.get(), nullptr));
  Tensors ts = tensors_of(found.get(), "gradients of a compiled function", true);
  for (size_t k = 0; k < ts.size() && static_cast<int>(k) < n->edge_count; ++k)
    result[k] = std::move(ts[k]);
}

// The backward part for the gradients that have arrived (None if there is none), and which of the
// values that were kept it reads: unless they are named, the first ones.
struct Part {
  Object program;
  std::optional<Dims> kept;
};
Part part_for(PyObject* recorded, Tensor* grads, const Dims& places) {
  bool all = true;
  for (int64_t k : Span(places)) all = all && grads[k];
  if (all) return {checked(PyObject_GetAttrString(recorded, "backward")), {}};
  Object mask = checked(PyTuple_New(places.size()));
  for (int k = 0; k < places.size(); ++k)
    PyTuple_SET_ITEM(mask.get(), k, Py_NewRef(grads[places[k]] ? Py_True : Py_False));
  Object table = checked(PyObject_GetAttrString(recorded, "partial"));
  PyObject* found = PyDict_GetItemWithError(table.get(), mask.get());
  if (!found) {
    if (PyErr_Occurred()) throw PythonError{};
    return {Object::borrow(Py_None), {}};
  }
  Dims kept;
  if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 2 ||
      !PyList_Check(PyTuple_GET_ITEM(found, 1)))
    type_error("partial backward: a program and places are expected");
  PyObject* read = PyTuple_GET_ITEM(found, 1);  // as many as values are kept: no shape
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(read); ++k) {
    int64_t place = PyLong_AsLongLong(PyList_GET_ITEM(read, k));
    if (place == -1 && PyErr_Occurred()) throw PythonError{};
    kept.push_back(place);
  }
  return {Object::borrow(PyTuple_GET_ITEM(found, 0)), std::move(kept)};
}

void program_backward(Node* n, Tensor* grads, Tensor* result) {
  if (n->released) fail_freed(n);
  UnpackScope scope;
  const Dims& places = n->saved[kPlaces].value.ints();  // outputs with a gradient
  bool usual = !grad_enabled() && !(t_modes & kEagerModes) && !t_checkpoint_cache;
  if (!usual) return eager_backward(n, grads, result);
  PyObject* recorded = n->saved[kRecorded_].value.python();
  // What hooks and custom functions read, eager execution would read now.
  Object check = checked(PyObject_GetAttrString(recorded, "check_backward"));
  if (check.get() != Py_None) checked(PyObject_CallNoArgs(check.get()));
  Part part = part_for(recorded, grads, places);
  if (part.program.get() == Py_None) return eager_backward(n, grads, result);
  Tensors given, rest;
  const Program& p = program_in(part.program.get());
  for (int64_t k : Span(places)) {
    if (!grads[k]) continue;
    const TensorGeometry& g = p.registers[p.inputs[given.size()]].geometry();
    given.push_back(laid_as(g, grads[k]));
  }
  for (size_t k = 0; k < p.inputs.size() - given.size(); ++k) {
    int64_t place = part.kept ? (*part.kept)[static_cast<int>(k)] : static_cast<int64_t>(k);
    rest.push_back(intact(n, n->saved[kFirst + place]));
  }
  Tensors found = run(p, given, rest);
  for (size_t k = 0; k < found.size(); ++k) result[k] = std::move(found[k]);
}

// A result that is a view of memory which nobody else can reach is a tensor of its own: it may be
// changed in place like any other. `found` has it in all its places.
Tensor whole(Tensors& found, Tensor view) {
  if (!view->base) return view;
  int64_t at = (view->data - static_cast<char*>(view->storage->data)) /
               static_cast<int64_t>(view.itemsize());
  Tensor own = on_storage(view->storage, view.shape(), view.strides(), at, view.dtype());
  own->flags |= view.pending();
  for (Tensor& t : found) {
    if (t.is(view)) t = own;
  }
  return own;
}

}  // namespace

void add_program_node() { compiled_backward = program_backward; }

namespace {

thread_local bool state_was_asked = false;

}  // namespace

// A state of a loop that became one instruction (python/adjoint/_for_loops/_rest.py): later states were computed
// from it inside that.
void refuse_state_of_loop(const Node* node, const char* what) {
  if (!node || !node->dict) return;
  PyObject* place = PyDict_GetItemString(node->dict, "_state_of_loop");
  if (!place) return;
  state_was_asked = true;
  runtime_error(what, " is asked for the gradient of a state inside the loop at ",
                PyUnicode_AsUTF8(place),
                ", whose steps compile() has recorded as one instruction: what later steps make of "
                "that state is not in the graph.\n  fix: leave the function that differentiates by "
                "it uncompiled (disable=True), or differentiate by what goes into the loop");
}

bool state_of_loop_was_asked() { return std::exchange(state_was_asked, false); }

void ask_state_of_loop() { state_was_asked = true; }

void refuse_inner_result(const Edge& e, const char* what) {
  refuse_state_of_loop(e.node, what);
  if (!e.node || e.node->backward != program_backward || e.node->released) return;
  Object inner = checked(PyObject_GetAttrString(e.node->saved[kRecorded_].value.python(), "inner"));
  Dims slots;
  if (!parse_ints(inner.get(), &slots, PY_SSIZE_T_MAX))
    type_error("inner: a list of places is expected");
  if (std::find(slots.begin(), slots.end(), static_cast<int64_t>(e.slot)) == slots.end()) return;
  runtime_error(what, " is asked for the gradient of result ", e.slot,
                " of a compiled function, which another of its results is computed from: they are "
                "results of one node, and the gradient between them is not known.\n  fix: compile "
                "the parts before and after that result as two functions, or leave the function "
                "uncompiled (disable=True)");
}

namespace {

// Makes the first `count` of what was found results of a node with an edge for each of the tensors
// `all`; those at `places` have a gradient. The others are kept for the backward part.
// `recorded` is kept by a link that the collector hears of `soon`, or in time.
void make_node(PyObject* recorded, Tensors all, Tensors& found, size_t count, const Dims& places,
               bool soon = true) {
  int kept = static_cast<int>(found.size() - count);
  std::vector<Edge> edges;
  for (const Tensor& t : all) edges.push_back(gradient_edge(t.get()));
  NodeRef node(new_node("CompiledFunctionBackward", program_backward, static_cast<int>(all.size()),
                        kFirst + kept));
  std::copy(edges.begin(), edges.end(), node->edges);
  node->set_output_count(static_cast<int>(count));
  node->saved[kRecorded_].value = Value::object(recorded);
  if (soon)
    add_back_link(node.get());
  else
    extra_of(node.get()).back_link.set_patiently();
  Dims versions;
  for (const Tensor& t : all) versions.push_back(t.version());
  node->saved[kVersions].value = Value(std::move(versions));
  if (mode_on(kSavedHooks))
    node->saved[kGiven] = pack(Value(std::move(all)));
  else
    node->saved[kGiven].value = Value(std::move(all));
  node->saved[kPlaces].value = Value(places);
  for (int k = 0; k < kept; ++k) {
    const Tensor& t = found[count + k];
    bool output = std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](const Tensor& o) { return o.is(t); });
    node->saved[kFirst + k] = output ? pack_output(t) : pack(Value(t));
  }
  for (size_t k = 0; k < count; ++k) set_meta(node.get(), static_cast<uint32_t>(k), found[k]);
  for (int64_t k : Span(places)) set_history(found[k], node.get(), static_cast<uint32_t>(k));
  found.resize(count);
}

}  // namespace

void check_places(const Dims& places, size_t count, const char* what) {
  for (int64_t k : Span(places)) {
    if (k < 0 || k >= static_cast<int64_t>(count))
      value_error(what, ": there is no result ", k, " of ", count);
  }
}

Tensors replay_as_node(PyObject* recorded, const Program& p, const Tensors& given,
                       const Tensors& reached, size_t count, const Dims& places) {
  Tensors found = run(p, given, {});
  for (int64_t k : Span(places)) found[k] = whole(found, found[k]);
  Tensors all;
  all.reserve(given.size() + reached.size());
  all.insert(all.end(), given.begin(), given.end());
  all.insert(all.end(), reached.begin(), reached.end());
  make_node(recorded, std::move(all), found, count, places);
  return found;
}

// _as_node(recorded, results, given, places): other headers on the results of a call that was
// recorded, as results of one node: a backward pass asks `recorded` for the gradients.
PyObject* as_node(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 4) type_error("_as_node() takes 4 arguments");
    Tensors found = tensors_of(args[1], "_as_node(): results");
    Tensors given = tensors_of(args[2], "_as_node(): given");
    Dims places;
    if (!parse_ints(args[3], &places, PY_SSIZE_T_MAX))
      type_error("_as_node(): places of outputs are expected");
    check_places(places, found.size(), "_as_node()");
    for (int64_t k : Span(places)) {
      Tensor own = on_storage(found[k]->storage, found[k].shape(), found[k].strides(),
                              found[k].offset(), found[k].dtype());
      own->flags |= found[k]->flags & (kData | kPending);
      found[k] = std::move(own);
    }
    make_node(args[0], std::move(given), found, found.size(), places, false);
    return list_of(found);
  });
}

// _replay(recorded, program, given, reached, count, places)
PyObject* replay(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 6) type_error("_replay() takes 6 arguments");
    const Program& p = program_in(args[1]);
    Tensors given = tensors_of(args[2], "_replay(): given");
    Tensors reached = tensors_of(args[3], "_replay(): reached");
    int64_t count;
    Dims places;
    if (!parse_int(args[4], &count) || !parse_ints(args[5], &places, PY_SSIZE_T_MAX))
      type_error("_replay(): a number of outputs and their places are expected");
    if (static_cast<int>(given.size()) != p.given)
      value_error("_replay(): ", p.given, " tensors are expected, not ", given.size());
    if (count < 0 || count > static_cast<int64_t>(p.outputs.size()))
      value_error("_replay(): the program has ", p.outputs.size(), " outputs, not ", count);
    check_places(places, static_cast<size_t>(count), "_replay()");
    Object alive = Object::borrow(args[1]);
    return list_of(replay_as_node(args[0], p, given, reached, static_cast<size_t>(count), places));
  });
}

}  // namespace adjoint
