"""How rough a function is near a point: the noise of each output, from values along a line.

Differences of high order of values at equal distances take away what is smooth; what is left is
rounding, or whatever else makes the function rough (J. Moré and S. Wild, Estimating computational
noise, SIAM J. Sci. Comput. 33, 2011). Unlike a machine epsilon this knows of digits that cancelled
inside. Read next: _second.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._point import Move, Point

__all__ = ["LINE", "roughness"]

LINE = 6  # evaluations
_ORDERS = (3, 4, 5)
_NEAR = 0.15  # distance of the places, in steps of a second difference


def roughness(point: Point, reach: Any, seed: int) -> list[Any]:
    """Noise as rows: any of them, times weights of the outputs, is about that of their sum.

    One matrix for each order of differences: what is smooth shows in the lowest alone. ``reach``
    are steps of a second difference.
    """
    rng = np.random.default_rng(seed)
    n = point.inputs.size
    line = _NEAR * reach * rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1, n) / max(n, 1) ** 0.5
    places = [k for k in range(-(LINE // 2), LINE // 2 + 1) if k]
    moves: list[Move] = [
        (point.representable(point.x + k * line), lambda: "x + a short line") for k in places
    ]
    values = list(point.values(moves, LINE, False))
    values.insert(LINE // 2, point.y)
    found = []
    with np.errstate(all="ignore"):
        table = np.stack(values)
        for order in range(1, max(_ORDERS) + 1):
            table = np.diff(table, axis=0)
            if order in _ORDERS:
                found.append(table * math.comb(2 * order, order) ** -0.5)
    return found
