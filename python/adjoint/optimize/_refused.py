"""Names of SciPy's that are refused, with the reason."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["linprog", "milp"]


def linprog(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: the answer of a linear program is a corner, which does not move with the costs."""
    raise NotImplementedError(
        "linprog(): the answer of a linear program is a corner of its constraints: its derivative "
        "by the "
        "costs is zero almost everywhere, and not defined where it jumps.\n"
        "  fix: add a small quadratic term and use optimize.minimize(..., constraints=...), or "
        "call "
        "scipy.optimize.linprog on x.detach().numpy() if no derivative is needed"
    )


def milp(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: whole numbers have no derivative."""
    raise NotImplementedError(
        "milp(): whole numbers have no derivative.\n  fix: relax the problem to real numbers and "
        "use "
        "optimize.minimize, or call scipy.optimize.milp on x.detach().numpy() if no derivative is "
        "needed"
    )
