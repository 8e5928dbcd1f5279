// Recurrent layers over whole sequences: one op runs all steps of one layer in one direction, forward and
// backward, with products of matrices and the loops of kernels/isa/recurrent.cpp between them. The products
// with the input stand outside (one `linear` for all steps), and so does the gradient of the weight.
// Read recurrent.h first.
#include "ops/nn/recurrent.h"

#include "kernels/products/shared_factor.h"
#include "transforms/batch_rules.h"

namespace adjoint {

using T = const Tensor&;
using C = Context&;

Steps::Steps(const Dims& sizes, bool reverse) : reverse_(reverse) {
  if (sizes.size() == 0) runtime_error("Expected sequence length to be larger than 0 in RNN");
  int64_t last = sizes[0];
  for (int64_t n : sizes) {
    if (n < 0 || n > last) {
      runtime_error("batch sizes of a sequence must not grow, but got ", to_string(sizes));
    }
    sizes_.push_back(last = n);
    begins_.push_back(total_);
    total_ += n;
  }
}

namespace {

// Rows of a matrix that lies dense in memory.
struct Dense {
  char* data = nullptr;
  int64_t columns = 0, item = 0;

  Dense() = default;
  explicit Dense(T t) {
    if (!t) return;
    data = t.bytes(), columns = t.size(-1), item = static_cast<int64_t>(item_size(t.dtype()));
  }
  char* row(int64_t i, int64_t column = 0) const {
    return data ? data + (i * columns + column) * item : nullptr;
  }
  Matrix from(int64_t i, int64_t column = 0) const { return {row(i, column), columns, 1}; }
};

Matrix transposed(Matrix m) { return {m.data, m.col_stride, m.row_stride}; }

// What the states before a step are made of: rows [begin, end) of the step have their states from
// `source` on.
template <class F>
void each_piece(const Steps& steps, int s, Dense states, Dense initial, F f) {
  const int64_t kept = steps.carried(s), n = steps.size(s);
  if (kept) f(int64_t{0}, kept, states, steps.begin(s ? s - 1 : 0));
  if (kept < n) f(kept, n, initial, kept);
}

Tensor dense(const Value& v, DType d) {
  return v.is_none() ? Tensor() : contiguous(cast(v.tensor(), d));
}

void check(const char* name, const Steps& steps, T x, T weight, T h, int gates) {
  if (x.ndim() != 2 || weight.ndim() != 2 || h.ndim() != 2) {
    runtime_error(name, ": matrices expected, but got shapes ", x.shape(), ", ", weight.shape(),
                  " and ", h.shape());
  }
  const int64_t n = h.size(1);
  if (x.size(1) != gates * n || x.size(0) != steps.total() || h.size(0) != steps.batch() ||
      weight.size(0) != gates * n || weight.size(1) != n) {
    runtime_error(name, ": shapes ", x.shape(), " of the input's sums, ", weight.shape(),
                  " of the weight and ", h.shape(), " of the state do not belong together");
  }
  if (x.dtype() != weight.dtype() || x.dtype() != h.dtype()) {
    runtime_error(name, ": input, weight and state must have one dtype, but have ", x.dtype(), ", ",
                  weight.dtype(), " and ", h.dtype());
  }
}

template <class F>
void over_rows(int64_t rows, int64_t length, F f) {
  constexpr int64_t kGrain = 4096;
  parallel::parallel_ranges(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r) f(r);
                            });
}

