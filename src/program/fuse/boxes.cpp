// Read boxes.h first.
#include "program/fuse/boxes.h"

#include "program/capture/copying_ops.h"

namespace adjoint {
namespace {

constexpr size_t kMostPieces = 8;  // every tile looks at all boxes

// The place of a piece in the result, if it is a box.
bool find_box(const Piece& piece, const TensorGeometry& whole, SourceBox* box) {
  const int nd = whole.shape.size();
  const auto item = static_cast<int64_t>(item_size(whole.dtype));
  box->start = Dims(nd, 0);
  box->size = Dims(nd, 1);
  box->axes = Dims(nd, -1);
  box->from = piece.from;
  int64_t left = piece.offset / item;
  for (int i = 0; i < nd; ++i) {
    if (whole.shape[i] == 1) continue;
    box->start[i] = left / whole.strides[i];
    left %= whole.strides[i];
  }
  for (int k = 0; k < piece.size.size(); ++k) {
    if (piece.size[k] == 1) continue;
    int axis = 0;
    while (axis < nd &&
           (whole.shape[axis] == 1 || whole.strides[axis] * item != piece.byte_strides[k]))
      ++axis;
    if (axis == nd || box->axes[axis] >= 0 || box->start[axis] + piece.size[k] > whole.shape[axis])
      return false;
    box->axes[axis] = k;
    box->size[axis] = piece.size[k];
  }
  return left == 0;
}

// What is outside of a box, as boxes: before and after it along one axis after another.
void add_zeros_around(SourceBoxes& boxes, const Dims& shape) {
  const SourceBox inner = boxes[0];
  SourceBox rest;
  rest.start = Dims(shape.size(), 0);
  rest.size = shape;
  for (int i = 0; i < shape.size(); ++i) {
    const int64_t begin = inner.start[i], end = begin + inner.size[i];
    for (auto [from, to] : {std::pair<int64_t, int64_t>(0, begin), {end, shape[i]}}) {
      if (from == to) continue;
      boxes.push_back(rest);
      boxes.back().start[i] = from;
      boxes.back().size[i] = to - from;
    }
    rest.start[i] = begin;
    rest.size[i] = end - begin;
  }
}

bool find_boxes(const Instruction& i, const Sources& sources, SourceBoxes* boxes) {
  if (i.kind != Kind::Apply || !i.pieces() || i.changes || i.draws() || i.may_fail) return false;
  const Pieces& all = *i.pieces();
  const TensorGeometry& whole = sources.geometry(i.writes[0]);
  if (!whole.contiguous || whole.pending || sources.changed(i.writes[0])) return false;
  if (all.pieces.empty() || all.pieces.size() > (all.zeros ? 1 : kMostPieces)) return false;
  for (const Piece& piece : all.pieces) {
    SourceBox box;
    box.reg = i.reads[piece.read].reg;
    if (sources.geometry(box.reg).dtype != whole.dtype || sources.changed(box.reg)) return false;
    if (!find_box(piece, whole, &box)) return false;
    boxes->push_back(std::move(box));
  }
  if (all.zeros) add_zeros_around(*boxes, whole.shape);
  return true;
}

}  // namespace

BoxedValues::BoxedValues(const Program& p, const Sources& sources) : at_(p.registers.size(), -1) {
  for (const Instruction& i : p.code) {
    SourceBoxes found;
    if (!find_boxes(i, sources, &found)) continue;
    at_[i.writes[0]] = static_cast<int>(boxes_.size());
    boxes_.push_back(std::move(found));
  }
  padded_.resize(boxes_.size());
}

}  // namespace adjoint
