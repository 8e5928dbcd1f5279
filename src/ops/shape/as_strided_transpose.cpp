// The transpose of as_strided, for any geometry.
//
// as_strided reads memory that its input's elements lie in: several of its results may be one
// element (overlapping strides), none (memory outside the input), and several elements of the
// input may be one in memory (an expanded input), which then share the gradient equally, as in
// PyTorch. `_restride` lays its input out in zeroed memory, adding what falls on one place, and
// reads that memory in another geometry: gradient -> input for the first derivative, input ->
// gradient for the second. So it is its own transpose with the two geometries exchanged.
#include "tensor/self_overlap.h"
#include "transforms/batch_rules.h"
#include <algorithm>

#include "dispatch/op.h"

namespace adjoint {

namespace {

using T = const Tensor&;
using C = Context&;

struct Layout {
  Dims shape, strides;
  int64_t start;

  int64_t end() const {  // one past the last element
    int64_t last = start;
    for (int i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0) return start;
      last += (shape[i] - 1) * strides[i];
    }
    return last + 1;
  }
  bool overlaps() const { return places_repeat(shape, strides); }
};

template <class F>
void each_place(const Layout& l, F&& f) {
  int64_t n = 1;
  for (int64_t s : l.shape) n *= s;
  Dims index(l.shape.size(), 0);
  int64_t at = l.start;
  for (int64_t i = 0; i < n; ++i) {
    f(i, at);
    for (int k = l.shape.size() - 1; k >= 0; --k) {
      at += l.strides[k];
      if (++index[k] < l.shape[k]) break;
      at -= l.shape[k] * l.strides[k];
      index[k] = 0;
    }
  }
}

// memory[at(i)] += from[i]
void add_into(const Tensor& memory, const Layout& l, const Tensor& from) {
  GradMode off(false);
  if (!l.overlaps()) {
    copy_into(on_storage(memory->storage, l.shape, l.strides, l.start, memory.dtype()), from);
    return;
  }
  Tensor places = empty(Dims{from.numel()}, DType::Int64);
  each_place(l, [&](int64_t i, int64_t at) { places.data<int64_t>()[i] = at; });
  op_inplace<"index_add">(memory, 0, places, op<"reshape">(from, Dims{from.numel()}));
}

// Divides what lies in memory by how many elements of the layout share its place.
void share(const Tensor& memory, const Layout& l) {
  if (!l.overlaps()) return;
  GradMode off(false);
  Tensor count = zeros(Dims{memory.numel()}, DType::Float64);
  each_place(l, [&](int64_t, int64_t at) { count.data<double>()[at] += 1; });
  op_inplace<"div">(memory, op<"_to_copy">(op<"clamp_min">(count, 1), memory.dtype()));
}

Value restride_forward(Call& c) {
  Tensor t = c.tensor(0);
  Layout from{Dims(t.shape()), c.ints(1), c.integer(2)};
  Layout to{c.ints(3), c.ints(4), c.integer(5)};
  int64_t lowest = std::min(from.start, to.start);
  from.start -= lowest;
  to.start -= lowest;
  Tensor memory = zeros(Dims{std::max(from.end(), to.end())}, t.dtype());
  add_into(memory, from, t);
  share(memory, c.flag(6) ? from : to);
  Tensor seen = on_storage(memory->storage, to.shape, to.strides, to.start, t.dtype());
  if (!to.overlaps()) return seen;
  Tensor dense = empty(to.shape, t.dtype());
  copy_into(dense, seen);
  return dense;
}

}  // namespace

static const Op& restride_ =
    def("_restride(input, strides: int[], start: int, size: int[], to_strides: int[], to_start: "
        "int, share_input: bool)",
        "The input laid out in zeroed memory and read in another geometry; elements of the result "
        "(or of the input) that share a place divide what lies there.")
        .forward(restride_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_restride">(g, c.in(4), c.in(5), c.shape(0), c.in(1), c.in(2),
                                       !c.in(6).boolean());
              })
        .linear()
        .internal()
        // From places in one memory to places in another: samples far enough apart in both.
        .batch([](Call& c, const int* axes) -> Value {
          Tensor t = batch::whole(c, axes, 0);
          Dims stride = c.ints(1), shape = c.ints(3), layout = c.ints(4);
          int64_t step = std::max(c.integer(2) + batch::reach({t->shape + 1, t.ndim() - 1}, stride),
                                  c.integer(5) + batch::reach(shape, layout));
          stride.insert(0, step);
          shape.insert(0, t.size(0));
          layout.insert(0, step);
          return op<"_restride">(t, stride, c[2], shape, layout, c[5], c[6]);
        });

}  // namespace adjoint
