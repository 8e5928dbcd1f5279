// The optimizers' loops against the formulas of kernels/optim/optim.h written out for one element, in the
// same precision: equal to the last bit, in chunks or not, and in turn where memory is shared.
// ADJOINT_ISA=base|v3|v4 chooses what is tested.
#include <cmath>
#include <vector>

#include "kernels/optim/optim.h"
#include "parallel/pool.h"
#include "check.h"

using namespace adjoint;
using optim::AdamOptions;
using optim::Arrays;
using optim::SgdOptions;

namespace {

template <class T>
struct State {
  std::vector<T> p, g, m, v, top;
  explicit State(size_t n) : p(n), g(n), m(n), v(n), top(n) {
    for (size_t i = 0; i < n; ++i) {
      p[i] = T(std::sin(0.7 * i)), g[i] = T(std::cos(1.3 * i)), m[i] = T(std::sin(2.1 * i) / 3);
      v[i] = T(std::fabs(std::sin(0.3 * i))), top[i] = T(std::fabs(std::cos(0.3 * i)));
    }
  }
  Arrays arrays(bool momentum, bool adam, bool largest) {
    return {p.data(),
            g.data(),
            momentum ? m.data() : nullptr,
            adam ? v.data() : nullptr,
            largest ? top.data() : nullptr,
            int64_t(p.size()),
            dtype_of<T>::value,
            3};
  }
};

// Each product and sum is rounded by itself, whatever the compiler would like to fuse.
template <class T>
T rounded(T x) {
  volatile T kept = x;
  return kept;
}

template <class T>
void sgd_element(State<T>& s, size_t i, const SgdOptions& o, bool momentum) {
  T grad = o.maximize ? -s.g[i] : s.g[i];
  if (o.weight_decay != 0) grad += rounded(T(o.weight_decay) * s.p[i]);
  T move = grad;
  if (momentum) {
    const T kept = rounded(T(o.momentum) * s.m[i]), fresh = rounded(T(1 - o.dampening) * grad);
    s.m[i] = o.first ? grad : kept + fresh;
    move = o.nesterov ? grad + rounded(T(o.momentum) * s.m[i]) : s.m[i];
  }
  s.p[i] += rounded(T(-o.lr) * move);
}

template <class T>
void adam_element(State<T>& s, size_t i, const AdamOptions& o, bool largest) {
  T grad = o.maximize ? -s.g[i] : s.g[i];
  if (o.weight_decay != 0 && o.decoupled) s.p[i] = rounded(s.p[i] * T(1 - o.lr * o.weight_decay));
  if (o.weight_decay != 0 && !o.decoupled) grad += rounded(T(o.weight_decay) * s.p[i]);
  const T span = rounded(grad - s.m[i]);
  const bool near = T(1 - o.beta1) < T(0.5);
  s.m[i] = near ? s.m[i] + rounded(T(1 - o.beta1) * span) : grad - rounded(span * T(o.beta1));
  const T kept = rounded(T(o.beta2) * s.v[i]);
  s.v[i] = kept + rounded(rounded(T(1 - o.beta2) * grad) * grad);
  T square = s.v[i];
  if (largest) square = s.top[i] = std::fmax(s.top[i], square);
  const T root = rounded(std::sqrt(square) / T(std::sqrt(1 - std::pow(o.beta2, 3))));
  const T down = rounded(T(-(o.lr / (1 - std::pow(o.beta1, 3)))) * s.m[i]);
  s.p[i] += rounded(down / (root + T(o.eps)));
}

template <class T>
bool same(const State<T>& a, const State<T>& b) {
  return a.p == b.p && a.m == b.m && a.v == b.v && a.top == b.top;
}

// Sizes around the vector widths, and one that is handed out in chunks.
const size_t kSizes[] = {1, 3, 15, 16, 17, 67, 100'003};

template <class T>
void sgd_follows_the_formula() {
  for (size_t n : kSizes) {
    for (int bits = 0; bits < 32; ++bits) {
      const bool momentum = bits & 1;
      const SgdOptions o = {0.1,
                            momentum ? 0.9 : 0.0,
                            0.2,
                            bits & 2 ? 0.01 : 0.0,
                            (bits & 4) != 0,
                            (bits & 8) != 0,
                            (bits & 16) != 0};
      State<T> got(n), want(n);
      optim::sgd_step({got.arrays(momentum, false, false)}, o);
      for (size_t i = 0; i < n; ++i) sgd_element(want, i, o, momentum);
      CHECK(same(got, want));
    }
  }
}

template <class T>
void adam_follows_the_formula() {
  for (size_t n : kSizes) {
    for (int bits = 0; bits < 32; ++bits) {
      const bool largest = bits & 1;
      const AdamOptions o = {0.1,
                             bits & 2 ? 0.9 : 0.3,
                             0.99,
                             1e-8,
                             bits & 4 ? 0.01 : 0.0,
                             (bits & 8) != 0,
                             (bits & 16) != 0};
      State<T> got(n), want(n);
      optim::adam_step({got.arrays(true, true, largest)}, o);
      for (size_t i = 0; i < n; ++i) adam_element(want, i, o, largest);
      CHECK(same(got, want));
    }
  }
}

void chunks_change_nothing() {
  const AdamOptions o = {0.1, 0.9, 0.99, 1e-8};
  State<float> one(200'001), two(200'001);
  parallel::set_num_threads(1);
  optim::adam_step({one.arrays(true, true, true)}, o);
  parallel::set_num_threads(4);
  optim::adam_step({two.arrays(true, true, true)}, o);
  CHECK(same(one, two));
}

void a_parameter_listed_twice_is_stepped_twice() {
  const SgdOptions o = {0.1};
  State<float> got(50'000), want(50'000);
  const Arrays a = got.arrays(false, false, false);
  optim::sgd_step({a, a}, o);
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; i < 50'000; ++i) sgd_element(want, i, o, false);
  CHECK(same(got, want));
}

void nan_stays_in_the_running_maximum() {
  State<float> s(2);
  s.top = {NAN, 1.0f};
  s.g = {1.0f, NAN};
  optim::adam_step({s.arrays(true, true, true)}, {0.1, 0.9, 0.99, 1e-8});
  CHECK(std::isnan(s.top[0]) && std::isnan(s.top[1]));
  CHECK(std::isnan(s.p[0]) && std::isnan(s.p[1]));
}

}  // namespace

int main() {
  sgd_follows_the_formula<float>();
  sgd_follows_the_formula<double>();
  adam_follows_the_formula<float>();
  adam_follows_the_formula<double>();
  chunks_change_nothing();
  a_parameter_listed_twice_is_stepped_twice();
  nan_stays_in_the_running_maximum();
  return report("optim");
}
