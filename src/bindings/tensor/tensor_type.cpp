// The Tensor type: life cycle, attributes, a few methods. Ops become methods in op_function.cpp;
// indexing, NumPy and constructors have files of their own and join through extend_tensor_type.
#include "bindings/program/program.h"
#include "bindings/tensor/indexing.h"
#include "bindings/tensor/subclass.h"
#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "graph/back_links.h"
#include "graph/change_log.h"
#include "graph/hidden_reads.h"
#include "kernels/convert.h"
#include "ops/creation/memory_format.h"
#include "python/interrupt.h"
#include "tensor/fresh.h"
#include "tensor/geometry.h"
#include "transforms/batched.h"

namespace adjoint {

PyObject* compare_tensors(PyObject* a, PyObject* b, int how);

namespace {

PyTypeObject g_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Tensor self_of(PyObject* o) { return Tensor::borrow(as_tensor(o)); }

// --- life cycle ----------------------------------------------------------------------------------
int traverse(PyObject* o, visitproc visit, void* arg) {
  TensorObject* t = as_tensor(o);
  Py_VISIT(t->dict);
  Py_VISIT(t->grad_fn);
  Py_VISIT(t->grad);
  Py_VISIT(t->base);
  if (t->accumulator && !t->accumulator->owns_variable) Py_VISIT(t->accumulator);
  if (t->extra) {
    Py_VISIT(t->extra->hooks);
    Py_VISIT(t->extra->post_accumulate);
    return traverse_transformed(t, visit, arg);
  }
  return 0;
}
int clear(PyObject* o) {
  Py_CLEAR(as_tensor(o)->dict);
  clear_tensor_object(as_tensor(o));
  return 0;
}
// Before anything is taken away: a leaf that a graph still needs lives on, held by its accumulator.
void finalize(PyObject* o) { disown_accumulator(as_tensor(o)); }
bool nothing_but_history(const TensorObject* t) {
  auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  return Py_TYPE(t) == tensor_type && t->shape == t->dims &&
         !(bits(t->dict) | bits(t->weakrefs) | bits(t->grad) | bits(t->accumulator) |
           bits(t->base) | bits(t->extra) | bits(t->cut));
}
void dealloc(PyObject* o) {
  TensorObject* t = as_tensor(o);
  if (nothing_but_history(t)) {  // most results of ops
    Node* history = free_result(t);
    Py_XDECREF(history);
    return;
  }
  if (t->accumulator && Py_REFCNT(t->accumulator) > 1 && Py_TYPE(o) == tensor_type) {
    // By hand: Python would call the finalizer once in the life of an object.
    Py_SET_REFCNT(o, 1);
    bool kept = disown_accumulator(t);
    Py_SET_REFCNT(o, kept ? 1 : 0);
    if (kept) return;
  }
  gc::untrack(o);
  if (t->weakrefs) PyObject_ClearWeakRefs(o);
  Py_CLEAR(t->dict);
  clear_tensor_object(t);
  free_tensor_memory(t);
  recycle_header(t);
}

// --- attributes ----------------------------------------------------------------------------------
PyObject* get_shape(PyObject* o, void*) {
  look_at(as_tensor(o));
  return new_size({as_tensor(o)->shape, as_tensor(o)->ndim});
}
PyObject* get_dtype(PyObject* o, void*) {
  look_at(as_tensor(o));
  PyObject* d = dtype_object(as_tensor(o)->dtype);
  Py_INCREF(d);
  return d;
}
PyObject* get_ndim(PyObject* o, void*) {
  look_at(as_tensor(o));
  return PyLong_FromLong(as_tensor(o)->ndim);
}
PyObject* get_itemsize(PyObject* o, void*) {
  look_at(as_tensor(o));
  return PyLong_FromSize_t(item_size(as_tensor(o)->dtype));
}
PyObject* get_nbytes(PyObject* o, void*) {
  look_at(as_tensor(o));
  return PyLong_FromLongLong(as_tensor(o)->numel *
                             static_cast<int64_t>(item_size(as_tensor(o)->dtype)));
}
PyObject* get_requires_grad(PyObject* o, void*) {
  look_at(as_tensor(o));
  return PyBool_FromLong(needs_grad(innermost(self_of(o)).get()));
}
int set_requires_grad(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    Tensor t = self_of(o);
    if (!v) runtime_error("requires_grad cannot be deleted; set it to False instead");
    int on = PyObject_IsTrue(v);
    checked(on);
    if (t->grad_fn && !on) {
      runtime_error(
          "you can only change requires_grad flags of leaf variables. If you want to use a "
          "computed variable in a "
          "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (on && t.has(kInference) && !mode_on(kInferenceOn)) {
      runtime_error(
          "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. "
          "fix: use a clone()");
    }
    if (on && !is_differentiable(t.dtype())) {
      runtime_error(
          "only Tensors of floating point and complex dtype can require gradients (this one is ",
          t.dtype(), ")");
    }
    if (on && batch_of(t.get()) && !needs_grad(innermost(t).get())) {
      runtime_error(
          "Tensor.requires_grad_() was called on a sample inside vmap, which cannot be a leaf of "
          "the "
          "graph. fix: use func.grad, func.vjp or func.jacrev there, or call it outside");
    }
    if (on != needs_grad(t.get())) refuse_outside(t.get(), "requires_grad is changed");
    if (on && !needs_grad(t.get())) note_own_leaf(t.get());
    if (!t->grad_fn) t.set(kRequiresGrad, on);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    TensorObject* t = as_tensor(o);
    look_at(t);
    if (stale_view(t)) refresh_view_history(t);
    // A value unpacked for a leaf has the leaf's accumulator as history.
    return PyBool_FromLong(!t->grad_fn || !t->grad_fn->backward);
  });
}
PyObject* detach_inplace(PyObject* o, PyObject*);
// PyTorch's older spelling of detach_().
int set_grad_fn(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    if (!v) runtime_error("Deletion of _grad_fn not allowed. Detach tensor instead!");
    if (v != Py_None) runtime_error("_grad_fn can be only set to None");
    Object same = checked(detach_inplace(o, nullptr));
    return 0;
  });
}
PyObject* get_grad_fn(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    Tensor inside = innermost(self_of(o));
    TensorObject* t = inside.get();
    if (stale_view(t)) refresh_view_history(t);
    if (t->grad_fn) refuse_outside(t, "grad_fn is read");
    look_at(t);
    return to_python(t->grad_fn && t->grad_fn->backward ? t->grad_fn : nullptr);
  });
}
// Asked of a tensor that backward passes by, None is nearly always a mistake.
bool warn_of_no_grad(const TensorObject* t) {
  if (t->grad || !t->grad_fn || (t->flags & kRetainsGrad)) return true;
  return PyErr_WarnEx(
             PyExc_UserWarning,
             "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
             ".grad attribute won't be populated during autograd.backward(). If you indeed want "
             "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
             "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
             "the leaf Tensor instead.",
             1) == 0;
}
PyObject* get_grad(PyObject* o, void*) {
  if (!warn_of_no_grad(as_tensor(o))) return nullptr;
  if (recorded()) t_recorder->read_grad(as_tensor(o));
  return to_python(Tensor::borrow(as_tensor(o)->grad));
}
int set_grad(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    Tensor t = self_of(o);
    Tensor g;
    if (v && v != Py_None) {
      if (!is_tensor(v))
        type_error("assigned grad expected to be a Tensor or None but got grad of type ",
                   Py_TYPE(v)->tp_name);
      g = self_of(v);
      if (g.is(t)) runtime_error("can't assign Variable as its own grad");
      if (g.dtype() != t.dtype()) {
        runtime_error("attempting to assign a gradient with dtype '", g.dtype(),
                      "' to a tensor with dtype '", t.dtype(), "'");
      }
      if (!(g.shape() == t.shape())) {
        runtime_error("assigned grad has data of a different size: the gradient has shape ",
                      g.shape(), ", the tensor has shape ", t.shape());
      }
    }
    if (recorded()) t_recorder->read_grad(t.get());
    log_change(t.get());
    give_grad(t.get(), std::move(g));
    if (recorded()) t_recorder->set_grad(t.get());
    return 0;
  });
}
PyObject* get_version(PyObject* o, void*) {
  if (as_tensor(o)->flags & kInference) {
    PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return nullptr;
  }
  refuse_outside(as_tensor(o), "_version is read");
  // A base that was given other memory goes on counting for its views.
  const TensorObject* counting = as_tensor(o)->base ? as_tensor(o)->base : as_tensor(o);
  return PyLong_FromUnsignedLong(count_of(counting->storage->version));
}
PyObject* get_base(PyObject* o, void*) {
  refuse_outside(as_tensor(o), "_base is read");
  return to_python(Tensor::borrow(as_tensor(o)->base));
}
PyObject* get_output_nr(PyObject* o, void*) {
  return PyLong_FromUnsignedLong(as_tensor(o)->output_nr);
}
PyObject* get_retains_grad(PyObject* o, void*) {
  return PyBool_FromLong(as_tensor(o)->flags & kRetainsGrad);
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
// `cut` is `t` without its history.
void mark_detached(TensorObject* cut, TensorObject* t, CutReason reason) {
  bool hidden = t_forward_reads && t_forward_reads->note_detached(t);
  mark_cut(cut, t, reason, nullptr);
  if (hidden) set_forward_facts(cut, cut->cut->in_forward, true);
}
// The same memory without history, which remembers where it lost it.
Tensor cut_off(const Tensor& t, CutReason reason) {
  if (Transformed* x = batch_of(t.get())) {
    Level level = x->batch_level;
    return make_batched(cut_off(x->batch, reason), level);
  }
  Tensor cut = alias(t);
  if (needs_grad(t.get())) {
    mark_detached(cut.get(), t.get(), reason);
  } else if (t->cut) {
    pass_cut(cut.get(), t->cut);
  }
  return cut;
}
PyObject* get_data(PyObject* o, void*) {
  if (any_overriding(&o, 1)) return get_overriding("data", o);
  return guard([&] {
    if (batch_of(as_tensor(o)))
      runtime_error("accessing `data` under vmap transform is not allowed; fix: use detach()");
    Tensor data = cut_off(self_of(o), CutReason::Data);
    data.set(kData);
    return to_python(data);
  });
}
int set_data(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    if (!v) runtime_error("Deleting tensor data is not allowed. Delete tensor instead!");
    if (!is_tensor(v))
      type_error("Variable data has to be a tensor, but got ", Py_TYPE(v)->tp_name);
    Tensor t = self_of(o), from = self_of(v);
    if (is_batched(t) || is_batched(from)) {
      runtime_error(
          "mutating directly with `.data` under vmap transform is not allowed; fix: use copy_()");
    }
    if (t.dtype() != from.dtype() && t->grad)
      runtime_error("data set to a tensor with dtype ", from.dtype(), " while grad has ",
                    t.dtype());
    if (t.requires_grad() && !is_differentiable(from.dtype())) {
      runtime_error(
          "data set to a tensor that requires gradients must be floating point or complex dtype, "
          "not ",
          from.dtype());
    }
    refuse_recording("`.data = ` gives a tensor other memory; fix: use copy_()");
    log_change(t.get());
    Tensor fresh = alias(from);
    note_parting(t.get());
    // Whoever saved this tensor has to notice, whatever the versions of the two memories are.
    uint32_t before = t->storage->version;
    uint32_t place = (std::max(fresh->storage->version, before) >> kCountBits) + 1;
    fresh->storage->version = place << kCountBits | count_of(before);
    fresh->storage->changed = SourceLine::here();
    std::swap(t->storage, fresh->storage);
    std::swap(t->data, fresh->data);
    t->dtype = fresh->dtype;
    set_geometry(t.get(), fresh.shape(), fresh.strides());
    return 0;
  });
}

PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "The length of each axis.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of the elements.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of axes.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether operations on this tensor are recorded.", nullptr},
    {"is_leaf", get_is_leaf, nullptr,
     "Whether this tensor was made by the user rather than by a recorded op.", nullptr},
    {"grad_fn", get_grad_fn, nullptr,
     "The node of the graph that made this tensor; None for a leaf.", nullptr},
    {"_grad_fn", get_grad_fn, set_grad_fn, nullptr, nullptr},
    {"grad", get_grad, set_grad, "The gradient gathered by backward; None before.", nullptr},
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"data", get_data, set_data,
     "The same memory without history; changes through it are not counted by `_version`.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was changed in place.", nullptr},
    {"_base", get_base, nullptr, "The tensor this one is a view of, or None.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of grad_fn this is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether a non-leaf keeps its gradient.", nullptr},
    {"is_cuda", get_false, nullptr, "False: adjoint runs on CPUs.", nullptr},
    {"is_sparse", get_false, nullptr, "False: adjoint's tensors are dense.", nullptr},
    {"is_quantized", get_false, nullptr, "False.", nullptr},
    {"is_meta", get_false, nullptr, "False.", nullptr},
    {"is_mkldnn", get_false, nullptr, "False.", nullptr},
    {"is_nested", get_false, nullptr, "False.", nullptr},
    {nullptr}};

