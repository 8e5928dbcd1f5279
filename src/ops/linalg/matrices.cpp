// See matrices.h.
#include "ops/linalg/matrices.h"

#include "dispatch/program_recorder.h"

namespace adjoint::matrices {

void check_ndim(const char* name, T a, const char* argument) {
  if (a.ndim() >= 2) return;
  runtime_error(name, ": The input tensor ", argument,
                " must have at least 2 dimensions, but its shape is ", a.shape(), ".");
}

void check_square(const char* name, T a, const char* argument) {
  check_ndim(name, a, argument);
  if (a.size(-2) == a.size(-1)) return;
  runtime_error(name, ": ", argument, " must be batches of square matrices, but they are ",
                a.size(-2), " by ", a.size(-1), " matrices");
}

void check_floating(const char* name, T a) {
  if (!is_integral(a.dtype())) return;
  runtime_error(name, ": Expected a floating point or complex tensor as input. Got ", a.dtype());
}

void check_full_precision(const char* kernel, T a) {
  if (!is_half(a.dtype()) && !is_integral(a.dtype())) return;
  not_implemented("\"", kernel, "\" not implemented for '", a.dtype(),
                  "'; fix: convert to float32 or float64");
}

void check_same_dtype(const char* name, T a, T b, const char* of_a, const char* of_b) {
  if (a.dtype() == b.dtype()) return;
  runtime_error(name, ": Expected ", of_a, " and ", of_b, " to have the same dtype, but found ",
                of_a, " of type ", a.dtype(), " and ", of_b, " of type ", b.dtype(), " instead");
}

void check_system(const char* name, T a, T b, bool left) {
  check_square(name, a);
  check_ndim(name, b, "B");
  if (a.size(-2) == b.size(left ? -2 : -1)) return;
  runtime_error(name, ": Incompatible shapes of A and B for the equation ",
                left ? "AX = B" : "XA = B", " (", a.size(-2), "x", a.size(-1), " and ", b.size(-2),
                "x", b.size(-1), ")");
}

void check_info(const char* name, T info, Describe describe) {
  note_check_of_values();
  const int* codes = info.data<int>();
  for (int64_t k = 0; k < info.numel(); ++k) {
    if (codes[k] == 0) continue;
    if (info.ndim() == 0) linalg_error(name, ": ", describe(codes[k]));
    linalg_error(name, ": (Batch element ", k, "): ", describe(codes[k]));
  }
}

std::string singular_solver(int) {
  return "The solver failed because the input matrix is singular.";
}
std::string singular_inverse(int code) {
  return text("The diagonal element ", code,
              " is zero, the inversion could not be completed because the input matrix is "
              "singular.");
}

// --- memory --------------------------------------------------------------------------------------
Dims leading_of(T a) { return Span{a->shape, a.ndim() - 2}; }

Dims with_matrix(Dims leading, int64_t m, int64_t n) {
  leading.push_back(m);
  leading.push_back(n);
  return leading;
}

int64_t count_of(Span leading) {
  int64_t n = 1;
  for (int64_t s : leading) n *= s;
  return n;
}

namespace {

// The stride from one matrix to the next, if there is one.
bool find_step(T a, int64_t& step) {
  step = 0;
  int64_t expected = -1;
  for (int d = a.ndim() - 3; d >= 0; --d) {
    const int64_t size = a->shape[d], stride = a->strides[d];
    if (size == 1) continue;
    if (expected < 0)
      step = stride;
    else if (stride != expected)
      return false;
    expected = stride * size;
  }
  return true;
}

linalg::ConstPlace place(T a, int64_t step) {
  return {a.bytes(), a.stride(-2), a.stride(-1), step};
}

}  // namespace

Laid lay(T a) {
  Laid out{a, {}, count_of({a->shape, a.ndim() - 2})};
  int64_t step;
  if (!find_step(a, step)) {
    out.tensor = empty(a.shape(), a.dtype());
    copy_into(out.tensor, a);
    find_step(out.tensor, step);
  }
  out.at = place(out.tensor, step);
  return out;
}

Laid lay(T a, Span leading) {
  Laid out;
  if (Span{a->shape, a.ndim() - 2} == leading) {
    out = lay(a);
  } else if (count_of({a->shape, a.ndim() - 2}) == 1) {
    out = {a, place(a, 0), 1};
  } else {
    GradMode off(false);
    Uncaptured unseen;
    out = lay(op<"expand">(a, with_matrix(leading, a.size(-2), a.size(-1))));
  }
  out.count = count_of(leading);
  return out;
}

Tensor empty_columns(Dims leading, int64_t m, int64_t n, DType dtype) {
  Dims shape = with_matrix(std::move(leading), m, n);
  Dims strides = contiguous_strides(shape);
  const int d = shape.size();
  strides[d - 2] = 1;
  strides[d - 1] = std::max<int64_t>(m, 1);
  return empty_strided(shape, strides, dtype);
}

Tensor columns_of(T a) { return columns_of(a, {a->shape, a.ndim() - 2}); }

Tensor columns_of(T a, Span leading) {
  const int64_t m = a.size(-2), n = a.size(-1);
  Tensor out = empty_columns(leading, m, n, a.dtype());
  if (out.numel() == 0) return out;
  Laid from = lay(a, leading);
  WithoutGil release(out.numel() >= kReleaseGil);
  linalg::gather(a.dtype(), from.count, m, n, from.at, out.bytes());
  return out;
}

Tensor empty_info(Span leading) { return empty(leading, DType::Int32); }

}  // namespace adjoint::matrices
