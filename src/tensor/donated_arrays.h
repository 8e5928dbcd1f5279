// Foreign memory that was given away: an array that nobody but its storage holds any more.
//
// What may be done with memory of our own, such as taking a gradient over without a copy, may be
// done with it too. Read next: storage.h.
#pragma once
#include "tensor/storage.h"

namespace adjoint {

// Let go of a Py_buffer that was made with `new`.
void release_shared(void* owner);

// The same for an array that was given away; its address is the mark of such a storage.
void release_adopted(void* owner);

inline bool is_adopted(const Storage* s) { return s->release == release_adopted; }

}  // namespace adjoint