// --- LSTM ----------------------------------------------------------------------------------------
Value lstm_forward(Call& c) {
  Steps steps(c.ints(4), c.flag(5));
  check("lstm", steps, c.tensor(0), c.tensor(1), c.tensor(2), 4);
  const DType dtype = c.tensor(0).dtype(), d = row_dtype("lstm", dtype);
  if (!(c.tensor(3).shape() == c.tensor(2).shape())) {
    runtime_error("lstm: hidden and cell state must have one shape, but have ", c.tensor(2).shape(),
                  " and ", c.tensor(3).shape());
  }
  Tensor x = dense(c[0], d), w = dense(c[1], d), h0 = dense(c[2], d), c0 = dense(c[3], d);
  const int64_t n = h0.size(1);
  Tensor gates = empty(x.shape(), d), h = empty(Dims{steps.total(), n}, d),
         cells = empty(h.shape(), d);
  Dense X(x), W(w), H0(h0), C0(c0), A(gates), H(h), Cs(cells);
  Loop cell = row_loop("lstm_cell", d);
  WithoutGil release(gates.numel() * n >= kReleaseGil);
  const SharedFactor weight(d, transposed(W.from(0)), n, 4 * n, steps.batch());
  for (int s = 0; s < steps.count() && n; ++s) {
    const int64_t at = steps.begin(s);
    each_piece(steps, s, H, H0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
      weight.product(end - begin, from.from(row), A.row(at + begin), 4 * n, false);
    });
    each_piece(steps, s, Cs, C0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
      over_rows(end - begin, 4 * n, [&](int64_t r) {
        const int64_t i = at + begin + r;
        char* p[5] = {A.row(i), from.row(row + r), Cs.row(i), H.row(i), X.row(i)};
        cell(p, n);
      });
    });
  }
  release.end();
  return Tensors{cast(h, dtype), cast(cells, dtype), gates};
}

// Gradients of the sums and of the initial state.
Value lstm_backward(Call& c) {
  Steps steps(c.ints(6), c.flag(7));
  Tensor c0 = c.tensor(3);
  const DType dtype = c0.dtype(), d = compute_dtype(dtype);
  Tensor of_h = dense(c[0], d), of_c = dense(c[1], d), w = dense(c[2], d), start = dense(c[3], d),
         cells = dense(c[4], d), gates = dense(c[5], d);
  const int64_t n = c0.size(1);
  Tensor sums = empty(gates.shape(), d), dh = zeros(c0.shape(), d), dc = zeros(c0.shape(), d);
  Dense GH(of_h), GC(of_c), W(w), C0(start), Cs(cells), A(gates), S(sums), DH(dh), DC(dc);
  Loop cell = row_loop("lstm_cell_grad", d);
  WithoutGil release(gates.numel() * n >= kReleaseGil);
  const SharedFactor weight(d, W.from(0), 4 * n, n, steps.batch());
  for (int s = steps.count() - 1; s >= 0 && n; --s) {
    const int64_t at = steps.begin(s);
    each_piece(steps, s, Cs, C0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
      over_rows(end - begin, 4 * n, [&](int64_t r) {
        const int64_t b = begin + r, i = at + b;
        char* p[8] = {S.row(i),  A.row(i),  from.row(row + r), Cs.row(i),
                      DH.row(b), DC.row(b), GH.row(i),         GC.row(i)};
        cell(p, n);
      });
    });
    weight.product(steps.size(s), S.from(at), DH.row(0), n, false);
  }
  release.end();
  return Tensors{cast(sums, dtype), cast(dh, dtype), cast(dc, dtype)};
}

// --- GRU -----------------------------------------------------------------------------------------
// The sums of the input (r, z, n) with the bias of the state, and a place for what r multiplies.
void start_gru(T gates, T x, const Value& bias, int64_t n) {
  GradMode off(false);
  auto columns = [](T t, int64_t begin, int64_t size) -> Tensor {
    return op<"narrow">(t, -1, begin, size);
  };
  Tensor b = bias.is_none() ? zeros(Dims{3 * n}, gates.dtype()) : cast(bias, gates.dtype());
  Tensor last = columns(gates, 3 * n, n);
  copy_into(columns(gates, 0, 2 * n), columns(x, 0, 2 * n) + columns(b, 0, 2 * n));
  copy_into(columns(gates, 2 * n, n), columns(x, 2 * n, n));
  copy_into(last, op<"expand">(columns(b, 2 * n, n), last.shape()));
}

