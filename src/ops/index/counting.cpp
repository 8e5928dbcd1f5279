// Counting and set-like ops: unique, bincount, histc, isin; and tables of places: tril_indices and so
// on, combinations. Only the weights of bincount and what combinations choose have a derivative.
#include <cmath>
#include <numeric>

#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "kernels/convert.h"
#include "kernels/index/sorting.h"
#include "python/interrupt.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor shaped(T t, const Dims& shape) {
  return on_storage(t->storage, shape, contiguous_strides(shape), t.offset(), t.dtype());
}

// A tensor as a table: one row per index along `dim`, each row the bytes of that slice.
struct Table {
  Tensor rows;  // dense, [n, ...]
  int64_t n, width;
};

Table table_of(T t, int dim) {
  Dims shape(t.shape()), strides(t.strides());
  int64_t n = shape[dim], s = strides[dim];
  shape.erase(dim);
  strides.erase(dim);
  shape.insert(0, n);
  strides.insert(0, s);
  Tensor rows = contiguous(on_storage(t->storage, shape, strides, t.offset(), t.dtype()));
  return {rows, n, n ? rows.numel() / n : 0};
}

// Three-way comparison of two elements; NaN after all numbers, and no NaN equal to another.
int compare(DType d, const char* a, const char* b) {
  if (is_integral(d)) {
    int64_t x = load_int(d, a), y = load_int(d, b);
    if (d == DType::UInt64) x ^= INT64_MIN, y ^= INT64_MIN;  // which orders them as signed numbers
    return x < y ? -1 : x > y;
  }
  double x = load_double(d, a), y = load_double(d, b);
  if (x != x || y != y) return x == x ? -1 : 1;
  return x < y ? -1 : x > y;
}

bool nan_at(DType d, const char* p) { return is_floating(d) && std::isnan(load_double(d, p)); }

struct Groups {
  std::vector<int64_t> first;    // the row that stands for each group
  std::vector<int64_t> inverse;  // row -> group
  std::vector<int64_t> count;
};

// Groups of equal rows: sorted, or only neighbours.
Groups group(const Table& t, DType d, bool sort) {
  size_t item = item_size(d);
  auto row = [&](int64_t i) { return t.rows->data + i * t.width * item; };
  auto order_of = [&](int64_t a, int64_t b) {
    for (int64_t k = 0; k < t.width; ++k) {
      const char *p = row(a) + k * item, *q = row(b) + k * item;
      if (nan_at(d, p) && nan_at(d, q)) continue;
      if (int c = compare(d, p, q)) return c;
    }
    return 0;
  };
  auto equal = [&](int64_t a, int64_t b) {
    for (int64_t k = 0; k < t.width; ++k) {
      if (compare(d, row(a) + k * item, row(b) + k * item)) return false;
    }
    return true;
  };
  std::vector<int64_t> order(t.n);
  std::iota(order.begin(), order.end(), int64_t{0});
  if (sort && t.width == 1) {
    Tensor values = empty(Dims{t.n}, d);
    sort_rows(t.rows->data, values->data, order.data(), d, 1, t.n, t.n, false);
  } else if (sort) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return order_of(a, b) < 0; });
  }
  Groups g;
  g.inverse.resize(t.n);
  for (int64_t i = 0; i < t.n; ++i) {
    if (i == 0 || !equal(order[i - 1], order[i])) {
      g.first.push_back(order[i]);
      g.count.push_back(0);
    }
    g.inverse[order[i]] = static_cast<int64_t>(g.first.size()) - 1;
    ++g.count.back();
  }
  return g;
}

