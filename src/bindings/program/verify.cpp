// Running a program and the function it was made of side by side: for `ad.compile(f, verify=True)`.
//
// Only one of the two may leave effects, so what the program can change is kept before it runs, and
// put back, versions included, before the function does. python/adjoint/compiler/_verify.py
// compares, and should be read first.
#include <cstring>
#include <memory>
#include <unordered_set>

#include "bindings/program/program.h"
#include "dispatch/program_recorder.h"
#include "graph/change_log.h"
#include "program/capture/capture.h"

namespace adjoint {

constinit thread_local bool t_plain_functions = false;

namespace {

struct Kept {
  struct Memory {
    Tensor on;
    std::vector<char> bytes;
    uint32_t version;
    SourceLine changed;
  };
  struct Gradient {
    Tensor leaf, grad;
  };
  std::vector<Memory> memories;
  std::vector<Gradient> gradients;
  std::unordered_set<const Storage*> seen;  // of these memories, which are held
};
constexpr char kKept[] = "adjoint._core.kept";

void keep(Kept& kept, const Tensor& t) {
  Storage* s = t->storage;
  if (!kept.seen.insert(s).second) return;
  auto* data = static_cast<const char*>(s->data);
  kept.memories.push_back({t, {data, data + s->bytes}, s->version, s->changed});
}

// _keep_state(tensors): their memory, their versions and their gradients, as they are now.
PyObject* keep_state(PyObject*, PyObject* tensors) {
  return guard([&]() -> PyObject* {
    auto kept = std::make_unique<Kept>();
    for (const Tensor& t : tensors_of(tensors, "_keep_state()")) {
      keep(*kept, t);
      Tensor grad = Tensor::borrow(t->grad);
      if (grad) keep(*kept, grad);
      kept->gradients.push_back({t, grad});
    }
    auto release = [](PyObject* capsule) {
      delete static_cast<Kept*>(PyCapsule_GetPointer(capsule, kKept));
    };
    Object capsule = checked(PyCapsule_New(kept.get(), kKept, release));
    kept.release();
    return capsule.release();
  });
}

// _keep_memory(state, tensor): the memory of one more, as it is now.
PyObject* keep_memory(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2 || !is_tensor(args[1])) type_error("_keep_memory() takes a state and a tensor");
    auto* kept = static_cast<Kept*>(PyCapsule_GetPointer(args[0], kKept));
    if (!kept) throw PythonError{};
    Tensor t = Tensor::borrow(as_tensor(args[1]));
    if (t->storage) keep(*kept, t);
    Py_RETURN_NONE;
  });
}

PyObject* put_back(PyObject*, PyObject* capsule) {
  return guard([&]() -> PyObject* {
    auto* kept = static_cast<Kept*>(PyCapsule_GetPointer(capsule, kKept));
    if (!kept) throw PythonError{};
    for (const Kept::Memory& m : kept->memories) {
      Storage* s = m.on->storage;
      if (s->bytes != m.bytes.size()) runtime_error("_put_back(): memory has another size now");
      // What has not changed may lie in memory that cannot be written.
      if (std::memcmp(s->data, m.bytes.data(), s->bytes))
        std::memcpy(s->data, m.bytes.data(), s->bytes);
      s->version = m.version;
      s->changed = m.changed;
    }
    for (const Kept::Gradient& g : kept->gradients) {
      Tensor grad = g.grad;
      Py_XSETREF(g.leaf->grad, grad.release());
    }
    Py_RETURN_NONE;
  });
}

// Compiled functions run as the plain functions they are, and changes are noted.
class Plainly {
 public:
  Plainly()
      : log_{next_generation(), {}, false},
        birth_(t_birth),
        outer_(std::exchange(t_change_log, &log_)),
        plain_(std::exchange(t_plain_functions, true)) {
    t_birth = static_cast<uint16_t>((t_birth & 0xff) | log_.mark << 8);
  }
  ~Plainly() {
    t_birth = birth_;
    t_change_log = outer_;
    t_plain_functions = plain_;
  }
  Plainly(const Plainly&) = delete;
  const ChangeLog& log() const { return log_; }

 private:
  ChangeLog log_;
  uint16_t birth_;
  ChangeLog* outer_;
  bool plain_;
};

// _run_plainly(f, known): f(), without programs; whether it has drawn random numbers; and the tensors
// that were there before, on other memory than that of the known ones, which it has changed.
PyObject* run_plainly(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2) type_error("_run_plainly() takes a function and a list of tensors");
    std::unordered_set<const Storage*> known;
    for (const Tensor& t : tensors_of(args[1], "_run_plainly()")) {
      known.insert(t->storage);
      if (t->grad) known.insert(t->grad->storage);
    }
    Plainly plainly;
    Object result = checked(PyObject_CallNoArgs(args[0]));
    Tensors others;
    for (const Tensor& t : plainly.log().changed)
      if (known.insert(t->storage).second) others.push_back(t);
    return Py_BuildValue("(NNN)", result.release(), PyBool_FromLong(plainly.log().draws),
                         checked(list_of(others)).release());
  });
}

PyMethodDef functions[] = {
    {"_keep_state", keep_state, METH_O, "The memory and the gradients of tensors as they are now."},
    {"_keep_memory", reinterpret_cast<PyCFunction>(keep_memory), METH_FASTCALL,
     "_keep_memory(state, tensor): the memory of one more, as it is now."},
    {"_put_back", put_back, METH_O, "Makes them what they were."},
    {"_run_plainly", reinterpret_cast<PyCFunction>(run_plainly), METH_FASTCALL,
     "_run_plainly(f, known): f() without programs, whether it drew random numbers, and which "
     "other "
     "tensors it has changed."},
    {nullptr}};

}  // namespace

void add_beside(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
