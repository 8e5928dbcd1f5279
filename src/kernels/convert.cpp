// Strided copies, fills and scalar access, on top of the contiguous conversion loops.
// Read next: convert_element.h for one element's conversion, isa/convert.cpp for the loops.
#include "kernels/convert.h"

#include <algorithm>
#include <cstring>

#include "kernels/element_type.h"
#include "kernels/convert_element.h"

namespace adjoint {

namespace {

using Table = Loop[kDTypes][kDTypes];

// Zero before any registrar runs, so the order of static initialisation does not matter.
Table registered[kIsas];

struct Chosen {
  Table loop = {};
  Chosen() {
    for (int isa = 0; isa <= static_cast<int>(active_isa()); ++isa) {
      for (int to = 0; to < kDTypes; ++to) {
        for (int from = 0; from < kDTypes; ++from) {
          if (registered[isa][to][from]) loop[to][from] = registered[isa][to][from];
        }
      }
    }
  }
};

// An element of `size` bytes as bits; memcpy because strided data may be less aligned than the
// bits.
template <size_t size>
void move_strided(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out, in, size);
    out += out_stride;
    in += in_stride;
  }
}

template <size_t size>
void fill_strided(char* out, int64_t out_stride, const char* value, int64_t n) {
  char bits[size];
  std::memcpy(bits, value, size);
  if (out_stride == static_cast<int64_t>(size)) {
    const size_t all = static_cast<size_t>(n) * size, first = std::min<size_t>(all, 64);
    for (size_t at = 0; at < first; at += size) std::memcpy(out + at, bits, size);
    // What is there already is copied, in the widest registers there are.
    for (size_t have = first; have < all;) {
      size_t more = std::min({have, all - have, size_t{4096}});
      std::memcpy(out + have, out, more);
      have += more;
    }
  } else {
    for (int64_t i = 0; i < n; ++i, out += out_stride) std::memcpy(out, bits, size);
  }
}

// Calls f with the item size as a compile-time constant.
template <class F>
void with_size(size_t size, F f) {
  switch (size) {
    case 1:
      return f(std::integral_constant<size_t, 1>{});
    case 2:
      return f(std::integral_constant<size_t, 2>{});
    case 4:
      return f(std::integral_constant<size_t, 4>{});
    case 8:
      return f(std::integral_constant<size_t, 8>{});
    default:
      return f(std::integral_constant<size_t, 16>{});
  }
}

void fill(char* out, int64_t out_stride, size_t size, const void* value, int64_t n) {
  const char* bytes = static_cast<const char*>(value);
  const bool contiguous = out_stride == static_cast<int64_t>(size);
  if (contiguous && std::all_of(bytes, bytes + size, [&](char b) { return b == bytes[0]; })) {
    std::memset(out, bytes[0], n * size);
    return;
  }
  with_size(size, [&](auto s) { fill_strided<s>(out, out_stride, bytes, n); });
}

void move(char* out, int64_t out_stride, const char* in, int64_t in_stride, size_t size,
          int64_t n) {
  const auto step = static_cast<int64_t>(size);
  if (out_stride == step && in_stride == step) {
    if (out != in) std::memcpy(out, in, n * size);
  } else if (in_stride == 0) {
    alignas(16) char value[16] = {};  // `in` may lie in `out`
    std::memcpy(value, in, size);
    fill(out, out_stride, size, value, n);
  } else {
    with_size(size, [&](auto s) { move_strided<s>(out, out_stride, in, in_stride, n); });
  }
}

void call(Loop loop, char* out, const char* in, int64_t n) {
  char* const p[] = {out, const_cast<char*>(in)};
  loop(p, n);
}

constexpr int64_t kTile = 256;  // elements: two tiles of the largest item stay in L1

