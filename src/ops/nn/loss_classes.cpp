// Losses of class targets: nll_loss and cross_entropy. Read next: loss.h, softmax.cpp.
#include <cmath>
#include <limits>

#include "dispatch/program_recorder.h"
#include "ops/nn/loss.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

template <class F>
void with_float(DType d, F&& f) {
  if (d == DType::Float32)
    f(float{});
  else
    f(double{});
}

template <class S>
double weight_of(const Classes& c, int64_t target) {
  return c.weight ? static_cast<double>(c.weight.data<S>()[target]) : 1.0;
}

Dims result_shape(LossReduction how, T target) {
  return how == LossReduction::None ? Dims(target.shape()) : Dims();
}

// losses[i] is the loss of target i before it is weighted; `out` receives what `how` asks for.
// Returns the total weight.
template <class S>
double weigh(const Classes& c, const S* losses, LossReduction how, S* out) {
  double sum = 0, total = 0;
  for (int64_t i = 0; i < c.shape.count(); ++i) {
    const int64_t t = c.at()[i];
    const double w = t == c.ignored ? 0 : weight_of<S>(c, t);
    const double loss = t == c.ignored ? 0 : w * static_cast<double>(losses[i]);
    if (how == LossReduction::None) out[i] = static_cast<S>(loss);
    sum += loss;
    total += w;
  }
  if (how != LossReduction::None)
    *out = static_cast<S>(how == LossReduction::Mean ? sum / total : sum);
  return total;
}

// A program gets NaN for the total weight of its recording, and adds up that of each run.
Value kept_total(const Value& total) {
  return captured() ? Value(std::numeric_limits<double>::quiet_NaN()) : total;
}
template <class S>
double total_weight(const Classes& c, double total) {
  if (!std::isnan(total)) return total;
  total = 0;
  for (int64_t i = 0; i < c.shape.count(); ++i)
    total += c.at()[i] == c.ignored ? 0 : weight_of<S>(c, c.at()[i]);
  return total;
}

// The weight with which target i goes into the loss: 0 where it is ignored.
double share(double weight, double total, LossReduction how) {
  return how == LossReduction::Mean ? weight / total : weight;
}

Value nll_forward(Call& c) {
  Tensor x = c.tensor(0);
  DType d = row_dtype("nll_loss", x.dtype());
  LossReduction how = reduction_of(c[4]);
  Classes k = check_classes("nll_loss", x.shape(), x.dtype(), c.tensor(1), c[2], c.integer(3));
  Tensor rows = contiguous(cast(x, d));
  Tensor losses = empty(Dims{k.shape.count()}, d), out = empty(result_shape(how, c.tensor(1)), d);
  with_float(d, [&](auto s) {
    using S = decltype(s);
    for (int64_t i = 0; i < k.shape.count(); ++i) {
      const int64_t t = k.at()[i];
      if (t == k.ignored) continue;
      const int64_t at = (i / k.shape.k * k.shape.classes + t) * k.shape.k + i % k.shape.k;
      losses.data<S>()[i] = -rows.data<S>()[at];
    }
    c.kept = Value(weigh<S>(k, losses.data<S>(), how, out.data<S>()));
  });
  return cast(out, x.dtype());
}

Tensor nll_grad(T g, C c) {
  return op<"_nll_loss_backward">(g, c.in(1), c.in(2), c.in(3), c.in(4), c.shape(0),
                                  kept_total(c.kept()));
}
Value nll_tangent(C c, const Tensor* t) {
  return op<"_nll_loss">(t[0], c.in(1), c.in(2), c.in(3), c.in(4));
}

// g, one number per target or one for all, as the loop reads it.
Tensor gradient_of_losses(T g, LossReduction how, int64_t count, DType d) {
  Tensor dense = contiguous(cast(g, d));
  if (dense.numel() != (how == LossReduction::None ? count : 1)) {
    throw std::logic_error("the gradient of a loss is shaped otherwise than the loss");
  }
  return dense;
}

