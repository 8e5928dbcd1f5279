// From C++ exceptions to Python's: the one place.
#include <stdexcept>
#include <string_view>

#include "bindings/python.h"
#include "tensor/allocator.h"

namespace adjoint {
namespace {

PyObject* g_linalg_error = nullptr;

PyObject* class_of(ErrorClass k) {
  switch (k) {
    case ErrorClass::Value:
      return PyExc_ValueError;
    case ErrorClass::Type:
      return PyExc_TypeError;
    case ErrorClass::Index:
      return PyExc_IndexError;
    case ErrorClass::NotImplemented:
      return PyExc_NotImplementedError;
    case ErrorClass::Overflow:
      return PyExc_OverflowError;
    case ErrorClass::ZeroDivision:
      return PyExc_ZeroDivisionError;
    case ErrorClass::LinAlg:
      return g_linalg_error;
    default:
      return PyExc_RuntimeError;
  }
}

// For lists of sizes and results, which are kept outside the tensors' memory.
constexpr const char* kTooMuch =
    "not enough memory: a size or a count in the arguments of this call is too large";

}  // namespace

void add_error_classes(PyObject* module) {
  g_linalg_error = PyErr_NewExceptionWithDoc(
      "adjoint._C._LinAlgError",
      "A matrix has no decomposition, inverse or solution of the kind that was asked for.",
      PyExc_RuntimeError, nullptr);
  if (!g_linalg_error) throw PythonError{};
  checked(PyModule_AddObjectRef(module, "_LinAlgError", g_linalg_error));
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_SystemError, "an error was reported but none was set");
  } catch (const Error& e) {
    PyErr_SetString(class_of(e.kind), e.what());
  } catch (const std::bad_alloc& e) {
    // PyTorch's class for a failed allocation is RuntimeError.
    bool bare = std::string_view(e.what()).starts_with("std::");  // not the allocator's own
    PyErr_SetString(PyExc_RuntimeError, bare ? kTooMuch : e.what());
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_RuntimeError, kTooMuch);
  } catch (const std::invalid_argument& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_SystemError, e.what());
  }
}

}  // namespace adjoint
