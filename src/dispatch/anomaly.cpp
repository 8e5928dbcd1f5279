// Finding and describing the first bad value. Read anomaly.h first.
// Under vmap all samples are looked at, in the batch that a tensor is a sample of.
#include "dispatch/anomaly.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "dispatch/transformed_calls.h"
#include "tensor/sparse.h"

namespace adjoint {

thread_local Anomaly t_anomaly;
AnomalyHooks anomaly_hooks;

namespace {

thread_local int t_depth = 0;               // ops under way, one inside the other
thread_local Node* t_evaluating = nullptr;  // the node whose backward is under way

template <class T>
bool scan(const T* p, int64_t n, bool nan, bool inf) {
  for (int64_t i = 0; i < n; ++i) {
    if ((nan && std::isnan(p[i])) || (inf && std::isinf(p[i]))) return true;
  }
  return false;
}

// What there is to look at: all samples of a batch, the entries of a sparse tensor.
Tensor seen(const Tensor& given) {
  Tensor t = innermost(given);
  return is_sparse(t) ? parts_of(t).values : t;
}

// Elements as doubles; the modulus of complex ones.
std::vector<double> elements(const Tensor& given) {
  Tensor t = seen(given);
  if (is_complex(t.dtype())) {
    Tensor z = contiguous(cast(t, DType::Complex128));
    std::vector<double> out(static_cast<size_t>(z.numel()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::abs(z.data<complex128_t>()[i]);
    return out;
  }
  Tensor d = contiguous(cast(t, DType::Float64));
  return {d.data<double>(), d.data<double>() + d.numel()};
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

// "float32 [3]: min -1, max 2, 0 nan, 0 inf, 1 zero"
std::string statistics(const Tensor& given) {
  Tensor t = seen(given);
  std::string out = text(t.dtype(), " ", t.shape(), is_batched(given) ? " (all samples)" : "");
  int64_t nan = 0, inf = 0, zero = 0;
  double least = INFINITY, most = -INFINITY;
  for (double x : elements(t)) {
    nan += std::isnan(x);
    inf += std::isinf(x);
    zero += x == 0;
    if (std::isnan(x)) continue;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  if (t.numel() == 0) return out + ": no elements";
  const char* what = is_complex(t.dtype()) ? "|.| " : "";
  if (nan < t.numel())
    out += text(": ", what, "min ", number(least), ", max ", number(most), ",");
  else
    out += ":";
  return out + text(" ", nan, " nan, ", inf, " inf, ", zero, " zero");
}

const char* what_of(const Tensor& t) { return holds(t, t_anomaly.nan, false) ? "nan" : "inf"; }
bool is_bad(const Tensor& t) { return holds(t, t_anomaly.nan, t_anomaly.inf); }

bool is_bad(const Value& v) {
  if (v.is_tensor()) return is_bad(v.tensor());
  if (v.is_tensors()) {
    for (const Tensor& t : v.tensors()) {
      if (t && is_bad(t)) return true;
    }
  }
  if (v.kind() != Value::Double && v.kind() != Value::Complex) return false;
  double x = v.real(), y = v.complex().imag();
  return (t_anomaly.nan && (std::isnan(x) || std::isnan(y))) ||
         (t_anomaly.inf && (std::isinf(x) || std::isinf(y)));
}

bool any_bad(const Op& op, const Value* args) {
  return std::any_of(args, args + op.argument_count, [](const Value& v) { return is_bad(v); });
}

std::string argument_line(const Op& op, int i, const Value& v) {
  std::string head = "\n  input `" + op.schema.arguments[i].name + "`   ";
  if (v.is_tensor()) return head + statistics(v.tensor());
  if (v.is_tensors()) {
    for (const Tensor& t : v.tensors()) {
      if (t) head += "\n      " + statistics(t);
    }
    return head;
  }
  if (v.is_scalar()) {
    return head + (v.kind() == Value::Complex ? text(v.complex()) : number(v.real()));
  }
  return "";
}

std::string produced(const std::string& name, const Tensor& out) {
  return text("Function '", name, "' produced ", what_of(out),
              " values in the forward pass, from inputs that had none.\n  line   ",
              SourceLine::here().describe(), "\n  result   ", statistics(out));
}

[[noreturn]] void fail_forward(const Op& op, const Value* args, const Tensor& out) {
  std::string message = produced(op.name, out);
  for (int i = 0; i < op.argument_count; ++i) {
    if (args[i].is_tensor() && args[i].object()->storage == out->storage) {
      message += "\n  input `" + op.schema.arguments[i].name + "`   overwritten by the result";
    } else {
      message += argument_line(op, i, args[i]);
    }
  }
  throw Error(ErrorClass::Runtime, message);
}

// Where the gradient that came in was zero: there strong_zeros gives zero.
std::string strong_zeros_line(const Node* n, const Tensor* grads, const Tensor& bad) {
  if (n->output_count != 1 || !grads[0]) return "";
  std::vector<double> g = elements(grads[0]), r = elements(bad);
  int64_t count = 0, zero = 0;
  bool same = g.size() == r.size();
  bool all = std::all_of(g.begin(), g.end(), [](double x) { return x == 0; });
  for (size_t i = 0; i < r.size(); ++i) {
    if (std::isfinite(r[i])) continue;
    ++count;
    zero += all || (same && n->op && n->op->is_partial && g[i] == 0);
  }
  if (zero == 0) return "";
  return text("\n  at ", zero, " of these ", count,
              " elements the gradient that arrived was 0, and was multiplied by an infinite or NaN "
              "partial derivative.\n  fix: run backward `with autograd.strong_zeros():`, which "
              "keeps such a zero; or keep the bad elements away from the op: "
              "op(where(mask, x, safe)) instead of where(mask, op(x), 0)");
}

std::string saved_lines(const Node* n) {
  std::string out;
  if (!n->op) return out;
  for (int i = 0; i < n->saved_count && i < n->op->argument_count; ++i) {
    const Value& v = n->saved[i].value;
    if (v.is_tensor() || v.is_tensors()) out += argument_line(*n->op, i, v);
  }
  if (n->output.value.is_tensor()) out += "\n  result   " + statistics(n->output.value.tensor());
  return out;
}

[[noreturn]] void fail_backward(const Node* n, const Tensor* grads, int i, const Tensor& bad) {
  std::string message =
      text("Function '", n->name, "' returned ", what_of(bad), " values in its ", i,
           "th output.\n  forward line   ", n->line.describe(), "\n  returned   ", statistics(bad));
  for (int k = 0; k < n->output_count; ++k) {
    if (grads[k]) message += "\n  gradient that arrived   " + statistics(grads[k]);
  }
  message += saved_lines(n) + strong_zeros_line(n, grads, bad);
  throw Error(ErrorClass::Runtime, message);
}

}  // namespace

bool holds(const Tensor& given, bool nan, bool inf) {
  Tensor t = seen(given);
  if (!is_differentiable(t.dtype()) || t.numel() == 0 || !(nan || inf)) return false;
  Tensor c = contiguous(is_half(t.dtype()) ? cast(t, DType::Float32) : t);
  int64_t n = c.numel() * (is_complex(c.dtype()) ? 2 : 1);
  if (real_dtype(c.dtype()) == DType::Float32) return scan(c.data<float>(), n, nan, inf);
  return scan(c.data<double>(), n, nan, inf);
}

OpAnomalyCheck::OpAnomalyCheck(const Op& op, const Value* args, bool overwrites)
    : op_(op), args_(args), overwrites_(overwrites) {
  looks_ = t_depth++ == 0 && t_anomaly.forward && t_anomaly.any() && !t_evaluating &&
           op.tensor_arguments && !op.facts.uninitialised;
  if (looks_ && overwrites) looks_ = !any_bad(op, args);
}

OpAnomalyCheck::~OpAnomalyCheck() { --t_depth; }

void OpAnomalyCheck::finished(const Value& out) {
  auto each = [&](auto&& f) {
    if (out.is_tensor()) f(out.tensor());
    if (!out.is_tensors()) return;
    for (const Tensor& t : out.tensors()) {
      if (t) f(t);
    }
  };
  each([](const Tensor& t) {
    if (t->grad_fn) note_created(t->grad_fn);
  });
  if (!looks_ || !is_bad(out) || (!overwrites_ && any_bad(op_, args_))) return;
  each([&](const Tensor& t) {
    if (is_bad(t)) fail_forward(op_, args_, t);
  });
}

NodeAnomalyScope::NodeAnomalyScope(Node* n) : before_(std::exchange(t_evaluating, n)) {}
NodeAnomalyScope::~NodeAnomalyScope() { t_evaluating = before_; }

void note_created(Node* n) { anomaly_hooks.created(n, t_evaluating == n ? nullptr : t_evaluating); }

void check_function(const std::string& name, const Tensors& given, const Tensors& made) {
  if (!t_anomaly.forward || t_evaluating || t_depth) return;
  auto bad = [](const Tensor& t) { return is_bad(t); };
  auto first = std::find_if(made.begin(), made.end(), bad);
  if (first == made.end() || std::any_of(given.begin(), given.end(), bad)) return;
  std::string message = produced(name, *first);
  for (const Tensor& t : given) message += "\n  input   " + statistics(t);
  throw Error(ErrorClass::Runtime, message);
}

void check_backward(Node* n, const Tensor* grads, const Tensor* results) {
  if (!t_anomaly.any()) return;
  for (int i = 0; i < n->edge_count; ++i) {
    if (n->edges[i].node && results[i] && is_bad(results[i]))
      fail_backward(n, grads, i, results[i]);
  }
}

}  // namespace adjoint
