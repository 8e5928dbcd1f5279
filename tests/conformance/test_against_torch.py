"""Every op and sample against torch, where it is installed: value, dtype, shape, gradient, error
class.

`test_promotion.py` beside it compares the result dtypes of all pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.compare import assert_close
from tests.ops.references import wide
from tests.ops.samples import OPS
from tests.ops.spec import DTYPES, Op, Sample, dtype_name, outputs, to_library, to_numpy

torch = pytest.importorskip("torch")

# What torch says of itself: deprecations, functions in beta.
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*Triggered internally:UserWarning")
# Where the package opt_einsum is installed, it would raise its own errors for torch.
torch.backends.opt_einsum.enabled = False


def call(library: Any, op: Op, sample: Sample, dtype: str) -> list[Any]:
    converted = sample.map(lambda a: to_library(a, library, dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations are not ours
        return outputs(op.function(library)(*converted.args, **converted.kwargs))


def within(op: Op, dtype: str) -> float:
    """Both libraries may be off by the op's own error, in opposite directions."""
    factor = 4 if dtype.startswith("complex") else 1
    return 0.0 if op.ulps == 0 else max(2.0, 2 * factor * op.ulps)


# torch is the less exact one here, so that its values say nothing about ours: its trigamma is off
# by 1e-10 in float64, and it multiplies halves in half precision, where ours rounds once at the
# end. Some constants of its activations are floats (1/6, 1/alpha). tests/ops compares both with
# references that are exact enough.
INEXACT_IN_TORCH = {("polygamma", "float64"), ("prod", "float16"), ("prod", "bfloat16")}
INEXACT_GRADIENT = {"digamma", "polygamma", "celu", "hardsigmoid", "linalg_matrix_exp"}
# A sample of exponentials is ill-conditioned: in single precision digits are lost in both.
TOO_SHORT = {("linalg_matrix_exp", "float32"), ("linalg_matrix_exp", "complex64")}


# Special functions of which torch has a few digits, or none in 16 bits (mpmath is their reference:
# test_special_errors.py), and one that it has of real numbers only.
LESS_IN_TORCH = {
    "special_spherical_bessel_j0",
    *("logaddexp2_of_complex", "special_airy_ai", "special_bessel_j0", "special_bessel_j1"),
    *("special_bessel_y0", "special_bessel_y1", "special_chebyshev_polynomial_t"),
    *("special_chebyshev_polynomial_u", "special_chebyshev_polynomial_v"),
    *("special_chebyshev_polynomial_w", "special_erfcx", "special_hermite_polynomial_h"),
    *("special_hermite_polynomial_he", "special_laguerre_polynomial_l"),
    *("special_legendre_polynomial_p", "special_log_ndtr", "special_modified_bessel_k0"),
    *("special_modified_bessel_k1", "special_ndtr", "special_ndtri"),
    *("special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"),
    *("special_shifted_chebyshev_polynomial_t", "special_shifted_chebyshev_polynomial_u"),
    *("special_shifted_chebyshev_polynomial_v", "special_shifted_chebyshev_polynomial_w"),
}


@pytest.mark.parametrize("name", [n for n in OPS if n not in LESS_IN_TORCH])
def test_value_dtype_and_shape_are_those_of_torch(name: str) -> None:
    op = OPS[name]
    for dtype in (d for d in op.letters("bifhc") if (name, d) not in INEXACT_IN_TORCH):
        for label, sample in op.drawn(dtype):
            got, want = call(ad, op, sample, dtype), call(torch, op, sample, dtype)
            assert [dtype_name(t) for t in got] == [dtype_name(t) for t in want], label
            for ours, theirs in zip(got, want, strict=True):
                values = wide(to_numpy(theirs))
                assert_close(ours, values, within(op, dtype), op.cancelling, label)


def gradients(library: Any, op: Op, sample: Sample, dtype: str) -> list[Any]:
    """Gradients of the squared norm of the outputs, for every floating-point argument."""
    leaves: list[Any] = []

    def leaf(a: Any) -> Any:
        tensor = to_library(a, library, dtype)
        if isinstance(a, np.ndarray) and a.dtype.kind in "fc":
            leaves.append(tensor.requires_grad_())
        return tensor

    fixed = {k: to_library(v, library) for k, v in sample.kwargs.items() if k in op.constants}
    varied = {k: v for k, v in sample.kwargs.items() if k not in op.constants}
    converted = Sample(sample.args, varied).map(leaf)
    results = outputs(op.function(library)(*converted.args, **converted.kwargs, **fixed))
    ys = [y for y in results if y.requires_grad]
    if not ys:
        return []
    cotangents = [y.detach() * 2 for y in ys]
    found = library.autograd.grad(ys, leaves, cotangents, allow_unused=True)
    return [None if g is None else to_numpy(g) for g in found]


