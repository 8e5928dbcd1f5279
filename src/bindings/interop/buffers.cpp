// Memory shared with other Python objects through the buffer protocol: NumPy arrays, bytes,
// memoryviews. DLPack has a file of its own.
//
// Going out, a tensor that requires grad is refused (a write nobody recorded would make its
// gradient wrong) and read-only memory stays read-only. The exported view counts as an owner of the
// storage, so that assigning `.data` cannot pull the memory from under it.
#include "dispatch/program_recorder.h"
#include "transforms/batched.h"
#include <memory>

#include "bindings/python.h"
#include "tensor/checked.h"
#include "tensor/donated_arrays.h"

namespace adjoint {

PyBufferProcs tensor_buffer_slots;

namespace {

// --- out -----------------------------------------------------------------------------------------
const char* format_of(DType d) {
  switch (d) {
    case DType::Bool:
      return "?";
    case DType::UInt8:
      return "B";
    case DType::UInt16:
      return "H";
    case DType::UInt32:
      return "I";
    case DType::UInt64:
      return sizeof(long) == 8 ? "L" : "Q";
    case DType::Int8:
      return "b";
    case DType::Int16:
      return "h";
    case DType::Int32:
      return "i";
    case DType::Int64:
      return sizeof(long) == 8 ? "l" : "q";
    case DType::Float16:
      return "e";
    case DType::Float32:
      return "f";
    case DType::Float64:
      return "d";
    case DType::Complex64:
      return "Zf";
    case DType::Complex128:
      return "Zd";
    default:
      return nullptr;  // bfloat16 has no code
  }
}

// What an exported view holds: the storage, then shape and strides in bytes.
struct Exported {
  Storage* storage;
  Py_ssize_t dims[2 * kMaxDims];
};

int refuse(Py_buffer* view, const char* why) {
  view->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

bool column_major(const TensorObject* t) {
  int64_t step = 1;
  for (int i = 0; i < t->ndim; ++i) {
    if (t->shape[i] != 1 && t->strides[i] != step) return false;
    step *= t->shape[i];
  }
  return true;
}

int get_buffer(PyObject* o, Py_buffer* view, int flags) {
  if (batch_of(as_tensor(o))) {
    return guard_int([]() -> int { refuse_reading_batched("reading the memory of"); });
  }
  refuse_recording(
      "the values of a tensor go to NumPy, or another library; fix: use adjoint's functions, or "
      "wrap the code with adjoint.external");
  TensorObject* t = as_tensor(o);
  if (is_sparse(t))
    return refuse(view,
                  "a sparse tensor has no buffer; use .to_dense(), or its values and indices");
  const char* format = format_of(t->dtype);
  if (!format) return refuse(view, "bfloat16 has no buffer format; use .float() first");
  if (needs_grad(t))
    return refuse(view, "this tensor requires grad; share tensor.detach() instead");
  bool rows = t->flags & kContiguous, columns = column_major(t);
  bool read_only = t->storage->read_only;
  if (read_only && (flags & PyBUF_WRITABLE))
    return refuse(view, "the tensor's memory is read-only");
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !rows)
    return refuse(view, "the tensor is not contiguous; use .contiguous()");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !columns)
    return refuse(view, "the tensor is not contiguous in Fortran's order");
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !rows && !columns)
    return refuse(view, "the tensor is not contiguous; use .contiguous()");
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !rows)
    return refuse(view, "the tensor is not contiguous; use .contiguous()");
  auto* e = static_cast<Exported*>(PyMem_Malloc(sizeof(Exported)));
  if (!e) {
    PyErr_NoMemory();
    return -1;
  }
  e->storage = t->storage;
  retain(e->storage);
  auto item = static_cast<Py_ssize_t>(item_size(t->dtype));
  for (int i = 0; i < t->ndim; ++i) {
    e->dims[i] = t->shape[i];
    e->dims[kMaxDims + i] = t->strides[i] * item;
  }
  Py_INCREF(o);
  view->obj = o;
  view->buf = t->data;
  view->len = t->numel * item;
  view->readonly = read_only;
  view->itemsize = item;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->ndim = t->ndim;
  view->shape = flags & PyBUF_ND ? e->dims : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->dims + kMaxDims : nullptr;
  view->suboffsets = nullptr;
  view->internal = e;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  auto* e = static_cast<Exported*>(view->internal);
  drop(e->storage);
  PyMem_Free(e);
}

