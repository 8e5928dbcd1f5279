// exp, sin and cos as formulas over lanes (lanes.h): those of kernels/isa/math, with every fused
// product where the compiler has put one. Arguments beyond what they are good for go to the
// library's loop. Where a guess were wrong, formulas.cpp would find out and the loop be called for all.
#pragma once
#include <array>

#include "dispatch/elementwise_forward.h"
#include "kernels/kernel_pair.h"
#include "program/native/lanes.h"

namespace adjoint::native {

// The library's own loop for a dtype of lanes.
inline Loop loop_of(const Kernel& k, bool narrow) {
  return k.loop[static_cast<int>(narrow ? DType::Float32 : DType::Float64)];
}

// c[from] + c[from + 1] x + ... + c[to - 1], by Estrin's rule; `powers` are x, x^2, x^4, x^8.
template <class B>
typename B::V poly_part(B& l, const typename B::V* powers, const double* c, int from, int to) {
  int n = to - from;
  if (n == 1) return l.number(c[from]);
  if (n == 2) return l.mul_add(powers[0], l.number(c[from + 1]), l.number(c[from]));
  int level = n > 8 ? 3 : n > 4 ? 2 : 1;
  int middle = from + (1 << level);
  auto high = poly_part(l, powers, c, middle, to);
  return l.mul_add(high, powers[level], poly_part(l, powers, c, from, middle));
}
template <class B>
typename B::V poly(B& l, typename B::V x, std::initializer_list<double> c) {
  int n = static_cast<int>(c.size());
  typename B::V powers[4] = {x, x, x, x};
  for (int k = 1; k < 4 && (1 << k) < n; ++k) powers[k] = l.mul(powers[k - 1], powers[k - 1]);
  return poly_part(l, powers, c.begin(), 0, n);
}

template <class B>
typename B::V magic_number(B& l) {
  return l.number(l.narrow ? 0x1.8p23 : 0x1.8p52);
}

template <class B>
typename B::V exp(B& l, typename B::V x) {
  using V = typename B::V;
  const V magic = magic_number(l);
  const V hi = l.number(l.narrow ? 0.693359375f : 6.93147180369123816490e-01);
  const V lo = l.number(l.narrow ? -2.12194440e-4f : 1.90821492927058770002e-10);
  V t = l.mul_add(x, l.number(1.44269504088896340736), magic);
  V n = l.sub(t, magic);
  V r_hi = l.sub_mul(x, n, hi);
  V r = l.sub_mul(r_hi, n, lo);
  V rest = l.sub_mul(l.sub(r_hi, r), n, lo);
  V p =
      l.narrow
          ? poly(l, r, {0.49999994f, 0.166665167f, 0.0416681059f, 0.00836913101f, 0.00138364243f})
          : poly(l, r,
                 {0.500000000000001, 0.1666666666666542, 0.04166666666654792, 0.008333333334200839,
                  0.001388888893883193, 0.00019841267928290233, 2.480149729304832e-05,
                  2.755899695153809e-06, 2.7629101543614417e-07, 2.4559663354439697e-08});
  V q = l.add(l.mul_add(l.mul(r, r), p, rest), r);
  V scaled =
      l.from_bits(l.plus(l.bits(l.add(l.number(1), q)), l.shifted(l.bits(t), l.narrow ? 23 : 52)));
  V results[1] = {scaled};
  l.by_loop_where(l.beyond(l.abs(x), l.narrow ? 87.0 : 708.0),
                  loop_of(kernel_named("exp"), l.narrow), x, results);
  return results[0];
}

// |x| = n pi/2 + r + rest.
template <class B>
struct Reduced {
  typename B::V r, rest;
  typename B::I n;
};
template <class B>
Reduced<B> reduced(B& l, typename B::V a) {
  using V = typename B::V;
  const V magic = magic_number(l);
  V t = l.mul_add(a, l.number(l.narrow ? 0.636619772f : 0.63661977236758134308), magic);
  V n = l.sub(t, magic);
  if (l.narrow) {  // with fused products only
    V second = l.number(-0x1.777a5cp-25f);
    V r1 = l.fma(l.neg(n), l.number(0x1.921fb6p+0f), a);
    V hi = l.mul(n, second), lo = l.fma(n, second, l.neg(hi));
    V r = l.sub(r1, hi);
    V rest = l.sub(l.sub(l.sub(r1, r), hi), l.mul_add(n, l.number(-0x1.ee59dap-50f), lo));
    return {r, rest, l.bits(t)};
  }
  V r1 = l.sub_mul(a, n, l.number(1.57079632673412561417e+00));
  V second = l.number(6.07710050630396597660e-11), third = l.number(2.02226624871116645580e-21);
  V r2 = l.sub_mul(r1, n, second);
  V e2 = l.sub_mul(l.sub(r1, r2), n, second);
  V r3 = l.sub_mul(r2, n, third);
  V e3 = l.sub_mul(l.sub(r2, r3), n, third);
  V lo = l.add(l.sub_mul(e3, n, l.number(8.47842766036889956997e-32)), e2);
  V r = l.add(r3, lo);
  return {r, l.add(l.sub(r3, r), lo), l.bits(t)};
}

template <class B>
typename B::V sin_near_zero(B& l, const Reduced<B>& a, typename B::V z) {
  auto p = l.narrow
               ? poly(l, z, {-0.166666552f, 0.0083321901f, -0.000195184053f})
               : poly(l, z,
                      {-0.16666666666666632, 0.008333333333322455, -0.00019841269829813413,
                       2.7557313687569823e-06, -2.5050756713397508e-08, 1.589668176457781e-10});
  return l.add(a.r, l.mul_add(l.mul(a.r, z), p, a.rest));
}
template <class B>
typename B::V cos_near_zero(B& l, const Reduced<B>& a, typename B::V z) {
  using V = typename B::V;
  V p = l.narrow ? poly(l, z, {0.0416666456f, -0.00138873095f, 2.44323273e-5f})
                 : poly(l, z,
                        {0.041666666666666595, -0.0013888888888873307, 2.4801587288965227e-05,
                         -2.7557314203077084e-07, 2.087570313900495e-09, -1.1358616962356878e-11});
  V half = l.mul(l.number(0.5), z), one = l.number(1);
  V w = l.sub(one, half);
  V product = l.mul(a.r, a.rest);
  V z2 = l.mul(z, z);
  V last = l.fused() ? l.fma(z2, p, l.neg(product)) : l.sub(l.mul(z2, p), product);
  return l.add(w, l.add(l.sub(l.sub(one, w), half), last));
}

// sin and cos of |x| before the library is asked; the sign of sin is that of x.
template <class B>
std::array<typename B::V, 2> both_near(B& l, typename B::V x, bool want_sin, bool want_cos) {
  using V = typename B::V;
  using I = typename B::I;
  auto a = reduced(l, l.abs(x));
  V z = l.mul(a.r, a.r);
  V near_zero = sin_near_zero(l, a, z), near_quarter = cos_near_zero(l, a, z);
  auto odd = l.nonzero(l.bit_and(a.n, l.word(1)));
  const int quarter = l.narrow ? 30 : 62;  // bit 1 of n becomes the sign
  I turn = l.shifted(a.n, quarter), sign = l.word(l.narrow ? INT32_MIN : INT64_MIN);
  auto flipped = [&](V v, I by) { return l.from_bits(l.bit_xor(l.bits(v), l.bit_and(by, sign))); };
  std::array<V, 2> found = {x, x};
  if (want_sin)
    found[0] = flipped(l.choose(odd, near_quarter, near_zero), l.bit_xor(turn, l.bits(x)));
  // A quarter further: the other of the two values, and the sign of n + 1.
  if (want_cos)
    found[1] = flipped(l.choose(odd, near_zero, near_quarter),
                       l.plus(turn, l.word(int64_t{1} << quarter)));
  return found;
}
template <class B>
typename B::M beyond_reduction(B& l, typename B::V x) {
  return l.beyond(l.abs(x), l.narrow ? 30000.0 : 1.0e6);
}

template <class B>
typename B::V sin(B& l, typename B::V x) {
  typename B::V results[1] = {both_near(l, x, true, false)[0]};
  l.by_loop_where(beyond_reduction(l, x), loop_of(kernel_named("sin"), l.narrow), x, results);
  return results[0];
}
template <class B>
typename B::V cos(B& l, typename B::V x) {
  typename B::V results[1] = {both_near(l, x, false, true)[1]};
  l.by_loop_where(beyond_reduction(l, x), loop_of(kernel_named("cos"), l.narrow), x, results);
  return results[0];
}
inline Loop loop_of_sin_and_cos(DType d) {
  int count;
  const KernelPair* pairs = kernel_pairs(&count);
  for (int k = 0; k < count; ++k) {
    if (pairs[k].first == &kernel_named("sin")) return pairs[k].loop[static_cast<int>(d)];
  }
  return nullptr;
}
template <class B>
std::array<typename B::V, 2> sin_and_cos(B& l, typename B::V x) {
  auto near = both_near(l, x, true, true);
  typename B::V results[2] = {near[0], near[1]};
  l.by_loop_where(beyond_reduction(l, x),
                  loop_of_sin_and_cos(l.narrow ? DType::Float32 : DType::Float64), x, results);
  return {results[0], results[1]};
}

}  // namespace adjoint::native
