// The class of the classes Tensor and Size: how they are shown, and which names they list.
//
// A program in which `torch` is adjoint prints <class 'torch.Tensor'>, as it does on PyTorch. Only
// what is printed differs: `__module__` stays, since pickles and the compiler go by it.
#include "bindings/tensor/tensor_class.h"

#include <string>

namespace adjoint {
namespace {

PyTypeObject class_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
bool answers_as_torch = false;

PyObject* repr(PyObject* self) {
  return guard([&]() -> PyObject* {
    Object shown = checked(PyType_Type.tp_repr(self));
    const std::string ours = "<class 'adjoint.", text = PyUnicode_AsUTF8(shown.get());
    if (!answers_as_torch || text.rfind(ours, 0) != 0) return shown.release();
    return PyUnicode_FromString(("<class 'torch." + text.substr(ours.size())).c_str());
  });
}

// Without the names of PyTorch's that only say that they are not there.
PyObject* dir(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Object all = checked(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__dir__", "O", self));
    Object names = checked(PySequence_List(all.get()));
    Object found = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
      PyObject* name = PyList_GET_ITEM(names.get(), i);
      if (PyObject_HasAttr(self, name)) checked(PyList_Append(found.get(), name));
    }
    return found.release();
  });
}

PyObject* answer(PyObject*, PyObject* on) {
  answers_as_torch = on == Py_True;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"__dir__", dir, METH_NOARGS, "The names that there are."}, {nullptr}};
PyMethodDef functions[] = {{"_answer_as_torch", answer, METH_O,
                            "_answer_as_torch(on): show classes of tensors under the name torch."},
                           {nullptr}};

void ready() {
  if (class_type.tp_name) return;
  class_type.tp_name = "adjoint._core._TensorMeta";
  class_type.tp_base = &PyType_Type;
  class_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  class_type.tp_repr = repr;
  class_type.tp_methods = methods;
  class_type.tp_doc = "The class of Tensor and of its subclasses.";
  checked(PyType_Ready(&class_type));
}

}  // namespace

void show_as_torchs(PyTypeObject& type) {
  ready();
  Py_SET_TYPE(&type, &class_type);
}

void add_tensor_class(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
