// ADJOINT_INDEPENDENT before a loop: no step of it reads what another has written, so that it may be
// vectorised although an output may be an input's memory.
#pragma once

#if defined(__clang__)
#define ADJOINT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define ADJOINT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define ADJOINT_INDEPENDENT
#endif
