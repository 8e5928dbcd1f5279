// Read calls.h first.
#include "program/fuse/calls.h"

#include "dispatch/elementwise_forward.h"
#include "kernels/products/gemm.h"
#include "kernels/reduce/reduce.h"
#include "python/gil.h"

namespace adjoint {

namespace {

constexpr int64_t kMostRows = 128;  // from which on partial sums are folded
bool is_plain(const reduce::Problem& p) {
  return p.kind == reduce::Sum && (p.dtype == DType::Float32 || p.dtype == DType::Float64) &&
         p.accumulator == p.dtype && p.out_dtype == p.dtype && p.divisor == 0 && !p.centre &&
         p.reduced.count == 1;
}
// Of one row without gaps.
bool is_sum_of_row(const reduce::Problem& p) {
  return is_plain(p) && p.kept.count == 0 &&
         p.reduced.stride[0] == static_cast<int64_t>(item_size(p.dtype));
}
// Over a few rows, of columns that lie side by side.
bool is_sum_of_columns(const reduce::Problem& p) {
  const reduce::Axes &k = p.kept, &r = p.reduced;
  return is_plain(p) && r.size[0] < kMostRows && (k.count == 1 || k.count == 2) &&
         k.stride[k.count - 1] == static_cast<int64_t>(item_size(p.dtype)) &&
         r.stride[0] > k.stride[k.count - 1];
}

}  // namespace

std::optional<KernelSum> kernel_sum(const reduce::Problem& p) {
  if (!is_sum_of_columns(p)) return {};
  static const Kernel& kernel = kernel_named("sum_columns");
  const reduce::Axes& k = p.kept;
  KernelSum made{kernel.loop[static_cast<int>(p.dtype)],
                 SummedColumns{p.reduced.size[0], p.reduced.stride[0]}, k.size[k.count - 1]};
  if (k.count == 2) {
    made.calls = k.size[0];
    made.to = made.n * static_cast<int64_t>(item_size(p.dtype));
    made.from = k.stride[0];
  }
  return made;
}

void sum_loop(char* const* p, int64_t) {
  auto& problem = *reinterpret_cast<reduce::Problem*>(p[0]);
  if (is_sum_of_row(problem))
    return reduce::loops(reduce::Sum, problem.dtype)
        .row(p[2], problem.reduced.size[0], p[1], nullptr);
  if (std::optional<KernelSum> sum = kernel_sum(problem)) {
    char* about = reinterpret_cast<char*>(&std::get<SummedColumns>(sum->about));
    for (int64_t k = 0; k < sum->calls; ++k) {
      char* const arguments[] = {p[1] + k * sum->to, p[2] + k * sum->from, about};
      sum->loop(arguments, sum->n);
    }
    return;
  }
  problem.out = p[1];
  problem.data = p[2];
  reduce::run(problem);
}

namespace {

constexpr int64_t kSmallSum = kBlockNumel;  // elements

// --- products ------------------------------------------------------------------------------------
struct Factors {
  DType dtype = DType::Float32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix a{}, b{};  // without the memory
  int64_t a_batch = 0, b_batch = 0;
  Scale alpha = 1.0, beta = 0.0;
};

void product_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Factors*>(p[0]);
  Matrix a = q.a, b = q.b;
  a.data = p[2];
  b.data = p[3];
  gemm(q.dtype, q.m, q.n, q.k, a, b, p[1], q.n, q.alpha, q.beta);
}
void batch_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Factors*>(p[0]);
  Matrix a = q.a, b = q.b;
  a.data = p[2];
  b.data = p[3];
  gemm_batch(q.dtype, q.batch, q.m, q.n, q.k, a, q.a_batch, b, q.b_batch, p[1], q.m * q.n, q.n,
             q.alpha, q.beta);
}
void dot_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Factors*>(p[0]);
  dot(q.dtype, q.k, p[2], q.a.col_stride, p[3], q.b.row_stride, p[1]);
}

Matrix matrix(const TensorGeometry& g) {
  int n = g.strides.size();
  return {nullptr, g.strides[n - 2], g.strides[n - 1]};
}

