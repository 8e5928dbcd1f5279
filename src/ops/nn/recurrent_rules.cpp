// Derivatives of recurrent layers written with ops: what second derivatives, forward mode and transforms
// take. A plain backward pass takes the loops of recurrent.cpp instead.
#include "ops/nn/recurrent.h"

#include "graph/transformed.h"

namespace adjoint {
namespace {

using T = const Tensor&;

Tensor mm(T a, T b) { return op<"mm">(a, b); }
Tensor turned(T w) { return op<"t">(w); }
Tensor plus(T a, T b) { return !a ? b : !b ? a : a + b; }
Tensor gate(T gates, int k, int64_t n) { return op<"narrow">(gates, 1, k * n, n); }
Tensor side_by_side(Tensors parts) { return op<"cat">(std::move(parts), 1); }

// A gradient or a tangent that goes from step to step: rows of sequences that have not begun, or that have
// ended, are kept.
class Carry {
 public:
  explicit Carry(Tensor first) : whole_(std::move(first)) {}
  Tensor rows(int64_t n) const {
    return n == whole_.size(0) ? whole_ : op<"narrow">(whole_, 0, 0, n).tensor();
  }
  void set(T rows) {
    const int64_t n = rows.size(0), all = whole_.size(0);
    whole_ =
        n == all
            ? rows
            : op<"cat">(Tensors{rows, op<"narrow">(whole_, 0, n, all - n).tensor()}, 0).tensor();
  }
  T whole() const { return whole_; }

