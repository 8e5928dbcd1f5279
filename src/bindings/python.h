// What the binding files share: errors, conversions between Values and Python objects, the types.
#pragma once
#include <Python.h>

#include "dispatch/op.h"
#include "tensor/sparse.h"

namespace adjoint {

// An owned PyObject*.
class Object {
 public:
  Object() = default;
  static Object steal(PyObject* p) {
    Object o;
    o.p_ = p;
    return o;
  }
  static Object borrow(PyObject* p) {
    Py_XINCREF(p);
    return steal(p);
  }
  Object(const Object& o) : p_(o.p_) { Py_XINCREF(p_); }
  Object(Object&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Object& operator=(Object o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Object() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Takes a new reference from the C API, or throws the Python error that is set.
inline Object checked(PyObject* p) {
  if (!p) throw PythonError{};
  return Object::steal(p);
}
inline void checked(int r) {
  if (r < 0) throw PythonError{};
}

// Turns the C++ exception being handled into the Python exception it stands for.
void set_python_error() noexcept;

// Runs the body of a function called by CPython; errors become Python's.
template <class F>
PyObject* guard(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
template <class F>
int guard_int(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

// --- types ---------------------------------------------------------------------------------------
inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || PyObject_TypeCheck(o, tensor_type);
}
inline TensorObject* as_tensor(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }
inline PyObject* to_python(const Tensor& t) {  // None when undefined
  PyObject* o = t ? reinterpret_cast<PyObject*>(t.get()) : Py_None;
  Py_INCREF(o);
  return o;
}

// The setattr of tensors and nodes. Read bindings/tensor/attributes.cpp.
int set_tensor_attribute(PyObject* o, PyObject* name, PyObject* value);
int set_node_attribute(PyObject* o, PyObject* name, PyObject* value);

PyObject* to_python(Node* n);  // None for null
inline bool is_node(PyObject* o) { return PyObject_TypeCheck(o, node_type); }

extern PyTypeObject dtype_python_type;
extern PyTypeObject size_python_type;
bool is_dtype(PyObject* o);
DType dtype_value(PyObject* o);
PyObject* dtype_object(DType d);  // borrowed
PyObject* new_size(Span shape);   // a new adjoint.Size
// dtype objects and the Python types float, int, bool, complex; false for anything else.
bool parse_dtype(PyObject* o, DType* out);

PyObject* to_python(const Value& v);
PyObject* item_of(const char* data, DType d);  // a Python number
PyObject* item_of_pending(TensorObject* one);
inline PyObject* item_of(TensorObject* one) {  // the same of a tensor of one element
  return is_pending(one) ? item_of_pending(one) : item_of(one->data, one->dtype);
}
// A Python number (or NumPy scalar) as a Value; false for anything else. Throws for ints out of
// range.
bool parse_number(PyObject* o, Value* out);
// An int from 2^63 to 2^64 - 1, which no Value holds: a 0-d tensor of uint64.
bool parse_large_int(PyObject* o, Value* out);
// Where a tensor may stand as well, such an int or any other number.
bool parse_operand_number(PyObject* o, Value* out);
bool parse_int(PyObject* o, int64_t* out);
bool parse_ints(PyObject* o, Dims* out, Py_ssize_t most = 4096);

// --- functions of the op registry ----------------------------------------------------------------
// Fits positional and keyword arguments to the schema of one of several overloads and runs it.
PyObject* call_ops(const std::vector<const Op*>& overloads, bool inplace, const char* name,
                   PyObject* const* args, Py_ssize_t positional, PyObject* keywords);
void add_op_functions(PyObject* module, PyTypeObject* tensor);

// --- parts of the module; each adds its functions and types --------------------------------------
void add_dtypes(PyObject* module);
void add_tensor_type(PyObject* module);
void add_node_type(PyObject* module);
void add_autograd(PyObject* module);
void add_autocast(PyObject* module);
void add_graph_facts(PyObject* module);
void add_graph_search(PyObject* module);
void add_observed_pass(PyObject* module);
void add_stepped_pass(PyObject* module);
void add_anomaly(PyObject* module);
void add_creation(PyObject* module);
void add_settings(PyObject* module);
void add_history_attributes();
void add_shape_attributes();
void add_sparse_attributes();
void add_optim(PyObject* module);
void add_random(PyObject* module);
void add_buffers(PyObject* module);
void add_attributes(PyObject* module);
void add_dlpack(PyObject* module);
void add_subclasses(PyObject* module);
void add_casts();
void add_forward_mode(PyObject* module);
void add_transforms(PyObject* module);
void add_plain_parts(PyObject* module);
void add_apart(PyObject* module);
void add_promotion(PyObject* module);

extern PyNumberMethods tensor_number_slots;
void fill_number_slots();
extern PyBufferProcs tensor_buffer_slots;
void fill_buffer_slots();
// Tensor(2, 3), Tensor([1, 2]), Tensor(): the constructor PyTorch keeps for old programs.
PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject* keywords);
// From numbers and nested lists of them; undefined when the data holds other things. A `dtype` that
// is None is inferred.
Tensor tensor_from_python(PyObject* data, const Value& dtype);
// The memory of an object with the buffer protocol (an array), shared.
Tensor tensor_on_buffer(PyObject* o);
// The setter of Tensor.requires_grad.
int set_requires_grad(PyObject* tensor, PyObject* on, void*);
// Moves what `from` holds (which nobody else may refer to) into an object of a subclass.
Tensor moved_to(PyTypeObject* type, Tensor from);

// Adds module functions from a table.
void add_functions(PyObject* module, PyMethodDef* table);
// Adds methods and attributes to the Tensor type from files other than bindings/tensor/tensor_type.cpp; the tables
// must live forever.
void extend_tensor_type(PyMethodDef* methods, PyGetSetDef* attributes);

}  // namespace adjoint
