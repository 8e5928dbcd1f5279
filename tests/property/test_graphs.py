"""Whole random graphs (views, in-place edits, reuse, several outputs) against
tests/reference/micro.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.property.programs import BINARY, EDITS, UNARY, VIEWS, Machine, step
from tests.reference import micro

SHAPES = [(3, 3), (3,), (2, 3), (1, 3), ()]
NAMES = [*UNARY, *BINARY, *VIEWS, *EDITS, *EDITS]
steps = st.tuples(st.sampled_from(NAMES), st.integers(0, 40), st.integers(0, 40))
programs = st.lists(steps, min_size=1, max_size=25)
relaxed = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def run(program: list[Any], seed: int) -> Machine:
    rng = np.random.default_rng(seed)
    machine = Machine()
    for shape in SHAPES:
        machine.leaf(np.asarray(rng.uniform(-1, 1, shape)))
        machine.compute(UNARY["clone"], len(machine.ours) - 1)
    for name, i, j in program:
        step(machine, name, i, j)
    return machine


def losses(machine: Machine) -> tuple[Any, micro.Value]:
    """One number that depends on every tensor, each with a weight of its own."""
    ours: Any = ad.zeros((), dtype=ad.float64)
    theirs = micro.Value(np.zeros(()))
    for k, (x, t) in enumerate(zip(machine.ours, machine.theirs, strict=True)):
        weight = 1 / (k + 1)
        ours = ours + weight * x.sum()
        total = micro.apply(np.sum, [lambda g, y, x: g + 0 * x], t.read())
        theirs = micro.apply(
            lambda a, b, w=weight: a + w * b,
            [lambda g, y, a, b: g, lambda g, y, a, b, w=weight: w * g],
            theirs,
            total,
        )
    return ours, theirs


def leaves_of(machine: Machine) -> tuple[list[Any], list[micro.Value]]:
    """The leaves, whose cells are never edited."""
    places = range(0, 2 * len(SHAPES), 2)
    return [machine.ours[i] for i in places], [machine.theirs[i].cell.value for i in places]


def assert_same(got: Any, want: np.ndarray[Any, Any], program: Any) -> None:
    # Both compute in float64; a program of 25 steps rounds a few hundred times and the values stay
    # below about 100.
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11, err_msg=str(program))


@relaxed
@given(programs, st.integers(0, 5))
def test_values_and_gradients_of_random_programs(program: list[Any], seed: int) -> None:
    machine = run(program, seed)
    for x, t in zip(machine.ours, machine.theirs, strict=True):
        assert_same(x.detach().numpy(), t.read().array, program)
    ours, theirs = losses(machine)
    leaves, values = leaves_of(machine)
    grads = ad.autograd.grad(ours, leaves, allow_unused=True)
    for g, leaf, want in zip(grads, leaves, micro.gradients(theirs, values), strict=True):
        got = np.zeros(leaf.shape) if g is None else g.numpy()
        assert_same(got, want.reshape(leaf.shape), program)


@relaxed
@given(programs, st.integers(0, 5))
def test_backward_gives_what_grad_gives_and_twice_is_double(program: list[Any], seed: int) -> None:
    machine = run(program, seed)
    ours, _ = losses(machine)
    leaves, _ = leaves_of(machine)
    grads = ad.autograd.grad(ours, leaves, retain_graph=True, allow_unused=True)
    ours.backward(retain_graph=True)
    ours.backward()
    for g, leaf in zip(grads, leaves, strict=True):
        got = None if leaf.grad is None else leaf.grad.numpy()
        if g is None:
            assert got is None or not got.any()
        else:
            assert_same(got, 2 * g.numpy(), program)


@relaxed
@given(programs, st.integers(0, 5))
def test_views_and_versions_of_random_programs(program: list[Any], seed: int) -> None:
    """Tensors share memory, and a version count, exactly where the reference's cells are one."""
    machine = run(program, seed)
    versions: dict[micro.Cell, int] = {}
    for x, t in zip(machine.ours, machine.theirs, strict=True):
        assert versions.setdefault(t.cell, x._version) == x._version, program
        if x.numel():
            first = machine.theirs.index(next(u for u in machine.theirs if u.cell is t.cell))
            base = machine.ours[first].untyped_storage().data_ptr()
            assert x.untyped_storage().data_ptr() == base, program


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs, st.integers(0, 5))
def test_second_derivatives_of_random_programs(program: list[Any], seed: int) -> None:
    """Along a random direction: the derivative of the gradient is the difference of gradients."""
    pure = [s for s in program if s[0] not in EDITS]
    step_size = 1e-5
    rng = np.random.default_rng(seed)
    directions = [rng.uniform(-1, 1, s) for s in SHAPES]

    def gradient_at(shift: float) -> list[Any]:
        machine = Machine()
        values = np.random.default_rng(seed)
        for shape, direction in zip(SHAPES, directions, strict=True):
            machine.leaf(np.asarray(values.uniform(-1, 1, shape) + shift * direction))
            machine.compute(UNARY["clone"], len(machine.ours) - 1)
        for name, i, j in pure:
            step(machine, name, i, j)
        leaves, values_ = leaves_of(machine)
        return [*micro.gradients(losses(machine)[1], values_), machine, leaves]

    *_, machine, leaves = gradient_at(0.0)
    loss, _ = losses(machine)
    first = ad.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    along = sum(
        ((g * ad.tensor(d)).sum() for g, d in zip(first, directions, strict=True) if g is not None),
        ad.zeros((), dtype=ad.float64),
    )
    if not along.requires_grad:
        return
    second = ad.autograd.grad(along, leaves, allow_unused=True)
    plus, minus = gradient_at(step_size), gradient_at(-step_size)
    for k, leaf in enumerate(leaves):
        got = np.zeros(leaf.shape) if second[k] is None else second[k].numpy()
        want = (plus[k] - minus[k]).reshape(leaf.shape) / (2 * step_size)
        # The difference itself is good to about 1e-9 of the largest derivative.
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=str(pure))
