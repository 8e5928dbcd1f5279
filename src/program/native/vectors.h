// Vectors between registers and memory, as lines of generated code: whole ones, the last of a row,
// which is cut short, and those whose elements lie apart. Read code.h first.
#pragma once
#include "kernels/kernel.h"
#include "program/native/lanes.h"

namespace adjoint::native {

inline bool is_known(DType d) {
  return d == DType::Float32 || d == DType::Float64 || d == DType::Bool;
}
inline const char* element_of(DType d) {
  return d == DType::Float32 ? "float" : d == DType::Float64 ? "double" : "i8";
}
// Bytes of the registers that the kernels of the active instruction set use.
int vector_bytes();
// Lanes for rows of so many elements, the widest of `item` bytes.
int width_for(int64_t row, size_t item);

// Values of bools are masks, in memory they are bytes.
class Vectors {
 public:
  Vectors(Code& code, int width)
      : code_(code),
        width_(width),
        single_(code, DType::Float32, width, fused()),
        twice_(code, DType::Float64, width, fused()) {}

  int width() const { return width_; }
  TextLanes& lanes(DType d) { return d == DType::Float64 ? twice_ : single_; }
  std::string of(const char* element) const { return single_.of(element); }
  std::string memory_type(DType d) const { return of(element_of(d)); }
  std::string value_type(DType d) const { return d == DType::Bool ? of("i1") : memory_type(d); }
  std::string splat(const char* element, const std::string& one);
  std::string steps(int64_t s) const;  // 0, s, 2 s ...
  std::string first_lanes(int count) const { return lanes_between(0, count); }
  std::string lanes_between(int begin, int end) const;
  // The mask of the first `count` lanes, which is a value.
  std::string mask_below(const std::string& count);
  std::string as_dtype(const std::string& value, DType from, DType to);
  std::string moved(const std::string& base, const std::string& index, int64_t stride);

  // Elements that lie `step` bytes apart, from `at` on; those that `mask` says, unless that is
  // empty. Lanes that are not read hold 1: no function takes its slow way for it.
  std::string load(DType d, const std::string& at, int64_t step, const std::string& mask);
  // One element in all lanes.
  std::string load_repeated(DType d, const std::string& at);
  void store(DType d, const std::string& value, const std::string& at, int64_t step,
             const std::string& mask);

 private:
  static bool fused();
  std::string pointers(const std::string& at, int64_t step);
  std::string all_lanes() const { return single_.all("i1 true"); }
  std::string suffix(DType d) const;

  Code& code_;
  int width_;
  TextLanes single_, twice_;
};

}  // namespace adjoint::native
