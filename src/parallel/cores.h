// How many threads to start with: what the environment asks for, else the cores we may use.
#pragma once

namespace adjoint::parallel {

int default_threads(int at_most) noexcept;

}  // namespace adjoint::parallel
