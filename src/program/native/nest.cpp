// Which parts make a nest. Read nest.h first; next: nest_code.cpp.
#include "program/native/nest.h"

#include "program/native/tile_body.h"
#include "program/native/tile_code.h"
#include "program/native/sum_code.h"

namespace adjoint::native {
namespace {

using Place = TileLoops::Place;

constexpr int64_t kMostPlanes = 4;
constexpr int64_t kLeast = 64;      // elements of a plane
constexpr int64_t kEight = 8;       // rows that are added at once
constexpr int64_t kMostRows = 128;  // of a sum

bool is_plain_sum(const reduce::Problem& p) {
  return (p.dtype == DType::Float32 || p.dtype == DType::Float64) && p.accumulator == p.dtype &&
         p.out_dtype == p.dtype && p.kind == reduce::Sum && !p.centre && p.reduced.count == 1 &&
         p.divisor == 0;
}

}  // namespace

// The axes of a part as planes, rows and lanes; `lanes` is 0 where its rows are all one.
bool Nest::form_of(const TileLoops& f, Member* m, int64_t* lanes) const {
  const Dims& s = f.shape;
  *lanes = 0;
  int64_t all = f.numel;
  switch (s.size()) {
    case 1:
      break;
    case 2: {
      bool planes = all_ ? s[0] * s[1] != all_ : s[0] <= kMostPlanes;
      if (planes) {
        m->planes = s[0];
        all = s[1];
      } else {
        m->split = true;
        *lanes = s[1];
      }
      break;
    }
    case 3:
      m->planes = s[0];
      m->split = true;
      *lanes = s[2];
      all = s[1] * s[2];
      break;
    default:
      return false;
  }
  return m->planes <= kMostPlanes && all >= kLeast && (all_ == 0 || all == all_) &&
         (*lanes == 0 || lanes_ == 0 || *lanes == lanes_);
}

Nest::Strides Nest::strides_of(const Member& m, const Place& p) const {
  const int n = p.strides.size();
  const int64_t plane = n > (m.split ? 2 : 1) ? p.strides[0] : 0;
  if (m.split) return {plane, p.strides[n - 2], p.strides[n - 1]};
  return {plane, p.strides[n - 1] * lanes_, p.strides[n - 1]};
}

std::optional<Nest::Written> Nest::writer_of(int reg) const {
  for (const Member& m : members_) {
    if (m.what != What::Tiles) {
      if (m.part.to != reg) continue;
      auto item = static_cast<int64_t>(item_size(m.summed()));
      return Written{1, 0, {0, lanes_ * item, item}, m.summed(), m.what != What::PlaneSum};
    }
    for (const Place& p : m.part.tiles->places) {
      if (p.written && p.reg == reg)
        return Written{m.planes, p.offset, strides_of(m, p), p.dtype, false};
    }
  }
  return {};
}

bool Nest::is_touched(int reg) const {
  for (const Member& m : members_) {
    if (m.what != What::Tiles && (m.part.to == reg || m.part.from == reg)) return true;
    for (size_t k = 0; m.part.tiles && k < m.part.tiles->places.size(); ++k) {
      if (m.part.tiles->places[k].reg == reg) return true;
    }
  }
  return false;
}

// Whether it reads what the nest makes where that is made, and nothing else of it.
bool Nest::fits(const Member& m) const {
  for (const Place& p : m.part.tiles->places) {
    if (p.written) {
      if (is_touched(p.reg)) return false;
      continue;
    }
    std::optional<Written> w = writer_of(p.reg);
    if (!w) continue;
    Strides s = strides_of(m, p);
    bool planes = w->planes == m.planes ? w->strides.plane == s.plane || m.planes == 1
                                        : w->planes == 1 && s.plane == 0;
    if (w->late || !planes || w->offset != p.offset || w->dtype != p.dtype ||
        w->strides.row != s.row || w->strides.lane != s.lane)
      return false;
  }
  return true;
}

// Rows after rows, planes after planes.
bool Nest::is_dense(const Written& w) const {
  auto item = static_cast<int64_t>(item_size(w.dtype));
  return (w.planes == 1 || w.strides.plane == all_ * item) && w.strides.lane == item &&
         w.strides.row == lanes_ * item;
}

bool Nest::add_fold(const NestPart& part) {
  const FoldedRows& f = *part.fold;
  Member m{part, What::LaneSum};
  std::optional<Written> w = writer_of(part.from);
  auto item = static_cast<int64_t>(item_size(m.summed()));
  if (!w || w->late || part.offset != 0 || w->offset != 0 || w->dtype != m.summed() ||
      is_touched(part.to) || f.divisor != 0 || f.length % kEight || f.step != f.length * item ||
      f.rows * f.length != w->planes * all_ || all_ % (f.length * kEight) ||
      (lanes_ != 0 && lanes_ != f.length))
    return false;
  lanes_ = f.length;
  m.planes = w->planes;
  if (!is_dense(*writer_of(part.from))) return false;
  members_.push_back(std::move(m));
  return true;
}

bool Nest::add_sum(const NestPart& part) {
  const reduce::Problem& p = *part.sum;
  std::optional<Written> w = writer_of(part.from);
  if (!is_plain_sum(p) || !w || w->late || part.offset != 0 || w->offset != 0 ||
      w->dtype != p.dtype || is_touched(part.to))
    return false;
  const reduce::Axes &k = p.kept, &r = p.reduced;
  auto item = static_cast<int64_t>(item_size(p.dtype));
  Member m{part, What::PlaneSum};
  bool planes = k.count == 1 && k.size[0] == all_ && k.stride[0] == item &&
                r.size[0] == w->planes && w->planes > 1 && r.stride[0] == all_ * item;
  if (!planes) {
    int64_t lanes = k.count ? k.size[k.count - 1] : 0;
    bool by_rows = k.count == (w->planes > 1 ? 2 : 1) && k.stride[k.count - 1] == item &&
                   (k.count == 1 || (k.size[0] == w->planes && k.stride[0] == all_ * item)) &&
                   r.size[0] * lanes == all_ && r.stride[0] == lanes * item &&
                   r.size[0] % kEight == 0 && r.size[0] < kMostRows &&
                   (lanes_ == 0 || lanes_ == lanes);
    if (!by_rows) return false;
    if (lanes_ == 0) lanes_ = lanes;
    m.what = What::RowSum;
    m.planes = w->planes;
    w = writer_of(part.from);
  }
  if (!is_dense(*w)) return false;
  members_.push_back(std::move(m));
  return true;
}

bool Nest::add(const NestPart& part) {
  const int64_t lanes_before = lanes_, all_before = all_;
  bool joins = false;
  if (part.sum) {
    joins = add_sum(part);
  } else if (part.fold) {
    joins = add_fold(part);
  } else if (part.tiles && part.tiles->assemblies.empty() && TileBody::is_short(*part.tiles) &&
             TileBody::is_known(*part.tiles)) {
    Member m{part};
    int64_t lanes;
    if (form_of(*part.tiles, &m, &lanes)) {
      if (lanes) lanes_ = lanes;
      all_ = part.tiles->numel / m.planes;
      joins = fits(m);
      if (joins) members_.push_back(std::move(m));
    }
  }
  if (!joins) lanes_ = lanes_before, all_ = all_before;
  return joins;
}

std::vector<Nest::Touched> Nest::touched() const {
  std::vector<Touched> found;
  for (const Member& m : members_) {
    if (m.what != What::Tiles) {
      auto item = static_cast<int64_t>(item_size(m.summed()));
      int64_t count = m.what == What::PlaneSum ? all_
                      : m.what == What::RowSum ? m.planes * lanes_
                                               : m.planes * rows();
      if (m.part.kept[0]) found.push_back({m.part.pointers, m.part.to, true, 0, count * item});
      continue;
    }
    const auto& places = m.part.tiles->places;
    for (size_t k = 0; k < places.size(); ++k) {
      const Place& p = places[k];
      if (p.written ? !m.part.kept[k] : writer_of(p.reg).has_value()) continue;
      Touched t{m.part.pointers + k, p.reg, p.written, 0, static_cast<int64_t>(item_size(p.dtype))};
      for (int i = 0; i < p.strides.size(); ++i) {
        int64_t reach = p.strides[i] * (m.part.tiles->shape[i] - 1);
        (reach < 0 ? t.low : t.high) += reach;
      }
      found.push_back(t);
    }
  }
  return found;
}

// Registers are numbered in the order in which they come: those of other steps have other numbers.
std::string Nest::key() const {
  std::vector<int> seen;
  std::string key = joined("nest ", lanes_);
  auto add = [&](int64_t x) { key += joined(" ", x); };
  auto add_reg = [&](int reg) {
    size_t at = static_cast<size_t>(std::find(seen.begin(), seen.end(), reg) - seen.begin());
    if (at == seen.size()) seen.push_back(reg);
    add(static_cast<int64_t>(at));
  };
  for (const Member& m : members_) {
    key += m.part.sum    ? sum_key(*m.part.sum)
           : m.part.fold ? sum_key(*m.part.fold)
                         : tile_key(*m.part.tiles, Extent::Whole);
    add(static_cast<int64_t>(m.part.pointers));
    for (bool kept : m.part.kept) add(kept);
    if (m.what != What::Tiles) {
      add_reg(m.part.from);
      add_reg(m.part.to);
      continue;
    }
    for (const Place& p : m.part.tiles->places) {
      add_reg(p.reg);
      add(p.offset);
    }
  }
  return key;
}

}  // namespace adjoint::native
