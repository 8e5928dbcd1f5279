"""Bounds and constraints in SciPy's forms, as functions of the vector of unknowns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import Arrays, is_batched
from adjoint.func import grad, jacfwd, jacrev, jvp

from ._often import NEVER, Lately, LatelyArray, Often
from ._opened import Parts
from ._scipy import scipy_optimize
from ._unknowns import Unknowns

__all__ = ["Constraints", "bounds_of", "constraints_of"]

Function = Callable[[Tensor], Tensor]


class Constraints(Parts):
    """``low <= fun(v) <= high``, elementwise; equalities where these are equal."""

    _parts = ("_funs", "_unknowns", "low", "high", "size")

    def __init__(
        self, funs: list[Function], lows: list[Any], highs: list[Any], start: Tensor
    ) -> None:
        self._funs, self._unknowns = tuple(funs), int(start.numel())

        def look() -> list[Tensor]:
            with ad.no_grad():
                return [Often(f, calls=NEVER)(start) for f in funs]

        self.values: list[Tensor] = _core._unrecorded(look)
        sizes = [int(v.numel()) for v in self.values]
        self.is_plain = all(isinstance(b, float) for b in (*lows, *highs))
        spread = [
            _spread(b, n, start.dtype)
            for bounds in (lows, highs)
            for b, n in zip(bounds, sizes, strict=True)
        ]
        self._ends = [  # of which a program makes its own, if they are plain
            [b for b, n in zip(bounds, sizes, strict=True) for _ in range(n)]
            for bounds in (lows, highs)
        ]
        empty = ad.empty(0, dtype=start.dtype)
        self.low = ad.cat([empty, *spread[: len(funs)]])
        self.high = ad.cat([empty, *spread[len(funs) :]])
        self.size = sum(sizes)
        by_rows = self.size < self._unknowns
        self._slopes: Any = Often(self.__call__, jacrev if by_rows else jacfwd)
        self._here: Any = Often(self.__call__)
        self._bend: Any = None  # a program of `_curvature`
        self.slopes, self.here = Lately(self._slopes), Lately(self._here)

    def __call__(self, v: Tensor) -> Tensor:
        return ad.cat([f(v) for f in self._funs]) if self._funs else v[:0]

    def programs(self, start: Tensor, newton: bool) -> list[tuple[Any, list[Tensor]]]:
        """What `recorded` needs: functions, with tensors like their arguments."""
        by_rows = self.size < self._unknowns
        slopes = (jacrev if by_rows else jacfwd)(self.__call__)
        kinds: list[tuple[Any, list[Tensor]]] = [(self.__call__, [start]), (slopes, [start])]
        if newton:

            def bend(v: Tensor, w: Tensor) -> Tensor:
                matrix: Tensor = jacfwd(grad(lambda x: w @ self(x)))(v)
                return matrix

            kinds.append((bend, [start, ad.zeros(self.size, dtype=start.dtype)]))
        return kinds

    def recorded(self, start: Tensor, functions: Sequence[Any]) -> Constraints:
        """The same by the programs of these functions."""
        other = copy.copy(self)
        here, slopes, *bend = functions
        other._funs = (here,)
        other._here, other._slopes, other._bend = here, slopes, bend[0] if bend else None
        other.here, other.slopes = Lately(here), Lately(slopes)
        other.values = [here(start)]
        other.low, other.high = (ad.tensor(ends, dtype=start.dtype) for ends in self._ends)
        return other

    def for_scipy(self, arrays: Arrays, newton: bool) -> list[Any]:
        """As SciPy takes them, with exact derivatives, on all samples at once.

        ``newton``: for a method that takes second derivatives as well.
        """
        low, high = self.low.numpy(), self.high.numpy()
        here, slopes = self._here, self._slopes
        if newton:
            return [
                scipy_optimize().NonlinearConstraint(
                    lambda v: arrays.flat(here(arrays.each(v))),
                    np.tile(low, arrays.samples),
                    np.tile(high, arrays.samples),
                    jac=lambda v: arrays.blocks(slopes(arrays.each(v))),
                    hess=lambda v, w: self._curvature(arrays, v, w),
                )
            ]
        equal = low == high
        # SciPy asks for equalities and inequalities at the same places, one after the other.
        values = LatelyArray(lambda v: arrays.whole(here(arrays.each(v))))
        blocks = LatelyArray(lambda v: arrays.rows(slopes(arrays.each(v))))
        return [
            _as_dict(arrays, values, blocks, kind, bound[rows], sign, rows)
            for kind, bound, sign, rows in (
                ("eq", low, 1, np.flatnonzero(equal)),
                ("ineq", low, 1, np.flatnonzero(~equal & np.isfinite(low))),
                ("ineq", high, -1, np.flatnonzero(~equal & np.isfinite(high))),
            )
            if rows.size
        ]

    def _curvature(self, arrays: Arrays, v: Any, weights: Any) -> Any:
        """The Hessian of a weighted sum of constraints."""
        w, at = arrays.each(weights), arrays.each(v)
        if self._bend is not None:
            return arrays.blocks(self._bend(at, w))
        slope = grad(lambda x: w @ self(x))
        rows = [arrays.flat(jvp(slope, (at,), (arrays.each(e),))[1]) for e in np.eye(v.size)]
        return np.stack(rows)


def _as_dict(
    arrays: Arrays, values: Any, slopes: Any, kind: str, bound: Any, sign: int, rows: Any
) -> dict[str, Any]:
    # A run of rows is a view, and subtracting or turning the sign makes the copy.
    part = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == rows.size else rows
    return {
        "type": kind,
        "fun": lambda v: (sign * (values(v)[..., part] - bound)).ravel(),
        "jac": lambda v: sign * arrays.diagonal(slopes(v)[..., part, :]),
    }


def constraints_of(given: Any, unknowns: Unknowns) -> Constraints:
    """SciPy's forms of constraints as ours."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    funs: list[Function] = []
    lows, highs = [], []
    for item in items:
        if isinstance(item, dict):
            kind, fun = item.get("type"), item.get("fun")
            if kind not in ("eq", "ineq") or not callable(fun):
                raise ValueError(
                    "minimize(): a constraint is {'type': 'eq' or 'ineq', 'fun': a function}, "
                    f"got {item!r}"
                )
            funs.append(_flat(fun, unknowns, tuple(item.get("args", ()))))
            lows.append(0.0)
            highs.append(0.0 if kind == "eq" else np.inf)
        elif hasattr(item, "A"):
            linear = _linear(_rows(item.A, unknowns))
            _add(linear, item.lb, item.ub, funs, lows, highs)
        elif hasattr(item, "fun"):
            _add(_flat(item.fun, unknowns, ()), item.lb, item.ub, funs, lows, highs)
        else:
            raise TypeError(f"minimize(): {type(item).__name__} is not a constraint")
    return Constraints(funs, lows, highs, unknowns.start)


