// The code of a nest. Read nest.h first.
#include <algorithm>
#include <array>
#include <map>

#include "program/native/nest.h"
#include "program/native/tile_body.h"

namespace adjoint::native {

using Place = TileLoops::Place;

class NestCode {
 public:
  explicit NestCode(const Nest& n) : n_(n), lanes_(n.lanes_ ? n.lanes_ : n.all_) {}

  std::optional<std::string> write(const std::string& name) {
    if (!choose_width()) return {};
    find_pointers();
    const std::string rows = joined(n_.rows()), lanes = joined(lanes_);
    const int width = vectors_->width();
    if (rooms_.empty()) {
      code_.loop("0", rows, 1, [&](const std::string& r) {
        code_.loop("0", lanes, width, [&](const std::string& l) { body(r, l, ""); });
      });
    } else {
      clear_lane_sums();
      code_.loop("0", lanes, width, [&](const std::string& l) {
        start_sums();
        code_.loop("0", rows, kEight, [&](const std::string& first) {
          std::string end = code_.value("add i64 ", first, ", ", kEight);
          code_.loop(first, end, 1, [&](const std::string& r) {
            body(r, l, code_.value("sub i64 ", r, ", ", first));
          });
          add_rows();
          add_lanes(first);
        });
        store_sums(l);
      });
    }
    return code_.function(name, "ptr %data, i64 %n");
  }

 private:
  static constexpr int64_t kEight = 8;
  static constexpr size_t kMostActions = 192;
  using Member = Nest::Member;
  using What = Nest::What;

  // Lanes are whole vectors: the widest ones that they are.
  bool choose_width() {
    size_t item = 4, actions = 0;
    for (const Member& m : n_.members_) {
      if (!m.part.tiles) continue;
      item = std::max(item, widest_item(*m.part.tiles));
      actions += m.part.tiles->actions.size() * static_cast<size_t>(m.planes);
    }
    int width = vector_bytes() / static_cast<int>(item), least = 16 / static_cast<int>(item);
    while (width > least && lanes_ % width) width /= 2;
    bool over_lanes =
        std::ranges::any_of(n_.members_, [](const Member& m) { return m.what == What::LaneSum; });
    if (lanes_ % width || actions > kMostActions || (over_lanes && width % kEight)) return false;
    vectors_.emplace(code_, width);
    return true;
  }

  // --- sums over rows and lanes: room for eight rows of each plane, and for the sum over rows
  struct Room {
    const Member* member;
    std::vector<std::string> rows, sums;  // by plane
    std::vector<bool> turned;             // by plane: there are the negatives of its rows
    DType dtype() const { return member->summed(); }
    bool over_lanes() const { return member->what == What::LaneSum; }
  };
  int64_t bytes_of_vector(DType d) const {
    return vectors_->width() * static_cast<int64_t>(item_size(d));
  }
  void find_pointers() {
    for (const Member& m : n_.members_) {
      size_t count = m.part.tiles ? m.part.tiles->places.size() : 1;
      for (size_t k = 0; k < count; ++k) {
        std::string at = code_.first("getelementptr ptr, ptr %data, i64 ", m.part.pointers + k);
        pointers_[m.part.pointers + k] = code_.first("load ptr, ptr ", at);
      }
      if (m.what != What::RowSum && m.what != What::LaneSum) continue;
      Room room{&m, {}, {}, std::vector<bool>(static_cast<size_t>(m.planes))};
      std::string type = vectors_->memory_type(room.dtype());
      for (int64_t c = 0; c < m.planes; ++c) {
        room.rows.push_back(code_.first("alloca [", kEight, " x ", type, "], align 64"));
        if (!room.over_lanes()) room.sums.push_back(code_.first("alloca ", type, ", align 64"));
      }
      rooms_.push_back(std::move(room));
    }
  }
  void start_sums() {
    for (const Room& room : rooms_) {
      for (const std::string& sum : room.sums)
        code_.line("store ", vectors_->memory_type(room.dtype()), " zeroinitializer, ptr ", sum);
    }
  }
  // The eight rows of a plane that are in their room.
  std::array<TextLanes::V, 8> eight_rows(const Room& room, size_t plane) {
    std::array<TextLanes::V, 8> x;
    for (int64_t r = 0; r < kEight; ++r) {
      std::string at = vectors_->moved(room.rows[plane], joined(r), bytes_of_vector(room.dtype()));
      x[r].name = code_.value("load ", vectors_->memory_type(room.dtype()), ", ptr ", at);
      if (room.turned[plane]) x[r] = vectors_->lanes(room.dtype()).neg(x[r]);
    }
    return x;
  }
  void add_rows() {
    for (const Room& room : rooms_) {
      TextLanes& l = vectors_->lanes(room.dtype());
      for (size_t c = 0; c < room.sums.size(); ++c) {
        std::array<TextLanes::V, 8> x = eight_rows(room, c);
        for (int64_t half = kEight / 2; half > 0; half /= 2)
          for (int64_t r = 0; r < half; ++r) x[r] = l.add(x[r], x[r + half]);
        std::string before = code_.value("load ", l.type(), ", ptr ", room.sums[c]);
        code_.line("store ", l.type(), " ", l.add({before}, x[0]).name, ", ptr ", room.sums[c]);
      }
    }
  }
  void store_sums(const std::string& lane) {
    for (const Room& room : rooms_) {
      auto item = static_cast<int64_t>(item_size(room.dtype()));
      std::string to = vectors_->moved(pointers_.at(room.member->part.pointers), lane, item);
      for (size_t c = 0; c < room.sums.size(); ++c) {
        std::string sum =
            code_.value("load ", vectors_->memory_type(room.dtype()), ", ptr ", room.sums[c]);
        std::string at = vectors_->moved(to, joined(c), lanes_ * item);
        vectors_->store(room.dtype(), sum, at, item, "");
      }
    }
  }