Value nll_backward(Call& c) {
  Tensor g = c.tensor(0);
  const Dims& shape = c.ints(5);
  DType d = compute_dtype(g.dtype());
  LossReduction how = reduction_of(c[4]);
  Classes k = check_classes("nll_loss", shape, g.dtype(), c.tensor(1), c[2], c.integer(3));
  Tensor out = zeros(shape, d), dense = gradient_of_losses(g, how, k.shape.count(), d);
  with_float(d, [&](auto s) {
    using S = decltype(s);
    const double total = total_weight<S>(k, c.real(6));
    for (int64_t i = 0; i < k.shape.count(); ++i) {
      const int64_t t = k.at()[i];
      if (t == k.ignored) continue;
      const int64_t at = (i / k.shape.k * k.shape.classes + t) * k.shape.k + i % k.shape.k;
      const double gi = dense.data<S>()[how == LossReduction::None ? i : 0];
      out.data<S>()[at] = static_cast<S>(-gi * share(weight_of<S>(k, t), total, how));
    }
  });
  return cast(out, g.dtype());
}

// --- cross entropy of logits, without the logarithms ever being written to memory ----------------

// Keeps {maximum, rest} of each row's log-sum-exp, and the total weight.
Value cross_entropy_forward(Call& c) {
  Tensor x = c.tensor(0);
  DType d = row_dtype("log_softmax", x.dtype());
  LossReduction how = reduction_of(c[4]);
  Classes k = check_classes("cross_entropy", x.shape(), x.dtype(), c.tensor(1), c[2], c.integer(3));
  Tensor rows = contiguous(cast(x, d)), stats = empty(Dims{k.shape.n, 2}, d);
  Tensor losses = empty(Dims{k.shape.n}, d), out = empty(result_shape(how, c.tensor(1)), d);
  Loop loop = row_loop("logsumexp_row", d);
  with_float(d, [&](auto s) {
    using S = decltype(s);
    const int64_t n = k.shape.classes;
    S *in = rows.data<S>(), *stat = stats.data<S>(), *loss = losses.data<S>();
    const int64_t* target = k.at();
    each_row(k.shape.n, n, [&](int64_t r) {
      if (target[r] == k.ignored) return;
      char* p[2] = {reinterpret_cast<char*>(stat + 2 * r), reinterpret_cast<char*>(in + r * n)};
      loop(p, n);
      loss[r] = stat[2 * r + 1] - (in[r * n + target[r]] - stat[2 * r]);
    });
    double total = weigh<S>(k, loss, how, out.data<S>());
    c.kept = Value(std::vector<Value>{stats, total});
  });
  return cast(out, x.dtype());
}

// share * (softmax(x) - 1[target]) * g
Value cross_entropy_backward(Call& c) {
  Tensor g = c.tensor(0), x = c.tensor(1);
  DType d = compute_dtype(x.dtype());
  LossReduction how = reduction_of(c[6]);
  Classes k = check_classes("cross_entropy", x.shape(), x.dtype(), c.tensor(3), c[4], c.integer(5));
  Tensor rows = contiguous(cast(x, d)), stats = c.tensor(2), out = empty(x.shape(), d);
  Tensor dense = gradient_of_losses(g, how, k.shape.n, d);
  Loop loop = row_loop("scaled_softmax_row", d);
  with_float(d, [&](auto s) {
    using S = decltype(s);
    const double total = total_weight<S>(k, c.real(7));
    const int64_t n = k.shape.classes;
    S *in = rows.data<S>(), *to = out.data<S>(), *stat = stats.data<S>(), *gs = dense.data<S>();
    const int64_t* target = k.at();
    each_row(k.shape.n, n, [&](int64_t r) {
      const int64_t t = target[r];
      if (t == k.ignored) return void(std::fill_n(to + r * n, n, S(0)));
      const double gi = gs[how == LossReduction::None ? r : 0];
      const S scale = static_cast<S>(gi * share(weight_of<S>(k, t), total, how));
      S given[3] = {stat[2 * r], stat[2 * r + 1], scale};
      char* p[3] = {reinterpret_cast<char*>(to + r * n), reinterpret_cast<char*>(in + r * n),
                    reinterpret_cast<char*>(given)};
      loop(p, n);
      to[r * n + t] -= scale;
    });
  });
  return cast(out, x.dtype());
}

