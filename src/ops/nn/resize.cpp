// Signals, images and volumes of another size: an axis after the other, by weighted means of
// neighbours (resampling.h). The op is linear, and its transpose is its derivative.
#include <cmath>
#include <cstring>

#include "ops/nn/resampling.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Arguments: input, from, to, mode, align_corners, antialias, and a factor for each axis.
constexpr int kFrom = 1, kTo = 2, kMode = 3, kAlign = 4, kAntialias = 5, kScales = 6;

template <class Args>
Band band_of(const Args& args, int axis, DType dtype) {
  const Dims &from = args[kFrom].ints(), &to = args[kTo].ints();
  const Value& scale = args[kScales + axis];
  std::optional<double> given;
  if (!scale.is_none()) given = scale.real();
  const Resampling how{args[kMode].str(), args[kAlign].boolean(), args[kAntialias].boolean(),
                       from.size() == 2};
  return make_band(how, from[axis], to[axis], given, dtype);
}

// A band with weights of the element type: by results for whole rows, by neighbours within a row.
template <class S>
struct Table {
  Band band;
  std::vector<S> by_result, by_neighbour;
  std::vector<int32_t> place;

  Table(Band b, bool last) : band(std::move(b)) {
    by_result.assign(band.weight.begin(), band.weight.end());
    if (!last) return;
    by_neighbour.resize(band.to * band.width);
    place.resize(band.to * band.width);
    for (int64_t o = 0; o < band.to; ++o) {
      for (int64_t k = 0; k < band.width; ++k) {
        // Without a neighbour, the last one once more, times zero.
        const int64_t at = band.first[o] + std::max<int64_t>(std::min(k, band.count[o] - 1), 0);
        by_neighbour[k * band.to + o] = by_result[o * band.width + k];
        place[k * band.to + o] = static_cast<int32_t>(at);
      }
    }
  }
};

// One axis of a plane: [outer, from, inner] to [outer, to, inner].
template <class S>
void resample_axis(const Table<S>& t, const S* from, S* to, int64_t outer, int64_t inner, Loop rows,
                   Loop line) {
  const Band& b = t.band;
  auto bytes = [](auto* p) {
    return reinterpret_cast<char*>(const_cast<void*>(static_cast<const void*>(p)));
  };
  if (!t.place.empty()) {
    int64_t width = b.width;
    for (int64_t i = 0; i < outer; ++i) {
      char* p[5] = {bytes(to + i * b.to), bytes(from + i * b.from), bytes(t.by_neighbour.data()),
                    bytes(t.place.data()), bytes(&width)};
      line(p, b.to);
    }
    return;
  }
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t o = 0; o < b.to; ++o) {
      S* row = to + (i * b.to + o) * inner;
      if (b.count[o] == 0) {
        std::memset(row, 0, inner * sizeof(S));
        continue;
      }
      int64_t given[2] = {b.count[o], inner};
      char* p[4] = {bytes(row), bytes(from + (i * b.from + b.first[o]) * inner),
                    bytes(t.by_result.data() + o * b.width), bytes(given)};
      rows(p, inner);
    }
  }
}

// All axes of one plane after the other, those first that make it smallest.
template <class S>
struct Pipeline {
  std::vector<Table<S>> tables;
  std::vector<int> order;
  Dims from, to;

  Pipeline(const Value* args, DType d, bool transposed) {
    const int axes = args[kFrom].ints().size();
    from = args[transposed ? kTo : kFrom].ints();
    to = args[transposed ? kFrom : kTo].ints();
    for (int a = 0; a < axes; ++a) {
      Band b = band_of(args, a, d);
      // Within a row where nothing follows at any time.
      bool last = true;
      for (int i = a + 1; i < axes; ++i) last = last && from[i] == 1 && to[i] == 1;
      tables.emplace_back(transposed ? b.transposed() : std::move(b), last);
      if (!tables.back().band.is_identity()) order.push_back(a);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return growth(a) < growth(b); });
  }
  double growth(int a) const { return static_cast<double>(to[a]) / static_cast<double>(from[a]); }

  int64_t largest() const {
    int64_t most = 0;
    Dims size = from;
    for (int a : order) {
      size[a] = to[a];
      int64_t n = 1;
      for (int64_t s : size) n *= s;
      most = std::max(most, n);
    }
    return most;
  }

  void run(const S* in, S* out, S* scratch, int64_t half, Loop rows, Loop line) const {
    Dims size = from;
    const S* now = in;
    for (size_t k = 0; k < order.size(); ++k) {
      const int a = order[k];
      int64_t outer = 1, inner = 1;
      for (int i = 0; i < a; ++i) outer *= size[i];
      for (int i = a + 1; i < size.size(); ++i) inner *= size[i];
      S* next = k + 1 == order.size() ? out : scratch + (k % 2) * half;
      resample_axis(tables[a], now, next, outer, inner, rows, line);
      now = next;
      size[a] = to[a];
    }
  }
};

