// Rules for convolutions, pooling, losses, normalisation, attention and recurrent layers. Read operand_rules.h first.
#include "program/operand_rules.h"
#include "tensor/checked.h"

namespace adjoint::operands {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;  // of a window, a step, a size

bool same_dtype(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype(); }
bool is_dense(const Tensor& t, Span shape, DType d) {
  return same(t.shape(), shape) && t.dtype() == d && t.contiguous();
}
Dims last_of(Span shape, int axes) { return Dims(Span{shape.p + shape.n - axes, axes}); }

// --- windows -------------------------------------------------------------------------------------
struct Window {
  const Dims &kernel, &stride, &padding;
  Dims dilation;

  int axes() const { return kernel.size(); }
  bool is_sound() const {
    return axes() >= 1 && axes() <= 3 && stride.size() == axes() && padding.size() == axes() &&
           dilation.size() == axes() && are_between(kernel, 1, kMost) &&
           are_between(stride, 1, kMost) && are_between(padding, 0, kMost) &&
           are_between(dilation, 1, kMost);
  }
  // How many windows fit along an axis; with `ceil` also one that is partly filled.
  int64_t count(int d, int64_t in, bool ceil = false) const {
    int64_t room = in + 2 * padding[d] - checked_mul(dilation[d], kernel[d] - 1) - 1;
    if (room < 0) return ceil && room + stride[d] > 0 && in + padding[d] > 0 ? 1 : 0;
    int64_t n = (room + (ceil ? stride[d] - 1 : 0)) / stride[d] + 1;
    if (ceil && (n - 1) * stride[d] >= in + padding[d]) --n;
    return n;
  }
};

// [N, groups * ci, in], [groups * co, ci, kernel], [N, groups * co, out]
bool convolves(Span x, Span w, Span y, const Call& c, int first) {
  const int axes = x.n - 2;
  const int64_t groups = c.integer(first + 3);
  if (axes < 1 || axes > 3 || w.n != x.n || y.n != x.n || groups < 1 || groups >= kMost)
    return false;
  Dims kernel = last_of(w, axes);
  Window window{kernel, c.ints(first), c.ints(first + 1), c.ints(first + 2)};
  if (x[0] != y[0] || x[1] != checked_mul(w[1], groups) || w[0] != y[1] || w[0] % groups)
    return false;
  if (!are_between(kernel, 0, kMost) || !are_between(Dims(x), 0, kMost) ||
      !are_between(Dims(y), 0, kMost))
    return false;
  for (int64_t k : kernel) {
    if (k == 0) return true;  // there is nothing to sum
  }
  if (!window.is_sound()) return false;
  // Some of the last windows may stand partly behind the input, or none where they could.
  for (int d = 0; d < axes; ++d) {
    const int64_t behind = checked_mul(window.dilation[d], kernel[d]);
    const int64_t spare = std::max(window.dilation[d], window.stride[d]);
    const int64_t in = x[d + 2], out = y[d + 2];
    if (out > window.count(d, in + behind) || out < window.count(d, in - spare)) return false;
  }
  return true;
}
bool has_bias(const Call& c, int64_t channels) {
  if (c[2].is_none()) return true;
  Tensor b = c.tensor(2);
  return same(b.shape(), Dims{channels}) && same_dtype(b, c.tensor(0));
}
Dims with_channels(int64_t samples, int64_t channels, const Dims& size) {
  Dims shape{samples, channels};
  for (int64_t s : size) shape.push_back(s);
  return shape;
}
bool is_conv_output(const Call& c) {
  Tensor x = c.tensor(0), w = c.tensor(1);
  if (x.ndim() < 3 || w.ndim() != x.ndim() || !same_dtype(x, w)) return false;
  return has_bias(c, w.size(0)) &&
         convolves(x.shape(), w.shape(), with_channels(x.size(0), w.size(0), c.ints(3)), c, 4);
}
bool is_conv_input(const Call& c) {
  Tensor g = c.tensor(0), w = c.tensor(1);
  if (g.ndim() < 3 || w.ndim() != g.ndim() || !same_dtype(g, w)) return false;
  int64_t groups = c.integer(7);
  if (groups < 1 || groups >= kMost) return false;
  int64_t channels = checked_mul(w.size(1), groups);
  return has_bias(c, channels) &&
         convolves(with_channels(g.size(0), channels, c.ints(3)), w.shape(), g.shape(), c, 4);
}
bool is_conv_weight(const Call& c) {
  Tensor g = c.tensor(0), x = c.tensor(1);
  if (x.ndim() < 3 || g.ndim() != x.ndim() || !same_dtype(g, x)) return false;
  int64_t groups = c.integer(6);
  if (groups < 1 || x.size(1) % groups) return false;
  Dims w = with_channels(g.size(1), x.size(1) / groups, c.ints(2));
  return convolves(x.shape(), w, g.shape(), c, 3);
}

// --- pooling -------------------------------------------------------------------------------------
bool pools(const Tensor& t, const Window& w) {
  if (!w.is_sound() || t.ndim() < w.axes() || !are_between(Dims(t.shape()), 0, kMost)) return false;
  for (int d = 0; d < w.axes(); ++d) {
    if (w.padding[d] > w.kernel[d] / 2) return false;
  }
  return true;
}
bool has_windows(Span in, Span out, const Window& w, bool ceil) {
  for (int d = 0; d < w.axes(); ++d) {
    int64_t n = w.count(d, in[d], ceil);
    if (n < 1 || (out.n && n != out[d])) return false;
  }
  return true;
}
bool is_max_pool(const Call& c) {
  Window w{c.ints(1), c.ints(2), c.ints(3), c.ints(4)};
  Tensor x = c.tensor(0);
  return pools(x, w) && has_windows(last_of(x.shape(), w.axes()), Span{nullptr, 0}, w, c.flag(5));
}
bool is_mean_pool(const Call& c) {
  Window w{c.ints(1), c.ints(2), c.ints(3), Dims(c.ints(1).size(), 1)};
  Tensor x = c.tensor(0);
  return pools(x, w) && has_windows(last_of(x.shape(), w.axes()), Span{nullptr, 0}, w, c.flag(4));
}
bool is_mean_pool_back(const Call& c) {
  Window w{c.ints(1), c.ints(2), c.ints(3), Dims(c.ints(1).size(), 1)};
  Tensor g = c.tensor(0);
  return pools(g, w) && c.ints(6).size() == w.axes() && are_between(c.ints(6), 1, kMost) &&
         has_windows(c.ints(6), last_of(g.shape(), w.axes()), w, c.flag(7));
}
bool is_adaptive(const Call& c) {
  const Dims& sizes = c.ints(1);
  Tensor t = c.tensor(0);
  return sizes.size() >= 1 && sizes.size() <= 3 && t.ndim() >= sizes.size() &&
         are_between(sizes, 1, kMost) && are_between(last_of(t.shape(), sizes.size()), 1, kMost);
}
bool has_index(const Call& c, int axes) {
  Tensor t = c.tensor(0), index = c.tensor(1);
  return axes >= 1 && axes <= 3 && t.ndim() >= axes && index.dtype() == DType::Int64;
}
bool gathers_planes(const Call& c) {
  Tensor x = c.tensor(0), index = c.tensor(1);
  if (c.integer(2) < 1 || c.integer(2) > 3) return false;
  const int axes = static_cast<int>(c.integer(2));
  return has_index(c, axes) && index.ndim() == x.ndim() &&
         same({x->shape, x.ndim() - axes}, {index->shape, x.ndim() - axes});
}
bool scatters_planes(const Call& c) {
  return has_index(c, c.ints(2).size()) && are_between(c.ints(2), 0, kMost) &&
         is_float(c.tensor(0)) && same(c.tensor(0).shape(), c.tensor(1).shape());
}

// --- windows as columns: [.., channels, h, w], [.., channels * kernel, windows] ------------------
bool unfolds(const Call& c, const Dims& in, int64_t& windows) {
  Window w{c.ints(1), c.ints(4), c.ints(3), c.ints(2)};
  if (w.axes() != 2 || !w.is_sound() || in.size() != 2 || !are_between(in, 1, kMost)) return false;
  windows = checked_mul(w.count(0, in[0]), w.count(1, in[1]));
  return windows > 0;
}
bool is_unfold(const Call& c) {
  int64_t windows;
  Tensor x = c.tensor(0);
  return is_number(x) && x.ndim() >= 3 && unfolds(c, last_of(x.shape(), 2), windows);
}
bool is_fold(const Call& c) {
  int64_t windows;
  Tensor columns = c.tensor(0);
  if (!is_number(columns) || columns.ndim() < 2 || !unfolds(c, c.ints(5), windows)) return false;
  return columns.size(-1) == windows &&
         columns.size(-2) % checked_mul(c.ints(1)[0], c.ints(1)[1]) == 0;
}

// --- losses --------------------------------------------------------------------------------------
// What the forwards do not look at themselves (check_classes in ops/nn/loss.cpp does most).
bool are_rows(const Tensor& x) { return is_float(x) && x.ndim() >= 1 && x.ndim() <= 2; }
bool is_nll_backward(const Call& c) {
  return is_float(c.tensor(0)) && are_between(c.ints(5), 0, kMost) && !c.ints(5).empty();
}
bool is_cross_entropy_backward(const Call& c) {
  Tensor x = c.tensor(1);
  if (!are_rows(x)) return false;
  return c.tensor(0).dtype() == x.dtype() &&
         is_dense(c.tensor(2), Dims{x.ndim() == 1 ? 1 : x.size(0), 2}, compute_dtype(x.dtype()));
}
bool is_embedding_backward(const Call& c) {
  Tensor g = c.tensor(0), index = c.tensor(1);
  return is_number(g) && g.ndim() >= 1 && same(g.shape(), with_back(index.shape(), g.size(-1))) &&
         c.integer(2) >= 0 && c.integer(2) < kMost;
}

// --- normalisation, softmax, padding -------------------------------------------------------------
bool is_layer_norm_backward(const Call& c) {
  Tensor x = c.tensor(1);
  const Dims& normalized = c.ints(4);
  const int n = normalized.size();
  if (!is_float(x) || n < 1 || n > x.ndim() || c.integer(6) < 0 || c.integer(6) > 7) return false;
  int64_t rows = 1;
  for (int i = 0; i < x.ndim() - n; ++i) rows *= x.size(i);
  return same(normalized, last_of(x.shape(), n)) && same(c.tensor(0).shape(), x.shape()) &&
         same_dtype(c.tensor(0), x) &&
         is_dense(c.tensor(3), Dims{rows, 2}, compute_dtype(x.dtype()));
}
bool is_softmax_backward(const Call& c) {
  Tensor g = c.tensor(0), y = c.tensor(1);
  return is_float(y) && same_dtype(g, y) && same(g.shape(), y.shape()) &&
         is_axis(c.integer(2), std::max(y.ndim(), 1));
}
bool pads(Span shape, const Dims& pad) {
  return pad.size() % 2 == 0 && !pad.empty() && pad.size() <= 2 * shape.n &&
         are_between(pad, -kMost, kMost) && are_between(Dims(shape), 0, kMost);
}
bool is_padded_back(const Call& c) {
  const Dims &pad = c.ints(1), &size = c.ints(3);
  Tensor g = c.tensor(0);
  const std::string& mode = c[2].str();
  if (!is_number(g) || !pads(size, pad) || g.ndim() != size.size()) return false;
  if (mode != "reflect" && mode != "replicate" && mode != "circular") return false;
  for (int d = 0; d < size.size(); ++d) {
    const int k = 2 * (size.size() - 1 - d);
    if (g.size(d) != size[d] + (k < pad.size() ? pad[k] + pad[k + 1] : 0)) return false;
  }
  return true;
}

// --- attention: [N, H, L, E], [N, H / group, S, E], [N, H / group, S, F] -------------------------
bool attends(const Tensor& q, const Tensor& k, const Tensor& v, const Value& mask) {
  if (!is_float(q) || !same_dtype(q, k) || !same_dtype(q, v)) return false;
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) return false;
  const int64_t heads = q.size(1), shared = k.size(1);
  bool fits = k.size(0) == q.size(0) && v.size(0) == q.size(0) && v.size(1) == shared &&
              shared > 0 && heads % shared == 0 && k.size(3) == q.size(3) && v.size(2) == k.size(2);
  if (!fits || mask.is_none()) return fits;
  Tensor m = mask;
  const int64_t scores[] = {q.size(0), heads, q.size(2), k.size(2)};
  if (m.ndim() != 4 || (m.dtype() != DType::Bool && !is_float(m))) return false;
  for (int i = 0; i < 4; ++i) {
    if (m.size(i) != 1 && m.size(i) != scores[i]) return false;
  }
  return true;
}
bool is_attention_backward(const Call& c) {
  Tensor q = c.tensor(1), v = c.tensor(3);
  if (!attends(q, c.tensor(2), v, c[6])) return false;
  Dims out{q.size(0), q.size(1), q.size(2), v.size(3)};
  return same(c.tensor(0).shape(), out) && same(c.tensor(4).shape(), out) &&
         same_dtype(c.tensor(0), q) && same_dtype(c.tensor(4), q) &&
         is_dense(c.tensor(5), Dims{q.size(0), q.size(1), q.size(2)}, compute_dtype(q.dtype()));
}

