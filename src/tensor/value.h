// Value: one argument or result of an op, of whatever kind the op's schema says: nothing, a number,
// a dtype, a list of ints, a tensor, a list of tensors, a string, a Python object.
#pragma once
#include <complex>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace adjoint {

class Value {
 public:
  enum Kind : uint8_t {
    None,
    Bool,
    Int,
    Double,
    Complex,
    Type,
    String,
    Ints,
    Tensor_,
    Tensors_,
    List,
    Object
  };

  Value() : kind_(None) { u_.i = 0; }
  Value(std::nullptr_t) : Value() {}
  Value(bool b) : kind_(Bool) { u_.i = b; }
  Value(int i) : kind_(Int) { u_.i = i; }
  Value(int64_t i) : kind_(Int) { u_.i = i; }
  Value(double d) : kind_(Double) { u_.z[0] = d; }
  Value(std::complex<double> z) : kind_(Complex) {
    u_.z[0] = z.real();
    u_.z[1] = z.imag();
  }
  Value(DType d) : kind_(Type) { u_.i = static_cast<int>(d); }
  Value(const char* s) : Value(std::string(s)) {}
  Value(std::string s);
  Value(Dims d);
  Value(Span d) : Value(Dims(d)) {}
  Value(Tensor t) : kind_(t ? Tensor_ : None) { u_.t = t.release(); }
  Value(Tensors ts);
  Value(std::vector<Value> vs);
  static Value object(PyObject* borrowed) {
    Value v;
    Py_INCREF(borrowed);
    v.kind_ = Object;
    v.u_.o = borrowed;
    return v;
  }

  Value(const Value& o) : kind_(o.kind_), u_(o.u_) { retain_payload(); }
  Value(Value&& o) noexcept : kind_(o.kind_), u_(o.u_) { o.kind_ = None; }
  Value& operator=(Value o) noexcept {
    std::swap(kind_, o.kind_);
    std::swap(u_, o.u_);
    return *this;
  }
  ~Value() {
    if (kind_ >= String) drop_payload();
  }

  void reset() noexcept {
    if (kind_ >= String) drop_payload();
    kind_ = None;
  }
  // Copies into a value known to be empty.
  void fill(const Value& o) {
    kind_ = o.kind_;
    u_ = o.u_;
    retain_payload();
  }

  // Points at a tensor that the caller keeps alive; forget() must come before this value ends.
  void lend(TensorObject* t) {
    kind_ = Tensor_;
    u_.t = t;
  }
  void forget() { kind_ = None; }
  void fill(TensorObject* t) {
    Py_INCREF(t);
    kind_ = Tensor_;
    u_.t = t;
  }

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == None; }
  bool is_tensor() const { return kind_ == Tensor_; }
  bool is_tensors() const { return kind_ == Tensors_; }
  bool is_scalar() const { return kind_ >= Bool && kind_ <= Complex; }
  explicit operator bool() const { return kind_ != None; }

  TensorObject* object() const { return u_.t; }
  TensorObject* release_object() {  // of a tensor: its reference goes to the caller
    kind_ = None;
    return u_.t;
  }
  PyObject* python() const { return u_.o; }
  Tensor tensor() const { return kind_ == Tensor_ ? Tensor::borrow(u_.t) : Tensor(); }
  operator Tensor() const { return tensor(); }
  const Tensors& tensors() const { return box()->tensors; }
  const std::vector<Value>& list() const { return box()->values; }
  const Dims& ints() const { return box()->ints; }
  const std::string& str() const { return box()->str; }
  DType dtype() const { return static_cast<DType>(u_.i); }
  bool boolean() const { return kind_ <= Int ? u_.i != 0 : kind_ == Double ? u_.z[0] != 0 : true; }
  int64_t integer() const { return kind_ == Double ? static_cast<int64_t>(u_.z[0]) : u_.i; }
  double real() const {
    return kind_ == Double || kind_ == Complex ? u_.z[0] : static_cast<double>(u_.i);
  }
  std::complex<double> complex() const { return {real(), kind_ == Complex ? u_.z[1] : 0.0}; }

  // The header of a tensor argument, for GC traversal of whoever keeps this value.
  template <class Visit>
  int each_object(Visit&& visit) const {
    if (kind_ == Tensor_ || kind_ == Object) return visit(u_.o);
    if (kind_ == Tensors_) {
      for (const Tensor& t : box()->tensors) {
        if (t) {
          if (int r = visit(reinterpret_cast<PyObject*>(t.get()))) return r;
        }
      }
    }
    if (kind_ == List) {
      for (const Value& v : box()->values) {
        if (int r = v.each_object(visit)) return r;
      }
    }
    return 0;
  }
  // False when the lists behind a Tensors_ or List value are shared with another value, whose
  // keeper would then count their references a second time.
  bool sole_owner() const {
    return kind_ < String || kind_ == Tensor_ || kind_ == Object || box()->references == 1;
  }

 private:
  struct Box {
    int64_t references = 1;
    Dims ints;
    Tensors tensors;
    std::vector<Value> values;
    std::string str;
  };
  Box* box() const { return u_.box; }
  void retain_payload() {
    if (kind_ == Tensor_ || kind_ == Object) {
      Py_INCREF(u_.o);
    } else if (kind_ >= String) {
      ++u_.box->references;
    }
  }
  void drop_payload() noexcept {
    if (kind_ == Tensor_ || kind_ == Object) {
      Py_DECREF(u_.o);
    } else {
      drop_box();
    }
  }
  void drop_box() noexcept;

  Kind kind_;
  union {
    int64_t i;
    double z[2];
    TensorObject* t;
    PyObject* o;
    Box* box;
  } u_;
};

}  // namespace adjoint
