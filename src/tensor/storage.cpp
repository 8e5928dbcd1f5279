// Memory from outside, and the end of any. Read storage.h first.
#include "tensor/storage.h"

namespace adjoint {

constinit thread_local uint16_t t_birth = 0;

Storage* foreign_storage(void* data, size_t bytes, void (*release)(void*), void* owner) {
  auto* s = new (memory::allocate(sizeof(Storage))) Storage;
  s->data = data;
  s->bytes = bytes;
  s->own = false;
  s->release = release;
  s->owner = owner;
  return s;
}

void destroy(Storage* s) noexcept {
  if (s->own && !s->release && !s->changed) [[likely]]
    return memory::deallocate(s, sizeof(Storage) + s->bytes);
  size_t block = sizeof(Storage) + (s->own ? s->bytes : 0);
  if (s->release) s->release(s->owner);
  s->~Storage();
  memory::deallocate(s, block);
}

}  // namespace adjoint
