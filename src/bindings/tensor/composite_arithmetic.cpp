// Composites as vectors: `a + b`, `2 * a`, `-a` on objects whose fields hold tensors.
//
// A VectorMethod is what VectorSpace has for `__add__`: it walks the fields of both objects, calls
// the tensor's own number slots, and makes a new object of the class. There is no frame of Python
// in between, so nodes get the user's line. It knows the classes that Python has told it of
// (_set_vector_class), lists and tuples, tensors that are vectors, and plain values that go along;
// whenever it meets anything else (a tensor twice, other shapes, a dict) it gives up, and the
// method written in Python (python/adjoint/composite/_arithmetic.py), which knows all there is to
// know, starts from the beginning and finds the words for what is wrong.
#include "bindings/python.h"

#include <structmember.h>

#include <algorithm>
#include <bitset>
#include <string_view>
#include <unordered_map>

namespace adjoint {

void add_composite_arithmetic(PyObject* module);

namespace {

enum Kind { kAdd, kSub, kMul, kLeftMul, kDiv, kNeg, kPair };
constexpr std::string_view kNames[] = {"add", "sub", "mul", "rmul", "truediv", "neg"};

// How objects of a class are taken apart and made. Entries are never dropped, since a walk may be
// reading one; a class that is taken apart in another way from now on is marked.
struct Recipe {
  PyObject* names;  // of the fields, or null: whatever is in __dict__
  bool in_dict;     // fields are in __dict__, not in slots
  bool valid = true;
};

std::unordered_map<PyTypeObject*, Recipe>& recipes() {
  static auto& all = *new std::unordered_map<PyTypeObject*, Recipe>;
  return all;
}

// Null where the class has none.
const Recipe* recipe_of(PyTypeObject* type) {
  auto found = recipes().find(type);
  return found != recipes().end() && found->second.valid ? &found->second : nullptr;
}

struct VectorMethod {
  PyObject_HEAD vectorcallfunc vectorcall;
  Kind kind;
  PyObject* general;  // the method in Python
};

struct GiveUp {};

// Null is an error of Python's that must not be hidden by trying again.
PyObject* passed_on(PyObject* result) {
  if (!result) throw PythonError{};
  return result;
}

bool is_number(PyObject* o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o); }
bool is_vector(const TensorObject* t) { return is_floating(t->dtype) || is_complex(t->dtype); }

// Values that say all about themselves, so that == compares them.
bool is_plain_value(PyObject* o) {
  return o == Py_None || PyBool_Check(o) || is_number(o) || PyUnicode_CheckExact(o);
}

class Walk {
 public:
  Walk(Kind kind, PyObject* factor) : kind_(kind), factor_(factor) { seen_.reserve(64); }

  // `b` is null where there is one composite only.
  Object part(PyObject* a, PyObject* b, int depth = 0) {
    if (depth > 50) throw GiveUp{};
    PyTypeObject* type = Py_TYPE(a);
    if (type == tensor_type) return tensor(a, b);
    if (b && Py_TYPE(b) != type) throw GiveUp{};
    if (is_plain_value(a)) return carried(a, b);
    if (type == &PyList_Type || type == &PyTuple_Type) return sequence(a, b, depth);
    const Recipe* recipe = recipe_of(type);
    if (!recipe) throw GiveUp{};
    return recipe->in_dict ? with_dict(type, *recipe, a, b, depth)
                           : with_slots(type, *recipe, a, b, depth);
  }

  // A tensor that stands twice must be one tensor afterwards.
  void refuse_repeated() {
    if (!maybe_repeated_) return;
    std::sort(seen_.begin(), seen_.end());
    if (std::adjacent_find(seen_.begin(), seen_.end()) != seen_.end()) throw GiveUp{};
  }
  bool any() const { return !seen_.empty(); }
  // kPair: the tensors of both, in turns.
  std::vector<Object> pairs;

 private:
  Object tensor(PyObject* a, PyObject* b) {
    TensorObject* x = as_tensor(a);
    if (!is_vector(x)) throw GiveUp{};
    size_t bit = (reinterpret_cast<uintptr_t>(a) >> 5) % bits_.size();
    maybe_repeated_ |= bits_[bit];
    bits_[bit] = true;
    seen_.push_back(a);
    if (b) {
      if (Py_TYPE(b) != tensor_type) throw GiveUp{};
      TensorObject* y = as_tensor(b);
      if (!(Span{x->shape, x->ndim} == Span{y->shape, y->ndim})) throw GiveUp{};
    }
    if (kind_ == kPair) {
      pairs.push_back(Object::borrow(a));
      pairs.push_back(Object::borrow(b));
      return {};
    }
    return Object::steal(passed_on(computed(a, b)));
  }

