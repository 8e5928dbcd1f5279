"""Plain `for` loops of compiled functions whose steps write rows of a tensor, and become scans.

The tensor was made in the call, and the step does nothing else with it. See
test_plain_loops_in_place.py for what else steps may change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from adjoint._for_loops import _takeover
from adjoint._for_loops._frames import understood

Function = Callable[..., Any]
pytestmark = pytest.mark.skipif(not understood(), reason="frames of this Python are not known")
N = 150


@pytest.fixture(autouse=True)
def look_at_short_programs() -> Iterator[None]:
    before = _core._follow_from(60), _core._roll_from(1000)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def outcome(function: Function, needs: bool) -> list[Any]:
    ad.manual_seed(3)
    a, w = ad.randn(3).requires_grad_(), (0.4 * ad.randn(3, 3)).requires_grad_()
    xs = (0.3 * ad.randn(400, 3)).requires_grad_(needs)
    try:
        result = function(a, w, xs)
        (result * ad.linspace(0.3, 1, result.numel()).reshape(result.shape)).sum().backward()
    except RuntimeError as error:
        return [type(error)]
    return [t if t is None else t.tolist() for t in (result, a.grad, w.grad, xs.grad, ad.rand(2))]


def what_becomes_of(function: Function, needs: bool) -> list[str]:
    """That of its loops, in a first call; results and gradients are those of eager execution."""
    expected = outcome(function, needs)
    fast = ad.compile(function)
    _takeover.decisions.clear()
    with warnings.catch_warnings():
        if len(expected) == 1:  # an error of the backward pass
            warnings.simplefilter("ignore", ad.compiler.CompileWarning)
        assert outcome(fast, needs) == expected
        found = [*_takeover.decisions]
        assert outcome(fast, needs) == expected
        assert outcome(fast, needs) == expected
    return found


# -- loops that become scans -----------------------------------------------------------------------


def rows(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    for i in range(N):
        a = ad.tanh(w @ a + xs[i])
        out[i] = a
    return out


def the_next_row(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N + 1, 3)
    out[0] = a
    for i in range(N):
        a = ad.sin(w @ a)
        out[i + 1] = a
        a = a * 0.9 + xs[i]
    return out * a


def columns_from_the_end(a: Any, w: Any, xs: Any) -> Any:
    out, sums = ad.zeros(3, N) + a[:, None], ad.zeros(N)
    for i in reversed(range(3, N)):
        y = ad.tanh(w @ a)
        out[:, i] = y
        a = y + 0.1 * ad.sin(a)
        sums[i] = a.sum()
    return out.sum() * a + sums.sum()


def every_other_row_of_what_is_changed(a: Any, w: Any, xs: Any) -> Any:
    out, x = ad.zeros(400, 3), ad.zeros(3)
    for i in range(0, N * 2, 2):
        a = ad.tanh(w @ a) + 0.1 * ad.randn(3)
        x += a
        out[i + 3] = x * 2
    return out.cumsum(0) + out[77] + x


def values_alone(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    with ad.no_grad():
        for i in range(N):
            a = ad.tanh(w @ a)
            out[i] = a
    return out * w.sum()


def seen_by_a_view(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    view = out[40:60]
    for i in range(N):
        a = ad.tanh(w @ a) * xs[i]
        out[i] = a
    return view * a + out[-1]


def changed_once_it_is_written(a: Any, w: Any, xs: Any) -> Any:
    out, x = ad.zeros(N, 3), a * 1
    for i in range(N):
        out[i] = x
        x += 0.1 * (w @ xs[i])
    return out * x


def rows_and_lists(a: Any, w: Any, xs: Any) -> Any:
    out, first, states = ad.zeros(N, 3), ad.zeros(N), []
    for i in range(N):
        a = ad.tanh(w @ a + xs[i])
        out[i] = a
        states.append(a)
        first[i] = a[0] * 2
        states.append(a * 2)
    return (ad.stack(states).sum() * out + a).sum(0) + first.sum() + states[70]


TAKEN = [
    *(rows, the_next_row, columns_from_the_end, every_other_row_of_what_is_changed),
    *(values_alone, seen_by_a_view, changed_once_it_is_written, rows_and_lists),
]


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("function", TAKEN)
def test_loops_that_become_scans(function: Function, needs: bool) -> None:
    assert "taken over" in what_becomes_of(function, needs)


# -- loops that stay what they are -----------------------------------------------------------------


def read_as_a_whole(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a.detach()
        a = a + out.sum()
    return out


def read_by_another_name(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    same = out.detach()
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a
        a = a + same[7]
    return out


def a_number(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = 0.5
    return out + a


def two_rows(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N + 1, 3)
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a
        out[i + 1] = a * 2
    return out + a


def not_each_step(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    for i in range(N):
        a = ad.tanh(w @ a)
        if a.shape[0] == 4:
            out[i] = a
    return out + a


def a_part_that_spreads(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3)
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a[:1]
    return out + a


def another_dtype(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3, dtype=ad.float64)
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a
    return out.float() + a


def the_row_before(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N + 1, 3)
    out[0] = a.detach()
    with ad.no_grad():
        for i in range(N):
            out[i + 1] = ad.tanh(w @ out[i])
    return out + w @ a


def what_was_given(a: Any, w: Any, xs: Any) -> Any:
    out = xs.detach()
    for i in range(N):
        a = ad.tanh(w @ a)
        out[i] = a.detach()
    return out.sum() + a


def without_gradients_for_a_part(a: Any, w: Any, xs: Any) -> Any:
    out = ad.zeros(N, 3) * a
    for i in range(N):
        a = ad.tanh(w @ a)
        with ad.no_grad():
            out[i] = a
    return out + a


LEFT = [
    *(read_as_a_whole, read_by_another_name, a_number, two_rows, not_each_step),
    *(a_part_that_spreads, another_dtype, the_row_before, what_was_given),
    without_gradients_for_a_part,
]


@pytest.mark.parametrize("function", LEFT)
def test_loops_that_stay_what_they_are(function: Function) -> None:
    assert "taken over" not in what_becomes_of(function, False)


def test_a_state_that_is_differentiated_by_is_not_mistaken_for_another() -> None:
    """Rows are made of it inside the scan: that is told, or the loop is recorded as it is."""

    def function(a: Any, w: Any, xs: Any) -> Any:
        out = ad.zeros(N, 3)
        for i in range(N):
            before = a
            out[i] = before
            a = ad.tanh(w @ a)
        return ad.autograd.grad(out.sum(), before, create_graph=True)[0] + a

    assert "taken over" in what_becomes_of(function, False)
