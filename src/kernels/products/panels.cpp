// Packing of panels, and products of them. See panels.h.
#include "kernels/products/panels.h"

#include <algorithm>

#include "kernels/products/panel_tiles.h"

namespace adjoint::panels {
namespace {

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

void copy_edge(const float* from, int64_t stride, int64_t rows, int64_t columns, float* c,
               int64_t ldc, bool add) {
  for (int64_t i = 0; i < rows; ++i, from += stride, c += ldc) {
    if (add)
      for (int64_t j = 0; j < columns; ++j) c[j] += from[j];
    else
      for (int64_t j = 0; j < columns; ++j) c[j] = from[j];
  }
}

}  // namespace

int tall() { return panel_rows(active_isa()); }
int wide() { return panel_columns(active_isa()); }

int64_t size_of_rows(int64_t rows, int64_t depth) { return up_to(rows, tall()) * depth; }
int64_t size_of_columns(int64_t columns, int64_t depth) { return up_to(columns, lanes()) * depth; }

float* pack_rows(const Matrix& a, int64_t rows, int64_t depth, float* to) {
  return pack(a.data, a.row_stride, a.col_stride, rows, depth, tall(), tall(), to);
}
float* pack_columns(const Matrix& b, int64_t columns, int64_t depth, float* to) {
  return pack(b.data, b.col_stride, b.row_stride, columns, depth, wide(), lanes(), to);
}

Matrix part(const Matrix& m, int64_t row, int64_t column) {
  const auto* data = static_cast<const char*>(m.data);
  return {data + (row * m.row_stride + column * m.col_stride) * 4, m.row_stride, m.col_stride};
}

bool multiply(const float* a, int64_t rows, const float* b, int64_t columns, int64_t depth,
              float* c, int64_t ldc, bool add, Scratch& edge) {
  static const Kernel& tiles = *find_kernel("panel_tiles");
  const int64_t down = (rows - 1) / tall() + 1;
  for (int64_t v = 0; v < columns; v += wide(), b += depth * wide()) {
    const int64_t some = std::min<int64_t>(wide(), columns - v), room = up_to(some, lanes());
    const int64_t whole = some == room ? rows / tall() : 0, rest = down - whole;
    PanelTiles job;
    job.units = depth;
    job.column_panels = 1;
    job.vectors = static_cast<int>(room / lanes());
    job.a = reinterpret_cast<const char*>(a);
    job.b = reinterpret_cast<const char*>(b);
    if (whole) {
      job.row_panels = whole;
      job.c = c + v;
      job.ldc = ldc;
      job.add = add;
      call(tiles, &job);
    }
    if (rest) {
      char* over = edge.get(static_cast<size_t>(rest * tall() * room) * 4);
      if (!over) return false;
      job.row_panels = rest;
      job.a = reinterpret_cast<const char*>(a + whole * tall() * depth);
      job.c = reinterpret_cast<float*>(over);
      job.ldc = room;
      job.add = false;
      call(tiles, &job);
      copy_edge(job.c, room, rows - whole * tall(), some, c + whole * tall() * ldc + v, ldc, add);
    }
  }
  return true;
}

}  // namespace adjoint::panels