  bool builds() const { return kind_ != kPair; }

  PyObject* computed(PyObject* a, PyObject* b) {
    const PyNumberMethods& slots = tensor_number_slots;
    switch (kind_) {
      case kAdd:
        return slots.nb_add(a, b);
      case kSub:
        return slots.nb_subtract(a, b);
      case kMul:
        return slots.nb_multiply(a, factor_);
      case kLeftMul:
        return slots.nb_multiply(factor_, a);
      case kDiv:
        return slots.nb_true_divide(a, factor_);
      default:
        return slots.nb_negative(a);
    }
  }

  Object carried(PyObject* a, PyObject* b) {
    if (b && a != b) {
      int same = PyObject_RichCompareBool(a, b, Py_EQ);
      checked(same);
      if (!same) throw GiveUp{};
    }
    return Object::borrow(a);
  }

  Object sequence(PyObject* a, PyObject* b, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(a);
    if (b && PySequence_Fast_GET_SIZE(b) != n) throw GiveUp{};
    bool list = PyList_CheckExact(a);
    Object out = builds() ? checked(list ? PyList_New(n) : PyTuple_New(n)) : Object();
    for (Py_ssize_t i = 0; i < n; ++i) {
      // Hooks run by an op may change a list.
      if (PySequence_Fast_GET_SIZE(a) != n || (b && PySequence_Fast_GET_SIZE(b) != n))
        throw GiveUp{};
      Object x = Object::borrow(PySequence_Fast_GET_ITEM(a, i));
      Object y = Object::borrow(b ? PySequence_Fast_GET_ITEM(b, i) : nullptr);
      Object z = part(x.get(), y.get(), depth + 1);
      if (!builds()) continue;
      PyObject* made = z.release();
      if (list)
        PyList_SET_ITEM(out.get(), i, made);
      else
        PyTuple_SET_ITEM(out.get(), i, made);
    }
    return out;
  }

  static Object empty_object(PyTypeObject* type) {
    static PyObject* nothing = PyTuple_New(0);
    return checked(PyBaseObject_Type.tp_new(type, nothing, nullptr));
  }
  // Python 3.13 keeps attributes in the object as long as it can. PyObject_GenericSetDict does not
  // tell it that they are in the dict from now on; the setter of `__dict__` does.
  static void set_dict(PyObject* o, PyObject* dict) {
#if PY_VERSION_HEX < 0x030D0000
    checked(PyObject_GenericSetDict(o, dict, nullptr));
#else
    static PyObject* name = checked(PyUnicode_InternFromString("__dict__")).release();
    checked(PyObject_GenericSetAttr(o, name, dict));
#endif
  }
  static Object dict_of(PyObject* o) {
    Object d = checked(PyObject_GenericGetDict(o, nullptr));
    if (!PyDict_CheckExact(d.get())) throw GiveUp{};
    return d;
  }

  Object with_dict(PyTypeObject* type, const Recipe& recipe, PyObject* a, PyObject* b, int depth) {
    Object from = dict_of(a), other = b ? dict_of(b) : Object();
    Object names = recipe.names ? Object::borrow(recipe.names) : checked(PyDict_Keys(from.get()));
    Py_ssize_t n = PySequence_Fast_GET_SIZE(names.get());
    if (PyDict_GET_SIZE(from.get()) != n) throw GiveUp{};
    if (b && PyDict_GET_SIZE(other.get()) != n) throw GiveUp{};
    // A copy has the names in place: what it costs is paid once for all of them.
    Object into = builds() ? checked(PyDict_Copy(from.get())) : Object();
    Items ours(from.get()), theirs(other.get());
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* name = PySequence_Fast_GET_ITEM(names.get(), i);
      Object x = ours.next(name), y = b ? theirs.next(name) : Object();
      Object z = part(x.get(), y.get(), depth + 1);
      if (builds()) checked(PyDict_SetItem(into.get(), name, z.get()));
    }
    if (!builds()) return {};
    Object made = empty_object(type);
    set_dict(made.get(), into.get());
    return made;
  }
  // Items of a dict, mostly asked for in the order they were put in: then nothing is looked up.
  class Items {
   public:
    explicit Items(PyObject* dict) : dict_(dict) {}
    Object next(PyObject* name) {
      PyObject *key, *found;
      if (in_order_ && PyDict_Next(dict_, &at_, &key, &found) && key == name)
        return Object::borrow(found);
      in_order_ = false;
      found = PyDict_GetItemWithError(dict_, name);
      if (!found && PyErr_Occurred()) throw PythonError{};
      if (!found) throw GiveUp{};
      return Object::borrow(found);
    }

