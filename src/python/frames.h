// Frames of the interpreter. CPython keeps their struct private (pycore_frame.h), so the layouts of 3.11
// to 3.14 are mirrored here, and nowhere else. source_line.cpp walks them, bindings/program/walk.cpp asks
// which function one runs; python/adjoint/compiler/_walk.py verifies that on a function that it knows.
#pragma once
#include <Python.h>

#include <cstdint>

#if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
#define ADJOINT_KNOWS_FRAMES 1
#else
#define ADJOINT_KNOWS_FRAMES 0
#endif

namespace adjoint::frames {
#if ADJOINT_KNOWS_FRAMES

// _PyInterpreterFrame (Include/internal/pycore_frame.h; from 3.14 on pycore_interpframe_structs.h).
#if PY_VERSION_HEX < 0x030C0000
struct Frame {
  PyObject *function, *globals, *builtins, *locals;
  uintptr_t code_word;
  PyFrameObject* object;
  Frame* previous;
  char* instruction;
  int stacktop;
  bool is_entry;
  char owner;
};
#else
struct Frame {
  uintptr_t code_word;
  Frame* previous;
  PyObject *function, *globals, *builtins, *locals;
  PyFrameObject* object;
  char* instruction;
#if PY_VERSION_HEX < 0x030E0000
  int stacktop;
#else
  void* stack_pointer;
#endif
  uint16_t return_offset;
  char owner;
};
#endif

inline Frame* current() {
  PyThreadState* thread = PyThreadState_Get();
#if PY_VERSION_HEX < 0x030D0000
  return reinterpret_cast<Frame*>(thread->cframe->current_frame);
#else
  return reinterpret_cast<Frame*>(thread->current_frame);
#endif
}

// From 3.14 on the lowest bits of these words are flags.
inline constexpr uintptr_t kFlags = PY_VERSION_HEX < 0x030E0000 ? 0 : 7;
inline PyCodeObject* code_of(const Frame* f) {
  return reinterpret_cast<PyCodeObject*>(f->code_word & ~kFlags);
}
// The function that a frame runs, which the frame object does not show.
inline PyObject* function(PyFrameObject* object) {
  struct Outer {
    PyObject_HEAD PyObject* back;
    const Frame* frame;
  };
  uintptr_t word = reinterpret_cast<uintptr_t>(reinterpret_cast<Outer*>(object)->frame->function);
  return reinterpret_cast<PyObject*>(word & ~kFlags);
}

// What a frame has: its variables, then its stack. They begin behind the struct, whose last bytes are padding.
inline uintptr_t* slots(PyFrameObject* object) {
  struct Outer {
    PyObject_HEAD PyObject* back;
    Frame* frame;
  };
  return reinterpret_cast<uintptr_t*>(reinterpret_cast<Outer*>(object)->frame + 1);
}

#else
inline PyObject* function(PyFrameObject*) { return nullptr; }
#endif
}  // namespace adjoint::frames
