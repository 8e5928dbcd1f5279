// Padding: with a number, and with elements of the tensor itself (mirrored, repeated, wrapped).
//
// The second kind moves elements: along each axis, element o of the result is element at[o] of the
// input. Its transpose sums them back; each is the other's derivative.
#include <cmath>
#include <cstring>
#include <numeric>

#include "dispatch/op.h"
#include "kernels/moved_item.h"
#include "ops/nn/rows.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The pair (before, after) for `axis`: pairs are given from the last axis on.
struct Pair {
  int64_t before = 0, after = 0;
};
Pair pair_of(const Dims& pad, int axis, int ndim) {
  const int k = 2 * (ndim - 1 - axis);
  return k + 1 < pad.size() ? Pair{pad[k], pad[k + 1]} : Pair{};
}

int64_t padded_size(int64_t size, Pair p) {
  return checked_add(checked_add(size, p.before), p.after);
}

// --- a number -----------------------------------------------------------------------------------
Value constant_pad_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Dims& pad = c.ints(1);
  if (pad.size() % 2 != 0)
    runtime_error("Length of pad must be even but instead it equals ", pad.size());
  if (pad.size() > 2 * x.ndim()) {
    runtime_error(
        "Length of pad should be no more than twice the number of dimensions of the input. Pad "
        "length is ",
        pad.size(), " while the input has ", x.ndim(), " dimensions.");
  }
  Dims shape(x.shape());
  for (int d = 0; d < x.ndim(); ++d) {
    Pair p = pair_of(pad, d, x.ndim());
    shape[d] = padded_size(x.size(d), p);
    if (shape[d] < 0) {
      runtime_error("The input size ", x.size(d), ", plus negative padding ", p.before, " and ",
                    p.after,
                    ", resulted in a negative output size, which is invalid. Check dimension ", d,
                    " of your input.");
    }
  }
  Tensor out = empty(shape, x.dtype());
  // What of the input is kept lies in one box of the result.
  Tensor from = x, to = out;
  bool covers = true;
  GradMode off(false);
  for (int d = 0; d < x.ndim(); ++d) {
    Pair p = pair_of(pad, d, x.ndim());
    const int64_t first = std::max<int64_t>(-p.before, 0);
    const int64_t last = x.size(d) - std::max<int64_t>(-p.after, 0);
    const int64_t kept = std::max<int64_t>(last - first, 0);
    const int64_t at = std::max<int64_t>(p.before, 0);
    covers = covers && kept == shape[d];
    from = op<"narrow">(from, d, kept ? first : 0, kept);
    to = op<"narrow">(to, d, kept ? at : 0, kept);
  }
  if (!covers) op_inplace<"fill">(out, c[2]);
  copy_into(to, from);
  return out;
}

Dims negated(const Value& pad) {
  Dims out = pad.ints();
  for (int64_t& p : out) p = -p;
  return out;
}

// Where the input lies in what is padded with zeros.
Tensor padded_part(const Placing& p) {
  const Value& value = p.args[2];
  const std::complex<double> number = value.complex();
  if (number != 0.0 || std::signbit(number.real()) || std::signbit(number.imag())) return {};
  Tensor part = p.whole;
  for (int d = 0; d < part.ndim(); ++d) {
    Pair pad = pair_of(p.args[1].ints(), d, part.ndim());
    p.from[d] = std::max<int64_t>(-pad.before, 0);
    const int64_t last = p.operand.size(d) - std::max<int64_t>(-pad.after, 0);
    if (last <= p.from[d]) return {};
    part = op<"narrow">(part, d, std::max<int64_t>(pad.before, 0), last - p.from[d]);
  }
  return part;
}

// --- elements of the tensor ---------------------------------------------------------------------
struct Axis {
  std::vector<int64_t> at;  // for each element of the result
  int64_t begin, end;       // where it runs through the input in order
};

Axis mirrored(int64_t n, Pair p, const std::string& mode, int64_t total) {
  Axis a{std::vector<int64_t>(total), std::max<int64_t>(p.before, 0), 0};
  a.end = std::max(a.begin, std::min(total, n + p.before));
  for (int64_t o = 0; o < total; ++o) {
    int64_t i = o - p.before;
    if (mode == "reflect") i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    a.at[o] = std::clamp<int64_t>(i, 0, n - 1);
  }
  return a;
}

