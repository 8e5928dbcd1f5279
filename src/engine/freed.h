// The error of a second backward pass: which call freed the graph, and which tensor outlived it.
#pragma once
#include "engine.h"

namespace adjoint {

// A pass from these roots, called at `line`, was completed and freed its graph.
void note_freed(std::span<const Root> roots, const SourceLine& line);
// `n` was asked to run, or for what it saved, after that was freed: at `how` if given, otherwise at
// the line it remembers.
[[noreturn]] void fail_freed(const Node* n, const char* how = nullptr);

}  // namespace adjoint
