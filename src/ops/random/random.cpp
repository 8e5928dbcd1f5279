// Random tensors: the streams of ../random/ as ops.
//
// An op that fills in place (`uniform_`, `normal_` ...) is recorded like any change in place, with
// a gradient of zero: the values it replaces no longer matter. Read random/distributions.h
// first.
#include <cmath>

#include "dispatch/overlap.h"
#include "kernels/convert.h"
#include "ops/creation/options.h"
#include "python/gil.h"
#include "random/distributions.h"

namespace adjoint {

// The generator a call names, or the default one. Defined in the bindings.
random::Generator& generator_of(const Value& v);

namespace {

using random::Generator;
using C = Context&;
using T = const Tensor&;

Tensor zero_gradient(T g, C) { return zeros(g.shape(), g.dtype()); }
// What is drawn does not move with its parameters.
Value no_tangent(C, const Tensor*) { return {}; }
Value zero_tangent(C c, const Tensor*) { return op<"zeros_like">(c.out()); }

// The distributions know nothing of Python's exception classes.
template <class F>
void drawing(int64_t n, F draw) {
  try {
    WithoutGil release(n >= kReleaseGil);
    draw();
  } catch (const random::unsupported_dtype& e) {
    not_implemented(e.what());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& e) {
    runtime_error(e.what());
  }
}

// Calls draw(memory, n, contiguous) so that the tensor's memory is filled in the order in which it
// lies: Note [Strided destinations] in random/distributions.h.
template <class F>
Tensor filled(const Tensor& t, F draw) {
  int64_t n = t.numel();
  if (t.contiguous()) {
    drawing(n, [&, p = t->data] { draw(p, n, true); });
    return t;
  }
  int order[kMaxDims];
  for (int i = 0; i < t.ndim(); ++i) order[i] = i;
  std::stable_sort(order, order + t.ndim(),
                   [&](int a, int b) { return t.stride(a) > t.stride(b); });
  Dims shape(t.ndim()), strides(t.ndim());
  for (int i = 0; i < t.ndim(); ++i) {
    shape[i] = t.size(order[i]);
    strides[i] = t.stride(order[i]);
  }
  Tensor drawn = empty(shape, t.dtype());
  drawing(n, [&, p = drawn->data] { draw(p, n, false); });
  copy_into(on_storage(t->storage, shape, strides, t.offset(), t.dtype()), drawn);
  return t;
}

Tensor uniform(Generator& g, const Tensor& t, double from, double to) {
  return filled(
      t, [&, d = t.dtype()](void* p, int64_t n, bool) { random::uniform(g, d, p, n, from, to); });
}
Tensor normal(Generator& g, const Tensor& t, double mean, double std) {
  return filled(t, [&, d = t.dtype()](void* p, int64_t n, bool contiguous) {
    random::normal(g, d, p, n, mean, std, contiguous);
  });
}
Tensor integers(Generator& g, const Tensor& t, int64_t low, std::optional<int64_t> high) {
  return filled(t, [&, d = t.dtype()](void* p, int64_t n, bool) {
    if (!is_wide_unsigned(d)) return random::random_from_to(g, d, p, n, low, high);
    const int64_t largest = d == DType::UInt64 ? INT64_MAX : (int64_t{1} << 8 * item_size(d)) - 1;
    const int64_t end = high ? *high : largest + int64_t{largest < INT64_MAX};
    if (low < 0 || (end > low && end - 1 > largest))
      runtime_error("from or to - 1 is out of bounds for ", d, ": random_ got ", low, " and ", end);
    // The stream is that of any integer: 32 bits each where the range has no more.
    std::vector<int64_t> drawn(n);
    random::random_from_to(g, DType::Int64, drawn.data(), n, low, end);
    copy_run(static_cast<char*>(p), static_cast<int64_t>(item_size(d)), d,
             reinterpret_cast<const char*>(drawn.data()), sizeof(int64_t), DType::Int64, n);
  });
}
Tensor bernoulli(Generator& g, const Tensor& t, double p) {
  if (!(p >= 0 && p <= 1)) runtime_error("bernoulli_ expects p to be in [0, 1], but got p=", p);
  return filled(
      t, [&, d = t.dtype()](void* out, int64_t n, bool) { random::bernoulli(g, d, out, n, p); });
}

// One probability per element, drawn in the order of the destination's memory.
Tensor bernoulli(Generator& g, const Tensor& t, const Tensor& p) {
  if (!is_floating(p.dtype()))
    not_implemented("\"bernoulli_tensor_cpu_p_\" not implemented for '", p.dtype(), "'");
  Dims shape = broadcast_shapes(t.shape(), p.shape());
  if (!(Span(shape) == t.shape())) {
    runtime_error("output with shape ", t.shape(), " doesn't match the broadcast shape ", shape);
  }
  Dims spread(t.ndim(), 0);
  int lead = t.ndim() - p.ndim();
  for (int i = 0; i < p.ndim(); ++i) spread[lead + i] = p.size(i) == 1 ? 0 : p.stride(i);
  Tensor wide = on_storage(p->storage, t.shape(), spread, p.offset(), p.dtype());
  int order[kMaxDims];
  for (int i = 0; i < t.ndim(); ++i) order[i] = i;
  std::stable_sort(order, order + t.ndim(),
                   [&](int a, int b) { return t.stride(a) > t.stride(b); });
  Dims by_memory(t.ndim()), p_strides(t.ndim());
  for (int i = 0; i < t.ndim(); ++i) {
    by_memory[i] = t.size(order[i]);
    p_strides[i] = wide.stride(order[i]);
  }
  Tensor ordered =
      contiguous(apart(on_storage(p->storage, by_memory, p_strides, p.offset(), p.dtype()), t));
  return filled(t, [&, d = t.dtype(), pd = p.dtype(), q = ordered->data](
                       void* out, int64_t n, bool) { random::bernoulli(g, d, out, n, pd, q); });
}

// Where rand and randn draw: in the memory of `out=` where it fits, in its order, as PyTorch does.
Tensor destination(Call& c, const Dims& shape, DType dtype) {
  bool fits = c.out && c.out.dtype() == dtype && Span(shape) == c.out.shape();
  return fits ? c.out : empty(shape, dtype);
}

// Every op of this file draws; most for all samples of a vmap at once.
Block def_random(const char* schema, const char* doc) {
  return def(schema, doc).draws(Draws::Batch);
}

}  // namespace

#define RANDOM_OPTIONS "*, generator: any? = None, " RANDOM_TAIL
#define RANDOM_TAIL                                                  \
  "dtype: dtype? = None, layout: any? = None, device: any? = None, " \
  "requires_grad: bool = False, pin_memory: bool? = False)"
#define RANDOM_LIKE_OPTIONS                                                                     \
  "*, generator: any? = None, dtype: dtype? = None, layout: any? = None, device: any? = None, " \
  "requires_grad: bool = False, pin_memory: bool? = False, memory_format: any? = None)"

static const Op& rand_ =
    def_random("rand(size: int[*], " RANDOM_OPTIONS, "Numbers drawn uniformly from [0, 1).")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          Tensor t = destination(c, c.ints(0), options.dtype(default_dtype()));
          return options.finish(uniform(generator_of(c[1]), t, 0, 1));
        })
        .function_only()
        .fills_out();
