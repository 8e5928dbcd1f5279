// Read vectors.h first.
#include "program/native/vectors.h"

#include <algorithm>

#include "program/native/formulas.h"

namespace adjoint::native {

int vector_bytes() {
  switch (active_isa()) {
    case Isa::V4:
      return 64;
    case Isa::V3:
      return 32;
    default:
      return 16;
  }
}

int width_for(int64_t row, size_t item) {
  if (row == 1) return 1;
  int most = vector_bytes() / static_cast<int>(item), least = 16 / static_cast<int>(item);
  auto wanted = std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(row, most)));
  return std::clamp(static_cast<int>(wanted), least, most);
}

bool Vectors::fused() { return fuses_products(); }

std::string Vectors::splat(const char* element, const std::string& one) {
  if (width_ == 1) return one;
  std::string type = of(element);
  std::string first =
      code_.value("insertelement ", type, " poison, ", element, " ", one, ", i32 0");
  return code_.value("shufflevector ", type, " ", first, ", ", type, " poison, ", of("i32"),
                     " zeroinitializer");
}

std::string Vectors::steps(int64_t s) const {
  std::string text = "<";
  for (int k = 0; k < width_; ++k) text += joined(k ? ", " : "", "i64 ", k * s);
  return text + ">";
}
std::string Vectors::lanes_between(int begin, int end) const {
  std::string text = "<";
  for (int k = 0; k < width_; ++k)
    text += joined(k ? ", " : "", "i1 ", k >= begin && k < end ? "true" : "false");
  return text + ">";
}
std::string Vectors::mask_below(const std::string& count) {
  return code_.value("icmp slt ", of("i64"), " ", steps(1), ", ", splat("i64", count));
}

std::string Vectors::as_dtype(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  std::string a = value_type(from), b = value_type(to);
  if (from == DType::Bool) return code_.value("uitofp ", a, " ", value, " to ", b);
  if (to == DType::Bool)
    return code_.value("fcmp une ", a, " ", value, ", ", lanes(from).number(0).name);
  return code_.value(to == DType::Float64 ? "fpext " : "fptrunc ", a, " ", value, " to ", b);
}

std::string Vectors::moved(const std::string& base, const std::string& index, int64_t stride) {
  if (stride == 0 || index == "0") return base;
  std::string bytes = stride == 1 ? index : code_.value("mul i64 ", index, ", ", stride);
  return code_.value("getelementptr i8, ptr ", base, ", i64 ", bytes);
}

std::string Vectors::pointers(const std::string& at, int64_t step) {
  return code_.value("getelementptr i8, ptr ", at, ", ", of("i64"), " ", steps(step));
}
std::string Vectors::suffix(DType d) const {
  const char* one = d == DType::Float32 ? "f32" : d == DType::Float64 ? "f64" : "i8";
  return joined("v", width_, one);
}

std::string Vectors::load(DType d, const std::string& at, int64_t step, const std::string& mask) {
  auto item = static_cast<int64_t>(item_size(d));
  std::string type = memory_type(d), found;
  std::string filler = d == DType::Bool ? single_.all("i8 0") : lanes(d).number(1).name;
  if (width_ == 1 || (step == item && mask.empty())) {
    found = code_.value("load ", type, ", ptr ", at, ", align ", item);
  } else if (step == item) {
    found = code_.value("call ", type, " @llvm.masked.load.", suffix(d), ".p0(ptr align ", item,
                        " ", at, ", ", of("i1"), " ", mask, ", ", type, " ", filler, ")");
  } else {
    found = code_.value("call ", type, " @llvm.masked.gather.", suffix(d), ".v", width_, "p0(",
                        of("ptr"), " align ", item, " ", pointers(at, step), ", ", of("i1"), " ",
                        mask.empty() ? all_lanes() : mask, ", ", type, " ", filler, ")");
  }
  if (d != DType::Bool) return found;
  return code_.value("icmp ne ", type, " ", found, ", ", single_.all("i8 0"));
}

std::string Vectors::load_repeated(DType d, const std::string& at) {
  const char* element = element_of(d);
  std::string one = code_.value("load ", element, ", ptr ", at);
  if (d == DType::Bool) return splat("i1", code_.value("icmp ne i8 ", one, ", 0"));
  return splat(element, one);
}

void Vectors::store(DType d, const std::string& value, const std::string& at, int64_t step,
                    const std::string& mask) {
  auto item = static_cast<int64_t>(item_size(d));
  std::string type = memory_type(d), v = value;
  if (d == DType::Bool) v = code_.value("zext ", of("i1"), " ", value, " to ", type);
  if (width_ == 1 || (step == item && mask.empty())) {
    code_.line("store ", type, " ", v, ", ptr ", at, ", align ", item);
  } else if (step == item) {
    code_.line("call void @llvm.masked.store.", suffix(d), ".p0(", type, " ", v, ", ptr align ",
               item, " ", at, ", ", of("i1"), " ", mask, ")");
  } else {
    code_.line("call void @llvm.masked.scatter.", suffix(d), ".v", width_, "p0(", type, " ", v,
               ", ", of("ptr"), " align ", item, " ", pointers(at, step), ", ", of("i1"), " ",
               mask.empty() ? all_lanes() : mask, ")");
  }
}

}  // namespace adjoint::native