def _add(fun: Function, low: Any, high: Any, funs: list[Any], lows: Any, highs: Any) -> None:
    """A constraint between limits; those that are tensors become a part of its function."""
    ends = [(low, 0.0, np.inf), (high, -np.inf, 0.0)]
    if not any(isinstance(end, Tensor) for end, *_ in ends):
        ends = [(None, low, high)]
    elif low is high:
        ends = [(low, 0.0, 0.0)]
    for end, least, most in ends:
        if isinstance(end, Tensor) or end is None:
            funs.append(fun if end is None else _beyond(fun, end, 1.0 if most == np.inf else -1.0))
            lows.append(least)
            highs.append(most)
        elif np.isfinite(end).any():
            funs.append(fun)
            lows.append(end if most == np.inf else -np.inf)
            highs.append(np.inf if most == np.inf else end)


def _beyond(fun: Function, end: Tensor, inside: float) -> Function:
    """How far a value is above a limit; where the limit is infinite, a number that is inside."""

    def beyond(v: Tensor) -> Tensor:
        limit = end.reshape(-1).to(v.dtype)
        is_none = ad.isinf(limit)
        return ad.where(is_none, inside, fun(v) - ad.where(is_none, 0.0, limit))

    return beyond


def _spread(bound: Any, n: int, dtype: Any) -> Tensor:
    """A limit of one constraint, or of several."""
    if isinstance(bound, float):
        return ad.full((n,), bound, dtype=dtype)
    return ad.as_tensor(np.array(np.broadcast_to(bound, n), dtype=float), dtype=dtype)


