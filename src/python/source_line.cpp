// How a source line is found: one walk from the interpreter's current frame.
// Where frames.h knows the layout of frames; elsewhere the public functions serve, which make a
// frame object first and cost ten times as much.
#include "python/source_line.h"

#include <frameobject.h>

#include <fstream>
#include <unordered_map>

#include "python/frames.h"
#include "python/stack.h"

namespace adjoint {
namespace {

std::string g_package_folder;

bool has_package_prefix(PyCodeObject* code) {
  if (g_package_folder.empty()) return false;
  Py_ssize_t n = 0;
  const char* file = PyUnicode_AsUTF8AndSize(code->co_filename, &n);
  if (!file) {
    PyErr_Clear();
    return false;
  }
  return static_cast<size_t>(n) > g_package_folder.size() &&
         g_package_folder.compare(0, g_package_folder.size(), file, g_package_folder.size()) == 0;
}

// Asked once per recorded op, so the answer is kept in a small direct-mapped table. A code object
// that died and whose address is used again could be answered for wrongly: then a line is
// reported one frame off, nothing else.
struct Entry {
  PyCodeObject* code;
  bool package;
};
Entry g_entries[256];

[[gnu::noinline]] void look_up(Entry& e, PyCodeObject* code) {
  e = {code, has_package_prefix(code)};
}

inline bool is_package_code(PyCodeObject* code) {
  Entry& e = g_entries[(reinterpret_cast<uintptr_t>(code) >> 5) & 255];
  if (e.code != code) [[unlikely]]
    look_up(e, code);
  return e.package;
}

}  // namespace

void SourceLine::set_package_folder(const std::string& folder) { g_package_folder = folder; }

#if ADJOINT_KNOWS_FRAMES
namespace {

using frames::code_of, frames::Frame;

// Owners up to 2 run Python code; the others stand for C code that called into Python (3.12 and
// later).
bool is_shim([[maybe_unused]] const Frame* f) {
#if PY_VERSION_HEX < 0x030C0000
  return false;
#else
  return f->owner > 2;
#endif
}

inline bool is_skipped(const Frame* f) { return is_shim(f) || is_package_code(code_of(f)); }

// Where adjoint's own Python code runs: the user's frame below it, or the innermost if there is
// none.
[[gnu::noinline]] Frame* users_frame(Frame* frame) {
  while (frame && is_shim(frame)) frame = frame->previous;
  Frame* innermost = frame;
  while (frame && is_skipped(frame)) frame = frame->previous;
  return frame ? frame : innermost;
}

}  // namespace

void SourceLine::capture(SourceLine* into) {
  Frame* frame = frames::current();
  if (!frame || is_skipped(frame)) [[unlikely]] {
    frame = users_frame(frame);
    if (!frame) return;
  }
  PyCodeObject* code = code_of(frame);
  into->code_ = Py_NewRef(reinterpret_cast<PyObject*>(code));
  into->offset_ = static_cast<int>(frame->instruction - code->co_code_adaptive);
}
#else
void SourceLine::capture(SourceLine* into) {
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return;
  Py_INCREF(frame);
  PyFrameObject* innermost = frame;
  Py_INCREF(innermost);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    bool package = is_package_code(code);
    Py_DECREF(code);
    if (!package) break;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  PyFrameObject* chosen = frame ? frame : innermost;
  into->code_ = reinterpret_cast<PyObject*>(PyFrame_GetCode(chosen));
  into->offset_ = PyFrame_GetLasti(chosen);
  Py_XDECREF(frame);
  Py_DECREF(innermost);
}
#endif

std::string SourceLine::file() const {
  if (!code_) return "?";
  const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code_)->co_filename);
  if (!file) PyErr_Clear();
  return file ? file : "?";
}

int SourceLine::line() const {
  return code_ ? PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code_), offset_) : 0;
}

// --- whole stacks (stack.h) -----------------------------------------------------------------------
std::vector<CodePlace> users_stack(int most) {
  std::vector<CodePlace> found;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && found.size() < static_cast<size_t>(most)) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (is_package_code(code))
      Py_DECREF(code);
    else
      found.emplace_back(reinterpret_cast<PyObject*>(code), PyFrame_GetLasti(frame));
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

namespace {

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

}  // namespace

std::string CodePlace::file() const {
  return code_ ? text_of(reinterpret_cast<PyCodeObject*>(code_)->co_filename) : "?";
}
std::string CodePlace::function() const {
  return code_ ? text_of(reinterpret_cast<PyCodeObject*>(code_)->co_name) : "?";
}
int CodePlace::line() const {
  return code_ ? PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code_), offset_) : 0;
}

std::string SourceLine::describe() const {
  if (!code_) return "(outside Python)";
  std::string path = file();
  int number = line();
  std::string out = path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(number);
  std::ifstream source(path);
  std::string row;
  for (int i = 0; i < number && std::getline(source, row); ++i) {
    if (i + 1 == number) {
      size_t start = row.find_first_not_of(" \t");
      if (start != std::string::npos) out += "   " + row.substr(start);
    }
  }
  return out;
}

}  // namespace adjoint
