// Products of matrices and vectors. mm, bmm, mv and dot are the products with derivatives of their
// own; matmul, linear and outer are made of them.
#include "dispatch/op.h"
#include "dispatch/pending_calls.h"
#include "kernels/products/gemm.h"
#include "ops/reduce/interruptible.h"
#include "ops/sparse/rules.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The conjugate transpose of the last two axes.
Tensor adjoint_of(T t) { return op<"conj_physical">(op<"transpose">(t, -2, -1)); }

void check_dtypes(const char* name, T a, T b) {
  if (a.dtype() != b.dtype()) {
    runtime_error(name, ": expected both operands to have the same dtype, but got: ", a.dtype(),
                  " != ", b.dtype());
  }
  if (a.dtype() == DType::Bool) not_implemented("\"", name, "\" not implemented for dtype bool");
}
void check_ndim(const char* name, const char* argument, T t, int ndim) {
  if (t.ndim() != ndim) {
    runtime_error(name, ": ", argument, " must be a ", ndim, "-D tensor, but it has shape ",
                  t.shape());
  }
}
[[noreturn]] void bad_shapes(const char* name, T a, T b) {
  runtime_error(name, ": shapes cannot be multiplied (", to_string(a.shape()), " and ",
                to_string(b.shape()), ")");
}

Matrix matrix(T t) { return {t.bytes(), t.stride(-2), t.stride(-1)}; }
bool is_long(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) *
             static_cast<double>(std::max<int64_t>(k, 1)) >=
         kReleaseGil;
}

// c = alpha * a @ b + beta * c
void product(T a, T b, T c, const Value& alpha, const Value& beta) {
  int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  WithoutGil release(is_long(m, n, k));
  gemm(a.dtype(), m, n, k, matrix(a), matrix(b), c.bytes(), std::max<int64_t>(n, 1),
       alpha.complex(), beta.complex());
}
void batch_product(T a, T b, T c, const Value& alpha, const Value& beta) {
  int64_t m = a.size(1), k = a.size(2), n = b.size(2);
  WithoutGil release(is_long(a.size(0) * m, n, k));
  gemm_batch(a.dtype(), a.size(0), m, n, k, matrix(a), a.stride(0), matrix(b), b.stride(0),
             c.bytes(), m * n, std::max<int64_t>(n, 1), alpha.complex(), beta.complex());
}

void check_mm(const char* name, T a, T b) {
  check_ndim(name, "the first matrix", a, 2);
  check_ndim(name, "the second matrix", b, 2);
  if (a.size(1) != b.size(0)) {
    runtime_error("mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
                  b.size(0), "x", b.size(1), ")");
  }
  check_dtypes(name, a, b);
}
void check_bmm(const char* name, T a, T b) {
  check_ndim(name, "batch1", a, 3);
  check_ndim(name, "batch2", b, 3);
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
    runtime_error("Expected size for first two dimensions of batch2 tensor to be: [", a.size(0),
                  ", ", a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
  }
  check_dtypes(name, a, b);
}

void check_mv(const char* name, T a, T x) {
  if (a.ndim() != 2 || x.ndim() != 1) {
    runtime_error(name, ": a matrix and a vector expected, but got ", a.ndim(), "-D and ", x.ndim(),
                  "-D tensors");
  }
  if (a.size(1) != x.size(0)) {
    runtime_error("size mismatch, got input (", a.size(0), "), mat (", a.size(0), "x", a.size(1),
                  "), vec (", x.size(0), ")");
  }
  check_dtypes(name, a, x);
}

Value mm_forward(Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  check_mm("mm", a, b);
  Tensor out = empty(Dims{a.size(0), b.size(1)}, a.dtype());
  product(a, b, out, 1, 0);
  return out;
}

Value bmm_forward(Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  check_bmm("bmm", a, b);
  Tensor out = empty(Dims{a.size(0), a.size(1), b.size(2)}, a.dtype());
  batch_product(a, b, out, 1, 0);
  return out;
}

// Puts what is to be added to a product into its result, broadcast; false when it is not to be
// read.
bool start_sum(T out, T t, const Value& beta) {
  if (t.ndim() > out.ndim() || !(Span(broadcast_shapes(t.shape(), out.shape())) == out.shape())) {
    runtime_error("The expanded size of the tensor must match: ", t.shape(),
                  " does not broadcast to ", out.shape());
  }
  if (beta.complex() == 0.0) return false;
  GradMode off(false);
  copy_into(out, t.shape() == out.shape() ? t : op<"expand">(t, out.shape()).tensor());
  return true;
}

