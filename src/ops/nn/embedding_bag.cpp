// embedding_bag: sums, means or maxima of rows of a table, without the rows in between.
// Read embedding.cpp first.
#include <limits>

#include "graph/transformed.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

enum BagMode : int64_t { Sum, Mean, Max };

// Arguments: weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx.
constexpr int kScaled = 3, kMode = 4, kSparse = 5, kShares = 6, kLast = 7, kPadding = 8;

// Which rows go into which bag.
struct Bags {
  Tensor index, offset, shares;  // int64, int64, of the table's compute dtype or undefined
  int64_t bags, count, padding;

  const int64_t* rows() const { return index.data<int64_t>(); }
  int64_t begin(int64_t b) const { return offset.data<int64_t>()[b]; }
  int64_t end(int64_t b) const { return b + 1 < offset.numel() ? begin(b + 1) : count; }
};

void check_integers(T t, const char* name) {
  if (t.dtype() == DType::Int64 || t.dtype() == DType::Int32) return;
  runtime_error("Expected tensor for argument '", name,
                "' to have one of the following scalar types: Long, Int; but got ", t.dtype(),
                " instead (while checking arguments for embedding_bag)");
}

void check_offsets(const Bags& b, int64_t given, bool last) {
  if (given == 0) {
    if (last) runtime_error("include_last_offset: number of offset should be at least 1");
    if (b.count)
      runtime_error("embedding_bag: offsets are empty, but there are ", b.count, " indices");
    return;
  }
  const int64_t* at = b.offset.data<int64_t>();
  if (at[0] != 0) {
    runtime_error(
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        "position 0. However, got ",
        at[0]);
  }
  for (int64_t i = 1; i < given; ++i) {
    if (at[i] < at[i - 1]) {
      runtime_error("embedding_bag: offsets must not fall, but offsets[", i, "] is ", at[i],
                    " after ", at[i - 1]);
    }
  }
  if (at[given - 1] > b.count) {
    runtime_error("offsets[-1] can not be greater than input's length(", b.count,
                  ") but got offsets[-1] of ", at[given - 1]);
  }
}

Bags bags_of(T w, const Value* args) {
  Tensor index = args[1].tensor(), offset = args[2].tensor();
  check_integers(index, "indices");
  check_integers(offset, "offsets");
  if (w.ndim() != 2) runtime_error("embedding_bag: 'weight' must be 2-D, got shape ", w.shape());
  if (index.ndim() != 1 || offset.ndim() != 1) {
    runtime_error("embedding_bag: indices and offsets must be 1-D, got ", index.shape(), " and ",
                  offset.shape());
  }
  Bags b{contiguous(cast(index, DType::Int64)),
         contiguous(cast(offset, DType::Int64)),
         {},
         offset.numel(),
         index.numel(),
         args[kPadding].integer()};
  const bool last = args[kLast].boolean();
  check_offsets(b, b.bags, last);
  if (last) --b.bags;
  for (int64_t i = 0; i < b.count; ++i) {
    if (b.rows()[i] < 0 || b.rows()[i] >= w.size(0)) {
      runtime_error("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be ",
                    b.rows()[i], " where there are ", w.size(0), " rows");
    }
  }
  if (args[kShares].is_none()) return b;
  Tensor shares = args[kShares];
  if (args[kMode].integer() != Sum) {
    runtime_error(
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
        "mode='sum'");
  }
  if (shares.dtype() != w.dtype() || shares.numel() != b.count || shares.ndim() != 1) {
    runtime_error("expected per_sample_weights of ", b.count, " elements of ", w.dtype(),
                  ", but got shape ", shares.shape(), " of ", shares.dtype());
  }
  b.shares = contiguous(cast(shares, compute_dtype(w.dtype())));
  return b;
}

// Four results, as in PyTorch: the bags, which bag each index belongs to, how many rows count in each,
// and (for the maximum) which row each element is of.
struct Results {
  Tensor out, bag, size, largest;
};

template <class S>
void gather_bags(T table, const Bags& b, int64_t mode, const Results& r) {
  const int64_t width = table.size(1);
  const S* w = table.data<S>();
  const S* share = b.shares ? b.shares.data<S>() : nullptr;
  S* out = r.out.data<S>();
  int64_t *bag = r.bag.data<int64_t>(), *size = r.size.data<int64_t>();
  int64_t* largest = mode == Max ? r.largest.data<int64_t>() : nullptr;
  each_row(b.bags, width * std::max<int64_t>(1, b.count / std::max<int64_t>(b.bags, 1)),
           [&](int64_t k) {
             S* to = out + k * width;
             int64_t counted = 0;
             std::fill_n(to, width, S(0));
             if (largest) std::fill_n(largest + k * width, width, int64_t{-1});
             for (int64_t i = b.begin(k); i < b.end(k); ++i) {
               bag[i] = k;
               const int64_t row = b.rows()[i];
               if (row == b.padding) continue;
               const S* from = w + row * width;
               if (largest) {
                 for (int64_t e = 0; e < width; ++e) {
                   const bool better = counted == 0 || from[e] > to[e] || from[e] != from[e];
                   largest[k * width + e] = better ? row : largest[k * width + e];
                   to[e] = better ? from[e] : to[e];
                 }
               } else if (share) {
                 for (int64_t e = 0; e < width; ++e) to[e] += from[e] * share[i];
               } else {
                 for (int64_t e = 0; e < width; ++e) to[e] += from[e];
               }
               ++counted;
             }
             size[k] = counted;
             if (mode == Mean && counted > 1) {
               for (int64_t e = 0; e < width; ++e) to[e] /= static_cast<S>(counted);
             }
           });
}

