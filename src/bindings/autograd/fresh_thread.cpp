// A pass that goes on in a fresh thread: Note [Reentrant passes] in engine/engine.cpp.
//
// The caller waits without the GIL. The thread gets the caller's modes and contextvars; an
// exception travels back with its traceback. Python delivers signals to the main thread only, which
// may be the one that waits: it looks for them now and then, and passes Ctrl-C on to the innermost
// thread.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "bindings/autograd/autograd.h"
#include "dispatch/program_recorder.h"
#include "graph/computation_state.h"

namespace adjoint {
namespace {

constexpr size_t kStack = size_t{16} << 20;
constexpr auto kLook = std::chrono::milliseconds(20);

struct Job {
  void (*body)(void*);
  void* argument;
  uint32_t modes;
  uint16_t depth;  // of transforms
  PyObject* context = nullptr;
  std::vector<void*> carried;

  Job* inner = nullptr;      // what this job's thread waits for; guarded by the GIL
  unsigned long thread = 0;  // Python's number of the thread
  bool interrupt = false;    // guarded by the GIL
  std::exception_ptr error;  // what body threw, and the Python exception that came with it
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;

  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
};

thread_local Job* t_job = nullptr;  // what this thread was started for

PyObject* do_nothing = nullptr;  // a function of Python

// Lets an interrupt arrive that was sent to this thread, as the error that is set, if any is still
// on its way. It is not cancelled: CPython 3.11 would go on to look for it, and functions that are
// traced (by debuggers, or for programs) would wait for it forever.
void receive_interrupt() { Py_XDECREF(PyObject_CallNoArgs(do_nothing)); }

void* work(void* p) {
  Job& job = *static_cast<Job*>(p);
  PyGILState_STATE state = PyGILState_Ensure();
  t_job = &job;
  t_modes = job.modes;
  t_birth = job.depth;
  job.thread = PyThread_get_thread_ident();
  try {
    checked(PyContext_Enter(job.context));
    for (size_t i = 0; i < job.carried.size(); ++i) carried_state()[i].adopt(job.carried[i]);
    job.body(job.argument);
  } catch (...) {
    job.error = std::current_exception();
  }
  PyErr_Fetch(&job.type, &job.value, &job.traceback);
  if (std::exchange(job.interrupt, false)) {  // too late for it to matter
    receive_interrupt();
    PyErr_Clear();
  }
  for (Carried& c : carried_state()) c.leave();
  job.thread = 0;
  PyGILState_Release(state);
  std::lock_guard lock(job.mutex);
  job.done = true;
  job.finished.notify_one();
  return nullptr;
}

bool wait(Job& job, bool with_timeout) {
  PyThreadState* state = PyEval_SaveThread();
  bool done = true;
  {
    std::unique_lock lock(job.mutex);
    auto is_done = [&] { return job.done; };
    if (with_timeout) {
      done = job.finished.wait_for(lock, kLook, is_done);
    } else {
      job.finished.wait(lock, is_done);
    }
  }
  PyEval_RestoreThread(state);
  return done;
}

// Python code over there is interrupted at its next step, the engine at its next look.
void interrupt_innermost(Job* job) {
  while (job->inner) job = job->inner;
  job->interrupt = true;
  if (job->thread) PyThreadState_SetAsyncExc(job->thread, PyExc_KeyboardInterrupt);
}

// The exception that a signal raised in the waiting thread, if any.
struct Pending {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  void drop() {
    Py_CLEAR(type);
    Py_CLEAR(value);
    Py_CLEAR(traceback);
  }
};

void start(pthread_t* thread, Job* job) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  int failed = pthread_create(thread, &attributes, work, job);
  pthread_attr_destroy(&attributes);
  if (failed) {
    runtime_error("a deeply nested backward pass needs another thread, and none could be started (",
                  std::strerror(failed), ")");
  }
}

void wait_for(Job& job, Pending& pending) {
  bool outermost = !t_job;  // the only one that can be Python's main thread
  while (!wait(job, outermost)) {
    if (PyErr_CheckSignals() == 0) continue;
    if (pending.type) {
      PyErr_Clear();
    } else {
      PyErr_Fetch(&pending.type, &pending.value, &pending.traceback);
    }
    interrupt_innermost(&job);
  }
}

void raise_outcome(Job& job, Pending& pending) {
  bool same = pending.type && job.type && PyErr_GivenExceptionMatches(job.type, pending.type);
  if (pending.type && !same) {  // the signal's own exception, whatever the pass made of it
    Pending of_job{job.type, job.value, job.traceback};
    of_job.drop();
    PyErr_Restore(pending.type, pending.value, pending.traceback);
    throw PythonError{};
  }
  pending.drop();
  if (job.type) PyErr_Restore(job.type, job.value, job.traceback);
  if (job.error) std::rethrow_exception(job.error);
  if (job.type) throw PythonError{};
}

}  // namespace

bool interrupted() {
  if (t_job && t_job->interrupt) {
    t_job->interrupt = false;
    receive_interrupt();
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return true;
  }
  return PyErr_CheckSignals() != 0;
}

// Made at import, when no interrupt is on its way to whoever makes it.
void prepare_fresh_threads() {
  Object names = checked(PyDict_New());
  Object code = checked(Py_CompileString("lambda: None", "<adjoint>", Py_eval_input));
  do_nothing = checked(PyEval_EvalCode(code.get(), names.get(), names.get())).release();
}

void run_on_fresh_thread(void (*body)(void*), void* argument) {
  refuse_recording("backward passes started inside one another go on in another thread");
  Object context = checked(PyContext_CopyCurrent());
  Job job{body, argument, t_modes, t_birth, context.get()};
  for (Carried& c : carried_state()) job.carried.push_back(c.capture());
  pthread_t thread;
  start(&thread, &job);
  if (t_job) t_job->inner = &job;
  Pending pending;
  wait_for(job, pending);
  if (t_job) t_job->inner = nullptr;
  pthread_join(thread, nullptr);
  for (size_t i = 0; i < job.carried.size(); ++i) carried_state()[i].release(job.carried[i]);
  raise_outcome(job, pending);
}

}  // namespace adjoint
