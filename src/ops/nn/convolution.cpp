// Convolutions: three products, each of which is the derivative of the others.
//
//   _conv_output(input, weight)   the convolution
//   _conv_input(g, weight)        the transposed convolution: its gradient by the input
//   _conv_weight(g, input)        its gradient by the weight
//
// They are the three derivatives of one sum, over all products g[y] * x[x] * w[t] of elements that
// meet; each gives a tensor whose spatial size is an argument. So derivatives of any order are made
// of the three. Complex numbers are pairs of real channels. Read next: conv_functions.cpp for what
// people call, kernels/windows/conv.h for the loops.
#include "ops/nn/convolution.h"

#include "kernels/windows/conv.h"
#include "ops/nn/planes.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Arguments behind the tensors: size, stride, padding, dilation, groups.
ConvSteps steps_from(Context& c, int first) {
  return {c.in(first).ints(), c.in(first + 1).ints(), c.in(first + 2).ints(),
          c.in(first + 3).integer()};
}
ConvSteps steps_from(Call& c, int first) {
  return {c.ints(first), c.ints(first + 1), c.ints(first + 2), c.integer(first + 3)};
}

Planes planes(T t) {
  Planes p{t.bytes(), t.stride(0), t.stride(1), three_axes(Span{t->strides + 2, t.ndim() - 2}, 0)};
  // Strides of axes of length one mean nothing; rows that follow one another are worth knowing.
  for (int d = t.ndim() - 1, k = 2; k >= 0; --d, --k) {
    const bool missing = d < 2;
    if (missing || t.size(d) == 1)
      p.strides[static_cast<size_t>(k)] =
          k == 2 ? 1 : p.strides[static_cast<size_t>(k + 1)] * (d + 1 < 2 ? 1 : t.size(d + 1));
  }
  return p;
}

// x [n, groups * ci, in], w [groups * co, ci, kernel], y [n, groups * co, out].
Conv geometry(Span x, Span w, Span y, const ConvSteps& s) {
  Conv c;
  c.samples = x[0];
  c.groups = s.groups;
  c.ci = w[1];
  c.co = w[0] / s.groups;
  c.in = three_axes({x.p + 2, x.n - 2}, 1);
  c.out = three_axes({y.p + 2, y.n - 2}, 1);
  c.kernel = three_axes({w.p + 2, w.n - 2}, 1);
  c.stride = three_axes(s.stride, 1);
  c.padding = three_axes(s.padding, 0);
  c.dilation = three_axes(s.dilation, 1);
  for (size_t d = 0; d < 3; ++d) {  // of one window, or one tap, steps say nothing and may be huge
    if (c.out[d] <= 1) c.stride[d] = 1;
    if (c.kernel[d] <= 1) c.dilation[d] = 1;
  }
  return c;
}

bool is_long(const Conv& c) {
  double work = static_cast<double>(c.samples * c.groups) * static_cast<double>(c.ci * c.co);
  for (size_t d = 0; d < 3; ++d) work *= static_cast<double>(c.out[d] * c.kernel[d]);
  return work >= 8 * kReleaseGil;
}

Dims with_channels(int64_t samples, int64_t channels, const Dims& size) {
  Dims shape{samples, channels};
  for (int64_t s : size) shape.push_back(s);
  return shape;
}

// --- complex numbers: [.., channels, ..] as [.., 2 * channels, ..], the real parts of a group first
//
// (a + bi)(c + di) = (ac - bd) + (ad + bc)i: of a group with real weights the block matrix
// [[c, -d], [d, c]] has two real channels for one complex one on either side.
Tensor real_part(T t) { return op<"real">(t); }
Tensor imaginary_part(T t) { return op<"imag">(t); }

