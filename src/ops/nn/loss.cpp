// Losses of real targets, and what all losses share. Read next: loss_classes.cpp.
#include "ops/nn/loss.h"
#include "dispatch/program_recorder.h"
#include "transforms/batch_rules.h"

#include "ops/elementwise/fused.h"
#include "ops/reduce/reduce_forward.h"
#include "transforms/tangents.h"

namespace adjoint {

LossReduction reduction_of(const Value& text) {
  if (text.str() == "mean") return LossReduction::Mean;
  if (text.str() == "sum") return LossReduction::Sum;
  if (text.str() == "none") return LossReduction::None;
  value_error(text.str(), " is not a valid value for reduction: use 'none', 'mean' or 'sum'");
}

Tensor reduce_loss(const Tensor& each, LossReduction how) {
  if (how == LossReduction::Mean) return op<"mean.all">(each);
  if (how == LossReduction::Sum) return op<"sum.all">(each);
  return each;
}

namespace {

using T = const Tensor&;
using C = Context&;

void check_class_shapes(const char* name, Span x, Span target) {
  if (x.n <= 2) {
    if (target.n > 1) {
      runtime_error(
          "0D or 1D target tensor expected, multi-target not supported: target has shape ", target,
          " and input ", x);
    }
    int64_t batch = x.n == 2 ? x[0] : 1, targets = target.n ? target[0] : 1;
    if (batch != targets || (x.n == 2 && target.n == 0))
      runtime_error("size mismatch (got input: ", x, ", target: ", target, ")");
    return;
  }
  Dims wanted(x);
  wanted.erase(1);
  if (!(Span(wanted) == target))
    runtime_error(name, ": Expected target size ", wanted, ", got ", target);
}

}  // namespace

Classes check_classes(const char* name, Span x, DType dtype, const Tensor& target,
                      const Value& weight, int64_t ignored) {
  check_class_shapes(name, x, target.shape());
  if (target.dtype() != DType::Int64 && target.dtype() != DType::UInt8) {
    runtime_error("expected target dtype to be Long or Byte, but got ", target.dtype(),
                  ": convert it with target.long()");
  }
  Classes c;
  c.shape.classes = x.n == 1 ? x[0] : x[1];
  if (x.n > 1) c.shape.n = x[0];
  for (int i = 2; i < x.n; ++i) c.shape.k *= x[i];
  c.target = contiguous(cast(target, DType::Int64));
  c.ignored = ignored;
  if (!weight.is_none()) {
    Tensor w = weight;
    if (w.ndim() != 1 || w.numel() != c.shape.classes) {
      runtime_error("weight tensor should be defined either for all ", c.shape.classes,
                    " classes or no classes but got weight tensor of shape: ", w.shape());
    }
    if (w.dtype() != dtype)
      runtime_error(name, ": expected weight of dtype ", dtype, " but found ", w.dtype());
    if (grad_enabled() && needs_grad(w.get())) {
      runtime_error("The function '", name,
                    "' is not differentiable with respect to argument 'weight'. This input cannot "
                    "have requires_grad True: pass weight.detach()");
    }
    c.weight = contiguous(cast(w, compute_dtype(dtype)));
  }
  for (int64_t i = 0; i < c.shape.count(); ++i) {
    const int64_t t = c.at()[i];
    if (t != ignored && (t < 0 || t >= c.shape.classes))
      index_error("Target ", t, " is out of bounds for ", c.shape.classes, " classes");
  }
  return c;
}

// --- losses of differences -----------------------------------------------------------------------
namespace {

DType float_only(const char* name, DType d) {
  if (!is_floating(d)) {
    not_implemented("\"", name, "\" not implemented for ", d,
                    ": it needs floating-point tensors; convert with .float()");
  }
  return d;
}

// The count that a mean divides by, for the shape that input and target broadcast to.
double divisor(LossReduction how, T difference) {
  return how == LossReduction::Mean ? static_cast<double>(difference.numel()) : 1.0;
}

Tensor difference_of(C c) {
  // Forward's own difference has neither history nor tangent: it serves only where nobody
  // differentiates again.
  if (!grad_enabled() && !g_transformed) return c.kept();
  return c.tensor(0) - c.tensor(1);
}

// A loss f(input - target): g f'(d) to the input, minus that to the target.
void send_difference(C c, Tensor* grads, const Tensor& slope) {
  if (c.needs(0)) grads[0] = slope;
  if (c.needs(1)) grads[1] = -slope;
}

// The tangent of such a loss, with f'(d) for each element.
Tensor difference_tangent(C c, const Tensor* t, T slope) {
  Tensor d = t[0] && t[1] ? t[0] - t[1] : t[0] ? t[0] : -t[1];
  return reduce_loss(slope * d, reduction_of(c.in(2)));
}

Tensor forward_difference(Call& c, const char* name) {
  GradMode off(false);
  Tensor d = c.tensor(0) - c.tensor(1);
  float_only(name, d.dtype());
  c.kept = d;
  return d;
}

}  // namespace

namespace {

// A loss as each sample's own: of all elements behind the batch axis.
Value reduced(const Tensor& each, const std::string& how) {
  if (how == "none") return each;
  Tensor rows = batch::flat_sample(each);
  return how == "mean" ? op<"mean">(rows, Dims{1}) : op<"sum">(rows, Dims{1});
}

Value loss_rule(Call& c, const int* axes) {
  std::string how = c[2].str();
  int ndim = std::max(batch::sample_ndim(c, axes, 0), batch::sample_ndim(c, axes, 1));
  for (int i = 0; i < 2; ++i) {
    if (axes[i] >= 0) c.args[i] = batch::line_up(c.tensor(i), ndim);
  }
  c.args[2] = "none";
  return reduced(apply(c.op, c.args), how);
}

}  // namespace

static const Op& mse_loss_ =
    def("mse_loss(input, target, reduction: str = 'mean')",
        "The mean (or sum, or each) of (input - target)^2.")
        .forward([](Call& c) -> Value {
          LossReduction how = reduction_of(c[2]);
          Tensor d = forward_difference(c, "mse_loss");
          GradMode off(false);
          if (how == LossReduction::None) return d * d;
          Reduction r{reduce::SumSquare, compute_dtype(d.dtype()), d.dtype()};
          r.mean = how == LossReduction::Mean;
          return reduce_tensor(r, d, all_axes(d.ndim()), false);
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               Tensor d = difference_of(c);
               double n = divisor(reduction_of(c.in(2)), d);
               send_difference(c, grads, mul_scaled(c.grad(), d, 2 / n));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return difference_tangent(c, t, (c.tensor(0) - c.tensor(1)) * 2.0);
        })
        .function_only()
        .batch(loss_rule)
        .depends(Depends::Pointwise)
        .autocast(Autocast::Float32);

static const Op& l1_loss_ = def("l1_loss(input, target, reduction: str = 'mean')",
                                "The mean (or sum, or each) of |input - target|.")
                                .forward([](Call& c) -> Value {
                                  LossReduction how = reduction_of(c[2]);
                                  return reduce_loss(op<"abs">(c.tensor(0) - c.tensor(1)), how);
                                })
                                .function_only()
                                .no_out()
                                .autocast(Autocast::Float32);

namespace {

Tensor smooth_slope(T d, double beta) {
  return beta > 0 ? op<"clamp">(d / beta, -1.0, 1.0).tensor() : op<"sign">(d).tensor();
}

}  // namespace

static const Op& smooth_l1_loss_ =
    def("smooth_l1_loss(input, target, reduction: str = 'mean', beta: float = 1.0)",
        "difference^2 / (2 beta) where |difference| < beta, |difference| - beta / 2 elsewhere.")
        .forward([](Call& c) -> Value {
          LossReduction how = reduction_of(c[2]);
          const double beta = c.real(3);
          if (beta < 0)
            runtime_error("smooth_l1_loss does not support negative values for beta, got ", beta);
          Tensor d = forward_difference(c, "smooth_l1_loss");
          GradMode off(false);
          Tensor size = op<"abs">(d), loss = size;
          if (beta > 0) {
            loss = op<"where">(op<"lt">(size, beta), size * size * (0.5 / beta), size - 0.5 * beta);
          }
          return reduce_loss(loss, how);
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               Tensor d = difference_of(c);
               double n = divisor(reduction_of(c.in(2)), d);
               send_difference(c, grads, c.grad() * smooth_slope(d, c.in(3).real()) * (1 / n));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return difference_tangent(c, t, smooth_slope(c.tensor(0) - c.tensor(1), c.in(3).real()));
        })
        .function_only()
        .batch(loss_rule)
        .depends(Depends::Pointwise)
        .autocast(Autocast::Float32);

static const Op& huber_loss_ =
    def("huber_loss(input, target, reduction: str = 'mean', delta: float = 1.0)",
        "difference^2 / 2 where |difference| <= delta, delta (|difference| - delta / 2) elsewhere.")
        .forward([](Call& c) -> Value {
          LossReduction how = reduction_of(c[2]);
          const double delta = c.real(3);
          if (!(delta > 0))
            runtime_error("huber_loss does not support non-positive values for delta, got ", delta);
          Tensor d = forward_difference(c, "huber_loss");
          GradMode off(false);
          Tensor size = op<"abs">(d);
          Tensor loss =
              op<"where">(op<"le">(size, delta), size * size * 0.5, (size - 0.5 * delta) * delta);
          return reduce_loss(loss, how);
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               Tensor d = difference_of(c);
               const double delta = c.in(3).real();
               double n = divisor(reduction_of(c.in(2)), d);
               Tensor slope = op<"clamp">(d, -delta, delta);
               send_difference(c, grads, c.grad() * slope * (1 / n));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const double delta = c.in(3).real();
          return difference_tangent(c, t, op<"clamp">(c.tensor(0) - c.tensor(1), -delta, delta));
        })
        .function_only()
        .batch(loss_rule)
        .depends(Depends::Pointwise)
        .autocast(Autocast::Float32);

// --- losses of probabilities ---------------------------------------------------------------------
namespace {

Tensor one_minus(T x) { return op<"rsub">(x, 1); }
// Logarithms are kept above -100, so that a probability of 0 gives a finite loss.
Tensor limited_log(T x) { return op<"clamp">(op<"log">(x), -100.0); }
Tensor limited_log1p(T x) { return op<"clamp">(op<"log1p">(x), -100.0); }

void check_same_size(const char* name, T x, T target) {
  if (x.shape() == target.shape()) return;
  value_error(name, ": Using a target size (torch.Size(", target.shape(),
              ")) that is different to the input size (torch.Size(", x.shape(),
              ")) is deprecated. Please ensure they have the same size.");
}

void check_probabilities(T x) {
  note_check_of_values();
  GradMode off(false);
  Tensor inside = op<"logical_and">(op<"ge">(x, 0.0), op<"le">(x, 1.0));
  Tensor flags = contiguous(inside);
  const char* p = flags.bytes();
  for (int64_t i = 0; i < flags.numel(); ++i) {
    if (!p[i]) runtime_error("all elements of input should be between 0 and 1");
  }
}

}  // namespace

static const Op& bce_ =
    def("_binary_cross_entropy(input, target)",
        "-(target log(input) + (1 - target) log(1 - input)), each logarithm at least -100.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          Tensor x = c.tensor(0), t = c.tensor(1);
          check_probabilities(x);
          return -(t * limited_log(x) + one_minus(t) * limited_log1p(-x));
        })
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.in(0), t = c.in(1);
                   return g * (x - t) / op<"clamp">(x * one_minus(x), 1e-12).tensor();
                 })
        .partial(1, input(0),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.in(0);
                   return g * (limited_log1p(-x) - limited_log(x));
                 })
        .internal()
        .node("BinaryCrossEntropyBackward0");

