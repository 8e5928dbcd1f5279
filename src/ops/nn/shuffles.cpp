// Channels moved into space and back, and among groups: views, copied in the new order.
#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;

void check_planes(const char* name, T x) {
  if (x.ndim() >= 3) return;
  runtime_error(name, " expects input to have at least 3 dimensions, but got input with ", x.ndim(),
                " dimension(s)");
}
void check_positive(const char* name, const char* argument, int64_t factor) {
  if (factor <= 0) runtime_error(name, " expects a positive ", argument, ", but got ", factor);
}

// A tensor of its own, as the elements of `moved` in order.
Value copied(T moved, const Dims& shape) {
  Tensor own = moved.contiguous() ? op<"clone">(moved).tensor() : moved;
  return op<"reshape">(own, shape);
}

// [..., a, b, c] with its last three axes shaped as `inner`, these in the given order, and shaped
// as `last` again.
Value rearranged(T x, const Dims& inner, const Dims& order, const Dims& last) {
  const int lead = x.ndim() - 3;
  Dims shape(Span{x->shape, lead}), axes, result(Span{x->shape, lead});
  for (int i = 0; i < lead; ++i) axes.push_back(i);
  for (int64_t n : inner) shape.push_back(n);
  for (int64_t a : order) axes.push_back(lead + a);
  for (int64_t n : last) result.push_back(n);
  return copied(op<"permute">(op<"reshape">(x, shape), axes), result);
}

Value channel_shuffle(Call& c) {
  Tensor x = c.tensor(0);
  const int64_t groups = c.integer(1);
  if (x.ndim() <= 2) {
    runtime_error(c.op.name, " expects input with > 2 dims, but got input with sizes ", x.shape());
  }
  if (groups <= 0) {
    runtime_error("Number of groups to divide channels in must be positive. Value of groups:",
                  groups);
  }
  const int64_t channels = x.size(1);
  if (channels % groups != 0) {
    runtime_error("Number of channels must be divisible by groups. Got ", channels,
                  " channels and ", groups, " groups.");
  }
  Dims split(x.shape());
  split[1] = groups;
  split.insert(2, channels / groups);
  return copied(op<"transpose">(op<"reshape">(x, split), 1, 2), x.shape());
}

}  // namespace

static const Op& pixel_shuffle_ =
    def("pixel_shuffle(input, upscale_factor: int)",
        "[..., C r^2, H, W] as [..., C, H r, W r]: each r^2 channels become a square of pixels.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          const int64_t r = c.integer(1);
          check_planes("pixel_shuffle", x);
          check_positive("pixel_shuffle", "upscale_factor", r);
          const int64_t channels = x.size(-3), h = x.size(-2), w = x.size(-1);
          // Larger factors could not be squared.
          if (r > (int64_t{1} << 31) - 1 || channels % (r * r) != 0) {
            runtime_error(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
                "square of upscale_factor, but input.size(-3)=",
                channels, " is not divisible by the square of ", r);
          }
          const int64_t left = channels / (r * r);
          return rearranged(x, Dims{left, r, r, h, w}, Dims{0, 3, 1, 4, 2},
                            Dims{left, h * r, w * r});
        })
        .function_only()
        .no_out();

static const Op& pixel_unshuffle_ =
    def("pixel_unshuffle(input, downscale_factor: int)",
        "[..., C, H r, W r] as [..., C r^2, H, W]: the inverse of pixel_shuffle.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          const int64_t r = c.integer(1);
          check_planes("pixel_unshuffle", x);
          check_positive("pixel_unshuffle", "downscale_factor", r);
          const char* const axes[] = {"height", "width"};
          for (int i = 0; i < 2; ++i) {
            if (x.size(i - 2) % r == 0) continue;
            runtime_error("pixel_unshuffle expects ", axes[i],
                          " to be divisible by downscale_factor, but input.size(", i - 2,
                          ")=", x.size(i - 2), " is not divisible by ", r);
          }
          const int64_t channels = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
          return rearranged(x, Dims{channels, h, r, w, r}, Dims{0, 2, 4, 1, 3},
                            Dims{channels * r * r, h, w});
        })
        .function_only()
        .no_out();

static const Op& channel_shuffle_ =
    def("channel_shuffle(input, groups: int)",
        "The channels of [N, C, ...], taken from each of `groups` groups in turn.")
        .forward(channel_shuffle)
        .function_only()
        .no_out();

static const Op& native_channel_shuffle_ =
    def("native_channel_shuffle(input, groups: int)", "The same as channel_shuffle.")
        .forward(channel_shuffle)
        .function_only()
        .no_out();

}  // namespace adjoint
