// Read padding.h first.
#include "program/fuse/padding.h"

#include <cstring>

#include "program/fuse/loop_parts.h"

namespace adjoint {
namespace {

struct Gaps {
  int64_t rows, row, pitch, size;  // bytes, but for the number of rows
};

// Gaps, the first row. Most gaps are one element.
template <class T>
void fill_gaps(const Gaps& g, char* data) {
  const T zero = 0;
  for (int64_t k = 0; k < g.rows; ++k) std::memcpy(data + k * g.pitch, &zero, sizeof zero);
}
void zero_gaps(char* const* p, int64_t) {
  const auto& g = *reinterpret_cast<const Gaps*>(p[0]);
  char* const first = p[1] + g.row;
  std::memset(p[1] - g.size, 0, static_cast<size_t>(g.size));
  if (g.size == 4) return fill_gaps<uint32_t>(g, first);
  if (g.size == 8) return fill_gaps<uint64_t>(g, first);
  for (int64_t k = 0; k < g.rows; ++k)
    std::memset(first + k * g.pitch, 0, static_cast<size_t>(g.size));
}

}  // namespace

// Whether a boxed value has one box, whose elements lie as far apart as those of the whole would: of a
// register that the block makes with gaps between its rows.
bool Padding::lies_as_whole(int reg, const std::vector<int64_t>& pitch) const {
  const SourceBoxes& boxes = *boxed_.of(reg);
  const SourceBox& box = boxes[0];
  for (size_t k = 1; k < boxes.size(); ++k) {
    if (boxes[k].reg >= 0) return false;
  }
  if (boxes.size() < 2 || box.reg < 0) return false;
  const Source& from = sources_.of(box.reg);
  const Dims &shape = sources_.geometry(reg).shape, whole = contiguous_strides(shape);
  const TensorGeometry& seen = sources_.geometry(box.reg);
  const int last = shape.size() - 1;
  if (last < 1 || pitch[from.reg] != shape[last] || from.offset || box.size[last] == 1)
    return false;
  for (int i = 0; i <= last; ++i) {
    if (i < last && box.size[i] != shape[i]) return false;
    if (box.size[i] != 1 && seen.strides[static_cast<int>(box.axes[i])] != whole[i]) return false;
  }
  for (int64_t start : box.from) {
    if (start) return false;
  }
  return seen.numel == sources_.geometry(from.reg).numel;
}

void Padding::choose(const std::vector<Pitches::Group>& groups) {
  bool any = false;
  for (const Pitches::Group& g : groups) any |= g.pitch != 0;
  if (!any) return;
  std::vector<int64_t> pitch(p_.registers.size());
  for (const Pitches::Group& g : groups) {
    for (const Instruction* i : g.members) pitch[i->writes[0]] = g.pitch;
  }
  gaps_.resize(p_.registers.size());
  for (const Pitches::Group& g : groups) {
    for (size_t k = 0; !g.shape.empty() && k < g.members.size(); ++k) {
      for (const Read& r : g.members[k]->reads) {
        const int reg = sources_.of(r.reg).reg;
        if (!boxed_.of(reg) || boxed_.is_padded(reg) || !lies_as_whole(reg, pitch)) continue;
        boxed_.set_padded(reg);
        const int from = sources_.of((*boxed_.of(reg))[0].reg).reg;
        const TensorGeometry& rows = sources_.geometry(from);
        gaps_[from] = (pitch[from] - rows.shape[rows.shape.size() - 1]) *
                      static_cast<int64_t>(item_size(rows.dtype));
      }
    }
  }
}

void Padding::add_zeros(std::vector<Part>& parts, int reg) const {
  if (!margin(reg)) return;
  const TensorGeometry& g = sources_.geometry(reg);
  const auto item = static_cast<int64_t>(item_size(g.dtype));
  const int64_t row = g.shape[g.shape.size() - 1] * item;
  Part part;
  part.loop = zero_gaps;
  part.what =
      std::make_shared<Gaps>(Gaps{g.numel * item / row, row, row + margin(reg), margin(reg)});
  part.to = reg;
  parts.push_back(std::move(part));
}

}  // namespace adjoint