// --- methods -------------------------------------------------------------------------------------
// The axis that size() or stride() is asked for; false for all of them.
bool named_axis(const char* method, PyObject* const* args, Py_ssize_t n, PyObject* keywords,
                int64_t* axis) {
  Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  if (n + named > 1) type_error(method, "() takes one dim, but ", n + named, " were given");
  if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "dim") != 0) {
    type_error(method, "() got an unexpected keyword argument '",
               PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, 0)), "'");
  }
  if (n + named == 0 || args[0] == Py_None) return false;
  if (!parse_int(args[0], axis))
    type_error(method, "(): argument 'dim' must be int, not ", Py_TYPE(args[0])->tp_name);
  return true;
}
PyObject* size(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    look_at(t.get());
    int64_t d;
    if (!named_axis("size", args, n, keywords, &d)) return new_size(t.shape());
    if (t.ndim() == 0) index_error("Dimension specified as ", d, " but tensor has no dimensions");
    return PyLong_FromLongLong(t.size(wrap_dim(d, t.ndim())));
  });
}
PyObject* stride(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    look_at(t.get());
    int64_t d;
    if (!named_axis("stride", args, n, keywords, &d)) return to_python(Value(t.strides()));
    return PyLong_FromLongLong(t.stride(wrap_dim(d, t.ndim())));
  });
}
PyObject* numel(PyObject* o, PyObject*) {
  look_at(as_tensor(o));
  return PyLong_FromLongLong(as_tensor(o)->numel);
}
PyObject* dim(PyObject* o, PyObject*) { return get_ndim(o, nullptr); }
PyObject* storage_offset(PyObject* o, PyObject*) {
  refuse_outside(as_tensor(o), "storage_offset() is read");
  return PyLong_FromLongLong(self_of(o).offset());
}
PyObject* data_ptr(PyObject* o, PyObject*) {
  if (batch_of(as_tensor(o)))
    return guard([]() -> PyObject* { refuse_reading_batched("reading the memory of"); });
  refuse_recording("the memory of a tensor is used outside of ops: data_ptr(), storages, pickle");
  return PyLong_FromVoidPtr(as_tensor(o)->numel ? as_tensor(o)->data : nullptr);
}
PyObject* is_contiguous_(PyObject* o, PyObject* args, PyObject* keywords) {
  look_at(as_tensor(o));
  if (!keywords && PyTuple_GET_SIZE(args) == 0)
    return PyBool_FromLong(as_tensor(o)->flags & kContiguous);
  return guard([&]() -> PyObject* {
    static const char* names[] = {"memory_format", nullptr};
    PyObject* given = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$O:is_contiguous", const_cast<char**>(names),
                                     &given))
      throw PythonError();
    MemoryFormat format = memory_format_of(Value::object(given), MemoryFormat::Contiguous);
    if (format == MemoryFormat::Preserve)
      runtime_error("preserve memory format is unsupported by is_contiguous");
    return PyBool_FromLong(lies_in_format(self_of(o), format));
  });
}
PyObject* is_floating_point(PyObject* o, PyObject*) {
  look_at(as_tensor(o));
  return PyBool_FromLong(is_floating(as_tensor(o)->dtype));
}
PyObject* is_complex_(PyObject* o, PyObject*) {
  look_at(as_tensor(o));
  return PyBool_FromLong(is_complex(as_tensor(o)->dtype));
}
PyObject* is_view(PyObject* o, PyObject*) {
  refuse_outside(as_tensor(o), "_is_view() is asked");
  return PyBool_FromLong(as_tensor(o)->base != nullptr);
}

