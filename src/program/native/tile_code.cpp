// Read tile_code.h first.
#include "program/native/tile_code.h"

#include <bit>
#include <map>

#include "kernels/convert.h"
#include "program/native/formulas.h"

namespace adjoint::native {
namespace {

using Place = TileLoops::Place;
using Argument = TileLoops::Argument;

constexpr size_t kMostActions = 192;  // longer functions take too long to compile

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

bool is_known(DType d) { return d == DType::Float32 || d == DType::Float64 || d == DType::Bool; }
const char* element_of(DType d) {
  return d == DType::Float32 ? "float" : d == DType::Float64 ? "double" : "i8";
}

class TileCode {
 public:
  TileCode(const TileLoops& f, Extent extent) : f_(f), extent_(extent) {}

  std::optional<std::string> write(const std::string& name) {
    if (!is_supported()) return {};
    choose_width();
    if (extent_ == Extent::Whole) {
      whole();
      return code_.function(name, "ptr %data, i64 %n");
    }
    range();
    return code_.function(name, "ptr %data, i64 %begin, i64 %end");
  }

 private:
  // --- what can be written
  bool is_supported() {
    if (f_.may_fault || f_.numel == 0 || f_.actions.size() > kMostActions) return false;
    for (const Place& p : f_.places) {
      if (!is_known(p.dtype) || !is_known(p.wanted)) return false;
      if (p.written && p.dtype != p.wanted) return false;
      if (p.sum >= 0 && p.way != TileLoops::Way::Flat) return false;
    }
    for (const TileLoops::Number& n : f_.numbers) {
      if (!is_known(n.dtype)) return false;
    }
    for (size_t k = 0; k < f_.actions.size(); ++k) {
      if (f_.actions[k].loop && !is_known_loop(k)) return false;
    }
    return true;
  }
  bool is_known_loop(size_t action) {
    Loop loop = f_.actions[action].loop;
    size_t at = f_.actions[action].at;
    for (size_t k = at; k < end_of(action); ++k) {
      if (!is_known(f_.arguments[k].dtype)) return false;
    }
    if (formula_of(loop).formula) return true;
    DType to = f_.arguments[at].dtype, from = f_.arguments[at + 1].dtype;
    return loop == copy_loop(to) || loop == conversion(to, from);
  }
  // Arguments of a loop end where those of the next one start.
  size_t end_of(size_t action) const {
    for (size_t next = action + 1; next < f_.actions.size(); ++next) {
      if (f_.actions[next].loop) return f_.actions[next].at;
    }
    return f_.arguments.size();
  }

  // --- lanes
  void choose_width() {
    size_t item = 4;
    for (const Argument& a : f_.arguments)
      if (a.dtype == DType::Float64) item = 8;
    int most = vector_bytes() / static_cast<int>(item), least = 16 / static_cast<int>(item);
    int64_t row = f_.shape.empty() ? 1 : f_.shape.back();
    width_ = row == 1 ? 1
                      : std::clamp(static_cast<int>(std::bit_ceil(
                                       static_cast<uint64_t>(std::min<int64_t>(row, most)))),
                                   least, most);
    for (DType d : {DType::Float32, DType::Float64})
      lanes_.try_emplace(d, code_, d, width_, fuses_products());
  }
  TextLanes& lanes(DType d) { return lanes_.at(d == DType::Float64 ? d : DType::Float32); }
  std::string vector(const char* element) { return lanes(DType::Float32).of(element); }
  std::string memory_type(DType d) { return vector(element_of(d)); }
  std::string value_type(DType d) { return d == DType::Bool ? vector("i1") : memory_type(d); }
  std::string splat(const char* element, const std::string& one) {
    if (width_ == 1) return one;
    std::string type = vector(element);
    std::string first =
        code_.value("insertelement ", type, " poison, ", element, " ", one, ", i32 0");
    return code_.value("shufflevector ", type, " ", first, ", ", type, " poison, ", vector("i32"),
                       " zeroinitializer");
  }

