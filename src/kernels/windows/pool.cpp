// The drivers of pooling by windows that slide. See pool.h.
#include "kernels/windows/pool.h"

#include <algorithm>

#include "kernels/windows/conv_geometry.h"
#include "kernels/kernel.h"
#include "kernels/windows/pool_rows.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

// Without taps that lie inside of no window: a kernel may be far larger than what it slides over.
Pool with_taps_inside(Pool p) {
  for (size_t d = 0; d < 3; ++d) {
    const int64_t last = p.in[d] - 1 + p.padding[d];
    p.kernel[d] = std::min(p.kernel[d], last < 0 ? 0 : last / p.dilation[d] + 1);
  }
  return p;
}

// What a SlidingAxis points at. `whole` is the kernel with all of its taps.
struct AxisTables {
  std::vector<int32_t> first_tap, end_tap;
  std::vector<int64_t> first, elements, begin, end;

  AxisTables(const Pool& p, size_t d, int64_t whole, bool with_padding) {
    const int64_t in = p.in[d], kernel = p.kernel[d], step = p.stride[d], before = p.padding[d],
                  hole = p.dilation[d];
    for (int64_t q = 0; q < p.out[d]; ++q) {
      const int64_t start = q * step - before;
      const int64_t tap = start >= 0 ? 0 : (-start + hole - 1) / hole;
      const int64_t last_tap = in > start ? std::min(kernel, (in - start - 1) / hole + 1) : 0;
      first_tap.push_back(static_cast<int32_t>(std::min(tap, kernel)));
      end_tap.push_back(static_cast<int32_t>(std::max(std::min(tap, kernel), last_tap)));
      first.push_back(last_tap > tap ? start + tap * hole : -1);
      const int64_t edge = in + (with_padding ? before : 0);
      const int64_t last = whole < edge - start ? start + whole : edge;
      elements.push_back(last - (with_padding ? start : std::max<int64_t>(start, 0)));
    }
    for (int64_t t = 0; t < kernel; ++t) {
      const int64_t shift = before - t * hole;
      begin.push_back(std::min(shift > 0 ? (shift - 1) / step + 1 : 0, p.out[d]));
      end.push_back(std::clamp(floor_div(in - 1 + shift, step) + 1, begin.back(), p.out[d]));
    }
  }
  SlidingAxis view() const {
    return {first_tap.data(), end_tap.data(), first.data(),
            elements.data(),  begin.data(),   end.data()};
  }
};

void run(const Kernel& kernel, const Pool& given, DType dtype, const Divisor& d, const char* x,
         char* y, int64_t* index) {
  const Pool p = with_taps_inside(given);
  const Loop loop = kernel.loop[static_cast<int>(dtype)];
  const AxisTables tables[3] = {{p, 0, given.kernel[0], d.with_padding},
                                {p, 1, given.kernel[1], d.with_padding},
                                {p, 2, given.kernel[2], d.with_padding}};
  const SlidingAxis axes[3] = {tables[0].view(), tables[1].view(), tables[2].view()};
  const int64_t plane = std::max(volume(p.in), volume(p.out) * volume(p.kernel) / 4);
  parallel::parallel_ranges(
      p.planes, std::max<int64_t>(1, kGrain / plane), [&](int64_t begin, int64_t end) {
        std::vector<int64_t> row(static_cast<size_t>(p.out[2]));
        PoolJob job{
            &p, axes, d.given, begin, end, x, y, index, reinterpret_cast<char*>(row.data())};
        char* const arguments[] = {reinterpret_cast<char*>(&job)};
        loop(arguments, 1);
      });
}

}  // namespace

void max_pool(const Pool& p, DType dtype, const char* x, char* y, int64_t* index) {
  static const Kernel& kernel = *find_kernel("max_pool_planes");
  run(kernel, p, dtype, {}, x, y, index);
}

void mean_pool(const Pool& p, DType dtype, const Divisor& d, const char* x, char* y) {
  static const Kernel& kernel = *find_kernel("mean_pool_planes");
  run(kernel, p, dtype, d, x, y, nullptr);
}

void mean_pool_back(const Pool& p, DType dtype, const Divisor& d, const char* g, char* dx) {
  static const Kernel& kernel = *find_kernel("mean_pool_back_planes");
  run(kernel, p, dtype, d, g, dx, nullptr);
}

}  // namespace adjoint