PyObject* item(PyObject* o, PyObject*) {
  TensorObject* t = as_tensor(o);
  if (batch_of(t))
    return guard([]() -> PyObject* { refuse_reading_batched("calling .item() on"); });
  refuse_recording("item() reads a value; fix: go on with the tensor");
  if (t->numel == 1) return item_of(t->data, t->dtype);
  PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
               static_cast<long long>(t->numel));
  return nullptr;
}

Object nested_list(const TensorObject* t, int axis, const char* data, NowAndThen& signals) {
  if (axis == t->ndim) return checked(item_of(data, t->dtype));
  Object list = checked(PyList_New(t->shape[axis]));
  for (int64_t i = 0; i < t->shape[axis]; ++i) {
    signals.check(8);
    const int64_t at = i * t->strides[axis] * static_cast<int64_t>(item_size(t->dtype));
    PyList_SET_ITEM(list.get(), i, nested_list(t, axis + 1, data + at, signals).release());
  }
  return list;
}

// What expands few elements can ask for more lists than there is memory.
void check_list_room(const TensorObject* t) {
  double items = 0, lists = 1;
  for (int i = 0; i < t->ndim; ++i) items += lists *= static_cast<double>(t->shape[i]);
  const auto room = static_cast<double>(memory::total_memory());
  if (items * sizeof(PyObject*) <= room) return;
  runtime_error("tolist(): lists of ", items, " items in all, of a tensor of shape ",
                Span{t->shape, t->ndim}, ", exceed the memory of this machine");
}
PyObject* tolist(PyObject* o, PyObject*) {
  if (batch_of(as_tensor(o)))
    return guard([]() -> PyObject* { refuse_reading_batched("calling .tolist() on"); });
  return guard([&]() -> PyObject* {
    refuse_recording("tolist() reads values; fix: go on with the tensor");
    check_list_room(as_tensor(o));
    Tensor t = self_of(o);  // a second header: a signal handler may change the first
    Tensor seen = on_storage(t->storage, t.shape(), t.strides(), t.offset(), t.dtype());
    NowAndThen signals;
    return nested_list(seen.get(), 0, seen->data, signals).release();
  });
}