// --- in ------------------------------------------------------------------------------------------
// The dtype of a format code of the struct module, with the letter Z for complex.
DType dtype_of_format(const char* format, Py_ssize_t size) {
  std::string f = format ? format : "B";
  if (!f.empty() && (f[0] == '>' || f[0] == '!')) {
    if (size > 1) {
      value_error(
          "given numpy array has byte order different from the native byte order. Conversion "
          "between byte orders is currently not supported.");
    }
    f.erase(0, 1);
  } else if (!f.empty() && (f[0] == '@' || f[0] == '=' || f[0] == '<')) {
    f.erase(0, 1);
  }
  if (f == "?") return DType::Bool;
  if (f == "Zf") return DType::Complex64;
  if (f == "Zd") return DType::Complex128;
  if (f == "e") return DType::Float16;
  if (f == "f") return DType::Float32;
  if (f == "d") return DType::Float64;
  if (f == "B") return DType::UInt8;
  if (f.size() == 1 && std::strchr("bhilqn", f[0])) {
    if (size == 1) return DType::Int8;
    if (size == 2) return DType::Int16;
    if (size == 4) return DType::Int32;
    if (size == 8) return DType::Int64;
  }
  if (f.size() == 1 && std::strchr("HILQN", f[0])) {
    if (size == 2) return DType::UInt16;
    if (size == 4) return DType::UInt32;
    if (size == 8) return DType::UInt64;
  }
  type_error("can't convert elements of format '", f,
             "'. The only supported types are: float64, float32, float16, complex64, complex128, "
             "int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.");
}

// A Py_buffer that is released unless a storage takes it over.
class View {
 public:
  View(PyObject* o, int flags) {
    if (PyObject_GetBuffer(o, view_.get(), flags | PyBUF_WRITABLE) < 0) {
      PyErr_Clear();
      checked(PyObject_GetBuffer(o, view_.get(), flags));
    }
    held_ = true;
  }
  ~View() {
    if (held_) PyBuffer_Release(view_.get());
  }
  View(const View&) = delete;
  Py_buffer* operator->() { return view_.get(); }
  Storage* storage(char* data, size_t bytes) {
    Storage* s = foreign_storage(data, bytes, release_shared, view_.get());
    s->read_only = view_->readonly;
    view_.release();
    held_ = false;
    return s;
  }

 private:
  std::unique_ptr<Py_buffer> view_ = std::make_unique<Py_buffer>();
  bool held_ = false;
};

}  // namespace

namespace {

void refuse_foreign() {
  refuse_recording(
      "a tensor is made on memory of an array or a buffer, which may change unseen; fix: make it "
      "before the call, and pass it as an argument");
}

}  // namespace

Tensor tensor_on_buffer(PyObject* o) {
  refuse_foreign();
  View view(o, PyBUF_RECORDS_RO);
  DType d = dtype_of_format(view->format, view->itemsize);
  Dims shape(view->ndim);
  for (int i = 0; i < view->ndim; ++i) shape[i] = view->shape[i];
  auto bytes = static_cast<int64_t>(item_size(d));
  if (checked_numel(shape, item_size(d)) == 0) bytes = 0;
  Dims strides = contiguous_strides(shape);
  for (int i = 0; i < view->ndim && view->strides; ++i) {  // arrays of ctypes have none
    if (view->strides[i] < 0) {
      value_error(
          "At least one stride in the given numpy array is negative, and tensors with negative "
          "strides are not currently supported. (You can probably work around this by making a "
          "copy of your array with array.copy().)");
    }
    if (shape[i] > 1 && view->strides[i] % view->itemsize) {
      value_error("given numpy array strides not a multiple of the element byte size: stride ",
                  view->strides[i], " of axis ", i, " for elements of ", view->itemsize,
                  " bytes. Copy the array with array.copy().");
    }
    strides[i] = view->strides[i] / view->itemsize;
  }
  const auto item = static_cast<int64_t>(item_size(d));
  for (int i = 0; bytes && i < view->ndim; ++i)
    bytes = checked_offset(bytes, shape[i] - 1, checked_mul(strides[i], item));
  Storage* s = view.storage(static_cast<char*>(view->buf), bytes);
  Tensor t = on_storage(s, shape, strides, 0, d);
  drop(s);
  return t;
}

