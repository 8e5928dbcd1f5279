"""Every solver agrees with fifty digits: its value, first and second derivatives, by each mode."""

from __future__ import annotations

import importlib

import pytest

from . import of_integrate, of_interpolate, of_linalg, of_optimize, of_signal, of_sparse
from .references import Case, check

ROOMS = {
    "optimize": of_optimize,
    "integrate": of_integrate,
    "linalg": of_linalg,
    "sparse.linalg": of_sparse,
    "interpolate": of_interpolate,
    "signal": of_signal,
}


# Each solver has plain cases, and some of numbers that are far from one another in size.
CASES = [
    pytest.param(case, id=str(case), marks=pytest.mark.slow if case.scaled else ())
    for room in ROOMS.values()
    for case in room.CASES
]


@pytest.mark.parametrize("case", CASES)
def test_derivatives_have_the_digits_that_a_solver_promises(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_case_of_each_size(room: str) -> None:
    table = ROOMS[room]
    public = set(importlib.import_module(f"adjoint.{room}").__all__)
    wanted = public - set(table.NOT_SOLVERS)
    assert set(table.NOT_SOLVERS) <= public, "a name that is gone"
    for scaled in (False, True):
        assert wanted == {case.solver for case in table.CASES if case.scaled is scaled}, scaled
