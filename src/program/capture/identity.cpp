// Read identity.h first.
#include "program/capture/identity.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace adjoint {
namespace {

constexpr size_t kFew = 8;  // up to which a list is looked through

bool has_attributes(const TensorObject* t) { return t->dict && PyDict_GET_SIZE(t->dict) > 0; }

// Values that are compared without code of others; any others are the same if they are one object.
bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a) && !PyBytes_CheckExact(a)) return false;
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

bool same_attributes(PyObject* kept, PyObject* dict) {
  if (PyDict_GET_SIZE(kept) != PyDict_GET_SIZE(dict)) return false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(kept, &at, &key, &value);) {
    PyObject* now = PyDict_GetItem(dict, key);
    if (!now || !same_value(value, now)) return false;
  }
  return true;
}

std::vector<int> firsts(const Tensors& given) {
  std::vector<int> first;
  std::unordered_map<const TensorObject*, int> seen;
  for (size_t k = 0; k < given.size(); ++k)
    first.push_back(seen.emplace(given[k].get(), static_cast<int>(k)).first->second);
  return first;
}

}  // namespace

bool is_plain_gradient(const TensorObject* t) {
  bool hooks = t->extra && (t->extra->hooks || t->extra->post_accumulate);
  return Py_TYPE(t) == tensor_type && !t->grad_fn && !hooks && !has_attributes(t) &&
         !(t->flags & (kRequiresGrad | kTransformed | kSubclass | kInference | kSparse | kPending));
}

Identity::Identity(const Tensors& given, const std::unordered_set<TensorObject*>& asked)
    : first_(firsts(given)), pinned_(given.size()), attributes_(given.size()) {
  for (size_t k = 0; k < given.size(); ++k) {
    TensorObject* t = given[k].get();
    types_.push_back(Value::object(reinterpret_cast<PyObject*>(Py_TYPE(t))));
    if (asked.count(t)) pinned_[k] = given[k];
    if (!has_attributes(t)) continue;
    PyObject* copy = PyDict_Copy(t->dict);
    if (!copy) throw PythonError{};
    attributes_[k] = Value::object(copy);
    Py_DECREF(copy);
  }
}

void Identity::tell_apart(const Tensors& given, const Tensors& there) {
  there_.insert(there_.end(), there.begin(), there.end());
  if (there_.size() > kFew) {
    for (const Tensor& t : there_) places_.insert(t.get());
  }
  for (size_t k = 0; k < given.size(); ++k) {
    if (is_there(given[k].get())) pinned_[k] = given[k];
  }
}

bool Identity::is_there(const TensorObject* t) const {
  if (!places_.empty()) return places_.count(t) > 0;
  return std::any_of(there_.begin(), there_.end(), [&](const Tensor& o) { return o.get() == t; });
}

bool Identity::is_pinned() const {
  return std::any_of(pinned_.begin(), pinned_.end(), [](const Tensor& t) { return bool(t); });
}

bool Identity::same_repeats(const Tensors& given) const {
  if (given.size() > kFew) return firsts(given) == first_;
  for (size_t k = 1; k < given.size(); ++k) {
    for (size_t j = 0; j < k; ++j) {
      if ((first_[j] == first_[k]) != given[j].is(given[k])) return false;
    }
  }
  return true;
}

bool Identity::holds(const Tensors& given, std::string* why) const {
  auto fail = [&](const char* text) {
    if (why) *why = text;
    return false;
  };
  if (!same_repeats(given)) return fail("other arguments are the same tensor");
  for (size_t k = 0; k < given.size(); ++k) {
    const TensorObject* t = given[k].get();
    if (reinterpret_cast<PyObject*>(Py_TYPE(t)) != types_[k].python())
      return fail("a tensor is of another class");
    if (pinned_[k]) {
      if (t != pinned_[k].get())
        return fail(is_there(pinned_[k].get())
                        ? "an argument was a tensor that the function reaches by itself"
                        : "the hash or id of an argument was used, and it is another tensor");
    } else if (is_there(t)) {
      return fail("an argument is a tensor that the function reaches by itself");
    }
    if (has_attributes(t) != bool(attributes_[k]) ||
        (attributes_[k] && !same_attributes(attributes_[k].python(), t->dict)))
      return fail("attributes that were set on a tensor have changed");
  }
  return true;
}

}  // namespace adjoint
