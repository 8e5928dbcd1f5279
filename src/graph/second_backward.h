// The error of a second backward pass: which call freed the graph, and which tensor outlived it.
#pragma once
#include <string>

#include "graph/node.h"

namespace adjoint {

// `n` was asked to run, or for what it saved, after that was freed: at `how` if given, otherwise at
// the line it remembers.
[[noreturn]] void fail_freed(const Node* n, const char* how = nullptr);

// What the pass under way adds to that message: what it was asked for, and how `n` came into it
// (engine/second_backward.cpp).
std::string story_of_pass(const Node* n);
// "float32 [3]": the result of a node at a slot.
std::string result_of(const Node* n, uint32_t slot);

}  // namespace adjoint