// beta * input + alpha * (a @ b), the input broadcast; with beta 0 the input is not read, so its
// NaNs do not spread.
template <bool Batch>
Value add_product(Call& c) {
  Tensor t = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  const char* name = Batch ? "baddbmm" : "addmm";
  if (Batch)
    check_bmm(name, a, b);
  else
    check_mm(name, a, b);
  check_dtypes(name, t, a);
  Dims shape = Batch ? Dims{a.size(0), a.size(1), b.size(2)} : Dims{a.size(0), b.size(1)};
  Tensor out = empty(shape, a.dtype());
  bool reads = start_sum(out, t, c[3]);
  if (Batch)
    batch_product(a, b, out, c[4], reads ? c[3] : Value(0));
  else
    product(a, b, out, c[4], reads ? c[3] : Value(0));
  return out;
}

Tensor times(T g, const Value& scale) {
  if (scale.complex() == 1.0) return g;
  if (scale.kind() == Value::Complex) return g * Value(std::conj(scale.complex()));
  return g * scale;
}

// The tangent of beta * input + alpha * product(a, b); a tangent that is undefined is zero.
template <OpName Product>
Value tangent_of_sum(C c, const Tensor* t) {
  Tensor sum = t[0] ? t[0] * c.in(3) : Tensor();
  auto add = [&](T part) { sum = sum ? sum + part * c.in(4) : part * c.in(4); };
  if (t[1]) add(op<Product>(t[1], c.in(2)));
  if (t[2]) add(op<Product>(c.in(1), t[2]));
  return sum;
}

bool all_bool(const Call& c) {
  for (int i = 0; i < 3; ++i) {
    if (c.tensor(i).dtype() != DType::Bool) return false;
  }
  return true;
}

// The sum of truth values: beta and alpha say which of the two count.
Tensor add_truth(T input, T product, const Call& c) {
  Tensor none = zeros(product.shape(), DType::Bool);
  const bool beta = c[3].complex() != 0.0, alpha = c[4].complex() != 0.0;
  return op<"logical_or">(beta ? input : none, alpha ? product : none);
}

// All axes but the last as one. The length is stated: -1 could not be inferred from no elements.
Tensor fold(T t) {
  int64_t rows = 1;
  for (int i = 0; i < t.ndim() - 1; ++i) rows *= t.size(i);
  return op<"reshape">(t, Dims{rows, t.size(-1)});
}

// Products over batches that broadcast: both sides become [batch, rows, columns].
Tensor batched(T a, T b) {
  Span sa = a.shape(), sb = b.shape();
  Dims lead = broadcast_shapes({sa.p, sa.n - 2}, {sb.p, sb.n - 2});
  int64_t count = 1;
  for (int64_t s : lead) count *= s;
  auto flat = [&](T t) -> Tensor {
    Dims full = lead;
    full.push_back(t.size(-2));
    full.push_back(t.size(-1));
    return op<"reshape">(op<"expand">(t, full), Dims{count, t.size(-2), t.size(-1)});
  };
  Tensor out = op<"bmm">(flat(a), flat(b));
  lead.push_back(a.size(-2));
  lead.push_back(b.size(-1));
  return op<"_unsafe_view">(out, lead);
}

