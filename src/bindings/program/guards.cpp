// Guards: what a recorded call depends on, besides its arguments, and whether it still is as it was.
//
// Python hands over rows (python/adjoint/compiler/_guards.py): a place in an object, names in a
// dict, the content of a container, a class, a tensor, or a question. Everything that they speak of
// is kept alive, so its address stays, and nearly every row comes down to words of memory that must
// be what they were: the pointer in a cell, the version of a dict or of a class, the items of a
// list. If a word differs the row is compared exactly; where nothing that matters has changed, its
// words are taken anew.
#include <cstring>
#include <deque>
#include <memory>
#include <unordered_set>

#include "bindings/program/program.h"
#include "python/dict_version.h"
// After Python.h, without which it does not compile.
#include <structmember.h>

namespace adjoint {
namespace {

// In the order of `Row` in python/adjoint/compiler/_guards.py.
enum Kind { kPlace, kNames, kList, kDict, kOrder, kClass, kTensor, kAsk };
enum Place { kCell, kCode, kDefaults, kKeywordDefaults, kType, kOwnDict, kSlot };

struct Word {
  const uint64_t* at;
  uint64_t mask, value;
  uint32_t row;
};

struct Row {
  Kind kind;
  Object holder, value;  // what is looked at; what was there (null: nothing)
  Object extra;          // kNames: names that must stay absent; kOrder: the class
  bool all = false;      // kNames: no other name may appear
  PyObject** at = nullptr;
  std::unique_ptr<DictVersion> version;
  size_t first = 0, count = 0;  // its words
  // kTensor
  DType dtype{};
  uint16_t flags = 0;
  bool leaf = false;
  Dims shape, strides;
};

struct Guards {
  std::deque<Row> rows;
  std::vector<Word> words;
  std::vector<uint32_t> others;         // rows without words
  Object absent;                        // stands for nothing
  Object alike;                         // Python's part of `same`
  Object names;                         // attributes of arguments that matter
  std::unordered_set<PyObject*> known;  // tensors whose attributes have rows
};

// --- values --------------------------------------------------------------------------------------
bool same(const Guards& g, PyObject* a, PyObject* b, int depth = 0);

// NaNs have a sign and a payload, which results get from them.
bool same_number(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Whether no program can tell one from the other, but by `is`: numbers, texts, and tuples of such.
// NaN is itself, -0.0 is not 0.0, True is not 1. Lists and dicts are what they are: an equal one in
// the place of another may be changed alone, or be the same as a third.
bool same(const Guards& g, PyObject* a, PyObject* b, int depth) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b) || depth > 20) return false;
  if (PyFloat_CheckExact(a)) return same_number(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a)) {
    int r = PyObject_RichCompareBool(a, b, Py_EQ);
    checked(r);
    return r == 1;
  }
  if (PyTuple_CheckExact(a)) {
    Py_ssize_t n = Py_SIZE(a);
    if (n != Py_SIZE(b)) return false;
    for (Py_ssize_t k = 0; k < n; ++k)
      if (!same(g, PyTuple_GET_ITEM(a, k), PyTuple_GET_ITEM(b, k), depth + 1)) return false;
    return true;
  }
  if (PyList_CheckExact(a) || PyDict_CheckExact(a)) return false;
  if (PyBool_Check(a) || a == Py_None || is_tensor(a) || PyFunction_Check(a)) return false;
  Object answer = checked(PyObject_CallFunctionObjArgs(g.alike.get(), a, b, nullptr));
  return answer.get() == Py_True;
}

// --- rows, exactly -------------------------------------------------------------------------------
// Whether a dict has a name that was asked for, besides those that are known.
bool has_any(PyObject* dict, PyObject* names, PyObject* known = nullptr) {
  PyObject *name, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &name, &value)) {
    int r = known ? PyDict_Contains(known, name) : 0;
    checked(r);
    if (r) continue;
    r = PySet_Contains(names, name);
    checked(r);
    if (r) return true;
  }
  return false;
}

