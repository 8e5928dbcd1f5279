// Colourings of sparsity patterns for Python, on arrays of int64. Read kernels/colouring.h.
#include "kernels/colouring.h"

#include "bindings/python.h"

namespace adjoint {

void add_colouring(PyObject* module);

namespace {

using colouring::Lines;

// int64 numbers in an object with the buffer protocol.
class Numbers {
 public:
  Numbers(PyObject* o, const char* what, bool writable = false) {
    checked(PyObject_GetBuffer(o, &view_, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)));
    if (view_.itemsize == sizeof(int64_t)) return;
    PyBuffer_Release(&view_);
    type_error("colouring: ", what, " must hold int64 numbers");
  }
  ~Numbers() { PyBuffer_Release(&view_); }
  Numbers(const Numbers&) = delete;

  int64_t* data() const { return static_cast<int64_t*>(view_.buf); }
  int64_t size() const { return static_cast<int64_t>(view_.len / sizeof(int64_t)); }

 private:
  Py_buffer view_;
};

// Entries that lie outside the matrix would be read from anywhere.
Lines lines_of(const Numbers& start, const Numbers& index, int64_t across) {
  if (start.size() < 1) value_error("colouring: no starts");
  Lines lines{start.size() - 1, start.data(), index.data()};
  bool fine = lines.start[0] == 0 && lines.start[lines.count] == index.size();
  for (int64_t i = 0; i < lines.count; ++i) fine &= lines.start[i] <= lines.start[i + 1];
  for (int64_t k = 0; k < index.size(); ++k)
    fine &= index.data()[k] >= 0 && index.data()[k] < across;
  if (!fine) value_error("colouring: entries outside a matrix with ", across, " columns");
  return lines;
}

void check_order(const Numbers& order, const Numbers& colours, int64_t count) {
  bool fine = order.size() == count && colours.size() == count;
  for (int64_t k = 0; fine && k < count; ++k)
    fine = order.data()[k] >= 0 && order.data()[k] < count;
  if (!fine) value_error("colouring: expected an order of ", count, " columns");
}

// _colour_columns(row_start, row_index, order, colours) -> count
PyObject* colour_columns(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *rs, *ri, *o, *out;
    if (!PyArg_ParseTuple(args, "OOOO:_colour_columns", &rs, &ri, &o, &out)) throw PythonError{};
    Numbers row_start(rs, "row starts"), row_index(ri, "columns"), order(o, "the order"),
        colours(out, "colours", true);
    Lines rows = lines_of(row_start, row_index, order.size());
    check_order(order, colours, order.size());
    int64_t n = colouring::colour_columns(rows, order.size(), order.data(), colours.data());
    return PyLong_FromLongLong(n);
  });
}

// _colour_symmetric(row_start, row_index, order, colours) -> count
PyObject* colour_symmetric(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *rs, *ri, *o, *out;
    if (!PyArg_ParseTuple(args, "OOOO:_colour_symmetric", &rs, &ri, &o, &out)) throw PythonError{};
    Numbers row_start(rs, "row starts"), row_index(ri, "columns"), order(o, "the order"),
        colours(out, "colours", true);
    Lines rows = lines_of(row_start, row_index, row_start.size() - 1);
    check_order(order, colours, rows.count);
    return PyLong_FromLongLong(colouring::colour_symmetric(rows, order.data(), colours.data()));
  });
}

PyMethodDef functions[] = {
    {"_colour_columns", colour_columns, METH_VARARGS, "Colours of columns that share no row."},
    {"_colour_symmetric", colour_symmetric, METH_VARARGS, "A star colouring."},
    {nullptr}};

}  // namespace

void add_colouring(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
