// Read copying_ops.h first.
#include "program/capture/copying_ops.h"

namespace adjoint {
namespace {

Piece piece(int read, const Tensor& whole, const Tensor& part) {
  Dims strides(part.strides());
  for (int64_t& s : strides) s *= static_cast<int64_t>(part.itemsize());
  return {read, part->data - whole->data, std::move(strides)};
}

}  // namespace

std::shared_ptr<const Pieces> pieces_of(const Instruction& i, const Tensors& headers) {
  if (!i.op->facts.part || i.writes.size() != 1 || i.writes[0] < 0 || i.reads.empty()) return {};
  const Tensor& whole = headers[i.writes[0]];
  if (whole.numel() == 0 || whole.numel() >= kBlockNumel) return {};
  GradMode off(false);
  auto all = std::make_shared<Pieces>();
  all->zeros = i.op->facts.zero_elsewhere;
  int64_t at = 0;
  for (size_t k = 0; k < i.reads.size(); ++k) {
    const Tensor& t = headers[i.reads[k].reg];
    if (t.pending()) return {};
    if (t.numel() == 0) continue;
    Tensor part = i.op->facts.part({whole, i.args, t, i.reads[k].item, at});
    if (!(part.shape() == t.shape())) return {};
    all->pieces.push_back(piece(static_cast<int>(k), whole, part));
  }
  return all;
}

}  // namespace adjoint
