// What a sparse tensor tells of its parts: indices, values, counts of axes and entries. Read next:
// tensor/sparse.h; python/adjoint/_tensor/sparse.py makes sparse tensors and converts them.
#include "bindings/python.h"

namespace adjoint {
namespace {

Tensor self_of(PyObject* o) { return Tensor::borrow(as_tensor(o)); }

std::string layout_name(const Tensor& t) {
  return is_sparse(t) ? name_of(parts_of(t).layout) : "strided";
}
bool is_compressed(const Tensor& t) { return is_sparse(t) && parts_of(t).layout != Layout::Coo; }

// The parts, of a tensor in one of the layouts that have what is asked for.
const SparseParts& require(const Tensor& t, const char* what, bool fits, const char* expected) {
  if (!fits) runtime_error(what, " expected ", expected, " tensor layout but got ", layout_name(t));
  return parts_of(t);
}
const SparseParts& require_coo(const Tensor& t, const char* what) {
  return require(t, what, is_sparse(t) && !is_compressed(t), "sparse coordinate");
}
void require_coalesced(const SparseParts& p, const char* what) {
  if (p.coalesced) return;
  runtime_error("Cannot get ", what, " on an uncoalesced tensor, please call .coalesce() first");
}
// A second header: the memory is read-only, and the tensor's own.
PyObject* shown(const Tensor& part) { return to_python(alias(part)); }

PyObject* get_is_sparse(PyObject* o, void*) {
  return PyBool_FromLong(is_sparse(as_tensor(o)) && !is_compressed(self_of(o)));
}
PyObject* get_is_csr(PyObject* o, void*) {
  return PyBool_FromLong(is_sparse(as_tensor(o)) && parts_of(self_of(o)).layout == Layout::Csr);
}
PyObject* get_layout_name(PyObject* o, void*) {
  return PyUnicode_FromString(layout_name(self_of(o)).c_str());
}

PyObject* nnz(PyObject* o, PyObject*) {
  return guard([&] {
    Tensor t = self_of(o);
    return PyLong_FromLongLong(require(t, "_nnz", is_sparse(t), "sparse").entries());
  });
}
PyObject* sparse_dim(PyObject* o, PyObject*) {
  Tensor t = self_of(o);
  return PyLong_FromLong(is_sparse(t) ? parts_of(t).sparse_axes() : 0);
}
PyObject* dense_dim(PyObject* o, PyObject*) {
  Tensor t = self_of(o);
  return PyLong_FromLong(is_sparse(t) ? parts_of(t).dense_axes() : t.ndim());
}
PyObject* is_coalesced(PyObject* o, PyObject*) {
  return guard([&] { return PyBool_FromLong(require_coo(self_of(o), "is_coalesced").coalesced); });
}

PyObject* raw_indices(PyObject* o, PyObject*) {
  return guard([&] { return shown(require_coo(self_of(o), "_indices").indices); });
}
PyObject* indices(PyObject* o, PyObject*) {
  return guard([&] {
    Tensor t = self_of(o);
    const SparseParts& p = require_coo(t, "indices");
    require_coalesced(p, "indices");
    return shown(p.indices);
  });
}
PyObject* raw_values(PyObject* o, PyObject*) {
  return guard([&] {
    Tensor t = self_of(o);
    return shown(require(t, "_values", is_sparse(t), "sparse").values);
  });
}
PyObject* values(PyObject* o, PyObject*) {
  return guard([&] {
    Tensor t = self_of(o);
    require_coalesced(require(t, "values", is_sparse(t), "sparse"), "values");
    return to_python(op<"_sparse_entries">(t));
  });
}

template <Layout Wanted, bool Start>
PyObject* compressed_part(PyObject* o, PyObject*) {
  return guard([&] {
    constexpr bool by_row = Wanted == Layout::Csr;
    const char* what = Start ? (by_row ? "crow_indices" : "ccol_indices")
                             : (by_row ? "col_indices" : "row_indices");
    Tensor t = self_of(o);
    const SparseParts& p = require(t, what, is_sparse(t) && parts_of(t).layout == Wanted,
                                   by_row ? "sparse row compressed" : "sparse column compressed");
    return shown(Start ? p.indices : p.plain);
  });
}

PyGetSetDef attributes[] = {
    {"is_sparse", get_is_sparse, nullptr, "Whether the layout is sparse_coo.", nullptr},
    {"is_sparse_csr", get_is_csr, nullptr, "Whether the layout is sparse_csr.", nullptr},
    {"_layout_name", get_layout_name, nullptr, nullptr, nullptr},
    {nullptr}};

PyMethodDef methods[] = {
    {"_nnz", nnz, METH_NOARGS, "How many entries a sparse tensor has."},
    {"sparse_dim", sparse_dim, METH_NOARGS, "How many axes indices speak of; 0 if not sparse."},
    {"dense_dim", dense_dim, METH_NOARGS, "How many axes each entry has."},
    {"is_coalesced", is_coalesced, METH_NOARGS,
     "Whether entries are in order and no place has two."},
    {"_indices", raw_indices, METH_NOARGS, "The indices, coalesced or not."},
    {"indices", indices, METH_NOARGS, "The indices of a coalesced tensor, a row for each axis."},
    {"_values", raw_values, METH_NOARGS, "The values without history, coalesced or not."},
    {"values", values, METH_NOARGS, "The values of a coalesced tensor, with their history."},
    {"crow_indices", compressed_part<Layout::Csr, true>, METH_NOARGS,
     "Where each row of a CSR matrix starts."},
    {"col_indices", compressed_part<Layout::Csr, false>, METH_NOARGS,
     "The column of each entry of a CSR matrix."},
    {"ccol_indices", compressed_part<Layout::Csc, true>, METH_NOARGS,
     "Where each column of a CSC matrix starts."},
    {"row_indices", compressed_part<Layout::Csc, false>, METH_NOARGS,
     "The row of each entry of a CSC matrix."},
    {nullptr}};

}  // namespace

void add_sparse_attributes() { extend_tensor_type(methods, attributes); }

}  // namespace adjoint
