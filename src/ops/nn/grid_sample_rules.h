// The derivatives of grid_sample written with ops, so that they can be differentiated again.
#pragma once
#include "dispatch/op.h"
#include "kernels/sampling/grid_taps.h"

namespace adjoint {

grid::Settings grid_settings(const Value& mode, const Value& padding, const Value& align_corners);
void grid_sample_gradients(Context& c, Tensor* grads);
Value grid_sample_tangent(Context& c, const Tensor* tangents);

}  // namespace adjoint
