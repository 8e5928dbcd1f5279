// Read calls.h first.
#include "program/fuse/calls.h"

#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "python/gil.h"

namespace adjoint {
namespace {

constexpr int64_t kSmallSum = 8192;  // elements

// --- sums ----------------------------------------------------------------------------------------
void sum_loop(char* const* p, int64_t) {
  auto& problem = *reinterpret_cast<reduce::Problem*>(p[0]);
  problem.out = p[1];
  problem.data = p[2];
  reduce::run(problem);
}

// --- products ------------------------------------------------------------------------------------
struct Product {
  DType dtype = DType::Float32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix a{}, b{};  // without the memory
  int64_t a_batch = 0, b_batch = 0;
  Scale alpha = 1.0, beta = 0.0;
};

void product_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Product*>(p[0]);
  Matrix a = q.a, b = q.b;
  a.data = p[2];
  b.data = p[3];
  gemm(q.dtype, q.m, q.n, q.k, a, b, p[1], q.n, q.alpha, q.beta);
}
void batch_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Product*>(p[0]);
  Matrix a = q.a, b = q.b;
  a.data = p[2];
  b.data = p[3];
  gemm_batch(q.dtype, q.batch, q.m, q.n, q.k, a, q.a_batch, b, q.b_batch, p[1], q.m * q.n, q.n,
             q.alpha, q.beta);
}
void dot_loop(char* const* p, int64_t) {
  const auto& q = *reinterpret_cast<const Product*>(p[0]);
  dot(q.dtype, q.k, p[2], q.a.col_stride, p[3], q.b.row_stride, p[1]);
}

Matrix matrix(const Geometry& g) {
  int n = g.strides.size();
  return {nullptr, g.strides[n - 2], g.strides[n - 1]};
}

// The product that an op with several forms comes down to, by the axes of its operands.
std::string_view form_of(const std::string& name, int a, int b) {
  if (name == "linear") return b == 2 && a > 0 ? "_linear" : "";
  if (name != "matmul") return name;
  if (a == 2 && b == 2) return "mm";
  if (a == 2 && b == 1) return "mv";
  if (a == 1 && b == 1) return "dot";
  if (a == 3 && b == 3) return "bmm";
  return "";
}

// Sets what is multiplied; false for what is no product, or one whose rows have to be copied first.
bool set_product(Product& q, SmallCall& call, const Instruction& i, const Geometry& a,
                 const Geometry& b) {
  std::string_view name = form_of(i.op->full_name, a.shape.size(), b.shape.size());
  if (name == "mm" || name == "addmm") {
    q.a = matrix(a);
    q.b = matrix(b);
    q.m = a.shape[0], q.k = a.shape[1], q.n = b.shape[1];
  } else if (name == "bmm" && a.shape[0] == b.shape[0]) {
    call.loop = batch_loop;
    q.a = matrix(a);
    q.b = matrix(b);
    q.batch = a.shape[0], q.m = a.shape[1], q.k = a.shape[2], q.n = b.shape[2];
    q.a_batch = a.strides[0], q.b_batch = b.strides[0];
  } else if (name == "mv") {
    q.a = matrix(a);
    q.b = {nullptr, b.strides[0], 1};
    q.m = a.shape[0], q.k = a.shape[1];
  } else if (name == "dot") {
    call.loop = dot_loop;
    q.a = {nullptr, 1, a.strides[0]};
    q.b = {nullptr, b.strides[0], 1};
    q.k = a.shape[0];
  } else if (name == "_linear" || name == "_linear_bias") {
    q.k = b.shape[1], q.n = b.shape[0];
    if (a.shape.size() == 2)
      q.a = matrix(a);
    else if (a.contiguous())
      q.a = {nullptr, q.k, 1};
    else
      return false;
    q.m = q.k ? a.numel() / q.k : 0;
    q.b = {nullptr, b.strides[1], b.strides[0]};
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<SmallCall> call_of(const Instruction& i, const std::vector<Register>& registers) {
  if (i.kind != Kind::Apply || i.writes.size() != 1 || i.writes[0] < 0 || i.reads.empty())
    return {};
  auto geometry = [&](int read) -> const Geometry& {
    return registers[i.reads[read].reg].geometry;
  };
  SmallCall call;
  if (i.sum) {
    if (geometry(0).numel() >= kSmallSum) return {};
    call.loop = sum_loop;
    call.what = std::make_shared<reduce::Problem>(*i.sum);
    call.reads = {0};
    return call;
  }
  const std::string& name = i.op->full_name;
  bool adds = name == "addmm";
  bool biased = name == "_linear_bias" || (name == "linear" && i.reads.size() == 3);
  size_t operands = adds || biased ? 3 : 2;
  if (i.reads.size() != operands) return {};
  call.reads = adds ? std::vector<int>{1, 2} : std::vector<int>{0, 1};
  call.loop = product_loop;
  auto q = std::make_shared<Product>();
  q->dtype = geometry(0).dtype;
  if (!set_product(*q, call, i, geometry(call.reads[0]), geometry(call.reads[1]))) return {};
  // Longer ones run without the GIL, on all threads.
  if (q->m * q->n * q->k == 0 || q->batch * q->m * q->n * q->k >= kReleaseGil) return {};
  if (biased) {
    call.start = 2;
    q->beta = 1.0;
  }
  if (adds) {
    q->alpha = i.args[4].complex();
    q->beta = i.args[3].complex();
    if (q->beta != 0.0) call.start = 0;
  }
  call.what = std::move(q);
  return call;
}

}  // namespace adjoint
