// Read early_slopes.h first.
#include "program/passes/early_slopes.h"

#include <map>

#include "kernels/kernel_pair.h"

namespace adjoint {
namespace {

// The function of an instruction on one register, or its derivative there.
struct Role {
  const KernelPair* pair = nullptr;
  bool product = false;
  int argument = -1;  // the register
};

Role role_of(const Program& p, const Instruction& i) {
  if (i.kind != Kind::Apply || !i.kernel || i.changes || i.writes.size() != 1 || i.writes[0] < 0)
    return {};
  const KernelCall& call = *i.kernel;
  const DType d = call.common;
  // Narrower floats are rounded after every op: the slope would be, too.
  if (d != DType::Float32 && d != DType::Float64) return {};
  for (const KernelCall::Operand& o : call.operands) {
    if (o.read < 0 || p.registers[i.reads[o.read].reg].geometry().dtype != d) return {};
  }
  int count;
  const KernelPair* pairs = kernel_pairs(&count);
  for (const KernelPair* pair = pairs; pair != pairs + count; ++pair) {
    if (!pair->loop[static_cast<int>(d)]) continue;
    bool product = call.kernel == pair->product;
    if (product || call.kernel == pair->first)
      return {pair, product, i.reads[call.operands[product ? 1 : 0].read].reg};
  }
  return {};
}

// The functions of a program that have such a derivative, by argument.
struct Found {
  Role role;
  size_t at;  // the instruction
  std::vector<size_t> products;
};

class EarlySlopes {
 public:
  explicit EarlySlopes(Program& p) : p_(p) {}

  void run() {
    std::map<int, Found> found;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      Role role = role_of(p_, p_.code[k]);
      if (!role.pair || !fits(p_.code[k], role.argument)) continue;
      auto known = found.find(role.argument);
      if (!role.product)
        found.try_emplace(role.argument, Found{role, k, {}});
      else if (known != found.end() && known->second.role.pair == role.pair)
        known->second.products.push_back(k);
    }
    std::erase_if(
        found, [&](const auto& f) { return f.second.products.empty() || is_read_later(f.second); });
    if (!found.empty()) rewrite(found);
  }

 private:
  // Large, of one layout, and made here by something that leaves it as it is.
  bool fits(const Instruction& i, int argument) const {
    const TensorGeometry& x = p_.registers[argument].geometry();
    const Memory& memory = p_.roots[p_.registers[argument].root];
    return x.numel >= kBlockNumel && x.dense && !x.pending && !memory.external && !memory.changed &&
           p_.registers[i.writes[0]].geometry() == x;
  }

  // Whether the argument is there after the function for something else than the derivative.
  bool is_read_later(const Found& f) const {
    const int root = p_.registers[f.role.argument].root;
    for (int r : p_.outputs) {
      if (r >= 0 && p_.registers[r].root == root) return true;
    }
    for (size_t k = 0; k < p_.code.size(); ++k) {
      if (std::ranges::find(f.products, k) != f.products.end()) {
        // g itself must be something else.
        const Instruction& i = p_.code[k];
        if (i.reads[i.kernel->operands[0].read].reg == f.role.argument) return true;
        continue;
      }
      for (const Read& r : p_.code[k].reads) {
        bool alias = p_.code[k].kind == Kind::Alias;
        if (p_.registers[r.reg].root == root && (k > f.at || alias)) return true;
      }
    }
    return false;
  }

  void rewrite(const std::map<int, Found>& found) {
    std::map<size_t, Instruction> after;  // slopes, by the instruction that they follow
    for (const auto& [argument, f] : found) {
      int slope = new_register(argument);
      after.emplace(f.at, slope_of(p_.code[f.products[0]], argument, slope));
      for (size_t k : f.products) make_plain(p_.code[k], slope);
    }
    std::vector<Instruction> code;
    code.reserve(p_.code.size() + after.size());
    for (size_t k = 0; k < p_.code.size(); ++k) {
      code.push_back(std::move(p_.code[k]));
      if (auto slope = after.find(k); slope != after.end())
        code.push_back(std::move(slope->second));
    }
    p_.code = std::move(code);
  }

  int new_register(int like) {
    p_.registers.push_back({p_.registers[like].form, 0, static_cast<int>(p_.roots.size())});
    p_.roots.push_back({});
    return static_cast<int>(p_.registers.size()) - 1;
  }

  // 1 * slope(x), which is the slope to the last bit.
  Instruction slope_of(const Instruction& product, int argument, int result) {
    const KernelCall& call = *product.kernel;
    const int16_t g = product.reads[call.operands[0].read].argument,
                  x = product.reads[call.operands[1].read].argument;
    Instruction i;
    i.op = product.op;
    i.line = product.line;
    std::vector<Value> args(product.args, product.args + product.op->argument_count);
    args[static_cast<size_t>(g)] = Value(1.0);
    i.args = p_.descriptions->arguments(*i.op, args.data());
    const int reads[] = {-1, 0};
    const Value numbers[] = {Value(1.0), Value()};
    i.kernel = p_.descriptions->kernel(call.kernel, call.common, reads, numbers);
    i.reads.push_back({argument, x});
    i.writes.push_back(result);
    return i;
  }

  void make_plain(Instruction& i, int slope) {
    static const Op& mul = op_named<"mul">();
    const int g = i.reads[i.kernel->operands[0].read].reg;
    const int reads[] = {0, 1};
    const Value none[2];
    i.op = &mul;
    i.args = p_.descriptions->arguments(mul, std::vector<Value>(mul.argument_count).data());
    i.kernel = p_.descriptions->kernel(mul.kernel, i.kernel->common, reads, none);
    i.reads.clear();
    i.reads.push_back({g, 0});
    i.reads.push_back({slope, 1});
  }

  Program& p_;
};

}  // namespace

void compute_slopes_early(Program& p) { EarlySlopes(p).run(); }

}  // namespace adjoint