static const Op& randn_ =
    def_random("randn(size: int[*], " RANDOM_OPTIONS,
               "Numbers drawn from the normal distribution of mean 0 and variance 1.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          Tensor t = destination(c, c.ints(0), options.dtype(default_dtype()));
          return options.finish(normal(generator_of(c[1]), t, 0, 1));
        })
        .function_only()
        .fills_out();

static const Op& randint_ =
    def_random("randint(high: int, size: int[], " RANDOM_OPTIONS,
               "Integers drawn uniformly from [0, high).")
        .forward([](Call& c) -> Value {
          Options options(c, 3);
          Tensor t = destination(c, c.ints(1), options.dtype(DType::Int64));
          return options.finish(integers(generator_of(c[2]), t, 0, c.integer(0)));
        })
        .function_only()
        .fills_out()
        .to_any_dtype();
static const Op& randint_low_ =
    def_random("randint.low(low: int, high: int, size: int[], " RANDOM_OPTIONS,
               "Integers drawn uniformly from [low, high).")
        .forward([](Call& c) -> Value {
          Options options(c, 4);
          Tensor t = destination(c, c.ints(2), options.dtype(DType::Int64));
          return options.finish(integers(generator_of(c[3]), t, c.integer(0), c.integer(1)));
        })
        .function_only()
        .fills_out()
        .to_any_dtype();