Tensor split_channels(T t, int64_t groups) {
  Dims grouped{t.size(0), groups, t.size(1) / groups};
  for (int64_t s : spatial(t.shape())) grouped.push_back(s);
  Dims flat(t.shape());
  flat[1] *= 2;
  Tensor parts[2] = {op<"reshape">(real_part(t), grouped),
                     op<"reshape">(imaginary_part(t), grouped)};
  return op<"reshape">(op<"cat">(Tensors{parts[0], parts[1]}, 2), flat);
}
Tensor join_channels(T t, int64_t groups) {
  Dims grouped{t.size(0), groups, 2, t.size(1) / (2 * groups)};
  for (int64_t s : spatial(t.shape())) grouped.push_back(s);
  Dims flat(t.shape());
  flat[1] /= 2;
  Tensor pairs = op<"reshape">(t, grouped);
  auto half = [&](int i) -> Tensor {
    return op<"contiguous">(op<"reshape">(op<"select">(pairs, 2, i), flat));
  };
  return op<"complex">(half(0), half(1));
}
// `outputs_first`: the sums run over input channels; else over output channels.
Tensor split_weight(T w, int64_t groups, bool by_input) {
  Dims grouped{groups, w.size(0) / groups, w.size(1)};
  for (int64_t s : spatial(w.shape())) grouped.push_back(s);
  Tensor re = op<"reshape">(real_part(w), grouped), im = op<"reshape">(imaginary_part(w), grouped);
  Tensor minus = op<"neg">(im);
  // Rows (outputs) by columns (inputs). For sums over outputs the minus stands below the diagonal.
  Tensor top = op<"cat">(Tensors{re, by_input ? minus : im}, 2),
         bottom = op<"cat">(Tensors{by_input ? im : minus, re}, 2);
  Dims flat(w.shape());
  flat[0] *= 2;
  flat[1] *= 2;
  return op<"reshape">(op<"cat">(Tensors{top, bottom}, 1), flat);
}
Tensor join_weight(T w, int64_t groups) {
  const int64_t co = w.size(0) / (2 * groups), ci = w.size(1) / 2;
  Dims blocks{groups, 2, co, 2, ci}, flat{groups * co, ci};
  for (int64_t s : spatial(w.shape())) {
    blocks.push_back(s);
    flat.push_back(s);
  }
  Tensor all = op<"reshape">(w, blocks);
  auto part = [&](int row, int column) -> Tensor {
    return op<"reshape">(op<"select">(op<"select">(all, 3, column), 1, row), flat);
  };
  return op<"complex">(op<"contiguous">(part(0, 0) - part(1, 1)),
                       op<"contiguous">(part(0, 1) + part(1, 0)));
}
Tensor split_bias(T b, int64_t groups) {
  Dims grouped{groups, b.size(0) / groups};
  Tensor parts[2] = {op<"reshape">(real_part(b), grouped),
                     op<"reshape">(imaginary_part(b), grouped)};
  return op<"reshape">(op<"cat">(Tensors{parts[0], parts[1]}, 1), Dims{2 * b.size(0)});
}

// --- forwards ------------------------------------------------------------------------------------
// Integers are computed as int64 and wrap.
DType conv_dtype(DType d) { return is_integral(d) ? DType::Int64 : d; }

// Transposes of the narrow integers are refused, as PyTorch does.
void check_dtype(DType d, bool transposed) {
  if (d == DType::Bool || (transposed && is_integral(d) && d != DType::Int64))
    not_implemented("\"", transposed ? "transposed convolution" : "convolution",
                    "\" not implemented for ", d, "; convert with .float() or .long()");
}

// The bias alone, where there is nothing to sum.
Tensor only_bias(const Dims& shape, DType d, const Value& bias) {
  if (bias.is_none()) return zeros(shape, d);
  Tensor out = empty(shape, d), b = bias;
  Dims lined(shape.size(), 1);
  lined[1] = b.size(0);
  GradMode off(false);
  copy_into(out, op<"expand">(op<"reshape">(b, lined), shape));
  return out;
}