Tensor matmul(T a, T b) {
  if (a.ndim() == 0 || b.ndim() == 0) {
    runtime_error("both arguments to matmul need to be at least 1D, but they are ", a.ndim(),
                  "D and ", b.ndim(), "D");
  }
  if (a.ndim() == 1 && b.ndim() == 1) return op<"dot">(a, b);
  if (a.ndim() == 2 && b.ndim() == 1) return op<"mv">(a, b);
  if (a.ndim() == 2 && b.ndim() == 2) return op<"mm">(a, b);
  if (a.ndim() == 1 && b.ndim() == 2)
    return op<"_unsafe_squeeze">(op<"mm">(op<"unsqueeze">(a, 0), b), Dims{b.size(1)});
  if (a.ndim() == 1) {
    Dims shape(b.shape());
    shape.erase(b.ndim() - 2);
    return op<"_unsafe_view">(matmul(op<"unsqueeze">(a, 0), b), shape);
  }
  if (b.ndim() == 1) {
    if (a.size(-1) != b.size(0)) bad_shapes("matmul", a, b);
    return op<"_unsafe_view">(op<"mv">(fold(a), b), Dims(Span{a->shape, a.ndim() - 1}));
  }
  if (a.size(-1) != b.size(-2)) bad_shapes("matmul", a, b);
  check_dtypes("matmul", a, b);
  if (b.ndim() == 2) {  // one matrix for all rows of a
    Dims shape(a.shape());
    shape.back() = b.size(1);
    return op<"_unsafe_view">(op<"mm">(fold(a), b), shape);
  }
  return batched(a, b);
}

}  // namespace

namespace {

Tensor column(const Tensor& t) { return op<"unsqueeze">(t, -1); }

void check_factors(Call& c, const int* axes, const char* name, int first, int second) {
  if (batch::sample_ndim(c, axes, 0) == first && batch::sample_ndim(c, axes, 1) == second) return;
  runtime_error("Shape mismatch: ", name, " expects a ", first, "D and a ", second,
                "D tensor, but got ", batch::sample_ndim(c, axes, 0), "D and ",
                batch::sample_ndim(c, axes, 1), "D tensors");
}

Value mm_rule(Call& c, const int* axes) {
  check_factors(c, axes, "mm", 2, 2);
  int64_t columns = c.tensor(1).size(-1), k = c.tensor(0).size(-1);
  if (c.tensor(1).size(-2) != k) {
    runtime_error("mat1 and mat2 shapes cannot be multiplied (", c.tensor(0).size(-2), "x", k,
                  " and ", c.tensor(1).size(-2), "x", columns, ")");
  }
  return op<"matmul">(c[0], c[1]);
}
Value bmm_rule(Call& c, const int* axes) {
  check_factors(c, axes, "bmm", 3, 3);
  return op<"matmul">(batch::whole(c, axes, 0), batch::whole(c, axes, 1));
}
Value mv_rule(Call& c, const int* axes) {
  check_factors(c, axes, "mv", 2, 1);
  if (axes[1] < 0) return op<"matmul">(c[0], c[1]);
  if (axes[0] < 0)  // rows of vectors times the transpose: one product
    return op<"matmul">(c[1], op<"transpose">(c[0], 0, 1));
  return op<"squeeze.dim">(op<"matmul">(c[0], column(c.tensor(1))), -1);
}

}  // namespace

static const Op& mm_ =
    def("mm(input, mat2)", "The product of two matrices.")
        .forward(mm_forward)
        .grad(0, input(1), [](T g, C c) -> Tensor { return op<"mm">(g, adjoint_of(c.tensor(1))); })
        .grad(1, input(0), [](T g, C c) -> Tensor { return op<"mm">(adjoint_of(c.tensor(0)), g); })
        .linear()
        .batch(mm_rule)
        .product(Product::Matrices)
        .autocast(Autocast::Lower)
        .sparse(sparse::matmul);

static const Op& bmm_ =
    def("bmm(input, mat2)", "The product of matrices, one per entry of the first axis.")
        .forward(bmm_forward)
        .grad(0, input(1), [](T g, C c) -> Tensor { return op<"bmm">(g, adjoint_of(c.tensor(1))); })
        .grad(1, input(0), [](T g, C c) -> Tensor { return op<"bmm">(adjoint_of(c.tensor(0)), g); })
        .linear()
        .batch(bmm_rule)
        .product(Product::Batches)
        .autocast(Autocast::Lower);

static const Op& mv_ =
    def("mv(input, vec)", "The product of a matrix and a vector.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), x = c.tensor(1);
          check_mv("mv", a, x);
          Tensor out = empty(Dims{a.size(0)}, a.dtype());
          WithoutGil release(is_long(a.size(0), a.size(1), 1));
          gemv(a.dtype(), a.size(0), a.size(1), matrix(a), x.bytes(), x.stride(0), out.bytes(), 1);
          return out;
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor { return op<"outer">(g, op<"conj_physical">(c.tensor(1))); })
        .grad(1, input(0), [](T g, C c) -> Tensor { return op<"mv">(adjoint_of(c.tensor(0)), g); })
        .linear()
        .batch(mv_rule)
        .product(Product::MatrixVector)
        .sparse(sparse::matmul);