static const Op& randperm_ =
    def_random("randperm(n: int, " RANDOM_OPTIONS, "A random permutation of 0 ... n - 1.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          int64_t n = c.integer(0);
          if (n < 0) runtime_error("n must be non-negative, got ", n);
          Tensor t = empty(Dims{n}, options.dtype(DType::Int64));
          Generator& g = generator_of(c[1]);
          drawing(n, [&, p = t->data, d = t.dtype()] { random::randperm(g, d, p, n); });
          return options.finish(t);
        })
        .function_only()
        .draws(Draws::Sample);

static const Op& rand_like_ =
    def_random("rand_like(input, " RANDOM_LIKE_OPTIONS,
               "Numbers drawn uniformly from [0, 1), in a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          Tensor t = options.like(c.tensor(0));
          return options.finish(uniform(generator_of(c[1]), t, 0, 1));
        })
        .function_only()
        .no_out()
        .draws(Draws::Like);
static const Op& randn_like_ =
    def_random("randn_like(input, " RANDOM_LIKE_OPTIONS,
               "Numbers drawn from the standard normal distribution, in a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          Tensor t = options.like(c.tensor(0));
          return options.finish(normal(generator_of(c[1]), t, 0, 1));
        })
        .function_only()
        .no_out()
        .draws(Draws::Like);
static const Op& randint_like_ =
    def_random("randint_like(input, high: int, " RANDOM_LIKE_OPTIONS,
               "Integers drawn uniformly from [0, high), in a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Options options(c, 3);
          Tensor t = options.like(c.tensor(0));
          return options.finish(integers(generator_of(c[2]), t, 0, c.integer(1)));
        })
        .function_only()
        .no_out()
        .draws(Draws::Like)
        .to_any_dtype();
static const Op& randint_like_low_ =
    def_random("randint_like.low(input, low: int, high: int, " RANDOM_LIKE_OPTIONS,
               "Integers drawn uniformly from [low, high), in a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Options options(c, 4);
          Tensor t = options.like(c.tensor(0));
          return options.finish(integers(generator_of(c[3]), t, c.integer(1), c.integer(2)));
        })
        .function_only()
        .no_out()
        .draws(Draws::Like)
        .to_any_dtype();

// --- normals with parameters of their own --------------------------------------------------------
namespace {

void check_std(const Tensor& std) {
  if (is_complex(std.dtype())) runtime_error("normal expects standard deviation to be non-complex");
  Tensor all = contiguous(cast(std, DType::Float64));
  for (int64_t i = 0; i < all.numel(); ++i) {
    if (all.data<double>()[i] < 0) {
      runtime_error("normal expects all elements of std >= 0.0, but found ", all.data<double>()[i]);
    }
  }
}

Tensor standard_normals(const Value& generator, Span shape, DType d) {
  return normal(generator_of(generator), empty(shape, d), 0, 1);
}

DType float_of(const Tensor& t, const char* what) {
  if (!is_differentiable(t.dtype()))
    not_implemented("\"normal_kernel_cpu\" not implemented for '", t.dtype(), "' (", what, ")");
  return t.dtype();
}

}  // namespace