static const Op& binary_cross_entropy_ =
    def("binary_cross_entropy(input, target, weight: Tensor? = None, reduction: str = 'mean')",
        "Cross-entropy of probabilities `input` with targets in [0, 1].")
        .forward([](Call& c) -> Value {
          LossReduction how = reduction_of(c[3]);
          Tensor x = c.tensor(0), t = c.tensor(1);
          check_same_size("binary_cross_entropy", x, t);
          if (t.dtype() != x.dtype())
            runtime_error("Found dtype ", t.dtype(), " but expected ", x.dtype());
          float_only("binary_cross_entropy", x.dtype());
          Tensor each = op<"_binary_cross_entropy">(x, t);
          if (!c[2].is_none()) each = each * c.tensor(2);
          return reduce_loss(each, how);
        })
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

static const Op& binary_cross_entropy_with_logits_ =
    def("binary_cross_entropy_with_logits(input, target, weight: Tensor? = None, pos_weight: "
        "Tensor? = None, reduction: str = 'mean')",
        "Cross-entropy of sigmoid(input) with targets in [0, 1], without overflow.")
        .forward([](Call& c) -> Value {
          LossReduction how = reduction_of(c[4]);
          Tensor x = c.tensor(0), t = c.tensor(1);
          if (!(x.shape() == t.shape())) {
            value_error("Target size (torch.Size(", t.shape(),
                        ")) must be the same as input size (torch.Size(", x.shape(), "))");
          }
          Tensor logs = op<"logsigmoid">(x);
          if (!c[3].is_none()) logs = logs * ((c.tensor(3) - 1.0) * t + 1.0);
          Tensor each = one_minus(t) * x - logs;
          if (!c[2].is_none()) each = each * c.tensor(2);
          return reduce_loss(each, how);
        })
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

}  // namespace adjoint