// `Input`: sums over g give x; else sums over x give y.
template <bool Input>
Value sums_forward(Call& c) {
  Tensor source = c.tensor(0), w = c.tensor(1);
  const ConvSteps s = steps_from(c, 4);
  const DType d = source.dtype();
  check_dtype(d, Input);
  const Dims shape =
      with_channels(source.size(0), Input ? w.size(1) * s.groups : w.size(0), c.ints(3));
  if (source.numel() == 0 || w.numel() == 0 || checked_numel(shape, item_size(d)) == 0)
    return only_bias(shape, d, c[2]);
  GradMode off(false);
  if (is_complex(d)) {
    Tensor bias = c[2].is_none() ? Tensor() : split_bias(c.tensor(2), s.groups);
    Tensor real = split_channels(source, s.groups), weight = split_weight(w, s.groups, !Input);
    Tensor out = Input ? conv_input_of(real, weight, bias, c.ints(3), s)
                       : conv_output_of(real, weight, bias, c.ints(3), s);
    return in_format_of(join_channels(out, s.groups), {source, w});
  }
  const DType as = conv_dtype(d);
  Tensor in = cast(source, as), weight = contiguous(cast(w, as));
  Tensor bias = c[2].is_none() ? Tensor() : contiguous(cast(c.tensor(2), as));
  Tensor out = empty(shape, as);
  const Conv conv = Input ? geometry(shape, w.shape(), source.shape(), s)
                          : geometry(source.shape(), w.shape(), shape, s);
  const Planes from = planes(in);
  {
    WithoutGil release(is_long(conv));
    const auto run = is_integral(d) ? (Input ? plain_conv_input : plain_conv_output)
                                    : (Input ? conv_input : conv_output);
    run(conv, as, from, weight.bytes(), bias ? bias.bytes() : nullptr, out.bytes());
  }
  return in_format_of(cast(out, d), {source, w});
}

Value weight_forward(Call& c) {
  Tensor g = c.tensor(0), x = c.tensor(1);
  const ConvSteps s = steps_from(c, 3);
  const DType d = x.dtype();
  check_dtype(d, false);
  const Dims shape = with_channels(g.size(1), x.size(1) / s.groups, c.ints(2));
  if (g.numel() == 0 || x.numel() == 0 || checked_numel(shape, item_size(d)) == 0)
    return zeros(shape, d);
  GradMode off(false);
  if (is_complex(d)) {
    Tensor w = op<"_conv_weight">(split_channels(g, s.groups), split_channels(x, s.groups), c[2],
                                  s.stride, s.padding, s.dilation, s.groups);
    return join_weight(w, s.groups);
  }
  const DType as = conv_dtype(d);
  Tensor gradient = cast(g, as), in = cast(x, as), out = empty(shape, as);
  const Conv conv = geometry(x.shape(), shape, g.shape(), s);
  const Planes gs = planes(gradient), xs = planes(in);
  {
    WithoutGil release(is_long(conv));
    (is_integral(d) ? plain_conv_weight : conv_weight)(conv, as, gs, xs, out.bytes());
  }
  return cast(out, d);
}

// --- derivatives ---------------------------------------------------------------------------------
Tensor weight_of(const Value& g, const Value& x, const Dims& size, const ConvSteps& s) {
  return op<"_conv_weight">(g, x, size, s.stride, s.padding, s.dilation, s.groups);
}
Tensor conj(const Value& v) { return op<"conj_physical">(v); }

// Over samples and positions.
Tensor bias_gradient(T g, C) {
  Dims axes{0};
  for (int i = 2; i < g.ndim(); ++i) axes.push_back(i);
  return op<"sum">(g, axes);
}

template <bool Input>
Value sums_tangent(C c, const Tensor* t) {
  const ConvSteps s = steps_from(c, 4);
  const Dims size = c.in(3).ints();
  auto product = [&](const Value& a, const Value& w, const Value& bias) {
    return Input ? conv_input_of(a, w, bias, size, s) : conv_output_of(a, w, bias, size, s);
  };
  if (!t[0] && !t[1]) {
    Dims lined(c.out_shape().n, 1);
    lined[1] = t[2].size(0);
    return op<"expand">(op<"reshape">(t[2], lined), c.out_shape());
  }
  Value bias = t[2];
  Tensor sum;
  if (t[0]) {
    sum = product(t[0], c.in(1), bias);
    bias = Value();
  }
  if (!t[1]) return sum;
  Tensor part = product(c.in(0), t[1], bias);
  return sum ? sum + part : part;
}

