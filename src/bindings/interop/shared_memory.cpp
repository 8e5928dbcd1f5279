// Memory that several processes write: a storage on a mapped file without a name.
//
// share_memory_() moves a storage there, and every tensor on it: their headers hold addresses, so
// all of them must be known. The caller collects candidates from the garbage collector; unless they
// account for every reference to the storage (an array of NumPy's holds one too), nothing is moved.
// A process maps a file once, however often it receives it. What people use, and how a file gets
// into another process, is in python/adjoint/_sharing/memory.py.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_set>
#include <utility>

#include "bindings/python.h"
#include "dispatch/program_recorder.h"
#include "tensor/donated_arrays.h"

namespace adjoint {
namespace {

using Inode = std::pair<dev_t, ino_t>;

struct Mapped {
  void* data;
  size_t bytes;
  int fd;
  Inode inode;
};

// The storages on files that this process has mapped. Guarded by the GIL.
std::map<Inode, Storage*>& mapped_files() {
  static auto* files = new std::map<Inode, Storage*>;  // outlives the last tensor
  return *files;
}

void unmap(void* owner) {
  auto* m = static_cast<Mapped*>(owner);
  mapped_files().erase(m->inode);
  munmap(m->data, m->bytes);
  close(m->fd);
  delete m;
}

bool is_shared(const Storage* s) { return s->release == unmap; }

[[noreturn]] void os_error() {
  PyErr_SetFromErrno(PyExc_OSError);
  throw PythonError();
}

// A storage on a file, with one reference. The descriptor is taken over if this succeeds.
Storage* map_file(int fd, const Inode& inode, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) os_error();
  auto* m = new Mapped{data, bytes, fd, inode};
  Storage* s = foreign_storage(data, bytes, unmap, m);
  mapped_files()[inode] = s;
  return s;
}

struct stat status_of(int fd) {
  struct stat status;
  if (fstat(fd, &status) < 0) os_error();
  return status;
}

Tensor tensor_of(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, not ", Py_TYPE(o)->tp_name);
  return Tensor::borrow(as_tensor(o));
}

// A tensor and those among these objects, each once, that are on its storage.
std::unordered_set<TensorObject*> holders_of(TensorObject* t, PyObject* objects) {
  const Storage* s = t->storage;
  std::unordered_set<TensorObject*> found{t};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
    PyObject* o = PyList_GET_ITEM(objects, i);
    if (is_tensor(o) && as_tensor(o)->storage == s) found.insert(as_tensor(o));
  }
  return found;
}

// _share(tensor, objects, fd): move the tensor's storage to a file of its size, if the objects have
// all other tensors on it. Returns how many references remain unknown; 0 if it was moved.
PyObject* share(PyObject*, PyObject* args) {
  PyObject *o, *objects;
  int fd;
  if (!PyArg_ParseTuple(args, "OO!i", &o, &PyList_Type, &objects, &fd)) return nullptr;
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o);
    refuse_recording("memory is shared with other processes; fix: do that before the call");
    Storage* old = t->storage;
    if (is_shared(old) || old->bytes == 0) runtime_error("this memory is not to be moved");
    auto holders = holders_of(as_tensor(o), objects);
    auto unknown = old->references - static_cast<int64_t>(holders.size());
    if (unknown != 0) return PyLong_FromLongLong(unknown);
    struct stat status = status_of(fd);
    if (static_cast<size_t>(status.st_size) < old->bytes) runtime_error("the file is too small");
    Storage* made = map_file(fd, {status.st_dev, status.st_ino}, old->bytes);
    std::memcpy(made->data, old->data, old->bytes);
    made->version = old->version;
    made->born = old->born;
    made->changed = old->changed;
    for (TensorObject* holder : holders) {
      auto at = holder->data - static_cast<char*>(old->data);
      holder->data = static_cast<char*>(made->data) + at;
      holder->storage = made;
      retain(made);
      drop(old);
    }
    drop(made);
    return PyLong_FromLong(0);
  });
}

// _is_shared(tensor)
PyObject* is_shared_tensor(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o);
    return PyBool_FromLong(is_shared(t->storage));
  });
}

// _is_movable(tensor): whether the memory is adjoint's own, so that nobody else looks at it.
PyObject* is_movable(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o);
    return PyBool_FromLong(t->storage->own || is_adopted(t->storage));
  });
}

// _shared_file(tensor): the descriptor of the file, which stays the storage's.
PyObject* shared_file(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    Tensor t = tensor_of(o);
    if (!is_shared(t->storage)) runtime_error("the tensor is not in shared memory");
    return PyLong_FromLong(static_cast<Mapped*>(t->storage->owner)->fd);
  });
}

// _attach(fd, bytes): all of the memory of a file; the descriptor is taken over.
PyObject* attach(PyObject*, PyObject* args) {
  int fd;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "in", &fd, &bytes)) return nullptr;
  return guard([&]() -> PyObject* {
    refuse_recording("memory of another process is received; fix: do that before the call");
    struct stat status = status_of(fd);
    if (bytes <= 0 || status.st_size < bytes) {
      runtime_error("shared memory of ", status.st_size, " bytes was received, and ",
                    static_cast<int64_t>(bytes), " were sent");
    }
    Inode inode{status.st_dev, status.st_ino};
    auto known = mapped_files().find(inode);
    Storage* s;
    if (known != mapped_files().end()) {
      s = known->second;
      retain(s);
      close(fd);
    } else {
      s = map_file(fd, inode, bytes);
    }
    Tensor t = on_storage(s, Dims{static_cast<int64_t>(s->bytes)}, Dims{1}, 0, DType::UInt8);
    drop(s);
    return to_python(t);
  });
}

PyMethodDef functions[] = {
    {"_share", share, METH_VARARGS, "Moves a tensor's storage to a file that others can map."},
    {"_is_shared", is_shared_tensor, METH_O, "Whether a tensor is in shared memory."},
    {"_is_movable", is_movable, METH_O, "Whether a tensor's memory is adjoint's own."},
    {"_shared_file", shared_file, METH_O, "The file descriptor of a tensor's shared memory."},
    {"_attach", attach, METH_VARARGS, "The shared memory of a file, as bytes."},
    {nullptr}};

}  // namespace

void add_shared_memory(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