def _rows(matrix: Any, unknowns: Unknowns) -> Tensor:
    """The matrix of a linear constraint, which is differentiable if it is a tensor."""
    if hasattr(matrix, "toarray"):
        matrix = matrix.toarray()
    rows = ad.as_tensor(
        matrix if isinstance(matrix, Tensor) else np.atleast_2d(matrix), dtype=unknowns.start.dtype
    )
    rows = rows.reshape(-1, rows.shape[-1] if rows.ndim else 1)
    if rows.shape[-1] != unknowns.size:
        raise ValueError(
            f"minimize(): a LinearConstraint has {rows.shape[-1]} columns for {unknowns.size} "
            "unknowns"
        )
    return rows


def _linear(rows: Tensor) -> Function:
    return lambda v: rows @ v


def _flat(fun: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...]) -> Function:
    def flat(v: Tensor) -> Tensor:
        value = fun(unknowns.tree(v), *args)
        parts = value if isinstance(value, (list, tuple)) else [value]
        return ad.cat([ad.as_tensor(p).reshape(-1).to(v.dtype) for p in parts])

    return flat


def bounds_of(given: Any, unknowns: Unknowns) -> tuple[Tensor, Tensor] | None:
    """The lower and the upper bounds of all unknowns, as vectors."""
    if given is None:
        return None
    n = unknowns.size
    if hasattr(given, "lb"):
        ends = given.lb, given.ub
    else:
        pairs = list(given)
        if len(pairs) == 2 and not _is_pair(pairs[0]):
            pairs = [tuple(pairs)] * n
        if len(pairs) != n:
            raise ValueError(
                f"minimize(): there are {len(pairs)} bounds for {n} unknowns; give a pair (low, "
                f"high) for "
                "each of them, or one for all"
            )
        ends = [p[0] for p in pairs], [p[1] for p in pairs]
    low, high = (_ends(unknowns, e, none) for e, none in zip(ends, (-np.inf, np.inf), strict=True))
    if not (_core._is_recording() or is_batched(low, high)):
        wrong = ~(low.detach() <= high.detach())
        if bool(wrong.any()):
            k = int(wrong.nonzero()[0, 0])
            raise ValueError(
                f"{unknowns.name}(): An upper bound is less than the corresponding lower bound, or "
                f"one is NaN: ({float(low[k]):g}, {float(high[k]):g}) of unknown {k}"
            )
    return low, high


def _is_pair(one: Any) -> bool:
    return isinstance(one, (tuple, list)) or getattr(one, "ndim", 0) > 0


def _ends(unknowns: Unknowns, given: Any, none: float) -> Tensor:
    n, dtype = unknowns.size, unknowns.start.dtype
    if isinstance(given, (list, tuple)):
        parts = [ad.as_tensor(none if e is None else e, dtype=dtype).reshape(()) for e in given]
        return ad.stack(parts) if parts else ad.empty(0, dtype=dtype)
    end = ad.as_tensor(given, dtype=dtype)
    if end.numel() not in (1, n):
        raise ValueError(
            f"{unknowns.name}(): there are {end.numel()} bounds for {n} unknowns; give one for "
            "each of them, or one for all"
        )
    return end.reshape(-1).expand(n)
