// Errors of the core: a C++ exception that says which Python class it becomes.
// The bindings translate it (bindings/errors.cpp); nothing else catches it.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

#include "dims.h"
#include "dtype.h"

namespace adjoint {

enum class ErrorClass { Runtime, Value, Type, Index, NotImplemented, Overflow, ZeroDivision };

struct Error : std::runtime_error {
  ErrorClass kind;
  Error(ErrorClass k, const std::string& message) : std::runtime_error(message), kind(k) {}
};

// A Python exception is already set; unwinding carries it to the binding that returns null.
struct PythonError {};

inline std::ostream& operator<<(std::ostream& s, const Dims& d) { return s << to_string(d); }
inline std::ostream& operator<<(std::ostream& s, Span d) { return s << to_string(d); }
inline std::ostream& operator<<(std::ostream& s, DType d) { return s << name_of(d); }

template <class... A>
std::string text(const A&... a) {
  std::ostringstream s;
  (s << ... << a);
  return s.str();
}
template <class... A>
[[noreturn]] void fail(ErrorClass kind, const A&... a) {
  throw Error(kind, text(a...));
}
template <class... A>
[[noreturn]] void runtime_error(const A&... a) {
  fail(ErrorClass::Runtime, a...);
}
template <class... A>
[[noreturn]] void value_error(const A&... a) {
  fail(ErrorClass::Value, a...);
}
template <class... A>
[[noreturn]] void type_error(const A&... a) {
  fail(ErrorClass::Type, a...);
}
template <class... A>
[[noreturn]] void index_error(const A&... a) {
  fail(ErrorClass::Index, a...);
}
template <class... A>
[[noreturn]] void not_implemented(const A&... a) {
  fail(ErrorClass::NotImplemented, a...);
}

}  // namespace adjoint
