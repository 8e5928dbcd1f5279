// Letting go of the arrays behind foreign storage.
#include <Python.h>

#include "tensor/donated_arrays.h"

namespace adjoint {

void release_shared(void* owner) {
  auto* view = static_cast<Py_buffer*>(owner);
  PyBuffer_Release(view);
  delete view;
}

void release_adopted(void* owner) { release_shared(owner); }

}  // namespace adjoint
