// Normalisation over the last axes: layer_norm and rms_norm. Read next: rows.h.
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The elements that are normalised together lie in one row.
struct Rows {
  int64_t count = 0, length = 1;
};

Rows rows_of(const char* name, Span x, const Dims& normalized) {
  const int n = normalized.size();
  if (n < 1) {
    runtime_error(name,
                  ": Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
                  "least one element, but got normalized_shape = ",
                  normalized);
  }
  if (x.n < n || !(Span{x.p + (x.n - n), n} == Span(normalized))) {
    std::string wanted = to_string(normalized);
    runtime_error("Given normalized_shape=", wanted, ", expected input with shape [*, ",
                  wanted.substr(1), ", but got input of size", x);
  }
  Rows r;
  for (int64_t s : normalized) r.length *= s;
  r.count = 1;
  for (int i = 0; i < x.n - n; ++i) r.count *= x[i];
  return r;
}

// Weight or bias in the dtype of the arithmetic, contiguous; undefined where there is none.
Tensor parameter(const Value& v, const char* which, const Dims& normalized, DType input) {
  if (v.is_none()) return {};
  Tensor t = v;
  if (!(t.shape() == Span(normalized))) {
    runtime_error("Expected ", which, " to be of same shape as normalized_shape, but got ", which,
                  " of shape ", t.shape(), " and normalized_shape = ", normalized);
  }
  if (t.dtype() != input && t.dtype() != compute_dtype(input)) {
    runtime_error("mixed dtype (CPU): expect parameter to have scalar type of ", input, ", but ",
                  which, " has ", t.dtype());
  }
  return contiguous(cast(t, compute_dtype(input)));
}

char* bytes_of(T t) { return t ? t.bytes() : nullptr; }

Value layer_norm_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Dims& normalized = c.ints(1);
  Rows r = rows_of("layer_norm", x.shape(), normalized);
  DType d = row_dtype("layer_norm", x.dtype());
  Tensor w = parameter(c[2], "weight", normalized, x.dtype());
  Tensor b = parameter(c[3], "bias", normalized, x.dtype());
  Tensor in = contiguous(cast(x, d)), out = empty(x.shape(), d), stats = empty(Dims{r.count, 2}, d);
  double eps = c.real(4);
  Loop loop = row_loop("layer_norm_row", d);
  const int64_t item = static_cast<int64_t>(item_size(d)), step = r.count ? r.length * item : 0;
  char *y = out.bytes(), *from = in.bytes(), *stat = stats.bytes();
  char *wp = bytes_of(w), *bp = bytes_of(b);
  if (out.numel()) {
    each_row(r.count, r.length, [&](int64_t i) {
      char* p[6] = {y + i * step, from + i * step,     wp,
                    bp,           stat + i * 2 * item, reinterpret_cast<char*>(&eps)};
      loop(p, r.length);
    });
  }
  c.kept = stats;
  return cast(out, x.dtype());
}

// Sums over rows of g * v (v the normalised row) and of g. The rows are cut into at most 16 pieces
// whose sums are added in order.
void parameter_gradients(const Rows& r, DType d, char* g, char* x, char* stats, T weight, T bias) {
  constexpr int64_t kPieces = 16, kGrain = 16384;
  const int64_t item = static_cast<int64_t>(item_size(d)), step = r.count ? r.length * item : 0;
  const int64_t least = std::max<int64_t>(1, kGrain / r.length);
  const int64_t rows = std::max((r.count + kPieces - 1) / kPieces, least);
  const int64_t pieces = (r.count + rows - 1) / rows;
  Tensor partial = zeros(Dims{pieces, 2, r.length}, d);
  char* sums = partial.bytes();
  Loop loop = row_loop("layer_norm_row_sums", d);
  static const Kernel& add_kernel = *find_kernel("add");
  Loop add = add_kernel.loop[static_cast<int>(d)];
  WithoutGil release(r.count * r.length >= kReleaseGil);
  parallel::parallel_ranges(r.count, rows, [&](int64_t begin, int64_t end) {
    char* to = sums + begin / rows * 2 * step;
    for (int64_t i = begin; i < end; ++i) {
      char* p[5] = {to, to + step, g + i * step, x + i * step, stats + i * 2 * item};
      loop(p, r.length);
    }
  });
  for (int64_t k = 0; k < pieces; ++k) {
    char* w[3] = {weight.bytes(), weight.bytes(), sums + k * 2 * step};
    char* b[3] = {bias.bytes(), bias.bytes(), sums + k * 2 * step + step};
    add(w, r.length);
    add(b, r.length);
  }
}

