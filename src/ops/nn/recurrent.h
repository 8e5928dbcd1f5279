// The steps of a recurrent layer over a sequence, and what its ops share. Rows of a step lie together:
// those of step t are `sizes[t]` rows from `begin(t)` on, of the sequences that are still going on (longest
// first), as in a packed sequence. In order of computation a step is called `s`; `reverse` turns it round.
// Read next: recurrent.cpp for the loops, recurrent_rules.cpp for their derivatives written with ops.
#pragma once
#include <vector>

#include "ops/nn/rows.h"

namespace adjoint {

class Steps {
 public:
  Steps(const Dims& sizes, bool reverse);

  int count() const { return static_cast<int>(sizes_.size()); }
  int64_t total() const { return total_; }
  int64_t batch() const { return sizes_[0]; }
  int64_t size(int s) const { return sizes_[at(s)]; }
  int64_t begin(int s) const { return begins_[at(s)]; }
  // Of the rows of step s, how many were there in the step before it; the others start from the
  // initial state.
  int64_t carried(int s) const { return s ? std::min(size(s), size(s - 1)) : 0; }
  bool reversed() const { return reverse_; }

  // --- written with ops
  Tensor rows(const Tensor& t, int s) const;
  // The state before step s: rows of the step before it, and of the initial state.
  Tensor before(const Tensor& states, const Tensor& initial, int s) const;
  // The same for all rows of the sequence.
  Tensor all_before(const Tensor& states, const Tensor& initial) const;
  // Rows of steps in order of computation, put together as the sequence has them.
  Tensor joined(std::vector<Tensor> by_step) const;

 private:
  int at(int s) const { return reverse_ ? count() - 1 - s : s; }
  std::vector<int64_t> sizes_, begins_;
  int64_t total_ = 0;
  bool reverse_;
};

// Is one of them batched, or does it carry a tangent?
bool any_transformed(std::initializer_list<Tensor> tensors);

// The gradients of one pass over a sequence, written with ops. `of_h` and its like may be undefined.
struct LstmGradients {
  Tensor gates, h, c;  // of the sums (rows of the sequence) and of the initial state
};
LstmGradients lstm_gradients(const Steps& steps, Context& c);
struct GruGradients {
  Tensor gates, product, h;  // of the input's sums, of the sums that the state has a part in
};
GruGradients gru_gradients(const Steps& steps, Context& c);
struct RnnGradients {
  Tensor sums, h;
};
RnnGradients rnn_gradients(const Steps& steps, Context& c);

// Forward mode, written with ops.
Value lstm_tangent(Context& c, const Tensor* t);
Value gru_tangent(Context& c, const Tensor* t);
Value rnn_tangent(Context& c, const Tensor* t);

}  // namespace adjoint