   private:
    PyObject* dict_;
    Py_ssize_t at_ = 0;
    bool in_order_ = true;
  };

  Object with_slots(PyTypeObject* type, const Recipe& recipe, PyObject* a, PyObject* b, int depth) {
    Object made = builds() ? empty_object(type) : Object();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(recipe.names); ++i) {
      PyObject* name = PyTuple_GET_ITEM(recipe.names, i);
      Object x = slot(a, name), y = b ? slot(b, name) : Object();
      Object z = part(x.get(), y.get(), depth + 1);
      if (builds()) checked(PyObject_GenericSetAttr(made.get(), name, z.get()));
    }
    return made;
  }
  static Object slot(PyObject* o, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(o, name);
    if (found) return Object::steal(found);
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError{};
    PyErr_Clear();
    throw GiveUp{};
  }

  Kind kind_;
  PyObject* factor_;
  std::vector<PyObject*> seen_;  // kept alive by the composite
  std::bitset<4096> bits_;
  bool maybe_repeated_ = false;
};

// Null without an error: the general method is needed.
PyObject* short_way(Kind kind, PyObject* self, PyObject* other) {
  bool scaling = kind == kMul || kind == kLeftMul || kind == kDiv;
  if (!recipe_of(Py_TYPE(self))) return nullptr;
  if (scaling) {
    bool scalar = Py_TYPE(other) == tensor_type && as_tensor(other)->ndim == 0;
    if (!scalar && !is_number(other)) return nullptr;
  } else if (kind != kNeg && Py_TYPE(other) != Py_TYPE(self)) {
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    try {
      Walk walk(kind, scaling ? other : nullptr);
      Object made = walk.part(self, scaling || kind == kNeg ? nullptr : other);
      walk.refuse_repeated();
      return walk.any() ? made.release() : nullptr;
    } catch (const GiveUp&) {
      return nullptr;
    }
  });
}

PyObject* call(PyObject* o, PyObject* const* args, size_t flags, PyObject* keywords) {
  auto* method = reinterpret_cast<VectorMethod*>(o);
  Py_ssize_t n = PyVectorcall_NARGS(flags), wanted = method->kind == kNeg ? 1 : 2;
  if (n == wanted && !keywords) {
    PyObject* made = short_way(method->kind, args[0], n == 2 ? args[1] : nullptr);
    if (made || PyErr_Occurred()) return made;
  }
  return PyObject_Vectorcall(method->general, args, n, keywords);
}

PyObject* bind(PyObject* f, PyObject* o, PyObject*) {
  if (o) return PyMethod_New(f, o);
  Py_INCREF(f);
  return f;
}

void destroy(PyObject* o) {
  Py_DECREF(reinterpret_cast<VectorMethod*>(o)->general);
  Py_TYPE(o)->tp_free(o);
}

// Name, docstring and signature are those of the method in Python.
PyObject* attribute(PyObject* o, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(o, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<VectorMethod*>(o)->general, name);
}
PyObject* docstring(PyObject* o, void*) {
  return PyObject_GetAttrString(reinterpret_cast<VectorMethod*>(o)->general, "__doc__");
}

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(VectorMethod, general), READONLY, nullptr}, {nullptr}};
PyGetSetDef attributes[] = {{"__doc__", docstring, nullptr, nullptr, nullptr}, {nullptr}};
PyTypeObject method_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// _vector_method(kind, method): a short way in front of a method of VectorSpace.
PyObject* vector_method(PyObject*, PyObject* args) {
  const char* name;
  PyObject* general;
  if (!PyArg_ParseTuple(args, "sO:_vector_method", &name, &general)) return nullptr;
  auto* kind = std::find(std::begin(kNames), std::end(kNames), std::string_view(name));
  if (kind == std::end(kNames))
    return PyErr_Format(PyExc_ValueError, "_vector_method(): no short way for %s", name);
  auto* made = reinterpret_cast<VectorMethod*>(method_type.tp_alloc(&method_type, 0));
  if (!made) return nullptr;
  made->vectorcall = call;
  made->kind = static_cast<Kind>(kind - std::begin(kNames));
  made->general = Py_NewRef(general);
  return reinterpret_cast<PyObject*>(made);
}