// Three results: the gradients of input, weight and bias; empty where they are not wanted.
Value layer_norm_backward(Call& c) {
  Tensor g = c.tensor(0), x = c.tensor(1);
  const Dims& normalized = c.ints(4);
  const int64_t want = c.integer(6);
  Rows r = rows_of("layer_norm", x.shape(), normalized);
  DType d = compute_dtype(x.dtype());
  Tensor w = parameter(c[2], "weight", normalized, x.dtype()), stats = c.tensor(3);
  Tensor gs = contiguous(cast(g, d)), xs = contiguous(cast(x, d));
  const int64_t item = static_cast<int64_t>(item_size(d)), step = r.count ? r.length * item : 0;
  const bool any = x.numel() > 0;
  Tensor gx = want & 1 ? empty(x.shape(), d) : empty(Dims{0}, d);
  Tensor gw = want & 6 ? zeros(normalized, d) : empty(Dims{0}, d);
  Tensor gb = want & 6 ? zeros(normalized, d) : empty(Dims{0}, d);
  char *gp = gs.bytes(), *xp = xs.bytes(), *sp = stats.bytes(), *wp = bytes_of(w),
       *out = gx.bytes();
  if (any && (want & 1)) {
    Loop loop = row_loop("layer_norm_row_grad", d);
    each_row(r.count, r.length, [&](int64_t i) {
      char* p[5] = {out + i * step, gp + i * step, xp + i * step, wp, sp + i * 2 * item};
      loop(p, r.length);
    });
  }
  if (any && (want & 6)) parameter_gradients(r, d, gp, xp, sp, gw, gb);
  DType of_parameters = w ? c.tensor(2).dtype() : x.dtype();
  return Tensors{cast(gx, x.dtype()), cast(gw, of_parameters), cast(gb, of_parameters)};
}

Dims last_axes(const Value& normalized) {
  Dims axes;
  for (int i = 1; i <= normalized.ints().size(); ++i) axes.push_back(-i);
  return axes;
}

// The normalised rows v = (x - mean) r and what differentiates them: dv = r P(dx) with
// P(a) = a - mean(a) - v mean(a v), and dr = -r^2 mean(v dx).
struct Normalised {
  Dims axes;
  Tensor r, v;

  Normalised(T x, const Value& normalized, double eps) : axes(last_axes(normalized)) {
    Tensor centred = x - mean(x);
    r = op<"rsqrt">(mean(centred * centred) + eps);
    v = centred * r;
  }
  Tensor mean(T t) const { return op<"mean">(t, axes, true); }
  Tensor project(T t) const { return t - mean(t) - v * mean(t * v); }
};

Value layer_norm_tangent(C c, const Tensor* t) {
  Normalised n(c.in(0), c.in(1), c.in(4).real());
  Tensor sum = t[3];
  auto add = [&](T part) { sum = sum ? sum + part : part; };
  if (t[2]) add(n.v * t[2]);
  if (t[0]) {
    Tensor dv = n.r * n.project(t[0]), w = c.in(2);
    add(w ? dv * w : dv);
  }
  return sum;
}

// Of gx = r P(g w), gw = sum(g v) and gb = sum(g), those that are wanted.
Value layer_norm_backward_tangent(C c, const Tensor* t) {
  Tensor g = c.in(0), w = c.in(2);
  Normalised n(c.in(1), c.in(4), c.in(5).real());
  const int64_t want = c.in(6).integer();
  Tensors out(3);
  auto add = [](Tensor& sum, T part) { sum = sum ? sum + part : part; };
  auto over_rows = [&](T part) -> Tensor { return op<"sum_to_size">(part, c.in(4)); };
  Tensor dh = t[0] && w ? t[0] * w : t[0];
  if (t[2]) add(dh, g * t[2]);
  if (dh && (want & 1)) add(out[0], n.r * n.project(dh));
  if (t[0] && (want & 6)) {
    add(out[1], over_rows(t[0] * n.v));
    add(out[2], over_rows(t[0]));
  }
  if (!t[1]) return out;
  Tensor dv = n.r * n.project(t[1]);
  if (want & 6) add(out[1], over_rows(g * dv));
  if (!(want & 1)) return out;
  Tensor h = w ? g * w : g;
  Tensor of_project = -(dv * n.mean(h * n.v) + n.v * n.mean(h * dv));
  add(out[0], n.r * (of_project - n.project(h) * n.r * n.mean(n.v * t[1])));
  return out;
}