Value gru_forward(Call& c) {
  Steps steps(c.ints(4), c.flag(5));
  check("gru", steps, c.tensor(0), c.tensor(1), c.tensor(3), 3);
  const DType dtype = c.tensor(0).dtype(), d = row_dtype("gru", dtype);
  Tensor w = dense(c[1], d), h0 = dense(c[3], d);
  const int64_t n = h0.size(1);
  if (!c[2].is_none() && !(c.tensor(2).shape() == Span(Dims{3 * n}))) {
    runtime_error("gru: the state's bias must have shape [", 3 * n, "], but has ",
                  c.tensor(2).shape());
  }
  Tensor gates = empty(Dims{steps.total(), 4 * n}, d), h = empty(Dims{steps.total(), n}, d);
  start_gru(gates, c.tensor(0), c[2], n);
  Dense W(w), H0(h0), A(gates), H(h);
  Loop cell = row_loop("gru_cell", d);
  WithoutGil release(gates.numel() * n >= kReleaseGil);
  const SharedFactor pair(d, transposed(W.from(0)), n, 2 * n, steps.batch()),
      last(d, transposed(W.from(2 * n)), n, n, steps.batch());
  for (int s = 0; s < steps.count() && n; ++s) {
    const int64_t at = steps.begin(s);
    each_piece(steps, s, H, H0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
      Matrix before = from.from(row);
      pair.product(end - begin, before, A.row(at + begin), 4 * n, true);
      last.product(end - begin, before, A.row(at + begin, 3 * n), 4 * n, true);
      over_rows(end - begin, 4 * n, [&](int64_t r) {
        const int64_t i = at + begin + r;
        char* p[3] = {A.row(i), from.row(row + r), H.row(i)};
        cell(p, n);
      });
    });
  }
  release.end();
  return Tensors{cast(h, dtype), gates};
}

// Gradients of the input's sums, of the sums with the state, and of the initial state.
Value gru_backward(Call& c) {
  Steps steps(c.ints(5), c.flag(6));
  const DType dtype = c.tensor(2).dtype(), d = compute_dtype(dtype);
  Tensor of_h = dense(c[0], d), w = dense(c[1], d), h0 = dense(c[2], d), h = dense(c[3], d),
         gates = dense(c[4], d);
  const int64_t n = h0.size(1);
  Tensor all = empty(gates.shape(), d), dh = zeros(h0.shape(), d);
  Dense GH(of_h), W(w), H0(h0), H(h), A(gates), S(all), DH(dh);
  Loop cell = row_loop("gru_cell_grad", d);
  {
    WithoutGil release(gates.numel() * n >= kReleaseGil);
    const SharedFactor first(d, W.from(0), 2 * n, n, steps.batch()),
        last(d, W.from(2 * n), n, n, steps.batch());
    for (int s = steps.count() - 1; s >= 0 && n; --s) {
      const int64_t at = steps.begin(s), size = steps.size(s);
      each_piece(steps, s, H, H0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
        over_rows(end - begin, 4 * n, [&](int64_t r) {
          const int64_t b = begin + r, i = at + b;
          char* p[5] = {S.row(i), A.row(i), from.row(row + r), DH.row(b), GH.row(i)};
          cell(p, n);
        });
      });
      first.product(size, S.from(at), DH.row(0), n, true);
      last.product(size, S.from(at, 3 * n), DH.row(0), n, true);
    }
  }
  GradMode off(false);
  Tensor result = cast(all, dtype), pair = op<"narrow">(result, 1, 0, 2 * n);
  Tensor product = op<"cat">(Tensors{pair, op<"narrow">(result, 1, 3 * n, n).tensor()}, 1);
  return Tensors{contiguous(op<"narrow">(result, 1, 0, 3 * n)), product, cast(dh, dtype)};
}