  // --- positions
  // All rows of the shape, nested loops of known lengths.
  void whole() {
    std::vector<std::string> bases(f_.places.size());
    for (size_t k = 0; k < f_.places.size(); ++k) bases[k] = pointer_of(k);
    nest(0, bases);
  }
  std::string pointer_of(size_t place) {
    std::string at = code_.first("getelementptr ptr, ptr %data, i64 ", place);
    return code_.first("load ptr, ptr ", at);
  }
  std::string moved(const std::string& base, const std::string& index, int64_t stride) {
    if (stride == 0) return base;
    std::string bytes = stride == 1 ? index : code_.value("mul i64 ", index, ", ", stride);
    return code_.value("getelementptr i8, ptr ", base, ", i64 ", bytes);
  }
  void nest(int axis, const std::vector<std::string>& bases) {
    if (axis >= f_.shape.size() - 1) {
      int64_t row = f_.shape.empty() ? 1 : f_.shape.back();
      return run(bases, "0", joined(row), row);
    }
    code_.loop("0", joined(f_.shape[axis]), 1, [&](const std::string& k) {
      std::vector<std::string> inner;
      for (size_t p = 0; p < bases.size(); ++p)
        inner.push_back(moved(bases[p], k, f_.places[p].strides[axis]));
      nest(axis + 1, inner);
    });
  }

  // Positions [begin, end): runs along rows.
  void range() {
    std::vector<std::string> bases(f_.places.size());
    for (size_t k = 0; k < f_.places.size(); ++k) {
      bases[k] = pointer_of(k);
      if (f_.places[k].sum >= 0) {  // where position 0 would be
        std::string back = code_.value("mul i64 %begin, -", item_size(f_.places[k].dtype));
        bases[k] = code_.value("getelementptr i8, ptr ", bases[k], ", i64 ", back);
      }
    }
    if (f_.shape.size() <= 1) return run(bases, "%begin", "%end", 0);
    const int64_t row = f_.shape.back();
    std::string top = code_.new_label("row"), end = code_.new_label("end"), before = code_.block();
    std::string at = "%at", next = "%next";
    code_.go(top);
    code_.start(top);
    std::string later = code_.new_label("later");
    code_.line(at, " = phi i64 [ %begin, %", before, " ], [ ", next, ", %", later, " ]");
    std::string column = code_.value("srem i64 ", at, ", ", row);
    std::string rest = code_.value("sdiv i64 ", at, ", ", row);
    std::string left = code_.value("sub i64 %end, ", at);
    std::string to = code_.value("add i64 ", column, ", ", left);
    to = code_.value("call i64 @llvm.smin.i64(i64 ", to, ", i64 ", row, ")");
    std::vector<std::string> here = bases;
    for (int axis = f_.shape.size() - 2; axis >= 0; --axis) {
      std::string index = axis ? code_.value("srem i64 ", rest, ", ", f_.shape[axis]) : rest;
      if (axis) rest = code_.value("sdiv i64 ", rest, ", ", f_.shape[axis]);
      for (size_t p = 0; p < here.size(); ++p)
        here[p] = moved(here[p], index, f_.places[p].strides[axis]);
    }
    run(here, column, to, 0);
    code_.go(later);
    code_.start(later);
    std::string done = code_.value("sub i64 ", to, ", ", column);
    code_.line(next, " = add i64 ", at, ", ", done);
    code_.line("br i1 ", code_.value("icmp slt i64 ", next, ", %end"), ", label %", top,
               ", label %", end);
    code_.start(end);
  }

  // --- one run along the last axis: elements [from, to); `count` of them, if that is known
  void run(const std::vector<std::string>& bases, const std::string& from, const std::string& to,
           int64_t count) {
    bases_ = &bases;
    load_repeated();
    if (count > 0) {
      int64_t full = count / width_ * width_;
      if (full == width_)
        body("0", "");
      else if (full > 0)
        code_.loop("0", joined(full), width_, [&](const std::string& k) { body(k, ""); });
      if (full < count) body(joined(full), constant_mask(static_cast<int>(count - full)));
      return;
    }
    std::string length = code_.value("sub i64 ", to, ", ", from);
    std::string full = code_.value("and i64 ", length, ", ", -width_);
    std::string last = code_.value("add i64 ", from, ", ", full);
    code_.when(code_.value("icmp sgt i64 ", full, ", 0"),
               [&] { code_.loop(from, last, width_, [&](const std::string& k) { body(k, ""); }); });
    if (width_ == 1) return;
    code_.when(code_.value("icmp slt i64 ", last, ", ", to), [&] {
      std::string rest = code_.value("sub i64 ", to, ", ", last);
      std::string type = vector("i64");
      body(last, code_.value("icmp slt ", type, " ", steps(1), ", ", splat("i64", rest)));
    });
  }
  // 0, s, 2 s ...
  std::string steps(int64_t s) {
    std::string text = "<";
    for (int k = 0; k < width_; ++k) text += joined(k ? ", " : "", "i64 ", k * s);
    return text + ">";
  }
  std::string constant_mask(int count) {
    std::string text = "<";
    for (int k = 0; k < width_; ++k)
      text += joined(k ? ", " : "", "i1 ", k < count ? "true" : "false");
    return text + ">";
  }

