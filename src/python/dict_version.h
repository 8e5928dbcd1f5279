// A number that each change of a dict makes another. Read bindings/program/guards.cpp, which compares it.
#pragma once
#include <Python.h>

#include <cstdint>
#include <utility>

#include "python/error.h"

#if PY_VERSION_HEX >= 0x030E0000
#include <unordered_map>
#endif

namespace adjoint {

// Python 3.13.0 alone changes attributes of objects without counting and without telling who
// watches (mended in 3.13.1). A guard has no version there, and is compared exactly in each call.
inline bool changes_are_told() { return Py_Version >> 8 != 0x030D00; }

#if PY_VERSION_HEX < 0x030E0000

// CPython counts by itself.
class DictVersion {
 public:
  explicit DictVersion(PyObject* dict) : dict_(reinterpret_cast<PyDictObject*>(dict)) {}
  const uint64_t* word() const {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return &dict_->ma_version_tag;
#pragma GCC diagnostic pop
  }

 private:
  PyDictObject* dict_;
};

#else

// CPython tells who asks, so the count is kept here: one for each dict that a guard looks at.
class DictVersion {
 public:
  explicit DictVersion(PyObject* dict) : dict_(dict) {
    Count& c = counts()[dict];
    if (!c.users++ && PyDict_Watch(watcher(), dict) < 0) {
      counts().erase(dict);
      throw PythonError{};
    }
  }
  DictVersion(DictVersion&& o) noexcept : dict_(std::exchange(o.dict_, nullptr)) {}
  DictVersion& operator=(DictVersion&& o) noexcept {
    std::swap(dict_, o.dict_);
    return *this;
  }
  ~DictVersion() {
    if (!dict_ || --counts()[dict_].users) return;
    counts().erase(dict_);
    if (PyDict_Unwatch(watcher(), dict_) < 0) PyErr_Clear();
  }
  const uint64_t* word() const { return &counts()[dict_].changes; }

 private:
  struct Count {
    uint64_t changes = 0;
    int users = 0;
  };
  // Elements of an unordered_map stay where they are.
  static std::unordered_map<PyObject*, Count>& counts() {
    static auto* all = new std::unordered_map<PyObject*, Count>;  // outlives the interpreter
    return *all;
  }
  static int changed(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
    auto found = counts().find(dict);
    if (found != counts().end()) ++found->second.changes;
    return 0;
  }
  static int watcher() {
    static int id = PyDict_AddWatcher(changed);
    if (id < 0) throw PythonError{};
    return id;
  }

  PyObject* dict_;
};

#endif

}  // namespace adjoint
