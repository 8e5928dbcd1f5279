// Ops whose result shares the input's memory.
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "tensor/checked.h"
#include "tensor/self_overlap.h"
#include "transforms/batch_rules.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// `-1` in a shape stands for what is left.
Dims infer_shape(const Dims& wanted, int64_t numel) {
  Dims shape = wanted;
  int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0)
        runtime_error("only one dimension can be inferred, but the shape is ", wanted);
      unknown = i;
    } else if (shape[i] < 0) {
      runtime_error("invalid shape dimension ", shape[i], " in ", wanted);
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      runtime_error("the shape ", wanted, " has too many elements");
    }
  }
  if (unknown >= 0 && known > 0 && numel % known == 0) {
    shape[unknown] = numel / known;
  } else if (unknown >= 0 || known != numel) {
    if (unknown >= 0 && known == 0 && numel == 0) {
      runtime_error("cannot reshape tensor of 0 elements into shape ", wanted,
                    " because the unspecified dimension size -1 can be any value and is ambiguous");
    }
    runtime_error("shape '", wanted, "' is invalid for input of size ", numel);
  }
  return shape;
}

// Strides of `shape` on the memory of `t`, if it can be seen that way without a copy.
bool view_strides(T t, const Dims& shape, Dims* out) {
  *out = contiguous_strides(shape);
  if (t.contiguous() || t.numel() == 0) return true;
  int i = t.ndim() - 1, k = shape.size() - 1;
  while (i >= 0) {  // a run of old axes that are evenly spaced takes a run of new ones
    int64_t step = t.stride(i), length = t.size(i);
    while (i > 0 && (t.size(i - 1) == 1 || t.stride(i - 1) == length * step)) {
      length *= t.size(i - 1);
      --i;
    }
    --i;
    int64_t rest = length;
    while (k >= 0 && (rest > 1 || shape[k] == 1)) {
      if (rest % shape[k]) return false;
      (*out)[k] = step;
      step *= shape[k];
      rest /= shape[k];
      --k;
    }
    if (rest != 1) return false;
  }
  return true;
}

// Whether they reach outside the memory is found out where a view is made.
void check_strided(const Dims& shape, const Dims& strides) {
  if (shape.size() != strides.size()) runtime_error("mismatch in length of strides and shape");
  for (int64_t s : strides) {
    if (s < 0)
      runtime_error("as_strided: Negative strides are not supported at the moment, got strides: ",
                    strides);
  }
}

Value view_forward(Call& c) {
  Tensor t = c.tensor(0);
  Dims shape = infer_shape(c.ints(1), t.numel()), strides;
  if (!view_strides(t, shape, &strides)) {
    runtime_error(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two "
        "contiguous subspaces): shape ",
        t.shape(), " with strides ", t.strides(), " seen as ", shape,
        ". Use .reshape(...) instead.");
  }
  return make_view(t, shape, strides, t.offset());
}

Tensor as_input_shape(T g, C c) {
  Span shape = c.shape(0);
  return op<"reshape">(g, shape);
}

// Another shape of memory that belongs to no other tensor in sight. Samples of a vmap may not lie
// in order.
Tensor unseen(const Tensor& given, const Dims& shape) {
  Tensor t = contiguous(given);
  return on_storage(t->storage, shape, contiguous_strides(shape), t.offset(), t.dtype());
}

}  // namespace

namespace {

Value view_rule(Call& c, const int* axes) {
  Tensor t = c.tensor(0);
  Dims shape = c.ints(1);
  int64_t size = batch::size(c, axes), n = 1, known = 1;
  for (int i = 1; i < t.ndim(); ++i) n *= t.size(i);
  for (int64_t s : shape) known = checked_mul(known, s == -1 ? 1 : s);
  for (int64_t& s : shape) {
    if (s == -1 && known > 0 && n % known == 0) s = n / known;
  }
  shape.insert(0, size);
  c.args[1] = shape;
  return apply(c.op, c.args);
}

}  // namespace

static const Op& view_ = def("view(input, shape|size: int[*])",
                             "The same elements, in the same memory, under another shape.")
                             .forward(view_forward)
                             .grad(0, nothing, as_input_shape)
                             .linear()
                             .view()
                             .rearranges()
                             .method_only()
                             .batch(view_rule);

// The copy that reshape makes where no view fits: nobody else can see it, so it is not a view.
static const Op& unsafe_view_ =
    def("_unsafe_view(input, shape: int[])", "Another shape for memory that nobody else sees.")
        .forward([](Call& c) -> Value { return unseen(c.tensor(0), c.ints(1)); })
        .grad(0, nothing, as_input_shape)
        .linear()
        .internal()
        .rearranges()
        .batch(view_rule)
        .any_dtype();