Tensor from_list(const std::vector<int64_t>& v) {
  Tensor t = empty(Dims{static_cast<int64_t>(v.size())}, DType::Int64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}

// The values are elements of the input, and which one of equals is arbitrary: a result that looked
// like a constant would be silently wrong.
[[noreturn]] void refuse_derivative() {
  not_implemented(
      "the derivative for '_unique2' or 'unique_consecutive' is not implemented. fix: detach() the "
      "input if no gradient is wanted");
}
Tensor no_derivative(T, C) { refuse_derivative(); }
Value no_tangent(C, const Tensor*) { refuse_derivative(); }

Value unique_of(Call& c, bool sort, bool inverse, bool counts, const Value& dim_given) {
  Tensor t = c.tensor(0);
  if (is_complex(t.dtype())) runtime_error(c.op.name, "(): complex numbers have no order");
  bool flat = dim_given.is_none();
  int dim = flat ? 0 : wrap_dim(dim_given.integer(), t.ndim());
  Tensor seen = flat ? shaped(contiguous(t), Dims{t.numel()}) : t;
  if (seen.ndim() == 0) seen = shaped(contiguous(t), Dims{1});
  if (!flat && seen.numel() == 0 && seen.size(dim) != 0) {
    runtime_error(
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
        "applied");
  }
  Table table = table_of(seen, dim);
  Groups g = group(table, t.dtype(), sort);
  Dims shape(table.rows.shape());
  shape[0] = static_cast<int64_t>(g.first.size());
  Tensor rows = empty(shape, t.dtype());
  size_t bytes = table.width * t.itemsize();
  for (size_t i = 0; i < g.first.size(); ++i) {
    std::memcpy(rows->data + i * bytes, table.rows->data + g.first[i] * bytes, bytes);
  }
  // Back to where the axis stood.
  Dims back, strides;
  for (int d = 0; d < rows.ndim(); ++d) {
    int from = d < dim ? d + 1 : d == dim ? 0 : d;
    back.push_back(rows.size(from));
    strides.push_back(rows.stride(from));
  }
  Tensor values = contiguous(on_storage(rows->storage, back, strides, 0, t.dtype()));
  if (!inverse && !counts) return values;
  Tensors out{values};
  if (inverse) {
    Tensor where = from_list(g.inverse);
    out.push_back(flat ? shaped(where, Dims(t.shape())) : where);
  }
  if (counts) out.push_back(from_list(g.count));
  return out;
}

// The cells below (or above) a diagonal: rows in the first line, columns in the second. Row i is
// cut at column i + shift, and only the rows that have cells are walked through.
Tensor triangle(Call& c, bool lower) {
  using Wide = __int128;  // row and column numbers add up to more than an int64_t holds
  Wide rows = c.integer(0), columns = c.integer(1), shift = Wide(c.integer(2)) + lower;
  if (rows < 0) runtime_error("row must be non-negative, got ", c.integer(0));
  if (columns < 0) runtime_error("col must be non-negative, got ", c.integer(1));
  Wide first = lower ? std::clamp<Wide>(1 - shift, 0, rows) : 0;
  Wide last = lower ? rows : std::clamp<Wide>(columns - shift, 0, rows);
  if (columns == 0) last = first;
  auto cells = [&](Wide i) {
    Wide cut = std::clamp<Wide>(i + shift, 0, columns);
    return lower ? cut : columns - cut;
  };
  // Rows in which the diagonal cuts; the others, after them or before, are whole.
  Wide from = lower ? first : std::clamp<Wide>(-shift, first, last);
  Wide to = lower ? std::clamp<Wide>(columns - shift, first, last) : last;
  Wide cut = to - from, n = (last - first - cut) * columns;
  if (cut > 0) n += cut * (cells(from) + cells(to - 1)) / 2;
  if (n > INT64_MAX) {
    runtime_error("the triangle of a matrix of ", c.integer(0), " by ", c.integer(1),
                  " has too many cells to list");
  }
  auto total = static_cast<int64_t>(n);
  Tensor out = empty(Dims{2, total}, DType::Int64);
  int64_t *row = out.data<int64_t>(), *column = row + total;
  NowAndThen signals;
  for (Wide i = first; i < last; ++i) {
    auto width = static_cast<int64_t>(cells(i));
    signals.check(1 + width);
    auto begin = lower ? int64_t{0} : static_cast<int64_t>(columns) - width;
    row = std::fill_n(row, width, static_cast<int64_t>(i));
    std::iota(column, column + width, begin);
    column += width;
  }
  return cast(out, c[3].is_none() ? DType::Int64 : c[3].dtype());
}

}  // namespace

