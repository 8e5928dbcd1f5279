"""`finfo` and `iinfo` against PyTorch: figures, printed forms, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOAT_FIGURES = ["bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny"]


def same_figures(ours: Any, theirs: Any, names: list[str]) -> None:
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (name, type(mine), mine) == (name, type(other), other)
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("name", FLOATS)
def test_finfo_has_torchs_figures(name: str) -> None:
    same_figures(ad.finfo(getattr(ad, name)), torch.finfo(getattr(torch, name)), FLOAT_FIGURES)


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo_has_torchs_figures(name: str) -> None:
    figures = ["bits", "dtype", "max", "min"]
    same_figures(ad.iinfo(getattr(ad, name)), torch.iinfo(getattr(torch, name)), figures)


def test_finfo_without_argument_is_that_of_the_default_dtype() -> None:
    assert ad.finfo() == ad.finfo(type=ad.get_default_dtype())


def test_equality_is_that_of_the_dtype() -> None:
    assert ad.finfo(ad.complex64) == ad.finfo(ad.float32) != ad.finfo(ad.float64)
    assert ad.iinfo(ad.int8) == ad.iinfo(ad.int8) != ad.iinfo(ad.uint8)
    assert ad.finfo(ad.float32) != "float32"


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: m.finfo(m.int32), r"requires a floating point input type.*torch\.int32.*iinfo"),
    (lambda m: m.finfo(m.bool), r"requires a floating point input type"),
    (lambda m: m.finfo(None), r"argument 'type' \(position 1\) must be .*dtype, not NoneType"),
    (lambda m: m.finfo("float32"), r"must be .*dtype, not str"),
    (lambda m: m.iinfo(m.float32), r"requires an integer input type.*torch\.float32.*finfo"),
    (lambda m: m.iinfo(m.complex64), r"requires an integer input type"),
    (lambda m: m.iinfo(m.bool), r"bool is not supported by .*iinfo"),
    (lambda m: m.iinfo(3), r"must be .*dtype, not int"),
    (lambda m: m.iinfo(), r"missing 1 required positional argument"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_wrong_kinds_are_type_errors(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError):
        call(torch)
    with pytest.raises(TypeError, match=message):
        call(ad)


def test_figures_are_read_only() -> None:
    info: Any = ad.finfo(ad.float32)
    with pytest.raises(AttributeError, match=r"'eps'.*not writable"):
        info.eps = 1.0


def test_constants_are_those_of_the_math_module() -> None:
    assert (ad.pi, ad.e, ad.inf, ad.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(ad.nan)
    assert ad.zeros(2)[:, ad.newaxis].shape == (2, 1)


@pytest.mark.parametrize("number", [float, complex])
def test_finfo_takes_pythons_numbers(number: type) -> None:
    same_figures(ad.finfo(number), torch.finfo(number), FLOAT_FIGURES)


def test_iinfo_takes_pythons_int() -> None:
    assert ad.iinfo(int).max == torch.iinfo(int).max and ad.iinfo(int).dtype == "int64"


@pytest.mark.parametrize("call", ["finfo(int)", "finfo(bool)", "iinfo(float)", "iinfo(bool)"])
def test_limits_of_the_other_kind_of_number_are_refused(call: str) -> None:
    for library in (torch, ad):
        with pytest.raises(TypeError):
            eval(f"library.{call}", {"library": library})
