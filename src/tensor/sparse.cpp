// Sparse headers. Read sparse.h first.
#include "tensor/sparse.h"

#include <cstring>

#include "tensor/modes.h"

namespace adjoint {

int64_t g_sparse = 0;

// Shared by the aliases of a tensor.
struct SharedParts {
  std::shared_ptr<SparseParts> parts;
};

const char* name_of(Layout layout) {
  static constexpr const char* names[] = {"sparse_coo", "sparse_csr", "sparse_csc"};
  return names[static_cast<int>(layout)];
}

namespace {

void attach(const Tensor& t, std::shared_ptr<SparseParts> parts) {
  extra_of(t.get()).sparse = new SharedParts{std::move(parts)};
  t->flags = static_cast<uint16_t>((t->flags & ~kContiguous) | kSparse);
  ++g_sparse;
}

}  // namespace

const SparseParts& parts_of(const Tensor& t) {
  if (!is_sparse(t)) runtime_error("expected a sparse tensor, got a strided one");
  return *t->extra->sparse->parts;
}

Tensor sparse_tensor(SparseParts parts, Span shape) {
  const DType dtype = parts.values.dtype();
  Tensor t = empty_strided(shape, Dims(shape.n, 0), dtype);
  if (t.numel()) std::memset(t->data, is_differentiable(dtype) ? 0xff : 0, t.itemsize());
  if (!parts.indices->storage->read_only) parts.indices->storage->read_only = true;
  if (parts.plain) parts.plain->storage->read_only = true;
  attach(t, std::make_shared<SparseParts>(std::move(parts)));
  return t;
}

void replace_parts(const Tensor& t, SparseParts parts) {
  parts.indices->storage->read_only = true;
  if (parts.plain) parts.plain->storage->read_only = true;
  *t->extra->sparse->parts = std::move(parts);
}

void share_parts(const Tensor& to, const Tensor& from) { attach(to, from->extra->sparse->parts); }

void drop_parts(TensorObject* t) noexcept {
  delete t->extra->sparse;
  t->extra->sparse = nullptr;
  t->flags = static_cast<uint16_t>(t->flags & ~kSparse);
  --g_sparse;
}

void refuse_sparse(const TensorObject* t, const char* what) {
  const SparseParts& parts = *t->extra->sparse->parts;
  not_implemented(what, ": not for sparse tensors (this one is ", name_of(parts.layout),
                  " of shape ", Span{t->shape, t->ndim},
                  "). fix: use to_dense(), or values() and indices()");
}

}  // namespace adjoint
