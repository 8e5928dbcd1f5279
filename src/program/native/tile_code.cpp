// Read tile_code.h first.
#include "program/native/tile_code.h"

#include <algorithm>

#include "program/native/assembled_row.h"
#include "program/native/rolled_code.h"
#include "program/native/tile_body.h"

namespace adjoint::native {
namespace {

using Place = TileLoops::Place;
using Argument = TileLoops::Argument;

class TileCode {
 public:
  TileCode(const TileLoops& f, Extent extent) : f_(f), extent_(extent) {}

  std::string write(const std::string& name) {
    choose_width();
    ahead_ = fetches_ahead();
    if (extent_ == Extent::Whole) {
      whole();
      return code_.function(name, "ptr %data, i64 %n");
    }
    range();
    return code_.function(name, "ptr %data, i64 %begin, i64 %end");
  }

 private:
  void choose_width() {
    vectors_.emplace(code_, width_for(f_.shape.empty() ? 1 : f_.shape.back(), widest_item(f_)));
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
  void nest(int axis, const std::vector<std::string>& bases) {
    if (axis >= f_.shape.size() - 1) {
      int64_t row = f_.shape.empty() ? 1 : f_.shape.back();
      return run(bases, "0", joined(row), row);
    }
    code_.loop("0", joined(f_.shape[axis]), 1, [&](const std::string& k) {
      outer_.resize(static_cast<size_t>(axis));
      outer_.push_back(k);
      std::vector<std::string> inner;
      for (size_t p = 0; p < bases.size(); ++p)
        inner.push_back(vectors_->moved(bases[p], k, f_.places[p].strides[axis]));
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
        here[p] = vectors_->moved(here[p], index, f_.places[p].strides[axis]);
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
    const int width = vectors_->width();
    bases_ = &bases;
    load_repeated();
    if (!f_.assemblies.empty()) return assembled_run(count);
    if (count > 0) {
      int64_t full = count / width * width;
      if (full == width)
        body("0", "");
      else if (full > 0)
        code_.loop("0", joined(full), width, [&](const std::string& k) { body(k, ""); });
      if (full < count) body(joined(full), vectors_->first_lanes(static_cast<int>(count - full)));
      return;
    }
    std::string length = code_.value("sub i64 ", to, ", ", from);
    std::string full = code_.value("and i64 ", length, ", ", -width);
    std::string last = code_.value("add i64 ", from, ", ", full);
    code_.when(code_.value("icmp sgt i64 ", full, ", 0"),
               [&] { code_.loop(from, last, width, [&](const std::string& k) { body(k, ""); }); });
    if (width == 1) return;
    code_.when(code_.value("icmp slt i64 ", last, ", ", to), [&] {
      std::string rest = code_.value("sub i64 ", to, ", ", last);
      body(last, vectors_->mask_below(rest));
    });
  }

  // --- memory
  int64_t step(const Place& p) const { return f_.shape.empty() ? 0 : p.strides.back(); }
  // What is the same along the row is read once, before it.
  void load_repeated() {
    repeated_.assign(f_.places.size(), "");
    for (size_t k = 0; k < f_.places.size(); ++k) {
      const Place& p = f_.places[k];
      if (p.written || step(p) != 0) continue;
      std::string one = vectors_->load_repeated(p.dtype, (*bases_)[k]);
      repeated_[k] = vectors_->as_dtype(one, p.dtype, p.wanted);
    }
  }
  std::string pointer(size_t place) {
    return vectors_->moved((*bases_)[place], index_, step(f_.places[place]));
  }
  std::string load(size_t place) {
    const Place& p = f_.places[place];
    if (!repeated_[place].empty()) return repeated_[place];
    std::string at = pointer(place);
    if (ahead_ && mask_.empty() && is_stream(p)) fetch_ahead(at);
    std::string found = vectors_->load(p.dtype, at, step(p), mask_);
    return vectors_->as_dtype(found, p.dtype, p.wanted);
  }
  // A large tensor, in the order of the loop.
  bool is_stream(const Place& p) const {
    constexpr int64_t kFar = 2 << 20;  // bytes: beyond the inner caches
    const auto item = static_cast<int64_t>(item_size(p.dtype));
    return p.sum < 0 && step(p) == item && f_.numel * item >= kFar;
  }
  // Processors fetch ahead by themselves, but not beyond a page of memory, and start anew in each. Where
  // much is computed per element that can be helped; loops that do little keep memory busy anyway.
  bool fetches_ahead() const {
    constexpr std::ptrdiff_t kActionsPerStream = 4;
    auto streams = std::ranges::count_if(f_.places, [&](const Place& p) { return is_stream(p); });
    return extent_ == Extent::Range &&
           std::ssize(f_.actions) >= kActionsPerStream * static_cast<std::ptrdiff_t>(streams);
  }
  void fetch_ahead(const std::string& at) {
    constexpr int64_t kDistance = 4096;  // bytes; what is not there does no harm
    std::string later = code_.value("getelementptr i8, ptr ", at, ", i64 ", kDistance);
    code_.line("call void @llvm.prefetch.p0(ptr ", later, ", i32 0, i32 3, i32 1)");
  }
  void store(size_t place, const std::string& v) {
    const Place& p = f_.places[place];
    vectors_->store(p.dtype, v, pointer(place), step(p), mask_);
  }

  void body(const std::string& index, const std::string& mask) {
    index_ = index;
    mask_ = mask;
    TileBody all(
        f_, *vectors_, [&](size_t place) { return load(place); },
        [&](size_t place, const std::string& v) { store(place, v); });
    if (assembled_)
      all.assemble_by([&](size_t k) { return assembled_->load(k, index_, at_, mask_); });
    all.write();
  }
  // Vectors that lie in one box of each value that is put together are a loop; others, where boxes
  // meet, stand by themselves.
  void assembled_run(int64_t count) {
    assembled_.emplace(f_, *vectors_, code_, *bases_, outer_);
    const int64_t width = vectors_->width();
    for (int64_t at = 0; at < count;) {
      int64_t end = at;
      while (end + width <= count && assembled_->is_same(at, end)) end += width;
      at_ = at;
      if (end > at + width) {
        code_.loop(joined(at), joined(end), width, [&](const std::string& k) { body(k, ""); });
        at = end;
        continue;
      }
      bool cut = at + width > count;
      body(joined(at), cut ? vectors_->first_lanes(static_cast<int>(count - at)) : "");
      at += width;
    }
  }

  const TileLoops& f_;
  Extent extent_;
  bool ahead_ = false;
  Code code_;
  std::optional<Vectors> vectors_;
  std::vector<std::string> outer_;  // the index of the row, by axis
  std::optional<AssembledRow> assembled_;
  int64_t at_ = 0;  // where in the row the vector in hand is, or the first of those like it
  const std::vector<std::string>* bases_ = nullptr;  // pointers to the run, by place
  std::vector<std::string> repeated_;                // values, by place
  std::string index_, mask_;                         // of the vector in hand
};

}  // namespace

std::optional<std::string> tile_code(const TileLoops& f, Extent extent, const std::string& name) {
  if (!TileBody::is_known(f) || (extent == Extent::Range && !f.assemblies.empty()) ||
      !AssembledRow::is_known(f))
    return {};
  if (TileBody::is_short(f)) return TileCode(f, extent).write(name);
  return extent == Extent::Whole ? rolled_code(f, name) : std::nullopt;
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
  for (const TileLoops::Assembly& a : f.assemblies) {
    add(a.dtype);
    for (const TileLoops::Box& b : a.boxes) {
      add(b.place);
      add(b.number);
      for (int64_t s : b.start) add(s);
      for (int64_t s : b.size) add(s);
    }
  }
  return key;
}

}  // namespace adjoint::native