// The same where a product loses the axis that a vector was given, under PyTorch's name for that.
static const Op& unsafe_squeeze_ =
    def("_unsafe_squeeze(input, shape: int[])", "A row of a matrix that nobody else sees.")
        .forward([](Call& c) -> Value { return unseen(c.tensor(0), c.ints(1)); })
        .grad(0, nothing, as_input_shape)
        .linear()
        .internal()
        .rearranges()
        .node("SqueezeBackward4")
        .batch(view_rule)
        .any_dtype();

static const Op& reshape_ =
    def("reshape(input, shape: int[*])",
        "The same elements under another shape: a view where that is possible, otherwise a copy.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          Dims shape = infer_shape(c.ints(1), t.numel()), strides;
          if (view_strides(t, shape, &strides)) return op<"view">(t, shape);
          return op<"_unsafe_view">(op<"contiguous">(t), shape);
        })
        .no_out();

static const Op& view_dtype_ =
    def("view.dtype(input, dtype: dtype)", "The same memory seen as elements of another dtype.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          DType d = c[1].dtype();
          if (t.pending()) {
            runtime_error(
                "torch.Tensor.view is not supported for ",
                t.has(kConjugate) ? "conjugate view tensors" : "tensors with negative bit set",
                " when converting to a different dtype. fix: use ",
                t.has(kConjugate) ? "resolve_conj()" : "resolve_neg()", " first");
          }
          int64_t from = static_cast<int64_t>(t.itemsize()),
                  to = static_cast<int64_t>(item_size(d));
          Dims shape(t.shape()), strides(t.strides());
          int64_t offset = t.offset();
          if (from != to) {
            int last = t.ndim() - 1;
            int64_t ratio = std::max(from, to) / std::min(from, to);
            if (last < 0)
              runtime_error("self.dim() cannot be 0 to view ", t.dtype(), " as ", d,
                            " (different element sizes)");
            if (strides[last] != 1)
              runtime_error("self.stride(-1) must be 1 to view ", t.dtype(), " as ", d,
                            " (different element sizes), but got ", strides[last]);
            if (from < to) {
              auto divisible = [&](const auto& what, int64_t value) {
                if (value % ratio == 0) return;
                runtime_error("self.", what, " must be divisible by ", ratio, " to view ",
                              t.dtype(), " as ", d, " (different element sizes), but got ", value);
              };
              divisible("size(-1)", shape[last]);
              divisible("storage_offset()", offset);
              for (int i = 0; i < last; ++i) divisible(text("stride(", i, ")"), strides[i]);
            }
            auto scale = [&](int64_t v) { return from > to ? v * ratio : v / ratio; };
            shape[last] = scale(shape[last]);
            for (int i = 0; i < last; ++i) strides[i] = scale(strides[i]);
            offset = scale(offset);
          }
          Tensor v = make_view(t, Dims{0}, Dims{1}, 0);  // for its base: t may be empty
          Tensor seen = on_storage(t->storage, shape, strides, offset, d);
          std::swap(seen->base, v->base);
          seen->flags |= t->flags & kData;
          seen->view_version = t->storage->version;
          return seen;
        })
        .no_out()
        .takes_pending()
        .method_only()
        .batch(batch::as_is)
        .to_any_dtype();

static const Op& view_as_ =
    def("view_as(input, other)", "A view in the shape of `other`.")
        .forward([](Call& c) -> Value { return op<"view">(c[0], c.tensor(1).shape()); })
        .method_only()
        .no_out();

static const Op& reshape_as_ =
    def("reshape_as(input, other)", "The same elements in the shape of `other`.")
        .forward([](Call& c) -> Value { return op<"reshape">(c[0], c.tensor(1).shape()); })
        .method_only()
        .no_out();

static const Op& flatten_ =
    def("flatten(input, start_dim: int = 0, end_dim: int = -1)",
        "Axes `start_dim` to `end_dim` joined into one.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int a = wrap_dim(c.integer(1), t.ndim()), b = wrap_dim(c.integer(2), t.ndim());
          if (a > b)
            runtime_error("flatten() has invalid args: start_dim cannot come after end_dim");
          if (t.ndim() == 0) return op<"reshape">(t, Dims{1});
          if (a == b) return t;
          Dims shape;
          int64_t joined = 1;
          for (int i = 0; i < t.ndim(); ++i) {
            if (i < a || i > b) {
              shape.push_back(t.size(i));
              continue;
            }
            joined *= t.size(i);
            if (i == b) shape.push_back(joined);
          }
          return op<"reshape">(t, shape);
        })
        .no_out();

static const Op& ravel_ =
    def("ravel(input)", "All axes joined into one.")
        .forward([](Call& c) -> Value { return op<"reshape">(op<"contiguous">(c[0]), Dims{-1}); })
        .no_out();