static const Op& unique_ =
    def("unique(input, sorted: bool = True, return_inverse: bool = False, return_counts: bool = "
        "False, dim: int? = None)",
        "The distinct elements (or slices along `dim`), sorted; on demand where each element went "
        "and how often each occurs.")
        .forward([](Call& c) -> Value { return unique_of(c, true, c.flag(2), c.flag(3), c[4]); })
        .grad(0, nothing, no_derivative)
        .jvp(no_tangent)
        .no_out()
        .batch(batch::refuse_by_values)
        .by_values()
        .any_dtype();

static const Op& unique_consecutive_ =
    def("unique_consecutive(input, return_inverse: bool = False, return_counts: bool = False, dim: "
        "int? = None)",
        "Runs of equal neighbours, each reduced to one.")
        .forward([](Call& c) -> Value { return unique_of(c, false, c.flag(1), c.flag(2), c[3]); })
        .grad(0, nothing, no_derivative)
        .jvp(no_tangent)
        .no_out()
        .batch(batch::refuse_by_values)
        .by_values()
        .any_dtype();

static const Op& bincount_ =
    def("bincount(input, weights: Tensor? = None, minlength: int = 0)",
        "How often each non-negative integer occurs, or the sum of its weights.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), weights = c.tensor(1);
          if (!is_integral(t.dtype()) || t.dtype() == DType::Bool) {
            not_implemented("\"bincount_cpu\" not implemented for '", t.dtype(), "'");
          }
          if (c.integer(2) < 0) runtime_error("minlength should be >= 0, got ", c.integer(2));
          if (t.ndim() != 1) {
            runtime_error("bincount only supports 1-d non-negative integral inputs. (shape ",
                          t.shape(), ")");
          }
          if (weights && !(weights.shape() == t.shape())) {
            runtime_error("weights should be 1-d and have the same length as input: ",
                          weights.shape(), " and ", t.shape());
          }
          Tensor values = contiguous(cast(t, DType::Int64));
          const int64_t* v = values.data<int64_t>();
          int64_t n = c.integer(2);
          for (int64_t i = 0; i < t.numel(); ++i) {
            if (v[i] < 0) {
              runtime_error("bincount only supports 1-d non-negative integral inputs. (got ", v[i],
                            ")");
            }
            if (v[i] == INT64_MAX) runtime_error("bincount: ", v[i], " needs too many bins");
            n = std::max(n, v[i] + 1);
          }
          if (!weights) {
            Tensor out = zeros(Dims{n}, DType::Int64);
            for (int64_t i = 0; i < t.numel(); ++i) ++out.data<int64_t>()[v[i]];
            return out;
          }
          bool single = weights.dtype() == DType::Float32;
          Tensor w = contiguous(cast(weights, single ? DType::Float32 : DType::Float64));
          Tensor out = zeros(Dims{n}, w.dtype());
          for (int64_t i = 0; i < t.numel(); ++i) {
            if (single) {
              out.data<float>()[v[i]] += w.data<float>()[i];
            } else {
              out.data<double>()[v[i]] += w.data<double>()[i];
            }
          }
          return out;
        })
        .grad(1, input(0),
              [](T g, C c) -> Tensor {
                Tensor at = c.in(0);
                return op<"index_select">(g, 0, op<"_to_copy">(at, Value(DType::Int64)));
              })
        .linear()
        .no_out()
        .batch(batch::each_sample)
        .by_values();

