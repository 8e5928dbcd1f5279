// How two labelled tensors become one product of matrices, and the ops that need no equation.
// Read next: einsum.cpp.
#include "ops/linalg/contraction.h"

#include "dispatch/view.h"
#include "tensor/checked.h"

namespace adjoint {
namespace {

using T = const Tensor&;

bool contains(const std::string& s, char label) { return s.find(label) != std::string::npos; }

Tensor shaped(T t, const Dims& shape) {
  if (t.shape() == Span(shape)) return t;
  return op<"reshape">(t, shape);
}

int64_t total(const Labelled& a, const std::string& labels) {
  int64_t n = 1;
  for (char l : labels) n *= a.size(l);
  return n;
}
void append_sizes(Dims* shape, const Labelled& a, const std::string& labels) {
  for (char l : labels) shape->push_back(a.size(l));
}

// Takes away the axes of length one that the other tensor has at another length.
void drop_ones(Labelled* a, const Labelled& b) {
  for (size_t i = a->labels.size(); i-- > 0;) {
    char l = a->labels[i];
    if (a->t.size(static_cast<int>(i)) != 1 || !b.has(l) || b.size(l) == 1) continue;
    a->t = op<"squeeze.dim">(a->t, static_cast<int>(i));
    a->labels.erase(i, 1);
  }
}

// Which labels are in both and wanted, in both and summed, in the first only, in the second only.
struct Roles {
  std::string batch, inner, left, right;
};
Roles roles_of(const Labelled& a, const Labelled& b, const std::string& wanted) {
  Roles r;
  for (char l : a.labels) (!b.has(l) ? r.left : contains(wanted, l) ? r.batch : r.inner) += l;
  for (char l : b.labels) {
    if (!a.has(l)) r.right += l;
  }
  return r;
}

// Nothing is summed: the elementwise product, with axes of length one where a label is missing.
Tensor broadcast_product(const Labelled& a, const Labelled& b, const Roles& r) {
  Tensor x = arranged(a, r.batch + r.left), y = arranged(b, r.batch + r.right);
  if (!r.right.empty()) {
    Dims shape(x.shape());
    for (size_t i = 0; i < r.right.size(); ++i) shape.push_back(1);
    x = shaped(x, shape);
  }
  if (!r.left.empty() && !r.batch.empty()) {
    Dims shape(y.shape());
    for (size_t i = 0; i < r.left.size(); ++i) shape.insert(static_cast<int>(r.batch.size()), 1);
    y = shaped(y, shape);
  }
  return x * y;
}

Tensor matrix_product(const Labelled& a, const Labelled& b, const Roles& r) {
  const int64_t m = total(a, r.left), k = total(a, r.inner), n = total(b, r.right);
  if (!r.batch.empty()) {
    const int64_t batch = total(a, r.batch);
    Tensor x = shaped(arranged(a, r.batch + r.left + r.inner), Dims{batch, m, k});
    Tensor y = shaped(arranged(b, r.batch + r.inner + r.right), Dims{batch, k, n});
    return op<"bmm">(x, y);
  }
  if (r.left.empty() && r.right.empty()) {
    return op<"dot">(shaped(arranged(a, r.inner), Dims{k}), shaped(arranged(b, r.inner), Dims{k}));
  }
  if (r.right.empty()) {
    return op<"mv">(shaped(arranged(a, r.left + r.inner), Dims{m, k}),
                    shaped(arranged(b, r.inner), Dims{k}));
  }
  if (r.left.empty()) {
    return op<"mv">(shaped(arranged(b, r.right + r.inner), Dims{n, k}),
                    shaped(arranged(a, r.inner), Dims{k}));
  }
  return op<"mm">(shaped(arranged(a, r.left + r.inner), Dims{m, k}),
                  shaped(arranged(b, r.inner + r.right), Dims{k, n}));
}

}  // namespace

Tensor arranged(const Labelled& a, const std::string& order) {
  if (a.labels == order) return a.t;
  Dims axes;
  for (char l : order) axes.push_back(a.axis(l));
  return op<"permute">(a.t, axes);
}

Labelled summed_to(Labelled a, const std::string& wanted, const Value& dtype) {
  Dims axes;
  std::string kept;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (contains(wanted, a.labels[i]))
      kept += a.labels[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return a;
  return {op<"sum">(a.t, axes, false, dtype), kept};
}

Labelled contract(Labelled a, Labelled b, const std::string& wanted) {
  drop_ones(&a, b);
  drop_ones(&b, a);
  a = summed_to(a, wanted + b.labels, a.t.dtype());
  b = summed_to(b, wanted + a.labels, b.t.dtype());
  Roles r = roles_of(a, b, wanted);
  std::string labels = r.batch + r.left + r.right;
  if (r.inner.empty()) return {broadcast_product(a, b, r), labels};
  Tensor product = matrix_product(a, b, r);
  Dims shape;
  append_sizes(&shape, a, r.batch + r.left);
  append_sizes(&shape, b, r.right);
  return {shaped(product, shape), labels};
}

static const Op& tensordot_ =
    def("_tensordot(a, b, dims_a: int[], dims_b: int[])",
        "The products of a and b summed over pairs of axes.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          const Dims &in_a = c.ints(2), &in_b = c.ints(3);
          if (in_a.size() != in_b.size()) {
            runtime_error("both dimension lists should have same length, but got ", in_a, " and ",
                          in_b);
          }
          if (a.dtype() != b.dtype()) {
            runtime_error("tensordot: both inputs should have the same dtype, but got ", a.dtype(),
                          " and ", b.dtype());
          }
          Labelled x{a, std::string(a.ndim(), '\0')}, y{b, std::string(b.ndim(), '\0')};
          for (int i = 0; i < a.ndim(); ++i) x.labels[i] = static_cast<char>(1 + i);
          for (int i = 0; i < b.ndim(); ++i) y.labels[i] = static_cast<char>(1 + kMaxDims + i);
          std::string wanted = x.labels + y.labels;
          for (int i = 0; i < in_a.size(); ++i) {
            int p = wrap_dim(in_a[i], a.ndim()), q = wrap_dim(in_b[i], b.ndim());
            char label = static_cast<char>(1 + p);
            if (p >= a.ndim() || q >= b.ndim() || !contains(wanted, label) ||
                static_cast<unsigned char>(y.labels[q]) <= kMaxDims)
              runtime_error("tensordot: an axis appears more than once in ", in_a, " or ", in_b);
            int64_t s = a.size(p), t = b.size(q);
            if (s != t && s != 1 && t != 1) {
              runtime_error("contracted dimensions need to match, but first has size ", s,
                            " in dim ", p, " and second has size ", t, " in dim ", q);
            }
            wanted.erase(wanted.find(label), 1);
            wanted.erase(wanted.find(y.labels[q]), 1);
            y.labels[q] = label;
          }
          return contract(x, y, wanted).t;
        })
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

static const Op& inner_ =
    def("inner(input, other)", "The products of both tensors summed over their last axes.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          if (a.ndim() == 0 || b.ndim() == 0) return a * b;
          if (a.size(-1) != b.size(-1)) {
            runtime_error(
                "inner() the last dimension must match on both input tensors but got "
                "shapes ",
                a.shape(), " and ", b.shape());
          }
          return op<"_tensordot">(a, b, Dims{-1}, Dims{-1});
        })
        .out_dtype([](const Value* args) {
          bool product = args[0].object()->ndim == 0 || args[1].object()->ndim == 0;
          return product ? OutDType::Converts : OutDType::Exact;
        })
        .autocast(Autocast::Inside);