// What is cut off is gone before the rest is wrapped.
Axis wrapped(int64_t n, Pair p, int64_t total) {
  const int64_t cut = std::max<int64_t>(-p.before, 0);
  const int64_t left = n - cut - std::max<int64_t>(-p.after, 0);
  Axis a{std::vector<int64_t>(total), std::max<int64_t>(p.before, 0), 0};
  a.end = a.begin + left;
  for (int64_t o = 0; o < total; ++o) {
    int64_t i = (o - a.begin) % left;
    a.at[o] = cut + (i < 0 ? i + left : i);
  }
  return a;
}

Axis axis_of(int d, int64_t n, Pair p, const std::string& mode) {
  const int64_t total = padded_size(n, p);
  const bool circular = mode == "circular";
  // Elements that are left when negative counts have taken theirs; others can be mirrored still.
  const int64_t kept = n + std::min<int64_t>(p.before, 0) + std::min<int64_t>(p.after, 0);
  const bool none = circular ? kept < 1 && total > 0 : n == 0;
  if (none || total < (circular ? 0 : 1)) {
    runtime_error(mode, " padding: dimension ", d, " of size ", n, " with padding (", p.before,
                  ", ", p.after, ") has no elements left to pad with, or becomes ", total);
  }
  if (mode == "reflect" && (p.before >= n || p.after >= n)) {
    runtime_error(
        "Argument #4: Padding size should be less than the corresponding input dimension, but got: "
        "padding (",
        p.before, ", ", p.after, ") at dimension ", d, " of size ", n);
  }
  if (circular && (p.before > n || p.after > n)) {
    runtime_error("Padding value causes wrapping around more than once: (", p.before, ", ", p.after,
                  ") at dimension ", d, " of size ", n);
  }
  return circular ? wrapped(n, p, total) : mirrored(n, p, mode, total);
}

// How planes of `inner` elements become planes of `outer`; axes before the padded ones repeat it.
struct Plan {
  std::vector<Axis> axes;  // the padded axes, the last one last
  Dims result;             // the shape of the result
  int64_t planes = 1, from = 1, to = 1;

  Plan(Span shape, const Dims& pad, const std::string& mode) : result(shape) {
    const int padded = pad.size() / 2, lead = shape.n - padded;
    for (int d = 0; d < shape.n; ++d) {
      if (d < lead) {
        planes *= shape[d];
        continue;
      }
      axes.push_back(axis_of(d, shape[d], pair_of(pad, d, shape.n), mode));
      result[d] = static_cast<int64_t>(axes.back().at.size());
      from *= shape[d];
      to *= result[d];
    }
  }

  // f(row of the input, row of the result) for each row of one plane of the result.
  template <class F>
  void each_row_of(F&& f, const Dims& shape) const {
    const int n = static_cast<int>(axes.size());
    const int64_t rows =
        axes.back().at.empty() ? 0 : to / static_cast<int64_t>(axes.back().at.size());
    for (int64_t r = 0; r < rows; ++r) {
      int64_t left = r, source = 0, scale = 1;
      for (int k = n - 2; k >= 0; --k) {
        const int64_t size = static_cast<int64_t>(axes[k].at.size());
        source += axes[k].at[left % size] * scale;
        left /= size;
        scale *= shape[shape.size() - n + k];
      }
      f(source, r);
    }
  }
};

template <class S>
void gather_plane(const Plan& plan, const Dims& shape, const S* from, S* to) {
  const Axis& last = plan.axes.back();
  const int64_t n = shape[shape.size() - 1], m = static_cast<int64_t>(last.at.size());
  plan.each_row_of(
      [&](int64_t source, int64_t row) {
        const S* in = from + source * n;
        S* out = to + row * m;
        for (int64_t o = 0; o < last.begin; ++o) out[o] = in[last.at[o]];
        if (last.end > last.begin)
          std::memcpy(out + last.begin, in + last.at[last.begin],
                      (last.end - last.begin) * sizeof(S));
        for (int64_t o = last.end; o < m; ++o) out[o] = in[last.at[o]];
      },
      shape);
}