// --- tanh and relu -------------------------------------------------------------------------------
Value rnn_forward(Call& c) {
  Steps steps(c.ints(4), c.flag(5));
  check("rnn", steps, c.tensor(0), c.tensor(1), c.tensor(2), 1);
  const DType dtype = c.tensor(0).dtype(), d = row_dtype("rnn", dtype);
  Tensor w = dense(c[1], d), h0 = dense(c[2], d), x = c.tensor(0);
  const int64_t n = h0.size(1);
  Tensor h = empty(x.shape(), d);
  copy_into(h, x);
  Dense W(w), H0(h0), H(h);
  Loop act = row_loop(c.flag(3) ? "relu" : "tanh", d);
  WithoutGil release(h.numel() * n >= kReleaseGil);
  const SharedFactor weight(d, transposed(W.from(0)), n, n, steps.batch());
  for (int s = 0; s < steps.count() && n; ++s) {
    const int64_t at = steps.begin(s);
    each_piece(steps, s, H, H0, [&](int64_t begin, int64_t end, Dense from, int64_t row) {
      weight.product(end - begin, from.from(row), H.row(at + begin), n, true);
    });
    over_rows(steps.size(s), n, [&](int64_t r) {
      char* p[2] = {H.row(at + r), H.row(at + r)};
      act(p, n);
    });
  }
  release.end();
  return cast(h, dtype);
}

// --- batches -------------------------------------------------------------------------------------
// Samples are more sequences of the same lengths, unless they have weights of their own: rows of a step are
// (sequence, sample). `states` are the arguments with a row per sequence, `fixed` those without rows.
Value as_more_sequences(Call& c, const int* axes, std::initializer_list<int> with_rows,
                        std::initializer_list<int> fixed, int sizes) {
  for (int i : fixed) {
    if (axes[i] >= 0) return batch::each_sample(c, axes);
  }
  const int64_t samples = batch::size(c, axes);
  if (samples == 0) return batch::each_sample(c, axes);
  std::vector<Tensor> merged;  // before any of them is put in place: `whole` looks at all of them
  for (int i : with_rows) {
    Tensor t = op<"transpose">(batch::whole(c, axes, i), 0, 1);
    merged.push_back(op<"reshape">(t, Dims{t.size(0) * samples, t.size(2)}));
  }
  for (size_t k = 0; int i : with_rows) c.args[i] = merged[k++];
  Dims longer;
  for (int64_t n : c.ints(sizes)) longer.push_back(n * samples);
  c.args[sizes] = longer;
  Value result = apply(c.op, c.args);
  auto apart = [&](T t) -> Tensor {
    return op<"transpose">(op<"reshape">(t, Dims{t.size(0) / samples, samples, t.size(1)}).tensor(),
                           1, 0);
  };
  if (result.is_tensor()) return apart(result.tensor());
  Tensors out = result.tensors();
  for (Tensor& t : out) t = apart(t);
  return out;
}

Tensor weight_gradient(T sums, T before) { return op<"mm">(op<"t">(sums).tensor(), before); }
Value if_there(C c, int k) { return c.has_grad(k) ? Value(c.grad(k)) : Value(); }
bool with_ops(std::initializer_list<Tensor> tensors) {
  return grad_enabled() || any_transformed(tensors);
}

}  // namespace