# In torch 2.13 the gradient of as_strided_scatter keeps what was overwritten and drops the rest,
# and that of vander fails on a change in place of its own; differences say what is right.
# native_channel_shuffle has none.
WRONG_IN_TORCH = {"as_strided_scatter", "vander", "native_channel_shuffle"}
# Those of cholesky_solve and cholesky_inverse reach into the triangle that is not read, that of
# cond fails like vander's, and special functions have none.
WRONG_IN_TORCH |= {"cholesky_inverse", "cholesky_solve", "linalg_cond", "silu_of_complex"}
WRONG_IN_TORCH |= LESS_IN_TORCH


@pytest.mark.filterwarnings("ignore:Using torch.cross without:UserWarning")
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize(
    "name", [n for n, op in OPS.items() if op.diff and n not in WRONG_IN_TORCH]
)
def test_gradients_are_those_of_torch(name: str) -> None:
    """Also at float32, where finite differences cannot tell much."""
    op = OPS[name]
    for dtype in (d for d in op.letters("fc") if (name, d) not in TOO_SHORT):
        # A gradient takes some ten roundings and is compared relative to the largest of its array.
        rtol = 256 * (2.0**-23 if dtype in ("float32", "complex64") else 2.0**-52)
        if name in INEXACT_GRADIENT:
            rtol = max(rtol, 1e-7)
        for label, sample in list(op.drawn(dtype))[::2]:
            got = gradients(ad, op, sample, dtype)
            want = gradients(torch, op, sample, dtype)
            assert len(got) == len(want), label
            for ours, theirs in zip(got, want, strict=True):
                assert (ours is None) == (theirs is None), f"{label}: {ours} for {theirs}"
                if theirs is not None and theirs.size:
                    scale = max(1.0, float(np.max(np.abs(theirs))))
                    np.testing.assert_allclose(ours, theirs, rtol, rtol * scale, err_msg=label)


IN_PLACE = [n for n, op in OPS.items() if op.inplace and hasattr(torch.Tensor, n + "_")]


def edited(library: Any, op: Op, sample: Sample, dtype: str) -> Any:
    target, *rest = sample.map(lambda a: to_library(a, library, dtype)).args
    return getattr(target, op.name + "_")(*rest, **sample.kwargs)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_give_and_refuse_what_those_of_torch_do(name: str) -> None:
    """In every dtype, also where the result of the op has another one."""
    op = OPS[name]
    for dtype in (d for d in op.letters("bifhc") if (name, d) not in INEXACT_IN_TORCH):
        for label, sample in op.drawn(dtype):
            first = sample.args[0]
            # A running sum of one truth value or none is nothing to do; torch looks no further.
            if not isinstance(first, np.ndarray) or (dtype == "bool" and first.size < 2):
                continue
            theirs = error_of(partial(edited, torch, op, sample, dtype))
            if theirs is not None:
                ours = error_of(partial(edited, ad, op, sample, dtype))
                assert same_error(ours, theirs), f"{label}: {ours}, torch {theirs}"
                continue
            want = edited(torch, op, sample, dtype)
            if tuple(want.shape) != first.shape:  # addbmm_, which grows its tensor
                assert error_of(partial(edited, ad, op, sample, dtype)) is RuntimeError, label
                continue
            got = edited(ad, op, sample, dtype)
            assert dtype_name(got) == dtype_name(want), label
            values = wide(to_numpy(want))
            assert_close(got, values, within(op, dtype), op.cancelling, label)


def oddly_shaped(arg: Any) -> Any:
    """A tuple stays one: adjoint's functions take one int for a list of one, as its methods do,
    where some of torch's functions insist on a tuple.
    """
    if isinstance(arg, np.ndarray):
        return np.ones((7, 5, 3), np.float32)
    listed = isinstance(arg, tuple | list) and all(isinstance(a, int) for a in arg)
    return (10**6,) if listed else 10**6


