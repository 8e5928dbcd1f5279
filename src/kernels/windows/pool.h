// Pooling over up to three axes: the largest element or the mean of each window of a plane, and what
// goes back. Planes are contiguous and follow one another; missing axes are the first ones, of size
// one. float32, float64 and int64; results do not depend on the number of threads.
//
// Of equal elements the first is the largest, and the last of NaNs. An index counts elements of the
// plane; it is -1 for a window that lies outside of it, which holes in windows make possible.
#pragma once
#include <vector>

#include "kernels/windows/conv.h"

namespace adjoint {

struct Pool {
  int64_t planes = 0;
  Axes3 in, out, kernel, stride, padding, dilation;
};

// By what the sum of a window is divided: a number that is given, or the elements of the window,
// those of the padding among them if they count.
struct Divisor {
  int64_t given = 0;  // 0: none
  bool with_padding = true;
};

void max_pool(const Pool& p, DType dtype, const char* x, char* y, int64_t* index);
void mean_pool(const Pool& p, DType dtype, const Divisor& d, const char* x, char* y);
// The transpose: gives each element of a window its part of g.
void mean_pool_back(const Pool& p, DType dtype, const Divisor& d, const char* g, char* dx);

// Windows [begin, end) along each axis, anywhere.
struct AxisWindows {
  std::vector<int64_t> begin, end;
};
using Windows3 = std::array<AxisWindows, 3>;
// How many there are along each axis, and of which length the axes of a plane are.
struct WindowSizes {
  int64_t planes = 0;
  Axes3 in, out;
};

// `windows` are those of all planes.
void max_of_windows(const WindowSizes& s, DType dtype, const Windows3& windows, const char* x,
                    char* y, int64_t* index);
void mean_of_windows(const WindowSizes& s, DType dtype, const Windows3& windows, const char* x,
                     char* y);
void mean_of_windows_back(const WindowSizes& s, DType dtype, const Windows3& windows, const char* g,
                          char* dx);

// Elements of planes by their indices: [planes, count] of [planes, size]. The index -1 stands for
// zero. Any other that is not in the plane ends the work and is returned in `bad`.
struct PlaneIndices {
  int64_t planes, count, size;
  const int64_t* index;
};
bool gather_planes(const PlaneIndices& p, size_t item, const char* x, char* y, int64_t* bad);
// dx is written whole; elements with equal indices are added, in order, or the last one stays.
// put_into_planes knows no -1.
bool add_to_planes(const PlaneIndices& p, DType dtype, const char* g, char* dx, int64_t* bad);
bool put_into_planes(const PlaneIndices& p, size_t item, const char* g, char* dx, int64_t* bad);

}  // namespace adjoint
