// Errors of the core: a C++ exception that says which Python class it becomes.
// The bindings translate it (bindings/errors.cpp); nothing else catches it.
#pragma once
#include <ostream>
#include <stdexcept>
#include <string>

namespace adjoint {

enum class ErrorClass {
  Runtime,
  Value,
  Type,
  Index,
  NotImplemented,
  Overflow,
  ZeroDivision,
  LinAlg  // a RuntimeError: a matrix that a decomposition cannot do with
};

struct Error : std::runtime_error {
  ErrorClass kind;
  Error(ErrorClass k, const std::string& message) : std::runtime_error(message), kind(k) {}
};

// A Python exception is already set; unwinding carries it to the binding that returns null.
struct PythonError {};

// A part of a message: a value, and how it is printed. Every op has a dozen messages and hardly any
// is ever read, so what puts them together is out of line.
class Word {
 public:
  template <class T>
  Word(const T& value) : value_(&value), print_(print<T>) {}
  template <size_t N>
  Word(const char (&literal)[N]) : value_(literal), print_(print_literal) {}
  void print_to(std::ostream& s) const { print_(s, value_); }

 private:
  template <class T>
  static void print(std::ostream& s, const void* value) {
    s << *static_cast<const T*>(value);
  }
  static void print_literal(std::ostream& s, const void* literal);

  const void* value_;
  void (*print_)(std::ostream&, const void*);
};

std::string join(const Word* words, size_t n);
[[noreturn]] void throw_error(ErrorClass kind, const Word* words, size_t n);

template <class... A>
std::string text(const A&... a) {
  const Word words[] = {Word(a)...};
  return join(words, sizeof...(A));
}
template <class... A>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorClass kind, const A&... a) {
  const Word words[] = {Word(a)...};
  throw_error(kind, words, sizeof...(A));
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
template <class... A>
[[noreturn]] void linalg_error(const A&... a) {
  fail(ErrorClass::LinAlg, a...);
}

}  // namespace adjoint
