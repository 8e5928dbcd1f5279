// The drivers of convolutions: what is packed when, and which thread computes what. Read conv.h and
// Note [Planes] in conv_geometry.h first.
//
// Note [Chunks of a convolution]
// A chunk is a group, a block of positions, some samples and perhaps some of the channels of the
// result. It packs what it reads into memory of its thread, which stays in the second cache while
// all channels of the result pass; so nothing is shared but the packed weights, and nobody waits.
// A sum runs over channels and taps in order however chunks are cut, so the cut may depend on the
// number of threads.
//
// Note [Pairs of bfloat16]
// Where the processor multiplies pairs of bfloat16, an element of a plane or of a weight is a pair of
// them, of two channels that follow one another, or of two samples in the gradient of the weight; all
// else is as for float32, whose size a pair has.
#include "kernels/windows/conv.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "kernels/windows/conv_layout.h"
#include "kernels/windows/conv_pack.h"
#include "kernels/windows/conv_tiles.h"
#include "kernels/convert.h"
#include "kernels/products/half_gemm.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

// Sums of the output, and of the input.
class SumsDriver {
 public:
  SumsDriver(const Sums& s, DType dtype, const Planes& source, const char* w, const char* bias,
             char* out)
      : s_(s),
        c_(s.c),
        dtype_(dtype),
        type_(compute_dtype(dtype)),
        item_(static_cast<int64_t>(item_size(type_))),
        lanes_(conv_lanes(type_)),
        channels_(s.of_input ? s.c.co : s.c.ci),
        pairs_(dtype == DType::BFloat16 && channels_ > 1 && multiplies_pairs()),
        from_(pairs_ ? (channels_ + 1) / 2 : channels_),
        to_(s.of_input ? s.c.ci : s.c.co),
        source_(source),
        out_(out),
        blocks_(s, std::max<int64_t>(1, kConvPacked / item_ / from_)),
        layouts_(s, blocks_, lanes_) {
    ConvScratch& scratch = ConvScratch::of_thread();
    static const Kernel& kernel = *find_kernel("conv_sums");
    loop_ = kernel.loop[static_cast<int>(pairs_ ? DType::BFloat16 : type_)];
    const int64_t weights = c_.groups * c_.co * c_.ci * volume(c_.kernel);
    bias_ = computed_form(bias, dtype, c_.groups * to_, scratch.bias);
    const char* numbers = computed_form(w, dtype, weights, scratch.converted);
    pack_weights(pairs_ ? paired_weights(numbers) : numbers);
  }

  void run() {
    cut();
    for (ConvLayout& l : layouts_.all) {
      l.list_offsets(from_);
      l.list_places(samples_, from_ * l.g.channel(), out_sample(l.shape));
    }
    std::atomic<bool> ok = true;
    const int64_t rounds = (c_.samples - 1) / samples_ + 1;
    parallel::parallel_for(rounds * c_.groups * blocks_.count() * spans_, [&](int64_t i) {
      const int64_t span = i % spans_, block = i / spans_ % blocks_.count();
      i /= spans_ * blocks_.count();
      if (!chunk(i / c_.groups * samples_, i % c_.groups, block, span)) ok = false;
    });
    ConvScratch::of_thread().drop_if_large();
    if (!ok) throw std::bad_alloc();
  }

 private:
  int64_t plane() const { return volume(s_.result()); }
  // Results are written in place, float16 by the tiles where these can, or rounded from memory of the thread.
  bool halves() const { return dtype_ == DType::Float16 && active_isa() == Isa::V4; }
  bool rounds_results() const { return type_ != dtype_ && !halves(); }
  int64_t out_plane(const ResultBlock& b) const {
    return rounds_results() ? volume(b.size) : plane();
  }
  int64_t out_sample(const ResultBlock& b) const {
    return rounds_results() ? to_ * volume(b.size) : c_.groups * to_ * plane();
  }
  int64_t rows_of(int64_t first) const { return tile_rows(to_ - first, conv_rows(active_isa())); }

  // Note [Chunks of a convolution]
  void cut() {
    const int64_t sample = from_ * layouts_.largest_channel();
    const int64_t all = c_.samples * c_.groups * blocks_.count(), wanted = wanted_chunks();
    samples_ = std::clamp<int64_t>(kConvPacked / item_ / sample, 1, c_.samples);
    if (wanted > 1) samples_ = std::clamp<int64_t>(all / wanted, 1, samples_);
    // Offsets of places are 32 bits wide.
    const double apart = static_cast<double>(std::max(c_.groups * to_ * plane(), sample));
    if (apart * static_cast<double>(samples_) > kConvMost) samples_ = 1;
    const int64_t chunks = all / samples_, rows = conv_rows(active_isa());
    spans_ = std::clamp<int64_t>(wanted / std::max<int64_t>(1, chunks), 1, (to_ - 1) / rows + 1);
  }

