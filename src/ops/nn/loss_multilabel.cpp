// The multilabel margin loss, whose pairs of a label and another class are visited, never stored.
// Read loss.h first.
#include "dispatch/op.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// One row of scores, and the labels before the first -1 of its row of targets.
struct Labels {
  const int64_t* at;
  int64_t count = 0;
  std::vector<char> is_label;

  Labels(const int64_t* target, int64_t classes) : at(target), is_label(classes, 0) {
    for (int64_t k = 0; k < classes && target[k] >= 0; ++k, ++count) is_label[target[k]] = 1;
  }
};

Tensor checked_targets(T given, int64_t classes) {
  Tensor target = contiguous(given);
  const int64_t* p = target.data<int64_t>();
  for (int64_t i = 0; i < target.numel(); ++i) {
    if (p[i] < -1 || p[i] >= classes) {
      runtime_error("argument #2 'target' is out of range: ", p[i], " where there are ", classes,
                    " classes, and -1 for the end of the labels");
    }
  }
  return target;
}

// f(row, labels, scores) for every row.
template <class S, class F>
void each_sample_of(T x, T target, F f) {
  const int64_t classes = x.size(1);
  const S* scores = x.data<S>();
  const int64_t* labels = target.data<int64_t>();
  each_row(x.size(0), classes * 4,
           [&](int64_t r) { f(r, Labels(labels + r * classes, classes), scores + r * classes); });
}

template <class S>
void losses(T x, T target, T out) {
  const int64_t classes = x.size(1);
  S* loss = out.data<S>();
  each_sample_of<S>(x, target, [=](int64_t r, const Labels& labels, const S* score) {
    double sum = 0;
    for (int64_t k = 0; k < labels.count; ++k) {
      const S edge = 1 - score[labels.at[k]];
      for (int64_t i = 0; i < classes; ++i) {
        const S excess = edge + score[i];
        if (!labels.is_label[i] && !(excess <= 0)) sum += excess;
      }
    }
    loss[r] = static_cast<S>(sum / static_cast<double>(classes));
  });
}

template <class S>
void slopes(T x, T target, T out) {
  const int64_t classes = x.size(1);
  S* slope = out.data<S>();
  const S step = S(1) / static_cast<S>(classes);
  each_sample_of<S>(x, target, [=](int64_t r, const Labels& labels, const S* score) {
    S* to = slope + r * classes;
    std::fill(to, to + classes, S(0));
    for (int64_t k = 0; k < labels.count; ++k) {
      const S edge = 1 - score[labels.at[k]];
      for (int64_t i = 0; i < classes; ++i) {
        if (labels.is_label[i] || !(edge + score[i] > 0)) continue;
        to[i] += step;
        to[labels.at[k]] -= step;
      }
    }
  });
}

}  // namespace

static const Op& multilabel_margin_ =
    def("_multilabel_margin(input, target, dim: int = 1)",
        "The sum over labels j and other classes i of max(0, 1 - input[j] + input[i]) / classes, "
        "for each row.")
        .forward([](Call& c) -> Value {
          Tensor x = contiguous(c.tensor(0)), target = checked_targets(c.tensor(1), x.size(1));
          Tensor out = empty(Dims{x.size(0)}, x.dtype());
          if (x.dtype() == DType::Float32)
            losses<float>(x, target, out);
          else
            losses<double>(x, target, out);
          return out;
        })
        .grad(0, input(0) | input(1),
              [](T g, C c) -> Tensor {
                return op<"unsqueeze">(g, 1).tensor() *
                       op<"_multilabel_margin_slopes">(c.in(0), c.in(1)).tensor();
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor slope = op<"_multilabel_margin_slopes">(c.in(0), c.in(1));
          return op<"sum">(slope * t[0], Dims{1});
        })
        .function_only()
        .no_out()
        .node("MultilabelMarginLossBackward0")
        .batch([](Call& c, const int* axes) -> Value {
          Tensor x = batch::whole(c, axes, 0), target = batch::whole(c, axes, 1);
          Tensor rows =
              op<"_multilabel_margin">(op<"flatten">(x, 0, 1), op<"flatten">(target, 0, 1));
          return op<"reshape">(rows, Dims{x.size(0), x.size(1)});
        })
        .depends(Depends::Along);

static const Op& multilabel_margin_slopes_ =
    def("_multilabel_margin_slopes(input, target)",
        "How the multilabel margin loss of each row moves with its scores; piecewise constant.")
        .forward([](Call& c) -> Value {
          Tensor x = contiguous(c.tensor(0)), target = checked_targets(c.tensor(1), x.size(1));
          Tensor out = empty(x.shape(), x.dtype());
          if (x.dtype() == DType::Float32)
            slopes<float>(x, target, out);
          else
            slopes<double>(x, target, out);
          return out;
        })
        .internal()
        .batch([](Call& c, const int* axes) -> Value {
          Tensor x = batch::whole(c, axes, 0), target = batch::whole(c, axes, 1);
          Tensor rows =
              op<"_multilabel_margin_slopes">(op<"flatten">(x, 0, 1), op<"flatten">(target, 0, 1));
          return op<"reshape">(rows, x.shape());
        });

}  // namespace adjoint
