"""`adjoint.interpolate`: by values, nodes and places, which all move with the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

import adjoint as ad
from adjoint import interpolate

from .matrices import ONES, UNITS, at, numbers, tensors
from .references import Case, Numbers, stacked

CASES: list[Case] = []
NOT_SOLVERS: tuple[str, ...] = ()
# Of parameters, of nodes and places, of values.
SCALES = ((ONES, 1.0, 1.0), (UNITS, 1e-9, 1e9))


def pair(solver: str, name: str, ours: Any, exact: Any) -> None:
    for units, wide, high in SCALES:
        CASES.append(
            Case(
                solver,
                name + (" plain" if wide == 1 else " scaled"),
                tensors(units, lambda m, q, w=wide, h=high: ours(*sampled(m, q, w, h))),
                numbers(units, lambda m, q, w=wide, h=high: exact(*sampled(m, q, mpf(w), mpf(h)))),
                at(units),
                scaled=wide != 1,
            )
        )


def sampled(m: Any, q: Numbers, wide: Any, high: Any) -> tuple[Numbers, Numbers, Numbers]:
    """Nodes, values and places."""
    nodes = [0 * q[0], 0.7 * q[1], 1.1 + 0.1 * q[0], 1.8 * q[1], 2.5 + q[2] ** 2]
    values = [q[0], m.exp(-q[1]), q[2] * q[0], 1 + q[1] * q[2], m.sin(q[0])]
    places = [0.3 + 0 * q[0], 0.9 + 0.1 * q[1], 1.5 + q[2], 2.45 + 0.1 * q[0]]
    return [v * wide for v in nodes], [v * high for v in values], [v * wide for v in places]


def inside(x: Numbers, t: Any) -> int:
    return max(k for k in range(len(x) - 1) if x[k] <= t)


def line(x: Numbers, y: Numbers, places: Numbers) -> Numbers:
    out = []
    for t in places:
        k = inside(x, t)
        out.append(y[k] + (t - x[k]) / (x[k + 1] - x[k]) * (y[k + 1] - y[k]))
    return out


def hermite(x: Numbers, y: Numbers, slopes: Numbers, places: Numbers) -> Numbers:
    out = []
    for t in places:
        k = inside(x, t)
        h = x[k + 1] - x[k]
        s = (t - x[k]) / h
        out.append(
            (1 + 2 * s) * (1 - s) ** 2 * y[k]
            + s * s * (3 - 2 * s) * y[k + 1]
            + h * s * (1 - s) * ((1 - s) * slopes[k] - s * slopes[k + 1])
        )
    return out


def spline(kind: str) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """By its definition: slopes for which second derivatives agree, and conditions at the ends."""

    def exact(x: Numbers, y: Numbers, places: Numbers) -> Numbers:
        n = len(x)
        h = [x[k + 1] - x[k] for k in range(n - 1)]

        def bend(k: int, end: int) -> tuple[Numbers, Any]:
            """The second derivative of cubic k at its end 0 or 1, of slopes, and a constant."""
            row = [mpf(0)] * n
            row[k + end], row[k + 1 - end] = 4 / h[k], 2 / h[k]
            if end == 0:
                row = [-v for v in row]
            rise = 6 * (y[k + 1] - y[k]) / h[k] ** 2
            return row, rise if end == 0 else -rise

        def third(k: int) -> tuple[Numbers, Any]:
            row = [mpf(0)] * n
            row[k] = row[k + 1] = 6 / h[k] ** 2
            return row, -12 * (y[k + 1] - y[k]) / h[k] ** 3

        def less(a: tuple[Numbers, Any], b: tuple[Numbers, Any]) -> tuple[Numbers, Any]:
            return [u - v for u, v in zip(a[0], b[0], strict=True)], a[1] - b[1]

        rows = [less(bend(k - 1, 1), bend(k, 0)) for k in range(1, n - 1)]
        if kind == "natural":
            rows += [bend(0, 0), bend(n - 2, 1)]
        elif kind == "clamped":
            rows += [([mpf(k == end) for k in range(n)], mpf(0)) for end in (0, n - 1)]
        elif kind == "periodic":
            rows += [less(bend(0, 0), bend(n - 2, 1))]
            rows += [([mpf(k == 0) - mpf(k == n - 1) for k in range(n)], mpf(0))]
        else:
            rows += [less(third(0), third(1)), less(third(n - 3), third(n - 2))]
        matrix = mp.matrix([row for row, _ in rows])
        return hermite(x, y, list(mp.lu_solve(matrix, mp.matrix([-c for _, c in rows]))), places)

    return exact


def closed(y: Numbers) -> Numbers:
    return [*y[:-1], y[0]]


def monotone(x: Numbers, y: Numbers, places: Numbers) -> Numbers:
    """Fritsch and Carlson's slopes: harmonic means, zero where samples turn."""
    n = len(x)
    h = [x[k + 1] - x[k] for k in range(n - 1)]
    d = [(y[k + 1] - y[k]) / h[k] for k in range(n - 1)]

    def end(h0: Any, h1: Any, d0: Any, d1: Any) -> Any:
        slope = ((2 * h0 + h1) * d0 - h0 * d1) / (h0 + h1)
        if slope * d0 <= 0:
            return mpf(0)
        return 3 * d0 if d0 * d1 < 0 and abs(slope) > 3 * abs(d0) else slope

    slopes = [end(h[0], h[1], d[0], d[1])]
    for k in range(1, n - 1):
        a, b = 2 * h[k] + h[k - 1], h[k] + 2 * h[k - 1]
        turns = d[k - 1] * d[k] <= 0
        slopes.append(mpf(0) if turns else (a + b) / (a / d[k - 1] + b / d[k]))
    slopes.append(end(h[-1], h[-2], d[-1], d[-2]))
    return hermite(x, y, slopes, places)


