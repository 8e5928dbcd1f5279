// The update loops of the optimizers: one pass over the memory of all parameters, float32 and
// float64, in the order and with the roundings of the formulas below (no fused multiply-add, so
// that every instruction set gives the same bits).
// Read next: formulas.h for the formulas as code, optim.cpp for chunks and threads,
// kernels/isa/optim.cpp for the loops.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace adjoint::optim {

// g' = g + weight_decay p;  b = momentum b + (1 - dampening) g' (or g' at the first step);
// p -= lr (nesterov ? g' + momentum b : b). Without momentum there is no b.
struct SgdOptions {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false, first = false;
};

// m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g g;
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
// Weight decay adds to g, or (decoupled) shrinks p first; amsgrad puts max(vmax, v) for v.
struct AdamOptions {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool maximize = false, decoupled = false;
};

// One parameter's arrays, contiguous and of one dtype; those not in use are null. `step` is Adam's
// count, the coming step included.
struct Arrays {
  void* param = nullptr;
  const void* grad = nullptr;
  void* first = nullptr;    // momentum buffer, or Adam's mean gradient
  void* second = nullptr;   // Adam's mean square
  void* largest = nullptr;  // amsgrad's running maximum of it
  int64_t n = 0;
  DType dtype = DType::Float32;
  double step = 0;
};

void sgd_step(const std::vector<Arrays>& all, const SgdOptions& options);
void adam_step(const std::vector<Arrays>& all, const AdamOptions& options);

// What one instruction set offers: the same steps for elements [begin, end) of one parameter.
struct Loops {
  void (*sgd)(const Arrays&, const SgdOptions&, int64_t begin, int64_t end);
  void (*adam)(const Arrays&, const AdamOptions&, int64_t begin, int64_t end);
};

}  // namespace adjoint::optim
