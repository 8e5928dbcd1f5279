// Running a program.
#pragma once
#include "program/program.h"

namespace adjoint {

// Calls Python with tensors; set by the bindings.
extern Tensors (*host_call)(PyObject* run, const Tensors& operands);
// Whether it says (`draws_random_numbers`) that it draws from the default generator.
extern bool (*host_draws)(PyObject* run);

// Whether the program can run on these inputs: dtypes, shapes and strides are those of the
// recording, and the tensors it reached by itself are as they were. Says why not.
bool accepts(const Program& p, const Tensors& given, std::string* why);
// The line of the instruction that this thread's program runs, or ran when an error ended it.
extern constinit thread_local const SourceLine* t_program_line;

// Computes the outputs; the inputs after the given ones are p.held, or `rest` where that is not
// empty. Records no history.
Tensors run(const Program& p, const Tensors& given, const Tensors& rest);

}  // namespace adjoint
