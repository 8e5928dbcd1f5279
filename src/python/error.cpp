// Putting the words of a message together. Read error.h first.
#include "python/error.h"

#include <sstream>

namespace adjoint {

void Word::print_literal(std::ostream& s, const void* literal) {
  s << static_cast<const char*>(literal);
}

std::string join(const Word* words, size_t n) {
  std::ostringstream s;
  for (size_t i = 0; i < n; ++i) words[i].print_to(s);
  return s.str();
}

void throw_error(ErrorClass kind, const Word* words, size_t n) {
  throw Error(kind, join(words, n));
}

}  // namespace adjoint
