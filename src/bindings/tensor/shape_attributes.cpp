// The attributes T, mT, H, mH, and methods that give a tensor another shape in place: transpose_,
// squeeze_ and their like.
#include "bindings/python.h"
#include "bindings/tensor/subclass.h"
#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "dispatch/view.h"
#include "graph/back_links.h"
#include "tensor/geometry.h"
#include "transforms/batched.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

Tensor self_of(PyObject* o) { return Tensor::borrow(as_tensor(o)); }

PyObject* get_T(PyObject* o, void*) {
  if (any_overriding(&o, 1)) return get_overriding("T", o);
  return guard([&] {
    Tensor t = self_of(o);
    Dims order(t.ndim());
    for (int i = 0; i < t.ndim(); ++i) order[i] = t.ndim() - 1 - i;
    return to_python(op<"permute">(t, order));
  });
}

Tensor matrix_transpose(const Tensor& t, const char* name) {
  if (t.ndim() == 1) {
    runtime_error("tensor.", name,
                  " is only supported on matrices or batches of matrices. Got 1-D tensor.");
  }
  return t.ndim() == 0 ? t : op<"transpose">(t, -2, -1).tensor();
}
PyObject* get_mT(PyObject* o, void*) {
  if (any_overriding(&o, 1)) return get_overriding("mT", o);
  return guard([&] { return to_python(matrix_transpose(self_of(o), "mT")); });
}
PyObject* get_mH(PyObject* o, void*) {
  return guard([&] { return to_python(op<"conj">(matrix_transpose(self_of(o), "mH"))); });
}
PyObject* get_H(PyObject* o, void*) {
  return guard([&] {
    Tensor t = self_of(o);
    if (t.ndim() != 2 && t.ndim() != 0) {
      runtime_error("tensor.H is only supported on matrices (2-D tensors). Got ", t.ndim(),
                    "-D tensor.");
    }
    return to_python(op<"conj">(matrix_transpose(t, "H")));
  });
}

PyGetSetDef attributes[] = {
    {"T", get_T, nullptr, "A view with the axes in reverse order.", nullptr},
    {"mT", get_mT, nullptr, "A view with the last two axes exchanged.", nullptr},
    {"H", get_H, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"mH", get_mH, nullptr, "The conjugate of mT.", nullptr},
    {nullptr}};

// --- in place ------------------------------------------------------------------------------------
// `seen`, a view of `t` with its history, becomes what `t` itself is.
PyObject* become(const Tensor& t, const Tensor& seen) {
  refuse_recording("a tensor is given another shape in place; fix: use the form without the _");
  require_strided(t.get(), "another shape in place");
  if (seen->storage != t->storage || seen.dtype() != t.dtype())
    runtime_error("a method that gives a tensor another shape returned other memory than its own");
  t->data = seen->data;
  set_geometry(t.get(), seen.shape(), seen.strides());
  bool current = !stale_view(t.get());
  bump_version(t);
  if (seen->grad_fn) {
    note_new_history(t.get(), 1);
    set_history(t, seen->grad_fn, seen->output_nr);
  }
  share_tangents(t, seen);
  if (t.is_view() && current) t->view_version = t->storage->version;
  return to_python(t);
}

// Calls the op of that name with the method's arguments and keeps its geometry.
PyObject* in_place(const char* name, PyObject* o, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    bool recording = grad_enabled() && needs_grad(t.get());
    check_new_geometry(t, recording, (std::string(name) + "_").c_str());
    Object method = checked(PyObject_GetAttrString(o, name));
    Object seen = checked(PyObject_Call(method.get(), args, keywords));
    if (!is_tensor(seen.get()))
      type_error(name, "() returned ", Py_TYPE(seen.get())->tp_name, ", not a Tensor");
    return become(t, self_of(seen.get()));
  });
}

// resize_, without its checks of arguments (python/adjoint/_tensor/inplace_methods.py): elements keep
// their place in memory, also when they move to a larger one.
PyObject* resize_to(PyObject* o, PyObject* sizes) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    Dims shape;
    if (!parse_ints(sizes, &shape)) type_error("resize_(): the size must be a tuple of ints");
    require_strided(t.get(), "resize_()");
    if (is_batched(t)) {
      runtime_error(
          "resize_() is not supported inside of vmap: all samples share one memory. (fix: use "
          "reshape(), or nn.functional.pad() for a larger tensor)");
    }
    refuse_recording("resize_() gives a tensor another shape in place; fix: make a new tensor");
    const size_t had = room(t.get());
    bool grows = static_cast<size_t>(checked_numel(shape, t.itemsize())) * t.itemsize() > had;
    if (grows && t.is_view()) {
      runtime_error(
          "resize_(): a view cannot grow beyond the memory it is a view of. (fix: resize a "
          "clone())");
    }
    Dims line{static_cast<int64_t>(had / t.itemsize())};
    Tensor before = on_storage(t->storage, line, Dims{1}, t.offset(), t.dtype());
    resize(t, shape);
    if (grows) std::memcpy(t->data, before.bytes(), had);
    bump_version(t);
    return to_python(t);
  });
}

template <OpName Name>
PyCFunction method() {
  PyCFunctionWithKeywords f = [](PyObject* o, PyObject* args, PyObject* keywords) {
    return in_place(Name.text, o, args, keywords);
  };
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

constexpr int kCall = METH_VARARGS | METH_KEYWORDS;
PyMethodDef methods[] = {
    {"transpose_", method<"transpose">(), kCall, "transpose_(dim0, dim1): transpose, in place."},
    {"swapaxes_", method<"swapaxes">(), kCall, "swapaxes_(axis0, axis1): swapaxes, in place."},
    {"swapdims_", method<"swapdims">(), kCall, "swapdims_(dim0, dim1): swapdims, in place."},
    {"t_", method<"t">(), kCall, "t_(): t, in place."},
    {"squeeze_", method<"squeeze">(), kCall, "squeeze_(*dim): squeeze, in place."},
    {"unsqueeze_", method<"unsqueeze">(), kCall, "unsqueeze_(dim): unsqueeze, in place."},
    {"as_strided_", method<"as_strided">(), kCall,
     "as_strided_(size, stride, storage_offset=None): as_strided, in place."},
    {"_resize_to", resize_to, METH_O, "resize_, unchecked."},
    {nullptr}};

}  // namespace

void add_shape_attributes() { extend_tensor_type(methods, attributes); }

}  // namespace adjoint
