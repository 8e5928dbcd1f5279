// Logic of truth values and of bits, elementwise. None has a derivative.
#include "dispatch/op.h"

namespace adjoint {

static const Op& logical_and_ = def("logical_and(input, other)", "Whether both are nonzero.")
                                    .elementwise("logical_and")
                                    .inplace();
static const Op& logical_or_ = def("logical_or(input, other)", "Whether either is nonzero.")
                                   .elementwise("logical_or")
                                   .inplace();
static const Op& logical_xor_ =
    def("logical_xor(input, other)", "Whether exactly one of the two is nonzero.")
        .elementwise("logical_xor")
        .inplace();
static const Op& logical_not_ =
    def("logical_not(input)", "Whether an element is zero.").elementwise("logical_not").inplace();

static const Op& bitwise_and_ =
    def("bitwise_and(input: Operand, other: Operand)", "`input & other` of integers or bools.")
        .elementwise("bitwise_and")
        .inplace();
static const Op& bitwise_or_ =
    def("bitwise_or(input: Operand, other: Operand)", "`input | other` of integers or bools.")
        .elementwise("bitwise_or")
        .inplace();
static const Op& bitwise_xor_ =
    def("bitwise_xor(input: Operand, other: Operand)", "`input ^ other` of integers or bools.")
        .elementwise("bitwise_xor")
        .inplace();
static const Op& bitwise_not_ = def("bitwise_not(input)", "`~input` of integers or bools.")
                                    .elementwise("bitwise_not")
                                    .inplace();
static const Op& bitwise_left_shift_ =
    def("bitwise_left_shift(input: Operand, other: Operand)",
        "`input << other` of integers; bits beyond the width are lost.")
        .elementwise("bitwise_left_shift")
        .inplace();
static const Op& bitwise_right_shift_ = def("bitwise_right_shift(input: Operand, other: Operand)",
                                            "`input >> other` of integers; the sign is kept.")
                                            .elementwise("bitwise_right_shift")
                                            .inplace();

}  // namespace adjoint
