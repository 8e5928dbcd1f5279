// One more mode of a thread (tensor/modes.h): calls are timed (dispatch/profile.h). It has a file of its own
// because few need it: who runs ops, and who leaves the short ways for it.
#pragma once
#include "tensor/modes.h"

namespace adjoint {

inline constexpr Mode kProfiled = static_cast<Mode>(1u << 16);
static_assert(!(kProfiled & (kSlowModes | kAutocastModes | kGradOff | kStrongZeros | kNoCuts)));

}  // namespace adjoint