// The share of every target in the loss: [N], or [] for an input of one axis.
Tensor shares(C c, T x, LossReduction how) {
  Classes k =
      check_classes("cross_entropy", x.shape(), x.dtype(), c.tensor(3), c.in(4), c.in(5).integer());
  Tensor out = empty(x.ndim() == 1 ? Dims() : Dims{k.shape.n}, compute_dtype(x.dtype()));
  with_float(out.dtype(), [&](auto s) {
    using S = decltype(s);
    const double total = total_weight<S>(k, c.in(7).real());
    for (int64_t i = 0; i < k.shape.n; ++i) {
      const int64_t t = k.at()[i];
      const double w = t == k.ignored ? 0 : share(weight_of<S>(k, t), total, how);
      out.data<S>()[i] = static_cast<S>(w);
    }
  });
  return cast(out, x.dtype());
}

// Of the gradient g share (softmax(x) - 1[target]): its derivative by x, which is symmetric.
Tensor times_hessian(T u, C c) {
  Tensor x = c.in(1), g = c.in(0);
  Tensor scale = op<"unsqueeze">(g * shares(c, x, reduction_of(c.in(6))), -1);
  return op<"_softmax_backward">(u * scale, op<"softmax">(x, -1), -1);
}

}  // namespace

namespace {

// -log-probabilities of target classes, weighed, as PyTorch averages them.
Tensor nll_of(const Tensor& logs, const Tensor& target, const Value& weight, int64_t ignored,
              const std::string& how) {
  // logs: [n, ..., classes] with the classes last; target: [n, ...].
  Tensor kept = op<"ne">(target, ignored);
  Tensor safe = op<"where">(kept, target, op<"zeros_like">(target));
  Tensor picked = op<"squeeze.dim">(op<"gather">(logs, -1, op<"unsqueeze">(safe, -1)), -1);
  Tensor share = op<"_to_copy">(kept, logs.dtype());
  if (weight.is_tensor()) {
    // One weight for all samples, or one row of them each.
    Tensor w = weight.tensor();
    Tensor own = w.ndim() == 1 ? op<"index">(w, Value(Tensors{safe})).tensor()
                               : op<"gather">(w, -1, batch::flat_sample(safe)).tensor();
    share = share * op<"reshape">(own, safe.shape()).tensor();
  }
  Tensor each = -(picked * share);
  if (how == "none") return each;
  Tensor sum = op<"sum">(batch::flat_sample(each), Dims{1});
  return how == "sum" ? sum : sum / op<"sum">(batch::flat_sample(share), Dims{1}).tensor();
}

template <bool Logits>
Value nll_rule(Call& c, const int* axes) {
  Tensor x = batch::whole(c, axes, 0), target = batch::whole(c, axes, 1);
  if (c[2].is_tensor() && axes[2] >= 0 && x.ndim() > 3)
    not_implemented("vmap over class weights of more than two axes");
  if (Logits) x = op<"log_softmax">(x, x.ndim() == 2 ? 1 : 2);
  if (x.ndim() > 3) x = op<"movedim">(x, Dims{2}, Dims{-1});
  return nll_of(x, target, c[2], c.integer(3), c[4].str());
}

}  // namespace

#define NLL_LOSS(name, node_name)                                                        \
  def(name                                                                               \
      "(input, target, weight: Tensor? = None, ignore_index: int = -100, reduction: str" \
      " = 'mean')",                                                                      \
      "nll_loss after its arguments are checked.")                                       \
      .forward(nll_forward)                                                              \
      .grad(0, input(1) | input(2), nll_grad)                                            \
      .jvp(nll_tangent)                                                                  \
      .internal()                                                                        \
      .batch(nll_rule<false>)                                                            \
      .depends(Depends::Moved)                                                           \
      .node(node_name)

static const Op& nll_loss_1d_ = NLL_LOSS("_nll_loss", "NllLossBackward0");
static const Op& nll_loss_2d_ = NLL_LOSS("_nll_loss2d", "NllLoss2DBackward0");