// --- recurrent layers ----------------------------------------------------------------------------
// Sizes of steps: how many sequences still run, which does not grow.
bool are_steps(const Dims& sizes, int64_t total, int64_t batch) {
  int64_t sum = 0, before = batch;
  for (int64_t s : sizes) {
    if (s < 1 || s > before) return false;
    before = s;
    sum += s;
  }
  return sum == total && (sizes.empty() || sizes[0] == batch);
}
bool is_rows_of(const Value& v, int64_t rows, int64_t columns) {
  return v.is_none() || same(v.tensor().shape(), Dims{rows, columns});
}
bool is_lstm(const Call& c) {
  Tensor x = c.tensor(0), h = c.tensor(2);
  return x.ndim() == 2 && h.ndim() == 2 && same_dtype(c.tensor(3), x) &&
         are_steps(c.ints(4), x.size(0), h.size(0));
}
bool is_lstm_backward(const Call& c) {
  Tensor w = c.tensor(2), start = c.tensor(3), cells = c.tensor(4), gates = c.tensor(5);
  if (start.ndim() != 2 || cells.ndim() != 2 || !is_float(start)) return false;
  const int64_t n = start.size(1), total = cells.size(0);
  return is_rows_of(c[0], total, n) && is_rows_of(c[1], total, n) && is_rows_of(w, 4 * n, n) &&
         is_rows_of(cells, total, n) && is_rows_of(gates, total, 4 * n) &&
         are_steps(c.ints(6), total, start.size(0));
}
bool is_gru(const Call& c) {
  Tensor x = c.tensor(0), h = c.tensor(3);
  return x.ndim() == 2 && h.ndim() == 2 && are_steps(c.ints(4), x.size(0), h.size(0));
}
bool is_gru_backward(const Call& c) {
  Tensor w = c.tensor(1), start = c.tensor(2), h = c.tensor(3), gates = c.tensor(4);
  if (start.ndim() != 2 || h.ndim() != 2 || !is_float(start)) return false;
  const int64_t n = start.size(1), total = h.size(0);
  return is_rows_of(c[0], total, n) && is_rows_of(w, 3 * n, n) && is_rows_of(h, total, n) &&
         is_rows_of(gates, total, 4 * n) && are_steps(c.ints(5), total, start.size(0));
}
bool is_rnn(const Call& c) {
  Tensor x = c.tensor(0), h = c.tensor(2);
  return x.ndim() == 2 && h.ndim() == 2 && are_steps(c.ints(4), x.size(0), h.size(0));
}