// Gathers a tile, converts it, scatters it; a contiguous side is used where it is.
void convert_strided(Loop loop, char* out, int64_t out_stride, size_t out_size, const char* in,
                     int64_t in_stride, size_t in_size, int64_t n) {
  alignas(16) char gathered[kTile * 16];
  alignas(16) char converted[kTile * 16];
  const bool in_place = in_stride == static_cast<int64_t>(in_size);
  const bool out_place = out_stride == static_cast<int64_t>(out_size);
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = std::min(kTile, n - i);
    const char* source = in + i * in_stride;
    char* target = out + i * out_stride;
    if (!in_place) move(gathered, in_size, source, in_stride, in_size, count);
    call(loop, out_place ? target : converted, in_place ? source : gathered, count);
    if (!out_place) move(target, out_stride, converted, out_size, out_size, count);
  }
}

// Calls f with a value of the C++ type of `d`, complex as Pair.
template <class F>
auto with_type(DType d, F f) {
  if (d == DType::Complex64) return f(Base::Pair<float>{});
  if (d == DType::Complex128) return f(Base::Pair<double>{});
  if (d == DType::UInt16) return f(uint16_t{});
  if (d == DType::UInt32) return f(uint32_t{});
  if (d == DType::UInt64) return f(uint64_t{});
  return with_real_type(d, f);
}

template <class From>
void store(DType to, void* out, From value) {
  with_type(to, [&](auto element) {
    element = Base::convert<decltype(element)>(value);
    std::memcpy(out, &element, sizeof element);
  });
}

template <class To>
To load(DType from, const void* in) {
  return with_type(from, [&](auto element) {
    if constexpr (std::is_same_v<decltype(element), bool>) {
      element = *static_cast<const uint8_t*>(in) != 0;
    } else {
      std::memcpy(&element, in, sizeof element);
    }
    return Base::convert<To>(element);
  });
}

}  // namespace

void register_conversion(Isa isa, DType to, DType from, Loop loop) {
  registered[static_cast<int>(isa)][static_cast<int>(to)][static_cast<int>(from)] = loop;
}

Loop conversion(DType to, DType from) {
  static const Chosen chosen;
  return chosen.loop[static_cast<int>(to)][static_cast<int>(from)];
}

void copy_run(char* out, int64_t out_stride, DType to, const char* in, int64_t in_stride,
              DType from, int64_t n) {
  if (n <= 0) return;
  const size_t out_size = item_size(to);
  const size_t in_size = item_size(from);
  if (n == 1) {  // strides of a single element mean nothing
    out_stride = static_cast<int64_t>(out_size);
    in_stride = static_cast<int64_t>(in_size);
  }
  if (to == from) return move(out, out_stride, in, in_stride, out_size, n);
  const Loop loop = conversion(to, from);
  if (in_stride == 0) {
    alignas(16) char value[16] = {};
    call(loop, value, in, 1);
    fill(out, out_stride, out_size, value, n);
  } else if (out_stride == static_cast<int64_t>(out_size) &&
             in_stride == static_cast<int64_t>(in_size)) {
    call(loop, out, in, n);
  } else {
    convert_strided(loop, out, out_stride, out_size, in, in_stride, in_size, n);
  }
}

void fill_run(char* out, DType dtype, const void* value, int64_t n) {
  if (n <= 0) return;
  fill(out, static_cast<int64_t>(item_size(dtype)), item_size(dtype), value, n);
}

void store_scalar(DType to, void* out, double value) { store(to, out, value); }
void store_scalar(DType to, void* out, int64_t value) { store(to, out, value); }
void store_scalar(DType to, void* out, std::complex<double> value) {
  store(to, out, Base::Pair<double>{value.real(), value.imag()});
}

double load_double(DType from, const void* in) { return load<double>(from, in); }
int64_t load_int(DType from, const void* in) { return load<int64_t>(from, in); }
std::complex<double> load_complex(DType from, const void* in) {
  const auto value = load<Base::Pair<double>>(from, in);
  return {value.re, value.im};
}

}  // namespace adjoint
