// The argument `memory_format` of ops that make a tensor like another: in which order its axes lie
// in memory. Read next: tensor/layout.h for the order that is kept when none is asked for.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

enum class MemoryFormat { Preserve, Contiguous, ChannelsLast, ChannelsLast3d };

// The format that was given, or another where none was. Defined in the bindings: it is a Python
// object.
MemoryFormat memory_format_of(const Value& given, MemoryFormat otherwise);

// The strides of a tensor in a format other than Preserve; refuses a shape with the wrong number of
// axes for it.
Dims strides_in_format(Span shape, MemoryFormat format);
// Whether a tensor lies densely in this format, whatever the strides of its axes of length one.
bool lies_in_format(const Tensor& t, MemoryFormat format);

Tensor empty_like(const Tensor& like, DType dtype, MemoryFormat format);

}  // namespace adjoint