PyObject* detach(PyObject* o, PyObject*) {
  if (any_overriding(&o, 1)) return call_overriding_method("detach", o, nullptr, 0, nullptr);
  return guard([&] { return to_python(cut_off(self_of(o), CutReason::Detach)); });
}
PyObject* detach_inplace(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    if (t.is_view()) {
      runtime_error("Can't detach views in-place. Use detach() instead.");
    }
    if (needs_grad(t.get())) {
      refuse_outside(t.get(), "detach_() cuts off the history");
      mark_detached(t.get(), t.get(), CutReason::Detach);
    }
    Py_CLEAR(t->grad_fn);
    t.set(kRequiresGrad, false);
    drop_transformed(t.get());
    return to_python(t);
  });
}
PyObject* requires_grad_(PyObject* o, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"requires_grad", nullptr};
  PyObject* on = Py_True;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:requires_grad_", const_cast<char**>(names),
                                   &on))
    return nullptr;
  if (!PyBool_Check(on)) {
    PyErr_Format(PyExc_TypeError,
                 "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s",
                 Py_TYPE(on)->tp_name);
    return nullptr;
  }
  if (set_requires_grad(o, on, nullptr) < 0) return nullptr;
  Py_INCREF(o);
  return o;
}

// Tensor._make_subclass(cls, data, requires_grad=False): data's memory under another Python type.
PyObject* make_subclass(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"cls", "data", "require_grad", nullptr};
  PyObject *cls, *data;
  int on = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|p:_make_subclass", const_cast<char**>(names),
                                   &cls, &data, &on)) {
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    if (!PyType_Check(cls) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type)) {
      type_error("_make_subclass(): cls must be a subclass of Tensor");
    }
    if (!is_tensor(data))
      type_error("_make_subclass(): data must be a Tensor, not ", Py_TYPE(data)->tp_name);
    Tensor same = alias(self_of(data));
    if (same.has(kData)) {  // Parameter(x.data) is a tensor of its own, with every check
      same.set(kData, false);
      same->storage->counts_data = true;
    }
    Tensor made = moved_to(reinterpret_cast<PyTypeObject*>(cls), same);
    auto* object = reinterpret_cast<PyObject*>(made.get());
    if (Cut* cut = as_tensor(data)->cut) pass_cut(made.get(), cut);
    if (on) checked(set_requires_grad(object, Py_True, nullptr));
    return reinterpret_cast<PyObject*>(made.release());
  });
}

