// Values that need memory of their own: strings, lists, tensors. Read value.h first.
#include "tensor/value.h"

namespace adjoint {

void Value::drop_box() noexcept {
  if (--u_.box->references == 0) delete u_.box;
}

Value::Value(std::string s) : kind_(String) {
  u_.box = new Box;
  u_.box->str = std::move(s);
}
Value::Value(Dims d) : kind_(Ints) {
  u_.box = new Box;
  u_.box->ints = std::move(d);
}
Value::Value(Tensors ts) : kind_(Tensors_) {
  u_.box = new Box;
  u_.box->tensors = std::move(ts);
}
Value::Value(std::vector<Value> vs) : kind_(List) {
  u_.box = new Box;
  u_.box->values = std::move(vs);
}

}  // namespace adjoint