static const Op& lstm_ =
    def("_lstm_sequence(x, weight, h, c, sizes: int[], reverse: bool)",
        "An LSTM layer over sequences: hidden states, cell states and gates of every step, from "
        "the "
        "sums of the input and the state before the first step.")
        .forward(lstm_forward)
        .vjp(input(1) | input(2) | input(3) | output(0) | output(1) | output(2),
             [](C c, Tensor* grads) {
               Steps steps(c.in(4).ints(), c.in(5).boolean());
               Tensor w = c.in(1), h0 = c.in(2), c0 = c.in(3), h = c.out(0);
               LstmGradients g;
               if (c.has_grad(2) || with_ops({w, h0, c0, h, c.grad(0), c.grad(1)})) {
                 g = lstm_gradients(steps, c);
               } else {
                 Tensors r = op<"_lstm_sequence_backward">(if_there(c, 0), if_there(c, 1), w, c0,
                                                           c.out(1), c.out(2), c.in(4), c.in(5))
                                 .tensors();
                 g = {r[0], r[1], r[2]};
               }
               if (c.needs(1)) grads[1] = weight_gradient(g.gates, steps.all_before(h, h0));
               grads[0] = g.gates, grads[2] = g.h, grads[3] = g.c;
             })
        .jvp(lstm_tangent)
        .function_only()
        .no_out()
        .batch(
            [](Call& c, const int* axes) { return as_more_sequences(c, axes, {0, 2, 3}, {1}, 4); })
        .results({"h", "c", "gates"});

static const Op& lstm_backward_ =
    def("_lstm_sequence_backward(g_h: Tensor?, g_c: Tensor?, weight, c_initial, c, gates, "
        "sizes: int[], reverse: bool)",
        "The gradients of an LSTM layer's sums and of its initial state.")
        .forward(lstm_backward)
        .internal()
        .batch(batch::each_sample);

static const Op& gru_ =
    def("_gru_sequence(x, weight, bias: Tensor?, h, sizes: int[], reverse: bool)",
        "A GRU layer over sequences: hidden states and gates of every step, from the sums of the "
        "input and the state before the first step.")
        .forward(gru_forward)
        .vjp(input(1) | input(3) | output(0) | output(1),
             [](C c, Tensor* grads) {
               Steps steps(c.in(4).ints(), c.in(5).boolean());
               Tensor w = c.in(1), h0 = c.in(3), h = c.out(0);
               GruGradients g;
               if (c.has_grad(1) || with_ops({w, h0, h, c.grad(0)})) {
                 g = gru_gradients(steps, c);
               } else {
                 Tensors r = op<"_gru_sequence_backward">(if_there(c, 0), w, h0, h, c.out(1),
                                                          c.in(4), c.in(5))
                                 .tensors();
                 g = {r[0], r[1], r[2]};
               }
               if (c.needs(1)) grads[1] = weight_gradient(g.product, steps.all_before(h, h0));
               if (c.needs(2)) grads[2] = op<"sum">(g.product, Dims{0});
               grads[0] = g.gates, grads[3] = g.h;
             })
        .jvp(gru_tangent)
        .function_only()
        .no_out()
        .batch(
            [](Call& c, const int* axes) { return as_more_sequences(c, axes, {0, 3}, {1, 2}, 4); })
        .results({"h", "gates"});

static const Op& gru_backward_ =
    def("_gru_sequence_backward(g_h: Tensor?, weight, h_initial, h, gates, sizes: int[], "
        "reverse: bool)",
        "The gradients of a GRU layer's sums and of its initial state.")
        .forward(gru_backward)
        .internal()
        .batch(batch::each_sample);

static const Op& rnn_ =
    def("_rnn_sequence(x, weight, h, relu: bool, sizes: int[], reverse: bool)",
        "A plain recurrent layer over sequences: tanh (or relu) of the sums of the input and of "
        "the "
        "state, step by step.")
        .forward(rnn_forward)
        .vjp(input(1) | input(2) | output(0),
             [](C c, Tensor* grads) {
               Steps steps(c.in(4).ints(), c.in(5).boolean());
               RnnGradients g = rnn_gradients(steps, c);
               if (c.needs(1))
                 grads[1] = weight_gradient(g.sums, steps.all_before(c.out(0), c.in(2)));
               grads[0] = g.sums, grads[2] = g.h;
             })
        .jvp(rnn_tangent)
        .function_only()
        .no_out()
        .batch([](Call& c, const int* axes) { return as_more_sequences(c, axes, {0, 2}, {1}, 4); })
        .autocast(Autocast::Lower);

}  // namespace adjoint