static const Op& normal_tensors_ =
    def_random("normal.Tensor_Tensor(mean: Tensor, std: Tensor, *, generator: any? = None)",
               "Normal numbers, each with its own mean and standard deviation.")
        .forward([](Call& c) -> Value {
          Tensor mean = c.tensor(0), std = c.tensor(1);
          check_std(std);
          GradMode off(false);
          Tensor t = standard_normals(c[2], broadcast_shapes(mean.shape(), std.shape()),
                                      float_of(mean, "mean"));
          op_inplace<"mul">(t, std);
          return op_inplace<"add">(t, mean);
        })
        .grad(0, nothing, zero_gradient)
        .grad(1, nothing, zero_gradient)
        .jvp(zero_tangent)
        .function_only()
        .node("NormalBackward3")
        .out_dtype(OutDType::Converts);
static const Op& normal_mean_ =
    def_random("normal.Tensor_float(mean: Tensor, std: float = 1.0, *, generator: any? = None)",
               "Normal numbers, each with its own mean.")
        .forward([](Call& c) -> Value {
          Tensor mean = c.tensor(0);
          GradMode off(false);
          Tensor t =
              normal(generator_of(c[2]), empty(mean.shape(), float_of(mean, "mean")), 0, c.real(1));
          return op_inplace<"add">(t, mean);
        })
        .grad(0, nothing, zero_gradient)
        .jvp(zero_tangent)
        .function_only()
        .node("NormalBackward1")
        .out_dtype(OutDType::Converts);
static const Op& normal_std_ =
    def_random("normal.float_Tensor(mean: float, std: Tensor, *, generator: any? = None)",
               "Normal numbers, each with its own standard deviation.")
        .forward([](Call& c) -> Value {
          Tensor std = c.tensor(1);
          check_std(std);
          GradMode off(false);
          Tensor t = standard_normals(c[2], std.shape(), float_of(std, "std"));
          op_inplace<"mul">(t, std);
          return op_inplace<"add">(t, c[0]);
        })
        .grad(1, nothing, zero_gradient)
        .jvp(zero_tangent)
        .function_only()
        .node("NormalBackward2")
        .out_dtype(OutDType::Converts);
static const Op& normal_size_ =
    def_random("normal.float_float(mean: float, std: float, size: int[], " RANDOM_OPTIONS,
               "Normal numbers of one mean and one standard deviation.")
        .forward([](Call& c) -> Value {
          Options options(c, 4);
          Tensor t = empty(c.ints(2), options.dtype(default_dtype()));
          return options.finish(normal(generator_of(c[3]), t, c.real(0), c.real(1)));
        })
        .function_only()
        .out_dtype(OutDType::Converts);

// --- discrete ------------------------------------------------------------------------------------
static const Op& bernoulli_ =
    def_random("bernoulli(input, *, generator: any? = None)",
               "0 or 1 for each element of `input`, which is the probability of 1.")
        .forward([](Call& c) -> Value {
          Tensor p = c.tensor(0);
          DType d = c.out ? c.out.dtype() : p.dtype();
          return bernoulli(generator_of(c[1]), destination(c, Dims(p.shape()), d), p);
        })
        .grad(0, nothing, zero_gradient)
        .jvp(zero_tangent)
        .node("BernoulliBackward0")
        .fills_out();
static const Op& bernoulli_p_ =
    def_random("bernoulli.p(input, p: float, *, generator: any? = None)",
               "0 or 1 with one probability, in a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Tensor like = c.tensor(0);
          return bernoulli(generator_of(c[2]), empty(like.shape(), like.dtype()), c.real(1));
        })
        .grad(0, nothing, zero_gradient)
        .jvp(zero_tangent)
        .out_dtype(OutDType::Converts);