static const Op& histc_ =
    def("histc(input, bins: int = 100, min: Scalar = 0, max: Scalar = 0)",
        "A histogram of `bins` equal bins between min and max; the data's own range when both are "
        "0.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t bins = c.integer(1);
          double low = c.real(2), high = c.real(3);
          if (bins <= 0) runtime_error("bins must be > 0, got ", bins);
          if (!is_floating(t.dtype())) {
            runtime_error("\"histogram_cpu\" not implemented for '", t.dtype(), "'");
          }
          Tensor v = contiguous(cast(t, DType::Float64));
          const double* p = v.data<double>();
          if (low == high && v.numel()) {
            low = *std::min_element(p, p + v.numel());
            high = *std::max_element(p, p + v.numel());
            // Comparisons pass NaN by.
            for (int64_t i = 0; i < v.numel(); ++i) {
              if (std::isnan(p[i])) low = high = p[i];
            }
          }
          if (low == high) low -= 1, high += 1;
          note_check_of_values();
          if (!std::isfinite(low) || !std::isfinite(high)) {
            runtime_error("range of [", low, ", ", high, "] is not finite");
          }
          if (low > high) runtime_error("max must be larger than min, got ", low, " and ", high);
          Tensor out = zeros(Dims{bins}, DType::Float64);
          for (int64_t i = 0; i < v.numel(); ++i) {
            if (!(p[i] >= low && p[i] <= high)) continue;
            // Halved, since the width of a finite range need not be finite.
            double part = (p[i] / 2 - low / 2) / (high / 2 - low / 2);
            int64_t k = part < 1 ? static_cast<int64_t>(part * double(bins)) : bins - 1;
            out.data<double>()[std::min(k, bins - 1)] += 1;
          }
          return cast(out, t.dtype());
        })
        .batch(batch::each_sample);

static const Op& isin_ =
    def("isin(elements|element: Operand, test_elements|test_element: Operand, *, assume_unique: "
        "bool = False, invert: "
        "bool = False)",
        "Whether each element is among the test elements.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          if (!a) a = scalar_tensor(c[0], promote_types(scalar_dtype(c[0]), b.dtype()));
          if (!b) b = scalar_tensor(c[1], promote_types(scalar_dtype(c[1]), a.dtype()));
          DType d = promote_types(a.dtype(), b.dtype());
          if (is_complex(d) || a.dtype() == DType::Bool || b.dtype() == DType::Bool) {
            runtime_error("Unsupported input type encountered for isin(): ",
                          is_complex(d) ? d : DType::Bool);
          }
          Tensor x = contiguous(cast(a, d)), y = contiguous(cast(b, d));
          int64_t n = y.numel(), m = x.numel();
          Tensor sorted = empty(Dims{n}, d), order = empty(Dims{n}, DType::Int64);
          sort_rows(y->data, sorted->data, order.data<int64_t>(), d, 1, n, n, false);
          std::vector<int64_t> at(m);
          search_sorted(sorted->data, nullptr, n, x->data, m, d, false, at.data());
          Tensor out = empty(a.shape(), DType::Bool);
          for (int64_t i = 0; i < m; ++i) {
            bool found = at[i] < n && compare(d, sorted->data + at[i] * sorted.itemsize(),
                                              x->data + i * x.itemsize()) == 0;
            out.data<bool>()[i] = found != c.flag(3);
          }
          return out;
        })
        .function_only()
        .batch(batch::each_sample);

static const Op& tril_indices_ =
    def("tril_indices(row: int, col: int, offset: int = 0, *, dtype: dtype? = None, layout: any? = "
        "None, device: any? = None, pin_memory: bool? = None, requires_grad: bool = False)",
        "The coordinates of the lower triangle of a matrix, as two rows.")
        .forward([](Call& c) -> Value { return triangle(c, true); })
        .function_only()
        .no_out();

static const Op& triu_indices_ =
    def("triu_indices(row: int, col: int, offset: int = 0, *, dtype: dtype? = None, layout: any? = "
        "None, device: any? = None, pin_memory: bool? = None, requires_grad: bool = False)",
        "The coordinates of the upper triangle of a matrix, as two rows.")
        .forward([](Call& c) -> Value { return triangle(c, false); })
        .function_only()
        .no_out();

