"""Bad input, drawn by hypothesis: torch's exception class, a message that names the values, and
nothing half changed. tests/conformance compares the classes with torch's op by op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import to_numpy

drawn = settings(max_examples=60, deadline=None, derandomize=True)
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
BINARY = [
    n for n, op in OPS.items() if op.pointwise and len(op.samples[0].args) == 2 and not op.path
]
# Not unsqueeze, which has a place more than there are axes.
WITH_DIM = [
    n
    for n, op in OPS.items()
    if not op.path and n != "unsqueeze" and any("dim" in s.kwargs for s in op.samples)
]


def broadcastable(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


@drawn
@given(st.sampled_from(BINARY), shapes, shapes)
def test_shapes_that_do_not_broadcast_are_named(name: str, a: Any, b: Any) -> None:
    assume(not broadcastable(a, b))
    kind = ad.float32 if "f" in OPS[name].dtypes else ad.int64
    x, y = ad.ones(a, dtype=kind), ad.ones(b, dtype=kind)
    with pytest.raises(RuntimeError, match=r"(?i)size|shape|broadcast") as caught:
        getattr(ad, name)(x, y)
    sizes = [(m, n) for m, n in zip(a[::-1], b[::-1], strict=False) if m != n and 1 not in (m, n)]
    assert any(str(m) in str(caught.value) and str(n) in str(caught.value) for m, n in sizes)
    if OPS[name].inplace:
        with pytest.raises(RuntimeError):
            getattr(x, name + "_")(y)
        assert x._version == 0 and (x == 1).all()


@drawn
@given(st.sampled_from(WITH_DIM), shapes, st.integers(-9, 9))
def test_a_dim_out_of_range_is_named(name: str, shape: Any, dim: int) -> None:
    rank = max(len(shape), 1)
    assume(not -rank <= dim < rank and (shape or name != "diff"))  # it refuses 0-d at once
    sample = next(
        s for s in OPS[name].samples if "dim" in s.kwargs and isinstance(s.kwargs["dim"], int)
    )
    assume(len(sample.args) == 1 and not isinstance(sample.args[0], list))
    x = ad.ones(shape)
    with pytest.raises(IndexError, match=str(dim)) as caught:
        getattr(ad, name)(x, **{**sample.kwargs, "dim": dim})
    assert str(rank - 1) in str(caught.value) or "no dimensions" in str(caught.value)


@drawn
@given(shapes, shapes)
def test_matrix_products_name_the_shapes(a: Any, b: Any) -> None:
    x, y = np.ones(a), np.ones(b)
    try:
        np.matmul(x, y)
    except ValueError:
        with pytest.raises(RuntimeError):
            ad.matmul(ad.tensor(x), ad.tensor(y))
        if len(a) == len(b) == 2:
            with pytest.raises(RuntimeError, match=f"{a[0]}x{a[1]} and {b[0]}x{b[1]}"):
                ad.mm(ad.tensor(x), ad.tensor(y))


@drawn
@given(shapes, st.lists(st.integers(-2, 6), max_size=4))
def test_reshape_names_the_shape_and_the_count(shape: Any, new: list[int]) -> None:
    x = ad.zeros(shape)
    unknown = [n for n in new if n < 0]
    known = math.prod(n for n in new if n >= 0)
    fits = known == x.numel() if not unknown else known > 0 and x.numel() % known == 0
    if unknown in ([], [-1]) and fits:
        assert x.reshape(new).numel() == x.numel()
        return
    with pytest.raises(RuntimeError, match=r"(?i)shape|dimension"):
        x.reshape(new)


SIZES: list[Callable[[Any], Any]] = [
    lambda n: ad.zeros(n), lambda n: ad.ones(2, n), lambda n: ad.empty((n,)),
    lambda n: ad.full((n,), 1.0), lambda n: ad.rand(n), lambda n: ad.randn(3, n),
    lambda n: ad.eye(n),
    lambda n: ad.ones(1).expand(n, 1), lambda n: ad.ones(1).new_zeros(n),
]  # fmt: skip


@pytest.mark.parametrize("make", range(len(SIZES)))
@drawn
@given(st.integers(-(2**63), -2))
def test_negative_sizes(make: int, n: int) -> None:
    with pytest.raises((RuntimeError, OverflowError)):
        SIZES[make](n)


@pytest.mark.parametrize("make", range(len(SIZES)))
@pytest.mark.parametrize("n", [math.nan, 2.0, math.inf, "3", None, ["1"], 1j])
def test_sizes_that_are_no_integers(make: int, n: Any) -> None:
    with pytest.raises(TypeError):
        SIZES[make](n)


@pytest.mark.parametrize("make", [0, 1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("n", [2**40, 2**61, 2**62, 2**63 - 1])
def test_requests_that_no_machine_can_meet(make: int, n: int) -> None:
    """A hundred gigabytes and beyond, up to sizes whose product wraps: refused, never allocated."""
    with pytest.raises((RuntimeError, MemoryError)):
        SIZES[make](n)


@pytest.mark.parametrize(
    "shape", [(2**32, 2**32), (2**62, 4), (2**31, 2**31, 2**31), (3, 2**62), (2**63 - 1, 2)]
)
def test_a_number_of_elements_that_overflows(shape: tuple[int, ...]) -> None:
    for call in (
        lambda: ad.empty(shape),
        lambda: ad.zeros(shape, dtype=ad.uint8),
        lambda: ad.ones(1).repeat(shape),
        lambda: ad.ones(1).expand(shape).clone(),
    ):
        with pytest.raises((RuntimeError, MemoryError, OverflowError)):
            call()


@pytest.mark.parametrize("n", [2**63, 2**64, -(2**63) - 1, 10**30])
def test_integers_beyond_64_bits(n: int) -> None:
    for call in (lambda: ad.zeros(n), lambda: ad.ones(2).reshape(n), lambda: ad.ones(2)[n]):
        with pytest.raises((RuntimeError, TypeError, OverflowError, IndexError, ValueError)):
            call()


def test_a_list_that_contains_itself() -> None:
    loop: list[Any] = [1.0]
    loop.append(loop)
    ring: list[Any] = []
    ring.append(ring)
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    for data in (loop, ring, deep):
        with pytest.raises((ValueError, RecursionError, RuntimeError, TypeError)):
            ad.tensor(data)
    while isinstance(deep, list):  # taken apart by hand: freeing it would recurse in CPython itself
        deep = deep.pop()


ODD: list[Any] = ["text", None, {}, object(), [1, 2], (), b"x", int, math.sin, {1, 2}]


@pytest.mark.parametrize("name", BINARY)
def test_wrong_types_are_type_errors(name: str) -> None:
    x = ad.ones(2, dtype=ad.float32 if "f" in OPS[name].dtypes else ad.int64)
    for odd in ODD:
        with pytest.raises(TypeError) as caught:
            getattr(ad, name)(x, odd)
        assert name in str(caught.value) and type(odd).__name__ in str(caught.value), odd
        with pytest.raises(TypeError):
            getattr(ad, name)(odd, x)


def test_operators_hand_over_to_the_other_operand() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

    assert ad.ones(2) + Other() == "mine"
    for odd in ("text", None, {}):
        with pytest.raises(TypeError):
            ad.ones(2) + odd
        with pytest.raises(TypeError):
            odd * ad.ones(2)


@drawn
@given(st.sampled_from(sorted(OPS)), st.data())
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_whatever_is_passed_nothing_crashes_and_nothing_changes(name: str, data: Any) -> None:
    """Arbitrary arguments: a result or one of the usual exceptions; tensors stay as they were."""
    pool = [
        ad.ones(2, 3), ad.zeros(0), ad.tensor(1.0), ad.tensor([1, 2]), ad.tensor(True),
        ad.ones(3, 2).t(), None, "a", -1, 0, 1, 7, 2**40, -(2**63), math.nan, 2.5, (), (1, 2),
        [0], [-1, 99], 1j, ad.float32, {}, [ad.ones(2)], slice(1), ...,
    ]  # fmt: skip
    before = [to_numpy(t).copy() for t in pool if isinstance(t, ad.Tensor)]
    picks = data.draw(st.lists(st.integers(0, len(pool) - 1), max_size=4))
    usual = (RuntimeError, TypeError, ValueError, IndexError, OverflowError, MemoryError)
    if OPS[name].path.startswith("nn."):  # in Python: they ask what they are given for its shape
        usual = (*usual, AttributeError)
    try:
        OPS[name].function(ad)(*(pool[i] for i in picks))
    except usual as error:
        assert str(error), f"{name}: an error without a message"
    after = [to_numpy(t) for t in pool if isinstance(t, ad.Tensor)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