PyMethodDef methods[] = {
    {"size", reinterpret_cast<PyCFunction>(size), METH_FASTCALL | METH_KEYWORDS,
     "size(dim=None): the shape, or one length of it."},
    {"stride", reinterpret_cast<PyCFunction>(stride), METH_FASTCALL | METH_KEYWORDS,
     "stride(dim=None): steps between elements along each axis."},
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"nelement", numel, METH_NOARGS, "The number of elements."},
    {"dim", dim, METH_NOARGS, "The number of axes."},
    {"ndimension", dim, METH_NOARGS, "The number of axes."},
    {"element_size", [](PyObject* o, PyObject*) { return get_itemsize(o, nullptr); }, METH_NOARGS,
     "Bytes per element."},
    {"storage_offset", storage_offset, METH_NOARGS, "Elements before the first, in the storage."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"is_contiguous", reinterpret_cast<PyCFunction>(is_contiguous_), METH_VARARGS | METH_KEYWORDS,
     "is_contiguous(*, memory_format=contiguous_format): whether elements lie in this order (by "
     "default row-major) without gaps."},
    {"is_floating_point", is_floating_point, METH_NOARGS, "Whether the dtype is a real float."},
    {"is_complex", is_complex_, METH_NOARGS, "Whether the dtype is complex."},
    {"_is_view", is_view, METH_NOARGS, "Whether this is a view."},
    {"item", item, METH_NOARGS, "The only element as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists."},
    {"detach", detach, METH_NOARGS, "The same memory without history."},
    {"detach_", detach_inplace, METH_NOARGS, "Drops this tensor's history."},
    {"requires_grad_", reinterpret_cast<PyCFunction>(requires_grad_), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True): sets the flag and returns the tensor."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(make_subclass),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, "Data's memory under another Python type."},
    {nullptr}};

