// Moving blocks of elements to and from places given by lists of offsets. All of advanced indexing,
// gather, scatter and their like come down to three lists:
//
//   element (b, k, a) of the dense side  <->  base + outer[b] + index[k] + inner[a]
//
// The lists hold elements, not bytes, and are checked before they come here. Read next:
// ops/index/offsets.h, which makes them.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace adjoint {

// Lists that are written before they are read: their memory is not cleared first.
template <class T>
struct Uncleared : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Uncleared<U>;
  };
  template <class U, class... Given>
  void construct(U* place, Given&&... given) {
    if constexpr (sizeof...(Given) == 0) {
      ::new (static_cast<void*>(place)) U;
    } else {
      ::new (static_cast<void*>(place)) U(std::forward<Given>(given)...);
    }
  }
};
using Offsets = std::vector<int64_t, Uncleared<int64_t>>;

struct Places {
  Offsets outer{0}, index, inner{0};
  bool inner_dense = true;  // inner[a] == a: whole blocks are copied
  int64_t numel() const { return static_cast<int64_t>(outer.size() * index.size() * inner.size()); }
};

enum class Reduce : uint8_t { Replace, Add, Multiply, Max, Min };

// out[b, k, a] = base[place(b, k, a)]; `out` is dense.
void gather_places(char* out, const char* base, DType dtype, const Places& places);

// base[place(b, k, a)] is replaced by, or combined with, src[b, k, a]; `src` is dense, or a single
// element when `one_value` is set. A place named several times takes its values in the order of k,
// whatever the number of threads. `shared`: outer and inner may name a place twice, too.
void scatter_places(char* base, const char* src, bool one_value, DType dtype, const Places& places,
                    Reduce how, bool shared = false);

// out[r, :] = the sum of src[k, :] over all k with index[k] == r, in the order of k, and zeros where
// there is none. Each row of `out` is written once: memory need not be cleared before. Elements are
// floats, everything is dense, and indices name rows of `out`.
void sum_into_rows(char* out, const char* src, DType dtype, const int64_t* index, int64_t keys,
                   int64_t rows, int64_t width);

// The flat positions at which `mask` (n bytes) is nonzero, in order.
Offsets true_positions(const uint8_t* mask, int64_t n);

// out[i] = mask[i] ? value : in[i], all dense, by item size; p = {out, in, mask, value}.
using MaskLoop = void (*)(char* const* p, int64_t n);
MaskLoop mask_loop(DType dtype);

}  // namespace adjoint