  // Sums over lanes grow where they will lie: the next lanes of the same rows are added to them.
  std::string eight_sums(const Room& room) const {
    return joined("<", kEight, " x ", element_of(room.dtype()), ">");
  }
  std::string lane_sums_at(const Room& room, size_t plane, const std::string& row) {
    auto item = static_cast<int64_t>(item_size(room.dtype()));
    std::string to = vectors_->moved(pointers_.at(room.member->part.pointers), row, item);
    return vectors_->moved(to, joined(plane), n_.rows() * item);
  }
  void clear_lane_sums() {
    for (const Room& room : rooms_) {
      if (!room.over_lanes()) continue;
      code_.loop("0", joined(n_.rows()), kEight, [&](const std::string& row) {
        for (size_t c = 0; c < room.rows.size(); ++c)
          code_.line("store ", eight_sums(room), " zeroinitializer, ptr ",
                     lane_sums_at(room, c, row), ", align ", item_size(room.dtype()));
      });
    }
  }
  // Of each eight lanes k and k + 4 are added, then k and k + 2, k and k + 1: each time two vectors
  // become one. What is left are the eights of each row, which are added from the left.
  void add_lanes(const std::string& first_row) {
    const int width = vectors_->width(), eights = width / static_cast<int>(kEight);
    for (const Room& room : rooms_) {
      if (!room.over_lanes()) continue;
      const std::string type = vectors_->memory_type(room.dtype()), sums = eight_sums(room);
      for (size_t c = 0; c < room.rows.size(); ++c) {
        std::array<TextLanes::V, 8> x = eight_rows(room, c);
        for (int half = kEight / 2; half > 0; half /= 2) {
          std::vector<int> low, high;
          for (int k = 0; k < 2 * width; ++k) (k % (2 * half) < half ? low : high).push_back(k);
          for (int n = 0; n < half; ++n) {
            auto of_both = [&](const std::vector<int>& lanes) {
              return TextLanes::V{code_.value("shufflevector ", type, " ", x[2 * n].name, ", ",
                                              type, " ", x[2 * n + 1].name, ", ", picked(lanes))};
            };
            TextLanes::V a = of_both(low), b = of_both(high);
            x[n] = vectors_->lanes(room.dtype()).add(a, b);
          }
        }
        std::string at = lane_sums_at(room, c, first_row);
        const auto item = item_size(room.dtype());
        std::string total = code_.value("load ", sums, ", ptr ", at, ", align ", item);
        for (int e = 0; e < eights; ++e) {
          std::vector<int> lanes;
          for (int r = 0; r < kEight; ++r) lanes.push_back(r * eights + e);
          std::string part = code_.value("shufflevector ", type, " ", x[0].name, ", ", type,
                                         " poison, ", picked(lanes));
          total = code_.value("fadd ", sums, " ", total, ", ", part);
        }
        code_.line("store ", sums, " ", total, ", ptr ", at, ", align ", item);
      }
    }
  }