// --- batches -------------------------------------------------------------------------------------
// Axis 0 of a batch [b, n, ...] into axis `to` of a sample, in front of it.
Tensor fold_batch(T t, int to) {
  Tensor moved = op<"movedim">(t, Dims{0}, Dims{to});
  Dims shape(moved.shape());
  shape[to + 1] *= shape[to];
  shape.erase(to);
  return op<"reshape">(moved, shape);
}
// `into` blocks of axis `from` become axis 0.
Tensor unfold_batch(T t, int from, int64_t into) {
  Dims shape;
  for (int i = 0; i < t.ndim(); ++i) {
    if (i == from) shape.push_back(into);
    shape.push_back(i == from ? t.size(i) / into : t.size(i));
  }
  return op<"movedim">(op<"reshape">(t, shape), Dims{from}, Dims{0});
}
// The groups of axis 1 of a batch come before the batch: [b, n, g * c, ..] -> [n, g * b * c, ..].
Tensor fold_channels(T t, int64_t groups) {
  if (groups == 1) return fold_batch(t, 1);
  Dims split(t.shape());
  split[2] /= groups;
  split.insert(2, groups);
  Tensor moved = op<"movedim">(op<"reshape">(t, split), Dims{0}, Dims{2});
  Dims flat{t.size(1), groups * t.size(0) * split[3]};
  for (int i = 3; i < t.ndim(); ++i) flat.push_back(t.size(i));
  return op<"reshape">(moved, flat);
}
Tensor unfold_channels(T t, int64_t groups, int64_t into) {
  Dims split{t.size(0), groups, into, t.size(1) / (groups * into)},
      flat{into, t.size(0), groups * split[3]};
  for (int64_t s : spatial(t.shape())) {
    split.push_back(s);
    flat.push_back(s);
  }
  return op<"reshape">(op<"movedim">(op<"reshape">(t, split), Dims{2}, Dims{0}), flat);
}
// The same for axis 0 of a weight, the output channels: [b, g * o, i, ..] -> [g * b * o, i, ..].
Tensor fold_outputs(T w, int64_t groups) {
  if (groups == 1) return fold_batch(w, 0);
  Dims split(w.shape());
  split[1] /= groups;
  split.insert(1, groups);
  Dims flat(w.shape());
  flat.erase(0);
  flat[0] *= w.size(0);
  return op<"reshape">(op<"movedim">(op<"reshape">(w, split), Dims{0}, Dims{1}), flat);
}
Tensor unfold_outputs(T w, int64_t groups, int64_t into) {
  Dims split{groups, into, w.size(0) / (groups * into)}, flat{into, groups * split[2]};
  for (int i = 1; i < w.ndim(); ++i) {
    split.push_back(w.size(i));
    flat.push_back(w.size(i));
  }
  return op<"reshape">(op<"movedim">(op<"reshape">(w, split), Dims{1}, Dims{0}), flat);
}

// A batch of weights has more channels on the side that is not summed over, or more groups. The bias
// is added afterwards.
template <bool Input>
Value sums_rule(Call& c, const int* axes) {
  const bool source = axes[0] >= 0, weight = axes[1] >= 0, bias = axes[2] >= 0;
  ConvSteps s = steps_from(c, 4);
  const Dims size = c.ints(3);
  const int64_t groups = s.groups, n = batch::size(c, axes);
  Tensor a = c.tensor(0), w = c.tensor(1), out;
  auto product = [&](T a, T w, const Value& b) {
    return Input ? conv_input_of(a, w, b, size, s) : conv_output_of(a, w, b, size, s);
  };
  if (source && !weight) {
    out = unfold_batch(product(fold_batch(a, 0), w, bias ? Value() : c[2]), 0, n);
  } else if (!source && !weight) {
    out = op<"unsqueeze">(product(a, w, Value()), 0);
  } else if (!source && !Input) {
    out = unfold_channels(product(a, fold_outputs(w, groups), Value()), groups, n);
  } else if (!source) {  // more input channels, which stand on axis 1 of the weight
    out = unfold_channels(product(a, fold_batch(w, 1), Value()), groups, n);
  } else {
    s.groups = groups * n;
    out = unfold_batch(product(fold_batch(a, 1), fold_batch(w, 0), Value()), 1, n);
  }
  if (c[2].is_none() || (source && !weight && !bias)) return out;
  Tensor b = c.tensor(2);
  Dims lined(out.ndim(), 1);
  lined[2] = b.size(-1);
  if (bias) lined[0] = b.size(0);
  return out + op<"reshape">(b, lined).tensor();
}