for kind in ("not-a-knot", "natural", "clamped"):
    pair(
        "CubicSpline",
        kind,
        lambda x, y, t, kind=kind: interpolate.CubicSpline(stacked(x), stacked(y), bc_type=kind)(
            stacked(t)
        ),
        spline(kind),
    )
pair(
    "CubicSpline",
    "periodic",
    lambda x, y, t: interpolate.CubicSpline(stacked(x), stacked(closed(y)), bc_type="periodic")(
        stacked(t)
    ),
    lambda x, y, t: spline("periodic")(x, closed(y), t),
)
pair(
    "PchipInterpolator",
    "",
    lambda x, y, t: interpolate.PchipInterpolator(stacked(x), stacked(y))(stacked(t)),
    monotone,
)
pair("interp", "", lambda x, y, t: interpolate.interp(stacked(t), stacked(x), stacked(y)), line)
pair(
    "interp1d",
    "linear",
    lambda x, y, t: interpolate.interp1d(stacked(x), stacked(y))(stacked(t)),
    line,
)
pair(
    "interp1d",
    "cubic",
    lambda x, y, t: interpolate.interp1d(stacked(x), stacked(y), "cubic")(stacked(t)),
    spline("not-a-knot"),
)


# --- grids: values are products of those along the axes -------------------------------------------
def our_grid(x: Numbers, y: Numbers) -> tuple[tuple[ad.Tensor, ad.Tensor], ad.Tensor]:
    nodes, values = stacked(x), stacked(y)
    return (nodes, 2 * nodes), values[:, None] * (values + values[0])


def grid(method: Callable[..., Numbers]) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    def exact(x: Numbers, y: Numbers, places: Numbers) -> Numbers:
        along = method(x, y, places)
        across = method([2 * v for v in x], [v + y[0] for v in y], [2 * t for t in places[::-1]])
        return [a * b for a, b in zip(along, across, strict=True)]

    return exact


def our_places(t: Numbers) -> ad.Tensor:
    return ad.stack([stacked(t), 2 * stacked(t[::-1])], -1)


for kind, method in (("linear", line), ("cubic", spline("not-a-knot"))):
    pair(
        "RegularGridInterpolator",
        kind,
        lambda x, y, t, kind=kind: interpolate.RegularGridInterpolator(*our_grid(x, y), kind)(
            our_places(t)
        ),
        grid(method),
    )
    pair(
        "interpn",
        kind,
        lambda x, y, t, kind=kind: interpolate.interpn(*our_grid(x, y), our_places(t), kind),
        grid(method),
    )
