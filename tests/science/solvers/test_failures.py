"""What cannot be solved raises one clear error: no NaN, no number that is not an answer."""

from __future__ import annotations

import importlib

import pytest

import adjoint as ad
from adjoint.optimize import ConvergenceError

from . import of_integrate, of_optimize, of_sparse
from .failures import CANNOT_FAIL, FAILURES, Call

CLASSES = {ConvergenceError, ad.linalg.LinAlgError, ValueError}
ADVISED = {"optimize": of_optimize, "integrate": of_integrate, "sparse.linalg": of_sparse}
ROWS = [
    pytest.param(room, call, id=f"{solver}: {kind}".replace(" ", "-"))
    for room, table in FAILURES.items()
    for solver, kinds in table.items()
    for kind, call in kinds.items()
]


@pytest.mark.filterwarnings("ignore")  # what SciPy says on the way
@pytest.mark.parametrize(("room", "call"), ROWS)
def test_what_cannot_be_solved_is_one_clear_error(room: str, call: Call) -> None:
    with pytest.raises(Exception) as caught:
        call()
    assert caught.type in CLASSES, caught.value
    if room in ADVISED:
        assert "\n  fix: " in str(caught.value), caught.value


@pytest.mark.parametrize("room", ADVISED)
def test_every_solver_has_its_failures(room: str) -> None:
    public = set(importlib.import_module(f"adjoint.{room}").__all__)
    listed = {solver.split()[0] for solver in FAILURES[room]}
    assert listed == public - set(ADVISED[room].NOT_SOLVERS) - CANNOT_FAIL