Value weight_rule(Call& c, const int* axes) {
  ConvSteps s = steps_from(c, 3);
  const int64_t groups = s.groups, n = batch::size(c, axes);
  Tensor g = c.tensor(0), x = c.tensor(1);
  if (axes[1] < 0)
    return unfold_outputs(weight_of(fold_channels(g, groups), x, c.ints(2), s), groups, n);
  if (axes[0] < 0) return unfold_batch(weight_of(g, fold_channels(x, groups), c.ints(2), s), 1, n);
  s.groups = groups * n;
  return unfold_batch(weight_of(fold_batch(g, 1), fold_batch(x, 1), c.ints(2), s), 0, n);
}

}  // namespace

Tensor conv_output_of(T x, T w, const Value& bias, const Dims& size, const ConvSteps& s) {
  return op<"_conv_output">(x, w, bias, size, s.stride, s.padding, s.dilation, s.groups);
}
Tensor conv_input_of(T g, T w, const Value& bias, const Dims& size, const ConvSteps& s) {
  return op<"_conv_input">(g, w, bias, size, s.stride, s.padding, s.dilation, s.groups);
}

static const Op& conv_output_ =
    def("_conv_output(input, weight, bias: Tensor?, size: int[], stride: int[], padding: int[], "
        "dilation: int[], groups: int)",
        "The convolution of a result of spatial `size`.")
        .forward(sums_forward<false>)
        .grad(0, input(1),
              [](T g, C c) {
                return conv_input_of(g, conj(c.in(1)), Value(), spatial(c.shape(0)),
                                     steps_from(c, 4));
              })
        .grad(1, input(0),
              [](T g, C c) {
                return weight_of(g, conj(c.in(0)), spatial(c.shape(1)), steps_from(c, 4));
              })
        .grad(2, nothing, bias_gradient)
        .jvp(sums_tangent<false>)
        .internal()
        .node("ConvolutionBackward0")
        .batch(sums_rule<false>)
        .depends(Depends::Convolution)
        .called("convolution");

static const Op& conv_input_ =
    def("_conv_input(g, weight, bias: Tensor?, size: int[], stride: int[], padding: int[], "
        "dilation: int[], groups: int)",
        "The transposed convolution of a result of spatial `size`: the gradient of a convolution "
        "by "
        "its input.")
        .forward(sums_forward<true>)
        .grad(0, input(1),
              [](T x, C c) {
                return conv_output_of(x, conj(c.in(1)), Value(), spatial(c.shape(0)),
                                      steps_from(c, 4));
              })
        .grad(1, input(0),
              [](T x, C c) {
                return weight_of(conj(c.in(0)), x, spatial(c.shape(1)), steps_from(c, 4));
              })
        .grad(2, nothing, bias_gradient)
        .jvp(sums_tangent<true>)
        .internal()
        .node("ConvolutionBackward0")
        .batch(sums_rule<true>)
        .depends(Depends::ConvolutionInput)
        .called("convolution");

static const Op& conv_weight_ =
    def("_conv_weight(g, input, size: int[], stride: int[], padding: int[], dilation: int[], "
        "groups: "
        "int)",
        "The gradient of a convolution by its weight, of spatial `size`.")
        .forward(weight_forward)
        .grad(0, input(1),
              [](T w, C c) {
                return conv_output_of(conj(c.in(1)), w, Value(), spatial(c.shape(0)),
                                      steps_from(c, 3));
              })
        .grad(1, input(0),
              [](T w, C c) {
                return conv_input_of(conj(c.in(0)), w, Value(), spatial(c.shape(1)),
                                     steps_from(c, 3));
              })
        .linear()
        .internal()
        .node("ConvolutionBackward0")
        .batch(weight_rule)
        .depends(Depends::ConvolutionWeight)
        .called("convolution");

}  // namespace adjoint
