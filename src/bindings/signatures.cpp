// Signatures of native functions and methods, as `inspect.signature` finds them.
//
// CPython takes a signature from the head of a docstring: "name($self, /, dim=None)\n--\n\n...". The tables
// of this folder say it as people read it, "size(dim=None): the shape ..."; that is rewritten here, once,
// and what takes no argument, or one, needs no words at all.
#include "bindings/signatures.h"

#include <cstring>
#include <string>

namespace adjoint {
namespace {

// The arguments that a docstring begins with, and how much of it they take; false if it does not.
bool from_doc(const PyMethodDef& m, std::string* arguments, size_t* used) {
  std::string doc = m.ml_doc ? m.ml_doc : "", head = std::string(m.ml_name) + "(";
  if (doc.compare(0, head.size(), head) != 0) return false;
  size_t depth = 1, at = head.size();
  for (; at < doc.size() && depth > 0; ++at) depth += (doc[at] == '(') - (doc[at] == ')');
  bool ends = doc.compare(at, 2, ": ") == 0 || doc.compare(at, 2, "\n\n") == 0;
  if (depth || !ends) return false;
  *arguments = doc.substr(head.size(), at - 1 - head.size());
  *used = at + 2;
  return true;
}

std::string by_convention(int flags) {
  if (flags & METH_NOARGS) return "";
  return flags & METH_O ? "value, /" : "*args, **kwargs";
}

}  // namespace

void add_signatures(PyMethodDef* table, bool methods) {
  for (PyMethodDef* m = table; m && m->ml_name; ++m) {
    if (m->ml_doc && std::strstr(m->ml_doc, ")\n--\n\n")) continue;
    int kind = m->ml_flags & (METH_NOARGS | METH_O);
    std::string arguments = by_convention(kind);
    size_t used = 0;
    bool told = from_doc(*m, &arguments, &used);
    std::string owner = methods && !(m->ml_flags & METH_STATIC) ? "$self" : "$module";
    if (methods && (m->ml_flags & METH_STATIC)) owner = "";
    bool named = told && !(m->ml_flags & METH_O);  // arguments may be named
    std::string out = std::string(m->ml_name) + "(" + owner;
    if (!owner.empty() && named && !arguments.empty()) out += ", /";
    if (!owner.empty() && !arguments.empty()) out += ", ";
    out += arguments;
    if (told && (m->ml_flags & METH_O) && !arguments.empty()) out += ", /";
    out += ")\n--\n\n" + std::string(m->ml_doc ? m->ml_doc + used : "");
    m->ml_doc = strdup(out.c_str());  // CPython keeps the pointer for good
  }
}

}  // namespace adjoint
