// Rules for shapes, views, sums and transforms. Read operand_rules.h first.
#include "program/operand_rules.h"

#include <string_view>
#include <unordered_map>

#include "dispatch/program_recorder.h"
#include "tensor/checked.h"
#include "tensor/self_overlap.h"

namespace adjoint {
namespace operands {

bool are_between(const Dims& d, int64_t least, int64_t most) {
  for (int64_t n : d) {
    if (n < least || n >= most) return false;
  }
  return true;
}

Tensor blank(Span shape, DType dtype) {
  checked_numel(shape, item_size(dtype));
  Tensor one = zeros(Dims{1}, dtype);
  return on_storage(one->storage, shape, Dims(shape.n, 0), 0, dtype);
}

Dims summed_shape(Span whole, const Dims& dims, bool keepdim) {
  uint64_t mask = dims.empty() ? ~uint64_t{0} : 0;
  for (int64_t d : dims) mask |= uint64_t{1} << wrap_dim(d, whole.n);
  Dims shape;
  for (int i = 0; i < whole.n; ++i) {
    if (!(mask >> i & 1))
      shape.push_back(whole[i]);
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

Dims with_back(Span shape, int64_t last) {
  Dims d(shape);
  d.push_back(last);
  return d;
}

namespace {

bool has_sizes(const Dims& d) { return are_between(d, 0); }

// A gradient of a view has the view's shape.
bool is_seen_by(const Tensor& view, const Call& c) {
  return same(view.shape(), c.tensor(0).shape());
}

bool is_reshaped(const Call& c) {
  const Dims& shape = c.ints(1);
  return has_sizes(shape) && checked_numel(shape, 1) == c.tensor(0).numel();
}

bool is_strided(Span shape, const Dims& strides) {
  return shape.n == strides.size() && are_between(strides, 0, int64_t{1} << 40);
}
bool restrides(const Call& c) {
  const Dims &size = c.ints(3), &to = c.ints(4);
  auto ends = [](Span shape, const Dims& strides, int64_t start) {
    int64_t last = start;
    for (int i = 0; i < shape.n; ++i)
      last = checked_add(last, checked_mul(std::max<int64_t>(shape[i] - 1, 0), strides[i]));
    return start >= 0 && last < (int64_t{1} << 40);
  };
  Span from = c.tensor(0).shape();
  return is_number(c.tensor(0)) && has_sizes(size) && is_strided(from, c.ints(1)) &&
         is_strided(size, to) && ends(from, c.ints(1), c.integer(2)) &&
         ends(size, to, c.integer(5));
}

bool are_axes(const Dims& dims, int ndim) {
  for (int64_t d : dims) {
    if (!is_axis(d, ndim)) return false;
  }
  return true;
}
bool spreads(const Call& c) {
  const Dims& size = c.ints(1);
  Dims dims = c[2].is_none() ? Dims() : c.ints(2);
  return has_sizes(size) && are_axes(dims, size.size()) &&
         same(summed_shape(size, dims, c.flag(3)), c.tensor(0).shape());
}

// `index` has one number for each element that is read or written.
bool gathers(const Call& c) {
  Tensor t = c.tensor(0), index = c.tensor(1);
  if (index.dtype() != DType::Int64 || index.ndim() != t.ndim()) return false;
  if (t.ndim() == 0) return c.integer(2) == 0 || c.integer(2) == -1;
  if (!is_axis(c.integer(2), t.ndim())) return false;
  Dims shape(index.shape());
  int axis = wrap_dim(c.integer(2), t.ndim());
  shape[axis] = t.size(axis);
  return same(shape, t.shape());
}
bool scatters(const Call& c) {
  Tensor g = c.tensor(0), index = c.tensor(1);
  return is_number(g) && index.dtype() == DType::Int64 && same(index.shape(), g.shape()) &&
         c.integer(2) >= 0 && (g.ndim() == 0 ? c.integer(2) == 1 : is_axis(c.integer(3), g.ndim()));
}

// g and the result have the shape of a product along an axis of the input.
bool has_axis(const Call& c, Span whole) {
  return whole.n > 0 && c.integer(3) >= 0 && c.integer(3) < whole.n && is_number(c.tensor(0)) &&
         c.tensor(0).dtype() == c.tensor(1).dtype() && c.tensor(1).dtype() == c.tensor(2).dtype();
}
bool is_product(const Call& c) {
  Span whole = c.tensor(1).shape();
  if (!has_axis(c, whole)) return false;
  Dims reduced = summed_shape(whole, Dims{c.integer(3)}, c.flag(4));
  return same(reduced, c.tensor(0).shape()) && same(reduced, c.tensor(2).shape());
}
bool is_running_product(const Call& c) {
  Span whole = c.tensor(1).shape();
  return has_axis(c, whole) && same(whole, c.tensor(0).shape()) && same(whole, c.tensor(2).shape());
}

bool is_transform(const Call& c) {
  const Dims& dims = c.ints(1);
  uint64_t seen = 0;
  for (int64_t d : dims) {
    if (!is_axis(d, c.tensor(0).ndim())) return false;
    uint64_t bit = uint64_t{1} << wrap_dim(d, c.tensor(0).ndim());
    if (seen & bit) return false;
    seen |= bit;
  }
  return is_number(c.tensor(0)) && c.integer(2) >= 0 && c.integer(2) <= 2;
}

constexpr Entry kRules[] = {
    {"_to_copy", any},
    {"slice", any},
    {"alias", any},
    {"index", any},
    {"_ones_like", any},
    {"_zeros_of_shape", [](const Call& c) { return has_sizes(c.ints(1)); }},
    {"_unsafe_view", is_reshaped},
    {"_unsafe_squeeze", is_reshaped},
    {"_with_strides",
     [](const Call& c) {
       Span shape = c.tensor(0).shape();
       return is_strided(shape, c.ints(1)) && !places_repeat(Dims(shape), c.ints(1));
     }},
    {"_restride", restrides},
    {"_select_backward",
     [](const Call& c) {
       return has_sizes(c.ints(1)) &&
              is_seen_by(op<"select">(blank(c.ints(1), DType::Bool), c[2], c[3]), c);
     }},
    {"_slice_backward",
     [](const Call& c) {
       return has_sizes(c.ints(1)) &&
              is_seen_by(op<"slice">(blank(c.ints(1), DType::Bool), c[2], c[3], c[4], c[5]), c);
     }},
    {"_diagonal_backward",
     [](const Call& c) {
       return has_sizes(c.ints(1)) &&
              is_seen_by(op<"diagonal">(blank(c.ints(1), DType::Bool), c[2], c[3], c[4]), c);
     }},
    {"_unfold_backward",
     [](const Call& c) {
       return is_number(c.tensor(0)) && has_sizes(c.ints(1)) &&
              is_seen_by(op<"unfold">(blank(c.ints(1), DType::Bool), c[2], c[3], c[4]), c);
     }},
    {"_spread", spreads},
    {"_gather_along", gathers},
    {"_scatter_along", scatters},
    {"_prod_grad", is_product},
    {"_cumprod_grad", is_running_product},
    {"_cumsum_from_end",
     [](const Call& c) {
       return is_number(c.tensor(0)) && is_axis(c.integer(1), std::max(c.tensor(0).ndim(), 1));
     }},
    {"_fft_c2c", is_transform},
    {"_fft_r2c", is_transform},
    {"_fft_c2r", is_transform},
};

using Table = std::unordered_map<std::string_view, Rule>;
const Table& rules() {
  static const Table table = [] {
    Table t;
    for (std::span<const Entry> some :
         {std::span<const Entry>(kRules), layer_rules(), matrix_rules()}) {
      for (const Entry& e : some) t.emplace(find_op(e.op).full_name, e.fits);
    }
    return t;
  }();
  return table;
}

bool is_private(const Op& op) {
  return op.name.front() == '_' || !(op.as_function || op.as_method || op.has_inplace);
}

}  // namespace
}  // namespace operands

bool has_operand_rule(const Op& op) {
  return !operands::is_private(op) || op.is_elementwise || operands::rules().count(op.full_name);
}

void refuse_operands(const Op& op) {
  value_error("`", op.name, "` may not stand in a file: it trusts its operands");
}

void check_operands(const Call& c) {
  if (!operands::is_private(c.op) || c.op.is_elementwise) return;
  auto found = operands::rules().find(c.op.full_name);
  if (found == operands::rules().end()) refuse_operands(c.op);
  Uncaptured quiet;
  GradMode off(false);
  if (!found->second(c)) value_error("operands of `", c.op.name, "` do not fit one another");
}

}  // namespace adjoint