// _vector_pairs(a, b): the tensors of two composites of a class, as a list of pairs; None where
// they need a closer look.
PyObject* vector_pairs(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO:_vector_pairs", &a, &b)) return nullptr;
  return guard([&]() -> PyObject* {
    Walk walk(kPair, nullptr);
    try {
      walk.part(a, b);
      walk.refuse_repeated();
    } catch (const GiveUp&) {
      Py_RETURN_NONE;
    }
    auto n = static_cast<Py_ssize_t>(walk.pairs.size() / 2);
    Object list = checked(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* both = PyTuple_Pack(2, walk.pairs[2 * i].get(), walk.pairs[2 * i + 1].get());
      PyList_SET_ITEM(list.get(), i, checked(both).release());
    }
    return list.release();
  });
}

// Attributes are stored under interned names: then the same name is the same object.
Object interned(PyObject* names) {
  Object out = checked(PyTuple_New(PyTuple_GET_SIZE(names)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = Py_NewRef(PyTuple_GET_ITEM(names, i));
    PyUnicode_InternInPlace(&name);
    PyTuple_SET_ITEM(out.get(), i, name);
  }
  return out;
}

bool are_names(PyObject* o) {
  if (!PyTuple_Check(o)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(o, i))) return false;
  }
  return true;
}

PyObject* remember_class(PyObject* type, PyObject* names, bool in_dict) {
  auto* key = reinterpret_cast<PyTypeObject*>(type);
  Recipe recipe{names == Py_None ? nullptr : interned(names).release(), in_dict};
  auto [at, fresh] = recipes().insert({key, recipe});
  if (fresh) {
    Py_INCREF(type);
  } else {
    Py_XDECREF(at->second.names);
    at->second = recipe;
  }
  Py_RETURN_NONE;
}

// _set_vector_class(cls, names or None, in_dict): no names and not in a dict is nothing at all.
PyObject* set_vector_class(PyObject*, PyObject* args) {
  PyObject *type, *names;
  int in_dict;
  if (!PyArg_ParseTuple(args, "O!Op:_set_vector_class", &PyType_Type, &type, &names, &in_dict))
    return nullptr;
  if (names == Py_None && !in_dict) {
    auto found = recipes().find(reinterpret_cast<PyTypeObject*>(type));
    if (found != recipes().end()) found->second.valid = false;
    Py_RETURN_NONE;
  }
  if (names != Py_None && !are_names(names)) {
    PyErr_SetString(PyExc_TypeError, "_set_vector_class(): expected a tuple of names");
    return nullptr;
  }
  return guard([&]() -> PyObject* { return remember_class(type, names, in_dict); });
}

PyMethodDef functions[] = {{"_set_vector_class", set_vector_class, METH_VARARGS,
                            "Tells how objects of a class are taken apart and made."},
                           {"_vector_pairs", vector_pairs, METH_VARARGS,
                            "The tensors of two composites, where that is simple."},
                           {"_vector_method", vector_method, METH_VARARGS,
                            "A short way in front of a method of VectorSpace."},
                           {nullptr}};

}  // namespace

void add_composite_arithmetic(PyObject* module) {
  PyTypeObject& t = method_type;
  t.tp_name = "adjoint.VectorMethod";
  t.tp_basicsize = sizeof(VectorMethod);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  t.tp_vectorcall_offset = offsetof(VectorMethod, vectorcall);
  t.tp_call = PyVectorcall_Call;
  t.tp_descr_get = bind;
  t.tp_dealloc = destroy;
  t.tp_getattro = attribute;
  t.tp_members = members;
  t.tp_getset = attributes;
  checked(PyType_Ready(&t));
  add_functions(module, functions);
}

}  // namespace adjoint