static const Op& unravel_index_ =
    def("unravel_index(indices, shape: int[])",
        "Flat positions as coordinates, one tensor per axis.")
        .forward([](Call& c) -> Value {
          Tensor flat = contiguous(cast(c.tensor(0), DType::Int64));
          if (!is_integral(c.tensor(0).dtype()) || c.tensor(0).dtype() == DType::Bool) {
            type_error("expected 'indices' to be integer dtype, but got ", c.tensor(0).dtype());
          }
          const Dims& shape = c.ints(1);
          for (int64_t s : shape) {
            if (s >= 0) continue;
            std::string given = to_string(shape);  // as a tuple
            given.front() = '(';
            given.back() = ')';
            value_error("'shape' cannot have negative values, but got ", given);
          }
          int64_t n = checked_numel(shape, 1);
          Tensors out;
          for (int d = 0; d < shape.size(); ++d) out.push_back(empty(flat.shape(), DType::Int64));
          for (int64_t i = 0; i < flat.numel(); ++i) {
            int64_t k = flat.data<int64_t>()[i];
            if (k < -n || k >= n) {
              value_error("index ", k, " is out of bounds for a shape ", shape, " of ", n);
            }
            if (k < 0) k += n;
            for (int d = shape.size() - 1; d >= 0; --d) {
              out[d].data<int64_t>()[i] = k % shape[d];
              k /= shape[d];
            }
          }
          return out;
        })
        .function_only()
        .no_out()
        .batch(batch::each_sample);

// --- choices of several elements -----------------------------------------------------------------
namespace {

// The ways to choose r of n things.
int64_t choices(int64_t n, int64_t r) {
  if (n < 0 || r > n) return 0;
  const int64_t fewer = std::min(r, n - r);
  __int128 count = 1;  // at least doubled by each factor
  for (int64_t i = 1; i <= fewer; ++i) {
    count = count * (n - fewer + i) / i;
    if (count > INT64_MAX)
      runtime_error("combinations: there are too many ways to choose ", r, " of ", n, " elements");
  }
  return static_cast<int64_t>(count);
}

}  // namespace

static const Op& combinations_ =
    def("combinations(input, r: int = 2, with_replacement: bool = False)",
        "All choices of r elements of a vector, one row each.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t r = c.integer(1), n = t.ndim() == 1 ? t.size(0) : 0;
          if (t.ndim() != 1) {
            runtime_error("Expect a 1D vector, but got shape ", t.shape());
          }
          if (r < 0) runtime_error("Expect a non-negative number, but got ", r);
          if (r == 0) return empty(Dims{0}, t.dtype());
          bool again = c.flag(2);
          const int64_t count = again ? choices(checked_add(n, r) - 1, r) : choices(n, r);
          Tensor index = empty(Dims{checked_mul(count, r)}, DType::Int64);
          empty(index.shape(), t.dtype());  // room for the result too, before the work
          std::vector<int64_t> pick(count ? r : 0);
          for (int64_t i = 0; i < r && count; ++i) pick[i] = again ? 0 : i;
          int64_t* row = index.data<int64_t>();
          NowAndThen signals;
          for (int64_t k = 0; k < count; ++k) {
            signals.check(r);
            row = std::copy(pick.begin(), pick.end(), row);
            int64_t i = r - 1;
            while (i >= 0 && pick[i] == (again ? n - 1 : n - r + i)) --i;
            if (i < 0) break;
            int64_t next = ++pick[i];
            for (int64_t j = i + 1; j < r; ++j) pick[j] = again ? next : next + (j - i);
          }
          if (captured()) t_recorder->constant(index.get());
          return unshared(op<"reshape">(op<"index_select">(t, 0, index), Dims{count, r}));
        })
        .no_out();

}  // namespace adjoint