static const Op& unflatten_ =
    def("unflatten(input, dim: int, sizes: int[])", "One axis seen as several.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int axis = wrap_dim(c.integer(1), t.ndim());
          if (c.ints(2).empty()) runtime_error("unflatten: sizes must be non-empty");
          int64_t n = t.ndim() ? t.size(axis) : 1, known = 1;
          int unknown = -1;
          Dims sizes = c.ints(2);
          for (int i = 0; i < sizes.size(); ++i) {
            if (sizes[i] == -1 && unknown < 0)
              unknown = i;
            else
              known = checked_mul(known, sizes[i]);
          }
          if (unknown >= 0 && known > 0 && n % known == 0) sizes[unknown] = n / known, known = n;
          if (known != n) {
            runtime_error("unflatten: Provided sizes ", c.ints(2),
                          " don't multiply up to the size of dim ", axis, " (", n,
                          ") in the input tensor");
          }
          Dims shape(t.shape());
          if (t.ndim()) shape.erase(axis);
          for (int i = 0; i < sizes.size(); ++i) shape.insert(axis + i, sizes[i]);
          return op<"view">(t, shape);
        })
        .no_out();

static const Op& expand_as_ =
    def("expand_as(input, other)", "A view expanded to the shape of `other`.")
        .forward([](Call& c) -> Value { return op<"expand">(c[0], c.tensor(1).shape()); })
        .method_only()
        .no_out();

static const Op& broadcast_to_ =
    def("broadcast_to(input, size|shape: int[*])", "A view expanded to a shape.")
        .forward([](Call& c) -> Value { return op<"expand">(c[0], c[1]); })
        .no_out();

static const Op& expand_ =
    def("expand(input, size: int[*], *, implicit: bool = False)",
        "A view in which axes of length one are repeated without a copy; -1 keeps a length.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          Dims shape = c.ints(1);
          int lead = shape.size() - t.ndim();
          if (lead < 0) {
            runtime_error("expand(): the number of sizes provided (", shape.size(),
                          ") must be greater or equal to the number of "
                          "dimensions in the tensor (",
                          t.ndim(), ")");
          }
          Dims strides(shape.size(), 0);
          for (int i = shape.size() - 1; i >= 0; --i) {
            int64_t have = i < lead ? 1 : t.size(i - lead);
            // A new axis of length one has the stride that unsqueeze would give it.
            if (i < lead && shape[i] == 1)
              strides[i] = i + 1 < shape.size() ? checked_mul(shape[i + 1], strides[i + 1]) : 1;
            if (shape[i] == -1 && i >= lead) shape[i] = have;
            if (shape[i] < 0)
              runtime_error("expand(): invalid size ", shape[i], " at dimension ", i);
            if (i >= lead && have == shape[i]) {
              strides[i] = t.stride(i - lead);
            } else if (have != 1) {
              runtime_error("The expanded size of the tensor (", shape[i],
                            ") must match the existing size (", have,
                            ") at non-singleton dimension ", i, ". Target sizes: ", shape,
                            ". Tensor sizes: ", t.shape());
            }
          }
          checked_numel(shape, 1);
          return make_view(t, shape, strides, t.offset());
        })
        .grad(0, nothing, [](T g, C) { return g; })
        .linear()
        .view()
        .method_only()
        .batch([](Call& c, const int* axes) -> Value {
          Dims shape = c.ints(1);
          Tensor t = batch::line_up(c.tensor(0), shape.size());
          shape.insert(0, batch::size(c, axes));
          return op<"expand">(t, shape, c[2]);
        });

namespace {

// A sample may be laid out anew within the memory that it covers itself: what lies outside belongs
// to other samples, or is not the same for all of them.
void check_within_sample(const Tensor& t, const Dims& size, const Dims& stride, int64_t offset) {
  int64_t first = t.offset(), last = first - 1;
  Span own{t->shape + 1, t.ndim() - 1};
  auto count = [](Span shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.n; ++i) n *= shape[i];
    return n;
  };
  if (count(size) == 0) return;
  if (count(own)) last += batch::reach(own, Dims(Span{t->strides + 1, t.ndim() - 1}));
  if (offset >= first && offset <= last && batch::reach(size, stride) <= last - offset + 1) return;
  runtime_error("vmap: as_strided(", Span(size), ", ", Span(stride), ", ", offset,
                ") can access memory outside of `tensor`: the sample's own memory is elements ",
                first, " to ", last,
                ". This is not supported inside of vmap; fix: index or view the tensor instead");
}

}  // namespace

