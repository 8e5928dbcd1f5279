// The driver of the gradient of a convolution's weight. Read conv.h and conv.cpp first.
//
// Note [Order of a weight's gradient]
// An element of dw is a sum over samples and positions: of the products in the lanes of one vector
// over a slice of places, then of the lanes, then of the slices, then of the parts into which all
// positions are cut. Slices and parts depend on sizes only. A chunk is a part of the positions and a
// block of dw: chunks write to different memory, and how dw is cut changes no bit.
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

constexpr int64_t kGathered = 0x6000;  // bytes of g at a time: three quarters of the first cache
constexpr int64_t kMostParts = 16;
constexpr double kPartWork = 0x1p22;  // products that are worth a part

class WeightDriver {
 public:
  WeightDriver(const Conv& c, DType dtype, const Planes& g, const Planes& x, char* dw)
      : c_(c),
        dtype_(dtype),
        type_(compute_dtype(dtype)),
        item_(static_cast<int64_t>(item_size(type_))),
        lanes_(conv_lanes(type_)),
        pairs_(dtype == DType::BFloat16 && c.samples > 1 && multiplies_pairs()),
        all_samples_(pairs_ ? (c.samples + 1) / 2 : c.samples),
        taps_(volume(c.kernel)),
        rows_(conv_weight_rows(active_isa())),
        g_(g),
        x_(x),
        dw_(dw),
        blocks_(s_, std::max<int64_t>(1, kConvPacked / item_ / c.ci)),
        layouts_(s_, blocks_, lanes_) {
    static const Kernel& kernel = *find_kernel("conv_products");
    loop_ = kernel.loop[static_cast<int>(pairs_ ? DType::BFloat16 : type_)];
    in_place_ = type_ == dtype_ && g.strides == steps_of(c.out);
    slice_ = std::max<int64_t>(8, kGathered / (rows_ * lanes_ * item_));
  }

  void run() {
    plan();
    for (ConvLayout& l : layouts_.all) {
      l.list_offsets(c_.ci);
      l.list_places(samples_, c_.ci * l.g.channel(), in_place_ ? g_.sample : 0);
    }
    const int64_t size = c_.groups * c_.co * c_.ci * taps_;
    sums_ = parts_ == 1 && type_ == dtype_
                ? dw_
                : memory(ConvScratch::of_thread().results, parts_ * size, type_);
    if (!sums_) throw std::bad_alloc();
    std::memset(sums_, 0, static_cast<size_t>(parts_ * size * item_));
    std::atomic<bool> ok = true;
    parallel::parallel_for(parts_ * c_.groups * splits_ci_ * splits_co_, [&](int64_t i) {
      const int64_t o = i % splits_co_, k = i / splits_co_ % splits_ci_;
      i /= splits_co_ * splits_ci_;
      if (!chunk(i / c_.groups, i % c_.groups, k, o)) ok = false;
    });
    if (ok) add_parts(size);
    ConvScratch::of_thread().drop_if_large();
    if (!ok) throw std::bad_alloc();
  }

 private:
  int64_t rounds() const { return (all_samples_ - 1) / samples_ + 1; }

