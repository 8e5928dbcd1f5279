// Operators: x * y, 2 - x, x @ y, x < y, x += y.
#include "bindings/tensor/subclass.h"
#include "dispatch/direct.h"
#include "dispatch/program_recorder.h"
#include "transforms/batched.h"

namespace adjoint {

PyNumberMethods tensor_number_slots;

namespace {

// Each operator's op, found once at import.
enum Operator {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Rem,
  Pow,
  MatMul,
  And,
  Or,
  Xor,
  Shl,
  Shr,
  Neg,
  Abs,
  Invert,
  Lt,
  Le,
  Eq,
  Ne,
  Gt,
  Ge,
  Pos,
  kOperators
};
const char* const kOpNames[kOperators] = {"add",
                                          "sub",
                                          "mul",
                                          "div",
                                          "floor_divide",
                                          "remainder",
                                          "pow",
                                          "matmul",
                                          "bitwise_and",
                                          "bitwise_or",
                                          "bitwise_xor",
                                          "bitwise_left_shift",
                                          "bitwise_right_shift",
                                          "neg",
                                          "abs",
                                          "bitwise_not",
                                          "lt",
                                          "le",
                                          "eq",
                                          "ne",
                                          "gt",
                                          "ge",
                                          "positive"};
const Op* g_op[kOperators];

const Op& op_of(Operator o) {
  if (!g_op[o]) g_op[o] = &find_op(kOpNames[o]);
  return *g_op[o];
}

bool is_array(PyObject* o) { return std::strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0; }

bool parse_operand(PyObject* o, Value* v) {
  if (is_tensor(o)) return *v = Value(Tensor::borrow(as_tensor(o))), true;
  if (parse_operand_number(o, v)) return true;
  if (!is_array(o)) return false;
  refuse_recording("an array takes part; fix: make it a tensor before the call");
  return *v = Value(tensor_on_buffer(o)), true;  // an array counts as a tensor, as in PyTorch
}

// What classes that define __torch_function__ are told that an operator is: PyTorch's operators of
// this kind are methods of another name, which programs compare with.
struct Names {
  const char* plain;
  const char* swapped;
  const char* in_place;
};
constexpr Names kNamesTold[kOperators] = {{"add", "add", "add_"},
                                          {"sub", "__rsub__", "sub_"},
                                          {"mul", "mul", "mul_"},
                                          {"div", "__rtruediv__", "div_"},
                                          {"__floordiv__", "__rfloordiv__", "floor_divide_"},
                                          {"remainder", "__rmod__", "remainder_"},
                                          {"__pow__", "__rpow__", "__ipow__"},
                                          {"matmul", "__rmatmul__", "matmul"},
                                          {"__and__", "__rand__", "__iand__"},
                                          {"__or__", "__ror__", "__ior__"},
                                          {"__xor__", "__rxor__", "__ixor__"},
                                          {"__lshift__", "__rlshift__", "__ilshift__"},
                                          {"__rshift__", "__rrshift__", "__irshift__"},
                                          {"neg", nullptr, nullptr},
                                          {"abs", nullptr, nullptr},
                                          {"__invert__", nullptr, nullptr},
                                          {"lt", "gt", nullptr},
                                          {"le", "ge", nullptr},
                                          {"__eq__", "__eq__", nullptr},
                                          {"ne", "ne", nullptr},
                                          {"gt", "lt", nullptr},
                                          {"ge", "le", nullptr},
                                          {"positive", nullptr, nullptr}};

const char* const kSymbols[kOperators] = {"+", "-",  "*",  "/",  "//", "%",  "**",  "@",
                                          "&", "|",  "^",  "<<", ">>", "-",  "abs", "~",
                                          "<", "<=", "==", "!=", ">",  ">=", "+"};

// An array on the left is NumPy's operator, whose result would be an array without a history: as in
// PyTorch, the user says which of the two is meant.
[[noreturn]] void refuse_array_on_the_left(Operator o) {
  type_error("unsupported operand type(s) for ", kSymbols[o],
             ": 'numpy.ndarray' and 'Tensor' (an array on the left of a tensor). fix: "
             "adjoint.from_numpy(array) ",
             kSymbols[o], " tensor, or array ", kSymbols[o],
             " tensor.detach().numpy() for a result in NumPy");
}

// The operator by way of __torch_function__, if a class of an operand wants to be asked.
bool overridden(Operator o, const char* Names::* form, PyObject* a, PyObject* b,
                PyObject** result) {
  PyObject* pair[2] = {a, b};
  if (!any_overriding(pair, b ? 2 : 1)) return false;
  bool swap = !is_tensor(a);
  if (swap) std::swap(pair[0], pair[1]);
  const char* name = kNamesTold[o].*(swap ? &Names::swapped : form);
  Object method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  *result = call_overriding(method.get(), pair, b ? 2 : 1, nullptr);
  return true;
}

PyObject* release_python(Value v) {
  return v.is_tensor() ? reinterpret_cast<PyObject*>(v.release_object()) : to_python(v);
}

// The operands of an operator, without references of their own: the interpreter holds both until it
// returns.
struct Operands {
  Value args[3];