static const Op& kron_ =
    def("kron(input, other)",
        "The Kronecker product: every element of `input` times all of `other`.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          const int n = std::max(a.ndim(), b.ndim());
          Dims wide_a, wide_b, joined;
          for (int i = 0; i < n; ++i) {
            int64_t s = i < n - a.ndim() ? 1 : a.size(i - (n - a.ndim()));
            int64_t t = i < n - b.ndim() ? 1 : b.size(i - (n - b.ndim()));
            if (s != 1) {  // axes of length one are left out: there would be too many of them
              wide_a.push_back(s);
              wide_b.push_back(1);
            }
            if (t != 1) {
              wide_a.push_back(1);
              wide_b.push_back(t);
            }
            joined.push_back(checked_mul(s, t));
          }
          return unshared(shaped(shaped(a, wide_a) * shaped(b, wide_b), joined));
        })
        .out_dtype(OutDType::Converts);

static const Op& cross_ =
    def("cross(input, other, dim: int? = None)",
        "The vector product along an axis of length 3: `dim`, or the first such axis.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          if (a.ndim() != b.ndim()) {
            runtime_error("linalg.cross: inputs must have the same number of dimensions, but have ",
                          a.ndim(), " and ", b.ndim());
          }
          Dims shape = broadcast_shapes(a.shape(), b.shape());
          int dim = -1;
          if (c[2].is_none()) {
            for (int i = 0; i < a.ndim() && dim < 0; ++i) {
              if (a.size(i) == 3) dim = i;
            }
            if (dim < 0) runtime_error("no dimension of size 3 in input of shape ", a.shape());
          } else {
            dim = wrap_dim(c.integer(2), shape.size());
          }
          if (shape.empty() || a.size(dim) != 3 || b.size(dim) != 3) {
            runtime_error("linalg.cross: inputs dimension ", c[2].is_none() ? dim : c.integer(2),
                          " must have length 3. Got shapes ", a.shape(), " and ", b.shape());
          }
          Tensor x = op<"expand">(a, shape), y = op<"expand">(b, shape);
          auto turned = [&](T t, int by) -> Tensor { return op<"roll">(t, Dims{by}, Dims{dim}); };
          return turned(x, -1) * turned(y, -2) - turned(x, -2) * turned(y, -1);
        });

}  // namespace adjoint
