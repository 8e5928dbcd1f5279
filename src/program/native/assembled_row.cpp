// Read assembled_row.h first.
#include "program/native/assembled_row.h"

#include <algorithm>

#include "kernels/convert.h"

namespace adjoint::native {

using Box = TileLoops::Box;
using Assembly = TileLoops::Assembly;

namespace {

// Bytes from element to element of the row, in all boxes that have more than one.
int64_t step_of(const TileLoops& f, const Assembly& a) {
  for (const Box& b : a.boxes)
    if (b.place >= 0 && b.size.back() > 1) return f.places[b.place].strides.back();
  return static_cast<int64_t>(item_size(a.dtype));
}

}  // namespace

AssembledRow::AssembledRow(const TileLoops& f, Vectors& vectors, Code& code,
                           const std::vector<std::string>& bases,
                           const std::vector<std::string>& outer)
    : f_(f), vectors_(vectors), code_(code), bases_(bases), outer_(outer) {
  for (const Assembly& a : f.assemblies) {
    segments_.push_back(segments_of(a));
    for (Segment& s : segments_.back()) prepare(s);
  }
}

// All boxes are cut where any of them begins or ends.
std::vector<AssembledRow::Segment> AssembledRow::segments_of(const Assembly& a) const {
  const int last = f_.shape.size() - 1;
  std::vector<int64_t> cuts;
  for (const Box& b : a.boxes) {
    cuts.push_back(b.start[last]);
    cuts.push_back(b.start[last] + b.size[last]);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Segment> segments;
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    Segment s{cuts[k], cuts[k + 1], step_of(f_, a), {}, "", {}, {}};
    for (const Box& b : a.boxes) {
      if (b.start[last] <= s.begin && s.end <= b.start[last] + b.size[last]) s.boxes.push_back(&b);
    }
    segments.push_back(std::move(s));
  }
  return segments;
}

bool AssembledRow::is_known(const TileLoops& f) {
  if (f.shape.empty()) return f.assemblies.empty();
  const int last = f.shape.size() - 1;
  for (const Assembly& a : f.assemblies) {
    const int64_t step = step_of(f, a);
    for (const Box& b : a.boxes) {
      bool other = b.place >= 0 && b.size[last] > 1 && f.places[b.place].strides[last] != step;
      if (other || step == 0) return false;
    }
  }
  return true;
}

std::string AssembledRow::condition(const Box& b) {
  std::string all;
  for (int i = 0; i + 1 < f_.shape.size(); ++i) {
    if (b.size[i] == f_.shape[i]) continue;
    std::string from = code_.value("sub i64 ", outer_[static_cast<size_t>(i)], ", ", b.start[i]);
    std::string inside = code_.value("icmp ult i64 ", from, ", ", b.size[i]);
    all = all.empty() ? inside : code_.value("and i1 ", all, ", ", inside);
  }
  return all;
}

// Pointers to where the row would begin in each box.
void AssembledRow::prepare(Segment& s) {
  bool numbers = false;
  for (const Box* b : s.boxes) {
    s.conditions.push_back(s.boxes.size() > 1 ? condition(*b) : "");
    numbers |= b->place < 0;
    if (b->place < 0) {
      s.pointers.emplace_back();
      continue;
    }
    const Dims& strides = f_.places[b->place].strides;
    // The steps of a box of one element are its own: only where that is counts.
    int64_t before = s.begin * (s.step - strides.back());
    for (int i = 0; i < f_.shape.size(); ++i) before += b->start[i] * strides[i];
    s.pointers.push_back(code_.value("getelementptr i8, ptr ",
                                     bases_[static_cast<size_t>(b->place)], ", i64 ", -before));
  }
  if (numbers) return;
  s.pointer = s.pointers.back();
  for (size_t k = s.pointers.size() - 1; k-- > 0;)
    s.pointer =
        code_.value("select i1 ", s.conditions[k], ", ptr ", s.pointers[k], ", ptr ", s.pointer);
}

int AssembledRow::segment_at(size_t assembly, int64_t at) const {
  const auto& segments = segments_[assembly];
  for (size_t k = 0; k < segments.size(); ++k) {
    if (segments[k].begin <= at && at < segments[k].end)
      return at + vectors_.width() <= segments[k].end ? static_cast<int>(k) : -1;
  }
  return -1;
}

bool AssembledRow::is_same(int64_t a, int64_t b) const {
  for (size_t k = 0; k < segments_.size(); ++k) {
    int one = segment_at(k, a);
    if (one < 0 || one != segment_at(k, b)) return a == b;
  }
  return true;
}

std::string AssembledRow::number(const Box& b) {
  const TileLoops::Number& n = f_.numbers[static_cast<size_t>(b.number)];
  if (n.dtype == DType::Bool)
    return vectors_.lanes(DType::Float32).all(n.bytes[0] ? "i1 true" : "i1 false");
  return vectors_.lanes(n.dtype).number(load_double(n.dtype, n.bytes)).name;
}

// The lanes of one segment; `mask` says which there are.
std::string AssembledRow::part(const Segment& s, const Assembly& a, const std::string& index,
                               const std::string& mask) {
  if (!s.pointer.empty())
    return vectors_.load(a.dtype, vectors_.moved(s.pointer, index, s.step), s.step, mask);
  std::string type = vectors_.value_type(a.dtype), all;
  for (size_t k = 0; k < s.boxes.size(); ++k) {
    const Box& b = *s.boxes[k];
    std::string lanes = s.conditions[k].empty() ? "" : vectors_.splat("i1", s.conditions[k]);
    std::string read = lanes.empty() ? mask
                       : mask.empty()
                           ? lanes
                           : code_.value("and ", vectors_.of("i1"), " ", lanes, ", ", mask);
    std::string here =
        b.place < 0
            ? number(b)
            : vectors_.load(a.dtype, vectors_.moved(s.pointers[k], index, s.step), s.step, read);
    all = all.empty() || lanes.empty() ? here
                                       : code_.value("select ", vectors_.of("i1"), " ", lanes, ", ",
                                                     type, " ", here, ", ", type, " ", all);
  }
  return all;
}

std::string AssembledRow::load(size_t assembly, const std::string& index, int64_t at,
                               const std::string& mask) {
  const Assembly& a = f_.assemblies[assembly];
  if (int one = segment_at(assembly, at); one >= 0)
    return part(segments_[assembly][static_cast<size_t>(one)], a, index, mask);
  std::string all, type = vectors_.value_type(a.dtype);
  const int64_t row = f_.shape.back();
  for (const Segment& s : segments_[assembly]) {
    int64_t begin = std::max(s.begin, at), end = std::min({s.end, at + vectors_.width(), row});
    if (begin >= end) continue;
    std::string lanes =
        vectors_.lanes_between(static_cast<int>(begin - at), static_cast<int>(end - at));
    std::string here = part(s, a, index, lanes);
    all = all.empty() ? here
                      : code_.value("select ", vectors_.of("i1"), " ", lanes, ", ", type, " ", here,
                                    ", ", type, " ", all);
  }
  return all;
}

}  // namespace adjoint::native