static const Op& dot_ =
    def("dot(input, tensor)",
        "The sum of the products of two vectors' elements, without conjugation.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0), y = c.tensor(1);
          if (x.ndim() != 1 || y.ndim() != 1) {
            runtime_error("1D tensors expected, but got ", x.ndim(), "D and ", y.ndim(),
                          "D tensors");
          }
          check_dtypes("dot", x, y);
          if (x.size(0) != y.size(0)) {
            runtime_error("inconsistent tensor size, expected tensor ", x.shape(), " and src ",
                          y.shape(), " to have the same number of elements, but got ", x.size(0),
                          " and ", y.size(0), " elements respectively");
          }
          // Of two conjugates the conjugate of the product, which shows that it is one.
          const bool conjugates = x.pending() == kConjugate && y.pending() == kConjugate;
          x = resolved(x), y = resolved(y);
          Tensor out = empty({}, x.dtype());
          Interruptible release(x.size(0) >= kReleaseGil, x->storage, y->storage);
          dot(x.dtype(), x.size(0), x.bytes(), x.stride(0), y.bytes(), y.stride(0), out.bytes());
          release.finish();
          return conjugates ? shown_as_conjugate(out) : out;
        })
        .takes_pending()
        .grad(0, input(1), [](T g, C c) -> Tensor { return g * op<"conj_physical">(c.tensor(1)); })
        .grad(1, input(0), [](T g, C c) -> Tensor { return g * op<"conj_physical">(c.tensor(0)); })
        .linear()
        .batch([](Call& c, const int* axes) -> Value {
          check_factors(c, axes, "dot", 1, 1);
          if (axes[0] < 0) return op<"matmul">(c[1], c[0]);
          if (axes[1] < 0) return op<"matmul">(c[0], c[1]);
          Tensor row = op<"unsqueeze">(c[0], -2);
          Tensor product = op<"matmul">(row, column(c.tensor(1)));
          return op<"reshape">(product, Dims{product.size(0)});
        })
        .product(Product::Vectors);

static const Op& vdot_ =
    def("vdot(input, other)", "The dot product of two vectors, the first conjugated.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0), y = c.tensor(1);
          if (x.has(kConjugate) && y.has(kConjugate))
            return op<"dot">(op<"conj_physical">(op<"conj">(y)), op<"conj">(x));
          const bool pending = x.has(kConjugate) || y.has(kConjugate);
          return op<"dot">(pending ? op<"conj">(x) : op<"conj_physical">(x), y);
        });

namespace {

// beta * input + alpha * product, written out; on samples again.
Tensor scaled_sum(Call& c, const int* axes, const Tensor& product) {
  Tensor t = c.tensor(0);
  if (axes[0] >= 0) t = batch::line_up(t, product.ndim() - 1);
  Tensor scaled = c[4].complex() == 1.0 ? product : product * c[4];
  if (c[3].complex() == 0.0) return scaled;
  return scaled + (c[3].complex() == 1.0 ? t : t * c[3]);
}

template <BatchRule Rule>
Value add_product_rule(Call& c, const int* axes) {
  if (axes[1] < 0 && axes[2] < 0) {  // one product for all samples
    Tensor p = op<"matmul">(c[1], c[2]);
    Dims shape(p.shape());
    shape.insert(0, batch::size(c, axes));
    return scaled_sum(c, axes, op<"expand">(p, shape));
  }
  Value factors[2] = {c[1], c[2]};
  int at[2] = {axes[1], axes[2]};
  Call product{op_named<"mm">(), factors};  // of the op, rules of products read nothing
  return scaled_sum(c, axes, Rule(product, at).tensor());
}

}  // namespace

static const Op& addmm_ =
    def("addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1)",
        "`beta * input + alpha * (mat1 @ mat2)`.")
        .forward(add_product<false>)
        .grad(0, nothing, [](T g, C c) { return times(g, c.in(3)); })
        .grad(1, input(2),
              [](T g, C c) { return times(op<"mm">(g, adjoint_of(c.tensor(2))), c.in(4)); })
        .grad(2, input(1),
              [](T g, C c) { return times(op<"mm">(adjoint_of(c.tensor(1)), g), c.in(4)); })
        .jvp(tangent_of_sum<"mm">)
        .inplace()
        .batch(add_product_rule<mm_rule>)
        .product(Product::Matrices, 1, 0)
        .autocast(Autocast::Lower)
        .sparse(sparse::addmm);