Py_ssize_t length(PyObject* o) {
  look_at(as_tensor(o));
  if (as_tensor(o)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return as_tensor(o)->shape[0];
}

PyObject* repr(PyObject* o) {
  refuse_recording("a tensor is printed, or made into text; fix: print after the call");
  static PyObject* function = nullptr;
  if (!function) {
    Object module = Object::steal(PyImport_ImportModule("adjoint._tensor.printing"));
    if (!module) return nullptr;
    function = PyObject_GetAttrString(module.get(), "tensor_repr");
    if (!function) return nullptr;
  }
  return PyObject_CallOneArg(function, o);
}

// x[i] by way of __torch_function__ where x's class wants that.
PyObject* get_item_of_class(PyObject* o, PyObject* index) {
  if (!g_subclasses || !is_overriding(o)) return get_item(o, index);
  return guard([&] {
    auto* type = reinterpret_cast<PyObject*>(tensor_type);
    Object method = checked(PyObject_GetAttrString(type, "__getitem__"));
    PyObject* pair[2] = {o, index};
    return call_overriding(method.get(), pair, 2, nullptr);
  });
}

PySequenceMethods sequence;
PyMappingMethods mapping;

}  // namespace

void extend_tensor_type(PyMethodDef* more_methods, PyGetSetDef* more_attributes) {
  for (PyMethodDef* m = more_methods; m && m->ml_name; ++m) {
    Object f = checked(m->ml_flags & METH_STATIC ? PyCFunction_New(m, nullptr)
                                                 : PyDescr_NewMethod(tensor_type, m));
    if (m->ml_flags & METH_STATIC) f = checked(PyStaticMethod_New(f.get()));
    checked(PyDict_SetItemString(tensor_type->tp_dict, m->ml_name, f.get()));
  }
  for (PyGetSetDef* a = more_attributes; a && a->name; ++a) {
    Object d = checked(PyDescr_NewGetSet(tensor_type, a));
    checked(PyDict_SetItemString(tensor_type->tp_dict, a->name, d.get()));
  }
  PyType_Modified(tensor_type);
}

void add_functions(PyObject* module, PyMethodDef* table) {
  checked(PyModule_AddFunctions(module, table));
}

void add_tensor_type(PyObject* module) {
  fill_number_slots();
  PyTypeObject& t = g_type;
  t.tp_name = "adjoint.Tensor";
  t.tp_basicsize = sizeof(TensorObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  t.tp_dealloc = dealloc;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_finalize = finalize;
  t.tp_weaklistoffset = offsetof(TensorObject, weakrefs);
  t.tp_dictoffset = offsetof(TensorObject, dict);
  t.tp_setattro = set_tensor_attribute;
  t.tp_getset = attributes;
  t.tp_methods = methods;
  t.tp_as_number = &tensor_number_slots;
  fill_buffer_slots();
  t.tp_as_buffer = &tensor_buffer_slots;
  t.tp_new = new_tensor;
  sequence.sq_length = length;
  sequence.sq_contains = contains;
  t.tp_as_sequence = &sequence;
  mapping.mp_length = length;
  mapping.mp_subscript = get_item_of_class;
  mapping.mp_ass_subscript = set_item;
  t.tp_as_mapping = &mapping;
  t.tp_iter = iterate;
  t.tp_richcompare = compare_tensors;
  t.tp_hash = hash_tensor;
  t.tp_repr = repr;
  t.tp_doc = "A multi-dimensional array that remembers how it was computed.";
  tensor_type = &t;
  checked(PyType_Ready(&t));
  // Programs add methods to Tensor, and wrap those it has. Python lets them, and keeps the slots of
  // operators in step, if the type is not marked as immutable, as all that are no heap types are.
  t.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(&t);
  checked(PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(&t)));
}

}  // namespace adjoint