  // --- memory
  bool is_repeated(const Place& p) const { return f_.shape.empty() || p.strides.back() == 0; }
  int64_t step(const Place& p) const { return f_.shape.empty() ? 0 : p.strides.back(); }

  // What is the same along the row is read once, before it.
  void load_repeated() {
    repeated_.assign(f_.places.size(), "");
    for (size_t k = 0; k < f_.places.size(); ++k) {
      const Place& p = f_.places[k];
      if (p.written || !is_repeated(p)) continue;
      const char* element = element_of(p.dtype);
      std::string one = code_.value("load ", element, ", ptr ", (*bases_)[k]);
      repeated_[k] =
          as_wanted(p.dtype == DType::Bool ? mask_of(splat(element, one)) : splat(element, one),
                    p.dtype, p.wanted);
    }
  }
  std::string mask_of(const std::string& bytes) {
    return code_.value("icmp ne ", vector("i8"), " ", bytes, ", ",
                       lanes(DType::Float32).all("i8 0"));
  }
  std::string as_wanted(const std::string& v, DType from, DType to) {
    if (from == to) return v;
    std::string a = value_type(from), b = value_type(to);
    if (from == DType::Bool) return code_.value("uitofp ", a, " ", v, " to ", b);
    if (to == DType::Bool)
      return code_.value("fcmp une ", a, " ", v, ", ", lanes(from).number(0).name);
    return code_.value(to == DType::Float64 ? "fpext " : "fptrunc ", a, " ", v, " to ", b);
  }
  std::string pointer(size_t place) {
    return moved((*bases_)[place], index_, step(f_.places[place]));
  }
  std::string pointers(size_t place) {
    return code_.value("getelementptr i8, ptr ", pointer(place), ", ", vector("i64"), " ",
                       steps(step(f_.places[place])));
  }
  std::string mask_text() { return mask_.empty() ? lanes(DType::Float32).all("i1 true") : mask_; }
  std::string suffix(DType d) {
    const char* one = d == DType::Float32 ? "f32" : d == DType::Float64 ? "f64" : "i8";
    return joined("v", width_, one);
  }
  // Unused lanes hold 1: no function takes its slow way for it.
  std::string filler(DType d) {
    return d == DType::Bool ? lanes(DType::Float32).all("i8 0") : lanes(d).number(1).name;
  }

  std::string load(size_t place) {
    const Place& p = f_.places[place];
    if (!repeated_[place].empty()) return repeated_[place];
    auto item = static_cast<int64_t>(item_size(p.dtype));
    std::string type = memory_type(p.dtype), found;
    if (width_ == 1 || (step(p) == item && mask_.empty())) {
      found = code_.value("load ", type, ", ptr ", pointer(place), ", align ", item);
    } else if (step(p) == item) {
      found = code_.value("call ", type, " @llvm.masked.load.", suffix(p.dtype), ".p0(ptr align ",
                          item, " ", pointer(place), ", ", vector("i1"), " ", mask_, ", ", type,
                          " ", filler(p.dtype), ")");
    } else {
      found = code_.value("call ", type, " @llvm.masked.gather.", suffix(p.dtype), ".v", width_,
                          "p0(", vector("ptr"), " align ", item, " ", pointers(place), ", ",
                          vector("i1"), " ", mask_text(), ", ", type, " ", filler(p.dtype), ")");
    }
    return as_wanted(p.dtype == DType::Bool ? mask_of(found) : found, p.dtype, p.wanted);
  }
  void store(size_t place, std::string v) {
    const Place& p = f_.places[place];
    auto item = static_cast<int64_t>(item_size(p.dtype));
    std::string type = memory_type(p.dtype);
    if (p.dtype == DType::Bool) v = code_.value("zext ", vector("i1"), " ", v, " to ", type);
    if (width_ == 1 || (step(p) == item && mask_.empty())) {
      code_.line("store ", type, " ", v, ", ptr ", pointer(place), ", align ", item);
    } else if (step(p) == item) {
      code_.line("call void @llvm.masked.store.", suffix(p.dtype), ".p0(", type, " ", v,
                 ", ptr align ", item, " ", pointer(place), ", ", vector("i1"), " ", mask_, ")");
    } else {
      code_.line("call void @llvm.masked.scatter.", suffix(p.dtype), ".v", width_, "p0(", type, " ",
                 v, ", ", vector("ptr"), " align ", item, " ", pointers(place), ", ", vector("i1"),
                 " ", mask_text(), ")");
    }
  }

