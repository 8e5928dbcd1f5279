// Read sum_code.h first.
#include "program/native/sum_code.h"

#include "program/native/formulas.h"
#include "program/native/vectors.h"

namespace adjoint::native {
namespace {

using reduce::Axes;
using reduce::Problem;

constexpr int64_t kTree = 8;        // rows that are added as a tree
constexpr int64_t kMostRows = 128;  // from which on partial sums are folded
constexpr int kMostAxes = 4;

bool is_plain(const Problem& p) {
  return (p.dtype == DType::Float32 || p.dtype == DType::Float64) && p.accumulator == p.dtype &&
         p.out_dtype == p.dtype && p.kind == reduce::Sum && !p.centre && p.reduced.count == 1 &&
         p.kept.count <= kMostAxes && p.kept.total() > 0 && p.reduced.size[0] > 0;
}

// Loops over the kept axes, rows of the last one in vectors.
class SumCode {
 public:
  explicit SumCode(const Problem& p) : p_(p), item_(static_cast<int64_t>(item_size(p.dtype))) {
    const Axes &k = p.kept, &r = p.reduced;
    const int64_t step = k.count ? k.stride[k.count - 1] : 0;
    by_columns_ = k.count > 0 && step != 0 && (r.stride[0] == 0 || step < r.stride[0]);
  }

  std::optional<std::string> write(const std::string& name) {
    const int64_t rows = p_.reduced.size[0];
    bool left_to_right = !by_columns_ && rows < reduce::kShortRow;
    if (by_columns_ ? rows >= kMostRows : !left_to_right) return whole_rows(name);
    const Axes& k = p_.kept;
    vectors_.emplace(code_, width_for(k.count ? k.size[k.count - 1] : 1, item_size(p_.dtype)));
    std::string to = pointer(1), from = pointer(2);
    nest(0, to, from);
    return code_.function(name, "ptr %data, i64 %n");
  }

 private:
  std::string pointer(int n) {
    return code_.first("load ptr, ptr ", code_.first("getelementptr ptr, ptr %data, i64 ", n));
  }
  // Results lie in the order of the kept axes.
  int64_t inner_results(int axis) const {
    int64_t n = 1;
    for (int k = axis + 1; k < p_.kept.count; ++k) n *= p_.kept.size[k];
    return n;
  }
  void nest(int axis, const std::string& to, const std::string& from) {
    const Axes& k = p_.kept;
    if (axis < k.count - 1) {
      code_.loop("0", joined(k.size[axis]), 1, [&](const std::string& n) {
        nest(axis + 1, vectors_->moved(to, n, inner_results(axis) * item_),
             vectors_->moved(from, n, k.stride[axis]));
      });
      return;
    }
    const int width = vectors_->width();
    const int64_t count = k.count ? k.size[axis] : 1, full = count / width * width;
    const int64_t stride = k.count ? k.stride[axis] : 0;
    auto at = [&](const std::string& n, const std::string& mask) {
      one(vectors_->moved(to, n, item_), vectors_->moved(from, n, stride), stride, mask);
    };
    if (full == width)
      at("0", "");
    else if (full > 0)
      code_.loop("0", joined(full), width, [&](const std::string& n) { at(n, ""); });
    if (full < count) at(joined(full), vectors_->first_lanes(static_cast<int>(count - full)));
  }
  // The sums of one vector of columns.
  void one(const std::string& to, const std::string& from, int64_t stride,
           const std::string& mask) {
    TextLanes& l = vectors_->lanes(p_.dtype);
    const int64_t rows = p_.reduced.size[0], step = p_.reduced.stride[0];
    auto row = [&](const std::string& base, int64_t n) {
      return TextLanes::V{
          vectors_->load(p_.dtype, vectors_->moved(base, joined(n), step), stride, mask)};
    };
    int64_t done = by_columns_ ? rows / kTree * kTree : 0;
    TextLanes::V total = l.number(0);
    auto tree = [&](const TextLanes::V& sum, const std::string& base) {
      TextLanes::V x[kTree];
      for (int64_t n = 0; n < kTree; ++n) x[n] = row(base, n);
      for (int64_t half = kTree / 2; half > 0; half /= 2)
        for (int64_t n = 0; n < half; ++n) x[n] = l.add(x[n], x[n + half]);
      return l.add(sum, x[0]);
    };
    if (done > kTree) {
      total.name = code_.carried_loop("0", joined(done), kTree, l.type(), total.name,
                                      [&](const std::string& n, const std::string& sum) {
                                        return tree({sum}, vectors_->moved(from, n, step)).name;
                                      });
    } else if (done == kTree) {
      total = tree(total, from);
    }
    for (int64_t n = done; n < rows; ++n) total = l.add(total, row(from, n));
    if (p_.divisor != 0) total = l.div(total, l.number(p_.divisor));
    vectors_->store(p_.dtype, total.name, to, item_, mask);
  }

  // Contiguous rows by the library's own loop.
  std::optional<std::string> whole_rows(const std::string& name) {
    const Axes &k = p_.kept, &r = p_.reduced;
    if (by_columns_ || r.stride[0] != item_ || k.count > 1 || p_.divisor != 0) return {};
    vectors_.emplace(code_, 1);
    std::string to = pointer(1), from = pointer(2);
    std::string row =
        joined("inttoptr (i64 ",
               reinterpret_cast<int64_t>(reduce::loops(reduce::Sum, p_.dtype).row), " to ptr)");
    auto one = [&](const std::string& n) {
      code_.line("call void ", row, "(ptr ", vectors_->moved(from, n, k.count ? k.stride[0] : 0),
                 ", i64 ", r.size[0], ", ptr ", vectors_->moved(to, n, item_), ", ptr null)");
    };
    if (k.count)
      code_.loop("0", joined(k.size[0]), 1, one);
    else
      one("0");
    return code_.function(name, "ptr %data, i64 %n");
  }

