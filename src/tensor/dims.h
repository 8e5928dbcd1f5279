// Dims: a short list of int64 (a shape, strides, a list of axes), inline up to six.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

namespace adjoint {

inline constexpr int kInlineDims = 6;
inline constexpr int kMaxDims = 64;

// A view of int64s owned by somebody else.
struct Span {
  const int64_t* p = nullptr;
  int n = 0;
  int64_t operator[](int i) const { return p[i]; }
  const int64_t* begin() const { return p; }
  const int64_t* end() const { return p + n; }
  int size() const { return n; }
  bool operator==(const Span& o) const {
    if (n != o.n) return false;
    for (int i = 0; i < n; ++i) {  // short: a call of memcmp costs more than the comparison
      if (p[i] != o.p[i]) return false;
    }
    return true;
  }
};

class Dims {
 public:
  Dims() = default;
  explicit Dims(int n, int64_t fill = 0) {
    resize(n);
    std::fill_n(p_, n, fill);
  }
  Dims(std::initializer_list<int64_t> v) { assign(v.begin(), static_cast<int>(v.size())); }
  Dims(Span s) { assign(s.p, s.n); }
  Dims(const Dims& o) { assign(o.p_, o.n_); }
  Dims(Dims&& o) noexcept { take(o); }
  Dims& operator=(const Dims& o) {
    if (this != &o) assign(o.p_, o.n_);
    return *this;
  }
  Dims& operator=(Dims&& o) noexcept {
    if (this != &o) {
      free_heap();
      take(o);
    }
    return *this;
  }
  ~Dims() { free_heap(); }

  int size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t* data() { return p_; }
  const int64_t* data() const { return p_; }
  int64_t& operator[](int i) { return p_[i]; }
  int64_t operator[](int i) const { return p_[i]; }
  int64_t& back() { return p_[n_ - 1]; }
  int64_t back() const { return p_[n_ - 1]; }
  const int64_t* begin() const { return p_; }
  const int64_t* end() const { return p_ + n_; }
  int64_t* begin() { return p_; }
  int64_t* end() { return p_ + n_; }
  operator Span() const { return {p_, n_}; }
  bool operator==(const Dims& o) const { return Span(*this) == Span(o); }

  void resize(int n) {
    if (n > capacity_) {
      int64_t* q = new int64_t[n * 2];
      std::copy_n(p_, n_, q);
      free_heap();
      p_ = q;
      capacity_ = n * 2;
    }
    n_ = n;
  }
  void push_back(int64_t v) {
    resize(n_ + 1);
    p_[n_ - 1] = v;
  }
  void insert(int at, int64_t v) {
    push_back(v);
    std::rotate(p_ + at, p_ + n_ - 1, p_ + n_);
  }
  void erase(int at) {
    std::copy(p_ + at + 1, p_ + n_, p_ + at);
    --n_;
  }
  bool contains(int64_t v) const { return std::find(begin(), end(), v) != end(); }

 private:
  void assign(const int64_t* v, int n) {
    resize(n);
    if (n > 0) std::memcpy(p_, v, n * sizeof(int64_t));
  }
  void take(Dims& o) {
    n_ = o.n_;
    if (o.p_ == o.inline_) {
      p_ = inline_;
      capacity_ = kInlineDims;
      std::copy_n(o.inline_, n_, inline_);
    } else {
      p_ = o.p_;
      capacity_ = o.capacity_;
      o.p_ = o.inline_;
      o.capacity_ = kInlineDims;
    }
    o.n_ = 0;
  }
  void free_heap() {
    if (p_ != inline_) delete[] p_;
    p_ = inline_;
    capacity_ = kInlineDims;
  }

  int64_t* p_ = inline_;
  int n_ = 0;
  int capacity_ = kInlineDims;
  int64_t inline_[kInlineDims];
};

// "[2, 3]", as errors print a shape.
std::string to_string(Span s);

}  // namespace adjoint