namespace {

// _from_buffer(object)
PyObject* from_buffer(PyObject*, PyObject* o) {
  return guard([&] { return to_python(tensor_on_buffer(o)); });
}

// _adopt_buffer(array): of an array that the caller holds alone, owns and lets go of.
PyObject* adopt_buffer(PyObject*, PyObject* o) {
  return guard([&] {
    Tensor t = tensor_on_buffer(o);
    if (!t->storage->read_only) t->storage->release = release_adopted;
    return to_python(t);
  });
}

// _frombuffer(buffer, dtype, count, offset)
PyObject* from_bytes(PyObject*, PyObject* args) {
  PyObject *o, *dtype;
  Py_ssize_t count, offset;
  if (!PyArg_ParseTuple(args, "OOnn", &o, &dtype, &count, &offset)) return nullptr;
  return guard([&]() -> PyObject* {
    DType d;
    if (!parse_dtype(dtype, &d))
      type_error("frombuffer(): argument 'dtype' must be torch.dtype, not ",
                 Py_TYPE(dtype)->tp_name);
    refuse_foreign();
    if (!PyObject_CheckBuffer(o)) value_error("object does not implement Python buffer protocol.");
    View view(o, PyBUF_SIMPLE);
    auto size = static_cast<Py_ssize_t>(item_size(d));
    Py_ssize_t length = view->len;
    if (length == 0 || count == 0) {
      value_error("both buffer length (", length, ") and count (", count, ") must not be 0");
    }
    if (offset < 0 || offset >= length) {
      value_error("offset (", offset,
                  " bytes) must be non-negative and no greater than buffer length (", length,
                  " bytes) minus 1");
    }
    if (count < 0 && (length - offset) % size) {
      value_error("buffer length (", length - offset, " bytes) after offset (", offset,
                  " bytes) must be a multiple of element size (", size, ")");
    }
    if (count < 0) count = (length - offset) / size;
    if (count > (length - offset) / size) {
      value_error("requested buffer length (", count, " * ", size, " bytes) after offset (", offset,
                  " bytes) must not be greater than actual buffer length (", length, " bytes)");
    }
    char* data = static_cast<char*>(view->buf) + offset;
    Storage* s = view.storage(data, count * size);
    Tensor t = on_storage(s, Dims{count}, Dims{1}, 0, d);
    drop(s);
    return to_python(t);
  });
}

// --- whole storages: what copying and saving need ------------------------------------------------
Tensor tensor_argument(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, not ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
}

// _to_bytes(tensor): the elements in row-major order.
PyObject* to_bytes(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    refuse_recording("the values of a tensor are made into bytes (save, pickle)");
    require_strided(tensor_argument(o).get(), "reading the memory");
    Tensor t = contiguous(tensor_argument(o));
    return PyBytes_FromStringAndSize(t->data, t.numel() * static_cast<Py_ssize_t>(t.itemsize()));
  });
}

// _storage(tensor): (address, bytes) of the memory behind a tensor.
PyObject* storage_of(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_argument(o);
    require_strided(t.get(), "asking for the storage");
    return Py_BuildValue("NN", PyLong_FromVoidPtr(t->storage->data),
                         PyLong_FromSize_t(t->storage->bytes));
  });
}

// _whole(tensor): all of its storage as one row of bytes, sharing the memory.
PyObject* whole(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_argument(o);
    require_strided(t.get(), "asking for the storage");
    refuse_recording("the memory behind a tensor is used (deepcopy, storages); fix: use clone()");
    return to_python(on_storage(t->storage, Dims{static_cast<int64_t>(t->storage->bytes)}, Dims{1},
                                0, DType::UInt8));
  });
}

// _on_storage(tensor, dtype, size, stride, offset): another geometry on a tensor's storage.
PyObject* seen_as(PyObject*, PyObject* args) {
  PyObject *o, *dtype, *size, *stride;
  long long offset;
  if (!PyArg_ParseTuple(args, "OOOOL", &o, &dtype, &size, &stride, &offset)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor t = tensor_argument(o);
    require_strided(t.get(), "asking for the storage");
    refuse_recording("the memory behind a tensor is used (deepcopy, storages); fix: use clone()");
    DType d;
    Dims shape, strides;
    if (!parse_dtype(dtype, &d) || !parse_ints(size, &shape) || !parse_ints(stride, &strides))
      type_error("expected a dtype, a size and strides");
    for (int64_t stride : strides) {
      if (stride < 0) runtime_error("negative strides are not supported: ", strides);
    }
    return to_python(on_storage(t->storage, shape, strides, offset, d));
  });
}

PyMethodDef functions[] = {
    {"_from_buffer", from_buffer, METH_O, "The memory of an array, shared."},
    {"_adopt_buffer", adopt_buffer, METH_O, "The memory of an array that nobody else holds."},
    {"_frombuffer", from_bytes, METH_VARARGS, "Bytes seen as a row of elements, shared."},
    {"_to_bytes", to_bytes, METH_O, "The elements in row-major order."},
    {"_storage", storage_of, METH_O, "Address and length of the memory behind a tensor."},
    {"_whole", whole, METH_O, "All of a tensor's storage, as bytes."},
    {"_on_storage", seen_as, METH_VARARGS, "Another geometry on a tensor's storage."},
    {nullptr}};

}  // namespace

void fill_buffer_slots() {
  tensor_buffer_slots.bf_getbuffer = get_buffer;
  tensor_buffer_slots.bf_releasebuffer = release_buffer;
}
void add_buffers(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
