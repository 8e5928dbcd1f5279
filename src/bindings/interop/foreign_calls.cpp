// Calls of C functions by their address, without the GIL: now, in the order of a queue that has a
// thread of its own, or started now and asked about until they are done. python/adjoint/distributed
// calls MPI so, which adjoint is not linked with. Read next: distributed/_library.py.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bindings/interop/patience.h"
#include "bindings/python.h"
#include "python/gil.h"
#include "python/interrupt.h"

namespace adjoint {
namespace {

using Word = uintptr_t;
using Clock = std::chrono::steady_clock;
constexpr int kMostWords = 10;
constexpr std::chrono::milliseconds kSignals{50};  // how often Ctrl-C is looked for

// Pointers, handles and ints of C. All are passed as words, always ten of them: the calling
// conventions of x86-64 and AArch64 put each into a register or an 8-byte slot of its own, the
// callee reads as many as it has, and the upper half of an int's word is not looked at.
using Words = std::array<Word, kMostWords>;

int call(Word function, const Words& a) {
  using Function = int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
  return reinterpret_cast<Function>(function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
                                              a[9]);
}

// One call. Queued: the queue's thread finishes it. Started: `test(&request, &flag, &status)` says
// whether it is over; whoever holds the mutex may ask.
struct Call {
  Word function = 0, test = 0;
  bool meets = false;   // queued: the other processes are awaited before it is made
  bool starts = false;  // queued: it only begins something, which the queue's thread asks about
  Words words{};
  int count = 0;  // of words
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  int code = 0;
  alignas(16) std::array<char, 16> request{};
  alignas(16) std::array<char, 128> status{};  // larger than any MPI's

  void finish(int result) {
    std::lock_guard lock(mutex);
    done = true;
    code = result;
    finished.notify_all();
  }
  // Asks once; with the mutex held.
  bool ask() {
    if (done) return true;
    int flag = 0;
    int result = call(test, {reinterpret_cast<Word>(request.data()), reinterpret_cast<Word>(&flag),
                             reinterpret_cast<Word>(status.data())});
    if (!flag && !result) return false;
    done = true;
    code = result;
    finished.notify_all();
    return true;
  }
};
using SharedCall = std::shared_ptr<Call>;

// How all processes of a queue meet: `start(word, &request)`, asked about by `test`, as what calls
// have started is.
struct Meeting {
  Word start = 0, test = 0, word = 0;
};

// Runs calls one after the other. Never destroyed: its thread may be inside a call that never ends.
class Queue {
 public:
  explicit Queue(Meeting meeting) : meeting_(meeting) {}
  void submit(SharedCall c) {
    std::lock_guard lock(mutex_);
    if (!started_) std::thread([this] { run(); }).detach();
    started_ = true;
    waiting_.push_back(std::move(c));
    arrived_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !waiting_.empty(); });
      SharedCall c = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      c->finish(c->starts ? start_and_ask(c->function, c->words, c->count) : make(*c));
    }
  }
  // A blocking call of MPI takes a core while it waits for processes that are not there yet, a core
  // that this one computes on. So they meet first, and the call is made when all are there.
  int make(const Call& c) const {
    int code = c.meets ? start_and_ask(meeting_.start, {meeting_.word}, 1) : 0;
    return code ? code : call(c.function, c.words);
  }
  // Makes a call that takes a request after its words, and waits for the end of what that began.
  int start_and_ask(Word function, Words words, int count) const {
    Call begun;
    begun.test = meeting_.test;
    words[count] = reinterpret_cast<Word>(begun.request.data());
    begun.code = call(function, words);
    Patience patience;
    while (!begun.code && !begun.ask()) patience.wait();
    return begun.code;
  }

  const Meeting meeting_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<SharedCall> waiting_;
  bool started_ = false;
};

// Asks about started calls while nobody waits for them: a message moves only inside calls of the
// library that sends it.
class Progress {
 public:
  void add(SharedCall c) {
    std::lock_guard lock(mutex_);
    if (!started_) std::thread([this] { run(); }).detach();
    started_ = true;
    under_way_.push_back(std::move(c));
    arrived_.notify_one();
  }