  // Channels of the source by two: Note [Pairs of bfloat16].
  const char* paired_weights(const char* w) const {
    const int64_t taps = volume(c_.kernel), run = (s_.of_input ? to_ : 1) * taps * item_;
    const int64_t lines = c_.groups * (s_.of_input ? 1 : to_);
    char* const all = memory(ConvScratch::of_thread().planes, lines * from_ * run / item_, type_);
    if (!all) throw std::bad_alloc();
    char* to = all;
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t k = 0; k < channels_; k += 2, to += run) {
        const char* from = w + (i * channels_ + k) * run;
        std::memcpy(to, from, static_cast<size_t>(run));
        join_pairs(to, k + 1 < channels_ ? from + run : nullptr, run / item_);
      }
    return all;
  }

  // [remainder][group][block of rows][channel][tap][row]
  void pack_weights(const char* w) {
    const int64_t taps = volume(c_.kernel), rows = conv_rows(active_isa());
    const int64_t blocks = (to_ - 1) / rows + 1;
    padded_ = (blocks - 1) * rows + rows_of((blocks - 1) * rows);
    weight_of_.assign(static_cast<size_t>(s_.of_input ? volume(c_.stride) : 1), -1);
    std::vector<const PlanePass*> passes;
    int64_t size = 0;
    for (const ConvLayout& l : layouts_.all)
      for (const PlanePass& p : l.g.passes) {
        int64_t& at = weight_of_[static_cast<size_t>(p.remainder)];
        if (at >= 0) continue;
        at = size;
        size += c_.groups * padded_ * from_ * static_cast<int64_t>(p.tap.size());
        passes.push_back(&p);
      }
    weights_ = memory(ConvScratch::of_thread().weights, size, type_);
    if (!weights_) throw std::bad_alloc();
    const int64_t row = s_.of_input ? taps : from_ * taps,
                  channel = s_.of_input ? to_ * taps : taps;
    for (const PlanePass* p : passes) {
      const int64_t length = from_ * static_cast<int64_t>(p->tap.size());
      char* to = weights_ + weight_of_[static_cast<size_t>(p->remainder)] * item_;
      const int64_t grain = std::max<int64_t>(1, 0x4000 / (rows * length + 1));
      parallel::parallel_ranges(c_.groups * blocks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t group = i / blocks, first = i % blocks * rows;
          pack_weight(to + (group * padded_ + first) * length * item_, type_, *p,
                      w + (group * from_ * to_ * taps + first * row) * item_,
                      std::min(rows, to_ - first), rows_of(first), row, from_, channel);
        }
      });
    }
  }

  // False if there is no memory.
  bool chunk(int64_t sample, int64_t group, int64_t index, int64_t span) const {
    const ConvLayout& l = layouts_[index];
    const ResultBlock block = blocks_[index];
    const int64_t some = std::min(samples_, c_.samples - sample), channel = l.g.channel();
    const int64_t rows = conv_rows(active_isa()), all = (to_ - 1) / rows + 1;
    const int64_t first = all * span / spans_ * rows,
                  end = std::min(to_, all * (span + 1) / spans_ * rows);
    const int64_t reserve = reserve_of_planes(lanes_);
    ConvScratch& scratch = ConvScratch::of_thread();
    const int64_t used = some * from_ * channel + reserve;
    char* planes = memory(scratch.planes, used + (pairs_ ? channel : 0), type_);
    const int64_t out_item = rounds_results() ? item_ : static_cast<int64_t>(item_size(dtype_));
    char* out =
        out_ + ((sample * c_.groups + group) * to_ * plane() + blocks_.offset(block)) * out_item;
    if (rounds_results()) out = memory(scratch.results, some * to_ * volume(block.size), type_);
    if (!planes || !out) return false;
    pack(planes, l, block, sample, some, group, planes + used * item_);
    std::memset(planes + some * from_ * channel * item_, 0, static_cast<size_t>(reserve * item_));
    for (size_t k = 0; k < l.g.passes.size(); ++k) {
      const PlanePass& p = l.g.passes[k];
      ConvSums job;
      job.length = static_cast<int64_t>(l.offset[k].size());
      job.offset = l.offset[k].data();
      job.x = planes;
      job.w = weights_ + (weight_of_[static_cast<size_t>(p.remainder)] +
                          (group * padded_ + first) * job.length) *
                             item_;
      job.bias = bias_ ? bias_ + (group * to_ + first) * item_ : nullptr;
      job.channels = end - first;
      job.places = l.places[k].data();
      job.count = static_cast<int64_t>(p.places.size()) * some;
      job.out_plane = out_plane(block);
      job.out = out + first * job.out_plane * out_item;
      job.halves = halves();
      job.out_step = p.out_step;
      char* const arguments[] = {reinterpret_cast<char*>(&job)};
      loop_(arguments, 1);
    }
    if (rounds_results()) round_results(out, block, sample, some, group, first, end);
    return true;
  }

  // `second`: memory for a channel, where they go by pairs.
  void pack(char* to, const ConvLayout& l, const ResultBlock& b, int64_t sample, int64_t some,
            int64_t group, char* second) const {
    const auto item = static_cast<int64_t>(item_size(dtype_));
    const Axes3 origin = s_.origin(b.start);
    const auto channel = [&](int64_t n, int64_t k, char* where) {
      const int64_t at = n * source_.sample + (group * channels_ + k) * source_.channel;
      pack_channel(where, type_, l.g, source_.data + at * item, dtype_, source_.strides,
                   s_.source(), origin);
    };
    const int64_t step = pairs_ ? 2 : 1;
    for (int64_t n = sample; n < sample + some; ++n)
      for (int64_t k = 0; k < channels_; k += step, to += l.g.channel() * item_) {
        channel(n, k, to);
        if (!pairs_) continue;
        const bool whole = k + 1 < channels_;
        if (whole) channel(n, k + 1, second);
        join_pairs(to, whole ? second : nullptr, l.g.channel());
      }
  }

  void round_results(const char* from, const ResultBlock& b, int64_t sample, int64_t some,
                     int64_t group, int64_t first, int64_t end) const {
    const auto item = static_cast<int64_t>(item_size(dtype_));
    const int64_t length = volume(b.size);
    for (int64_t n = 0; n < some; ++n)
      for (int64_t o = first; o < end; ++o) {
        const int64_t at = (((sample + n) * c_.groups + group) * to_ + o) * plane();
        copy_run(out_ + (at + blocks_.offset(b)) * item, item, dtype_,
                 from + (n * to_ + o) * length * item_, item_, type_, length);
      }
  }

  const Sums s_;
  const Conv& c_;
  const DType dtype_, type_;
  const int64_t item_;
  const int lanes_;
  const int64_t channels_;   // of a group of the source
  const bool pairs_;         // Note [Pairs of bfloat16]
  const int64_t from_, to_;  // elements of a group's planes at a place, and channels of its result
  const Planes& source_;
  char* out_;
  const Blocks blocks_;
  ConvLayouts layouts_;
  Loop loop_ = nullptr;
  const char* bias_ = nullptr;
  char* weights_ = nullptr;
  std::vector<int64_t> weight_of_;  // by remainder: where its weights begin
  int64_t padded_ = 0;              // rows of a group's weights
  int64_t samples_ = 1, spans_ = 1;
};