static const Op& baddbmm_ =
    def("baddbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1)",
        "`beta * input + alpha * bmm(batch1, batch2)`.")
        .forward(add_product<true>)
        .grad(0, nothing, [](T g, C c) { return times(g, c.in(3)); })
        .grad(1, input(2),
              [](T g, C c) { return times(op<"bmm">(g, adjoint_of(c.tensor(2))), c.in(4)); })
        .grad(2, input(1),
              [](T g, C c) { return times(op<"bmm">(adjoint_of(c.tensor(1)), g), c.in(4)); })
        .jvp(tangent_of_sum<"bmm">)
        .inplace()
        .batch(add_product_rule<bmm_rule>)
        .product(Product::Batches, 1, 0)
        .autocast(Autocast::Lower);

static const Op& addmv_ =
    def("addmv(input, mat, vec, *, beta: Scalar = 1, alpha: Scalar = 1)",
        "`beta * input + alpha * (mat @ vec)`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), a = c.tensor(1), x = c.tensor(2);
          check_mv("addmv", a, x);
          check_dtypes("addmv", t, a);
          Tensor out = empty(Dims{a.size(0)}, a.dtype());
          bool reads = start_sum(out, t, c[3]);
          WithoutGil release(is_long(a.size(0), a.size(1), 1));
          gemv(a.dtype(), a.size(0), a.size(1), matrix(a), x.bytes(), x.stride(0), out.bytes(), 1,
               c[4].complex(), reads ? c[3].complex() : 0.0);
          return out;
        })
        .grad(0, nothing, [](T g, C c) { return times(g, c.in(3)); })
        .grad(1, input(2),
              [](T g, C c) {
                return times(op<"outer">(g, op<"conj_physical">(c.tensor(2))), c.in(4));
              })
        .grad(2, input(1),
              [](T g, C c) { return times(op<"mv">(adjoint_of(c.tensor(1)), g), c.in(4)); })
        .jvp(tangent_of_sum<"mv">)
        .inplace()
        .batch(add_product_rule<mv_rule>)
        .product(Product::MatrixVector, 1, 0);

static const Op& outer_ =
    def("outer(input, vec2)",
        "The product of every element of one vector with every element of another.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0), y = c.tensor(1);
          if (x.ndim() != 1 || y.ndim() != 1) {
            runtime_error("outer: Expected 1-D arguments, but got ", x.ndim(), "-D and ", y.ndim(),
                          "-D");
          }
          return op<"mul">(op<"reshape">(x, Dims{x.size(0), 1}), y);
        })
        .alias("ger")
        .product(Product::Outer)
        .out_dtype(OutDType::Converts);

static const Op& addr_ =
    def("addr(input, vec1, vec2, *, beta: Scalar = 1, alpha: Scalar = 1)",
        "`beta * input + alpha * outer(vec1, vec2)`.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(1), y = c.tensor(2);
          if (x.ndim() != 1 || y.ndim() != 1) {
            runtime_error("addr: Expected 1-D argument vec1 and vec2, but got ", x.ndim(),
                          "-D and ", y.ndim(), "-D");
          }
          GradMode off(false);
          Tensor column = op<"unsqueeze">(x, 1), row = op<"unsqueeze">(y, 0);
          if (all_bool(c)) return add_truth(c.tensor(0), op<"logical_and">(column, row), c);
          return op<"addmm">(c[0], column, row, c[3], c[4]);
        })
        .grad(0, nothing, [](T g, C c) { return times(g, c.in(3)); })
        .grad(
            1, input(2),
            [](T g, C c) { return times(op<"mv">(g, op<"conj_physical">(c.tensor(2))), c.in(4)); })
        .grad(2, input(1),
              [](T g, C c) {
                Tensor across = op<"transpose">(g, 0, 1);
                return times(op<"mv">(across, op<"conj_physical">(c.tensor(1))), c.in(4));
              })
        .jvp(tangent_of_sum<"outer">)
        .inplace()
        .out_dtype(OutDType::Converts);