bool names_hold(const Guards& g, const Row& r) {
  PyObject *name, *was, *dict = r.holder.get();
  Py_ssize_t at = 0, found = 0;
  while (PyDict_Next(r.value.get(), &at, &name, &was)) {
    PyObject* now = PyDict_GetItemWithError(dict, name);
    if (!now && PyErr_Occurred()) throw PythonError{};
    if (was == g.absent.get() ? now != nullptr : !same(g, now, was)) return false;
    found += now != nullptr;
  }
  if (r.all) return PyDict_GET_SIZE(dict) == found;
  return !PyAnySet_Check(r.extra.get()) || !has_any(dict, r.extra.get(), r.value.get());
}

bool parts_hold(const Guards& g, Object iterator, PyObject* parts) {
  if (!iterator) throw PythonError{};
  Py_ssize_t n = PyTuple_GET_SIZE(parts), k = 0;
  while (Object one = Object::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()))) {
    if (k == n || !same(g, one.get(), PyTuple_GET_ITEM(parts, k))) return false;
    ++k;
  }
  if (PyErr_Occurred()) throw PythonError{};
  return k == n;
}

// `parts`: the keys, and then the values.
bool entries_hold(const Guards& g, PyObject* dict, PyObject* parts) {
  Py_ssize_t n = PyTuple_GET_SIZE(parts) / 2, at = 0, k = 0;
  if (PyDict_GET_SIZE(dict) != n) return false;
  PyObject *key, *value;
  for (; k < n && PyDict_Next(dict, &at, &key, &value); ++k)
    if (!same(g, key, PyTuple_GET_ITEM(parts, k)) ||
        !same(g, value, PyTuple_GET_ITEM(parts, n + k)))
      return false;
  return k == n;
}

bool list_holds(const Guards& g, const Row& r) {
  PyObject *list = r.holder.get(), *parts = r.value.get();
  Py_ssize_t n = PyTuple_GET_SIZE(parts);
  if (PyList_GET_SIZE(list) != n) return false;
  for (Py_ssize_t k = 0; k < n && k < PyList_GET_SIZE(list); ++k)
    if (!same(g, PyList_GET_ITEM(list, k), PyTuple_GET_ITEM(parts, k))) return false;
  return true;
}

bool equal(const Dims& was, const int64_t* now, int n) {
  return was.size() == n && std::equal(now, now + n, was.data());
}

bool tensor_holds(const Guards& g, const Row& r) {
  const TensorObject* t = as_tensor(r.holder.get());
  if (reinterpret_cast<PyObject*>(Py_TYPE(t)) != r.value.get() || t->dtype != r.dtype ||
      (t->flags & (kRequiresGrad | kInference)) != r.flags || (t->grad_fn == nullptr) != r.leaf ||
      !equal(r.shape, t->shape, t->ndim) || !equal(r.strides, t->strides, t->ndim))
    return false;
  if (r.extra || !t->dict || !g.names) return true;  // `extra`: its attributes have a row
  return !has_any(t->dict, g.names.get());
}

bool asked(PyObject* question) {
  Object answer = checked(PyObject_CallNoArgs(question));
  return answer.get() == Py_True;
}

bool holds(const Guards& g, const Row& r) {
  switch (r.kind) {
    case kPlace:
      return same(g, *r.at, r.value.get());
    case kNames:
      return names_hold(g, r);
    case kList:
      return list_holds(g, r);
    case kDict:
      return entries_hold(g, r.holder.get(), r.value.get());
    case kOrder: {
      auto* type = reinterpret_cast<PyTypeObject*>(r.extra.get());
      return parts_hold(g, Object::steal(type->tp_iter(r.holder.get())), r.value.get());
    }
    case kTensor:
      return tensor_holds(g, r);
    default:
      return asked(r.value.get());
  }
}

// --- words ---------------------------------------------------------------------------------------
Word whole(const void* at, uint32_t row) {
  auto* word = static_cast<const uint64_t*>(at);
  return {word, ~uint64_t{0}, *word, row};
}

constexpr uint64_t kHalf = 0xffffffffu;

