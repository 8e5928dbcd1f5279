"""An error in a step tells which step it was, wherever the loop stands, and the line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import func
from adjoint.loops import _progress


def singular(c: Any, i: Any) -> Any:
    """Fails in the row of 3."""
    a = ad.eye(2) * (i - 3)
    return c + ad.linalg.solve(a, c.reshape(2, 1)).reshape(2), None


def reads(c: Any, i: Any) -> Any:
    """The same, for a step that runs as Python."""
    if float(i.sum()) == 3:
        raise ad.linalg.LinAlgError("of the test")
    return c * 1.0, None


ROWS = ad.arange(0.0, 8.0)
WAYS: dict[str, Callable[..., Any]] = {
    "alone": lambda run, c: run(c),
    "with a gradient": lambda run, c: run(c.requires_grad_()),
    "jvp": lambda run, c: func.jvp(run, (c,), (c,)),
    "vmap": lambda run, c: func.vmap(run)(c.expand(3, 2)),
    "grad": lambda run, c: func.grad(lambda c: run(c).sum())(c),
    "hessian": lambda run, c: func.hessian(lambda c: run(c).sum())(c),
    "compiled": lambda run, c: ad.compile(run)(c),
}
KEPT: list[dict[str, Any]] = [{}, {"memory": "sqrt"}, {"snapshots": 3}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", [singular, reads])
@pytest.mark.parametrize("kept", KEPT, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_step_of_a_scan(
    step: Callable[..., Any], way: str, kept: dict[str, Any], reverse: bool
) -> None:
    def run(c: Any) -> Any:
        return ad.scan(step, c, ROWS, reverse=reverse, **kept)[0]

    with warnings.catch_warnings(), pytest.raises(ad.linalg.LinAlgError) as caught:
        warnings.simplefilter("ignore")
        WAYS[way](run, ad.ones(2))
    (note,) = caught.value.__notes__
    assert note.startswith(f"in step {4 if reverse else 3} of those that ran, from 0")


def test_a_first_carry_that_is_read_twice() -> None:
    k = ad.ones(2, requires_grad=True)
    with pytest.raises(ad.linalg.LinAlgError) as caught:
        ad.scan(lambda c, i: (singular(c, i)[0] * k, None), k, ROWS)
    assert caught.value.__notes__[0].startswith("in step 3 of those that ran, from 0, at  test_")


def test_where_a_bar_may_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "is_seen", lambda: True)
    with pytest.raises(ad.linalg.LinAlgError) as caught:
        ad.scan(singular, ad.ones(2), ROWS)
    assert caught.value.__notes__[0].startswith("in step 3 of those that ran, from 0")


@pytest.mark.parametrize("step", [singular, reads])
def test_other_loops(step: Callable[..., Any]) -> None:
    loops: list[Callable[[], Any]] = [
        lambda: ad.while_loop(
            lambda c, i: i < 8, lambda c, i: (step(c, i)[0], i + 1), (ad.ones(2), ad.tensor(0.0))
        ),
        lambda: ad.vmap(
            lambda c: ad.while_loop(
                lambda c, i: i < 8, lambda c, i: (step(c, i)[0], i + 1), (c, ad.tensor(0.0))
            )
        )(ad.ones(3, 2)),
        lambda: ad.checkpoint_loop(step, ad.ones(2, requires_grad=True), ROWS),
        lambda: ad.loops.map(lambda i: step(ad.ones(2), i)[0], ROWS),
    ]
    for loop in loops:
        with warnings.catch_warnings(), pytest.raises(ad.linalg.LinAlgError) as caught:
            warnings.simplefilter("ignore")
            loop()
        assert caught.value.__notes__[0].startswith("in step 3 of those that ran, from 0")


def test_the_first_step_and_loops_in_loops() -> None:
    def step(c: Any, i: Any) -> Any:
        raise KeyError("at once")

    with pytest.raises(KeyError) as caught:
        ad.scan(lambda c, _: (ad.scan(step, c, ROWS)[0], None), ad.ones(2), length=9)
    assert caught.value.__notes__ == ["in step 0 of those that ran, from 0"] * 2


def test_a_carry_that_changes_its_form_names_the_step_function() -> None:
    def doubled(c: Any, _: Any) -> Any:
        return c.double(), None

    with pytest.raises(ValueError, match=r"as torch\.float32") as caught:
        ad.scan(doubled, ad.ones(2), length=5)
    (note,) = caught.value.__notes__
    assert note.startswith("in step 0 of those that ran, from 0, at  test_failing_steps.py:")
    assert "def doubled(" in note


def test_the_backward_pass_names_the_step() -> None:
    def vjp(g: Any, x: Any) -> Any:
        if x[0] < 3:  # of the steps 0, 1 and 2
            raise ValueError("no slope here")
        return g

    outside = ad.external(lambda x: x + 1, vjp=vjp)
    start = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    for kept in ({}, {"snapshots": 2}):
        end, _ = ad.scan(lambda c, _: (outside(c), None), start, length=9, **kept)
        with pytest.raises(ValueError, match="no slope") as caught:
            end.sum().backward()
        notes = " ".join(caught.value.__notes__)
        assert "in step 2 of those that ran, from 0, on the way back, at  test_failing" in notes


def test_what_is_not_a_tensor_is_named_with_the_way_out() -> None:
    class State:
        x = 1.0

    with pytest.raises(TypeError, match=r"not State; fix: make State a composite"):
        ad.scan(lambda c, _: (c, None), State(), length=3)


@pytest.mark.parametrize("xs", [(), {}, []], ids=str)
def test_inputs_without_tensors_need_a_length(xs: Any) -> None:
    with pytest.raises(ValueError, match="needs `length`"):
        ad.scan(lambda c, x: (c, None), ad.ones(2), xs)