int64_t product(const Dims& d) {
  int64_t n = 1;
  for (int64_t s : d) n *= s;
  return n;
}

template <class S>
void resample_planes(const Value* args, T in, T out, bool transposed, DType precision) {
  const Pipeline<S> pipeline(args, precision, transposed);
  const int64_t from = product(pipeline.from), to = product(pipeline.to);
  const int64_t planes = in.numel() / from, half = pipeline.largest();
  const S* source = in.data<S>();
  S* result = out.data<S>();
  if (pipeline.order.empty()) {
    std::memcpy(result, source, planes * to * sizeof(S));
    return;
  }
  Loop rows = row_loop("resample_rows", in.dtype()), line = row_loop("resample_line", in.dtype());
  const bool needs_scratch = pipeline.order.size() > 1;
  WithoutGil release(planes * std::max(from, to) >= kReleaseGil);
  parallel::parallel_ranges(
      planes, std::max<int64_t>(1, 16384 / std::max(from, to)), [&](int64_t begin, int64_t end) {
        std::vector<S> scratch(needs_scratch ? 2 * half : 0);
        for (int64_t p = begin; p < end; ++p) {
          pipeline.run(source + p * from, result + p * to, scratch.data(), half, rows, line);
        }
      });
}

// --- nearest: elements are only moved, whatever they are ------------------------------------------
template <class S>
void pick_planes(const Band* bands, int axes, T in, T out) {
  int64_t from = 1, to = 1;
  for (int a = 0; a < axes; ++a) from *= bands[a].from, to *= bands[a].to;
  const Band& last = bands[axes - 1];
  const S* source = in.data<S>();
  S* result = out.data<S>();
  const int64_t rows = to / last.to;
  each_row(in.numel() / from, to, [&](int64_t plane) {
    const S* before = nullptr;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t left = r, place = 0, scale = 1;
      for (int a = axes - 2; a >= 0; --a) {
        place += bands[a].first[left % bands[a].to] * scale;
        left /= bands[a].to;
        scale *= bands[a].from;
      }
      const S* row = source + plane * from + place * last.from;
      S* to_row = result + plane * to + r * last.to;
      if (row == before) {
        std::memcpy(to_row, to_row - last.to, last.to * sizeof(S));
      } else {
        for (int64_t o = 0; o < last.to; ++o) to_row[o] = row[last.first[o]];
      }
      before = row;
    }
  });
}

Value pick(Call& c, T x, const Dims& shape) {
  std::vector<Band> bands;
  const int axes = c.ints(kFrom).size();
  for (int a = 0; a < axes; ++a) bands.push_back(band_of(c.args, a, DType::Float32));
  Tensor in = contiguous(x), out = empty(shape, x.dtype());
  if (out.numel() == 0) return out;
  switch (x.itemsize()) {
    case 1:
      pick_planes<uint8_t>(bands.data(), axes, in, out);
      break;
    case 2:
      pick_planes<uint16_t>(bands.data(), axes, in, out);
      break;
    case 4:
      pick_planes<uint32_t>(bands.data(), axes, in, out);
      break;
    default:
      pick_planes<uint64_t>(bands.data(), axes, in, out);
  }
  return out;
}

// --- the ops --------------------------------------------------------------------------------------
Dims result_shape(T x, const Dims& to) {
  Dims shape(Span{x->shape, x.ndim() - to.size()});
  for (int64_t n : to) shape.push_back(n);
  return shape;
}

bool is_nearest(const std::string& mode) { return mode == "nearest" || mode == "nearest-exact"; }

