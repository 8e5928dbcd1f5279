// See conv_layout.h.
#include "kernels/windows/conv_layout.h"

#include <algorithm>

#include "kernels/convert.h"
#include "parallel/pool.h"

namespace adjoint {

ConvScratch& ConvScratch::of_thread() {
  static thread_local ConvScratch scratch;
  return scratch;
}

void ConvLayout::list_offsets(int64_t channels) {
  for (const PlanePass& p : g.passes) {
    std::vector<int32_t>& all = offset.emplace_back();
    all.reserve(static_cast<size_t>(channels) * p.tap.size());
    for (int64_t c = 0; c < channels; ++c)
      for (const int32_t t : p.tap) all.push_back(static_cast<int32_t>(c * g.channel()) + t);
  }
}

void ConvLayout::list_places(int64_t samples, int64_t in, int64_t out) {
  for (const PlanePass& p : g.passes) {
    std::vector<VectorPlace>& all = places.emplace_back();
    all.reserve(static_cast<size_t>(samples) * p.places.size());
    for (int64_t n = 0; n < samples; ++n)
      for (const VectorPlace& q : p.places)
        all.push_back(
            {static_cast<int32_t>(q.in + n * in), static_cast<int32_t>(q.out + n * out), q.mask});
  }
}

ConvLayouts::ConvLayouts(const Sums& s, const Blocks& blocks, int lanes) {
  for (int64_t i = 0; i < blocks.count(); ++i) {
    const ResultBlock shape = s.shape(blocks[i]);
    size_t k = 0;
    while (k < all.size() && !(all[k].shape == shape)) ++k;
    if (k == all.size()) all.emplace_back(s, shape, lanes);
    of_block.push_back(static_cast<int32_t>(k));
  }
}

int64_t ConvLayouts::largest_channel() const {
  int64_t most = 0;
  for (const ConvLayout& l : all) most = std::max(most, l.g.channel());
  return most;
}

namespace {

// Where a kernel reaches much further than the results are long, each block packs all that lies between.
bool packs_too_much(const Sums& s, int64_t channels) {
  const Conv& c = s.c;
  const Blocks blocks(s, std::max<int64_t>(1, kConvPacked / 8 / channels));
  const Axes3 block = blocks[0].size;
  double packed = static_cast<double>(blocks.count()),
         plain = static_cast<double>(volume(c.kernel));
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (c.kernel[d] - 1) * c.dilation[d];
    packed *= static_cast<double>((block[d] + reach) / (s.of_input ? c.stride[d] : 1) + 1);
    plain *= static_cast<double>(s.result()[d]);
  }
  return packed > 32 * plain * static_cast<double>(s.of_input ? c.ci : c.co);
}

}  // namespace

bool fits_planes(const Sums& s, int64_t channels) {
  const Conv& c = s.c;
  if (static_cast<double>(channels) * static_cast<double>(volume(c.kernel)) > kConvMost)
    return false;
  // A block is at least one position: its planes are as long as the kernel reaches.
  double size = static_cast<double>(channels);
  for (int d = 0; d < 3; ++d) {
    const double reach = static_cast<double>(c.kernel[d] - 1) * static_cast<double>(c.dilation[d]);
    const double phases = static_cast<double>(s.of_input ? 1 : std::min(c.stride[d], c.kernel[d]));
    size *= phases * (reach / static_cast<double>(c.stride[d]) + 2);
  }
  return size <= kConvMost && !packs_too_much(s, channels);
}

int64_t wanted_chunks() {
  const int threads = parallel::get_num_threads();
  return threads == 1 ? 1 : 4 * threads;
}

const char* computed_form(const char* from, DType dtype, int64_t n, Scratch& s) {
  const DType type = compute_dtype(dtype);
  if (type == dtype || !from) return from;
  char* to = memory(s, n, type);
  if (!to) throw std::bad_alloc();
  copy_run(to, static_cast<int64_t>(item_size(type)), type, from,
           static_cast<int64_t>(item_size(dtype)), dtype, n);
  return to;
}

}  // namespace adjoint
