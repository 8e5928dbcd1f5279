// DLPack, both ways, versioned and not: memory shared with any array library, without a copy.
//
// The structs below are the layout of the DLPack specification (version 1.0).
#include <memory>

#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "tensor/checked.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

struct DLDevice {
  int32_t type;
  int32_t id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLVersion {
  uint32_t major, minor;
};
struct DLManagedVersioned {
  DLVersion version;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr int32_t kCpu = 1;
enum Code : uint8_t { Int = 0, UInt = 1, Float = 2, BFloat = 4, Complex = 5, Bool = 6 };

[[noreturn]] void buffer_error(const std::string& why) {
  PyErr_SetString(PyExc_BufferError, why.c_str());
  throw PythonError{};
}

// --- out -----------------------------------------------------------------------------------------
DLDataType code_of(DType d) {
  auto bits = static_cast<uint8_t>(8 * item_size(d));
  if (d == DType::Bool) return {Bool, bits, 1};
  if (d == DType::UInt8 || is_wide_unsigned(d)) return {UInt, bits, 1};
  if (d == DType::BFloat16) return {BFloat, bits, 1};
  return {static_cast<uint8_t>(is_complex(d) ? Complex : is_floating(d) ? Float : Int), bits, 1};
}

template <class M>
struct Exported {
  M managed;
  Storage* storage;
  int64_t dims[2 * kMaxDims];
};

// The consumer may let go on any thread; storage is counted under the GIL.
template <class M>
void release_exported(M* m) {
  auto* e = static_cast<Exported<M>*>(m->context);
  PyGILState_STATE state = PyGILState_Ensure();
  drop(e->storage);
  PyGILState_Release(state);
  delete e;
}

template <class M>
M* exported(const Tensor& t) {
  if (is_batched(t)) refuse_reading_batched("reading the memory of");
  refuse_recording("the memory of a tensor goes to another library (DLPack)");
  auto e = std::make_unique<Exported<M>>();
  DLTensor& d = e->managed.tensor;
  d.data = t->data;
  d.device = {kCpu, 0};
  d.ndim = t.ndim();
  d.dtype = code_of(t.dtype());
  std::copy_n(t->shape, t.ndim(), e->dims);
  std::copy_n(t->strides, t.ndim(), e->dims + kMaxDims);
  d.shape = e->dims;
  d.strides = e->dims + kMaxDims;
  d.byte_offset = 0;
  retain(t->storage);
  e->storage = t->storage;
  e->managed.context = e.get();
  e->managed.deleter = release_exported<M>;
  return &e.release()->managed;
}

template <class M>
void free_unused(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // consumed: it has another name now
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  m->deleter(m);
}

template <class M>
PyObject* capsule_of(M* m, const char* name, PyCapsule_Destructor destructor) {
  PyObject* c = PyCapsule_New(m, name, destructor);
  if (!c) m->deleter(m);
  return c;
}

// _to_dlpack(tensor, versioned, copied)
PyObject* to_dlpack(PyObject*, PyObject* args) {
  PyObject* o;
  int versioned, copied;
  if (!PyArg_ParseTuple(args, "Opp", &o, &versioned, &copied)) return nullptr;
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("expected a Tensor, not ", Py_TYPE(o)->tp_name);
    Tensor t = Tensor::borrow(as_tensor(o));
    if (is_sparse(t)) buffer_error("Can't export sparse tensors, use tensor.to_dense()");
    if (needs_grad(t.get()))
      buffer_error("Can't export tensors that require gradient, use tensor.detach()");
    if (versioned) {
      auto* m = exported<DLManagedVersioned>(t);
      m->version = {1, 0};
      m->flags = (t->storage->read_only ? kReadOnly : 0) | (copied ? kCopied : 0);
      return capsule_of(m, "dltensor_versioned", [](PyObject* c) {
        free_unused<DLManagedVersioned>(c, "dltensor_versioned");
      });
    }
    if (t->storage->read_only)
      buffer_error("read-only memory can only be exported by version 1.0 of DLPack or later");
    return capsule_of(exported<DLManaged>(t), "dltensor",
                      [](PyObject* c) { free_unused<DLManaged>(c, "dltensor"); });
  });
}

// --- in ------------------------------------------------------------------------------------------
DType dtype_of(DLDataType t) {
  if (t.lanes == 1) {
    for (int i = 0; i < kDTypes; ++i) {
      DLDataType have = code_of(static_cast<DType>(i));
      if (have.code == t.code && have.bits == t.bits) return static_cast<DType>(i);
    }
  }
  buffer_error(text("from_dlpack: unsupported element type: code ", int(t.code), ", ", int(t.bits),
                    " bits, ", t.lanes, " lanes"));
}

template <class M>
Tensor imported(M* m, bool read_only) {
  const DLTensor& d = m->tensor;
  if (d.device.type != kCpu)
    buffer_error(text("from_dlpack: the array is on device type ", d.device.type,
                      "; adjoint computes on the CPU only"));
  if (d.ndim < 0 || d.ndim > kMaxDims)
    buffer_error(text("from_dlpack: the array has ", d.ndim, " axes"));
  DType dtype = dtype_of(d.dtype);
  Dims shape(Span{d.shape, d.ndim});
  int64_t n = checked_numel(shape, item_size(dtype)), extent = n ? 1 : 0;
  Dims strides = d.strides ? Dims(Span{d.strides, d.ndim}) : contiguous_strides(shape);
  for (int i = 0; n && i < d.ndim; ++i) {
    if (strides[i] < 0 && shape[i] > 1)
      buffer_error("from_dlpack: negative strides are not supported; copy the array first");
    if (shape[i] == 1) strides[i] = std::max<int64_t>(strides[i], 0);
    extent = checked_offset(extent, shape[i] - 1, strides[i]);
  }
  Storage* s = foreign_storage(
      static_cast<char*>(d.data) + d.byte_offset,
      checked_mul(extent, static_cast<int64_t>(item_size(dtype))),
      [](void* owner) {
        auto* managed = static_cast<M*>(owner);
        if (managed->deleter) managed->deleter(managed);
      },
      m);
  s->read_only = read_only;
  Tensor t = on_storage(s, shape, strides, 0, dtype);
  drop(s);
  return t;
}

// _from_dlpack(capsule)
PyObject* from_dlpack(PyObject*, PyObject* capsule) {
  return guard([&]() -> PyObject* {
    refuse_recording(
        "a tensor is made on memory of another library, which may change unseen; fix: make it "
        "before the call, and pass it as an argument");
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
      auto* m =
          static_cast<DLManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      if (m->version.major > 1)
        buffer_error(text("from_dlpack: version ", m->version.major, " is newer than 1"));
      Tensor t = imported(m, m->flags & kReadOnly);
      PyCapsule_SetName(capsule, "used_dltensor_versioned");
      return to_python(t);
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
      Tensor t =
          imported(static_cast<DLManaged*>(PyCapsule_GetPointer(capsule, "dltensor")), false);
      PyCapsule_SetName(capsule, "used_dltensor");
      return to_python(t);
    }
    runtime_error(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
        "once, so you might have already constructed a tensor from it once.");
  });
}

PyMethodDef functions[] = {
    {"_to_dlpack", to_dlpack, METH_VARARGS, "A capsule with the tensor's memory."},
    {"_from_dlpack", from_dlpack, METH_O, "A tensor on the memory in a capsule."},
    {nullptr}};

}  // namespace

void add_dlpack(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
