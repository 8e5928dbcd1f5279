// Connectionist temporal classification: the likelihood of a sequence of labels, summed over all ways
// to spread them over time with blanks between (Graves et al., 2006).
//
// States 2i + 1 are labels, 2i the blanks around them. `alpha` are the logarithms of the
// probabilities of all beginnings that end in a state, `beta` of all endings that begin there; both
// count the step in which they meet. The gradient is PyTorch's, exp(log_probs) minus the shares of
// the symbols at each time: that of the inputs of the log_softmax that the log_probs come from.
#include <cmath>
#include <limits>

#include "dispatch/program_recorder.h"
#include "graph/transformed.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

constexpr double kNone = -std::numeric_limits<double>::infinity();

// One sample: its log-probabilities [time, classes] with a step from one time to the next, and its
// labels.
template <class S>
struct Sequence {
  const S* logs;
  int64_t step, times, labels, blank;
  const int64_t* label;

  int64_t states() const { return 2 * labels + 1; }
  int64_t symbol(int64_t s) const { return s % 2 ? label[s / 2] : blank; }
  // A label may follow the one before it directly, unless they are the same.
  bool may_skip(int64_t s) const { return s % 2 && s >= 2 && label[s / 2] != label[s / 2 - 1]; }
  S at(int64_t t, int64_t s) const { return logs[t * step + symbol(s)]; }
};