 private:
  Tensor whole_;
};

Carry zeros_for(const Steps& steps, T like) {
  return Carry(op<"new_zeros">(like, Dims{steps.batch(), like.size(1)}).tensor());
}

}  // namespace

bool any_transformed(std::initializer_list<Tensor> tensors) {
  for (T t : tensors) {
    if (t && (t->flags & kTransformed)) return true;
  }
  return false;
}

Tensor Steps::rows(T t, int s) const { return op<"narrow">(t, 0, begin(s), size(s)); }

Tensor Steps::before(T states, T initial, int s) const {
  const int64_t n = size(s), kept = carried(s);
  if (kept == 0) return n == initial.size(0) ? initial : op<"narrow">(initial, 0, 0, n).tensor();
  Tensor from = op<"narrow">(states, 0, begin(s - 1), kept);
  if (kept == n) return from;
  return op<"cat">(Tensors{from, op<"narrow">(initial, 0, kept, n - kept).tensor()}, 0);
}

Tensor Steps::all_before(T states, T initial) const {
  std::vector<Tensor> parts(count());
  for (int s = 0; s < count(); ++s) parts[s] = before(states, initial, s);
  return joined(std::move(parts));
}

Tensor Steps::joined(std::vector<Tensor> by_step) const {
  if (reverse_) std::reverse(by_step.begin(), by_step.end());
  Tensors list(by_step.size());
  for (size_t k = 0; k < by_step.size(); ++k) list[k] = by_step[k];
  return op<"cat">(std::move(list), 0);
}

// i, f, g, o are the gates: c = f c' + i g and h = o tanh(c).
LstmGradients lstm_gradients(const Steps& steps, Context& c) {
  Tensor w = c.in(1), h0 = c.in(2), c0 = c.in(3), cs = c.out(1), gates = c.out(2);
  Tensor of_h = c.grad(0), of_c = c.grad(1), of_gates = c.has_grad(2) ? c.grad(2) : Tensor();
  const int64_t n = h0.size(1);
  Carry later_h = zeros_for(steps, h0), later_c = zeros_for(steps, c0);
  std::vector<Tensor> sums(steps.count());
  for (int s = steps.count() - 1; s >= 0; --s) {
    const int64_t size = steps.size(s);
    Tensor a = steps.rows(gates, s), i = gate(a, 0, n), f = gate(a, 1, n), g = gate(a, 2, n),
           o = gate(a, 3, n), t = op<"tanh">(steps.rows(cs, s));
    Tensor dh = steps.rows(of_h, s) + later_h.rows(size);
    Tensor dc = steps.rows(of_c, s) + later_c.rows(size) + dh * o * (-(t * t) + 1);
    Tensor di = dc * g, df = dc * steps.before(cs, c0, s), dg = dc * i, dout = dh * t;
    if (of_gates) {
      Tensor own = steps.rows(of_gates, s);
      di = di + gate(own, 0, n), df = df + gate(own, 1, n);
      dg = dg + gate(own, 2, n), dout = dout + gate(own, 3, n);
    }
    sums[s] = side_by_side(
        {di * i * (-i + 1), df * f * (-f + 1), dg * (-(g * g) + 1), dout * o * (-o + 1)});
    later_c.set(dc * f);
    later_h.set(mm(sums[s], w));
  }
  return {steps.joined(std::move(sums)), later_h.whole(), later_c.whole()};
}

Value lstm_tangent(Context& c, const Tensor* t) {
  Steps steps(c.in(4).ints(), c.in(5).boolean());
  Tensor w = c.in(1), h0 = c.in(2), c0 = c.in(3), hs = c.out(0), cs = c.out(1), gates = c.out(2);
  const int64_t n = h0.size(1);
  Carry h = t[2] ? Carry(t[2]) : zeros_for(steps, h0),
        cell = t[3] ? Carry(t[3]) : zeros_for(steps, c0);
  std::vector<Tensor> dhs(steps.count()), dcs(steps.count()), das(steps.count());
  for (int s = 0; s < steps.count(); ++s) {
    const int64_t size = steps.size(s);
    Tensor sum = mm(h.rows(size), turned(w));
    if (t[0]) sum = sum + steps.rows(t[0], s);
    if (t[1]) sum = sum + mm(steps.before(hs, h0, s), turned(t[1]));
    Tensor a = steps.rows(gates, s), i = gate(a, 0, n), f = gate(a, 1, n), g = gate(a, 2, n),
           o = gate(a, 3, n), th = op<"tanh">(steps.rows(cs, s));
    Tensor di = gate(sum, 0, n) * i * (-i + 1), df = gate(sum, 1, n) * f * (-f + 1),
           dg = gate(sum, 2, n) * (-(g * g) + 1), dout = gate(sum, 3, n) * o * (-o + 1);
    dcs[s] = df * steps.before(cs, c0, s) + f * cell.rows(size) + di * g + i * dg;
    dhs[s] = dout * th + o * (-(th * th) + 1) * dcs[s];
    das[s] = side_by_side({di, df, dg, dout});
    h.set(dhs[s]);
    cell.set(dcs[s]);
  }
  return Tensors{steps.joined(dhs), steps.joined(dcs), steps.joined(das)};
}

// r, z, m and q = W_n h' + b_n are the gates: m = tanh(x_n + r q) and h = m + z (h' - m).
GruGradients gru_gradients(const Steps& steps, Context& c) {
  Tensor w = c.in(1), h0 = c.in(3), hs = c.out(0), gates = c.out(1);
  Tensor of_h = c.grad(0), of_gates = c.has_grad(1) ? c.grad(1) : Tensor();
  const int64_t n = h0.size(1);
  Carry later = zeros_for(steps, h0);
  std::vector<Tensor> sums(steps.count()), products(steps.count());
  for (int s = steps.count() - 1; s >= 0; --s) {
    Tensor a = steps.rows(gates, s), r = gate(a, 0, n), z = gate(a, 1, n), m = gate(a, 2, n),
           q = gate(a, 3, n), before = steps.before(hs, h0, s);
    Tensor dh = steps.rows(of_h, s) + later.rows(steps.size(s));
    Tensor dm = dh * (-z + 1), dz = dh * (before - m), dq, dr;
    if (of_gates) {
      Tensor own = steps.rows(of_gates, s);
      dm = dm + gate(own, 2, n), dz = dz + gate(own, 1, n);
      dr = gate(own, 0, n), dq = gate(own, 3, n);
    }
    Tensor x = dm * (-(m * m) + 1);
    dq = plus(dq, x * r);
    Tensor pair = side_by_side({plus(dr, x * q) * r * (-r + 1), dz * z * (-z + 1)});
    sums[s] = side_by_side({pair, x});
    products[s] = side_by_side({pair, dq});
    later.set(dh * z + mm(products[s], w));
  }
  return {steps.joined(std::move(sums)), steps.joined(std::move(products)), later.whole()};
}

Value gru_tangent(Context& c, const Tensor* t) {
  Steps steps(c.in(4).ints(), c.in(5).boolean());
  Tensor w = c.in(1), h0 = c.in(3), hs = c.out(0), gates = c.out(1);
  const int64_t n = h0.size(1);
  Carry h = t[3] ? Carry(t[3]) : zeros_for(steps, h0);
  std::vector<Tensor> dhs(steps.count()), das(steps.count());
  for (int s = 0; s < steps.count(); ++s) {
    const int64_t size = steps.size(s);
    Tensor before = steps.before(hs, h0, s), product = mm(h.rows(size), turned(w));
    if (t[1]) product = product + mm(before, turned(t[1]));
    if (t[2]) product = product + t[2];
    Tensor pair = op<"narrow">(product, 1, 0, 2 * n), dq = gate(product, 2, n), x;
    if (t[0]) {
      Tensor own = steps.rows(t[0], s);
      pair = pair + op<"narrow">(own, 1, 0, 2 * n).tensor();
      x = gate(own, 2, n);
    }
    Tensor a = steps.rows(gates, s), r = gate(a, 0, n), z = gate(a, 1, n), m = gate(a, 2, n),
           q = gate(a, 3, n);
    Tensor dr = gate(pair, 0, n) * r * (-r + 1), dz = gate(pair, 1, n) * z * (-z + 1);
    Tensor dm = plus(x, dr * q + r * dq) * (-(m * m) + 1);
    dhs[s] = dm * (-z + 1) + dz * (before - m) + z * h.rows(size);
    das[s] = side_by_side({dr, dz, dm, dq});
    h.set(dhs[s]);
  }
  return Tensors{steps.joined(dhs), steps.joined(das)};
}

namespace {
// g times the derivative of tanh or relu, from its result.
Tensor times_slope(T g, T y, bool relu) {
  return relu ? op<"_relu_grad">(g, y).tensor() : g * (-(y * y) + 1);
}
}  // namespace

RnnGradients rnn_gradients(const Steps& steps, Context& c) {
  Tensor w = c.in(1), h0 = c.in(2), hs = c.out(0), of_h = c.grad(0);
  Carry later = zeros_for(steps, h0);
  std::vector<Tensor> sums(steps.count());
  for (int s = steps.count() - 1; s >= 0; --s) {
    Tensor dh = steps.rows(of_h, s) + later.rows(steps.size(s));
    sums[s] = times_slope(dh, steps.rows(hs, s), c.in(3).boolean());
    later.set(mm(sums[s], w));
  }
  return {steps.joined(std::move(sums)), later.whole()};
}

Value rnn_tangent(Context& c, const Tensor* t) {
  Steps steps(c.in(4).ints(), c.in(5).boolean());
  Tensor w = c.in(1), h0 = c.in(2), hs = c.out(0);
  Carry h = t[2] ? Carry(t[2]) : zeros_for(steps, h0);
  std::vector<Tensor> dhs(steps.count());
  for (int s = 0; s < steps.count(); ++s) {
    Tensor sum = mm(h.rows(steps.size(s)), turned(w));
    if (t[0]) sum = sum + steps.rows(t[0], s);
    if (t[1]) sum = sum + mm(steps.before(hs, h0, s), turned(t[1]));
    dhs[s] = times_slope(sum, steps.rows(hs, s), c.in(3).boolean());
    h.set(dhs[s]);
  }
  return steps.joined(dhs);
}

}  // namespace adjoint
