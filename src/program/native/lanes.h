// Arithmetic on lanes, in two forms with the same names: TextLanes writes it as lines of a function,
// NumberLanes carries it out for one number. A formula (formulas.cpp) is a template over either, so
// what is written can be compared with the library's kernel before it is used.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <unordered_map>

#include "kernels/kernel.h"
#include "program/native/code.h"

namespace adjoint::native {

// What a float64 or float32 has to do with its bits.
template <class T>
struct FloatBits {
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
};

// `fused`: a * b + c is rounded once, as the kernels of this instruction set round it.
template <class T>
class NumberLanes {
 public:
  using V = T;
  using M = bool;
  using I = typename FloatBits<T>::Int;
  using U = std::make_unsigned_t<I>;
  static constexpr bool narrow = sizeof(T) == 4;

  explicit NumberLanes(bool fused) : fused_(fused) {}
  bool fused() const { return fused_; }

  V number(double x) const { return static_cast<T>(x); }
  V add(V a, V b) const { return a + b; }
  V sub(V a, V b) const { return a - b; }
  V mul(V a, V b) const { return a * b; }
  V div(V a, V b) const { return a / b; }
  V neg(V a) const { return -a; }
  V fma(V a, V b, V c) const { return std::fma(a, b, c); }
  // a * b + c and c - a * b as the compiler has made them of these expressions.
  V mul_add(V a, V b, V c) const { return fused_ ? std::fma(a, b, c) : a * b + c; }
  V sub_mul(V c, V a, V b) const { return fused_ ? std::fma(-a, b, c) : c - a * b; }
  V abs(V a) const { return std::fabs(a); }
  V sqrt(V a) const { return std::sqrt(a); }
  V floor(V a) const { return std::floor(a); }
  V ceil(V a) const { return std::ceil(a); }
  V trunc(V a) const { return std::trunc(a); }
  V round(V a) const { return std::nearbyint(a); }
  M lt(V a, V b) const { return a < b; }
  M le(V a, V b) const { return a <= b; }
  M gt(V a, V b) const { return a > b; }
  M ge(V a, V b) const { return a >= b; }
  M eq(V a, V b) const { return a == b; }
  M ne(V a, V b) const { return !(a == b); }
  M beyond(V a, double limit) const { return !(a <= static_cast<T>(limit)); }
  M both(M a, M b) const { return a & b; }
  M either(M a, M b) const { return a | b; }
  M differ(M a, M b) const { return a != b; }
  M no(M a) const { return !a; }
  V choose(M m, V a, V b) const { return m ? a : b; }
  I bits(V a) const { return std::bit_cast<I>(a); }
  V from_bits(I a) const { return std::bit_cast<V>(a); }
  I word(int64_t x) const { return static_cast<I>(x); }
  I bit_and(I a, I b) const { return a & b; }
  I bit_xor(I a, I b) const { return a ^ b; }
  I plus(I a, I b) const { return static_cast<I>(static_cast<U>(a) + static_cast<U>(b)); }
  I shifted(I a, int by) const { return static_cast<I>(static_cast<U>(a) << by); }
  M nonzero(I a) const { return a != 0; }

  // Results by the library's loop, where an argument is beyond what the formula is good for.
  template <size_t Results>
  void by_loop_where(M far, Loop loop, V x, V (&results)[Results]) const {
    if (!far) return;
    char* p[Results + 1];
    for (size_t k = 0; k < Results; ++k) p[k] = reinterpret_cast<char*>(&results[k]);
    p[Results] = reinterpret_cast<char*>(&x);
    loop(p, 1);
  }

 private:
  bool fused_;
};

class TextLanes {
 public:
  struct V {
    std::string name;
  };
  struct M {
    std::string name;
  };
  struct I {
    std::string name;
  };

  // `width` lanes of a float dtype; one lane is a number, not a vector.
  TextLanes(Code& code, DType dtype, int width, bool fused)
      : narrow(dtype == DType::Float32), code_(code), width_(width), fused_(fused) {}

  const bool narrow;
  bool fused() const { return fused_; }
  int width() const { return width_; }
  std::string of(const char* element) const {
    return width_ == 1 ? element : joined("<", width_, " x ", element, ">");
  }
  const char* element() const { return narrow ? "float" : "double"; }
  std::string type() const { return of(element()); }
  std::string mask() const { return of("i1"); }
  std::string ints() const { return of(narrow ? "i32" : "i64"); }
  // Of intrinsic functions: v16f32.
  std::string suffix() const {
    const char* one = narrow ? "f32" : "f64";
    return width_ == 1 ? one : joined("v", width_, one);
  }
  std::string all(const std::string& element_and_value) const {
    return width_ == 1 ? element_and_value.substr(element_and_value.find(' ') + 1)
                       : joined("splat (", element_and_value, ")");
  }