template <class S>
S log_sum(S a, S b, S c) {
  const S top = std::max(a, std::max(b, c));
  if (top == S(kNone)) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

template <class S>
void find_alpha(const Sequence<S>& q, S* alpha, int64_t width) {
  const int64_t n = q.states();
  for (int64_t t = 0; t < q.times; ++t) {
    S* now = alpha + t * width;
    const S* before = now - width;
    for (int64_t s = 0; s < n; ++s) {
      if (t == 0) {
        now[s] = s < 2 ? q.at(0, s) : S(kNone);
        continue;
      }
      const S one = s >= 1 ? before[s - 1] : S(kNone);
      const S two = q.may_skip(s) ? before[s - 2] : S(kNone);
      now[s] = log_sum(before[s], one, two) + q.at(t, s);
    }
  }
}

template <class S>
S loss_of(const Sequence<S>& q, const S* alpha, int64_t width) {
  if (q.times == 0) return q.labels == 0 ? S(0) : std::numeric_limits<S>::infinity();
  const S* last = alpha + (q.times - 1) * width;
  const int64_t n = q.states();
  return -log_sum(last[n - 1], n > 1 ? last[n - 2] : S(kNone), S(kNone));
}

// grad[t][c] = (exp(logs[t][c]) - share of c at t) * g.
template <class S>
void find_gradient(const Sequence<S>& q, const S* alpha, int64_t width, S loss, S g,
                   int64_t classes, S* grad, int64_t step) {
  const int64_t n = q.states();
  if (std::isinf(loss)) {  // the labels do not fit: there is no gradient, unless nobody wants it
    const S none = g == 0 ? S(0) : std::numeric_limits<S>::quiet_NaN();
    for (int64_t t = 0; t < q.times; ++t) std::fill_n(grad + t * step, classes, none);
    return;
  }
  std::vector<S> beta(n), next(n), share(classes);
  for (int64_t t = q.times - 1; t >= 0; --t) {
    std::fill(share.begin(), share.end(), S(0));
    for (int64_t s = 0; s < n; ++s) {
      if (t == q.times - 1) {
        beta[s] = s >= n - 2 ? q.at(t, s) : S(kNone);
      } else {
        const S one = s + 1 < n ? next[s + 1] : S(kNone);
        const S two = s + 2 < n && q.may_skip(s + 2) ? next[s + 2] : S(kNone);
        beta[s] = log_sum(next[s], one, two) + q.at(t, s);
      }
      const S both = alpha[t * width + s] + beta[s];
      if (both != S(kNone)) share[q.symbol(s)] += std::exp(both + loss - q.at(t, s));
    }
    for (int64_t c = 0; c < classes; ++c)
      grad[t * step + c] = (std::exp(q.logs[t * q.step + c]) - share[c]) * g;
    std::swap(beta, next);
  }
}

// Arguments: log_probs [T, N, C], targets [N, S], input_lengths, target_lengths, blank.
struct Lengths {
  const Dims &inputs, &targets;
  int64_t blank, width;

  Lengths(const Value& in, const Value& out, const Value& b)
      : inputs(in.ints()), targets(out.ints()), blank(b.integer()) {
    int64_t most = 0;
    for (int64_t n : targets) most = std::max(most, n);
    width = 2 * most + 1;
  }
  template <class S>
  Sequence<S> sequence(T logs, T labels, int64_t n) const {
    return {logs.data<S>() + n * logs.size(2),
            logs.size(1) * logs.size(2),
            inputs[n],
            targets[n],
            blank,
            labels.data<int64_t>() + n * labels.size(1)};
  }
};

template <class S>
Value forward_in(Call& c, T logs, T labels, const Lengths& l) {
  const int64_t times = logs.size(0), samples = logs.size(1);
  Tensor alpha = empty(Dims{samples, times, l.width}, logs.dtype());
  Tensor loss = empty(Dims{samples}, logs.dtype());
  S *a = alpha.data<S>(), *out = loss.data<S>();
  each_row(samples, times * l.width * 16, [&](int64_t n) {
    Sequence<S> q = l.sequence<S>(logs, labels, n);
    find_alpha(q, a + n * times * l.width, l.width);
    out[n] = loss_of(q, a + n * times * l.width, l.width);
  });
  c.kept = alpha;
  return loss;
}

template <class S>
Value backward_in(Call& c, T logs, T labels, const Lengths& l) {
  Tensor g = contiguous(c.tensor(0)), alpha = c.tensor(6), loss = contiguous(c.tensor(7));
  const int64_t times = logs.size(0), samples = logs.size(1), classes = logs.size(2);
  Tensor grad = zeros(logs.shape(), logs.dtype());
  const S *a = alpha.data<S>(), *of = g.data<S>(), *losses = loss.data<S>();
  S* out = grad.data<S>();
  each_row(samples, times * l.width * 16, [&](int64_t n) {
    find_gradient(l.sequence<S>(logs, labels, n), a + n * times * l.width, l.width, losses[n],
                  of[n], classes, out + n * classes, samples * classes);
  });
  return grad;
}

// --- written from ops, to be differentiated again -----------------------------------------------
// Logarithms of nothing that can still be added and differentiated.
constexpr double kNearlyNone = -1e30;

struct States {
  Tensor logs;     // [T, N, states]: the log-probability of each state's symbol
  Tensor skips;    // [N, states]: 0 where the state before the last may come before, else none
  Tensor symbols;  // [N, states]
  Tensor last;     // [N, states]: 0 for the two states that a sequence may end in
  std::vector<Tensor> now;  // for each time, [N, 1]: whether the sample is still going on
};

Tensor filled_mask(const std::vector<char>& on, Dims shape) {
  Tensor mask = op<"zeros">(shape, DType::Bool);
  std::copy(on.begin(), on.end(), mask.bytes());
  return mask;
}

Tensor log_mask(T on, DType d) { return op<"where">(on, op<"zeros">(Dims{}, d), kNearlyNone); }

// Shifted along the states: what was k before (or behind, for k < 0), nothing at the end.
Tensor shifted(T x, int64_t k) {
  const int64_t n = x.size(-1);
  Dims pad =
      k > 0 ? Dims{std::min(k, n), -std::min(k, n)} : Dims{-std::min(-k, n), std::min(-k, n)};
  return op<"constant_pad_nd">(x, pad, kNearlyNone);
}

Tensor log_sum_of(Tensors parts) {
  return op<"logsumexp">(op<"stack">(std::move(parts), 0), Dims{0});
}

States states_of(C c) {
  refuse_recording("the derivative of ctc_loss, differentiated again, looks at its targets");
  Tensor logs = c.in(0), labels = contiguous(c.tensor(1));
  const Dims inputs = c.in(2).ints(), targets = c.in(3).ints();
  const int64_t samples = logs.size(1), blank = c.in(4).integer();
  int64_t most = 0;
  for (int64_t n : targets) most = std::max(most, n);
  const int64_t width = 2 * most + 1;
  std::vector<char> skips(samples * width), last(samples * width);
  States s;
  s.symbols = op<"full">(Dims{samples, width}, blank, DType::Int64);
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t* label = labels.data<int64_t>() + n * labels.size(1);
    for (int64_t k = 0; k < 2 * targets[n] + 1; ++k) {
      if (k % 2) s.symbols.data<int64_t>()[n * width + k] = label[k / 2];
      skips[n * width + k] = k % 2 && k >= 2 && label[k / 2] != label[k / 2 - 1];
      last[n * width + k] = k >= 2 * targets[n] - 1;
    }
  }
  const DType d = logs.dtype();
  s.skips = log_mask(filled_mask(skips, {samples, width}), d);
  s.last = log_mask(filled_mask(last, {samples, width}), d);
  Dims all{logs.size(0), samples, width};
  s.logs = op<"gather">(logs, 2, op<"expand">(s.symbols, all));
  s.logs = op<"clamp_min">(s.logs, kNearlyNone);
  for (int64_t t = 0; t < logs.size(0); ++t) {
    std::vector<char> on(samples);
    for (int64_t n = 0; n < samples; ++n) on[n] = t < inputs[n];
    s.now.push_back(filled_mask(on, {samples, 1}));
  }
  return s;
}