std::vector<Word> words_of(const Row& r, uint32_t row) {
  std::vector<Word> found;
  if (r.kind == kPlace) found.push_back(whole(r.at, row));
  if (r.version) found.push_back(whole(r.version->word(), row));
  if (r.kind == kList) {
    auto* list = reinterpret_cast<PyListObject*>(r.holder.get());
    found.push_back(whole(&list->ob_item, row));
    found.push_back(whole(&list->ob_base.ob_size, row));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(r.holder.get()); ++k)
      found.push_back(whole(list->ob_item + k, row));
  }
  if (r.kind == kClass) {
    auto* type = reinterpret_cast<PyTypeObject*>(r.holder.get());
    // A look-up gives the class a version, if it has none.
    Object name = checked(PyUnicode_InternFromString("__init__"));
    _PyType_Lookup(type, name.get());
    auto* word = reinterpret_cast<const uint64_t*>(&type->tp_version_tag);
    uint64_t tag = *word & kHalf;
    // Without one it is never what it was, and compared exactly.
    found.push_back({word, kHalf, tag ? tag : ~uint64_t{0}, row});
  }
  return found;
}

void renew(Guards& g, uint32_t k) {
  Row& r = g.rows[k];
  if (r.kind == kPlace) r.value = Object::borrow(*r.at);  // equal; kept, so its address stays
  std::vector<Word> now = words_of(r, k);
  std::copy(now.begin(), now.end(), g.words.begin() + static_cast<std::ptrdiff_t>(r.first));
}

// --- arguments -----------------------------------------------------------------------------------
// Whether no argument has an attribute of its own that the function asks for.
bool arguments_hold(const Guards& g, std::span<PyObject* const> tensors) {
  if (!g.names) return true;
  for (PyObject* o : tensors) {
    if (!is_tensor(o) || !as_tensor(o)->dict || g.known.contains(o)) continue;
    if (has_any(as_tensor(o)->dict, g.names.get())) return false;
  }
  return true;
}

bool all_hold(Guards& g, std::span<PyObject* const> tensors) {
  for (size_t k = 0; k < g.words.size(); ++k) {
    const Word& w = g.words[k];
    if ((*w.at & w.mask) == w.value) [[likely]]
      continue;
    const Row& r = g.rows[w.row];
    if (!holds(g, r)) return false;
    k = r.first + r.count - 1;  // its other words may lie in memory that is gone
    renew(g, w.row);
  }
  for (uint32_t k : g.others)
    if (!holds(g, g.rows[k])) return false;
  return arguments_hold(g, tensors);
}

// What raises does not hold; an interrupt goes on.
template <class F>
bool without_errors(F&& f) {
  try {
    return f();
  } catch (const PythonError&) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
    PyErr_Clear();
    return false;
  }
}

// --- making --------------------------------------------------------------------------------------
PyObject** place_of(PyObject* holder, PyObject* which) {
  if (PyObject_TypeCheck(which, &PyMemberDescr_Type)) {
    auto* d = reinterpret_cast<PyMemberDescrObject*>(which);
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(holder) + d->d_member->offset);
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(holder);
  switch (PyLong_AsLong(which)) {
    case kCell:
      return &reinterpret_cast<PyCellObject*>(holder)->ob_ref;
    case kCode:
      return &f->func_code;
    case kDefaults:
      return &f->func_defaults;
    case kKeywordDefaults:
      return &f->func_kwdefaults;
    case kType:
      return reinterpret_cast<PyObject**>(&holder->ob_type);
    default:
      return _PyObject_GetDictPtr(holder);
  }
}

bool is_place(PyObject* holder, PyObject* which) {
  if (PyObject_TypeCheck(which, &PyMemberDescr_Type))
    return PyObject_TypeCheck(holder, PyDescr_TYPE(which));
  if (!PyLong_Check(which)) return false;
  switch (PyLong_AsLong(which)) {
    case kCell:
      return PyCell_Check(holder);
    case kCode:
    case kDefaults:
    case kKeywordDefaults:
      return PyFunction_Check(holder);
    case kType:
      return true;
    default:
      return _PyObject_GetDictPtr(holder) != nullptr;
  }
}

