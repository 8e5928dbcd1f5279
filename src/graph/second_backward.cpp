// Read second_backward.h first.
#include "graph/second_backward.h"

#include "tensor/error.h"

namespace adjoint {

std::string result_of(const Node* n, uint32_t slot) {
  const Meta& m = n->meta_of(slot);
  return text(m.dtype, " ", m.shape());
}

void fail_freed(const Node* n, const char* how) {
  runtime_error(
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already been freed). Saved intermediate values of the graph are freed when you "
      "call .backward() or autograd.grad().\n  the node      ",
      n->name, " (", result_of(n, 0), ") made at ", n->line.describe(), "\n  freed here    ",
      how ? how : n->freed_by.describe(), story_of_pass(n),
      "\n  fix: Specify retain_graph=True there if you need to backward through the graph a second "
      "time");
}

}  // namespace adjoint