Tensor at_time(T x, int64_t t) { return op<"select">(x, 0, t); }

Tensor composed_gradient(C c, T g) {
  Tensor logs = c.in(0);
  States s = states_of(c);
  const int64_t times = logs.size(0);
  const DType d = logs.dtype();
  Tensors alpha, beta(times), shares;
  Tensor first = op<"full_like">(at_time(s.logs, 0), kNearlyNone);
  op_inplace<"fill">(op<"slice">(first, 1, 0, 2), 0.0);
  alpha.push_back(first + at_time(s.logs, 0));
  for (int64_t t = 1; t < times; ++t) {
    T before = alpha.back();
    Tensor sum = log_sum_of({before, shifted(before, 1), shifted(before, 2) + s.skips});
    alpha.push_back(op<"where">(s.now[t], sum + at_time(s.logs, t), before));
  }
  Tensor loss = -op<"logsumexp">(alpha.back() + s.last, Dims{1}, true).tensor();
  // Where a sample has ended, what follows is certain: the states that it may end in.
  Tensor next;
  for (int64_t t = times - 1; t >= 0; --t) {
    Tensor ends = s.last + at_time(s.logs, t);
    if (next) {
      Tensor skipped = shifted(next + s.skips, -2);
      Tensor sum = log_sum_of({next, shifted(next, -1), skipped});
      Tensor goes_on = t + 1 < times ? s.now[t + 1] : s.now[t];
      beta[t] = op<"where">(goes_on, sum + at_time(s.logs, t), ends);
    } else {
      beta[t] = ends;
    }
    next = beta[t];
  }
  for (int64_t t = 0; t < times; ++t) {
    Tensor each = op<"exp">(alpha[t] + beta[t] - at_time(s.logs, t) + loss);
    Tensor none = op<"zeros">(Dims{logs.size(1), logs.size(2)}, d);
    Tensor share = op<"scatter_add">(none, 1, s.symbols, each);
    Tensor slope = op<"exp">(at_time(logs, t)).tensor() - share;
    shares.push_back(op<"where">(s.now[t], slope * op<"unsqueeze">(g, 1).tensor(), 0.0));
  }
  return op<"stack">(shares, 0);
}

template <bool Backward>
Value run(Call& c) {
  constexpr int k = Backward ? 1 : 0;
  Tensor logs = contiguous(c.tensor(k)), labels = contiguous(c.tensor(k + 1));
  const Lengths l(c[k + 2], c[k + 3], c[k + 4]);
  const bool single = logs.dtype() == DType::Float32;
  if constexpr (Backward)
    return single ? backward_in<float>(c, logs, labels, l)
                  : backward_in<double>(c, logs, labels, l);
  else
    return single ? forward_in<float>(c, logs, labels, l) : forward_in<double>(c, logs, labels, l);
}

}  // namespace

static const Op& ctc_loss_ =
    def("_ctc_loss(log_probs, targets, input_lengths: int[], target_lengths: int[], blank: int)",
        "Minus the logarithm of the likelihood of each sample's labels.")
        .forward(run<false>)
        .grad(0, input(0) | input(1) | output(),
              [](T g, C c) -> Tensor {
                if (grad_enabled() || g_transformed) return composed_gradient(c, g);
                return op<"_ctc_loss_backward">(g, c.in(0), c.in(1), c.in(2), c.in(3), c.in(4),
                                                c.kept(), c.out());
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor ones = op<"ones_like">(c.out());
          return op<"sum">(composed_gradient(c, ones) * t[0], Dims{0, 2});
        })
        .function_only()
        .no_out()
        .called("ctc_loss")
        .node("CtcLossBackward0")
        .batch(batch::each_sample)
        .autocast(Autocast::Float32);

static const Op& ctc_loss_backward_ =
    def("_ctc_loss_backward(g, log_probs, targets, input_lengths: int[], target_lengths: int[], "
        "blank: int, alpha, loss)",
        "The gradient of _ctc_loss.")
        .forward(run<true>)
        .internal()
        .called("ctc_loss");

}  // namespace adjoint
