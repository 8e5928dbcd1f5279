// The tensor: a CPython object that the core holds through a counted handle.
//
//   TensorObject   the header: geometry, storage, history. Its reference count is Python's.
//   Tensor         the handle everything outside src/bindings uses.
//
// All handles are made, copied and dropped with the GIL held; kernels that run without it see raw
// pointers only. Read next: graph/node.h for `grad_fn`, dispatch/view.h for `base`.
#pragma once
#include <Python.h>

#include <utility>
#include <vector>

#include "python/gc_list.h"
#include "tensor/dims.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/storage.h"

namespace adjoint {

struct Node;
struct Cut;
struct Transformed;
struct TensorExtra;
struct SharedParts;

enum Flag : uint16_t {
  kContiguous = 1,
  kRequiresGrad = 2,
  kRetainsGrad = 4,
  kMultiView = 8,    // one of several views made by one op: in-place changes are refused
  kNoGradView = 16,  // a view made under no_grad
  kInference = 32,
  kTransformed = 64,    // carries a tangent or a batch axis: ops take the slow path
  kSubclass = 128,      // a Python subclass other than Parameter
  kFunctionView = 256,  // a view that a custom function returned: not to be changed in place
  kData = 2048,         // made by `.data`, or a view of such a tensor
  kHeld = 4096,         // a node or another tensor may hold it, other than by the base of a view
  kSparse = 8192,       // Note [Sparse headers] in sparse.h
  kConjugate = 16384,   // shows the conjugate of what its memory holds: Note [Pending signs]
  kNegative = 32768,    // shows the negative of it
};
inline constexpr uint16_t kPending = kConjugate | kNegative;
// What the short way through an op leaves to the general one.
inline constexpr uint16_t kUnusual = kInference | kTransformed | kData | kSparse | kPending;

// Note [Pending signs]
// As in PyTorch, conj() of a complex tensor computes nothing: it is a view with kConjugate, and the
// imaginary part of that a view with kNegative. Views of views pass both on. Ops that compute are called
// with copies that hold what these show (dispatch/pending_calls.h), and what is written in place is
// written with the sign turned back. So no kernel meets them; whoever asks for the address of the
// elements of one (`bytes`, `data`, memory_of) is told that it forgot to, by an error.

// Note [Changes past the version]
// PyTorch gives `x.data` a version of its own, so that what is changed through it goes unnoticed:
// programs that know better than the check write there. Here the version belongs to the memory, and
// changes through tensors with kData are not counted. As soon as a history depends on what such a
// tensor shows (it is saved for backward, or changed with a gradient), its memory says
// `counts_data`, and they are counted: what PyTorch notices is noticed.

struct TensorObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  Storage* storage;
  char* data;
  int64_t numel;
  int64_t* shape;    // points at dims, or at heap memory above six axes
  int64_t* strides;  // in elements
  uint8_t ndim;
  DType dtype;
  uint16_t flags;
  uint32_t output_nr;     // which output of grad_fn this is
  uint32_t view_version;  // storage version that grad_fn belongs to (views only)
  uint32_t recording;     // of a header on memory that existed already: the recording of a program
                          // (program/capture/capture.h) during which it was made, or 0
  Node* grad_fn;          // owned
  TensorObject* grad;     // owned
  Node* accumulator;      // not owned: the graph keeps it alive
  TensorObject* base;     // owned; the tensor this is a view of (never itself a view)
  TensorExtra* extra;     // hooks and other rare things; owned
  Cut* cut;               // why it has no history (graph/cut.h); a counted reference
  int64_t dims[2 * kInlineDims];
};

// What few tensors have: kept out of the header.
struct TensorExtra {
  PyObject* hooks = nullptr;            // dict id -> callable, run on the complete gradient
  PyObject* post_accumulate = nullptr;  // dict id -> callable, leaves only
  Transformed* transformed = nullptr;   // tangents or a batch axis (kTransformed); owned
  SharedParts* sparse = nullptr;        // the parts of a sparse tensor (kSparse); owned
  gc::BackLink back_link;
};

extern PyTypeObject* tensor_type;  // set by the bindings

// Whether a tensor ever had a pending sign: asked before anything else.
extern bool g_pending;
inline bool is_pending(const TensorObject* t) { return t->flags & kPending; }
[[noreturn]] void raise_pending(const TensorObject* t);
// Where the elements are, for all that reads or writes values.
[[gnu::always_inline]] inline char* memory_of(const TensorObject* t) {
  if (is_pending(t)) [[unlikely]]
    raise_pending(t);
  return t->data;
}

