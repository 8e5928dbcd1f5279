"""`repr` of tensors, character for character against PyTorch, and the print options.

The same NumPy arrays become tensors on both sides; `same` compares what they print.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint._tensor import printing as _printing

torch = pytest.importorskip("torch")

REALS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.fixture(autouse=True)
def fresh_options() -> Iterator[None]:
    yield
    set_both(profile="default")


def set_both(**options: Any) -> None:
    ad.set_printoptions(**options)
    torch.set_printoptions(**options)


def make(module: Any, array: Any, dtype: str) -> Any:
    """The array as a tensor of `module`; through NumPy's own cast where NumPy has the dtype."""
    if dtype == "bfloat16":
        return module.tensor(np.asarray(array, np.float32)).to(module.bfloat16)
    with np.errstate(all="ignore"):
        return module.tensor(np.asarray(array).astype(np.dtype(dtype)))


def same(array: Any, dtype: str = "float32", change: Callable[[Any], Any] = lambda t: t) -> None:
    ours, theirs = change(make(ad, array, dtype)), change(make(torch, array, dtype))
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)


# ---------------------------------------------------------------------------------------------
# Values

finite = [0.0, -0.0, 1.0, -1.0, 0.1, 1e8, 99999999.0, 1e-4, 9.9999e-5, 1000.0, 999.99, 1000.5]
extreme = [9.99995, 99.99999, 1e-310, 65504.0, 1e30, 1e-30, math.inf, -math.inf, math.nan]
awkward = st.sampled_from([*finite, *extreme])
families = st.sampled_from(
    [
        lambda r, n, e: r.standard_normal(n) * 10.0**e,
        lambda r, n, e: np.floor(r.standard_normal(n) * 10.0 ** abs(e)),
        lambda r, n, e: r.standard_normal(n) * 10.0 ** r.integers(-30, 30, n),
        lambda r, n, e: np.where(r.random(n) < 0.5, r.standard_normal(n), r.integers(-3, 3, n)),
        lambda r, n, e: np.round(r.random(n) * 10.0 ** abs(e), abs(e) % 5),
        lambda r, n, e: r.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.0, 10.0**e], n),
    ]
)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 6, 7, 8, 30]), max_size=4))
    while math.prod(shape) > 3000:
        shape.pop()
    size = math.prod(shape)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))

    def part() -> Any:
        if size and draw(st.booleans()):
            return generator.choice(draw(st.lists(awkward, min_size=1, max_size=6)), size)
        return draw(families)(generator, size, draw(st.integers(-6, 9)))

    values = part()
    if draw(st.booleans()):
        values = values + 1j * part()
    return np.asarray(values).reshape(shape)


options = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 12),
        "threshold": st.sampled_from([0, 5, 20, 1000, math.inf]),
        "edgeitems": st.integers(0, 5),
        "linewidth": st.sampled_from([1, 20, 40, 80, 120, 300]),
        # In small letters: torch takes no notice of any other profile, where we raise or obey.
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    },
)


@settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(array=arrays(), dtype=st.sampled_from(REALS * 3 + COMPLEX * 3 + INTEGERS), chosen=options)
@pytest.mark.filterwarnings("ignore")  # casts of inf and nan, in NumPy
def test_random_tensors_print_as_in_torch(
    array: np.ndarray[Any, Any], dtype: str, chosen: dict[str, Any]
) -> None:
    set_both(profile="default")
    set_both(**chosen)
    if dtype not in COMPLEX:
        array = array.real
    if dtype in INTEGERS:
        array = np.nan_to_num(array, posinf=7, neginf=-7).clip(-1e18, 1e18)
    same(array, dtype)


@pytest.mark.parametrize("dtype", REALS + COMPLEX + INTEGERS)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0, 3), (1,), (2, 3), (1001,), (2, 3, 400)])
def test_every_dtype_and_kind_of_shape(dtype: str, shape: tuple[int, ...]) -> None:
    same((np.arange(math.prod(shape)) % 100).reshape(shape), dtype)


def test_strided_tensors_print_their_values_in_order() -> None:
    array = np.random.default_rng(0).standard_normal((40, 50))
    same(array, "float32", lambda t: t.transpose(0, 1))
    same(array, "float32", lambda t: t[::3, 5:9])
    same(array[0], "float64", lambda t: t.expand(30, 50))


# ---------------------------------------------------------------------------------------------
# What stands behind the values


@pytest.mark.parametrize("dtype", REALS + COMPLEX)
@pytest.mark.parametrize("size", [0, 3, 8, 9, 10, 11, 12, 100])
def test_history_is_shown(dtype: str, size: int) -> None:
    array = np.linspace(0, 1, size)
    same(array, dtype, lambda t: t.requires_grad_())
    same(array, dtype, lambda t: t.requires_grad_() * 2)
    same(array, dtype, lambda t: (t.requires_grad_() * 2).detach())
    same(array.reshape(1, size), dtype, lambda t: t.requires_grad_().exp())


