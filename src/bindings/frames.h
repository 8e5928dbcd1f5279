// What CPython does not show of a running frame: its value stack. Read watch.cpp, which uses it.
#pragma once
#include <Python.h>

#include <cstdint>

namespace adjoint::frames {

// The layouts are those of CPython's pycore_frame.h, which extensions cannot include; other
// versions and builds are not read at all.
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) && \
    !defined(Py_TRACE_REFS)
constexpr bool kKnown = true;
#else
constexpr bool kKnown = false;
#endif

struct Inner {
#if PY_VERSION_HEX < 0x030C0000
  PyObject* function;
  PyObject *globals, *builtins, *locals, *code, *frame;
  void *previous, *instruction;
#else
  PyObject* code;
  void* previous;
  PyObject* function;
  PyObject *globals, *builtins, *locals, *frame;
  void* instruction;
#endif
  int top;  // of the stack, counted from the first variable
  uint16_t unused;
  char owner;
  PyObject* variables[1];  // and cells, and then the stack
};

struct Outer {
  PyObject_HEAD PyObject* back;
  Inner* inner;
};

inline Inner& inner(PyFrameObject* frame) { return *reinterpret_cast<Outer*>(frame)->inner; }
inline PyObject* variable(PyFrameObject* frame, int k) { return inner(frame).variables[k]; }

// The stack of a frame that is about to run an instruction. How deep it is then is known of the
// code (python/adjoint/compiler/_depths.py); the frame itself has it in Python 3.11 only.
struct Stack {
  PyObject** top = nullptr;  // the topmost operand
  int depth = 0;

  Stack() = default;
  Stack(PyFrameObject* frame, PyCodeObject* code, int d)
      : top(inner(frame).variables + code->co_nlocalsplus + d - 1), depth(d) {}
  // The object k places below the top; null for an empty place.
  PyObject* operand(int k) const { return k < 0 || k >= depth ? nullptr : top[-k]; }
};
inline bool is_so_deep(PyFrameObject* frame, PyCodeObject* code, int depth) {
#if PY_VERSION_HEX < 0x030C0000
  return inner(frame).top == code->co_nlocalsplus + depth;
#else
  return frame && depth <= code->co_stacksize;
#endif
}

// What a call with `count` arguments calls, `above` operands standing above these. A bound method
// is its function with its object.
struct Callee {
  PyObject *function, *object;  // the latter null for plain functions
};
inline Callee callee(const Stack& stack, int count, int above) {
  PyObject* first = stack.operand(above + count + 1);
  PyObject* second = stack.operand(above + count);
#if PY_VERSION_HEX < 0x030D0000
  Callee c = first ? Callee{first, second} : Callee{second, nullptr};
#else
  Callee c{first, second};
#endif
  if (c.function && !c.object && PyMethod_Check(c.function))
    c = {PyMethod_GET_FUNCTION(c.function), PyMethod_GET_SELF(c.function)};
  return c;
}

}  // namespace adjoint::frames
