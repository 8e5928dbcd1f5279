// Forward mode through custom functions: from tangents of inputs to tangents of outputs by the
// user's jvp, level by level. Read function_node.h and transforms/dual.cpp first.
#include "bindings/function/function_node.h"
#include "dispatch/program_recorder.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

Tensor tensor_at(PyObject* o) { return is_tensor(o) ? Tensor::borrow(as_tensor(o)) : Tensor(); }

// What jvp gets for an input: zeros where there is no tangent, None for what can have none.
Object incoming(FunctionNode* n, PyObject* input, Level level) {
  Tensor x = tensor_at(input);
  if (!x || !is_differentiable(x.dtype())) return Object::borrow(Py_None);
  Tensor t = tangent_of(x, level);
  if (!t && !n->keep_undefined) t = fresh_zeros(x.shape(), x.dtype());
  return checked(to_python(t));
}

Object call_jvp(FunctionNode* n, PyObject* const* tangents) {
  Object jvp = checked(PyObject_GetAttrString(forward_class(n), "jvp"));
  if (!n->in_structure) {
    std::vector<PyObject*> args{as_object(n)};
    args.insert(args.end(), tangents, tangents + n->input_count);
    return checked(PyObject_Vectorcall(jvp.get(), args.data(), args.size(), nullptr));
  }
  Object flat = checked(PyTuple_New(n->input_count));
  for (uint32_t i = 0; i < n->input_count; ++i) {
    Py_INCREF(tangents[i]);
    PyTuple_SET_ITEM(flat.get(), i, tangents[i]);
  }
  Object given =
      checked(PyObject_CallMethod(n->in_structure, "arguments", "OO", as_object(n), flat.get()));
  return checked(PyObject_Call(jvp.get(), given.get(), nullptr));
}

// What jvp returned, one per output.
Object flat_results(FunctionNode* n, Object raw, bool is_tuple) {
  if (n->out_structure) {
    raw =
        checked(PyObject_CallMethod(n->out_structure, "tangents", "(OO)", as_object(n), raw.get()));
  } else if (!is_tuple || !PyTuple_Check(raw.get())) {
    raw = checked(PyTuple_Pack(1, raw.get()));
  }
  if (PyTuple_GET_SIZE(raw.get()) != n->output_count) {
    runtime_error(function_name(n), ".jvp must return one tangent per output of forward (",
                  n->output_count, "), but got ", PyTuple_GET_SIZE(raw.get()));
  }
  return raw;
}

[[noreturn]] void not_a_view(FunctionNode* n, const char* what) {
  runtime_error(
      "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
      "returning a view",
      what, " (", function_name(n),
      "). Since base and view share memory, so must their tangents: use the view op of forward on "
      "the tangent, x_t.view_as(x_t) for an input returned as it came");
}

struct Given {
  Tensor input, tangent;
  uint32_t version = 0;
};

// The tangent of a view of an input must be the same view of the input's tangent.
void check_view(FunctionNode* n, const Tensor& out, const Tensor& tangent,
                const std::vector<Given>& in) {
  for (const Given& g : in) {
    if (!g.tangent || g.input->storage != out->storage) continue;
    if (!tangent.is_view()) not_a_view(n, "");
    TensorObject* base = g.tangent->base ? g.tangent->base : g.tangent.get();
    if (tangent->base == base) return;
    not_a_view(n, g.input.is_view() ? " of the same base" : " of the given forward mode gradient");
  }
}

void take(FunctionNode* n, int k, const Tensor& out, PyObject* result, const std::vector<Given>& in,
          Level level) {
  if (result != Py_None && !is_tensor(result)) {
    type_error(function_name(n), ".jvp: expected a Tensor or None for output ", k, ", got ",
               Py_TYPE(result)->tp_name);
  }
  Tensor tangent = tensor_at(result);
  bool differentiable = out && n->outputs()[k] != kPlainOutput && is_differentiable(out.dtype()) &&
                        n->outputs()[k] != kMarkedOutput;
  if (!differentiable) {
    if (!tangent) return;
    runtime_error(
        function_name(n), ".jvp returned a tangent for output ", k,
        ", which is not differentiable. You should return None at that position instead.");
  }
  for (const Given& g : in) {
    if (!g.input.is(out)) continue;  // changed in place: its tangent must have been, too
    if (!g.tangent || (tangent.is(g.tangent) && tangent.version() != g.version)) return;
    runtime_error(
        "An inplace custom Function is not modifying the forward mode gradients inplace: if "
        "forward "
        "changes an input in place, the jvp function must modify the corresponding gradient "
        "inplace "
        "and return it (",
        function_name(n), ", output ", k, ")");
  }
  if (!tangent) return;
  if (!(tangent.shape() == out.shape())) {
    runtime_error(function_name(n), ".jvp returned a tangent of shape ", tangent.shape(),
                  " for output ", k, ", which has shape ", out.shape());
  }
  if (out.is_view()) check_view(n, out, tangent, in);
  set_tangent(out, level, fit_tangent(std::move(tangent), out));
}

}  // namespace

bool any_tangents(PyObject* const* inputs, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (is_tensor(inputs[i]) && may_have_tangent(as_tensor(inputs[i])) &&
        tangent_levels(Tensor::borrow(as_tensor(inputs[i]))))
      return true;
  }
  return false;
}

void run_jvp(FunctionNode* n, PyObject* const* inputs, PyObject* const* outputs, bool is_tuple) {
  uint64_t levels = 0;
  for (uint32_t i = 0; i < n->input_count; ++i) {
    if (is_tensor(inputs[i])) levels |= tangent_levels(Tensor::borrow(as_tensor(inputs[i])));
  }
  for (size_t at = 0; at < t_levels.size() && levels >> at; ++at) {
    if (!(levels >> at & 1)) continue;
    Level level = t_levels[at].level;
    std::vector<Object> held;
    std::vector<PyObject*> tangents;
    std::vector<Given> given;
    for (uint32_t i = 0; i < n->input_count; ++i) {
      held.push_back(incoming(n, inputs[i], level));
      tangents.push_back(held.back().get());
      Tensor x = tensor_at(inputs[i]), t = x ? tangent_of(x, level) : Tensor();
      if (x) given.push_back({x, t, t ? t.version() : 0});
    }
    Object results;
    {
      TangentLimit limit(level);
      struct Jvp {
        FunctionNode* n;
        ~Jvp() { n->in_jvp = false; }
      } jvp{n};
      n->in_jvp = true;
      results = flat_results(n, call_jvp(n, tangents.data()), is_tuple);
    }
    for (int k = 0; k < n->output_count; ++k)
      take(n, k, tensor_at(outputs[k]), PyTuple_GET_ITEM(results.get(), k), given, level);
  }
}

}  // namespace adjoint