bool all_finite(DType dtype, const char* w, int64_t n) {
  const char* numbers = computed_form(w, dtype, n, ConvScratch::of_thread().converted);
  const auto scan = [n]<class T>(const T* p) {
    T sum = 0;  // of zeros, or NaN
    for (int64_t i = 0; i < n; ++i) sum += p[i] * 0;
    return sum == 0;
  };
  return compute_dtype(dtype) == DType::Float32 ? scan(reinterpret_cast<const float*>(numbers))
                                                : scan(reinterpret_cast<const double*>(numbers));
}

}  // namespace

void conv_output(const Conv& c, DType dtype, const Planes& x, const char* w, const char* bias,
                 char* y) {
  const Sums s{c, false};
  if (!fits_planes(s, c.ci)) return plain_conv_output(c, dtype, x, w, bias, y);
  SumsDriver(s, dtype, x, w, bias, y).run();
}

// Zeros beside g times an infinite weight would be NaN, where g has no part in the sum at all.
void conv_input(const Conv& c, DType dtype, const Planes& g, const char* w, const char* bias,
                char* dx) {
  const Sums s{c, true};
  const int64_t weights = c.groups * c.co * c.ci * volume(c.kernel);
  if (!fits_planes(s, c.co) || !all_finite(dtype, w, weights))
    return plain_conv_input(c, dtype, g, w, bias, dx);
  SumsDriver(s, dtype, g, w, bias, dx).run();
}

}  // namespace adjoint
