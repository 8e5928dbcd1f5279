"""Sample inputs of every op: the table that the generated tests in this folder run over.

To add an op, add its line here and its reference in `references.py`. `spec.py` says what the words
mean; every sample is also run strided. `pointwise` and `reduced` spell out the broadcast, 0-d,
empty and dim/keepdim variants once, for all. `samples_shape.py` continues the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.ops.samples_activation import ACTIVATIONS
from tests.ops.samples_arranging import ARRANGING
from tests.ops.samples_linalg import LINALG
from tests.ops.samples_order import ORDER
from tests.ops.samples_scatter import PLACES
from tests.ops.samples_shape import SHAPE_OPS
from tests.ops.samples_statistics import STATISTICS
from tests.ops.spec import Arr, Op, Sample

Domain = Callable[..., Arr]


def domain(low: float, high: float, *avoid: float) -> Domain:
    return lambda *shape: Arr(shape, low, high, avoid)


real = domain(-2, 2)
positive = domain(0.3, 3)
off_zero = domain(-2, 2, 0.0)
unit = domain(-0.9, 0.9)
fraction = domain(0.1, 0.9)
above_one = domain(1.2, 4)
off_halves = domain(-3, 3, *(k / 2 for k in range(-6, 7)))
off_bounds = domain(-3, 3, 1.0, 2.0)
shift = domain(0, 6)


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


# Shapes of one, two and three broadcast arguments. 67 fills vector registers and leaves a tail.
SHAPES: dict[int, list[list[tuple[int, ...]]]] = {
    1: [[(2, 3)], [()], [(0, 3)], [(67,)], [(2, 1, 2, 1, 2, 1, 2)]],
    2: [
        [(2, 3), (2, 3)],
        [(2, 3), (3,)],
        [(2, 1), (1, 3)],
        [(3,), (2, 2, 1)],
        [(), ()],
        [(2, 3), ()],
        [(), (3,)],
        [(0, 3), (3,)],
        [(67,), (67,)],
        [(67,), (1,)],
    ],
    3: [
        [(2, 3), (2, 3), (2, 3)],
        [(2, 3), (3,), (2, 1)],
        [(), (), ()],
        [(0, 3), (3,), ()],
        [(35,), (35,), (35,)],
    ],
}


def pointwise(*domains: Domain, **kwargs: Any) -> list[Sample]:
    """The same call over every set of shapes that broadcast."""
    return [
        Sample(tuple(d(*s) for d, s in zip(domains, shapes, strict=True)), kwargs)
        for shapes in SHAPES[len(domains)]
    ]


def reduced(
    values: Domain = real, *, several: bool = True, whole: bool = True, zero: bool = True, **kw: Any
) -> list[Sample]:
    """Over each kind of `dim`: `several` axes at once, the `whole` tensor, and `zero` elements."""
    dims: list[Any] = [0, 1, -1] + ([(0, 2), (-1, 0, 1)] if several else [])
    samples = [S(values(2, 3, 4), dim=d, **kw) for d in dims]
    samples += [S(values(2, 3, 4), dim=d, keepdim=True, **kw) for d in dims]
    samples += [
        S(values(), dim=0, **kw),
        S(values(0, 3), dim=1, **kw),
        S(values(3, 37), dim=1, **kw),
    ]
    samples += [S(values(37, 3), dim=0, **kw)]
    if whole:
        samples += [S(values(2, 3, 4), **kw), S(values(), **kw), S(values(67), **kw)]
    if zero:
        samples += [S(values(0, 3), dim=0, **kw)]
    return samples


# Samples of a reduction in which some runs have a NaN.
NANS = [S(Arr((3, 4), nans=(1, 6, 7)), **how) for how in ({}, {"dim": 1}, {"dim": 0})]


def along(values: Domain = real, **kw: Any) -> list[Sample]:
    """Ops that keep the shape and work along one axis."""
    cases = [(values(2, 3, 4), d) for d in (0, 1, -1)] + [(values(), 0), (values(0, 3), 1)]
    return [S(v, dim=d, **kw) for v, d in [*cases, (values(3, 37), 1), (values(37, 3), 0)]]


def curve(name: str, values: Domain, dtypes: str = "bifhc", ulps: float = 4, **more: Any) -> Op:
    """A transcendental function of one argument; integers give floats."""
    samples = more.pop("samples", None) or pointwise(values)
    return Op(
        name,
        samples,
        dtypes,
        "float",
        inplace=not more.get("path"),
        pointwise=True,
        ulps=ulps,
        **more,
    )


def binary(name: str, left: Domain, right: Domain, dtypes: str, **more: Any) -> Op:
    """An op on two broadcast tensors, or on a tensor and each Python number of `scalars`."""
    scalars = more.pop("scalars", (2, 0.5))
    samples = pointwise(left, right) + [S(left(2, 3), s) for s in scalars]
    more.setdefault("inplace", True)
    return Op(name, samples + more.pop("extra", []), dtypes, pointwise=True, **more)


whole_numbers = partial(binary, scalars=(3,), diff=False)  # bit and truth operations
F = "nn.functional."
INF = float("inf")
MASK = np.array([[True, False, True], [False, False, True]])

# fmt: off
OPS_LIST: list[Op] = [
    # Arithmetic. Sums, products and quotients of two numbers are rounded once: half an ULP.
    binary("add", real, real, "bifhc", extra=[S(real(2, 3), real(3), alpha=2)]),
    binary("sub", real, real, "ifhc", extra=[S(real(2, 3), real(3), alpha=2)]),
    binary("mul", real, real, "bifhc", ulps=0.5),
    binary("div", real, off_zero, "bifhc", out="float", ulps=0.5),
    binary("true_divide", real, off_zero, "bifhc", out="float", ulps=0.5),
    Op(
        "div_rounded",
        [
            *pointwise(domain(-5, 5), off_zero, rounding_mode="floor"),
            *pointwise(domain(-5, 5), off_zero, rounding_mode="trunc"),
        ],
        "if",
        path="div",
        method=False,
        pointwise=True,
    ),
    binary("floor_divide", domain(-5, 5), off_zero, "ifh", diff=False),
    binary("remainder", domain(-5, 5), off_zero, "ifh", ulps=1),
    binary("fmod", domain(-5, 5), off_zero, "ifh", ulps=1),
    binary(
        "pow", positive, real, "fhc", ulps=4,
        extra=[S(off_zero(2, 3), 3), S(real(2, 3), 2), S(real(2, 3), 0), S(2.0, real(2, 3))],
    ),
    Op(
        "pow_integers", [S(real(2, 3), 3), S(real(67), 2), S(real(), 0)], "i",
        path="pow", method=False,
    ),
    Op("neg", pointwise(real), "ifhc", inplace=True, pointwise=True),
    Op("abs", pointwise(off_zero), "ifhc", "real", inplace=True, pointwise=True, ulps=2),
    Op("sign", pointwise(off_zero), "bifh", inplace=True, pointwise=True),
    curve("reciprocal", off_zero, ulps=0.5),
    Op("square", pointwise(real), "ifhc", inplace=True, pointwise=True, ulps=0.5),
    Op(
        "addcmul", pointwise(real, real, real) + pointwise(real, real, real, value=2), "ifhc",
        inplace=True, pointwise=True, ulps=8, terms=4,
    ),
    Op(
        "addcdiv",
        pointwise(real, real, off_zero) + pointwise(real, real, off_zero, value=0.5),
        "fhc", inplace=True, pointwise=True, ulps=8, terms=4,
    ),
    Op(
        "lerp", [*pointwise(real, real, real), S(real(2, 3), real(3), 0.25)],
        "fhc", inplace=True, pointwise=True, ulps=8, terms=4,
    ),
    # Functions of one argument.
    curve("exp", real), curve("expm1", real), curve("exp2", real),
    curve("log", positive), curve("log1p", positive), curve("log2", positive),
    curve("log10", positive), curve("sqrt", positive), curve("rsqrt", positive),
    curve("sin", real), curve("cos", real), curve("tan", domain(-1.2, 1.2)),
    curve("asin", unit), curve("acos", unit), curve("atan", real),
    curve("sinh", real), curve("cosh", real), curve("tanh", real),
    curve("asinh", real), curve("acosh", above_one), curve("atanh", unit),
    curve("sigmoid", real), curve("erf", real, "bifh"), curve("erfc", real, "bifh", ulps=8),
    curve("erfinv", unit, "bifh", ulps=8),
    curve("lgamma", positive, "bifh", ulps=32, terms=1),
    curve("digamma", positive, "bifh", ulps=32, terms=1),
    curve(
        "logit", fraction, "f", ulps=8, terms=1,
        samples=[*pointwise(fraction), S(fraction(5), eps=0.3)],
    ),
    curve(
        "softplus", real, "fh", path=F + "softplus", method=False,
        samples=[*pointwise(real), S(real(7), beta=2.0, threshold=1.5)],
    ),
    binary("atan2", off_zero, off_zero, "bifh", out="float", ulps=4, scalars=()),
    binary("hypot", off_zero, off_zero, "fh", ulps=4, scalars=()),
    *(binary(n, real, real, "fh", ulps=4, terms=1, scalars=(), inplace=False)
      for n in ("logaddexp", "logaddexp2")),
    binary("xlogy", real, positive, "bifh", out="float", ulps=4, scalars=(2, 0.5)),
    binary("float_power", positive, real, "bif", out="float64", ulps=4),
    Op("sgn", pointwise(off_zero), "bifhc", inplace=True, pointwise=True, ulps=4),
    Op("angle", pointwise(off_zero), "fhc", "real", pointwise=True, ulps=4),
    binary("rsub", real, real, "ifhc", method=False, inplace=False,
           extra=[S(real(2, 3), real(3), alpha=2)]),
    curve("i0", domain(-4, 4), "bifh", ulps=2),
    *(curve("special_" + n, domain(-4, 4), "bifh", ulps=2, path="special." + n, method=False)
      for n in ("i0e", "i1", "i1e")),
    binary("ldexp", real, domain(-4, 4), "bifc", out="float", ulps=4, scalars=()),
    curve("sinc", off_zero, "bifh", ulps=16, terms=1),
    curve("deg2rad", real, "bifh", ulps=2), curve("rad2deg", real, "bifh", ulps=2),
    Op(
        "polygamma", [S(n, positive(2, 3)) for n in (0, 1, 2, 3)] + [S(2, positive(67))], "f",
        method=False, ulps=64,
    ),
    # Rounding, choosing, clamping.
    *(
        Op(name, pointwise(off_halves), "ifh", inplace=True, pointwise=True)
        for name in ("floor", "ceil", "trunc", "round")
    ),
    Op(
        "round_decimals", [S(off_halves(67), decimals=1), S(real(5), decimals=-1)], "f",
        path="round", method=False, diff=False, ulps=1,
    ),
    Op("frac", pointwise(off_halves), "fh", inplace=True, pointwise=True),
    Op(
        "clamp",
        [
            *pointwise(off_bounds, min=1, max=2), S(off_bounds(5), min=1), S(off_bounds(5), max=2),
            *pointwise(real, domain(-1, 0), domain(0, 1)), S(real(2, 3), max=domain(0, 1)(3)),
        ],
        "ifh", inplace=True, pointwise=True,
    ),
    *(
        Op(name, pointwise(real, real), "bifh", pointwise=True)
        for name in ("minimum", "maximum", "fmin", "fmax")
    ),
    Op(
        "where",
        [
            S(MASK, real(2, 3), real(2, 3)), S(MASK, real(3), real(2, 1)), S(MASK, real(), real(3)),
            S(np.array(True), real(2), real(2)), S(np.zeros((0, 3), bool), real(3), real()),
            S(MASK, real(2, 3), 0), S(MASK, 1, real(2, 3)),
        ],
        "ifhc", method=False,
    ),
    *(binary(n, real, real, "ifh") for n in ("clamp_min", "clamp_max")),
    binary("copysign", off_zero, off_zero, "bifh", out="float"),
    binary("heaviside", real, real, "bifh", scalars=(), diff=False),
    binary("nextafter", real, real, "f", scalars=()),
    *(whole_numbers(n, domain(-9, 9), domain(-9, 9), "i", scalars=()) for n in ("gcd", "lcm")),
    # Questions.
    *(binary(n, real, real, "bifhc", out="bool", diff=False) for n in ("eq", "ne")),
    *(
        binary(n, real, real, "bifh", out="bool", diff=False)
        for n in ("lt", "le", "gt", "ge")
    ),
    *(
        whole_numbers(n, real, real, "bifhc", out="bool", scalars=())
        for n in ("logical_and", "logical_or", "logical_xor")
    ),
    Op(
        "logical_not", pointwise(real), "bifhc", "bool", diff=False, inplace=True, pointwise=True,
    ),
    *(whole_numbers(f"bitwise_{n}", shift, shift, "bi") for n in ("and", "or", "xor")),
    Op("bitwise_not", pointwise(shift), "bi", diff=False, inplace=True, pointwise=True),
    whole_numbers("bitwise_left_shift", shift, domain(0, 3), "i"),
    whole_numbers("bitwise_right_shift", shift, domain(0, 3), "i"),
    *(
        Op(n, pointwise(real), "bifhc", "bool", diff=False, pointwise=True)
        for n in ("isnan", "isinf", "isfinite")
    ),
    *(
        Op(n, pointwise(real), "bifh", "bool", diff=False, pointwise=True)
        for n in ("isposinf", "isneginf", "signbit")
    ),
    Op("isreal", pointwise(real), "bifhc", "bool", diff=False, pointwise=True),
    binary("isclose", real, real, "ifc", out="bool", diff=False, scalars=(), inplace=False),
    Op("nan_to_num", pointwise(real), "bifh", inplace=True, pointwise=True),
    # Complex numbers and their parts.
    Op("conj_physical", pointwise(real), "bifhc", inplace=True, pointwise=True),
    Op("complex", pointwise(real, real), "f", "complex", method=False),
    Op("polar", pointwise(positive, real), "f", "complex", method=False, ulps=4),
    Op("view_as_real", pointwise(real), "c", "real", method=False),
    # Reductions.
    Op("sum", reduced() + NANS, "bifhc", "sum", ulps=16),
    Op("mean", reduced(zero=False) + NANS, "fhc", ulps=16),
    Op("prod", reduced(several=False), "bifhc", "sum", ulps=64),
    *(Op(name, reduced(zero=False) + NANS, "bifh") for name in ("amax", "amin")),
    *(
        Op(n, reduced(several=False, zero=False) + pointwise(real, real) + NANS, "bifh")
        for n in ("max", "min")
    ),
    *(
        Op(n, reduced(several=False, zero=False) + NANS, "ifh", "long", diff=False)
        for n in ("argmax", "argmin")
    ),
    # A variance of one element is NaN with a warning, hence the shapes of their own.
    *(
        Op(
            name,
            [
                S(real(2, 3, 4)), S(real(2, 3, 4), dim=1),
                S(real(2, 3, 4), dim=(0, 2), keepdim=True),
                S(real(2, 3, 4), dim=-1, correction=0), S(real(5), unbiased=False), S(real(67)),
                S(real(37, 3), dim=0),
            ],
            "fhc", "real", ulps=32,
        )
        for name in ("std", "var")
    ),
    Op(
        "norm",
        [
            *reduced(off_zero, zero=False, several=False), *reduced(off_zero, zero=False, p=1),
            *(S(off_zero(3, 5), p=p, dim=1) for p in (2, 3, 0.5, INF, -INF, "fro")),
        ],
        "fhc", "real", ulps=32,
    ),
    Op("norm_zero", [S(off_zero(3, 5), p=0, dim=1)], "fh", path="norm", method=False, diff=False),
    Op("logsumexp", [s for s in reduced() if "dim" in s.kwargs], "ifhc", "float", ulps=32),
    Op("cumsum", along(), "bifhc", "sum", inplace=True, ulps=32),
    Op("cumprod", along(), "bifhc", "sum", inplace=True, ulps=64),
    Op("all", reduced(), "bifhc", "truth", diff=False),
    Op("any", reduced(), "bifhc", "truth", diff=False),
    Op(
        "count_nonzero", [s for s in reduced() if "keepdim" not in s.kwargs], "bifhc", "long",
        diff=False,
    ),
    *SHAPE_OPS,
    *ARRANGING,
    *ACTIVATIONS,
    *ORDER,
    *PLACES,
    *STATISTICS,
    *LINALG,
]
# fmt: on
OPS: dict[str, Op] = {op.name: op for op in OPS_LIST}
