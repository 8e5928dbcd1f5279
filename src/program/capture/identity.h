// Which tensor an argument is, as far as a function can tell: `p is q`, `p in no_decay`, `lr[p]`,
// `isinstance(p, Parameter)`, `p.tag`.
//
// Three things are the same in each run. Arguments are the same object among themselves where they
// were. An argument that was a tensor which the function also finds by itself (in a closure, a
// module, a dict) is that tensor, and any other argument is none of those. An argument whose
// address was asked for (hash(), id()) is that very tensor.
#pragma once
#include <string>
#include <unordered_set>

#include "tensor/tensor.h"
#include "tensor/value.h"

namespace adjoint {

// Whether all that can be seen of a gradient is its numbers and where they lie in memory.
bool is_plain_gradient(const TensorObject* t);

class Identity {
 public:
  Identity() = default;
  // `asked`: tensors whose address the function has asked for.
  Identity(const Tensors& given, const std::unordered_set<TensorObject*>& asked);

  // `there` is what the function can find by itself, besides its operands.
  void tell_apart(const Tensors& given, const Tensors& there);
  bool holds(const Tensors& given, std::string* why) const;
  // Whether a tensor is one that the function finds by itself.
  bool is_there(const TensorObject* t) const;
  // Whether some argument has to be a certain tensor.
  bool is_pinned() const;

  template <class Visit>
  int each_object(Visit&& visit) const {
    for (const Tensors* ts : {&pinned_, &there_}) {
      for (const Tensor& t : *ts) {
        if (int r = t ? visit(reinterpret_cast<PyObject*>(t.get())) : 0) return r;
      }
    }
    for (const std::vector<Value>* objects : {&types_, &attributes_}) {
      for (const Value& o : *objects) {
        if (int r = o ? visit(o.python()) : 0) return r;
      }
    }
    return 0;
  }

 private:
  bool same_repeats(const Tensors& given) const;

  // By argument: the first one that is the same object, its class, what it has to be (or nothing),
  // a copy of its own attributes (or nothing).
  std::vector<int> first_;
  std::vector<Value> types_;
  Tensors pinned_;
  std::vector<Value> attributes_;
  Tensors there_;
  std::unordered_set<const TensorObject*> places_;  // of there_, where they are many
};

}  // namespace adjoint
