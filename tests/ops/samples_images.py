"""Samples and references of resizing and of grids. Read `samples.py` first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.spec import Arr, Array, Op, Sample

F = "nn.functional."
LINE, IMAGE, VOLUME = Arr((2, 1, 5)), Arr((1, 2, 4, 3)), Arr((1, 1, 2, 3, 2))


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def resized(mode: str, samples: list[Sample]) -> Op:
    with_mode = [Sample(s.args, {**s.kwargs, "mode": mode}) for s in samples]
    name = "interpolate_" + mode.replace("-", "_")
    return Op(name, with_mode, "f", path=F + "interpolate", method=False, ulps=64.0, terms=4.0)


ANY = [S(LINE, size=8), S(LINE, scale_factor=0.6), S(IMAGE, size=(3, 5)), S(VOLUME, scale_factor=2)]
BOTH = [
    S(IMAGE, size=(6, 2)),
    S(IMAGE, scale_factor=1.7),
    S(IMAGE, size=(4, 7), align_corners=True),
]
SMOOTH = [S(IMAGE, size=(2, 5), antialias=True), S(IMAGE, scale_factor=0.7, antialias=True)]
# Places away from the edges of elements, where derivatives jump.
GRID = Arr((1, 2, 3, 2), -0.93, 0.87)
FAR = Arr((1, 2, 2, 2), -2.3, 2.1)
DEEP = Arr((1, 1, 2, 2, 3), -0.9, 0.85)

PADDINGS = ("zeros", "border", "reflection")

# fmt: off
OPS = [
    resized("nearest", ANY), resized("nearest-exact", ANY), resized("area", ANY),
    resized("linear", [
        S(LINE, size=8), S(LINE, scale_factor=1.6), S(LINE, size=3, align_corners=True),
        S(LINE, scale_factor=1.6, recompute_scale_factor=True), S(Arr((0, 1, 3)), size=5),
    ]),
    resized("bilinear", [*BOTH, *SMOOTH]), resized("bicubic", [*BOTH, *SMOOTH]),
    resized("trilinear", [
        S(VOLUME, size=(3, 2, 4)), S(VOLUME, scale_factor=1.5, align_corners=True),
    ]),
    resized("lanczos", SMOOTH),
    Op("grid_sample", [
        *(S(IMAGE, *how) for how in itertools.product(
            (GRID, FAR), ("bilinear", "bicubic"), PADDINGS, (True, False))),
        S(VOLUME, DEEP, "bilinear", "zeros", False), S(VOLUME, DEEP, "bilinear", "border", True),
        S(Arr((0, 2, 3, 3)), Arr((0, 2, 2, 2)), align_corners=False),
    ], "f", path=F + "grid_sample", method=False, ulps=512.0, terms=8.0),
    Op("grid_sample_nearest", [
        S(IMAGE, grid, "nearest", padding, False)
        for grid in (GRID, FAR) for padding in PADDINGS
    ], "f", path=F + "grid_sample", method=False, ulps=8.0),
    Op("affine_grid", [
        S(Arr((2, 2, 3)), (2, 1, 3, 2), True), S(Arr((1, 2, 3)), (1, 1, 1, 4), False),
        S(Arr((1, 3, 4)), (1, 2, 2, 3, 2), False),
    ], "f", path=F + "affine_grid", method=False, ulps=32.0, terms=4.0),
]
# fmt: on


def keys(x: Any, a: float) -> Any:
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0 * x


def filters(mode: str) -> tuple[int, Callable[[Any], Any]]:
    """How far a filter reaches, and its weight at a distance."""
    if mode in ("linear", "bilinear", "trilinear"):
        return 1, lambda x: max(1 - abs(x), 0 * x)
    if mode == "bicubic":
        return 2, lambda x: keys(x, -0.5)
    return 3, lambda x: np.sinc(x) * np.sinc(x / 3) if abs(x) < 3 else 0 * x


def matrix(mode: str, n: int, m: int, factor: Any, corners: bool, smooth: bool) -> Array:
    """What each of m results takes of n elements, as PyTorch's documentation has it."""
    out = np.zeros((m, n), np.longdouble)
    step = np.longdouble(n) / m if factor is None else 1 / np.longdouble(factor)
    if corners:
        step = np.longdouble(n - 1) / (m - 1) if m > 1 else np.longdouble(0)
    for o in range(m):
        centre = step * (o + np.longdouble(0.5))
        if mode in ("nearest", "nearest-exact"):
            at = step * o if mode == "nearest" else centre
            out[o, min(int(np.floor(at)), n - 1)] = 1
        elif mode == "area":
            first, last = o * n // m, -(-(o + 1) * n // m)
            out[o, first:last] = 1 / np.longdouble(last - first)
        elif smooth:
            reach, weight = filters(mode)
            wide = max(step, np.longdouble(1))
            span = range(
                max(int(centre - reach * wide + 0.5), 0), min(int(centre + reach * wide + 0.5), n)
            )
            for i in span:
                out[o, i] = weight((i - centre + np.longdouble(0.5)) / wide)
            out[o] /= out[o].sum()
        else:
            at = step * o if corners else centre - np.longdouble(0.5)
            at = at if mode == "bicubic" else max(at, 0 * at)
            low = int(np.floor(at))
            for i in range(low - 1, low + 3):
                w = keys(at - i, -0.75) if mode == "bicubic" else max(1 - abs(at - i), 0 * at)
                out[o, min(max(i, 0), n - 1)] += w
    return out


def interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    recompute_scale_factor: bool = False,
    antialias: bool = False,
) -> Any:
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        given = size if size is not None else None
        m = (
            int(n * scale_factor)
            if given is None
            else given
            if isinstance(given, int)
            else given[axis - 2]
        )
        factor = None if recompute_scale_factor or mode == "area" else scale_factor
        if m == n and antialias:
            continue
        table = matrix(mode, n, m, factor, align_corners, antialias)
        x = np.moveaxis(np.tensordot(table.astype(x.dtype), x, (1, axis)), 0, axis)
    return x


def mirrored(x: Any, low: Any, high: Any) -> Any:
    while not low <= x <= high:
        x = 2 * low - x if x < low else 2 * high - x
    return x


def inside(x: Any, n: int, padding: str, corners: bool) -> Any:
    if padding == "reflection" and n > 1:
        x = mirrored(x, *((0, n - 1) if corners else (-0.5, n - 0.5)))
    return x if padding == "zeros" else min(max(x, 0 * x), 0 * x + n - 1)


def parts(x: Any, n: int, mode: str, padding: str, corners: bool) -> list[tuple[int, Any]]:
    """The elements of an axis that a place is made of, and their weights."""
    at = (x + 1) / 2 * (n - 1) if corners else ((x + 1) * n - 1) / 2
    if mode == "bicubic":
        low = int(np.floor(at))
        found = [
            (inside(np.longdouble(i), n, padding, corners), keys(at - i, -0.75))
            for i in range(low - 1, low + 3)
        ]
    else:
        at = inside(at, n, padding, corners)
        low = int(np.floor(at))
        if mode == "nearest":
            found = [(np.round(at), 1)]
        else:
            found = [(low, 1 - (at - low)), (low + 1, at - low)]
    return [(int(i), w) for i, w in found if 0 <= i < n]


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for at in np.ndindex(grid.shape[:-1]):
        axes = [
            parts(grid[at][a], x.shape[-1 - a], mode, padding_mode, align_corners)
            for a in range(grid.shape[-1])
        ]
        for chosen in itertools.product(*axes):
            place = tuple(i for i, _ in reversed(chosen))
            weight = np.prod([w for _, w in chosen])
            out[(at[0], slice(None), *at[1:])] += weight * x[(at[0], slice(None), *place)]
    return out


def affine_grid(theta: Array, size: tuple[int, ...], align_corners: bool) -> Any:
    out = np.zeros((size[0], *size[2:], theta.shape[1]), theta.dtype)

    def line(i: int, n: int) -> Any:
        if n == 1:
            return np.longdouble(0)
        x = -1 + 2 * np.longdouble(i) / (n - 1)
        return x if align_corners else x * (n - 1) / n

    for at in np.ndindex(out.shape[:-1]):
        place = [line(i, n) for i, n in zip(at[1:], size[2:], strict=True)][::-1]
        out[at] = theta[at[0]] @ np.array([*place, 1])
    return out


REFERENCES: dict[str, Callable[..., Any]] = {
    **{op.name: interpolate for op in OPS if op.name.startswith("interpolate")},
    "grid_sample": grid_sample, "grid_sample_nearest": grid_sample, "affine_grid": affine_grid,
}  # fmt: skip