bool is_row(PyObject* tuple) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 5) return false;
  auto part = [&](int k) { return PyTuple_GET_ITEM(tuple, k); };
  PyObject *holder = part(1), *value = part(2), *extra = part(3);
  if (!PyLong_Check(part(0))) return false;
  switch (PyLong_AsLong(part(0))) {
    case kPlace:
      return is_place(holder, extra);
    case kNames:
      return PyDict_Check(holder) && PyDict_Check(value);
    case kList:
      return PyList_Check(holder) && PyTuple_Check(value);
    case kDict:
      return PyDict_Check(holder) && PyTuple_Check(value);
    case kOrder:
      return PyTuple_Check(value) && PyType_Check(extra) &&
             PyObject_TypeCheck(holder, reinterpret_cast<PyTypeObject*>(extra)) &&
             reinterpret_cast<PyTypeObject*>(extra)->tp_iter;
    case kClass:
      return PyType_Check(holder) && PyCallable_Check(value);
    case kTensor:
      return is_tensor(holder);
    case kAsk:
      return PyCallable_Check(value);
    default:
      return false;
  }
}

// A row is (kind, holder, value, extra, all).
Row row_of(PyObject* tuple, PyObject* absent) {
  if (!is_row(tuple)) type_error("_Guards(): this is not a row");
  auto part = [&](int k) { return PyTuple_GET_ITEM(tuple, k); };
  Row r{static_cast<Kind>(PyLong_AsLong(part(0))), Object::borrow(part(1)), Object::borrow(part(2)),
        Object::borrow(part(3))};
  r.all = part(4) == Py_True;
  if (r.value.get() == absent) r.value = Object();
  if (r.kind == kPlace) {
    r.at = place_of(r.holder.get(), part(3));
  } else if (r.kind == kNames || r.kind == kDict) {
    if (changes_are_told()) r.version = std::make_unique<DictVersion>(r.holder.get());
  } else if (r.kind == kTensor) {
    const TensorObject* t = as_tensor(r.holder.get());
    if (part(3) == Py_None) r.extra = Object();
    r.value = Object::borrow(reinterpret_cast<PyObject*>(Py_TYPE(t)));
    r.dtype = t->dtype;
    r.flags = t->flags & (kRequiresGrad | kInference);
    r.leaf = !t->grad_fn;
    r.shape = Dims(Span{t->shape, t->ndim});
    r.strides = Dims(Span{t->strides, t->ndim});
  }
  return r;
}

struct GuardsObject {
  PyObject_HEAD Guards* guards;
};
Guards& guards_of(PyObject* o) { return *reinterpret_cast<GuardsObject*>(o)->guards; }

// _Guards(rows, absent, alike, names, known): `absent` stands for nothing in rows; `names` are asked
// of tensors, and `known` are those for which there are rows.
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guard([&]() -> PyObject* {
    PyObject *rows, *absent, *alike, *names, *known;
    if (!PyArg_ParseTuple(args, "O!OOOO!:_Guards", &PyList_Type, &rows, &absent, &alike, &names,
                          &PyList_Type, &known))
      throw PythonError{};
    auto g = std::make_unique<Guards>();
    g->alike = Object::borrow(alike);
    g->absent = Object::borrow(absent);
    if (names != Py_None) g->names = Object::borrow(names);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(known); ++k)
      g->known.insert(PyList_GET_ITEM(known, k));  // kept alive by who asks
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(rows); ++k) {
      g->rows.push_back(row_of(PyList_GET_ITEM(rows, k), absent));
      Row& r = g->rows.back();
      auto row = static_cast<uint32_t>(k);
      std::vector<Word> found = words_of(r, row);
      // What has changed since it was noted is compared exactly, and then does not hold.
      if (r.kind != kClass && !found.empty() && !without_errors([&] { return holds(*g, r); }))
        found = {{found[0].at, 0, 1, row}};
      r.first = g->words.size();
      r.count = found.size();
      g->words.insert(g->words.end(), found.begin(), found.end());
      if (found.empty()) g->others.push_back(row);
    }
    Object o = checked(type->tp_alloc(type, 0));
    reinterpret_cast<GuardsObject*>(o.get())->guards = g.release();
    return o.release();
  });
}