static const Op& bernoulli_inplace_ =
    def_random(
        "bernoulli.fill(input, p: Operand = 0.5, *, generator: any? = None)",
        "Fills the tensor with 0 or 1; `p` is the probability of 1, one for all or one each.")
        .forward([](Call& c) -> Value {
          Generator& g = generator_of(c[2]);
          if (!c[1].is_tensor()) return bernoulli(g, c.out, c.real(1));
          return bernoulli(g, c.out, c.tensor(1));
        })
        .grad(0, nothing, zero_gradient)
        .jvp(no_tangent)
        .internal()
        .inplace()
        .node("BernoulliBackward0")
        .out_dtype(OutDType::Converts);

static const Op& multinomial_ =
    def_random(
        "multinomial(input, num_samples: int, replacement: bool = False, *, generator: any? = "
        "None)",
        "Indices drawn from each row of `input` with probabilities proportional to its elements.")
        .forward([](Call& c) -> Value {
          Tensor p = c.tensor(0);
          int64_t samples = c.integer(1);
          if (p.ndim() < 1 || p.ndim() > 2)
            runtime_error("prob_dist must be 1 or 2 dim, but it has shape ", p.shape());
          if (!is_floating(p.dtype())) {
            runtime_error("multinomial only supports floating-point dtypes for input, got: ",
                          p.dtype());
          }
          if (samples <= 0) runtime_error("cannot sample n_sample <= 0 samples, got ", samples);
          int64_t n = p.size(-1), rows = p.ndim() == 2 ? p.size(0) : 1;
          if (!c.flag(2) && samples > n) {
            runtime_error(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement: ",
                samples, " of ", n);
          }
          if (n > (int64_t{1} << 24)) runtime_error("number of categories cannot exceed 2^24");
          Tensor out = p.ndim() == 2 ? empty(Dims{rows, samples}, DType::Int64)
                                     : empty(Dims{samples}, DType::Int64);
          bool columns = p.ndim() == 2 && !p.contiguous() && p.stride(0) < p.stride(1);
          Tensor dense = contiguous(p);
          Generator& g = generator_of(c[3]);
          drawing(p.numel(), [&, q = dense->data, o = out.data<int64_t>(), d = p.dtype()] {
            random::multinomial(g, d, q, rows, n, samples, c.flag(2), o, columns);
          });
          return out;
        })
        .draws(Draws::Rows);

// --- by parameters of each element ---------------------------------------------------------------
namespace {

// How much each part of a Dirichlet sample moves with its own parameter, the others following.
Tensor dirichlet_partials(C c) {
  Tensor alpha = c.tensor(0);
  return op<"_dirichlet_grad">(c.out(), alpha, op<"sum">(alpha, Dims{-1}, true));
}
Tensor floating(T t, const char* name) {
  if (!is_floating(t.dtype()))
    not_implemented("\"", name, "\" not implemented for '", t.dtype(), "'");
  return contiguous(t);
}

}  // namespace

static const Op& poisson_ =
    def_random("poisson(input, generator: any? = None)",
               "Poisson numbers; each element of `input` is the rate of one.")
        .forward([](Call& c) -> Value {
          Tensor rate = floating(c.tensor(0), "poisson_cpu");
          Tensor out = empty(rate.shape(), rate.dtype());
          Generator& g = generator_of(c[1]);
          drawing(out.numel(), [&, q = rate->data, o = out->data, d = out.dtype()] {
            random::poisson(g, d, o, out.numel(), q);
          });
          return out;
        })
        .grad(0, nothing, zero_gradient)
        .jvp(zero_tangent)
        .function_only()
        .no_out();

