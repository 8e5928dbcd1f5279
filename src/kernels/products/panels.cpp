// Packing of panels, and products with them. See panels.h.
#include "kernels/products/panels.h"

#include <algorithm>

#include "kernels/products/panel_tiles.h"

namespace adjoint::panels {
namespace {

thread_local Scratch rows_in_order, packed_columns;

int lanes() { return wide() / kTileVectors; }
int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

void call(const Kernel& kernel, void* job) {
  char* const p[] = {static_cast<char*>(job)};
  kernel.loop[static_cast<int>(DType::Float32)](p, 1);
}

// Lines (rows of a, columns of b) over a part of k, as panels of `width`, the last of whole `unit`s.
float* pack(const void* from, int64_t line_stride, int64_t step, int64_t lines, int64_t depth,
            int width, int unit, float* to) {
  static const Kernel& kernel = *find_kernel("panel_pack");
  for (int64_t i = 0; i < lines; i += width) {
    const int64_t some = std::min<int64_t>(width, lines - i), room = up_to(some, unit);
    PanelPack job;
    job.from = static_cast<const char*>(from) + i * line_stride * 4;
    job.line_stride = line_stride;
    job.step = step;
    job.lines = some;
    job.width = room;
    job.count = depth;
    job.to = reinterpret_cast<char*>(to);
    call(kernel, &job);
    to += depth * room;
  }
  return to;
}

}  // namespace

int64_t depth_of(int64_t k) {
  const int64_t parts = (std::max<int64_t>(k, 1) - 1) / kDepth + 1;
  return (k - 1) / parts + 1;
}

int tall() { return panel_rows(active_isa()); }
int wide() { return panel_columns(active_isa()); }

Scratch& columns_scratch() { return packed_columns; }

int64_t size_of_columns(int64_t columns, int64_t depth) { return up_to(columns, lanes()) * depth; }

float* pack_columns(const Matrix& b, int64_t columns, int64_t depth, float* to) {
  return pack(b.data, b.col_stride, b.row_stride, columns, depth, wide(), lanes(), to);
}

Matrix part(const Matrix& m, int64_t row, int64_t column) {
  const auto* data = static_cast<const char*>(m.data);
  return {data + (row * m.row_stride + column * m.col_stride) * 4, m.row_stride, m.col_stride};
}

bool lie_well(const Matrix& a, int64_t rows) {
  return rows >= tall() && (a.row_stride == 1 || a.col_stride == 1);
}

bool multiply(const Matrix& a, int64_t rows, const float* b, int64_t columns, int64_t depth,
              const Into& into) {
  static const Kernel& tiles = *find_kernel("float_tiles");
  FloatTiles job;
  job.depth = depth;
  job.rows = rows;
  job.ldc = into.ldc;
  job.add = into.add;
  job.ldh = into.ldh;
  if (lie_well(a, rows)) {
    job.a = static_cast<const float*>(a.data);
    job.a_row = a.row_stride;
    job.a_step = a.col_stride;
  } else {
    char* packed = rows_in_order.get(static_cast<size_t>(up_to(rows, tall()) * depth) * 4);
    if (!packed) return false;
    float* to = reinterpret_cast<float*>(packed);
    pack(a.data, a.row_stride, a.col_stride, rows, depth, tall(), tall(), to);
    job.a = to;
    job.a_row = 1;
    job.a_step = tall();
    job.a_panel = tall() * depth;
  }
  for (int64_t v = 0; v < columns; v += wide(), b += depth * wide()) {
    const int64_t some = std::min<int64_t>(wide(), columns - v);
    job.vectors = static_cast<int>(up_to(some, lanes()) / lanes());
    job.last = static_cast<int>(some - (job.vectors - 1) * lanes());
    job.b = b;
    job.c = into.c + v;
    job.row = into.row ? into.row + v : nullptr;
    job.halves = into.halves ? into.halves + v : nullptr;
    call(tiles, &job);
  }
  return true;
}

}  // namespace adjoint::panels