  bool parse(int i, PyObject* o) {
    if (Py_TYPE(o) != tensor_type) return parse_operand(o, &args[i]);
    lent[i] = true;
    args[i].lend(as_tensor(o));
    return true;
  }
  ~Operands() {
    for (int i = 0; i < 2; ++i) {
      if (lent[i]) args[i].forget();
    }
  }

 private:
  bool lent[2] = {false, false};
};

// See dispatch/direct.h: null where the general way is needed.
[[gnu::always_inline]] inline TensorObject* short_way(const Op& op, PyObject* a, PyObject* b) {
  if (op.operands != 2) return nullptr;
  if (is_tensor(a)) {
    if (is_tensor(b)) return direct_pair(op, as_tensor(a), as_tensor(b));
    if (PyFloat_CheckExact(b))
      return direct_number(op, as_tensor(a), Value(PyFloat_AS_DOUBLE(b)), 0);
  } else if (PyFloat_CheckExact(a)) {
    return direct_number(op, as_tensor(b), Value(PyFloat_AS_DOUBLE(a)), 1);
  }
  return nullptr;
}

// A sparse matrix of SciPy beside a tensor, as a sparse tensor; what is none is left alone.
bool parse_matrix(PyObject* o, PyObject* beside, Value* out) {
  if (is_tensor(o) || !is_tensor(beside) || !PyObject_HasAttrString(o, "tocsr")) return false;
  Object module = checked(PyImport_ImportModule("adjoint._tensor.scipy_matrices"));
  Object made = checked(PyObject_CallMethod(module.get(), "sparse_tensor_beside", "OO", o, beside));
  *out = Value(Tensor::borrow(as_tensor(made.get())));
  return true;
}

template <Operator O>
PyObject* binary(PyObject* a, PyObject* b) {
  return guard([&]() -> PyObject* {
    PyObject* result;
    if (g_subclasses && overridden(O, &Names::plain, a, b, &result)) return result;
    if (TensorObject* out = short_way(op_of(O), a, b)) return reinterpret_cast<PyObject*>(out);
    if (is_array(a)) refuse_array_on_the_left(O);
    Operands operands;
    auto parse = [&](int i, PyObject* o, PyObject* beside) {
      if (O == MatMul && parse_matrix(o, beside, &operands.args[i])) return true;
      return operands.parse(i, o);
    };
    if (!parse(0, a, b) || !parse(1, b, a)) Py_RETURN_NOTIMPLEMENTED;
    if (O == MatMul && !(operands.args[0].is_tensor() && operands.args[1].is_tensor()))
      Py_RETURN_NOTIMPLEMENTED;
    const Op& op = op_of(O);
    if (op.argument_count > 2) operands.args[2] = op.schema.arguments[2].default_value;
    return release_python(apply(op, operands.args));
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary<Pow>(a, b);
}

template <Operator O>
PyObject* inplace(PyObject* a, PyObject* b) {
  return guard([&]() -> PyObject* {
    PyObject* result;
    if (g_subclasses && overridden(O, &Names::in_place, a, b, &result)) return result;
    Value args[4];
    if (!parse_operand(a, &args[0]) || !parse_operand(b, &args[1])) Py_RETURN_NOTIMPLEMENTED;
    const Op& op = op_of(O);
    for (size_t i = 2; i < op.schema.arguments.size(); ++i)
      args[i] = op.schema.arguments[i].default_value;
    return to_python(apply_inplace(op, args));
  });
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace<Pow>(a, b); }

template <Operator O>
PyObject* unary(PyObject* a) {
  return guard([&]() -> PyObject* {
    PyObject* result;
    if (g_subclasses && overridden(O, &Names::plain, a, nullptr, &result)) return result;
    Value args[1] = {Value(Tensor::borrow(as_tensor(a)))};
    return to_python(apply(op_of(O), args));
  });
}

PyObject* one_item(PyObject* self, const char* what) {
  TensorObject* t = as_tensor(self);
  if (batch_of(t)) {
    return guard([&]() -> PyObject* {
      refuse_reading_batched(what[0] == 'B' ? "attempting data-dependent control flow on"
                                            : "calling .item() on");
    });
  }
  if (t->numel != 1) {
    if (what[0] == 'B') {
      PyErr_SetString(PyExc_RuntimeError,
                      t->numel == 0
                          ? "Boolean value of Tensor with no values is ambiguous"
                          : "Boolean value of Tensor with more than one value is ambiguous");
    } else {
      PyErr_Format(PyExc_ValueError,
                   "only one element tensors can be converted to Python scalars, but this one has "
                   "%lld elements",
                   static_cast<long long>(t->numel));
    }
    return nullptr;
  }
  refuse_recording(what[0] == 'B' ? "the value of a tensor decides what happens (if, while, and, "
                                    "or, assert); fix: keep it a tensor, use where() instead of if"
                                  : "a tensor is made into a number (float(), int(), an index); "
                                    "fix: go on with the tensor");
  if (is_sparse(t)) return guard([&]() -> PyObject* { refuse_sparse(t, "reading the value"); });
  return item_of(t->data, t->dtype);
}
int truth(PyObject* self) {
  Object o = Object::steal(one_item(self, "B"));
  return o ? PyObject_IsTrue(o.get()) : -1;
}
// The one element, a complex one without its imaginary part, which must be zero.
Object real_item(PyObject* self, const char* what) {
  Object o = Object::steal(one_item(self, what));
  if (!o || !PyComplex_Check(o.get())) return o;
  if (PyComplex_ImagAsDouble(o.get()) == 0)
    return Object::steal(PyFloat_FromDouble(PyComplex_RealAsDouble(o.get())));
  PyErr_Format(PyExc_RuntimeError,
               "value cannot be converted to type %s without overflow: it is complex",
               what[0] == 'I' ? "int64_t" : "double");
  return Object();
}
PyObject* to_float(PyObject* self) {
  Object o = real_item(self, "F");
  return o ? PyNumber_Float(o.get()) : nullptr;
}
PyObject* to_int(PyObject* self) {
  Object o = real_item(self, "I");
  return o ? PyNumber_Long(o.get()) : nullptr;
}
PyObject* to_index(PyObject* self) {
  TensorObject* t = as_tensor(self);
  if (t->numel != 1 || !is_integral(t->dtype)) {
    PyErr_SetString(PyExc_TypeError,
                    "only integer tensors of a single element can be converted to an index");
    return nullptr;
  }
  Object o = Object::steal(one_item(self, "I"));
  return o ? PyNumber_Long(o.get()) : nullptr;
}

}  // namespace

PyObject* compare_tensors(PyObject* a, PyObject* b, int how) {
  switch (how) {
    case Py_LT:
      return binary<Lt>(a, b);
    case Py_LE:
      return binary<Le>(a, b);
    case Py_GT:
      return binary<Gt>(a, b);
    case Py_GE:
      return binary<Ge>(a, b);
    case Py_EQ:
      return binary<Eq>(a, b);
    default:
      return binary<Ne>(a, b);
  }
}

void fill_number_slots() {
  PyNumberMethods& n = tensor_number_slots;
  n.nb_add = binary<Add>;
  n.nb_subtract = binary<Sub>;
  n.nb_multiply = binary<Mul>;
  n.nb_true_divide = binary<Div>;
  n.nb_floor_divide = binary<FloorDiv>;
  n.nb_remainder = binary<Rem>;
  n.nb_power = power;
  n.nb_matrix_multiply = binary<MatMul>;
  n.nb_and = binary<And>;
  n.nb_or = binary<Or>;
  n.nb_xor = binary<Xor>;
  n.nb_lshift = binary<Shl>;
  n.nb_rshift = binary<Shr>;
  n.nb_inplace_add = inplace<Add>;
  n.nb_inplace_subtract = inplace<Sub>;
  n.nb_inplace_multiply = inplace<Mul>;
  n.nb_inplace_true_divide = inplace<Div>;
  n.nb_inplace_floor_divide = inplace<FloorDiv>;
  n.nb_inplace_remainder = inplace<Rem>;
  n.nb_inplace_power = inplace_power;
  n.nb_inplace_and = inplace<And>;
  n.nb_inplace_or = inplace<Or>;
  n.nb_inplace_xor = inplace<Xor>;
  n.nb_inplace_lshift = inplace<Shl>;
  n.nb_inplace_rshift = inplace<Shr>;
  n.nb_negative = unary<Neg>;
  n.nb_positive = unary<Pos>;
  n.nb_absolute = unary<Abs>;
  n.nb_invert = unary<Invert>;
  n.nb_bool = truth;
  n.nb_float = to_float;
  n.nb_int = to_int;
  n.nb_index = to_index;
}

}  // namespace adjoint
