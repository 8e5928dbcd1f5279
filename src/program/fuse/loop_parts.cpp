// Read loop_parts.h first.
#include "program/fuse/loop_parts.h"

#include "dispatch/elementwise_forward.h"

namespace adjoint {
namespace {

Dims byte_strides(const TensorGeometry& g) {
  Dims strides = g.strides;
  for (int64_t& s : strides) s *= static_cast<int64_t>(item_size(g.dtype));
  return strides;
}

Loop product_loop(DType d) {  // null for 16-bit floats
  static const Kernel& mul = kernel_named("mul");
  return mul.loop[static_cast<int>(d)];
}

// A value that is read box by box.
int boxed(TileBuilder& tiles, int reg, const SourceBoxes& boxes, const Sources& sources) {
  alignas(16) static const char zero[16] = {};
  std::vector<TileBuilder::BoxOf> parts;
  DType dtype = sources.geometry(reg).dtype;
  for (const SourceBox& box : boxes) {
    TileBuilder::BoxOf part;
    part.start = box.start;
    part.size = box.size;
    part.element = box.reg < 0 ? zero : sources.uniform(box.reg);
    if (!part.element) {
      const TensorGeometry& g = sources.geometry(box.reg);
      const Source& s = sources.of(box.reg);
      auto item = static_cast<int64_t>(item_size(dtype));
      part.reg = s.reg;
      part.offset = s.offset;
      part.bytes = extent(sources.geometry(s.reg));
      for (int i = 0; i < g.shape.size(); ++i) part.offset += box.from[i] * g.strides[i] * item;
      part.byte_strides = Dims(box.start.size(), 0);
      for (int i = 0; i < box.axes.size(); ++i) {
        if (box.axes[i] >= 0)
          part.byte_strides[i] = g.strides[static_cast<int>(box.axes[i])] * item;
      }
    }
    parts.push_back(std::move(part));
  }
  return tiles.assembled(reg, parts, dtype);
}

// A value whose box lies as it would itself, with zeros around it.
int padded(TileBuilder& tiles, const SourceBox& box, DType wanted, const Dims& shape,
           const Sources& sources) {
  const Source& s = sources.of(box.reg);
  const DType dtype = sources.geometry(s.reg).dtype;
  const auto item = static_cast<int64_t>(item_size(dtype));
  Dims strides = contiguous_strides(shape);
  int64_t offset = s.offset;
  for (int i = 0; i < shape.size(); ++i) {
    offset -= box.start[i] * strides[i] * item;
    strides[i] *= shape[i] == 1 ? 0 : item;
  }
  return tiles.memory(s.reg, offset, strides, dtype, wanted);
}

// The value of a register as dtype `wanted`, seen from a shape.
int operand(TileBuilder& tiles, int reg, DType wanted, const Dims& shape, const Sources& sources,
            const Values& value_of) {
  const Source& s = sources.of(reg);
  if (int value = value_of.of(s.reg); value >= 0) return tiles.converted(value, wanted);
  if (const SourceBoxes* boxes = value_of.boxes(s.reg)) {
    if (value_of.is_padded(s.reg))
      return padded(tiles, (*boxes)[0], wanted, sources.geometry(s.reg).shape, sources);
    return tiles.converted(boxed(tiles, s.reg, *boxes, sources), wanted);
  }
  const TensorGeometry& g = sources.geometry(reg);
  if (const char* bytes = sources.uniform(reg)) return tiles.element(bytes, g.dtype, wanted);
  Dims strides(shape.size(), 0);
  int lead = shape.size() - g.shape.size();
  for (int i = 0; i < g.shape.size(); ++i) {
    if (g.shape[i] != 1)
      strides[lead + i] = g.strides[i] * static_cast<int64_t>(item_size(g.dtype));
  }
  return tiles.memory(s.reg, s.offset, strides, g.dtype, wanted);
}

int kernel_value(TileBuilder& tiles, const Instruction& i, const Sources& sources,
                 const Values& value_of) {
  const KernelCall& call = *i.kernel;
  DType compute = compute_dtype(call.common);
  int operands[kMaxOperands];
  size_t count = call.operands.size();
  for (size_t n = 0; n < count; ++n) {
    const KernelCall::Operand& o = call.operands[n];
    if (o.read < 0) {
      operands[n] = tiles.number(o.number, compute);
      continue;
    }
    int reg = i.reads[o.read].reg;
    bool condition =
        call.kernel->has(kCondition) && n == 0 && sources.geometry(reg).dtype == DType::Bool;
    operands[n] = operand(tiles, reg, condition ? DType::Bool : compute,
                          sources.geometry(i.writes[0]).shape, sources, value_of);
  }
  if (divides_integers(call)) tiles.may_fault();
  // A gradient of ones times a factor is the factor.
  if (call.kernel->has(kProduct) && compute == call.common && compute != DType::Bool) {
    for (int n : {0, 1}) {
      if (tiles.is_one(operands[n])) return operands[1 - n];
    }
  }
  int value = tiles.loop(call.kernel->loop[static_cast<int>(compute)], {operands, count},
                         result_dtype(*call.kernel, compute));
  return tiles.converted(value, result_dtype(*call.kernel, call.common));
}

}  // namespace

int64_t extent(const TensorGeometry& g) {
  int64_t elements = 1;
  for (int i = 0; i < g.shape.size(); ++i) elements += (g.shape[i] - 1) * g.strides[i];
  return elements * static_cast<int64_t>(item_size(g.dtype));
}

bool divides_integers(const KernelCall& s) {
  return is_integral(s.common) && s.kernel->has(kDividesIntegers);
}

bool sums_a_group(const Instruction& i, const Sources& sources) {
  if (!i.sum() || !reduce::sums_by_blocks(*i.sum())) return false;
  const TensorGeometry& g = sources.geometry(i.reads[0].reg);
  return g.numel >= kBlockNumel && g.contiguous && sources.of(i.reads[0].reg).same;
}

bool is_outer(const Instruction& i, const Sources& sources) {
  if (i.op->facts.product.form != Product::Outer) return false;
  DType d = sources.geometry(i.writes[0]).dtype;
  return sources.geometry(i.reads[0].reg).dtype == d &&
         sources.geometry(i.reads[1].reg).dtype == d && product_loop(d);
}

Part group_part(const std::vector<int>& members, const Program& p, const Sources& sources,
                const std::vector<bool>& needed, Values& values, int64_t pitch) {
  TileBuilder tiles(sources.geometry(p.code[members[0]].writes[0]).shape, members.size(), pitch);
  for (int k : members) {
    const Instruction& i = p.code[k];
    int reg = i.writes[0];
    if (i.sum()) {
      int whole = sources.of(i.reads[0].reg).reg;
      tiles.summed(values.of(whole), reg, byte_strides(sources.geometry(whole)), i.more->sum);
      continue;
    }
    const TensorGeometry& g = sources.geometry(reg);
    int value = i.kernel ? kernel_value(tiles, i, sources, values)
                         : operand(tiles, i.reads[0].reg, g.dtype, g.shape, sources, values);
    if (needed[reg]) {
      if (!i.kernel || !tiles.is_fresh(value)) value = tiles.copied(value);
      tiles.result(value, reg, 0, byte_strides(g));
    }
    values.set(reg, value);
  }
  for (int k : members) values.set(p.code[k].writes[0], -1);
  return {tiles.finish()};
}

void add_fill(std::vector<Part>& parts, int reg, const char* element, const Sources& sources) {
  const TensorGeometry& g = sources.geometry(reg);
  TileBuilder tiles(g.shape);
  int value = tiles.copied(tiles.element(element, g.dtype, g.dtype));
  tiles.result(value, reg, 0, byte_strides(g));
  parts.push_back({tiles.finish()});
}

// The box of an operand that a piece is made of.
static int box_of(TileBuilder& tiles, int reg, const Piece& piece, DType wanted,
                  const Sources& sources) {
  const TensorGeometry& g = sources.geometry(reg);
  const Source& s = sources.of(reg);
  if (const char* bytes = sources.uniform(reg)) return tiles.element(bytes, g.dtype, wanted);
  Dims strides = byte_strides(g);
  int64_t offset = s.offset;
  for (int i = 0; i < strides.size(); ++i) {
    offset += piece.from[i] * strides[i];
    if (piece.size[i] == 1) strides[i] = 0;
  }
  return tiles.memory(s.reg, offset, strides, g.dtype, wanted);
}

void add_pieces(std::vector<Part>& parts, const Instruction& i, const Sources& sources) {
  const TensorGeometry& whole = sources.geometry(i.writes[0]);
  alignas(16) const char zero[16] = {};
  if (i.pieces()->zeros) add_fill(parts, i.writes[0], zero, sources);
  for (const Piece& piece : i.pieces()->pieces) {
    int reg = i.reads[piece.read].reg;
    TileBuilder tiles(piece.size);
    int value = tiles.copied(box_of(tiles, reg, piece, whole.dtype, sources));
    tiles.result(value, i.writes[0], piece.offset, piece.byte_strides);
    parts.push_back({tiles.finish()});
  }
}

void add_call(std::vector<Part>& parts, const Instruction& i, const SmallCall& call,
              const Sources& sources) {
  if (call.start >= 0) {
    const TensorGeometry& out = sources.geometry(i.writes[0]);
    TileBuilder tiles(out.shape);
    int value = tiles.copied(
        operand(tiles, i.reads[call.start].reg, out.dtype, out.shape, sources, Values()));
    tiles.result(value, i.writes[0], 0, byte_strides(out));
    parts.push_back({tiles.finish()});
  }
  Part part;
  part.loop = call.loop;
  part.what = call.what;
  for (int read : call.reads) {
    Source s = sources.of(i.reads[read].reg);
    part.from.push_back({s.reg, s.offset});
  }
  part.to = i.writes[0];
  parts.push_back(std::move(part));
}

// A column times a row.
void add_outer(std::vector<Part>& parts, const Instruction& i, const Sources& sources) {
  const TensorGeometry& out = sources.geometry(i.writes[0]);
  TileBuilder tiles(out.shape);
  int operands[2];
  for (int n : {0, 1}) {
    const TensorGeometry& g = sources.geometry(i.reads[n].reg);
    const Source& s = sources.of(i.reads[n].reg);
    if (const char* bytes = sources.uniform(i.reads[n].reg)) {
      operands[n] = tiles.element(bytes, g.dtype, g.dtype);
      continue;
    }
    Dims strides(2, 0);
    strides[n] = g.strides[0] * static_cast<int64_t>(item_size(g.dtype));
    operands[n] = tiles.memory(s.reg, s.offset, strides, g.dtype, g.dtype);
  }
  int value = tiles.loop(product_loop(out.dtype), operands, out.dtype);
  tiles.result(value, i.writes[0], 0, byte_strides(out));
  parts.push_back({tiles.finish()});
}

}  // namespace adjoint