Value weighted(Call& c, bool transposed) {
  Tensor x = c.tensor(0);
  const DType d = x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  Tensor in = contiguous(cast(x, d));
  Tensor out = empty(result_shape(x, c.ints(transposed ? kFrom : kTo)), d);
  if (in.numel() == 0) return zeros(out.shape(), x.dtype());
  if (out.numel() == 0) return cast(out, x.dtype());
  if (d == DType::Float32)
    resample_planes<float>(c.args, in, out, transposed, x.dtype());
  else
    resample_planes<double>(c.args, in, out, transposed, x.dtype());
  return cast(out, x.dtype());
}

// Bytes are rounded after each axis, the last one first, as in PyTorch (whose weights are whole
// numbers: results may differ by one).
Value weighted_bytes(Call& c) {
  Value args[kScales + 3];
  std::copy_n(c.args, kScales + 3, args);
  const Dims to = c.ints(kTo);
  Dims now = c.ints(kFrom);
  GradMode off(false);
  Tensor x = cast(c.tensor(0), DType::Float32);
  for (int a = to.size() - 1; a >= 0; --a) {
    args[kFrom] = now;
    now[a] = to[a];
    args[kTo] = now;
    for (int i = 0; i < to.size(); ++i) args[kScales + i] = i == a ? c[kScales + i] : Value();
    args[0] = x;
    Call one{c.op, args};
    x = op<"clamp">(op<"round">(weighted(one, false)), 0, 255);
  }
  return cast(x, DType::UInt8);
}

Value resample_forward(Call& c) {
  Tensor x = c.tensor(0);
  if (is_nearest(c[kMode].str()) && x.numel()) return pick(c, x, result_shape(x, c.ints(kTo)));
  return x.dtype() == DType::UInt8 ? weighted_bytes(c) : weighted(c, false);
}

const char* node_name(const Value* args) {
  const std::string& mode = args[kMode].str();
  const int axes = args[kFrom].ints().size();
  auto by_axes = [&](const char* one, const char* two, const char* three) {
    return axes == 1 ? one : axes == 2 ? two : three;
  };
  if (mode == "nearest") {
    return by_axes("UpsampleNearest1DBackward0", "UpsampleNearest2DBackward0",
                   "UpsampleNearest3DBackward0");
  }
  if (mode == "nearest-exact") {
    return by_axes("UpsampleNearestExact1DBackward0", "UpsampleNearestExact2DBackward0",
                   "UpsampleNearestExact3DBackward0");
  }
  if (mode == "area") {
    return by_axes("SqueezeBackward1", "AdaptiveAvgPool2DBackward0", "AdaptiveAvgPool3DBackward0");
  }
  if (mode == "lanczos") return "UpsampleLanczos2DAaBackward0";
  if (args[kAntialias].boolean())
    return mode == "cubic" ? "UpsampleBicubic2DAaBackward0" : "UpsampleBilinear2DAaBackward0";
  if (mode == "cubic") return "UpsampleBicubic2DBackward0";
  return by_axes("UpsampleLinear1DBackward0", "UpsampleBilinear2DBackward0",
                 "UpsampleTrilinear3DBackward0");
}

template <OpName Name>
Tensor other_way(T g, C c) {
  return op<Name>(g, c.in(kFrom), c.in(kTo), c.in(kMode), c.in(kAlign), c.in(kAntialias),
                  c.in(kScales), c.in(kScales + 1), c.in(kScales + 2));
}

}  // namespace

#define RESAMPLE_ARGUMENTS                                                                    \
  "(input, from: int[], to: int[], mode: str, align_corners: bool, antialias: bool, scale0: " \
  "float? = None, scale1: float? = None, scale2: float? = None)"

static const Op& resample_ =
    def("_resample" RESAMPLE_ARGUMENTS,
        "The last axes, of sizes `from`, brought to the sizes `to` by means of neighbours.")
        .forward(resample_forward)
        .grad(0, nothing, other_way<"_resample_transposed">)
        .linear()
        .function_only()
        .no_out()
        .called("interpolate")
        .node(node_name)
        .batch(batch::as_is);

static const Op& resample_transposed_ =
    def("_resample_transposed" RESAMPLE_ARGUMENTS,
        "The transpose of _resample: from the sizes `to` back to the sizes `from`.")
        .forward([](Call& c) -> Value { return weighted(c, true); })
        .grad(0, nothing, other_way<"_resample">)
        .linear()
        .internal()
        .called("interpolate")
        .batch(batch::as_is);

}  // namespace adjoint