static const Op& binomial_ =
    def_random(
        "binomial(count: Tensor, prob: Tensor, generator: any? = None)",
        "The number of successes in `count` trials that each succeed with probability `prob`.")
        .forward([](Call& c) -> Value {
          Tensor count = c.tensor(0), p = floating(c.tensor(1), "binomial_cpu");
          if (count.dtype() != p.dtype()) {
            runtime_error("binomial expects count and prob of one dtype, but found ", count.dtype(),
                          " and ", p.dtype());
          }
          GradMode off(false);
          Dims shape = broadcast_shapes(count.shape(), p.shape());
          count = contiguous(op<"expand">(count, shape));
          p = contiguous(op<"expand">(p, shape));
          Tensor out = empty(shape, p.dtype());
          Generator& g = generator_of(c[2]);
          drawing(out.numel(), [&, m = count->data, q = p->data, o = out->data, d = out.dtype()] {
            random::binomial(g, d, o, out.numel(), m, q);
          });
          return out;
        })
        .grad(1, nothing, zero_gradient)
        .jvp(no_tangent)
        .function_only()
        .no_out();

static const Op& standard_gamma_ =
    def_random("_standard_gamma(input, generator: any? = None)",
               "Gamma numbers of scale 1; each element of `input` is the shape parameter of one.")
        .forward([](Call& c) -> Value {
          Tensor alpha = floating(c.tensor(0), "gamma_cpu");
          Tensor out = empty(alpha.shape(), alpha.dtype());
          Generator& g = generator_of(c[1]);
          drawing(out.numel(), [&, q = alpha->data, o = out->data, d = out.dtype()] {
            random::gamma(g, d, o, out.numel(), q);
          });
          return out;
        })
        .grad(0, input(0) | output(),
              [](T g, C c) { return g * op<"_standard_gamma_grad">(c.in(0), c.out()).tensor(); })
        .jvp([](C c, const Tensor* t) -> Value {
          return t[0] * op<"_standard_gamma_grad">(c.in(0), c.out()).tensor();
        })
        .function_only()
        .no_out();

static const Op& sample_dirichlet_ =
    def_random(
        "_sample_dirichlet(input, generator: any? = None)",
        "Points of the simplex from the Dirichlet distribution; the last axis of `input` holds the "
        "parameters of one.")
        .forward([](Call& c) -> Value {
          Tensor alpha = floating(c.tensor(0), "dirichlet");
          GradMode off(false);
          Tensor parts = op<"_standard_gamma">(cast(alpha, DType::Float64), c[1]);
          Tensor whole = op<"sum">(parts, Dims{-1}, true);
          bool wide = alpha.dtype() == DType::Float64;
          double tiny = wide ? 0x1p-1022 : 0x1p-126, epsilon = wide ? 0x1p-52 : 0x1p-23;
          return cast(op<"clamp">(parts / whole, tiny, 1 - epsilon), alpha.dtype());
        })
        .grad(0, input(0) | output(),
              [](T g, C c) {
                Tensor along = op<"sum">(c.out() * g, Dims{-1}, true);
                return dirichlet_partials(c) * (g - along);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor moved = dirichlet_partials(c) * t[0];
          return moved - c.out() * op<"sum">(moved, Dims{-1}, true).tensor();
        })
        .function_only()
        .no_out();