// Linear in g, and the transpose of the loss: its own gradient is the loss.
static const Op& nll_loss_backward_ =
    def("_nll_loss_backward(g, target, weight: Tensor?, ignore_index: int, reduction: str, "
        "size: int[], total: float)",
        "The gradient of nll_loss with respect to its input.")
        .forward(nll_backward)
        .grad(0, input(1) | input(2),
              [](T u, C c) -> Tensor {
                return op<"_nll_loss">(u, c.in(1), c.in(2), c.in(3), c.in(4));
              })
        .linear()
        .internal()
        .depends(Depends::Moved);

static const Op& cross_entropy_of_logits_ =
    def("_cross_entropy(input, target, weight: Tensor? = None, ignore_index: int = -100, "
        "reduction: str = 'mean')",
        "nll_loss(log_softmax(input, -1), target) in one pass over the input.")
        .forward(cross_entropy_forward)
        .grad(0, input(0) | input(1) | input(2),
              [](T g, C c) -> Tensor {
                const std::vector<Value>& kept = c.kept().list();
                return op<"_cross_entropy_backward">(g, c.in(0), kept[0], c.in(1), c.in(2), c.in(3),
                                                     c.in(4), kept_total(kept[1]));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor mean = op<"sum">(op<"softmax">(c.in(0), -1).tensor() * t[0], Dims{-1}, true);
          return op<"_nll_loss">(t[0] - mean, c.in(1), c.in(2), c.in(3), c.in(4));
        })
        .internal()
        .node("NllLossBackward0")
        .batch(nll_rule<true>)
        .depends(Depends::ClassRows);

static const Op& cross_entropy_backward_ =
    def("_cross_entropy_backward(g, input, stats, target, weight: Tensor?, ignore_index: int, "
        "reduction: str, total: float)",
        "The gradient of _cross_entropy with respect to its input.")
        .forward(cross_entropy_backward)
        .grad(0, input(1) | input(3) | input(4),
              [](T u, C c) -> Tensor {
                Tensor x = c.in(1);
                Tensor mean = op<"sum">(u * op<"softmax">(x, -1).tensor(), Dims{-1});
                LossReduction how = reduction_of(c.in(6));
                Tensor first = mean * shares(c, x, how);
                if (how != LossReduction::None) first = op<"sum.all">(first);
                return first + op<"_nll_loss">(u, c.in(3), c.in(4), c.in(5), c.in(6)).tensor();
              })
        .grad(1, input(0) | input(1) | input(3) | input(4), times_hessian)
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor sum = t[1] ? times_hessian(t[1], c) : Tensor();
          if (!t[0]) return sum;
          Tensor part = op<"_cross_entropy_backward">(t[0], c.in(1), c.in(2), c.in(3), c.in(4),
                                                      c.in(5), c.in(6), c.in(7));
          return sum ? sum + part : part;
        })
        .internal()
        .depends(Depends::ClassRowsBackward);

