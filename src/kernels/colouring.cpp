// Greedy colourings. Read colouring.h first.
#include "kernels/colouring.h"

#include <algorithm>
#include <vector>

namespace adjoint::colouring {
namespace {

// The colours that the column in hand may not have. A colour is forbidden if it holds the number
// of that column, so nothing is cleared from one column to the next.
class Forbidden {
 public:
  void begin(int64_t column) { column_ = column; }
  void add(int64_t colour) {
    if (colour >= 0) by_[static_cast<size_t>(colour)] = column_;
  }
  int64_t lowest_free() {
    size_t c = 0;
    while (c < by_.size() && by_[c] == column_) ++c;
    if (c == by_.size()) by_.push_back(-1);
    return static_cast<int64_t>(c);
  }
  int64_t count() const { return static_cast<int64_t>(by_.size()); }

 private:
  std::vector<int64_t> by_;
  int64_t column_ = -1;
};

template <class F>
void each(const Lines& lines, int64_t i, F&& f) {
  for (int64_t k = lines.start[i]; k < lines.start[i + 1]; ++k) f(lines.index[k]);
}

bool is_empty(const Lines& lines, int64_t i) { return lines.start[i] == lines.start[i + 1]; }

// The entries of each column.
class Transposed {
 public:
  Transposed(const Lines& rows, int64_t columns)
      : start_(static_cast<size_t>(columns) + 1, 0),
        index_(static_cast<size_t>(rows.start[rows.count])) {
    for (int64_t k = 0; k < rows.start[rows.count]; ++k) ++start_[at(rows.index[k]) + 1];
    for (size_t j = 1; j < start_.size(); ++j) start_[j] += start_[j - 1];
    std::vector<int64_t> next(start_.begin(), start_.end() - 1);
    for (int64_t i = 0; i < rows.count; ++i)
      each(rows, i, [&](int64_t j) { index_[at(next[at(j)]++)] = i; });
  }
  Lines lines() const {
    return {static_cast<int64_t>(start_.size()) - 1, start_.data(), index_.data()};
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  std::vector<int64_t> start_, index_;
};

}  // namespace

int64_t colour_columns(const Lines& rows, int64_t columns, const int64_t* order, int64_t* colours) {
  std::fill_n(colours, columns, -1);
  Transposed by_column(rows, columns);
  Forbidden forbidden;
  for (int64_t k = 0; k < columns; ++k) {
    int64_t j = order[k];
    if (is_empty(by_column.lines(), j)) continue;
    forbidden.begin(j);
    each(by_column.lines(), j, [&](int64_t row) {
      each(rows, row, [&](int64_t other) { forbidden.add(colours[other]); });
    });
    colours[j] = forbidden.lowest_free();
  }
  return forbidden.count();
}

int64_t colour_symmetric(const Lines& rows, const int64_t* order, int64_t* colours) {
  std::fill_n(colours, rows.count, -1);
  Forbidden forbidden;
  std::vector<int64_t> members;  // how many have each colour
  for (int64_t k = 0; k < rows.count; ++k) {
    int64_t v = order[k];
    if (is_empty(rows, v)) continue;
    forbidden.begin(v);
    each(rows, v, [&](int64_t w) {
      if (w == v) return;
      forbidden.add(colours[w]);
      // A path v, w, x, y must not get away with two colours. Nobody else has the colour of a hub
      // that was coloured first, so its many neighbours need not be looked at.
      if (colours[w] >= 0 && members[static_cast<size_t>(colours[w])] == 1) return;
      each(rows, w, [&](int64_t x) {
        if (x == v || x == w || colours[x] < 0) return;
        bool closes = colours[w] < 0;
        if (!closes) {
          each(rows, x, [&](int64_t y) { closes |= y != w && y != x && colours[y] == colours[w]; });
        }
        if (closes) forbidden.add(colours[x]);
      });
    });
    colours[v] = forbidden.lowest_free();
    members.resize(static_cast<size_t>(forbidden.count()), 0);
    ++members[static_cast<size_t>(colours[v])];
  }
  return forbidden.count();
}

}  // namespace adjoint::colouring
