// What adjoint.func.vmap needs of the core: levels that are opened and closed, tensors that stand
// for a sample each. Read transforms/batched.h first.
#include "bindings/autograd/autograd.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

Level batch_level_at(int place) {
  if (place < 0 || place >= static_cast<int>(t_levels.size()) || !t_levels[place].batch)
    runtime_error("there is no vmap level ", place);
  return t_levels[place].level;
}

// _enter_vmap(size, randomness, directions): the place of the level.
PyObject* enter_vmap(PyObject*, PyObject* args) {
  long long size;
  const char* randomness;
  int directions;
  if (!PyArg_ParseTuple(args, "Lsp", &size, &randomness, &directions)) return nullptr;
  return guard([&] {
    OpenLevel what;
    what.batch = true;
    what.size = size;
    what.directions = directions;
    what.randomness = *randomness == 'd'   ? Randomness::Different
                      : *randomness == 's' ? Randomness::Same
                                           : Randomness::Error;
    open_level(what);
    return PyLong_FromSize_t(t_levels.size() - 1);
  });
}
PyObject* exit_vmap(PyObject*, PyObject* place) {
  return guard([&]() -> PyObject* {
    close_level(batch_level_at(static_cast<int>(PyLong_AsLong(place))));
    Py_RETURN_NONE;
  });
}

// _add_batch(tensor, dim, place): a sample of the tensor, whose axis `dim` counts the samples.
PyObject* add_batch(PyObject*, PyObject* args) {
  PyObject* o;
  int dim, place;
  if (!PyArg_ParseTuple(args, "Oii", &o, &dim, &place)) return nullptr;
  return guard([&] {
    Tensor t = tensor_of(o);
    if (dim != 0) t = op<"movedim">(t, Dims{dim}, Dims{0});
    return to_python(make_batched(t, batch_level_at(place)));
  });
}
// _remove_batch(tensor, dim, place): the samples along axis `dim`.
PyObject* remove_batch(PyObject*, PyObject* args) {
  PyObject* o;
  int dim, place;
  if (!PyArg_ParseTuple(args, "Oii", &o, &dim, &place)) return nullptr;
  return guard([&] {
    Tensor t = explicit_batch(tensor_of(o), batch_level_at(place), t_levels[place].size);
    if (dim != 0) t = op<"movedim">(t, Dims{0}, Dims{dim});
    return to_python(t);
  });
}

// The innermost level that any of the tensors is batched at, or 0. `_take_off` and `_put_on` are
// for code that works on all samples at once, such as grad inside vmap.
PyObject* batch_level_of(PyObject*, PyObject* tuple) {
  return guard([&] {
    Level found = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyObject* o = PyTuple_GET_ITEM(tuple, i);
      if (!is_tensor(o)) continue;
      if (Transformed* x = batch_of(as_tensor(o))) found = std::max(found, x->batch_level);
    }
    return PyLong_FromLongLong(found);
  });
}
PyObject* take_off(PyObject*, PyObject* args) {
  PyObject* o;
  long long level, size;
  if (!PyArg_ParseTuple(args, "OLL", &o, &level, &size)) return nullptr;
  return guard([&] { return to_python(explicit_batch(tensor_of(o), level, size)); });
}
PyObject* put_on(PyObject*, PyObject* args) {
  PyObject* o;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &o, &level)) return nullptr;
  return guard([&] { return to_python(make_batched(tensor_of(o), level)); });
}
// (size of the batch, or -1 where the tensor is not batched at the level)
PyObject* size_at(PyObject*, PyObject* args) {
  PyObject* o;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &o, &level)) return nullptr;
  return guard([&] {
    Tensor t = tensor_of(o);
    for (Transformed* x = batch_of(t.get()); x; x = batch_of(x->batch.get())) {
      if (x->batch_level == level) return PyLong_FromLongLong(x->batch.size(0));
    }
    return PyLong_FromLong(-1);
  });
}

PyMethodDef functions[] = {
    {"_enter_vmap", enter_vmap, METH_VARARGS, "Opens a level of vmap; returns its place."},
    {"_exit_vmap", exit_vmap, METH_O, "Closes the newest level."},
    {"_add_batch", add_batch, METH_VARARGS, "A tensor that stands for one sample of a batch."},
    {"_remove_batch", remove_batch, METH_VARARGS, "The batch of a result."},
    {"_batch_level", batch_level_of, METH_O, "The innermost level that tensors are batched at."},
    {"_take_off", take_off, METH_VARARGS, "A tensor with the axis of a level in front."},
    {"_put_on", put_on, METH_VARARGS, "A tensor whose first axis belongs to a level."},
    {"_size_at", size_at, METH_VARARGS, "The size of a tensor's batch at a level, or -1."},
    {nullptr}};

}  // namespace

void add_vmap(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
