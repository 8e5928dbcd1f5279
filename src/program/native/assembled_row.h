// Values that loops put together from boxes of others (TileLoops::Assembly), as generated code, along one
// row: which box an element is in depends on its place in the row, which is known, and on the
// row, which picks pointers. Read program/fuse/tiles.h and vectors.h first.
#pragma once
#include "program/fuse/tiles.h"
#include "program/native/vectors.h"

namespace adjoint::native {

class AssembledRow {
 public:
  // Boxes that the code can tell apart.
  static bool is_known(const TileLoops& f);

  // `bases`: by place, pointers that are moved to the row already; `outer`: the index of the row.
  AssembledRow(const TileLoops& f, Vectors& vectors, Code& code,
               const std::vector<std::string>& bases, const std::vector<std::string>& outer);

  // Whether the vectors at two places of the row read the same boxes, one of each value.
  bool is_same(int64_t a, int64_t b) const;
  // The vector at `index`, which reads the boxes of the one at `at`.
  std::string load(size_t assembly, const std::string& index, int64_t at, const std::string& mask);

 private:
  // A part of the row, and the boxes that it is in, by row.
  struct Segment {
    int64_t begin, end, step;
    std::vector<const TileLoops::Box*> boxes;
    std::string pointer;                  // where there are no numbers
    std::vector<std::string> pointers;    // by box
    std::vector<std::string> conditions;  // by box: empty if it is always that one
  };
  std::vector<Segment> segments_of(const TileLoops::Assembly& a) const;
  std::string condition(const TileLoops::Box& b);
  void prepare(Segment& s);
  std::string part(const Segment& s, const TileLoops::Assembly& a, const std::string& index,
                   const std::string& mask);
  std::string number(const TileLoops::Box& b);
  int segment_at(size_t assembly, int64_t at) const;  // -1 where several meet

  const TileLoops& f_;
  Vectors& vectors_;
  Code& code_;
  const std::vector<std::string>& bases_;
  const std::vector<std::string>& outer_;
  std::vector<std::vector<Segment>> segments_;  // by assembly
};

}  // namespace adjoint::native