static const Op& addbmm_ =
    def("addbmm(input, batch1, batch2, *, beta: Scalar = 1, alpha: Scalar = 1)",
        "`beta * input + alpha * bmm(batch1, batch2).sum(0)`.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(1), b = c.tensor(2);
          check_bmm("addbmm", a, b);
          GradMode off(false);
          // One long product: the sum over the batch is part of the sum over columns.
          int64_t columns = a.size(0) * a.size(2);
          Tensor side = op<"reshape">(op<"transpose">(a, 0, 1), Dims{a.size(1), columns});
          Tensor stacked = op<"reshape">(b, Dims{columns, b.size(2)});
          return op<"addmm">(c[0], side, stacked, c[3], c[4]);
        })
        .grad(0, nothing, [](T g, C c) { return times(g, c.in(3)); })
        .grad(1, input(2),
              [](T g, C c) { return times(op<"matmul">(g, adjoint_of(c.tensor(2))), c.in(4)); })
        .grad(2, input(1),
              [](T g, C c) { return times(op<"matmul">(adjoint_of(c.tensor(1)), g), c.in(4)); })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor sum = t[0] ? t[0] * c.in(3) : Tensor();
          auto add = [&](const Value& products) {
            Tensor part = op<"sum">(products, Dims{0}).tensor() * c.in(4);
            sum = sum ? sum + part : part;
          };
          if (t[1]) add(op<"bmm">(t[1], c.in(2)));
          if (t[2]) add(op<"bmm">(c.in(1), t[2]));
          if (!(sum.shape() == c.out_shape())) sum = op<"expand">(sum, c.out_shape());
          return sum;
        })
        .inplace()
        .autocast(Autocast::Lower);

static const Op& matmul_ =
    def("matmul(input, other)",
        "The product of matrices or vectors, broadcasting over leading axes.")
        .forward([](Call& c) -> Value { return matmul(c.tensor(0), c.tensor(1)); })
        .product(Product::ByAxes)
        .autocast(Autocast::Lower)
        .sparse(sparse::matmul);

// --- linear: as addmm with the transpose of the weight, but without making it, and with a gradient of the weight that lies in memory as the weight does.
namespace {

template <bool Bias>
Value linear_forward(Call& c) {
  Tensor x = c.tensor(0), w = c.tensor(1), b = Bias ? c.tensor(2) : Tensor();
  int64_t rows = 1, n = w.size(0), k = w.size(1);
  for (int i = 0; i < x.ndim() - 1; ++i) rows *= x.size(i);
  if (x.size(-1) != k) {
    runtime_error("mat1 and mat2 shapes cannot be multiplied (", rows, "x", x.size(-1), " and ", k,
                  "x", n, ")");
  }
  check_dtypes("linear", x, w);
  if (Bias) check_dtypes("linear", x, b);
  Dims shape(x.shape());
  shape.back() = n;
  Tensor out = empty(shape, x.dtype());
  Tensor in = x.ndim() == 2 ? x : contiguous(x);
  const Matrix left{in.bytes(), x.ndim() == 2 ? x.stride(0) : k, x.ndim() == 2 ? x.stride(1) : 1};
  const Matrix right{w.bytes(), w.stride(1), w.stride(0)};
  if (Bias && b.ndim() == 1 && b.size(0) == n && b.stride(0) == 1) {
    WithoutGil release(is_long(rows, n, k));
    if (gemm_onto_row(x.dtype(), rows, n, k, left, right, b.bytes(), out.bytes(), n)) return out;
  }
  bool reads = Bias && start_sum(out, b, 1);
  WithoutGil release(is_long(rows, n, k));
  gemm(x.dtype(), rows, n, k, left, right, out.bytes(), std::max<int64_t>(n, 1), 1.0,
       reads ? 1.0 : 0.0);
  return out;
}

Tensor linear_input_grad(T g, C c) {
  Tensor w = c.in(1);
  Tensor flat = op<"mm">(g.ndim() == 2 ? g : fold(g), op<"conj_physical">(w));
  return g.ndim() == 2 ? flat : op<"reshape">(flat, c.shape(0)).tensor();
}
Tensor linear_weight_grad(T g, C c) {
  Tensor x = c.in(0);
  Tensor rows = g.ndim() == 2 ? g : fold(g), in = x.ndim() == 2 ? x : fold(x);
  return op<"mm">(op<"transpose">(rows, 0, 1), op<"conj_physical">(in));
}
template <bool Bias>
Value linear_tangent(C c, const Tensor* t) {
  Tensor sum = Bias ? t[2] : Tensor();
  auto add = [&](T part) { sum = sum ? sum + part : part; };
  if (t[0]) add(op<"linear">(t[0], c.in(1)));
  if (t[1]) add(op<"linear">(c.in(0), t[1]));
  if (!(sum.shape() == c.out_shape())) sum = op<"expand">(sum, c.out_shape());
  return sum;
}

}  // namespace