 private:
  void run() {
    Patience patience;
    for (;;) {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !under_way_.empty(); });
      std::vector<SharedCall> asked = under_way_;  // those that are done remain
      lock.unlock();
      std::erase_if(asked, [](const SharedCall& c) {
        std::unique_lock one(c->mutex, std::try_to_lock);  // else somebody waits for it, and asks
        return !(one.owns_lock() && c->ask());
      });
      if (!asked.empty()) forget(asked);
      if (asked.empty())
        patience.wait();
      else
        patience.restart();
    }
  }
  void forget(const std::vector<SharedCall>& done) {
    std::lock_guard lock(mutex_);
    std::erase_if(under_way_, [&](const SharedCall& c) {
      return std::find(done.begin(), done.end(), c) != done.end();
    });
  }
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<SharedCall> under_way_;
  bool started_ = false;
};

Progress& progress() {
  static Progress& only =
      *std::make_unique<Progress>().release();  // never destroyed, as queues are
  return only;
}

// --- waiting -------------------------------------------------------------------------------------

// Whether the call is done by `until`.
bool wait_queued(Call& c, Clock::time_point until) {
  std::unique_lock lock(c.mutex);
  return c.finished.wait_until(lock, until, [&] { return c.done; });
}

bool wait_started(Call& c, Clock::time_point until, Patience& patience) {
  std::lock_guard lock(c.mutex);
  for (int i = 1; !c.ask(); ++i) {
    patience.wait();
    if (i % 32 == 0 && Clock::now() >= until) return false;
  }
  return true;
}

// Waits without the GIL, in slices between which Python sees signals; false after `seconds`.
bool wait(Call& c, double seconds) {
  const Clock::time_point start = Clock::now();
  const bool endless = !(seconds < 1e9);
  const Clock::time_point end =
      start + std::chrono::microseconds(endless ? 0 : static_cast<int64_t>(seconds * 1e6));
  Patience patience;
  for (;;) {
    Clock::time_point now = Clock::now();
    Clock::time_point until = endless ? now + kSignals : std::min(now + kSignals, end);
    bool done;
    {
      WithoutGil without;
      done = c.test ? wait_started(c, until, patience) : wait_queued(c, until);
    }
    if (done) return true;
    check_signals();
    if (!endless && Clock::now() >= end) return false;
  }
}

// --- the Python types ----------------------------------------------------------------------------

struct CallObject {
  PyObject_HEAD;
  SharedCall call;
};
struct QueueObject {
  PyObject_HEAD;
  Queue* queue;
};
PyTypeObject call_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject queue_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Word word(PyObject* o) {
  Word value = static_cast<Word>(PyLong_AsUnsignedLongLongMask(o));
  if (value == static_cast<Word>(-1) && PyErr_Occurred()) throw PythonError{};
  return value;
}

int read_words(PyObject* tuple, Words* out) {
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  if (n >= kMostWords) {
    PyErr_Format(PyExc_ValueError, "%zd arguments of a foreign call; at most %d", n,
                 kMostWords - 1);
    throw PythonError{};
  }
  for (Py_ssize_t i = 0; i < n; ++i) (*out)[i] = word(PyTuple_GET_ITEM(tuple, i));
  return static_cast<int>(n);
}

PyObject* wrap(SharedCall c) {
  PyObject* o = checked(call_type.tp_alloc(&call_type, 0)).release();
  new (&reinterpret_cast<CallObject*>(o)->call) SharedCall(std::move(c));
  return o;
}
Call& call_of(PyObject* o) { return *reinterpret_cast<CallObject*>(o)->call; }

void dealloc_call(PyObject* o) {
  reinterpret_cast<CallObject*>(o)->call.~SharedCall();
  Py_TYPE(o)->tp_free(o);
}

