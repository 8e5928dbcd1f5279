// Read listing.h first.
#include "program/passes/listing.h"

#include "program/fuse/tiles.h"
#include "program/repeat.h"

namespace adjoint {
namespace {

std::string name_of(const Instruction& i) {
  switch (i.kind) {
    case Kind::Apply:
    case Kind::Change:
      return i.op->full_name;
    case Kind::Alias:
      return "alias";
    case Kind::Constant:
      return "constant";
    case Kind::Host:
      return "host call";
    case Kind::Accumulate:
      return "accumulate";
    case Kind::GradOf:
      return "grad of";
    case Kind::SetGrad:
      return "set grad";
    case Kind::Repeat:
      return text("loop of ", i.repeat()->count);
    case Kind::Rows:
      return "rows";
    case Kind::Fused: {
      FusedLoops::NativeParts parts = i.more->fused->native_parts();
      if (parts.native == 0) return "fused";
      if (parts.native == parts.all) return "native";
      return text("native (", parts.native, " of ", parts.all, " parts)");
    }
  }
  return "";
}

}  // namespace

std::vector<Line> listing(const std::vector<Instruction>& code) {
  std::vector<Line> lines;
  for (const Instruction& i : code) {
    Line line{name_of(i), i.kind == Kind::Change, {}, {}, i.line.describe()};
    for (const Read& r : i.reads) line.reads.push_back(r.reg);
    for (int w : i.writes) {
      if (w >= 0) line.writes.push_back(w);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace adjoint