  // --- one vector of lanes of one row
  void body(const std::string& row, const std::string& lane, const std::string& in_eight) {
    row_ = row;
    lane_ = lane;
    made_.clear();
    loaded_.clear();
    size_t room = 0;
    for (const Member& m : n_.members_) {
      switch (m.what) {
        case What::Tiles:
          for (int64_t c = 0; c < m.planes; ++c) tiles(m, c);
          break;
        case What::PlaneSum:
          plane_sum(m);
          break;
        case What::RowSum:
        case What::LaneSum: {
          for (int64_t c = 0; c < m.planes; ++c)
            keep_row(rooms_[room], static_cast<size_t>(c), made(m.part.from, c), in_eight);
          ++room;
          break;
        }
      }
    }
  }
  // Puts a row where it is summed. A value and its negative share the place: of a difference, one of the
  // operands has the gradient and the other its negative, and a store costs more than a sign.
  void keep_row(Room& room, size_t plane, const std::string& value, const std::string& in_eight) {
    const std::string& key = vectors_->lanes(room.dtype()).without_sign(value);
    auto [found, is_new] = rows_.try_emplace(key, value, room.rows[plane]);
    if (!is_new) {
      room.rows[plane] = found->second.second;
      room.turned[plane] = found->second.first != value;
      return;
    }
    code_.line("store ", vectors_->memory_type(room.dtype()), " ", value, ", ptr ",
               vectors_->moved(room.rows[plane], in_eight, bytes_of_vector(room.dtype())));
  }
  // What the nest has made of a register: of the one plane that it has, or of each.
  std::string made(int reg, int64_t plane) const {
    auto found = made_.find({reg, plane});
    return found != made_.end() ? found->second : made_.at({reg, 0});
  }
  bool is_made(int reg) const { return made_.count({reg, 0}) > 0; }

  std::string pointer(const Member& m, size_t place, int64_t plane) {
    const Place& p = m.part.tiles->places[place];
    Nest::Strides s = strides(m, p);
    std::string at = vectors_->moved(pointers_.at(m.part.pointers + place), row_, s.row);
    return vectors_->moved(vectors_->moved(at, lane_, s.lane), joined(plane), s.plane);
  }
  Nest::Strides strides(const Member& m, const Place& p) const {
    Nest::Strides s = n_.strides_of(m, p);
    if (!n_.lanes_) s.row = 0;
    return s;
  }
  void tiles(const Member& m, int64_t plane) {
    const auto& places = m.part.tiles->places;
    auto load = [&](size_t k) {
      const Place& p = places[k];
      if (is_made(p.reg)) return vectors_->as_dtype(made(p.reg, plane), p.dtype, p.wanted);
      Nest::Strides s = strides(m, p);
      std::string& known = loaded_[joined(p.reg, " ", p.offset + plane * s.plane, " ", s.row, " ",
                                          s.lane, " ", static_cast<int>(p.dtype))];
      if (known.empty()) {
        std::string at = pointer(m, k, plane);
        known =
            s.lane ? vectors_->load(p.dtype, at, s.lane, "") : vectors_->load_repeated(p.dtype, at);
      }
      return vectors_->as_dtype(known, p.dtype, p.wanted);
    };
    auto store = [&](size_t k, const std::string& v) {
      const Place& p = places[k];
      made_[{p.reg, plane}] = v;
      if (m.part.kept[k]) vectors_->store(p.dtype, v, pointer(m, k, plane), strides(m, p).lane, "");
    };
    TileBody(*m.part.tiles, *vectors_, load, store).write();
  }
  void plane_sum(const Member& m) {
    DType d = m.part.sum->dtype;
    auto item = static_cast<int64_t>(item_size(d));
    TextLanes& l = vectors_->lanes(d);
    TextLanes::V total = l.number(0);
    for (int64_t c = 0; c < m.part.sum->reduced.size[0]; ++c)
      total = l.add(total, {made(m.part.from, c)});
    made_[{m.part.to, 0}] = total.name;
    if (!m.part.kept[0]) return;
    std::string at = vectors_->moved(pointers_.at(m.part.pointers), row_, n_.lanes_ * item);
    vectors_->store(d, total.name, vectors_->moved(at, lane_, item), item, "");
  }

  const Nest& n_;
  const int64_t lanes_;
  Code code_;
  std::optional<Vectors> vectors_;
  std::map<size_t, std::string> pointers_;
  std::vector<Room> rooms_;
  // Rows that are summed: what stands there and where, by value without its sign.
  std::map<std::string, std::pair<std::string, std::string>> rows_;
  std::string row_, lane_;
  std::map<std::pair<int, int64_t>, std::string> made_;  // by register and plane
  std::map<std::string, std::string> loaded_;
};

std::optional<std::string> Nest::code(const std::string& name) const {
  return NestCode(*this).write(name);
}

}  // namespace adjoint::native