  V number(double x) const { return {all(joined(element(), " ", float_text(x)))}; }
  V add(const V& a, const V& b) { return two("fadd", a, b); }
  V sub(const V& a, const V& b) { return two("fsub", a, b); }
  V mul(const V& a, const V& b) { return two("fmul", a, b); }
  V div(const V& a, const V& b) { return two("fdiv", a, b); }
  V neg(const V& a) {
    V made{code_.value("fneg ", type(), " ", a.name)};
    negated_[made.name] = a.name;
    return made;
  }
  // What a value is the negative of, or the value itself.
  const std::string& without_sign(const std::string& value) const {
    auto of = negated_.find(value);
    return of == negated_.end() ? value : of->second;
  }
  V fma(const V& a, const V& b, const V& c) {
    return {code_.value("call ", type(), " @llvm.fma.", suffix(), "(", type(), " ", a.name, ", ",
                        type(), " ", b.name, ", ", type(), " ", c.name, ")")};
  }
  V mul_add(const V& a, const V& b, const V& c) {
    return fused_ ? fma(a, b, c) : add(mul(a, b), c);
  }
  V sub_mul(const V& c, const V& a, const V& b) {
    return fused_ ? fma(neg(a), b, c) : sub(c, mul(a, b));
  }
  V abs(const V& a) { return one("fabs", a); }
  V sqrt(const V& a) { return one("sqrt", a); }
  V floor(const V& a) { return one("floor", a); }
  V ceil(const V& a) { return one("ceil", a); }
  V trunc(const V& a) { return one("trunc", a); }
  V round(const V& a) { return one("nearbyint", a); }
  M lt(const V& a, const V& b) { return compared("olt", a, b); }
  M le(const V& a, const V& b) { return compared("ole", a, b); }
  M gt(const V& a, const V& b) { return compared("ogt", a, b); }
  M ge(const V& a, const V& b) { return compared("oge", a, b); }
  M eq(const V& a, const V& b) { return compared("oeq", a, b); }
  M ne(const V& a, const V& b) { return compared("une", a, b); }
  M beyond(const V& a, double limit) { return compared("ugt", a, number(limit)); }
  M both(const M& a, const M& b) { return masks("and", a, b); }
  M either(const M& a, const M& b) { return masks("or", a, b); }
  M differ(const M& a, const M& b) { return masks("xor", a, b); }
  M no(const M& a) { return masks("xor", a, {all("i1 true")}); }
  V choose(const M& m, const V& a, const V& b) {
    return {code_.value("select ", mask(), " ", m.name, ", ", type(), " ", a.name, ", ", type(),
                        " ", b.name)};
  }
  I bits(const V& a) { return {code_.value("bitcast ", type(), " ", a.name, " to ", ints())}; }
  V from_bits(const I& a) { return {code_.value("bitcast ", ints(), " ", a.name, " to ", type())}; }
  I word(int64_t x) const { return {all(joined(narrow ? "i32 " : "i64 ", x))}; }
  I bit_and(const I& a, const I& b) { return words("and", a, b); }
  I bit_xor(const I& a, const I& b) { return words("xor", a, b); }
  I plus(const I& a, const I& b) { return words("add", a, b); }
  I shifted(const I& a, int by) { return words("shl", a, word(by)); }
  M nonzero(const I& a) {
    return {code_.value("icmp ne ", ints(), " ", a.name, ", ", word(0).name)};
  }

  // All lanes by the library's loop if any is beyond: it gives the others what the formula does.
  template <size_t Results>
  void by_loop_where(const M& far, Loop loop, const V& x, V (&results)[Results]) {
    std::string any = far.name;
    if (width_ > 1) {
      std::string lanes = code_.value("bitcast ", mask(), " ", far.name, " to i", width_);
      any = code_.value("icmp ne i", width_, " ", lanes, ", 0");
    }
    std::string rare = code_.new_label("rare"), after = code_.new_label("after");
    std::string usual = code_.block(), room = code_.first("alloca [", Results + 1, " x ptr]");
    std::string places[Results + 1], found[Results];
    for (size_t k = 0; k <= Results; ++k) {
      places[k] = code_.first("alloca ", type(), ", align 64");
      std::string at = code_.first("getelementptr ptr, ptr ", room, ", i64 ", k);
      code_.first_line("store ptr ", places[k], ", ptr ", at);
    }
    code_.line("br i1 ", any, ", label %", rare, ", label %", after, ", !prof !0");
    code_.start(rare);
    code_.line("store ", type(), " ", x.name, ", ptr ", places[Results]);
    code_.line("call void ", address(loop), "(ptr ", room, ", i64 ", width_, ") #1");
    for (size_t k = 0; k < Results; ++k)
      found[k] = code_.value("load ", type(), ", ptr ", places[k]);
    code_.go(after);
    code_.start(after);
    for (size_t k = 0; k < Results; ++k)
      results[k].name = code_.value("phi ", type(), " [ ", results[k].name, ", %", usual, " ], [ ",
                                    found[k], ", %", rare, " ]");
  }

  static std::string address(Loop loop) {
    return joined("inttoptr (i64 ", reinterpret_cast<int64_t>(loop), " to ptr)");
  }
  Code& code() { return code_; }
  std::string float_text(double x) const;

 private:
  V one(const char* name, const V& a) {
    return {code_.value("call ", type(), " @llvm.", name, ".", suffix(), "(", type(), " ", a.name,
                        ")")};
  }
  V two(const char* name, const V& a, const V& b) {
    return {code_.value(name, " ", type(), " ", a.name, ", ", b.name)};
  }
  M compared(const char* how, const V& a, const V& b) {
    return {code_.value("fcmp ", how, " ", type(), " ", a.name, ", ", b.name)};
  }
  M masks(const char* name, const M& a, const M& b) {
    return {code_.value(name, " ", mask(), " ", a.name, ", ", b.name)};
  }
  I words(const char* name, const I& a, const I& b) {
    return {code_.value(name, " ", ints(), " ", a.name, ", ", b.name)};
  }

  Code& code_;
  int width_;
  bool fused_;
  std::unordered_map<std::string, std::string> negated_;  // what neg gave, by name: of what
};

// LLVM writes floats of either size as the bits of the double.
inline std::string TextLanes::float_text(double x) const {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llX",
                static_cast<unsigned long long>(
                    std::bit_cast<uint64_t>(narrow ? double(static_cast<float>(x)) : x)));
  return text;
}

}  // namespace adjoint::native