Value bag_forward(Call& c) {
  Tensor w = c.tensor(0);
  const int64_t mode = c.integer(kMode);
  if (mode < Sum || mode > Max) value_error("mode has to be one of sum, mean or max");
  const DType d = row_dtype("embedding_bag", w.dtype());
  Bags b = bags_of(w, c.args);
  Tensor table = contiguous(cast(w, d));
  Dims shape{b.bags, w.size(1)};
  Results r{empty(shape, d), zeros(Dims{b.count}, DType::Int64), empty(Dims{b.bags}, DType::Int64),
            mode == Max ? empty(shape, DType::Int64) : empty(Dims{0}, DType::Int64)};
  if (d == DType::Float32)
    gather_bags<float>(table, b, mode, r);
  else
    gather_bags<double>(table, b, mode, r);
  c.kept = Tensors{r.bag, r.size, r.largest};
  return Tensors{cast(r.out, w.dtype()), r.bag, r.size, r.largest};
}

// --- derivatives --------------------------------------------------------------------------------
// What each index gets of the gradient of its bag, or gives to its bag: the factor of its row.
Tensor factors(C c, DType d) {
  const Tensors& kept = c.kept().tensors();
  Tensor index = c.in(1), f = op<"ones">(index.shape(), d);
  if (c.in(kMode).integer() == Mean) {
    Tensor size = op<"clamp_min">(op<"index_select">(kept[1], 0, kept[0]), 1);
    f = f / op<"_to_copy">(size, d).tensor();
  }
  if (c.in(kShares).is_tensor()) f = f * c.tensor(kShares);
  return op<"masked_fill">(f, op<"eq">(index, c.in(kPadding)), 0.0);
}

// The rows that indices name get what their bags got.
Tensor table_gradient(T g, C c) {
  const Tensors& kept = c.kept().tensors();
  const int64_t rows = c.shape(0)[0];
  if (c.in(kMode).integer() == Max) {
    Tensor none = op<"zeros">(c.shape(0), g.dtype());
    Tensor found = op<"ge">(kept[2], 0), row = op<"clamp_min">(kept[2], 0);
    return op<"scatter_add">(none, 0, row, op<"where">(found, g, 0.0));
  }
  Tensor each = op<"index_select">(g, 0, kept[0]);
  each = each * op<"unsqueeze">(factors(c, g.dtype()), 1).tensor();
  if (c.in(kSparse).boolean()) {
    if (c.in(kScaled).boolean())
      runtime_error("embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    return op<"_sparse_coo">(op<"unsqueeze">(c.in(1), 0), each, c.shape(0));
  }
  return op<"_embedding_backward">(each, c.in(1), rows, c.in(kPadding), c.in(kScaled));
}

Tensor share_gradient(T g, C c) {
  Tensor each = op<"index_select">(g, 0, c.kept().tensors()[0]);
  Tensor rows = op<"index_select">(c.in(0), 0, c.in(1));
  Tensor padded = op<"eq">(c.in(1), c.in(kPadding));
  return op<"masked_fill">(op<"sum">(each * rows, Dims{1}), padded, 0.0);
}

Value bag_tangent(C c, const Tensor* t) {
  auto bags = [&](const Value& w, const Value& shares) -> Tensor {
    return op<"_embedding_bag">(w, c.in(1), c.in(2), c.in(kScaled), c.in(kMode), c.in(kSparse),
                                shares, c.in(kLast), c.in(kPadding))
        .tensors()[0];
  };
  Tensor moved;
  if (t[0] && c.in(kMode).integer() == Max) {
    Tensor which = c.kept().tensors()[2];
    Tensor taken = op<"gather">(t[0], 0, op<"clamp_min">(which, 0));
    moved = op<"where">(op<"ge">(which, 0), taken, 0.0);
  } else if (t[0]) {
    moved = bags(t[0], c.in(kShares));
  }
  if (t[kShares]) {
    Tensor part = bags(c.in(0), t[kShares]);
    moved = moved ? moved + part : part;
  }
  return Tensors{moved, {}, {}, {}};
}

}  // namespace

static const Op& embedding_bag_ =
    def("_embedding_bag(weight, indices, offsets, scale_grad_by_freq: bool = False, mode: int = 0, "
        "sparse: bool = False, per_sample_weights: Tensor? = None, include_last_offset: bool = "
        "False, padding_idx: int = -1)",
        "Sums (mode 0), means (1) or maxima (2) of the rows of `weight` in each bag of indices.")
        .forward(bag_forward)
        .vjp(input(0) | input(1) | input(kShares),
             [](C c, Tensor* grads) {
               if (!c.has_grad(0)) return;
               if (c.needs(0)) grads[0] = table_gradient(c.grad(0), c);
               if (c.needs(kShares)) grads[3] = share_gradient(c.grad(0), c);
             })
        .jvp(bag_tangent)
        .function_only()
        .no_out()
        .called("embedding_bag")
        .node("EmbeddingBagBackward0")
        .batch(batch::each_sample);

}  // namespace adjoint
