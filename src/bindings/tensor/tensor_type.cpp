// The Tensor type: life cycle, attributes, a few methods. Ops become methods in op_function.cpp;
// histories (requires_grad, grad, detach), indexing, NumPy and constructors have files of their own
// and join through extend_tensor_type.
#include "bindings/signatures.h"
#include "bindings/program/program.h"
#include "bindings/tensor/indexing.h"
#include "bindings/tensor/subclass.h"
#include "bindings/tensor/tensor_class.h"
#include "dispatch/program_recorder.h"
#include "kernels/convert.h"
#include "ops/creation/memory_format.h"
#include "python/interrupt.h"
#include "tensor/fresh.h"
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
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "The length of each axis.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of the elements.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of axes.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"is_cuda", get_false, nullptr, "False: adjoint runs on CPUs.", nullptr},
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
// Raises for a sparse tensor, whose elements are not in its memory.
bool is_refused(PyObject* o, const char* what) {
  return is_sparse(as_tensor(o)) && guard_int([&]() -> int { refuse_sparse(as_tensor(o), what); });
}
PyObject* data_ptr(PyObject* o, PyObject*) {
  if (is_refused(o, "data_ptr()")) return nullptr;
  if (batch_of(as_tensor(o)))
    return guard([]() -> PyObject* { refuse_reading_batched("reading the memory of"); });
  refuse_recording("the memory of a tensor is used outside ops: data_ptr(), storages, pickle");
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
    if (format == MemoryFormat::Preserve) format = MemoryFormat::Contiguous;
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
  if (t->numel == 1 && is_refused(o, "item()")) return nullptr;
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
    require_strided(as_tensor(o), "tolist()");
    check_list_room(as_tensor(o));
    Tensor t = self_of(o);  // a second header: a signal handler may change the first
    Tensor seen = on_storage(t->storage, t.shape(), t.strides(), t.offset(), t.dtype());
    NowAndThen signals;
    return nested_list(seen.get(), 0, seen->data, signals).release();
  });
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
     "is_contiguous(*, memory_format=None): whether elements lie in this order (by "
     "default row-major) without gaps."},
    {"is_floating_point", is_floating_point, METH_NOARGS, "Whether the dtype is a real float."},
    {"is_complex", is_complex_, METH_NOARGS, "Whether the dtype is complex."},
    {"_is_view", is_view, METH_NOARGS, "Whether this is a view."},
    {"item", item, METH_NOARGS, "The only element as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(make_subclass),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False): data's memory under another Python type."},
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

// x[i] = v, the same way; deleting has no method to ask for.
int set_item_of_class(PyObject* o, PyObject* index, PyObject* value) {
  if (!g_subclasses || !value || !(is_overriding(o) || is_overriding(value)))
    return set_item(o, index, value);
  return guard_int([&] {
    auto* type = reinterpret_cast<PyObject*>(tensor_type);
    Object method = checked(PyObject_GetAttrString(type, "__setitem__"));
    PyObject* three[3] = {o, index, value};
    checked(call_overriding(method.get(), three, 3, nullptr));
    return 0;
  });
}

PySequenceMethods sequence;
PyMappingMethods mapping;

}  // namespace

void extend_tensor_type(PyMethodDef* more_methods, PyGetSetDef* more_attributes) {
  add_signatures(more_methods, true);
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
  add_signatures(table, false);
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
  add_signatures(methods, true);
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
  mapping.mp_ass_subscript = set_item_of_class;
  t.tp_as_mapping = &mapping;
  t.tp_iter = iterate;
  t.tp_richcompare = compare_tensors;
  t.tp_hash = hash_tensor;
  t.tp_repr = repr;
  t.tp_doc = "A multi-dimensional array that remembers how it was computed.";
  tensor_type = &t;
  show_as_torchs(t);
  checked(PyType_Ready(&t));
  // Programs add methods to Tensor, and wrap those it has. Python lets them, and keeps the slots of
  // operators in step, if the type is not marked as immutable, as all that are no heap types are.
  t.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(&t);
  checked(PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(&t)));
}

}  // namespace adjoint
