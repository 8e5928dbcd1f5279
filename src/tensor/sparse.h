// Sparse tensors: where entries stand, and their values.
//
// Note [Sparse headers]. A sparse tensor is a header like any other (shape, dtype, history,
// gradient) with kSparse among its flags and its parts beside it. Its own memory is one element that
// all indices lead to (strides of zero, NaN where the dtype has it): whoever reads it without asking
// for the flag stays inside memory. Nobody should: ops refuse sparse operands where they are called
// (dispatch/sparse_calls.h), unless their block says what to do with them.
// Parts have no history; the header has it. Indices are checked when the tensor is made and belong
// to it alone (read-only memory), so that kernels may trust them. Headers made by alias() share
// their parts.
#pragma once
#include <memory>

#include "tensor/tensor.h"

namespace adjoint {

enum class Layout : uint8_t { Coo, Csr, Csc };
const char* name_of(Layout layout);  // "sparse_coo"

struct SparseParts {
  Layout layout = Layout::Coo;
  bool coalesced = true;  // Coo: entries are in row-major order, and no place has two
  Tensor indices;         // Coo: [sparse axes, entries]; otherwise where each row (column) starts
  Tensor plain;           // Csr: the column of each entry; Csc: its row
  Tensor values;          // [entries, *dense axes]

  int64_t entries() const { return values.size(0); }
  int dense_axes() const { return values.ndim() - 1; }
  int sparse_axes() const { return layout == Layout::Coo ? static_cast<int>(indices.size(0)) : 2; }
};

// How many sparse headers there are: zero in most programs, and asked before anything else.
extern int64_t g_sparse;

inline bool is_sparse(const TensorObject* t) { return t->flags & kSparse; }
inline bool is_sparse(const Tensor& t) { return t && is_sparse(t.get()); }
const SparseParts& parts_of(const Tensor& t);

// A header for parts that fit `shape` (ops/sparse checks what people give).
Tensor sparse_tensor(SparseParts parts, Span shape);
// Other parts for a tensor and all its aliases: what an in-place op does.
void replace_parts(const Tensor& t, SparseParts parts);
// For alias(): `to` is a second header on `from`.
void share_parts(const Tensor& to, const Tensor& from);
// Called when a header is cleared.
void drop_parts(TensorObject* t) noexcept;

// For all that reads memory without an op. Raises NotImplementedError.
[[noreturn]] void refuse_sparse(const TensorObject* t, const char* what);
inline void require_strided(const TensorObject* t, const char* what) {
  if (is_sparse(t)) [[unlikely]]
    refuse_sparse(t, what);
}

}  // namespace adjoint