  // --- the values of one vector of elements
  void body(const std::string& index, const std::string& mask) {
    index_ = index;
    mask_ = mask;
    tiles_.assign(f_.tiles, "");
    places_.assign(f_.places.size(), "");
    for (size_t k = 0; k < f_.places.size(); ++k) {
      const Place& p = f_.places[k];
      if (p.way == TileLoops::Way::Repeated || p.way == TileLoops::Way::Again)
        from_tile_[p.tile] = k;
    }
    for (size_t k = 0; k < f_.actions.size(); ++k) {
      const TileLoops::Action& s = f_.actions[k];
      if (s.loop)
        compute(k);
      else if (f_.places[s.at].written)
        store(s.at, tiles_[f_.places[s.at].tile]);
      else
        tiles_[f_.places[s.at].tile] = load(s.at);
    }
  }
  std::string operand(const Argument& a) {
    switch (a.kind) {
      case Argument::Number:
        return number(f_.numbers[a.index]);
      case Argument::Memory:
        if (places_[a.index].empty()) places_[a.index] = load(a.index);
        return places_[a.index];
      default:
        if (tiles_[a.index].empty()) tiles_[a.index] = load(from_tile_.at(a.index));
        return tiles_[a.index];
    }
  }
  std::string number(const TileLoops::Number& n) {
    if (n.dtype == DType::Bool)
      return lanes(DType::Float32).all(n.bytes[0] ? "i1 true" : "i1 false");
    return lanes(n.dtype).number(load_double(n.dtype, n.bytes)).name;
  }
  void keep(const Argument& a, const std::string& v) {
    if (a.kind == Argument::Tile) {
      tiles_[a.index] = v;
    } else {
      places_[a.index] = v;
      store(a.index, v);
    }
  }
  void compute(size_t action) {
    const Loop loop = f_.actions[action].loop;
    const Argument* a = f_.arguments.data() + f_.actions[action].at;
    Known known = formula_of(loop);
    if (!known.formula) return keep(a[0], as_wanted(operand(a[1]), a[1].dtype, a[0].dtype));
    const Formula& f = *known.formula;
    Value in[4];
    for (int k = 0; k < f.inputs; ++k) in[k] = {operand(a[f.results + k]), a[f.results + k].dtype};
    std::string out[2];
    f.write(lanes(known.dtype), in, out);
    for (int k = 0; k < f.results; ++k) keep(a[k], out[k]);
  }

  const TileLoops& f_;
  Extent extent_;
  Code code_;
  int width_ = 1;
  std::map<DType, TextLanes> lanes_;
  const std::vector<std::string>* bases_ = nullptr;  // pointers to the run, by place
  std::vector<std::string> repeated_;                // values, by place
  std::string index_, mask_;                         // of the vector in hand
  std::vector<std::string> tiles_, places_;          // its values
  std::map<uint32_t, size_t> from_tile_;  // places that tiles were filled from beforehand
};

}  // namespace

std::optional<std::string> tile_code(const TileLoops& f, Extent extent, const std::string& name) {
  return TileCode(f, extent).write(name);
}

std::string tile_key(const TileLoops& f, Extent extent) {
  std::string key;
  auto add = [&](const auto& x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  add(extent);
  for (int64_t s : f.shape) add(s);
  add(f.numel);
  for (const Place& p : f.places) {
    const uint8_t small[] = {p.written, static_cast<uint8_t>(p.way), static_cast<uint8_t>(p.dtype),
                             static_cast<uint8_t>(p.wanted), p.sum >= 0};
    add(small);
    add(p.tile);
    for (int64_t s : p.strides) add(s);
  }
  for (const TileLoops::Action& a : f.actions) {
    add(a.loop);
    add(a.at);
  }
  for (const Argument& a : f.arguments) {
    add(a.kind);
    add(a.index);
    add(a.dtype);
  }
  for (const TileLoops::Number& n : f.numbers) {
    add(n.dtype);
    add(n.bytes);
  }
  return key;
}

}  // namespace adjoint::native