  // `samples_` and `parts_` by sizes only: Note [Order of a weight's gradient].
  void plan() {
    const int64_t sample = c_.ci * layouts_.largest_channel();
    const int64_t row_blocks = (c_.co - 1) / rows_ + 1;
    const int64_t separate = c_.groups * row_blocks * std::max<int64_t>(1, c_.ci / 8);
    samples_ = std::clamp<int64_t>(kConvPacked / item_ / sample, 1, all_samples_);
    if (separate < kMostParts) samples_ = std::min(samples_, (all_samples_ - 1) / kMostParts + 1);
    const double apart = static_cast<double>(std::max(g_.sample, sample));
    if (apart * static_cast<double>(samples_) > kConvMost) samples_ = 1;
    const double work = static_cast<double>(c_.samples * volume(c_.out)) *
                        static_cast<double>(c_.groups * c_.co * c_.ci * taps_);
    const int64_t most = std::min(kMostParts / separate, rounds() * blocks_.count());
    parts_ =
        std::clamp<int64_t>(static_cast<int64_t>(work / kPartWork), 1, std::max<int64_t>(1, most));
    const int64_t wanted = (wanted_chunks() - 1) / (parts_ * c_.groups) + 1;
    splits_ci_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, c_.ci / 8));
    splits_co_ = std::clamp<int64_t>((wanted - 1) / splits_ci_ + 1, 1, row_blocks);
  }

  // Channels [first, end) of x and of g: the block of dw that a chunk adds up.
  struct Part {
    int64_t group, x_first, x_end, g_first, g_end;
    char* dw;
  };

  bool chunk(int64_t part, int64_t group, int64_t k, int64_t o) const {
    const int64_t row_blocks = (c_.co - 1) / rows_ + 1, size = c_.groups * c_.co * c_.ci * taps_;
    const Part p{group,
                 c_.ci * k / splits_ci_,
                 c_.ci * (k + 1) / splits_ci_,
                 row_blocks * o / splits_co_ * rows_,
                 std::min(c_.co, row_blocks * (o + 1) / splits_co_ * rows_),
                 sums_ + (part * size + group * c_.co * c_.ci * taps_) * item_};
    const int64_t items = rounds() * blocks_.count();
    for (int64_t i = items * part / parts_; i < items * (part + 1) / parts_; ++i)
      if (!add_item(p, i / blocks_.count() * samples_, i % blocks_.count())) return false;
    return true;
  }

  bool add_item(const Part& p, int64_t sample, int64_t index) const {
    const ConvLayout& l = layouts_[index];
    const ResultBlock block = blocks_[index];
    const int64_t some = std::min(samples_, all_samples_ - sample), channel = l.g.channel();
    const int64_t reserve = reserve_of_planes(lanes_);
    ConvScratch& scratch = ConvScratch::of_thread();
    const int64_t used = some * c_.ci * channel + reserve;
    char* planes = memory(scratch.planes, used + (pairs_ ? channel : 0), type_);
    char* gathered = memory(scratch.gathered, slice_ * rows_ * lanes_, type_);
    if (!planes || !gathered) return false;
    pack(planes, l, block, sample, some, p, planes + used * item_);
    const int64_t per_sample = static_cast<int64_t>(l.g.passes[0].places.size());
    ConvProducts job;
    job.length = (p.x_end - p.x_first) * taps_;
    job.offset = l.offset[0].data() + p.x_first * taps_;
    job.x = planes;
    job.places = l.places[0].data();
    job.count = per_sample * some;
    job.slice = slice_;
    job.gathered = gathered;
    job.dw_row = c_.ci * taps_;
    std::vector<VectorPlace> own;
    if (!in_place_) own = l.places[0];
    for (int64_t o = p.g_first; o < p.g_end; o += rows_) {
      job.channels = std::min<int64_t>(rows_, p.g_end - o);
      job.dw = p.dw + (o * c_.ci + p.x_first) * taps_ * item_;
      if (in_place_) {
        job.g_plane = g_.channel;
        job.g = g_.data +
                (sample * g_.sample + (p.group * c_.co + o) * g_.channel + blocks_.offset(block)) *
                    item_;
      } else if (!copy_gradient(job, own, block, sample, some, p.group * c_.co + o, per_sample)) {
        return false;
      }
      char* const arguments[] = {reinterpret_cast<char*>(&job)};
      loop_(arguments, 1);
    }
    return true;
  }

  // copy(sample, to) of `count` numbers: of one sample, or of the two of a pair.
  template <class F>
  void copy_sample(int64_t sample, char* to, char* second, int64_t count, F copy) const {
    if (!pairs_) return copy(sample, to);
    copy(2 * sample, to);
    const bool whole = 2 * sample + 1 < c_.samples;
    if (whole) copy(2 * sample + 1, second);
    join_pairs(to, whole ? second : nullptr, count);
  }

  void pack(char* to, const ConvLayout& l, const ResultBlock& b, int64_t sample, int64_t some,
            const Part& p, char* second) const {
    const auto item = static_cast<int64_t>(item_size(dtype_));
    const Axes3 origin = s_.origin(b.start);
    const int64_t reserve = reserve_of_planes(lanes_);
    for (int64_t n = 0; n < some; ++n) {
      for (int64_t k = p.x_first; k < p.x_end; ++k)
        copy_sample(sample + n, to + (n * c_.ci + k) * l.g.channel() * item_, second, l.g.channel(),
                    [&](int64_t which, char* where) {
                      const int64_t at = which * x_.sample + (p.group * c_.ci + k) * x_.channel;
                      pack_channel(where, type_, l.g, x_.data + at * item, dtype_, x_.strides,
                                   c_.in, origin);
                    });
      // What is packed next may be written over it, and begins with as many zeros as are needed.
      std::memset(to + (n * c_.ci + p.x_end) * l.g.channel() * item_, 0,
                  static_cast<size_t>(reserve * item_));
    }
  }

  // The block of some channels of g as [sample][channel][position] in the dtype of the arithmetic.
  bool copy_gradient(ConvProducts& job, std::vector<VectorPlace>& places, const ResultBlock& b,
                     int64_t sample, int64_t some, int64_t first, int64_t per_sample) const {
    const int64_t length = volume(b.size), apart = job.channels * length;
    char* to = memory(ConvScratch::of_thread().converted, some * apart + length, type_);
    if (!to) return false;
    char* const second = to + some * apart * item_;
    job.g = to;
    job.g_plane = length;
    job.places = places.data();
    const auto item = static_cast<int64_t>(item_size(dtype_));
    for (int64_t n = 0; n < some; ++n)
      for (int64_t o = 0; o < job.channels; ++o, to += length * item_)
        copy_sample(sample + n, to, second, length, [&](int64_t which, char* where) {
          const int64_t channel = which * g_.sample + (first + o) * g_.channel;
          const bool whole = g_.strides[1] == b.size[2] * g_.strides[2];  // rows lie end to end
          const int64_t runs = whole ? 1 : b.size[1],
                        run = whole ? b.size[1] * b.size[2] : b.size[2];
          for (int64_t z = b.start[0]; z < b.start[0] + b.size[0]; ++z)
            for (int64_t y = b.start[1]; y < b.start[1] + runs; ++y, where += run * item_) {
              const int64_t row = channel + z * g_.strides[0] + y * g_.strides[1];
              copy_run(where, item_, type_, g_.data + (row + b.start[2] * g_.strides[2]) * item,
                       g_.strides[2] * item, dtype_, run);
            }
        });
    for (int64_t n = 0; n < some; ++n)
      for (int64_t i = 0; i < per_sample; ++i)
        places[static_cast<size_t>(n * per_sample + i)].out =
            static_cast<int32_t>(places[static_cast<size_t>(i)].out + n * apart);
    return true;
  }

  void add_parts(int64_t size) const {
    if (sums_ == dw_) return;
    const auto add = [&]<class T>(T* sums) {
      for (int64_t p = 1; p < parts_; ++p)
        for (int64_t i = 0; i < size; ++i) sums[i] += sums[p * size + i];
    };
    if (type_ == DType::Float32)
      add(reinterpret_cast<float*>(sums_));
    else
      add(reinterpret_cast<double*>(sums_));
    copy_run(dw_, static_cast<int64_t>(item_size(dtype_)), dtype_, sums_, item_, type_, size);
  }

  const Conv& c_;
  const Sums s_{c_, false};
  const DType dtype_, type_;
  const int64_t item_;
  const int lanes_;
  const bool pairs_;  // Note [Pairs of bfloat16] in conv.cpp
  const int64_t all_samples_;
  const int64_t taps_, rows_;
  const Planes &g_, &x_;
  char* dw_;
  char* sums_ = nullptr;
  const Blocks blocks_;
  ConvLayouts layouts_;
  Loop loop_ = nullptr;
  bool in_place_ = false;  // g is read where it lies
  int64_t slice_ = 8, samples_ = 1, parts_ = 1, splits_ci_ = 1, splits_co_ = 1;
};

}  // namespace

void conv_weight(const Conv& c, DType dtype, const Planes& g, const Planes& x, char* dw) {
  if (!fits_planes({c, false}, c.ci)) return plain_conv_weight(c, dtype, g, x, dw);
  WeightDriver(c, dtype, g, x, dw).run();
}

}  // namespace adjoint
