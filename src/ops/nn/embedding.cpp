// embedding: rows of a table by their numbers, and the sum of their gradients.
// Read ops/index/offsets.h first for how numbers become places.
#include <cstring>

#include "dispatch/scalar_range.h"
#include "ops/index/offsets.h"
#include "ops/sparse/rules.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The index as a vector of int64, and the shape of the result.
struct Lookup {
  Tensor flat;
  Dims shape;
};
Lookup lookup(T indices, int64_t width) {
  if (indices.dtype() != DType::Int64 && indices.dtype() != DType::Int32) {
    runtime_error(
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
        "Long, Int; but got ",
        indices.dtype(), " instead (while checking arguments for embedding)");
  }
  Lookup out{contiguous(cast(indices, DType::Int64)), Dims(indices.shape())};
  Dims flat{indices.numel()};
  out.flat = on_storage(out.flat->storage, flat, Dims{1}, out.flat.offset(), DType::Int64);
  out.shape.push_back(width);
  return out;
}

// Rows of the gradient where they belong, without the others.
Tensor sparse_embedding_grad(T g, C c) {
  if (c.in(3).boolean())
    runtime_error("embedding_backward: scale_grad_by_freq not supported with sparse gradients");
  const int64_t padding = c.in(2).integer(), width = c.shape(0)[1];
  Tensor at = op<"reshape">(c.tensor(1), Dims{-1}),
         rows = op<"reshape">(g, Dims{at.numel(), width});
  if (padding >= 0) {
    Tensor kept = op<"ne">(at, padding);
    at = op<"index">(at, Value(Tensors{kept}));
    rows = op<"index">(rows, Value(Tensors{kept}));
  }
  return op<"_sparse_coo">(op<"unsqueeze">(at, 0), rows, c.shape(0));
}

// A saved index can have been changed since behind autograd's back.
void require_rows(T flat, int64_t rows) {
  const int64_t* index = flat.data<int64_t>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (index[i] < 0 || index[i] >= rows) {
      index_error("embedding(): index out of range in self: index ", index[i],
                  " is out of bounds for ", rows, " rows");
    }
  }
}

}  // namespace

static const Op& embedding_ =
    def("embedding(weight, indices, padding_idx: int = -1, scale_grad_by_freq: bool = False, "
        "sparse: bool = False)",
        "The rows of `weight` that `indices` names. The row `padding_idx` gets no gradient.")
        .forward([](Call& c) -> Value {
          Tensor w = c.tensor(0);
          if (w.ndim() != 2) runtime_error("'weight' must be 2-D, got shape ", w.shape());
          Lookup l = lookup(c.tensor(1), w.size(1));
          return read_places(w, plan_rows(w, 0, l.flat, "embedding"), l.shape);
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                if (c.in(4).boolean()) return sparse_embedding_grad(g, c);
                return op<"_embedding_backward">(g, c.in(1), c.shape(0)[0], c.in(2), c.in(3));
              })
        .linear()
        .function_only()
        .batch([](Call& c, const int* axes) -> Value {
          // Its own gradient counts and skips rows, of each sample alone.
          if (c.integer(2) >= 0 || c.flag(3)) return batch::each_sample(c, axes);
          if (axes[0] < 0) return apply(c.op, c.args);
          Tensor weight = c.tensor(0);
          if (axes[1] < 0) return op<"index">(weight, Value(Tensors{Tensor(), c.tensor(1)}));
          Tensor rows =
              batch::line_up(op<"arange">(Value(weight.size(0))), batch::sample_ndim(c, axes, 1));
          return op<"index">(weight, Value(Tensors{rows, c.tensor(1)}));
        })
        .depends(Depends::Moved)
        .any_dtype();

static const Op& embedding_backward_ =
    def("_embedding_backward(input, indices, rows: int, padding_idx: int, "
        "scale_grad_by_freq: bool)",
        "The transpose of embedding.")
        .forward([](Call& c) -> Value {
          Tensor g = c.tensor(0);
          int64_t rows = c.integer(2), padding = c.integer(3), width = g.size(-1);
          Lookup l = lookup(c.tensor(1), width);
          require_rows(l.flat, rows);
          Tensor out = empty(Dims{rows, width}, g.dtype());
          const int64_t* index = l.flat.data<int64_t>();
          g = contiguous(g);
          if (c.flag(4)) {
            std::vector<int64_t> count(rows, 0);
            for (int64_t i = 0; i < l.flat.numel(); ++i) ++count[index[i]];
            Tensor scale = empty(Dims{l.flat.numel(), 1}, DType::Float64);
            for (int64_t i = 0; i < l.flat.numel(); ++i) {
              scale.data<double>()[i] = 1.0 / static_cast<double>(count[index[i]]);
            }
            GradMode off(false);
            Tensor table = op<"reshape">(g, Dims{l.flat.numel(), width});
            g = contiguous(table * cast(scale, g.dtype()));
          }
          // The padding row gathers with the rest and is wiped afterwards: no branch per row.
          WithoutGil release(out.numel() >= kReleaseGil);
          sum_into_rows(out->data, g->data, g.dtype(), index, l.flat.numel(), rows, width);
          if (padding >= 0 && padding < rows) {
            std::memset(out->data + padding * width * out.itemsize(), 0, width * out.itemsize());
          }
          return out;
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                int64_t padding = c.in(3).integer();
                if (c.in(4).boolean()) {
                  runtime_error(
                      "embedding: double backward is not supported with scale_grad_by_freq");
                }
                Tensor table = g;
                if (padding >= 0 && padding < g.size(0)) {
                  Tensor row = scalar_tensor(padding, DType::Int64);
                  table = op<"index_fill">(g, 0, row, 0);
                }
                return op<"embedding">(table, c.in(1), padding);
              })
        .linear()
        .internal()
        .node("EmbeddingDenseBackward0")
        .depends(Depends::Moved);

}  // namespace adjoint
