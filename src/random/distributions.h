// Fill memory with random numbers: the same numbers as PyTorch's CPU generator from the same state,
// bit for bit (normals and what is built on them: while libm is the same; at most 2 ULP apart).
//
// `out` is contiguous memory for n elements of `dtype`. Each function takes the generator's lock
// and leaves the generator where PyTorch would. n = 0 draws nothing and, as there, accepts most
// dtypes.
//
// Note [Strided destinations]: PyTorch visits a strided destination in the order of its memory, the
// largest stride outermost, not in the order of its indices. A caller fills a contiguous temporary
// of n elements and copies it into the destination with the axes permuted so that strides descend.
// `normal` also needs contiguous = false then, because the normals of 16 or more elements are made
// in blocks only for a destination that is contiguous in the order of its indices.
//
// Bad arguments throw std::runtime_error, dtypes without a meaning throw unsupported_dtype (in
// errors.h); nothing is drawn and nothing is written then.
// Read next: generator.h for the stream, distributions.cpp, integers.cpp, multinomial.cpp,
// parametric.cpp.
#pragma once
#include <cstdint>
#include <optional>

#include "random/errors.h"
#include "random/generator.h"
#include "tensor/dtype.h"

namespace adjoint::random {

// ---- Continuous: floating dtypes. A complex number is two real ones, for uniform and normal only.

// Uniform in [from, to).
void uniform(Generator& g, DType dtype, void* out, int64_t n, double from, double to);
// A complex normal has the variance std^2, half in each part.
void normal(Generator& g, DType dtype, void* out, int64_t n, double mean, double std,
            bool contiguous = true);
void exponential(Generator& g, DType dtype, void* out, int64_t n, double lambda);
void cauchy(Generator& g, DType dtype, void* out, int64_t n, double median, double sigma);
void log_normal(Generator& g, DType dtype, void* out, int64_t n, double mean, double std);

// ---- Discrete, in any dtype that is not complex.

// The number of trials up to the first success, from 1; not for bool.
void geometric(Generator& g, DType dtype, void* out, int64_t n, double p);
// 0 or 1 with one probability for all: also the mask of dropout, with p = 1 - rate.
void bernoulli(Generator& g, DType dtype, void* out, int64_t n, double p);
// 0 or 1 with a probability for each element, an array of n of a floating dtype.
void bernoulli(Generator& g, DType dtype, void* out, int64_t n, DType p_dtype, const void* p);
// Integers in [low, high); without high, from low up to the largest that the dtype holds exactly
// (and, with low = -2^63, all 64 bits; only int64, float32, float64 and bfloat16).
void random_from_to(Generator& g, DType dtype, void* out, int64_t n, int64_t low,
                    std::optional<int64_t> high);
// Integers in [0, the largest of the dtype], or [0, 2^digits] for floating dtypes.
void random_full(Generator& g, DType dtype, void* out, int64_t n);
// A permutation of 0 .. n-1; not for bool.
void randperm(Generator& g, DType dtype, void* out, int64_t n);

// Draw num_samples indices per row with probabilities proportional to probs[rows][n], row-major, of
// a floating dtype; out is [rows][num_samples]. `column_major`: the caller's matrix lies in memory
// column after column (probs is its row-major copy); its random numbers are then drawn in that
// order.
void multinomial(Generator& g, DType dtype, const void* probs, int64_t rows, int64_t n,
                 int64_t num_samples, bool replacement, int64_t* out, bool column_major = false);

// ---- With parameters of its own for each element, arrays of n of the same floating dtype:
// parametric.cpp.

// Gamma numbers of shape `alpha` and scale 1, at least the smallest normal number.
void gamma(Generator& g, DType dtype, void* out, int64_t n, const void* alpha);
// The number of events in a unit of time, at the given rates.
void poisson(Generator& g, DType dtype, void* out, int64_t n, const void* rate);
// The number of successes in `count` trials of the given probabilities; of 16- and 32-bit floats
// one in some hundred thousand may differ from PyTorch's, where the rounding of a bound decides.
void binomial(Generator& g, DType dtype, void* out, int64_t n, const void* count,
              const void* probability);

}  // namespace adjoint::random