PyObject* call_wait(PyObject* self, PyObject* seconds) {
  return guard([&]() -> PyObject* {
    double s = PyFloat_AsDouble(seconds);
    if (s == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(wait(call_of(self), s));
  });
}

PyObject* call_done(PyObject* self, PyObject*) {
  Call& c = call_of(self);
  std::unique_lock lock(c.mutex, std::try_to_lock);
  if (!lock.owns_lock()) Py_RETURN_FALSE;  // somebody is asking right now
  return PyBool_FromLong(c.done || (c.test && c.ask()));
}

PyObject* call_code(PyObject* self, PyObject*) { return PyLong_FromLong(call_of(self).code); }

PyObject* call_status(PyObject* self, PyObject*) {
  Call& c = call_of(self);
  return PyBytes_FromStringAndSize(c.status.data(), static_cast<Py_ssize_t>(c.status.size()));
}

PyObject* make_queue(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *start, *test, *handle;
  if (!PyArg_ParseTuple(args, "OOO:_ForeignQueue", &start, &test, &handle)) return nullptr;
  return guard([&]() -> PyObject* {
    Meeting meeting{word(start), word(test), word(handle)};
    Object o = checked(type->tp_alloc(type, 0));
    reinterpret_cast<QueueObject*>(o.get())->queue = std::make_unique<Queue>(meeting).release();
    return o.release();
  });
}

PyObject* queue_submit(PyObject* self, PyObject* args) {
  PyObject *function, *words;
  int meets, starts;
  if (!PyArg_ParseTuple(args, "OO!pp:submit", &function, &PyTuple_Type, &words, &meets, &starts))
    return nullptr;
  return guard([&]() -> PyObject* {
    auto c = std::make_shared<Call>();
    c->function = word(function);
    c->meets = meets;
    c->starts = starts;
    c->count = read_words(words, &c->words);
    Object result = Object::steal(wrap(c));
    reinterpret_cast<QueueObject*>(self)->queue->submit(std::move(c));
    return result.release();
  });
}

PyObject* foreign_call(PyObject*, PyObject* args) {
  PyObject *function, *words;
  if (!PyArg_ParseTuple(args, "OO!:_foreign_call", &function, &PyTuple_Type, &words))
    return nullptr;
  return guard([&]() -> PyObject* {
    Words w{};
    Word f = word(function);
    read_words(words, &w);
    int code;
    {
      WithoutGil without;
      code = call(f, w);
    }
    return PyLong_FromLong(code);
  });
}

PyObject* foreign_start(PyObject*, PyObject* args) {
  PyObject *function, *words, *test;
  int aside;
  if (!PyArg_ParseTuple(args, "OO!Op:_foreign_start", &function, &PyTuple_Type, &words, &test,
                        &aside))
    return nullptr;
  return guard([&]() -> PyObject* {
    auto c = std::make_shared<Call>();
    c->function = word(function);
    c->test = word(test);
    int n = read_words(words, &c->words);
    c->words[n] = reinterpret_cast<Word>(c->request.data());
    Object result = Object::steal(wrap(c));
    {
      WithoutGil without;
      c->code = call(c->function, c->words);
    }
    c->done = c->code != 0;
    if (aside && !c->done) progress().add(std::move(c));
    return result.release();
  });
}

PyMethodDef call_methods[] = {
    {"wait", call_wait, METH_O, "wait(seconds): whether it is done by then; sees Ctrl-C."},
    {"done", call_done, METH_NOARGS, "Whether it is done."},
    {"code", call_code, METH_NOARGS, "What the function returned."},
    {"status", call_status, METH_NOARGS, "What the test wrote about it."},
    {nullptr}};
PyMethodDef queue_methods[] = {
    {"submit", queue_submit, METH_VARARGS,
     "submit(function, words, meets, starts): calls it after those before. `meets`: when all have "
     "met. `starts`: with a request, which is asked about until it is done."},
    {nullptr}};
PyMethodDef functions[] = {
    {"_foreign_call", foreign_call, METH_VARARGS,
     "(function, words): calls the function at an address without the GIL; what it returns."},
    {"_foreign_start", foreign_start, METH_VARARGS,
     "(function, words, test, aside): the same with a request after the words, which `test` asks "
     "about; with `aside` a thread asks too."},
    {nullptr}};

}  // namespace

void add_foreign_calls(PyObject* module) {
  call_type.tp_name = "adjoint._core._ForeignCall";
  call_type.tp_basicsize = sizeof(CallObject);
  call_type.tp_flags = Py_TPFLAGS_DEFAULT;
  call_type.tp_dealloc = dealloc_call;
  call_type.tp_methods = call_methods;
  call_type.tp_doc = "A call of a C function that is under way.";
  checked(PyType_Ready(&call_type));
  queue_type.tp_name = "adjoint._core._ForeignQueue";
  queue_type.tp_basicsize = sizeof(QueueObject);
  queue_type.tp_flags = Py_TPFLAGS_DEFAULT;
  queue_type.tp_new = make_queue;
  queue_type.tp_methods = queue_methods;
  queue_type.tp_doc =
      "_ForeignQueue(start, test, word): calls C functions one after the other, in a thread.";
  checked(PyType_Ready(&queue_type));
  checked(PyModule_AddObjectRef(module, "_ForeignCall", reinterpret_cast<PyObject*>(&call_type)));
  checked(PyModule_AddObjectRef(module, "_ForeignQueue", reinterpret_cast<PyObject*>(&queue_type)));
  add_functions(module, functions);
}

}  // namespace adjoint