// A fresh header without storage or geometry; throws PythonError when memory is out.
TensorObject* new_tensor_object();
TensorExtra& extra_of(TensorObject* t);
// The tensor gets a link that can close a cycle (Note [Objects aside] in python/gc_list.h).
inline void add_back_link(TensorObject* t) { extra_of(t).back_link.set(); }
// Drops the references that can be part of a cycle: history, gradient, base, hooks.
void clear_tensor_object(TensorObject* t) noexcept;
// Lets go of the storage and of shapes on the heap; the header is then empty.
void free_tensor_memory(TensorObject* t) noexcept;

class Tensor {
 public:
  Tensor() = default;
  static Tensor steal(TensorObject* p) {
    Tensor t;
    t.p_ = p;
    return t;
  }
  static Tensor borrow(TensorObject* p) {
    Py_XINCREF(p);
    return steal(p);
  }
  Tensor(const Tensor& o) : p_(o.p_) { Py_XINCREF(p_); }
  Tensor(Tensor&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Tensor& operator=(Tensor o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Tensor() { Py_XDECREF(p_); }

  explicit operator bool() const { return p_ != nullptr; }
  TensorObject* get() const { return p_; }
  TensorObject* operator->() const { return p_; }
  TensorObject* release() { return std::exchange(p_, nullptr); }
  bool is(const Tensor& o) const { return p_ == o.p_; }

  int ndim() const { return p_->ndim; }
  DType dtype() const { return p_->dtype; }
  int64_t numel() const { return p_->numel; }
  Span shape() const { return {p_->shape, p_->ndim}; }
  Span strides() const { return {p_->strides, p_->ndim}; }
  int64_t size(int d) const { return p_->shape[d < 0 ? d + p_->ndim : d]; }
  int64_t stride(int d) const { return p_->strides[d < 0 ? d + p_->ndim : d]; }
  size_t itemsize() const { return item_size(p_->dtype); }
  [[gnu::always_inline]] char* bytes() const { return memory_of(p_); }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(bytes());
  }
  int64_t offset() const {  // in elements from the start of the storage
    return (p_->data - static_cast<char*>(p_->storage->data)) / static_cast<int64_t>(itemsize());
  }
  bool has(Flag f) const { return p_->flags & f; }
  void set(Flag f, bool on = true) const { p_->flags = on ? (p_->flags | f) : (p_->flags & ~f); }
  bool contiguous() const { return p_->flags & kContiguous; }
  uint16_t pending() const { return p_->flags & kPending; }
  // Shows the conjugate or the negative (or both) of what it showed before.
  void turn_sign(uint16_t which) const {
    p_->flags ^= which;
    g_pending |= which != 0;
  }
  bool requires_grad() const { return p_->flags & kRequiresGrad; }
  bool is_view() const { return p_->base != nullptr; }
  bool is_leaf() const { return p_->grad_fn == nullptr; }
  uint32_t version() const { return p_->storage->version; }
  // Nobody else can see this tensor or its memory, so it may be overwritten.
  bool unique() const {
    return Py_REFCNT(p_) == 1 && p_->storage->references == 1 && !p_->base && !p_->extra &&
           !p_->weakrefs && p_->storage->own;
  }

 private:
  TensorObject* p_ = nullptr;
};

using Tensors = std::vector<Tensor>;

// --- making tensors -----------------------------------------------------------------------------
// Refuse negative sizes, too many axes and element counts that overflow; return the count.
int64_t checked_numel(Span shape, size_t itemsize);
Dims contiguous_strides(Span shape);
bool is_contiguous(Span shape, Span strides, int64_t numel);
// Every element of memory between first and last belongs to exactly one index, in some axis order.
bool is_dense(Span shape, Span strides);

Tensor empty(Span shape, DType dtype);
Tensor empty_strided(Span shape, Span strides, DType dtype);
Tensor zeros(Span shape, DType dtype);
// An uninitialised tensor of `like`'s shape; keeps its memory order where that is dense.
Tensor empty_like(const Tensor& like, DType dtype);
// The same for a contiguous tensor whose shape needs no check: the fastest way to a result.
Tensor empty_contiguous_like(const TensorObject* like, DType dtype);
// A second header on the memory of such a tensor.
Tensor alias_contiguous(const TensorObject* t);
// A header on existing storage, without history or base. `offset` counts elements. A geometry that
// does not lie inside is refused: Note [Inside its storage] in geometry.h.
Tensor on_storage(Storage* storage, Span shape, Span strides, int64_t offset, DType dtype);
// The same memory seen by a second header, without history: shares the version.
Tensor alias(const Tensor& t);

}  // namespace adjoint
