// How two rows of 16-bit floats become one, in the form MPI_Op_create takes: MPI has no such types.
// Read next: python/adjoint/distributed/_types.py.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings/python.h"
#include "kernels/convert_element.h"

namespace adjoint {
namespace {

namespace one = ADJOINT_ISA_TAG;

float sum(float a, float b) { return a + b; }
float product(float a, float b) { return a * b; }
// A NaN stays, as in `minimum` and `maximum`.
float least(float a, float b) { return std::isnan(a) || a < b ? a : b; }
float most(float a, float b) { return std::isnan(a) || a > b ? a : b; }

float widen(half_t x) { return one::half_to_float(x); }
float widen(bfloat16_t x) { return one::bfloat16_to_float(x); }

template <class T, float (*combine)(float, float)>
void reduce(void* in, void* inout, int* count, void*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = one::convert<T>(combine(widen(a[i]), widen(b[i])));
}

using Function = void (*)(void*, void*, int*, void*);

template <class T>
Function by_name(const char* name) {
  if (!std::strcmp(name, "SUM")) return reduce<T, sum>;
  if (!std::strcmp(name, "PRODUCT")) return reduce<T, product>;
  if (!std::strcmp(name, "MIN")) return reduce<T, least>;
  if (!std::strcmp(name, "MAX")) return reduce<T, most>;
  return nullptr;
}

// _foreign_reduction(half, name): its address, 0 if there is none.
PyObject* foreign_reduction(PyObject*, PyObject* args) {
  int half;
  const char* name;
  if (!PyArg_ParseTuple(args, "ps:_foreign_reduction", &half, &name)) return nullptr;
  Function found = half ? by_name<half_t>(name) : by_name<bfloat16_t>(name);
  return PyLong_FromVoidPtr(reinterpret_cast<void*>(found));
}

PyMethodDef functions[] = {{"_foreign_reduction", foreign_reduction, METH_VARARGS,
                            "(half, name): the address of a reduction of 16-bit floats, or 0."},
                           {nullptr}};

}  // namespace

void add_foreign_reductions(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
