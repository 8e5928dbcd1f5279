"""Matrices of three parameters, for tensors and for long numbers alike, in units of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp, mpf

import adjoint as ad

from .references import Numbers, rowed

Rows = list[list[Any]]
AT = (0.7, 1.3, 0.4)
# What parameters of 1e-8 and 1e8 are measured in, and what rows and columns are multiplied by.
ONES, UNITS = (1.0, 1.0, 1.0), (1e-8, 1.0, 1e8)
FAR = (1e6, 1.0, 1e-6)


def at(units: Sequence[float]) -> tuple[float, ...]:
    return tuple(v * u for v, u in zip(AT, units, strict=True))


def general(m: Any, q: Any) -> Rows:
    """With real eigenvalues that are far from one another."""
    return [
        [2 + q[0] * q[1], m.exp(-q[0]), 0.3 * q[1]],
        [q[2] * q[0], 5 + q[1] ** 2, m.sin(q[2])],
        [0.5 + 0 * q[0], q[0] * q[1] * q[2], 1 - q[2]],
    ]


def symmetric(m: Any, q: Any) -> Rows:
    """With eigenvalues of both signs."""
    a, b, c = m.exp(-q[0]), q[1] * q[2], m.sin(q[0] * q[2])
    return [[3 * q[1], a, b], [a, -2 - q[2], c], [b, c, 1 + q[0] ** 2]]


def definite(m: Any, q: Any) -> Rows:
    rows = symmetric(m, q)
    return [[v + (4 if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(rows)]


def tall(m: Any, q: Any) -> Rows:
    return [*general(m, q), [q[0] ** 2, q[1] * q[2], 1 + 0 * q[0]]]


def right(m: Any, q: Any, size: int = 3) -> Numbers:
    return [q[0] * q[2], 1 + m.exp(-q[1]), q[2] ** 2, q[0] + q[1]][:size]


def chain(m: Any, q: Any, sign: int = 1) -> Rows:
    """Six masses and springs: of three diagonals; ``sign`` of -1 makes it indefinite."""
    springs = [1 + q[0] * q[1], m.exp(-q[2]), 2 * q[1], 1 + q[2] ** 2, q[0], 3 - q[0], 1 + q[2]]
    rows = [[0 * q[0] for _ in range(6)] for _ in range(6)]
    for k in range(6):
        rows[k][k] = springs[k] + springs[k + 1] - (1 - sign) * (k % 2) * (4 + q[1])
        if k:
            rows[k][k - 1] = rows[k - 1][k] = -springs[k]
    return rows


def wind(m: Any, q: Any) -> Rows:
    """A chain that is not symmetric."""
    rows = chain(m, q)
    for k in range(1, 6):
        rows[k][k - 1] = rows[k][k - 1] * 0.5
        rows[k][k] = rows[k][k] + q[1]
    return rows


def times(rows: Rows, down: Sequence[float], across: Sequence[float] | None = None) -> Rows:
    """Rows and columns in units of their own; those of rows if there are no others."""
    across = down if across is None else across
    return [
        [v * r * c for v, c in zip(row, across, strict=True)]
        for row, r in zip(rows, down, strict=True)
    ]


def whole(rows: Rows, unit: float) -> Rows:
    return [[v * unit for v in row] for row in rows]


def in_units(p: Any, units: Sequence[float]) -> Numbers:
    """Parameters as numbers of about one."""
    return [p[k] / u for k, u in enumerate(units)]


def tensors(
    units: Sequence[float], work: Callable[[Any, Numbers], Any]
) -> Callable[[ad.Tensor], Any]:
    """What our side computes: ``work(ad, q)``."""
    return lambda p: work(ad, in_units(p, units))


def numbers(
    units: Sequence[float], work: Callable[[Any, Numbers], Numbers]
) -> Callable[[Numbers], Numbers]:
    return lambda p: work(mp, in_units(p, [mpf(u) for u in units]))


def sparse(rows: Rows) -> Any:
    """A sparse matrix of all entries that are not plainly zero."""
    places = [
        (i, j)
        for i, row in enumerate(rows)
        for j, v in enumerate(row)
        if not (isinstance(v, ad.Tensor) and float(v) == 0.0)
    ]
    values = ad.stack([rows[i][j] for i, j in places])
    shape = (len(rows), len(rows[0]))
    return ad.sparse.coo_array((values, ([i for i, _ in places], [j for _, j in places])), shape)


def flat(matrix: Any) -> Numbers:
    """The entries of a matrix of long numbers, by rows."""
    return [matrix[i, j] for i in range(matrix.rows) for j in range(matrix.cols)]


__all__ = [
    "AT",
    "FAR",
    "ONES",
    "UNITS",
    "rowed",
]