// The product that an op with several forms comes down to, by the axes of its factors.
Product form_of(Product form, int a, int b) {
  if (form == Product::Transposed) return b == 2 && a > 0 ? form : Product::None;
  if (form != Product::ByAxes) return form;
  if (a == 2 && b == 2) return Product::Matrices;
  if (a == 2 && b == 1) return Product::MatrixVector;
  if (a == 1 && b == 1) return Product::Vectors;
  if (a == 3 && b == 3) return Product::Batches;
  return Product::None;
}

// Sets what is multiplied; false for what is not a product, or one whose rows have to be copied first.
bool set_product(Factors& q, SmallCall& call, Product form, const TensorGeometry& a,
                 const TensorGeometry& b) {
  switch (form_of(form, a.shape.size(), b.shape.size())) {
    case Product::Matrices:
      q.a = matrix(a);
      q.b = matrix(b);
      q.m = a.shape[0], q.k = a.shape[1], q.n = b.shape[1];
      return true;
    case Product::Batches:
      if (a.shape[0] != b.shape[0]) return false;
      call.loop = batch_loop;
      q.a = matrix(a);
      q.b = matrix(b);
      q.batch = a.shape[0], q.m = a.shape[1], q.k = a.shape[2], q.n = b.shape[2];
      q.a_batch = a.strides[0], q.b_batch = b.strides[0];
      return true;
    case Product::MatrixVector:
      q.a = matrix(a);
      q.b = {nullptr, b.strides[0], 1};
      q.m = a.shape[0], q.k = a.shape[1];
      return true;
    case Product::Vectors:
      call.loop = dot_loop;
      q.a = {nullptr, 1, a.strides[0]};
      q.b = {nullptr, b.strides[0], 1};
      q.k = a.shape[0];
      return true;
    case Product::Transposed:
      q.k = b.shape[1], q.n = b.shape[0];
      if (a.shape.size() == 2)
        q.a = matrix(a);
      else if (a.contiguous)
        q.a = {nullptr, q.k, 1};
      else
        return false;
      q.m = q.k ? a.numel / q.k : 0;
      q.b = {nullptr, b.strides[1], b.strides[0]};
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<SmallCall> call_of(const Instruction& i, const std::vector<Register>& registers) {
  if (i.kind != Kind::Apply || i.writes.size() != 1 || i.writes[0] < 0 || i.reads.empty())
    return {};
  auto geometry = [&](int read) -> const TensorGeometry& {
    return registers[i.reads[read].reg].geometry();
  };
  for (size_t k = 0; k < i.reads.size(); ++k) {
    if (geometry(static_cast<int>(k)).pending) return {};
  }
  SmallCall call;
  if (const reduce::Problem* sum = i.sum()) {
    if (geometry(0).numel >= kSmallSum) return {};
    call.loop = sum_loop;
    call.what = std::make_shared<reduce::Problem>(*sum);
    call.reads = {0};
    return call;
  }
  const ProductForm& form = i.op->facts.product;
  if (form.form == Product::None) return {};
  auto read_of = [&](int argument) {
    for (size_t k = 0; k < i.reads.size(); ++k) {
      if (i.reads[k].argument == argument) return static_cast<int>(k);
    }
    return -1;
  };
  int added = form.added < 0 ? -1 : read_of(form.added);
  call.reads = {read_of(form.first), read_of(form.first + 1)};
  size_t operands = added < 0 ? 2 : 3;
  if (i.reads.size() != operands || call.reads[0] < 0 || call.reads[1] < 0) return {};
  // beta * input + alpha * product: of matrices only.
  bool scaled = form.added == 0;
  if (scaled && form.form != Product::Matrices) return {};
  call.loop = product_loop;
  auto q = std::make_shared<Factors>();
  q->dtype = geometry(0).dtype;
  if (!set_product(*q, call, form.form, geometry(call.reads[0]), geometry(call.reads[1])))
    return {};
  // Longer ones run without the GIL, on all threads.
  if (q->m * q->n * q->k == 0 || q->batch * q->m * q->n * q->k >= kReleaseGil) return {};
  if (scaled) {
    q->alpha = i.args[4].complex();
    q->beta = i.args[3].complex();
    if (q->beta != 0.0) call.start = added;
  } else if (added >= 0) {
    q->beta = 1.0;
    call.start = added;
  }
  call.what = std::move(q);
  return call;
}

}  // namespace adjoint