static const Op& as_strided_ =
    def("as_strided(input, size: int[], stride: int[], storage_offset: int? = None)",
        "A view with any shape and strides on the tensor's memory.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const Dims &shape = c.ints(1), &strides = c.ints(2);
          int64_t offset = c[3].is_none() ? t.offset() : c.integer(3);
          check_strided(shape, strides);
          Tensor seen = make_view(t, shape, strides, offset);
          c.kept =
              std::vector<Value>{Value(Dims(t.strides())), Value(t.offset()), Value(seen.offset())};
          return seen;
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                const std::vector<Value>& k = c.kept().list();
                Span shape = c.shape(0);
                return op<"_restride">(g, c.in(2), k[2], shape, k[0], k[1], false);
              })
        .linear()
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor x = c.in(0);
          if (is_laid_out_as(x, t[0])) return op<"as_strided">(t[0], c.in(1), c.in(2), c.in(3));
          return op<"as_strided">(in_memory_of(x, t[0]), c.in(1), c.in(2), c.kept().list()[2]);
        })
        .view()
        .batch([](Call& c, const int* axes) -> Value {
          Tensor t = c.tensor(0);
          Dims size = c.ints(1), stride = c.ints(2);
          if (size.size() != stride.size()) {
            runtime_error("as_strided: size and stride must have the same length, got ", Span(size),
                          " and ", Span(stride));
          }
          check_within_sample(t, size, stride, c[3].is_none() ? t.offset() : c.integer(3));
          size.insert(0, batch::size(c, axes));
          stride.insert(0, t.stride(0));
          return op<"as_strided">(t, size, stride, c[3]);
        })
        .storage_offset(3);

static const Op& as_strided_scatter_ =
    def("as_strided_scatter(input, src, size: int[], stride: int[], storage_offset: int? = None)",
        "A copy of `input` in which the elements of as_strided(size, stride, storage_offset) are "
        "those of `src`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), src = c.tensor(1);
          bool repeats = false;  // one element in several places: such strides are not kept
          for (int i = 0; i < t.ndim(); ++i) repeats |= t.stride(i) == 0 && t.size(i) > 1;
          Tensor out = empty_strided(
              t.shape(), repeats ? contiguous_strides(t.shape()) : Dims(t.strides()), t.dtype());
          copy_into(out, t);
          if (!(src.shape() == Span(c.ints(2)))) {
            runtime_error("expected src to have a size equal to the slice: got ", src.shape(),
                          ", expected ", c.ints(2));
          }
          int64_t offset = c[4].is_none() ? 0 : c.integer(4);
          check_strided(c.ints(2), c.ints(3));
          if (places_repeat(c.ints(2), c.ints(3))) {
            runtime_error(
                "as_strided_scatter(): unsupported operation: more than one element of src goes to "
                "one place (size ",
                c.ints(2), ", stride ", c.ints(3), ")");
          }
          copy_into(on_storage(out->storage, c.ints(2), c.ints(3), offset, t.dtype()), src);
          c.kept = Dims(out.strides());
          return out;
        })
        .vjp(nothing,
             [](Context& c, Tensor* grads) {
               Tensor g = op<"_with_strides">(c.grad(), c.kept());
               if (c.needs(0)) {
                 Tensor zero = zeros(c.in(2).ints(), g.dtype());
                 grads[0] = op<"as_strided_scatter">(g, zero, c.in(2), c.in(3), c.in(4));
               }
               if (c.needs(1)) grads[1] = op<"as_strided">(g, c.in(2), c.in(3), c.in(4));
             })
        // The tangents are laid out as the input was: the places are those of its memory.
        .jvp([](Context& c, const Tensor* t) -> Value {
          Tensor into = t[0] ? t[0] : zeros(c.shape(0), c.dtype(0));
          Tensor from = t[1] ? t[1] : zeros(c.in(2).ints(), c.dtype(0));
          into = op<"_with_strides">(into, c.kept());
          return op<"as_strided_scatter">(into, from, c.in(2), c.in(3), c.in(4));
        })
        .batch([](Call& c, const int* axes) -> Value {
          Tensor t = batch::whole(c, axes, 0);
          if (t.stride(0) == 0) {  // each sample needs memory of its own, laid out as it was
            Dims strides(t.strides());
            strides[0] = batch::reach({t->shape + 1, t.ndim() - 1},
                                      Dims(Span{t->strides + 1, t.ndim() - 1}));
            t = op<"_with_strides">(t, strides);
          }
          Dims size = c.ints(2), stride = c.ints(3);
          size.insert(0, t.size(0));
          stride.insert(0, t.stride(0));
          return op<"as_strided_scatter">(t, batch::whole(c, axes, 1), size, stride, c[4]);
        })
        .depends(Depends::Moved)
        .any_dtype();

}  // namespace adjoint