def test_suffixes_break_the_line_where_torch_does() -> None:
    for width in range(20, 90):
        set_both(linewidth=width)
        same(np.arange(6.0) / 7, "float64", lambda t: t.requires_grad_() * 2)


@pytest.mark.parametrize("default", ["float32", "float64"])
@pytest.mark.parametrize("dtype", REALS + COMPLEX + INTEGERS)
def test_dtype_is_shown_unless_it_is_a_default(default: str, dtype: str) -> None:
    try:
        for module in (ad, torch):
            module.set_default_dtype(getattr(module, default))
        same(np.ones(2), dtype)
        same(np.ones((0, 2)), dtype)
        same(np.ones(0), dtype)
    finally:
        for module in (ad, torch):
            module.set_default_dtype(module.float32)


@pytest.mark.parametrize(
    ("dtype", "default", "empty", "evident"),
    [
        ("float32", "float32", False, True),
        ("float64", "float32", False, False),
        ("complex64", "float32", False, True),
        ("complex64", "float16", False, True),
        ("complex128", "float64", False, True),
        ("complex64", "float64", False, False),
        ("int64", "float32", False, True),
        ("int64", "float32", True, False),
        ("complex64", "float32", True, False),
    ],
)
def test_evident_dtypes(dtype: str, default: str, empty: bool, evident: bool) -> None:
    assert _printing._dtype_is_evident(dtype, default, empty) is evident


@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (2, 30)])
def test_parameters_and_subclasses_are_named(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).standard_normal(shape)
    for dtype in ("float32", "float64"):
        texts = []
        for module in (ad, torch):
            Quantity = type("Quantity", (module.Tensor,), {})
            Weight = type("Weight", (module.nn.Parameter,), {})
            t = make(module, array, dtype)
            variants = [
                module.nn.Parameter(t),
                module.nn.Parameter(t, requires_grad=False),
                t.as_subclass(Quantity),
                Weight(t),
            ]
            texts.append([repr(v) for v in variants] + [str(v) for v in variants])
        assert texts[0] == texts[1]


def test_given_contents_replace_the_values() -> None:
    for array in (np.ones(3), np.ones((0, 3)), np.array(1.0)):
        ours, theirs = make(ad, array, "float64"), make(torch, array, "float64")
        assert _printing.tensor_repr(ours, tensor_contents="...") == theirs.__repr__(
            tensor_contents="..."
        )


# ---------------------------------------------------------------------------------------------
# Options


def test_options_left_out_stay_except_sci_mode() -> None:
    ad.set_printoptions(precision=7, sci_mode=True)
    ad.set_printoptions(edgeitems=1)
    assert _printing.get_printoptions() == {
        "precision": 7,
        "threshold": 1000,
        "edgeitems": 1,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_a_profile_is_found_in_capitals_too() -> None:
    ad.set_printoptions(profile="FULL", edgeitems=0)
    assert _printing.get_printoptions()["threshold"] == math.inf
    assert repr(ad.zeros(2, 600)).count("0.") == 1200


def test_the_context_restores_the_options_on_errors_too() -> None:
    before = _printing.get_printoptions()
    with pytest.raises(ZeroDivisionError), _printing.printoptions(precision=1, sci_mode=True):
        assert repr(ad.tensor([1.25])) == "tensor([1.2e+00])"
        raise ZeroDivisionError
    assert _printing.get_printoptions() == before


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"profile": "long"}, ValueError, r"unknown profile 'long'; use one of 'default', 'short'"),
        ({"precision": -1}, ValueError, r"precision must not be negative, got -1"),
        ({"precision": 1.5}, TypeError, r"float"),
        ({"edgeitems": -1}, ValueError, r"edgeitems must not be negative, got -1"),
        ({"threshold": math.nan}, ValueError, r"threshold must not be negative, got nan"),
        ({"linewidth": "80"}, TypeError, r"str"),
    ],
)
def test_bad_options_are_refused_and_change_nothing(
    chosen: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = _printing.get_printoptions()
    with pytest.raises(error, match=message):
        ad.set_printoptions(**{"precision": 9, **chosen})
    assert _printing.get_printoptions() == before


def test_an_endless_line_is_accepted() -> None:
    ad.set_printoptions(linewidth=math.inf, threshold=math.inf)
    assert "\n" not in repr(ad.zeros(2000))


def test_large_tensors_are_read_only_where_shown() -> None:
    # A stride of 0 gives 10**12 elements that could not be read one by one.
    huge = ad.tensor([1.5]).expand(10**6, 10**6)
    start = time.perf_counter()
    assert repr(huge).count("1.5000") == 36
    assert time.perf_counter() - start < 1.0
