// einsum: the equation read into labels, then contractions from left to right.
// Read next: contraction.h.
#include "ops/linalg/contraction.h"

namespace adjoint {
namespace {

using T = const Tensor&;

// Axes that an ellipsis stands for get labels above all letters, counted from the last axis.
constexpr int kEllipsis = 128;
char ellipsis_label(int from_the_end) { return static_cast<char>(kEllipsis + from_the_end); }

constexpr char kDots = '.';  // an ellipsis in a term that has not been fitted to a tensor

struct Equation {
  std::vector<std::string> terms;
  std::string output;
  bool explicit_output = false;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Reads "...", whose first dot is at i.
void read_dots(const std::string& text, size_t* i, std::string* term) {
  if (term->find(kDots) != std::string::npos)
    runtime_error("einsum(): found '.' in the equation '", text,
                  "' for a term in which an ellipsis was already found");
  if (text.compare(*i, 3, "...") != 0) {
    runtime_error("einsum(): found '.' in the equation '", text,
                  "' that is not part of any ellipsis");
  }
  *term += kDots;
  *i += 2;
}

Equation parse(const std::string& text) {
  Equation e;
  std::string term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      read_dots(text, &i, &term);
    } else if (c == ',' && !e.explicit_output) {
      e.terms.push_back(std::move(term));
      term.clear();
    } else if (c == '-' && !e.explicit_output && i + 1 < text.size() && text[i + 1] == '>') {
      ++i;
      e.terms.push_back(std::move(term));
      term.clear();
      e.explicit_output = true;
    } else if (is_letter(c)) {
      if (e.explicit_output && term.find(c) != std::string::npos)
        runtime_error("einsum(): output subscript ", c, " appears more than once in the output");
      term += c;
    } else {
      runtime_error("einsum(): invalid subscript given at index ", i, " in the equation string '",
                    text, "', subscripts must be in [a-zA-Z]");
    }
  }
  if (e.explicit_output)
    e.output = std::move(term);
  else
    e.terms.push_back(std::move(term));
  return e;
}

// One label per axis of t.
std::string fit(const std::string& term, T t, size_t operand) {
  const size_t dots = term.find(kDots);
  const int letters = static_cast<int>(term.size()) - (dots != std::string::npos);
  const int ndim = t.ndim();
  if (dots == std::string::npos ? letters != ndim : letters > ndim) {
    runtime_error("einsum(): the number of subscripts in the equation (", letters,
                  dots == std::string::npos ? ") does not match the number of dimensions ("
                                            : ") is more than the number of dimensions (",
                  ndim, ") for operand ", operand,
                  dots == std::string::npos ? " and no ellipsis was given" : "");
  }
  if (dots == std::string::npos) return term;
  std::string out = term.substr(0, dots);
  for (int k = ndim - letters; k-- > 0;) out += ellipsis_label(k);
  return out + term.substr(dots + 1);
}

// A label that is repeated within one term stands for the diagonal.
Labelled with_diagonals(Labelled a, size_t operand) {
  for (size_t i = 0; i < a.labels.size();) {
    const char l = a.labels[i];
    const size_t again = a.labels.find(l, i + 1);
    if (again == std::string::npos) {
      ++i;
      continue;
    }
    const int p = static_cast<int>(i), q = static_cast<int>(again);
    if (a.t.size(p) != a.t.size(q)) {
      runtime_error("einsum(): subscript ", l, " is repeated for operand ", operand,
                    " but the sizes don't match, ", a.t.size(q), " != ", a.t.size(p));
    }
    a.t = op<"diagonal">(a.t, 0, p, q);
    a.labels.erase(again, 1);
    a.labels.erase(i, 1);
    a.labels += l;
  }
  return a;
}

// Every label's length, which operands must agree on unless they have length one.
void check_sizes(const std::vector<Labelled>& terms) {
  int64_t seen[256];
  std::fill_n(seen, 256, int64_t{1});
  for (size_t k = 0; k < terms.size(); ++k) {
    for (size_t i = 0; i < terms[k].labels.size(); ++i) {
      const char l = terms[k].labels[i];
      if (terms[k].labels.find(l) < i) continue;  // with_diagonals compares it with the first
      const int64_t n = terms[k].t.size(static_cast<int>(i));
      int64_t& s = seen[static_cast<unsigned char>(l)];
      if (n != s && n != 1 && s != 1) {
        runtime_error("einsum(): operands do not broadcast with remapped shapes: subscript ",
                      is_letter(l) ? std::string(1, l) : "...", " has size ", n, " for operand ", k,
                      " which does not broadcast with previously seen size ", s);
      }
      if (n != 1) s = n;
    }
  }
}

// Without "->": the ellipsis, then every letter that occurs once, in alphabetical order.
std::string implicit_output(const std::vector<Labelled>& terms, const std::string& dots) {
  int count[256] = {};
  for (const Labelled& t : terms) {
    for (char l : t.labels) ++count[static_cast<unsigned char>(l)];
  }
  std::string out = dots;
  for (int l = 0; l < kEllipsis; ++l) {
    if (count[l] == 1) out += static_cast<char>(l);
  }
  return out;
}

Value einsum(Call& c) {
  const Tensors& operands = c.tensors(1);
  if (operands.empty()) runtime_error("einsum(): must provide at least one operand");
  Equation e = parse(c[0].str());
  if (e.terms.size() != operands.size()) {
    runtime_error("einsum(): ", e.terms.size() < operands.size() ? "more" : "fewer",
                  " operands were provided (", operands.size(),
                  ") than specified in the equation (", e.terms.size(), ")");
  }
  std::vector<Labelled> terms(operands.size());
  int most = 0;  // axes of the longest ellipsis
  for (size_t k = 0; k < operands.size(); ++k) {
    std::string labels = fit(e.terms[k], operands[k], k);
    if (e.terms[k].find(kDots) != std::string::npos)
      most = std::max(most, static_cast<int>(labels.size() - e.terms[k].size()) + 1);
    terms[k] = {operands[k], labels};
  }
  std::string dots;
  for (int k = most; k-- > 0;) dots += ellipsis_label(k);
  std::string output;
  if (!e.explicit_output) {
    output = implicit_output(terms, dots);
  } else {
    for (char l : e.output) {
      if (l == kDots) {
        output += dots;
        continue;
      }
      bool found = false;
      for (const Labelled& t : terms) found |= t.has(l);
      if (!found) {
        runtime_error("einsum(): output subscript ", l,
                      " does not appear in the equation for any input operand");
      }
      output += l;
    }
  }
  check_sizes(terms);
  for (size_t k = 0; k < terms.size(); ++k) terms[k] = with_diagonals(std::move(terms[k]), k);
  Labelled result = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) {
    std::string wanted = output;
    for (size_t later = k + 1; later < terms.size(); ++later) wanted += terms[later].labels;
    result = contract(result, terms[k], wanted);
  }
  result = summed_to(result, output);
  Tensor out = arranged(result, output);
  // A single operand may have come through untouched; the result is a tensor of its own.
  return out.is(operands[0]) ? op<"alias">(out) : Value(out);
}

}  // namespace

static const Op& einsum_ = def("_einsum(equation: str, operands: Tensor[])",
                               "Sums of products of the operands' elements, as the equation says.")
                               .forward(einsum)
                               .function_only()
                               .no_out()
                               .autocast(Autocast::Inside);

}  // namespace adjoint
