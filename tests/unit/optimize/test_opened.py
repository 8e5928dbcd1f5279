"""Functions of the same code share recordings from run to run, and nothing else of them."""

# ruff: noqa: B023 - functions of loop variables are the subject

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.optimize import _often

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    _often._programs.clear()
    _often._seen.clear()


def least(fun: Callable[[ad.Tensor], ad.Tensor], **given: Any) -> ad.Tensor:
    found: ad.Tensor = ad.optimize.minimize(fun, ad.zeros(2, dtype=ad.float64), **given).x
    return found


def recordings() -> int:
    return sum(len(program.programs) for program in _often._programs.values())


def test_a_lambda_in_a_loop_is_recorded_once() -> None:
    counts = []
    for turn in range(6):
        a = ad.tensor([float(turn), 2.0], dtype=ad.float64, requires_grad=True)
        x = least(lambda v: ((v - a) ** 4).sum() + ((v - a) ** 2).sum())
        assert np.allclose(x.detach(), a.detach(), atol=1e-9)
        assert np.allclose(ad.autograd.grad(x.sum(), a)[0], 1.0, atol=1e-8)
        counts.append(recordings())
    assert counts[0] == 0 < counts[2] == counts[-1]


def test_numbers_functions_objects_and_defaults_are_those_of_the_call() -> None:
    class Well:
        def __init__(self, at: float) -> None:
            self.at = at

        def cost(self, v: ad.Tensor) -> ad.Tensor:
            return ((v - self.at) ** 2).sum()

    def square(v: ad.Tensor) -> ad.Tensor:
        return v**2

    def shifted(by: float) -> Callable[[ad.Tensor], ad.Tensor]:
        return lambda v: square(v - by)

    one = Well(0.0)
    at, array = [0.0], np.zeros(2)
    for turn in range(5):
        k, moved = float(turn), shifted(turn - 0.5)
        one.at, at[0], array[:] = k + 3, k + 4, k + 5
        expected = {
            k: least(lambda v: ((v - k) ** 2).sum()),
            k - 0.5: least(lambda v: moved(v).sum()),
            k + 1: least(lambda v, by=k + 1: ((v - by) ** 2).sum()),
            k + 2: least(Well(k + 2).cost),
            k + 3: least(one.cost),
            k + 4: least(lambda v: ((v - at[0]) ** 2).sum()),
            k + 5: least(lambda v: ((v - ad.from_numpy(array)) ** 2).sum()),
        }
        for value, x in expected.items():
            assert np.allclose(x, value, atol=1e-7), (turn, value)


def test_cells_that_change_in_a_run_are_read_anew() -> None:
    def path(assigned: bool) -> list[Any]:
        found = []
        for _ in range(4):
            weight, seen = 1.0, []

            def tighten(x: ad.Tensor) -> None:
                nonlocal weight
                weight = min(2 * weight, 8.0) if assigned else weight
                seen.append(weight)

            try:
                x: Any = least(lambda v: weight * ((v - 1) ** 4 + v**2).sum(), callback=tighten)
            except ad.optimize.ConvergenceError as lost:  # as it may be where the cost changes
                x = lost.result.x
            found.append((x.tolist(), seen))
        return found

    for assigned in (False, True):
        first, *others = path(assigned)
        assert all(other == first for other in others)


def test_a_function_that_assigns_to_its_closure_runs_as_it_is() -> None:
    for _ in range(4):
        calls = 0

        def cost(v: ad.Tensor) -> ad.Tensor:
            nonlocal calls
            calls += 1
            return ((v - 1) ** 2).sum()

        found = ad.optimize.minimize(cost, ad.zeros(2, dtype=ad.float64))
        assert calls >= found.nfev + found.njev
    assert not recordings()


def test_the_same_tensor_twice_and_two_tensors_are_two_kinds() -> None:
    a, b = (ad.tensor(k, dtype=ad.float64) for k in (1.0, 3.0))
    for _ in range(4):
        for first, second in ((a, a), (a, b), (b, a)):

            def cost(v: ad.Tensor, p: Any = first, q: Any = second) -> ad.Tensor:
                return ((v - p) ** 2 + (v - q) ** 2).sum() + (5 * v.sum() if p is q else 0)

            expected = (first + second) / 2 - (1.25 if first is second else 0.0)
            assert np.allclose(least(cost), float(expected), atol=1e-7)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints_and_bounds_give_the_same_to_the_last_bit(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(radius: float, at: list[float]) -> tuple[Any, Any]:
        r = ad.tensor(radius, dtype=ad.float64, requires_grad=True)
        x = least(
            lambda v: ((v - ad.tensor(at, dtype=ad.float64)) ** 2).sum(),
            method=method,
            bounds=[(None, None), (None, r / 2)],
            constraints={"type": "ineq", "fun": lambda v: r**2 - v @ v},
        )
        return x.detach(), ad.autograd.grad(x.sum(), r)[0]

    problems = [(1.0 + 0.1 * k, [2.0, 1.0 + 0.2 * k]) for k in range(4)]
    kept = [found(*problem) for problem in problems]
    monkeypatch.setattr(_often, "_kept", lambda *_: (None, None))
    for (x, g), problem in zip(kept, problems, strict=True):
        plain, its = found(*problem)
        assert ad.equal(x, plain) and ad.equal(g, its)


def test_what_is_kept_is_bounded_and_functions_of_one_run_are_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_often, "_KEPT", 4)

    class Data:
        def __init__(self, at: float) -> None:
            self.at = ad.full((2,), at, dtype=ad.float64)

    data = Data(1.0)
    gone = weakref.ref(data)
    least(lambda v, data=data: ((v - data.at) ** 2).sum())
    del data
    gc.collect()
    assert gone() is None
    for number in range(4):
        for _ in range(2):
            least(lambda v: ((v - number) ** 2).sum())
    assert len(_often._programs) <= _often._KEPT
    gc.collect()
    assert len(_often._builders) <= 4 + 8


GLOBAL = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)


def test_tensors_from_outside_the_closure_get_their_gradients_in_every_run() -> None:
    for turn in range(5):
        a = ad.tensor([float(turn), 2.0], dtype=ad.float64, requires_grad=True)
        x = least(lambda v: ((v - a * GLOBAL) ** 2).sum())
        by_a, by_global = ad.autograd.grad(x.sum(), (a, GLOBAL))
        assert np.allclose(by_a, GLOBAL.detach()) and np.allclose(by_global, a.detach())


def test_an_answer_by_recordings_has_second_derivatives_and_several_passes() -> None:
    for turn in range(5):
        a = ad.tensor([1.0 + turn, 2.0], dtype=ad.float64, requires_grad=True)
        x = least(lambda v: ((v - a**3) ** 2).sum())
        once, again = (ad.autograd.grad(x.sum(), a, retain_graph=True)[0] for _ in range(2))
        assert np.array_equal(once, again) and np.allclose(once, (3 * a**2).detach())
        (slope,) = ad.autograd.grad(x.sum(), a, create_graph=True)
        assert np.allclose(ad.autograd.grad(slope.sum(), a)[0], (6 * a).detach())
