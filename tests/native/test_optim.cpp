// The optimizers' loops: every element once, whatever the size and the number of threads; in turn where
// memory is shared; NaN is kept. Values are such that nothing is rounded: what rounds, and how, is
// compared with PyTorch by tests/unit/optim. ADJOINT_ISA=base|v3|v4 chooses what is tested.
#include <cmath>
#include <vector>

#include "kernels/optim/formulas.h"
#include "parallel/pool.h"
#include "check.h"

using namespace adjoint;
using optim::Arrays;
using optim::Step;

namespace {

constexpr int kSgd = 0, kAdam = 1;  // as `Rules` lists them

template <class T>
struct State {
  std::vector<T> p, g, m, v, top;
  explicit State(size_t n) : p(n), g(n), m(n), v(n), top(n) {
    for (size_t i = 0; i < n; ++i) {
      p[i] = T(i % 64) / 8, g[i] = T(int(i % 16) - 8), m[i] = T(i % 8) / 4;
      v[i] = T(i % 4), top[i] = T(i % 5);
    }
  }
  Arrays arrays(int columns) {
    Arrays a;
    void* all[] = {p.data(), g.data(), m.data(), v.data(), top.data()};
    for (int k = 0; k < columns; ++k) a.columns[k] = all[k];
    a.n = int64_t(p.size());
    a.dtype = dtype_of<T>::value;
    return a;
  }
};

// sign, decay, momentum, fresh, down
Step sgd(unsigned choice) { return {kSgd, choice, {1, 0.25, 0.5, 0.5, -0.5}}; }
// sign, decay, keep, mix, beta2, fresh, scale, eps, down
Step adam(unsigned choice) { return {kAdam, choice, {1, 0, 1, 0.5, 0.5, 0.5, 1, 1, -0.5}}; }

template <class T>
void sgd_element(State<T>& s, size_t i, unsigned choice) {
  T grad = s.g[i];
  if (choice & optim::Sgd::kDecay) grad += T(0.25) * s.p[i];
  if (choice & optim::Sgd::kVelocity) {
    s.m[i] = choice & optim::Sgd::kFirst ? grad : T(0.5) * s.m[i] + T(0.5) * grad;
    grad = choice & optim::Sgd::kNesterov ? grad + T(0.5) * s.m[i] : s.m[i];
  }
  s.p[i] -= T(0.5) * grad;
}

// Sizes around the vector widths, and one that is handed out in chunks.
const size_t kSizes[] = {1, 3, 15, 16, 17, 67, 100'003};

template <class T>
void sgd_follows_the_formula() {
  for (size_t n : kSizes) {
    for (unsigned choice = 0; choice < optim::Sgd::kChoices; ++choice) {
      if (!optim::Sgd::valid(choice)) continue;
      State<T> got(n), want(n);
      optim::run_step({got.arrays(choice & optim::Sgd::kVelocity ? 3 : 2)}, sgd(choice));
      for (size_t i = 0; i < n; ++i) sgd_element(want, i, choice);
      CHECK(got.p == want.p && got.m == want.m);
    }
  }
}

void chunks_change_nothing() {
  State<float> one(200'001), two(200'001);
  parallel::set_num_threads(1);
  optim::run_step({one.arrays(5)}, adam(optim::Adam::kLargest));
  parallel::set_num_threads(4);
  optim::run_step({two.arrays(5)}, adam(optim::Adam::kLargest));
  CHECK(one.p == two.p && one.m == two.m && one.v == two.v && one.top == two.top);
  CHECK(one.p != State<float>(200'001).p);
}

void a_parameter_listed_twice_is_stepped_twice() {
  State<float> got(50'000), want(50'000);
  const Arrays a = got.arrays(2);
  optim::run_step({a, a}, sgd(0));
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; i < 50'000; ++i) sgd_element(want, i, 0);
  CHECK(got.p == want.p);
}

void nan_stays_in_the_running_maximum() {
  State<float> s(2);
  s.top = {NAN, 1.0f};
  s.g = {1.0f, NAN};
  optim::run_step({s.arrays(5)}, adam(optim::Adam::kLargest));
  CHECK(std::isnan(s.top[0]) && std::isnan(s.top[1]));
  CHECK(std::isnan(s.p[0]) && std::isnan(s.p[1]));
}

}  // namespace

int main() {
  sgd_follows_the_formula<float>();
  sgd_follows_the_formula<double>();
  chunks_change_nothing();
  a_parameter_listed_twice_is_stepped_twice();
  nan_stays_in_the_running_maximum();
  return report("optim");
}