namespace {

// What PyTorch ends with: the product itself for a matrix, else the step that restores the shape.
const char* product_name(const Value* v) {
  int ndim = v[0].object()->ndim;
  return ndim == 2 ? "MmBackward0" : ndim == 1 ? "SqueezeBackward4" : "UnsafeViewBackward0";
}

}  // namespace

namespace {

Value linear_rule(Call& c, const int* axes) {
  bool bias = c.op.argument_count > 2;
  Tensor x = c.tensor(0), w = c.tensor(1), out;
  if (axes[1] < 0) {
    out = op<"matmul">(x, op<"transpose">(w, 0, 1));
  } else {
    // Each sample has its own weight: [n, rows, in] @ [n, in, out].
    Tensor wt = op<"transpose">(w, 1, 2);
    int ndim = batch::sample_ndim(c, axes, 0);
    if (axes[0] < 0 && ndim > 1) {
      out = op<"matmul">(x, batch::line_up(wt, ndim));
    } else {
      Tensor rows = ndim == 1 ? op<"unsqueeze">(x, -2).tensor() : x;
      out = op<"matmul">(rows, ndim == 1 ? wt : batch::line_up(wt, ndim));
      if (ndim == 1) out = op<"squeeze.dim">(out, -2);
    }
  }
  if (!bias) return out;
  Tensor b = c.tensor(2);
  bool mapped = axes[0] >= 0 || axes[1] >= 0;
  return out + (axes[2] >= 0 ? batch::line_up(b, out.ndim() - mapped) : b);
}

}  // namespace

static const Op& linear_plain_ = def("_linear(input, weight)", "`input @ weight.T`.")
                                     .forward(linear_forward<false>)
                                     .grad(0, input(1), linear_input_grad)
                                     .grad(1, input(0), linear_weight_grad)
                                     .jvp(linear_tangent<false>)
                                     .internal()
                                     .node(product_name)
                                     .batch(linear_rule)
                                     .product(Product::Transposed)
                                     .autocast(Autocast::Lower);

static const Op& linear_bias_ =
    def("_linear_bias(input, weight, bias)", "`input @ weight.T + bias`.")
        .forward(linear_forward<true>)
        .grad(0, input(1), linear_input_grad)
        .grad(1, input(0), linear_weight_grad)
        .grad(2, nothing, [](T g, C) { return g; })
        .jvp(linear_tangent<true>)
        .internal()
        .node([](const Value* v) {
          return v[0].object()->ndim == 2 ? "AddmmBackward0" : "ViewBackward0";
        })
        .batch(linear_rule)
        .product(Product::Transposed, 0, 2)
        .autocast(Autocast::Lower);

static const Op& linear_ =
    def("linear(input, weight, bias: Tensor? = None)", "`input @ weight.T + bias`.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0), w = c.tensor(1);
          if (w.ndim() > 2 || w.ndim() == 0) {
            runtime_error("linear: the weight must have 1 or 2 dimensions, but its shape is ",
                          w.shape());
          }
          if (w.ndim() == 1) {
            Tensor out = matmul(x, w);
            return c[2].is_none() ? out : op<"add">(out, c[2]).tensor();
          }
          if (x.ndim() == 0) {
            runtime_error("both arguments to linear need to be at least 1D, but they are 0D and ",
                          w.ndim(), "D");
          }
          return c[2].is_none() ? op<"_linear">(x, w) : op<"_linear_bias">(x, w, c[2]);
        })
        .function_only()
        .product(Product::Transposed, 0, 2)
        .autocast(Autocast::Lower)
        .sparse(sparse::linear);

}  // namespace adjoint