namespace {

// --- the public functions: shapes, then one of the above -----------------------------------------
void check_batch(T x, T target) {
  if (x.ndim() < 1) value_error("Expected 1 or more dimensions (got 0)");
  int64_t batch = target.ndim() ? target.size(0) : 0;
  if (x.ndim() != 1 && x.size(0) != batch) {
    value_error("Expected input batch_size (", x.size(0), ") to match target batch_size (", batch,
                ").");
  }
}

Tensor nll_loss(T x, T target, const Value& weight, const Value& ignored, const Value& reduction) {
  reduction_of(reduction);
  check_batch(x, target);
  if (x.ndim() <= 2) return op<"_nll_loss">(x, target, weight, ignored, reduction);
  return op<"_nll_loss2d">(x, target, weight, ignored, reduction);
}

// Class weights along the class axis of x.
Tensor per_class(T weight, T x, int axis) {
  Dims shape(x.ndim(), 1);
  shape[axis] = weight.numel();
  return op<"reshape">(weight, shape);
}
void check_class_weight(T x, int axis, const Value& weight) {
  if (weight.is_none()) return;
  Tensor w = weight;
  if (w.ndim() == 1 && w.numel() == x.size(axis)) return;
  runtime_error("cross_entropy: weight tensor should be defined either for all ", x.size(axis),
                " classes or no classes but got weight tensor of shape: ", w.shape());
}

Tensor with_probabilities(T x, Tensor target, const Value& weight, LossReduction how,
                          double smoothing) {
  if (!is_floating(target.dtype())) {
    runtime_error("Expected floating point type for target with class probabilities, got ",
                  target.dtype());
  }
  if (x.ndim() == 0) value_error("Expected 1 or more dimensions (got 0)");
  const int axis = x.ndim() == 1 ? 0 : 1;
  check_class_weight(x, axis, weight);
  const double classes = static_cast<double>(x.size(axis));
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / classes;
  Tensor each = op<"log_softmax">(x, axis).tensor() * target;
  if (!weight.is_none()) each = each * per_class(weight, x, axis);
  if (how == LossReduction::None) return -op<"sum">(each, Dims{axis}).tensor();
  Tensor sum = -op<"sum.all">(each).tensor();
  if (how == LossReduction::Sum) return sum;
  return sum / (static_cast<double>(x.numel()) / classes);
}

// Every class gets an equal share of `smoothing`, weighted by its own weight.
Tensor with_smoothing(T x, T target, const Value& weight, int64_t ignored, const Value& reduction,
                      double smoothing) {
  const int axis = x.ndim() == 1 ? 0 : 1;
  check_class_weight(x, axis, weight);
  LossReduction how = reduction_of(reduction);
  Tensor logs = op<"log_softmax">(x, axis);
  Tensor hard = nll_loss(logs, target, weight, ignored, reduction);
  Tensor soft = weight.is_none() ? logs : logs * per_class(weight, x, axis);
  soft = -op<"sum">(soft, Dims{axis}).tensor();
  Tensor ignoring = op<"eq">(target, ignored);
  soft = op<"where">(ignoring, 0.0, soft);
  if (how != LossReduction::None) soft = op<"sum.all">(soft);
  if (how == LossReduction::Mean) {
    Classes k = check_classes("cross_entropy", x.shape(), x.dtype(), target, weight, ignored);
    double total = 0;
    with_float(compute_dtype(x.dtype()), [&](auto s) {
      for (int64_t i = 0; i < k.shape.count(); ++i) {
        if (k.at()[i] != ignored) total += weight_of<decltype(s)>(k, k.at()[i]);
      }
    });
    soft = soft / total;
  }
  return hard * (1 - smoothing) + soft * (smoothing / static_cast<double>(x.size(axis)));
}

Value cross_entropy(Call& c) {
  Tensor x = c.tensor(0), target = c.tensor(1);
  const double smoothing = c.real(5);
  LossReduction how = reduction_of(c[4]);
  if (!(smoothing >= 0 && smoothing <= 1)) {
    runtime_error("label_smoothing must be between 0.0 and 1.0. Got: ", smoothing);
  }
  if (x.shape() == target.shape()) {
    if (is_floating(target.dtype()) && c.integer(3) >= 0)
      runtime_error("ignore_index is not supported for floating point target");
    return with_probabilities(x, target, c[2], how, smoothing);
  }
  check_batch(x, target);
  if (smoothing > 0) return with_smoothing(x, target, c[2], c.integer(3), c[4], smoothing);
  if (x.ndim() <= 2) return op<"_cross_entropy">(x, target, c[2], c[3], c[4]);
  return nll_loss(op<"log_softmax">(x, 1), target, c[2], c[3], c[4]);
}

}  // namespace

static const Op& nll_loss_ =
    def("nll_loss(input, target, weight: Tensor? = None, ignore_index: int = -100, reduction: str "
        "= 'mean')",
        "Minus the log-probabilities `input` of the classes `target`, averaged by `weight`.")
        .forward(
            [](Call& c) -> Value { return nll_loss(c.tensor(0), c.tensor(1), c[2], c[3], c[4]); })
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

static const Op& cross_entropy_ =
    def("cross_entropy(input, target, weight: Tensor? = None, ignore_index: int = -100, reduction: "
        "str = 'mean', label_smoothing: float = 0.0)",
        "Cross-entropy of logits with target classes (integers) or class probabilities (floats).")
        .forward(cross_entropy)
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

}  // namespace adjoint
