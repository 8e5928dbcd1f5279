// Switches and figures: default dtype, threads, memory, the op table.
#include "bindings/python.h"
#include "kernels/products/blas.h"
#include "parallel/pool.h"
#include "tensor/allocator.h"
#include "tensor/keeper.h"
#include "transforms/batch_rules.h"

#include <chrono>

namespace adjoint {
namespace {

PyObject* get_default_dtype(PyObject*, PyObject*) {
  PyObject* d = dtype_object(default_dtype());
  Py_INCREF(d);
  return d;
}
PyObject* set_default_dtype_(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    DType d;
    if (!parse_dtype(o, &d))
      type_error(
          "invalid dtype object: only floating-point types are supported as the default type");
    if (!is_floating(d))
      type_error("only floating-point types are supported as the default type, not ", d);
    set_default_dtype(d);
    Py_RETURN_NONE;
  });
}
PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(parallel::get_num_threads()); }
PyObject* set_threads(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    int64_t n;
    if (!parse_int(o, &n))
      runtime_error("set_num_threads expects an int, but got ", Py_TYPE(o)->tp_name);
    if (n < 1 || n > 1024)
      runtime_error("set_num_threads expects a positive number of threads up to 1024, but got ", n);
    parallel::set_num_threads(static_cast<int>(n));
    Py_RETURN_NONE;
  });
}
PyObject* set_package_folder(PyObject*, PyObject* o) {
  const char* s = PyUnicode_AsUTF8(o);
  if (!s) return nullptr;
  SourceLine::set_package_folder(s);
  Py_RETURN_NONE;
}

Object strings(const std::vector<std::string>& v) {
  Object l = checked(PyList_New(0));
  for (auto& s : v) checked(PyList_Append(l.get(), checked(PyUnicode_FromString(s.c_str())).get()));
  return l;
}

// The factors of an op that multiplies two of its arguments, by name, and the place of what it adds.
Object product_row(const Op& op) {
  const ProductForm& p = op.facts.product;
  if (p.form == Product::None) return Object::borrow(Py_None);
  static constexpr const char* kForms[] = {"",        "matrices",   "batches", "matrix vector",
                                           "vectors", "transposed", "outer",   "by axes"};
  auto factor = [&](int i) { return op.schema.arguments[p.first + i].name.c_str(); };
  return checked(Py_BuildValue("{s:s,s:i,s:(ss),s:i}", "form", kForms[static_cast<int>(p.form)],
                               "first", p.first, "factors", factor(0), factor(1), "added",
                               p.added));
}

// What the block says of the op besides its values and derivatives (dispatch/facts.h), as far as Python asks.
void add_facts(PyObject* row, const Op& op) {
  const Facts& f = op.facts;
  auto b = [](bool v) { return v ? Py_True : Py_False; };
  Object facts =
      checked(Py_BuildValue("{s:s,s:s,s:s,s:O,s:O,s:O,s:z}", "autocast", to_string(f.autocast),
                            "batch", batch::kind_of(op.batch), "depends", to_string(f.depends),
                            "draws", b(f.draws != Draws::Nothing), "multiplies",
                            b(op.is_product || f.product.form != Product::None), "product",
                            product_row(op).get(), "zero_text", f.zero_text));
  checked(PyDict_Update(row, facts.get()));
}

PyObject* op_table(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object list = checked(PyList_New(0));
    for (const Op* op : all_ops()) {
      Object arguments = checked(PyList_New(0));
      for (const Argument& a : op->schema.arguments) {
        Object others = strings(a.other_names);
        Object row = checked(Py_BuildValue(
            "{s:s,s:O,s:s,s:O,s:s}", "name", a.name.c_str(), "other_names", others.get(), "type",
            a.type_text.c_str(), "keyword_only", a.keyword_only ? Py_True : Py_False, "default",
            a.has_default ? a.default_text.c_str() : nullptr));
        checked(PyList_Append(arguments.get(), row.get()));
      }
      Object aliases = strings(op->aliases), fields = strings(op->result_fields);
      auto b = [](bool v) { return v ? Py_True : Py_False; };
      Object row = checked(Py_BuildValue(
          "{s:s,s:s,s:s,s:s,s:s,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O}", "name",
          op->name.c_str(), "full_name", op->full_name.c_str(), "signature",
          python_signature(op->schema).c_str(), "doc", op->doc.c_str(), "family",
          op->family.c_str(), "arguments", arguments.get(), "aliases", aliases.get(), "results",
          fields.get(), "function", b(op->as_function), "method", b(op->as_method), "inplace",
          b(op->has_inplace), "out", b(op->has_out), "view", b(op->is_view), "elementwise",
          b(op->is_elementwise), "pointwise", b(op->is_elementwise || op->is_partial), "linear",
          b(op->is_linear), "differentiable", b(op->differentiable()), "forward_mode",
          b(!op->differentiable() || op->tangent || op->is_linear || op->is_partial)));
      add_facts(row.get(), *op);
      checked(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}

PyObject* op_names(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    Object set = checked(PySet_New(nullptr));
    for (const Op* op : all_ops()) {
      if ((!op->as_function && !op->as_method) || op->name[0] == '_') continue;
      checked(PySet_Add(set.get(), checked(PyUnicode_FromString(op->name.c_str())).get()));
    }
    return checked(PySequence_List(set.get())).release();
  });
}