int traverse(PyObject* o, visitproc visit, void* arg) {
  Guards* g = reinterpret_cast<GuardsObject*>(o)->guards;
  if (!g) return 0;
  for (const Row& r : g->rows) {
    Py_VISIT(r.holder.get());
    Py_VISIT(r.value.get());
    Py_VISIT(r.extra.get());
  }
  Py_VISIT(g->alike.get());
  Py_VISIT(g->names.get());
  return 0;
}
int clear(PyObject* o) {
  delete std::exchange(reinterpret_cast<GuardsObject*>(o)->guards, nullptr);
  return 0;
}
void dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  clear(o);
  Py_TYPE(o)->tp_free(o);
}

PyObject* hold(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    Object kept = Object::borrow(o);  // what it calls may drop the program it belongs to
    std::span<PyObject* const> tensors;
    Object list = Object::borrow(n ? args[0] : nullptr);
    if (list && PyList_Check(list.get()))
      tensors = {reinterpret_cast<PyListObject*>(list.get())->ob_item,
                 static_cast<size_t>(PyList_GET_SIZE(list.get()))};
    return PyBool_FromLong(without_errors([&] { return all_hold(guards_of(o), tensors); }));
  });
}

PyObject* failed(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Guards& g = guards_of(o);
    for (size_t k = 0; k < g.rows.size(); ++k)
      if (!without_errors([&] { return holds(g, g.rows[k]); })) return PyLong_FromSize_t(k);
    Py_RETURN_NONE;
  });
}

// changed(before, now): a name whose value in a dict is another, or None
PyObject* changed(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2 || !PyDict_Check(args[0]) || !PyDict_Check(args[1]))
      type_error("changed() takes two dicts");
    Guards& g = guards_of(o);
    PyObject *name, *value;
    for (int way : {0, 1}) {
      Py_ssize_t at = 0;
      while (PyDict_Next(args[way], &at, &name, &value)) {
        PyObject* other = PyDict_GetItemWithError(args[1 - way], name);
        if (!other && PyErr_Occurred()) throw PythonError{};
        if (other != value && !same(g, value, other)) return Py_NewRef(name);
      }
    }
    Py_RETURN_NONE;
  });
}

PyObject* same_(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("same() takes two objects");
    return PyBool_FromLong(same(guards_of(o), args[0], args[1]));
  });
}

template <class F>
PyCFunction fast(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"hold", fast(hold), METH_FASTCALL, "hold([tensors]): whether all is as it was."},
    {"failed", failed, METH_NOARGS, "The number of a row that does not hold, or None."},
    {"changed", fast(changed), METH_FASTCALL,
     "changed(before, now): a name that differs, or None."},
    {"same", fast(same_), METH_FASTCALL, "same(a, b): whether one is as good as the other."},
    {nullptr}};

PyTypeObject guards_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

void check_guards(PyObject* o) {
  if (Py_TYPE(o) != &guards_type) type_error("guards are expected, not ", Py_TYPE(o)->tp_name);
}
bool guards_hold(PyObject* guards, std::span<PyObject* const> arguments) {
  return without_errors([&] { return all_hold(guards_of(guards), arguments); });
}

void add_guards(PyObject* module) {
  guards_type.tp_name = "adjoint._core._Guards";
  guards_type.tp_basicsize = sizeof(GuardsObject);
  guards_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  guards_type.tp_doc = "What a recorded call depends on, besides its arguments.";
  guards_type.tp_new = make;
  guards_type.tp_dealloc = dealloc;
  guards_type.tp_traverse = traverse;
  guards_type.tp_clear = clear;
  guards_type.tp_methods = methods;
  checked(PyType_Ready(&guards_type));
  checked(PyModule_AddObjectRef(module, "_Guards", reinterpret_cast<PyObject*>(&guards_type)));
}

}  // namespace adjoint
