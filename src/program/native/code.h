// Text of LLVM's intermediate language, line by line: one function at a time. No line has a flag
// that lets the compiler change a result, and nothing is left for optimisation passes: vectors and
// fused products are written out. Read next: lanes.h, for arithmetic; tile_code.h, for loops.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::native {

inline std::string joined() { return {}; }
template <class... Rest>
std::string joined(const std::string& first, const Rest&... rest);
template <std::integral N, class... Rest>
std::string joined(N first, const Rest&... rest) {
  return std::to_string(first) + joined(rest...);
}
template <class... Rest>
std::string joined(const std::string& first, const Rest&... rest) {
  return first + joined(rest...);
}
template <class... Rest>
std::string joined(const char* first, const Rest&... rest) {
  return first + joined(rest...);
}

// The lanes that shufflevector takes, one after another.
inline std::string picked(const std::vector<int>& lanes) {
  std::string text = joined("<", lanes.size(), " x i32> <");
  for (size_t k = 0; k < lanes.size(); ++k) text += joined(k ? ", " : "", "i32 ", lanes[k]);
  return text + ">";
}

class Code {
 public:
  // A line that gives a value: its name.
  template <class... Parts>
  std::string value(const Parts&... parts) {
    std::string name = joined("%t", ++count_);
    text_ += joined("  ", name, " = ", parts..., "\n");
    return name;
  }
  // A line that gives none.
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += joined("  ", parts..., "\n");
  }
  // A line that stands at the start of the function, whenever it is written.
  template <class... Parts>
  std::string first(const Parts&... parts) {
    std::string name = joined("%f", ++count_);
    entry_ += joined("  ", name, " = ", parts..., "\n");
    return name;
  }
  template <class... Parts>
  void first_line(const Parts&... parts) {
    entry_ += joined("  ", parts..., "\n");
  }

  std::string new_label(const char* what) { return joined(what, ++count_); }
  void start(const std::string& label) {
    text_ += label + ":\n";
    block_ = label;
  }
  void go(const std::string& label) { line("br label %", label); }
  const std::string& block() const { return block_; }

  // for (k = from; k < to; k += step) body(k); at least once.
  template <class F>
  void loop(const std::string& from, const std::string& to, int64_t step, F&& body) {
    std::string top = new_label("loop"), end = new_label("end"), k = joined("%k", ++count_),
                next = joined("%n", ++count_), before = block_;
    go(top);
    size_t head = text_.size() + top.size() + 2;
    start(top);
    body(k);
    line(next, " = add i64 ", k, ", ", step);
    line("br i1 ", value("icmp slt i64 ", next, ", ", to), ", label %", top, ", label %", end);
    // Put in only now: the body may have ended in another block than it began in.
    text_.insert(head, joined("  ", k, " = phi i64 [ ", from, ", %", before, " ], [ ", next, ", %",
                              block_, " ]\n"));
    start(end);
  }
  // for (k = 0; k < count; ++k) values = body(k, values); with values of these types, and first ones.
  struct Carried {
    std::string type, first;
  };
  template <class F>
  void loop_of(const std::string& count, const std::vector<Carried>& carried, F&& body) {
    std::string before = block_;
    std::vector<std::string> names, next;
    for (size_t k = 0; k < carried.size(); ++k) names.push_back(joined("%c", ++count_));
    loop("0", count, 1, [&](const std::string& k) {
      size_t head = text_.size();
      next = body(k, names);
      std::string phis;
      for (size_t n = 0; n < carried.size(); ++n)
        phis += joined("  ", names[n], " = phi ", carried[n].type, " [ ", carried[n].first, ", %",
                       before, " ], [ ", next[n], ", %", block_, " ]\n");
      text_.insert(head, phis);
    });
  }
  // The same with a value that goes from run to run: value = body(k, value); the last one.
  template <class F>
  std::string carried_loop(const std::string& from, const std::string& to, int64_t step,
                           const std::string& type, const std::string& first, F&& body) {
    std::string before = block_, carried = joined("%c", ++count_), last;
    size_t head = 0;
    loop(from, to, step, [&](const std::string& k) {
      head = text_.size();
      last = body(k, carried);
      text_.insert(head, joined("  ", carried, " = phi ", type, " [ ", first, ", %", before,
                                " ], [ ", last, ", %", block_, " ]\n"));
    });
    return last;
  }
  // if (condition) body().
  template <class F>
  void when(const std::string& condition, F&& body) {
    std::string then = new_label("then"), after = new_label("after");
    line("br i1 ", condition, ", label %", then, ", label %", after);
    start(then);
    body();
    go(after);
    start(after);
  }

  // The whole function; `arguments` as they are written.
  std::string function(const std::string& name, const std::string& arguments) const {
    return joined("define void @", name, "(", arguments, ") #0 {\nentry:\n", entry_,
                  "  br label %body\nbody:\n", text_, "  ret void\n}\n");
  }

 private:
  std::string entry_, text_, block_ = "body";
  int count_ = 0;
};

}  // namespace adjoint::native
