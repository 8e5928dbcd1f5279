// The registry of ops and small helpers for forwards.
#include "dispatch/op.h"

#include <unordered_map>

#include "dispatch/elementwise_forward.h"

namespace adjoint {
namespace {

std::vector<Op*>& registry() {
  static std::vector<Op*> ops;
  return ops;
}
std::unordered_map<std::string_view, Op*>& by_name() {
  static std::unordered_map<std::string_view, Op*> map;
  return map;
}

// "log_softmax" -> "LogSoftmaxBackward0"
std::string node_name_of(const std::string& name) {
  std::string out;
  bool upper = true;
  for (char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(std::toupper(c)) : c;
      upper = false;
    }
  }
  return out + "Backward0";
}

std::string family_of(std::string file) {
  size_t slash = file.find_last_of('/'), dot = file.find_last_of('.');
  return file.substr(slash + 1, dot - slash - 1);
}

}  // namespace

Block def(const char* schema, const char* doc, const char* file) {
  Op* op = new Op;  // lives as long as the process
  op->schema = parse_schema(schema);
  op->name = op->schema.name;
  op->full_name = op->name + (op->schema.overload.empty() ? "" : "." + op->schema.overload);
  op->doc = doc;
  op->node_name = node_name_of(op->name);
  op->family = family_of(file);
  op->argument_count = static_cast<int>(op->schema.arguments.size());
  op->edge_of.fill(-1);
  // Lists come last, since how many edges one has is known only when it is called.
  for (bool lists : {false, true}) {
    for (int i = 0; i < op->argument_count; ++i) {
      const Argument& a = op->schema.arguments[i];
      if (!a.is_tensor() || (a.type == ArgType::TensorList) != lists) continue;
      op->takes_list |= lists;
      op->edge_of[i] = static_cast<int8_t>(op->tensor_arguments);
      op->tensor_at[op->tensor_arguments++] = static_cast<int8_t>(i);
    }
  }
  if (op->argument_count > kMaxArguments || op->tensor_arguments > kMaxTensorArguments) {
    throw std::logic_error("too many arguments: " + op->full_name);
  }
  registry().push_back(op);
  if (!by_name().emplace(op->full_name, op).second) {
    throw std::logic_error("two ops are named " + op->full_name);
  }
  return Block(op);
}

Block& Block::alias(const char* name) { return op_->aliases.push_back(name), *this; }

Block& Block::results(std::initializer_list<const char*> names) {
  return op_->result_fields.assign(names.begin(), names.end()), *this;
}

Block& Block::elementwise(const char* kernel, Promotion p) {
  op_->kernel_name = kernel;
  op_->promotion = p;
  op_->is_elementwise = true;
  op_->forward = elementwise_forward;
  return *this;
}

const std::vector<Op*>& all_ops() { return registry(); }

const Op& find_op(std::string_view name) {
  auto found = by_name().find(name);
  if (found == by_name().end()) throw std::logic_error("no op named " + std::string(name));
  return *found->second;
}

namespace {

void find_direct_loops(Op& op) {
  const char* name = op.direct_kernel ? op.direct_kernel : op.kernel_name;
  if (!name) return;
  const Kernel& kernel = kernel_named(name);
  if (!op.direct_kernel) op.operands = op.argument_count == kernel.inputs ? op.argument_count : 0;
  if (kernel.result != Result::Same || op.operands > 2) op.operands = 0;
  for (int d = 0; op.operands && d < kDTypes; ++d) {
    // 16-bit floats are converted; integer loops may divide by zero, which only the general way
    // reports.
    if (!is_half(static_cast<DType>(d)) && !is_integral(static_cast<DType>(d)))
      op.direct[d] = kernel.loop[d];
  }
  for (int i = 0; i < op.operands; ++i) {
    if (!op.grads[i]) continue;
    op.direct_rules |= 1u << i;
    for (unsigned needs = 0; needs < 4; ++needs) {
      if (needs >> i & 1) op.direct_uses[needs] = op.direct_uses[needs] | op.uses[i];
    }
  }
}

}  // namespace

void finish_ops() {
  for (Op* op : registry()) {
    if (op->kernel_name) op->kernel = &kernel_named(op->kernel_name);
    find_direct_loops(*op);
    settle_facts(*op);
  }
}

int wrap_dim(int64_t dim, int ndim) {
  int64_t n = std::max(ndim, 1);
  if (dim < -n || dim >= n) {
    index_error("Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
                "], but got ", dim, ")");
  }
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

Dims broadcast_shapes(Span a, Span b) {
  int n = std::max(a.n, b.n);
  Dims out(n);
  for (int i = 0; i < n; ++i) {
    int64_t x = i < n - a.n ? 1 : a[i - (n - a.n)], y = i < n - b.n ? 1 : b[i - (n - b.n)];
    if (x != y && x != 1 && y != 1) {
      runtime_error("The size of tensor a (", x, ") must match the size of tensor b (", y,
                    ") at non-singleton dimension ", i, " (shapes ", a, " and ", b, ")");
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace adjoint
