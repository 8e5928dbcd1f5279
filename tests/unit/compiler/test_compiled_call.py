"""Calls that the core replays by itself: the same in everything, and without a line of Python."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

SCALE = 2.0


def scaled(x: ad.Tensor) -> ad.Tensor:
    return x * SCALE


def python_calls(f: Callable[[], Any]) -> list[str]:
    """Call f, and give the names of the Python functions that ran, but for its own."""
    seen: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        f()
    finally:
        sys.setprofile(None)
    return seen[1:]


def called(f: Any, *args: Any, times: int = 3) -> Any:
    for _ in range(times):
        result = f(*args)
    return result


def test_a_call_that_is_known_runs_no_python() -> None:
    f = ad.compile(lambda x, y: x * y)
    x, y = ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0], requires_grad=True)
    called(f, x, y)
    f(x, y).sum().backward()
    assert python_calls(lambda: f(x, y)) == []
    assert f(x, y).tolist() == [3.0, 8.0]
    (gradient,) = ad.autograd.grad(f(x, y).sum(), [y])
    assert gradient is not None
    assert gradient.tolist() == [1.0, 2.0]


def test_python_values_are_still_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    f = ad.compile(scaled)
    x = ad.ones(2)
    assert called(f, x).tolist() == [2.0, 2.0]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert called(f, x).tolist() == [5.0, 5.0]
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert called(f, x).tolist() == [2.0, 2.0]


def test_other_arguments_take_other_recordings() -> None:
    f = ad.compile(lambda x: x.sum() * 2)
    given = [ad.ones(2), ad.ones(3, 2), ad.ones(2, dtype=ad.float64), ad.ones(4).T, ad.ones(0)]
    for _ in range(3):
        for x in given:
            got, want = f(x), f.function(x)
            assert got.dtype == want.dtype
            assert got.item() == want.item()
    assert len(f.programs) == len(given)
    assert f(x=given[0]).item() == 4.0  # by name


def test_modes_are_told_apart() -> None:
    f = ad.compile(lambda x: x * x)
    x = ad.tensor([3.0], requires_grad=True)
    for _ in range(3):
        assert f(x).requires_grad
        with ad.no_grad():
            assert not f(x).requires_grad
        with ad.inference_mode():
            assert not f(x).requires_grad
    assert ad.func.grad(lambda x: f(x).sum())(ad.tensor([3.0])).tolist() == [6.0]
    assert ad.func.vmap(f)(ad.tensor([3.0, 4.0])).tolist() == [9.0, 16.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x + 1, x * 2),
        lambda x: [x + 1, (x * 2,)],
        lambda x: (x + 1, [x * 2]),
        lambda x: ((x + 1,), {"a": x * 2}),
        lambda x: {"a": x + 1, "b": 3},
        lambda x: (x + 1, x),
        lambda x: (x + 1, None, "text"),
        lambda x: (),
        lambda x: None,
        lambda x: x,
    ],
)
def test_results_of_any_form(f: Callable[[Any], Any]) -> None:
    compiled, x = ad.compile(f), ad.tensor([1.0, 2.0])
    want = f(x)
    for _ in range(4):
        got = compiled(x)
        assert repr(got) == repr(want)
        assert type(got) is type(want)
    if isinstance(want, tuple) and len(want) == 2:
        assert (got[1] is x) == (want[1] is x)


def test_an_error_of_a_replay_is_that_of_the_function() -> None:
    f = ad.compile(lambda a, b: a // b)
    one, zero = ad.tensor([1, 2]), ad.tensor([0, 1])
    assert called(f, one, ad.tensor([1, 1])).tolist() == [1, 2]
    for _ in range(3):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(one, zero)
    assert f(one, ad.tensor([1, 1])).tolist() == [1, 2]


def test_what_is_forgotten_is_recorded_anew() -> None:
    f = ad.compile(lambda x: x + 1)
    x = ad.ones(2)
    called(f, x)
    f.forget()
    assert f.programs == []
    assert called(f, x).tolist() == [2.0, 2.0]
    assert len(f.programs) == 1


def test_a_function_that_reaches_itself_is_collected() -> None:
    def made() -> weakref.ref[Any]:
        weight, held = ad.ones(2), dict[str, Any]()

        def function(x: ad.Tensor) -> ad.Tensor:
            return x * weight if held is not None else x

        f = ad.compile(function)
        called(f, ad.ones(2))
        held["f"] = f
        return weakref.ref(f)

    gone = made()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("fullgraph", [False, True])
def test_hooks_of_arguments_that_get_no_gradient_are_not_called(fullgraph: bool) -> None:
    def function(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        a.sin()
        return b.sum()

    f = ad.compile(function, fullgraph=fullgraph)
    for _ in range(3):
        for a in (ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True) * 1):
            b, seen = ad.ones(2, requires_grad=True), list[Any]()
            a.register_hook(seen.append)
            found = ad.autograd.grad(f(a, b), [a, b], allow_unused=True)
            assert found[0] is None
            assert found[1] is not None
            f(a, b).backward()
            assert seen == []
