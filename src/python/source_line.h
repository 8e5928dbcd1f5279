// A place in the user's program: a code object and an instruction offset, two words, no strings.
// Captured for every node and every in-place change; turned into file and line only when asked.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>

namespace adjoint {

class SourceLine {
 public:
  SourceLine() = default;
  SourceLine(const SourceLine& o) : code_(o.code_), offset_(o.offset_) { Py_XINCREF(code_); }
  SourceLine(SourceLine&& o) noexcept : code_(o.code_), offset_(o.offset_) { o.code_ = nullptr; }
  SourceLine& operator=(SourceLine o) noexcept {
    std::swap(code_, o.code_);
    std::swap(offset_, o.offset_);
    return *this;
  }
  ~SourceLine() { Py_XDECREF(code_); }

  // The innermost frame of the running thread that is not adjoint's own Python code.
  static SourceLine here() {
    SourceLine line;
    capture(&line);
    return line;
  }
  // The same into a line that holds nothing yet.
  static void capture(SourceLine* into);
  // Frames of code whose file lies below this folder are skipped by here().
  static void set_package_folder(const std::string& folder);

  void clear() noexcept {
    if (code_) Py_DECREF(std::exchange(code_, nullptr));
  }

  explicit operator bool() const { return code_ != nullptr; }
  bool operator==(const SourceLine&) const = default;
  size_t hash() const {
    return reinterpret_cast<uintptr_t>(code_) + 31 * static_cast<size_t>(offset_);
  }
  std::string file() const;
  int line() const;
  // "train.py:41   y = x * w" (the source text when the file can be read).
  std::string describe() const;

 private:
  PyObject* code_ = nullptr;  // a PyCodeObject
  int offset_ = 0;
};

}  // namespace adjoint