  const Problem& p_;
  int64_t item_;
  bool by_columns_;
  Code code_;
  std::optional<Vectors> vectors_;
};

}  // namespace

std::optional<std::string> sum_code(const Problem& p, const std::string& name) {
  if (!is_plain(p)) return {};
  return SumCode(p).write(name);
}

// Rows of whole vectors: elements k and k + 4 of each eight are added, then k and k + 2, k and k + 1.
// Each time two vectors of sums become one, so that no lane is idle; the eights of a row are then
// added from the left.
std::optional<std::string> sum_code(const FoldedRows& f, const std::string& name) {
  if (f.length % kTree || f.length == 0 || f.divisor != 0 || f.length > 64) return {};
  const char* element = f.narrow ? "float" : "double";
  const int64_t item = f.narrow ? 4 : 8, eights = f.length / kTree;
  const int lanes = vector_bytes() / static_cast<int>(item);
  if (lanes < kTree / 2) return {};
  // So many rows at once that their eights fill a vector at the end, if there are so many.
  const int64_t at_once = std::max<int64_t>(1, lanes / eights);
  Code c;
  auto pointer = [&](int n) {
    return c.first("load ptr, ptr ", c.first("getelementptr ptr, ptr %data, i64 ", n));
  };
  std::string to = pointer(1), from = pointer(2);
  auto group = [&](const std::string& first, int64_t rows) {
    // All elements of these rows as one vector, halved three times.
    int64_t count = rows * f.length;
    std::string all;
    std::vector<std::string> parts;
    for (int64_t r = 0; r < rows; ++r) {
      std::string at = c.value("mul i64 ", c.value("add i64 ", first, ", ", r), ", ", f.step);
      at = c.value("getelementptr i8, ptr ", from, ", i64 ", at);
      parts.push_back(c.value("load <", f.length, " x ", element, ">, ptr ", at, ", align ", item));
    }
    for (int64_t size = f.length; parts.size() > 1; size *= 2) {
      std::vector<std::string> joint;
      std::vector<int> both;
      for (int k = 0; k < 2 * size; ++k) both.push_back(k);
      std::string type = joined("<", size, " x ", element, ">");
      for (size_t k = 0; k < parts.size(); k += 2)
        joint.push_back(c.value("shufflevector ", type, " ", parts[k], ", ", type, " ",
                                parts[k + 1], ", ", picked(both)));
      parts = joint;
    }
    all = parts[0];
    for (int64_t half = kTree / 2; half > 0; half /= 2) {
      std::vector<int> low, high;
      for (int64_t k = 0; k < count; ++k) {
        if (k % (2 * half) < half)
          low.push_back(static_cast<int>(k)), high.push_back(static_cast<int>(k + half));
      }
      std::string type = joined("<", count, " x ", element, ">");
      std::string a =
          c.value("shufflevector ", type, " ", all, ", ", type, " poison, ", picked(low));
      std::string b =
          c.value("shufflevector ", type, " ", all, ", ", type, " poison, ", picked(high));
      count /= 2;
      all = c.value("fadd <", count, " x ", element, "> ", a, ", ", b);
    }
    // By row: the eights, from the left.
    std::string type = joined("<", count, " x ", element, ">"),
                sums = joined("<", rows, " x ", element, ">");
    std::string total = "zeroinitializer";
    for (int64_t e = 0; e < eights; ++e) {
      std::vector<int> lane;
      for (int64_t r = 0; r < rows; ++r) lane.push_back(static_cast<int>(r * eights + e));
      std::string part =
          c.value("shufflevector ", type, " ", all, ", ", type, " poison, ", picked(lane));
      total = c.value("fadd ", sums, " ", total, ", ", part);
    }
    std::string at = c.value("mul i64 ", first, ", ", item);
    at = c.value("getelementptr i8, ptr ", to, ", i64 ", at);
    c.line("store ", sums, " ", total, ", ptr ", at, ", align ", item);
  };
  const int64_t rows = std::bit_floor(static_cast<uint64_t>(std::min(at_once, f.rows)));
  const int64_t full = f.rows / rows * rows;
  c.loop("0", joined(full), rows, [&](const std::string& n) { group(n, rows); });
  for (int64_t n = full; n < f.rows; ++n) group(joined(n), 1);
  return c.function(name, "ptr %data, i64 %n");
}

std::string sum_key(const Problem& p) {
  std::string key = "sums ";
  auto add = [&](const auto& x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  const uint8_t small[] = {static_cast<uint8_t>(p.kind), static_cast<uint8_t>(p.dtype),
                           static_cast<uint8_t>(p.accumulator), static_cast<uint8_t>(p.out_dtype),
                           p.centre != nullptr};
  add(small);
  for (const Axes* axes : {&p.kept, &p.reduced}) {
    add(axes->count);
    for (int k = 0; k < axes->count; ++k) {
      add(axes->size[k]);
      add(axes->stride[k]);
    }
  }
  add(p.divisor);
  return key;
}

std::string sum_key(const FoldedRows& f) {
  return joined("fold ", f.narrow ? 4 : 8, " ", f.rows, " ", f.length, " ", f.step,
                f.divisor != 0 ? " divided" : "");
}

}  // namespace adjoint::native