def spoiled(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """Variations of a call that are mostly errors."""
    args, kwargs = sample.args, sample.kwargs
    yield "an unknown keyword", Sample(args, {**kwargs, "bogus": 1})
    yield "an argument too many", Sample((*args, 1, 2, 3, 4, 5), kwargs)
    yield "no argument", Sample((), kwargs)
    if "dim" in kwargs:
        yield "dim out of range", Sample(args, {**kwargs, "dim": 99})
        yield "dim of the wrong type", Sample(args, {**kwargs, "dim": "first"})
    for i, arg in enumerate(args):
        swapped = [
            ("a string", "text"),
            ("None", None),
            ("an odd shape", oddly_shaped(arg)),
            ("a list of strings", ["a"]),
        ]
        for what, value in swapped:
            yield f"{what} as argument {i}", Sample((*args[:i], value, *args[i + 1 :]), kwargs)


def error_of(run: Callable[[], Any]) -> type[BaseException] | None:
    try:
        run()
    except Exception as error:  # the class is what is compared
        return type(error)
    return None


def same_error(ours: type[BaseException] | None, theirs: type[BaseException] | None) -> bool:
    """The class a script written for torch would catch."""
    if theirs is None or ours is None:
        return ours is theirs
    expected = next(c for c in theirs.__mro__ if c.__module__ == "builtins")
    if expected is AttributeError:  # torch's Python wrappers call methods of what is not a tensor
        return issubclass(ours, AttributeError | TypeError)
    if expected is NotImplementedError:  # torch's word for a dtype without a kernel
        expected = RuntimeError
    return issubclass(ours, expected)


PRIVATE = ("_fft_c2c", "_fft_r2c", "_fft_c2r")  # checked by those who call them


# What torch's own Python stumbles over: letters of a string as sizes, say. Here it is a TypeError.
STUMBLED = {"max_unpool1d", "max_unpool2d", "lp_pool2d", "lp_pool3d"}
STUMBLED |= {f"adaptive_{kind}_pool{n}d" for kind in ("avg", "max") for n in (2, 3)}
# None for the axes is all of them; torch takes no such call. Of complex numbers torch has none, or
# takes shapes that do not broadcast.
STUMBLED |= {"unfold_windows"}  # one number for all axes may stand in a tuple here
STUMBLED |= {"lu_unpack"}  # factors and pivots of other shapes, which it reads past their end
STUMBLED |= {"nuclear_norm", "logaddexp2_of_complex", "rms_norm_of_complex"}


@pytest.mark.parametrize("name", [n for n in OPS if n not in (*PRIVATE, *STUMBLED)])
def test_bad_calls_raise_the_class_that_torch_raises(name: str) -> None:
    op = OPS[name]
    dtype = op.letters("fibc")[0]
    failures = []
    for sample in op.samples[:3]:
        for what, bad in spoiled(sample.draw(dtype, name)):
            theirs = error_of(partial(call, torch, op, bad, dtype))
            ours = error_of(partial(call, ad, op, bad, dtype))
            # squeeze takes several axes by position here, so one too many is an axis out of range.
            several_axes = name == "squeeze" and what == "an argument too many"
            if not several_axes and not same_error(ours, theirs):
                failures.append(f"{name}({sample}) with {what}: {ours}, torch {theirs}")
    assert not failures, "\n".join(failures)


MORE_DTYPES_HERE = {
    *("avg_pool3d", "lp_pool3d", "special_zeta"),  # of 16-bit floats
    *("igamma", "igammac", "igamma_by_x", "igammac_by_x", "mvlgamma"),  # of truth values
    "logaddexp2",  # of complex numbers
    "convolution",  # of complex numbers, which torch splits in conv1d to conv3d only
    "interpolate_lanczos",  # of 16-bit floats
    "local_response_norm",  # of integers: torch has no means of them
}


@pytest.mark.parametrize("name", [n for n in OPS if n not in MORE_DTYPES_HERE])
def test_dtypes_outside_the_table_are_refused_or_accepted_as_by_torch(name: str) -> None:
    op = OPS[name]
    sample = op.samples[0]
    for dtype in (d for letter in DTYPES if letter not in op.dtypes for d in DTYPES[letter]):
        drawn = sample.draw(dtype, name)
        theirs = error_of(partial(call, torch, op, drawn, dtype))
        ours = error_of(partial(call, ad, op, drawn, dtype))
        if theirs is not None:
            assert same_error(ours, theirs), f"{name} in {dtype}: {ours}, torch {theirs}"
