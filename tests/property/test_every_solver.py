"""Every public solver takes structures, runs batched, in programs and loops, and is differentiated.

The table is solver_table.py. Each use is compared with single eager calls, or refused in the words
that the table has.
"""

import warnings

import pytest

import adjoint as ad
from adjoint import optimize

from .solver_table import DOUBLE, OTHERS, ROOMS, SOLVERS

POINTS = [[0.9, 0.6], [1.1, 0.7], [0.8, 0.5]]


def points():
    return [ad.tensor(v, **DOUBLE) for v in POINTS]


def names(use):
    return [name for name, s in SOLVERS.items() if use not in s.refused]


def gradient(f, a):
    """Of a sum in which no two elements weigh the same."""
    weights = ad.arange(1, f(a.detach()).numel() + 1, **DOUBLE)

    def total(a):
        return (f(a).reshape(-1) * weights / len(weights)).sum()

    return total, lambda a: ad.func.grad(total)(a)


def assert_near(found, wanted, close):
    scale = 1 + wanted.detach().abs().max()
    assert bool(((found - wanted).abs() <= close * scale).all()), (found, wanted)


def assert_same(found, wanted, solver):
    if not solver.rounding:
        assert ad.equal(found, wanted), found - wanted
    else:
        assert_near(found, wanted, solver.rounding)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_solver_has_a_line(room):
    others = OTHERS.get(room)
    if others is None:  # operations under PyTorch's names: tests/ops has samples of them
        others = {n for n in room.__all__ if n not in ROOMS[room]}
        assert not {"solve_banded", "solveh_banded"} & others
    assert set(room.__all__) == {*(name.split(",")[0] for name in ROOMS[room]), *others}


@pytest.mark.parametrize("name", SOLVERS)
def test_structures_are_taken_or_refused_in_words(name):
    solver, a = SOLVERS[name], points()[0]
    if isinstance(solver.structured, tuple):
        call, words = solver.structured
        with pytest.raises((TypeError, ValueError), match=words):
            call(a)
        return
    assert_near(solver.structured(a), solver.of(a), solver.close)


@pytest.mark.parametrize("name", names("vmap"))
def test_samples_are_single_calls(name):
    solver, rows = SOLVERS[name], ad.stack(points())
    found = ad.vmap(solver.of)(rows)
    assert_near(found, ad.stack([solver.of(a) for a in rows]), solver.close)
    _, slope = gradient(solver.of, rows[0])
    assert_near(ad.vmap(slope)(rows), ad.stack([slope(a) for a in rows]), 100 * solver.close)


@pytest.mark.parametrize("name", [n for n in names("vmap") if n in names("jvp")])
def test_tangents_of_samples_are_those_of_single_calls(name):
    solver, rows = SOLVERS[name], ad.stack(points())
    wanted = ad.stack([ad.func.jacfwd(solver.of)(a) for a in rows])
    assert_near(ad.vmap(ad.func.jacfwd(solver.of))(rows), wanted, 100 * solver.close)
    moved = ad.func.jvp(ad.vmap(solver.of), (rows,), (rows,))[1]
    along = ad.stack([(w * a).sum(-1) for w, a in zip(wanted, rows, strict=True)])
    assert_near(moved, along, 100 * solver.close)


@pytest.mark.parametrize("name", names("compile"))
def test_programs_have_the_bits_of_eager_calls(name):
    solver = SOLVERS[name]
    compiled = ad.compile(solver.of)
    for a in points():
        given = [a.clone().requires_grad_() for _ in range(2)]
        found, wanted = compiled(given[0]), solver.of(given[1])
        assert_same(found, wanted, solver)
        for y in (found, wanted):
            y.sum().backward()
        assert_same(given[0].grad, given[1].grad, solver)
    assert len(compiled.programs) == 1 and not compiled.reasons


@pytest.mark.parametrize("name", names("scan"))
def test_a_step_of_a_scan_is_that_of_a_plain_loop(name):
    solver, a = SOLVERS[name], points()[0]

    def step(carry, x):
        y = solver.of(a + 0.01 * x * carry)
        return ad.sin(y.mean()), y

    first, rows = ad.zeros((), **DOUBLE), ad.arange(3, **DOUBLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = ad.scan(step, first, rows)
    carry, wanted = first, []
    for x in rows:
        carry, y = step(carry, x)
        wanted.append(y)
    assert_same(found, ad.stack(wanted), solver)


@pytest.mark.parametrize("name", names("jvp"))
def test_tangents_and_gradients_are_those_of_differences(name):
    solver, a = SOLVERS[name], points()[0]
    total, slope = gradient(solver.of, a)
    direction = ad.tensor([0.6, -0.8], **DOUBLE)
    _, moved = ad.func.jvp(total, (a,), (direction,))
    h = 1e-5
    differences = (total(a + h * direction) - total(a - h * direction)) / (2 * h)
    assert_near(moved, (slope(a) * direction).sum(), 1e-9)
    assert_near(moved, differences, 1e-5)


@pytest.mark.parametrize("name", names("second"))
def test_second_derivatives_are_those_of_differences(name):
    solver, a = SOLVERS[name], points()[0]
    _, slope = gradient(solver.of, a)
    h = 1e-5
    columns = [(slope(a + h * e) - slope(a - h * e)) / (2 * h) for e in ad.eye(2, **DOUBLE)]
    assert_near(ad.func.jacrev(slope)(a), ad.stack(columns, 1), 1e-4)
    assert_near(ad.func.jacfwd(slope)(a), ad.stack(columns, 1), 1e-4)


def test_what_has_no_derivative_is_refused():
    for name in ("linprog", "milp"):
        with pytest.raises(NotImplementedError, match=r"corner|whole numbers"):
            getattr(optimize, name)([1.0])


REFUSED = [(name, use) for name, s in SOLVERS.items() for use in s.refused]


@pytest.mark.parametrize(("name", "use"), REFUSED)
def test_refusals_are_in_the_words_of_the_table(name, use):
    solver, a = SOLVERS[name], points()[0]
    words = solver.refused[use]
    if use in ("compile", "scan"):
        with pytest.warns(UserWarning, match=words):
            if use == "compile":
                found = ad.compile(solver.of)(a)
            else:
                found = ad.scan(lambda c, x: (c, solver.of(x)), a, ad.stack([a, a]))[1][1]
        assert ad.equal(found, solver.of(a))
        return
    _, slope = gradient(solver.of, a)
    call = {
        "vmap": lambda: ad.vmap(solver.of)(a[None]),
        "jvp": lambda: ad.func.jvp(solver.of, (a,), (a,)),
        "second": lambda: ad.func.jacrev(slope)(a),
    }[use]
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        call()