// --- in place ------------------------------------------------------------------------------------
#define FILL(NAME, ARGUMENTS, DOC, ...)                                             \
  static const Op& NAME##_fill =                                                    \
      def_random(#NAME ".fill(input, " ARGUMENTS "*, generator: any? = None)", DOC) \
          .forward([](Call& c) -> Value { __VA_ARGS__ })                            \
          .grad(0, nothing, zero_gradient)                                          \
          .jvp(no_tangent)                                                          \
          .internal()                                                               \
          .inplace()

FILL(uniform, "from: float = 0, to: float = 1, ", "Fills the tensor uniformly from [from, to).",
     return uniform(generator_of(c[3]), c.out, c.real(1), c.real(2)););
FILL(normal, "mean: float = 0, std: float = 1, ", "Fills the tensor with normal numbers.",
     return normal(generator_of(c[3]), c.out, c.real(1), c.real(2)););
FILL(exponential, "lambd: float = 1, ", "Fills the tensor with exponential numbers of rate lambd.",
     Generator& g = generator_of(c[2]);
     return filled(c.out, [&, d = c.out.dtype(), rate = c.real(1)](void* p, int64_t n, bool) {
       random::exponential(g, d, p, n, rate);
     }););
FILL(geometric, "p: float, ", "Fills the tensor with the number of trials to the first success.",
     Generator& g = generator_of(c[2]);
     return filled(c.out, [&, d = c.out.dtype(), q = c.real(1)](void* p, int64_t n, bool) {
       random::geometric(g, d, p, n, q);
     }););
FILL(cauchy, "median: float = 0, sigma: float = 1, ", "Fills the tensor with Cauchy numbers.",
     Generator& g = generator_of(c[3]);
     return filled(c.out,
                   [&, d = c.out.dtype(), m = c.real(1), s = c.real(2)](void* p, int64_t n, bool) {
                     random::cauchy(g, d, p, n, m, s);
                   }););
FILL(log_normal, "mean: float = 1, std: float = 2, ",
     "Fills the tensor with numbers whose logarithm is normal.", Generator& g = generator_of(c[3]);
     return filled(c.out,
                   [&, d = c.out.dtype(), m = c.real(1), s = c.real(2)](void* p, int64_t n, bool) {
                     random::log_normal(g, d, p, n, m, s);
                   }););
FILL(random, "", "Fills the tensor with integers from 0 to the largest its dtype holds exactly.",
     Generator& g = generator_of(c[1]);
     return filled(c.out, [&, d = c.out.dtype()](void* p, int64_t n, bool) {
       random::random_full(g, d, p, n);
     }););

static const Op& random_to_ = def_random("random.to(input, to: int, *, generator: any? = None)",
                                         "Fills the tensor with integers from [0, to).")
                                  .forward([](Call& c) -> Value {
                                    return integers(generator_of(c[2]), c.out, 0, c.integer(1));
                                  })
                                  .grad(0, nothing, zero_gradient)
                                  .jvp(no_tangent)
                                  .internal()
                                  .inplace()
                                  .any_dtype();
static const Op& random_from_ =
    def_random("random.from(input, from: int, to: int?, *, generator: any? = None)",
               "Fills the tensor with integers from [from, to).")
        .forward([](Call& c) -> Value {
          std::optional<int64_t> high;
          if (!c[2].is_none()) high = c.integer(2);
          return integers(generator_of(c[3]), c.out, c.integer(1), high);
        })
        .grad(0, nothing, zero_gradient)
        .jvp(no_tangent)
        .internal()
        .inplace()
        .any_dtype();

// --- dropout -------------------------------------------------------------------------------------
namespace {

Tensor by_mask(T g, C c) {
  Tensor mask = c.kept();
  return mask ? g * mask : g;
}

}  // namespace

static const Op& dropout_ =
    def_random(
        "dropout(input, p: float, train: bool)",
        "In training, zeroes each element with probability p and divides the others by 1 - p.")
        .forward([](Call& c) -> Value {
          double p = c.real(1);
          if (!(p >= 0 && p <= 1)) {
            runtime_error("dropout probability has to be between 0 and 1, but got ", p);
          }
          Tensor x = c.tensor(0);
          if (p == 0 || !c.flag(2) || x.numel() == 0) return x;
          GradMode off(false);
          Tensor mask = empty_like(x, x.dtype());
          if (p == 1) {
            mask = zeros(x.shape(), x.dtype());
          } else {
            bernoulli(generator_of(Value()), mask, 1 - p);
            op_inplace<"div">(mask, 1 - p);
          }
          c.kept = mask;
          return op<"mul">(x, mask);
        })
        .grad(0, nothing, by_mask)
        .jvp([](C c, const Tensor* t) -> Value { return by_mask(t[0], c); })
        .function_only()
        .no_out()
        .inplace()
        .node("MulBackward0")
        .depends(Depends::Pointwise)
        .draws(Draws::Mask);

}  // namespace adjoint