template <class S>
void scatter_plane(const Plan& plan, const Dims& shape, const S* from, S* to) {
  const Axis& last = plan.axes.back();
  const int64_t n = shape[shape.size() - 1], m = static_cast<int64_t>(last.at.size());
  plan.each_row_of(
      [&](int64_t source, int64_t row) {
        S* out = to + source * n;
        const S* in = from + row * m;
        for (int64_t o = 0; o < last.begin; ++o) out[last.at[o]] += in[o];
        if (last.end > last.begin) {
          S* run = out + last.at[last.begin];
          for (int64_t o = last.begin; o < last.end; ++o) run[o - last.begin] += in[o];
        }
        for (int64_t o = last.end; o < m; ++o) out[last.at[o]] += in[o];
      },
      shape);
}

template <class F>
void by_number(DType d, F&& f) {
  switch (d) {
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    case DType::Complex64:
      return f(complex64_t{});
    default:
      return f(complex128_t{});
  }
}

void check_mode(const std::string& mode) {
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    not_implemented("Unrecognised padding mode ", mode);
}

Value pad_forward(Call& c) {
  Tensor x = contiguous(c.tensor(0));
  check_mode(c[2].str());
  Dims shape(x.shape());
  Plan plan(x.shape(), c.ints(1), c[2].str());
  Tensor out = empty(plan.result, x.dtype());
  if (out.numel() == 0) return out;
  by_item_size(x.itemsize(), [&](auto s) {
    using S = decltype(s);
    const S* from = x.data<S>();
    S* to = out.data<S>();
    each_row(plan.planes, plan.to,
             [&](int64_t p) { gather_plane(plan, shape, from + p * plan.from, to + p * plan.to); });
  });
  return out;
}

Value pad_transposed(Call& c) {
  const DType d = compute_dtype(c.tensor(0).dtype());
  Tensor g = contiguous(cast(c.tensor(0), d));
  const Dims& shape = c.ints(3);
  Plan plan(shape, c.ints(1), c[2].str());
  Tensor out = zeros(shape, d);
  if (g.numel() == 0) return cast(out, c.tensor(0).dtype());
  by_number(d, [&](auto s) {
    using S = decltype(s);
    const S* from = g.data<S>();
    S* to = out.data<S>();
    each_row(plan.planes, plan.to, [&](int64_t p) {
      scatter_plane(plan, shape, from + p * plan.to, to + p * plan.from);
    });
  });
  return cast(out, c.tensor(0).dtype());
}

}  // namespace

static const Op& constant_pad_nd_ =
    def("constant_pad_nd(input, pad: int[], value: Scalar = 0)",
        "The input with `value` added before and after: pairs of counts from the last axis on; "
        "negative counts take elements away.")
        .forward(constant_pad_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"constant_pad_nd">(g, negated(c.in(1)), 0); })
        .jvp([](C c, const Tensor* t) -> Value { return op<"constant_pad_nd">(t[0], c.in(1), 0); })
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Moved)
        .part_of_zeros(padded_part)
        .any_dtype();

static const Op& pad_elements_ =
    def("_pad_elements(input, pad: int[], mode: str)",
        "The input continued by mirroring, repeating or wrapping it; the other way to pad.")
        .forward(pad_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_pad_elements_transposed">(g, c.in(1), c.in(2), c.shape(0));
              })
        .linear()
        .function_only()
        .no_out()
        .called("pad")
        .node([](const Value* args) -> const char* {
          const std::string& mode = args[2].str();
          const int axes = args[1].ints().size() / 2;
          if (mode == "circular") return "CopySlices";
          if (mode == "reflect") {
            return axes == 1   ? "ReflectionPad1DBackward0"
                   : axes == 2 ? "ReflectionPad2DBackward0"
                               : "ReflectionPad3DBackward0";
          }
          return axes == 1   ? "ReplicationPad1DBackward0"
                 : axes == 2 ? "ReplicationPad2DBackward0"
                             : "ReplicationPad3DBackward0";
        })
        .batch(batch::as_is)
        .depends(Depends::Moved)
        .any_dtype();

static const Op& pad_elements_transposed_ =
    def("_pad_elements_transposed(input, pad: int[], mode: str, size: int[])",
        "Sums the elements of a padded tensor where they came from.")
        .forward(pad_transposed)
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"_pad_elements">(g, c.in(1), c.in(2)); })
        .linear()
        .internal()
        .called("pad")
        .batch([](Call& c, const int*) -> Value {
          Dims size = c.ints(3);
          size.insert(0, c.tensor(0).size(0));
          return op<"_pad_elements_transposed">(c[0], c[1], c[2], size);
        })
        .depends(Depends::Moved);

}  // namespace adjoint