constexpr Entry kRules[] = {
    {"_conv_output", is_conv_output},
    {"_conv_input", is_conv_input},
    {"_conv_weight", is_conv_weight},
    {"_max_pool", is_max_pool},
    {"_mean_pool", is_mean_pool},
    {"_mean_pool_back", is_mean_pool_back},
    {"_adaptive_max_pool", is_adaptive},
    {"_adaptive_mean_pool", is_adaptive},
    {"_adaptive_mean_back", is_adaptive},
    {"_plane_gather", gathers_planes},
    {"_plane_scatter", scatters_planes},
    {"_max_unpool", scatters_planes},
    {"_im2col", is_unfold},
    {"_col2im", is_fold},
    {"_nll_loss", [](const Call& c) { return is_float(c.tensor(0)) && c.tensor(0).ndim() >= 1; }},
    {"_nll_loss2d", [](const Call& c) { return is_float(c.tensor(0)) && c.tensor(0).ndim() >= 1; }},
    {"_nll_loss_backward", is_nll_backward},
    {"_cross_entropy", [](const Call& c) { return are_rows(c.tensor(0)); }},
    {"_cross_entropy_backward", is_cross_entropy_backward},
    {"_binary_cross_entropy",
     [](const Call& c) {
       return is_float(c.tensor(0)) && same_dtype(c.tensor(0), c.tensor(1)) &&
              same(c.tensor(0).shape(), c.tensor(1).shape());
     }},
    {"_embedding_backward", is_embedding_backward},
    {"_layer_norm_backward", is_layer_norm_backward},
    {"_softmax_backward", is_softmax_backward},
    {"_log_softmax_backward", is_softmax_backward},
    {"_pad_elements", [](const Call& c) { return pads(c.tensor(0).shape(), c.ints(1)); }},
    {"_pad_elements_transposed", is_padded_back},
    {"_attention",
     [](const Call& c) { return attends(c.tensor(0), c.tensor(1), c.tensor(2), c[3]); }},
    {"_attention_backward", is_attention_backward},
    {"_lstm_sequence", is_lstm},
    {"_lstm_sequence_backward", is_lstm_backward},
    {"_gru_sequence", is_gru},
    {"_gru_sequence_backward", is_gru_backward},
    {"_rnn_sequence", is_rnn},
};

}  // namespace

std::span<const Entry> layer_rules() { return kRules; }

}  // namespace adjoint::operands
