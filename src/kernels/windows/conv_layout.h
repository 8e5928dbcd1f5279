// What the drivers of convolutions share: the geometries of all blocks, and memory of threads.
#pragma once
#include <new>
#include <vector>

#include "kernels/windows/conv_geometry.h"
#include "kernels/products/packing.h"

namespace adjoint {

inline constexpr int64_t kConvPacked = 0x60000;  // bytes of planes: what stays in the second cache
inline constexpr double kConvMost = 0x1p30;      // elements: offsets are 32 bits wide

struct ConvScratch {
  Scratch planes, results, weights, converted, bias, gathered;
  static ConvScratch& of_thread();
  void drop_if_large() noexcept {
    for (Scratch* s : {&planes, &results, &weights, &converted, &bias, &gathered})
      s->drop_if_large();
  }
};

inline char* memory(Scratch& s, int64_t elements, DType type) {
  return s.get(static_cast<size_t>(elements) * item_size(type));
}

// The geometry of blocks of one shape, with what follows for the samples of a chunk.
struct ConvLayout {
  ResultBlock shape;
  Geometry g;
  std::vector<std::vector<int32_t>> offset;      // of each pass: channels * taps
  std::vector<std::vector<VectorPlace>> places;  // of each pass, for all samples of a chunk

  ConvLayout(const Sums& s, const ResultBlock& b, int lanes)
      : shape(s.shape(b)), g(s.geometry(shape, lanes)) {}
  void list_offsets(int64_t channels);
  void list_places(int64_t samples, int64_t in, int64_t out);  // which lie `in` and `out` apart
};

struct ConvLayouts {
  std::vector<ConvLayout> all;
  std::vector<int32_t> of_block;

  ConvLayouts(const Sums& s, const Blocks& blocks, int lanes);
  int64_t largest_channel() const;
  const ConvLayout& operator[](int64_t block) const {
    return all[static_cast<size_t>(of_block[static_cast<size_t>(block)])];
  }
};

// Whether the planes of these channels can be addressed by 32 bits, and are worth packing.
bool fits_planes(const Sums& s, int64_t channels);

// How many chunks there should be for all threads to take part to the end.
int64_t wanted_chunks();

// Contiguous numbers (or null) in the dtype of the arithmetic; throws std::bad_alloc.
const char* computed_form(const char* from, DType dtype, int64_t n, Scratch& s);

}  // namespace adjoint