// The derivative of layer_norm's gradient. With h = g w the gradients are gx = r P(h), gw = sum(g
// v) and gb = sum(g); P is symmetric.
void layer_norm_second(C c, Tensor* grads) {
  Tensor g = c.in(0), x = c.in(1), w = c.in(2);
  Normalised n(x, c.in(4), c.in(5).real());
  const Tensor &r = n.r, &v = n.v;
  auto mean = [&](T t) { return n.mean(t); };
  auto project = [&](T t) { return n.project(t); };
  Tensor h = w ? g * w : g, to_g, to_x;
  auto add = [](Tensor& sum, T t) { sum = sum ? sum + t : t; };
  if (c.has_grad(0)) {
    Tensor a = c.grad(0), pa = r * project(a);
    to_g = w ? pa * w : pa;
    if (w) grads[2] = g * pa;
    Tensor inner = a * mean(h * v) + h * mean(a * v);
    to_x = -(r * r) * (project(inner) + v * mean(a * project(h)));
  }
  if (c.has_grad(1)) {
    Tensor b = c.grad(1);
    add(to_g, b * v);
    add(to_x, r * project(b * g));
  }
  if (c.has_grad(2)) add(to_g, op<"expand">(c.grad(2), g.shape()));
  grads[0] = to_g;
  grads[1] = to_x;
}

}  // namespace

static const Op& layer_norm_ =
    def("layer_norm(input, normalized_shape: int[], weight: Tensor? = None, bias: Tensor? = None, "
        "eps: float = 1e-05, cudnn_enable: bool = True)",
        "The last axes brought to mean 0 and variance 1, times `weight`, plus `bias`.")
        .forward(layer_norm_forward)
        .vjp(input(0) | input(2),
             [](C c, Tensor* grads) {
               const int64_t want = c.needs(0) | c.needs(2) << 1 | c.needs(3) << 2;
               Tensors r = op<"_layer_norm_backward">(c.grad(), c.in(0), c.in(2), c.kept(), c.in(1),
                                                      c.in(4), want)
                               .tensors();
               if (want & 1) grads[0] = r[0];
               if (want & 2) grads[1] = r[1];
               if (want & 4) grads[2] = r[2];
             })
        .jvp(layer_norm_tangent)
        .function_only()
        .node("NativeLayerNormBackward0")
        .batch([](Call& c, const int* axes) -> Value {
          auto mapped = [&](int i) { return c[i].is_tensor() && axes[i] >= 0; };
          if (!mapped(2) && !mapped(3)) return apply(c.op, c.args);
          Tensor y = op<"layer_norm">(batch::whole(c, axes, 0), c[1], nullptr, nullptr, c[4]);
          auto up = [&](int i) {
            return mapped(i) ? batch::line_up(c.tensor(i), y.ndim() - 1) : c.tensor(i);
          };
          if (c[2].is_tensor()) y = y * up(2);
          if (c[3].is_tensor()) y = y + up(3);
          return y;
        })
        .depends(Depends::NormalizedRows);

static const Op& layer_norm_backward_ =
    def("_layer_norm_backward(g, input, weight: Tensor?, stats, normalized_shape: int[], "
        "eps: float, want: int)",
        "The gradients of layer_norm: of its input, its weight and its bias.")
        .forward(layer_norm_backward)
        .vjp(input(0) | input(1) | input(2), layer_norm_second)
        .jvp(layer_norm_backward_tangent)
        .internal()
        .depends(Depends::NormalizedRowsBackward);

static const Op& rms_norm_ =
    def("rms_norm(input, normalized_shape: int[], weight: Tensor? = None, eps: float? = None)",
        "The input divided by the root of the mean square over the last axes, times `weight`.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          const Dims& normalized = c.ints(1);
          rows_of("rms_norm", x.shape(), normalized);
          if (!is_complex(x.dtype())) row_dtype("rms_norm", x.dtype());
          parameter(c[2], "weight", normalized, x.dtype());
          const bool wide = x.dtype() == DType::Float64 || x.dtype() == DType::Complex128;
          double eps = wide ? 0x1p-52 : 0x1p-23;
          if (!c[3].is_none()) eps = c.real(3);
          Dims axes = last_axes(c[1]);
          Tensor up = is_half(x.dtype()) ? op<"_to_copy">(x, DType::Float32).tensor() : x;
          Tensor y = up * op<"rsqrt">(op<"mean">(up * up, axes, true).tensor() + eps).tensor();
          if (!c[2].is_none()) y = y * c.tensor(2);
          return is_half(x.dtype()) ? op<"_to_copy">(y, x.dtype()).tensor() : y;
        })
        .function_only()
        .no_out();

}  // namespace adjoint
