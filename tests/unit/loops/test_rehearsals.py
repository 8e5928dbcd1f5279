"""Steps and branches are called to be recorded: what they change happens once, or never."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.optimize._inside import program_of
from adjoint.utils.checkpoint import checkpoint

from .plain_loop import plain

AROUND: dict[str, Callable[..., Callable[..., Any]]] = {
    "alone": lambda f: f,
    "compiled": ad.compile,
    "in a checkpoint": lambda f: lambda *a: checkpoint(f, *a, use_reentrant=False),
    "in a scan": lambda f: (
        lambda *a: ad.scan(lambda c, _: (f(*a) + 0 * c, None), ad.zeros(2), length=4)[0]
    ),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ad.compiler.CompileWarning)
        yield


def calls(around: str) -> int:
    return 4 if around == "in a scan" else 1


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_step_changes_a_tensor_from_outside_as_often_as_it_runs(around: str, count: int) -> None:
    seen = ad.zeros(1)

    def step(c: Any, x: Any) -> Any:
        seen.add_(1)
        return c + x * seen, None

    call = AROUND[around](lambda c, x: ad.scan(step, c, x)[0])
    for done in (1, 2):
        call(ad.zeros(2), ad.ones(count, 2))
        assert seen.item() == done * count * calls(around)


@pytest.mark.parametrize("around", AROUND)
def test_so_does_the_body_of_a_while_loop(around: str) -> None:
    seen = ad.zeros(1)

    def body(c: Any, k: Any) -> Any:
        return c + seen.add_(1), k + 1

    call = AROUND[around](lambda c: ad.while_loop(lambda c, k: k < 3, body, (c, ad.tensor(0)))[0])
    call(ad.zeros(2))
    assert seen.item() == 3 * calls(around)


@pytest.mark.parametrize("around", AROUND)
def test_a_branch_that_is_not_taken_changes_nothing(around: str) -> None:
    taken, other = ad.zeros(1), nn.BatchNorm1d(2)
    log: list[int] = []

    def second(c: Any) -> Any:
        log.append(1)
        return other(c.expand(3, 2))[0]

    call = AROUND[around](lambda c: ad.cond(c.sum() > 0, lambda c: c + taken.add_(1), second, (c,)))
    call(ad.ones(2))
    assert taken.item() == calls(around) and log == []
    assert other.num_batches_tracked.item() == 0 and not other.running_mean.any()
    call(-ad.ones(2))
    assert taken.item() == calls(around) and len(log) == calls(around)
    assert other.num_batches_tracked.item() == calls(around)


def test_a_solver_that_cannot_record_its_function_leaves_no_trace() -> None:
    seen = ad.zeros(())

    def residual(x: Any) -> Any:
        seen.add_(1)
        return x * x - 2

    found: list[Any] = []

    def inside(x: Any) -> Any:
        found.append(program_of(residual, x))
        return x + 1

    ad.compile(inside)(ad.ones(1))
    assert found == [None] and seen.item() == 0


@pytest.mark.parametrize("around", [*AROUND])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_are_changed_as_in_the_plain_loop(around: str, count: int) -> None:
    def step(c: Any, x: Any) -> Any:
        x.mul_(2)
        return c + x, None

    ours, theirs = (ad.ones(2, count).t() for _ in range(2))
    found = AROUND[around](lambda c, x: ad.scan(step, c, x)[0])(ad.zeros(2), ours)
    for _ in range(calls(around)):
        wanted = plain(lambda c, x: (step(c, x)[0], None), ad.zeros(2), theirs)[0]
    assert ad.equal(ours, theirs) and ad.equal(found, wanted)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_first_carry_stays_what_it_is(around: str, count: int) -> None:
    def step(c: Any, x: Any) -> Any:
        c.mul_(2)
        return c + x, None

    for loop in (ad.scan, ad.checkpoint_loop):
        start = ad.ones(2)
        AROUND[around](lambda c, x, loop=loop: loop(step, c, x)[0])(start, ad.ones(count, 2))
        assert ad.equal(start, ad.ones(2))

    start = ad.ones(2)
    AROUND[around](lambda c: ad.while_loop(lambda c: c.sum() < 9, lambda c: c.mul_(2), c))(start)
    assert ad.equal(start, ad.ones(2))


def test_a_first_carry_with_a_history_is_not_changed_silently() -> None:
    start = ad.ones(2, requires_grad=True) * 1

    def step(c: Any, x: Any) -> Any:
        return c.mul_(2) + x, None

    with pytest.raises(RuntimeError, match=r"changed the first carry.*\n?.*init.clone\(\)"):
        ad.scan(step, start, ad.ones(1, 2))


@pytest.mark.parametrize("around", ["alone", "compiled"])
def test_a_scan_of_no_steps_draws_and_changes_nothing(around: str) -> None:
    norm = nn.BatchNorm1d(2)

    def step(c: Any, x: Any) -> Any:
        return norm(c) + x + ad.rand(2), c

    call = AROUND[around](lambda c, x: ad.scan(step, c, x))
    for _ in range(2):
        ad.manual_seed(0)
        expected = ad.rand(1)
        ad.manual_seed(0)
        end, ys = call(ad.ones(3, 2), ad.zeros(0, 3, 2))
        assert ad.equal(ad.rand(1), expected) and norm.num_batches_tracked.item() == 0
        assert ad.equal(end, ad.ones(3, 2)) and ys.shape == (0, 3, 2)


def test_a_scan_of_no_steps_says_that_it_has_called_its_step() -> None:
    with pytest.raises(ad.linalg.LinAlgError) as caught:
        ad.scan(lambda c, a: (ad.linalg.solve(a, c), None), ad.ones(2, 1), ad.zeros(0, 2, 2))
    assert "in a scan of no steps" in caught.value.__notes__[0]