PyObject* memory_stats(PyObject*, PyObject*) {
  memory::Stats s = memory::stats();
  return Py_BuildValue(
      "{s:n,s:n,s:n,s:n,s:n}", "allocated_bytes", static_cast<Py_ssize_t>(s.allocated),
      "object_bytes", static_cast<Py_ssize_t>(memory::Keeper::all_reserved()), "reserved_bytes",
      static_cast<Py_ssize_t>(s.reserved), "cached_bytes", static_cast<Py_ssize_t>(s.cached),
      "peak_bytes", static_cast<Py_ssize_t>(s.peak));
}
PyObject* memory_release(PyObject*, PyObject*) {
  memory::release_cached();
  Py_RETURN_NONE;
}
// Methods of Tensor that are written in Python: what runs once per call of a user's function.
PyObject* extend_tensor(PyObject*, PyObject* methods) {
  if (!PyDict_Check(methods)) {
    PyErr_SetString(PyExc_TypeError, "expected a dict");
    return nullptr;
  }
  if (PyDict_Update(tensor_type->tp_dict, methods) < 0) return nullptr;
  PyType_Modified(tensor_type);
  Py_RETURN_NONE;
}
PyObject* isa(PyObject*, PyObject*) { return PyUnicode_FromString(isa_name(active_isa())); }

// Who compiled this and how, and the words in which OpenBLAS describes itself.
PyObject* build_info(PyObject*, PyObject*) {
#if defined(ADJOINT_PLAIN_MALLOC)
  const char* kind = "sanitized";
#elif defined(NDEBUG)
  const char* kind = "release";
#else
  const char* kind = "debug";
#endif
#if defined(__clang__)
  const char* compiler = "clang " __clang_version__;
#else
  const char* compiler = "GCC " __VERSION__;
#endif
  return Py_BuildValue("{s:s,s:s,s:s}", "compiler", compiler, "kind", kind, "blas",
                       scipy_openblas_get_config());
}

// What finding and letting go of the caller's line costs, per call: for the benchmarks.
PyObject* source_line_seconds(PyObject*, PyObject* count) {
  long n = PyLong_AsLong(count);
  if (n < 1) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the count must be positive");
    return nullptr;
  }
  auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < n; ++i) {
    SourceLine line = SourceLine::here();
    asm volatile("" : : "r"(&line) : "memory");  // the compiler must not leave it out
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return PyFloat_FromDouble(took.count() / static_cast<double>(n));
}

PyMethodDef functions[] = {
    {"_source_line_seconds", source_line_seconds, METH_O, "Seconds that one source line costs."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "The dtype of tensors made from Python floats."},
    {"set_default_dtype", set_default_dtype_, METH_O,
     "Sets the dtype of tensors made from Python floats."},
    {"get_num_threads", get_threads, METH_NOARGS, "How many threads kernels run on."},
    {"set_num_threads", set_threads, METH_O, "Sets how many threads kernels run on."},
    {"op_table", op_table, METH_NOARGS, "A dict per op: what its block says."},
    {"op_names", op_names, METH_NOARGS, "The public names of all ops."},
    {"memory_stats", memory_stats, METH_NOARGS, "Bytes in use, reserved, cached and at the peak."},
    {"release_memory", memory_release, METH_NOARGS, "Gives cached memory back to the system."},
    {"instruction_set", isa, METH_NOARGS, "The instruction set the kernels were chosen for."},
    {"_build_info", build_info, METH_NOARGS, "A dict: compiler, kind of build, BLAS."},
    {"_extend_tensor", extend_tensor, METH_O, "Adds attributes to the Tensor type."},
    {"_set_package_folder", set_package_folder, METH_O,
     "Lines of files below this folder are not the user's."},
    {nullptr}};

}  // namespace

void add_settings(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
