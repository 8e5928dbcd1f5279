// Frames of the running thread, with the names of their functions: for the profiler, which is asked for
// whole stacks. What every node keeps is smaller (source_line.h).
#pragma once
#include <Python.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint {

// A code object and an instruction offset.
class CodePlace {
 public:
  CodePlace() = default;
  CodePlace(PyObject* code_owned, int offset) : code_(code_owned), offset_(offset) {}
  CodePlace(const CodePlace& o) : code_(o.code_), offset_(o.offset_) { Py_XINCREF(code_); }
  CodePlace(CodePlace&& o) noexcept : code_(std::exchange(o.code_, nullptr)), offset_(o.offset_) {}
  CodePlace& operator=(CodePlace o) noexcept {
    std::swap(code_, o.code_);
    std::swap(offset_, o.offset_);
    return *this;
  }
  ~CodePlace() { Py_XDECREF(code_); }

  explicit operator bool() const { return code_ != nullptr; }
  std::string file() const;
  int line() const;
  std::string function() const;  // its name, or "<module>"

 private:
  PyObject* code_ = nullptr;  // a PyCodeObject
  int offset_ = 0;
};

// The frames that are not adjoint's own, the innermost first; `most` of them at most.
std::vector<CodePlace> users_stack(int most);

}  // namespace adjoint
