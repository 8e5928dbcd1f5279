// Read copying_ops.h first.
#include "program/capture/copying_ops.h"

namespace adjoint {
namespace {

constexpr size_t kMostPieces = 4096;

Piece piece(int read, const Tensor& whole, const Tensor& part, Dims from) {
  Dims strides(part.strides());
  for (int64_t& s : strides) s *= static_cast<int64_t>(part.itemsize());
  return {read, part->data - whole->data, std::move(strides), std::move(from), Dims(part.shape())};
}

// Whether a box of these sizes lies in a tensor.
bool is_inside(const Tensor& t, const Dims& from, Span size) {
  if (size.size() != t.ndim()) return false;
  bool inside = true;
  for (int i = 0; i < t.ndim(); ++i) inside &= from[i] >= 0 && from[i] + size[i] <= t.size(i);
  return inside;
}

}  // namespace

std::shared_ptr<const Pieces> pieces_of(const Instruction& i, const Tensors& headers) {
  if (!i.op->facts.part || i.writes.size() != 1 || i.writes[0] < 0 || i.reads.empty()) return {};
  const Tensor& whole = headers[i.writes[0]];
  if (whole.numel() == 0) return {};
  GradMode off(false);
  auto all = std::make_shared<Pieces>();
  all->zeros = i.op->facts.zero_elsewhere;
  int64_t at = 0;
  for (size_t k = 0; k < i.reads.size(); ++k) {
    const Tensor& t = headers[i.reads[k].reg];
    if (t.pending() || (t.numel() == 0 && all->zeros)) return {};
    if (t.numel() == 0) continue;
    for (bool again = true; again;) {
      again = false;
      Dims from(t.ndim(), 0);
      Tensor part = i.op->facts.part({whole, i.args, t, i.reads[k].item, at, from, again});
      if (!part || !is_inside(t, from, part.shape()) || all->pieces.size() == kMostPieces)
        return {};
      if (part.numel() > 0)
        all->pieces.push_back(piece(static_cast<int>(k), whole, part, std::move(from)));
    }
  }
  return all;
}

}  // namespace adjoint
