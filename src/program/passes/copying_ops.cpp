// Read copying_ops.h first.
#include "program/passes/copying_ops.h"

namespace adjoint {
namespace {

Piece piece(int read, const Tensor& whole, const Tensor& part) {
  Dims strides(part.strides());
  for (int64_t& s : strides) s *= static_cast<int64_t>(part.itemsize());
  return {read, part->data - whole->data, std::move(strides)};
}

}  // namespace

std::optional<Pieces> pieces_of(const Instruction& i, const Tensors& headers) {
  if (i.kind != Kind::Apply || i.writes.size() != 1 || i.writes[0] < 0 || i.reads.empty())
    return {};
  const std::string& name = i.op->name;
  bool sliced = name == "_slice_backward", selected = name == "_select_backward",
       joined = name == "cat", stacked = name == "stack";
  const Tensor& whole = headers[i.writes[0]];
  if (!(sliced || selected || joined || stacked) || whole.numel() == 0) return {};
  GradMode off(false);
  Pieces all;
  all.zeros = sliced || selected;
  int64_t at = 0;
  for (size_t k = 0; k < i.reads.size(); ++k) {
    const Tensor& t = headers[i.reads[k].reg];
    if (t.numel() == 0) continue;
    Tensor part;
    if (sliced) {
      part = op<"slice">(whole, i.args[2], i.args[3], i.args[4], i.args[5]);
    } else if (selected) {
      part = op<"select">(whole, i.args[2], i.args[3]);
    } else if (stacked) {
      part = op<"select">(whole, i.args[1], i.reads[k].item);
    } else {
      int axis = wrap_dim(i.args[1].integer(), whole.ndim());
      part = op<"narrow">(whole, axis, at, t.size(axis));
      at += t.size(axis);
    }
    if (!(part.shape() == t.shape())) return {};
    all.pieces.push_back(piece(static_cast<int>(k), whole, part));
  }
  return all;
}

}  // namespace adjoint
