"""Values on a grid of any number of axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold

from ._nodes import as_float, found, nodes_of, rows
from ._splines import CubicSpline, PchipInterpolator

__all__ = ["RegularGridInterpolator", "interpn"]

_METHODS = ("linear", "nearest", "slinear", "cubic", "pchip")


class RegularGridInterpolator:
    """A function through values on a rectangular grid, as SciPy's class of this name.

    Differentiable by the values, the nodes of every axis, and the places.

    Parameters
    ----------
    points
        The nodes of each axis.
    values
        Their first axes are those of the grid; further ones are carried along.
    method
        ``"linear"`` (or ``"slinear"``, which is the same function), ``"nearest"``, ``"cubic"`` or
        ``"pchip"`` (along one axis after the other).
    bounds_error
        Whether places outside of the grid are refused.
    fill_value
        The value outside where they are not; None to go on beyond the edge.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, y = ad.linspace(0, 1, 3), ad.linspace(0, 2, 5)
    >>> values = x[:, None] + 2 * y
    >>> ad.interpolate.RegularGridInterpolator((x, y), values)(ad.tensor([[0.3, 1.1]]))
    tensor([2.5000])
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = float("nan"),
    ) -> None:
        _check(method)
        self.grid = tuple(nodes_of("RegularGridInterpolator", p) for p in points)
        self.values = as_float(values)
        sizes = tuple(len(p) for p in self.grid)
        if tuple(self.values.shape[: len(sizes)]) != sizes:
            raise ValueError(
                f"RegularGridInterpolator: the values {list(self.values.shape)} do not begin with "
                f"the "
                f"sizes of the grid, {list(sizes)}"
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    def __call__(
        self, xi: Any, method: str | None = None, *, nu: Sequence[int] | None = None
    ) -> Tensor:
        """The values at places, whose last axis has a coordinate for each axis of the grid.

        With ``nu``, their derivatives of an order for each axis, for ``"cubic"`` and ``"pchip"``.
        """
        kind = self.method if method is None else _check(method)
        orders = self._orders(nu, kind)
        at = self._places(xi)
        outside = ad.zeros(at.shape[:-1], dtype=ad.bool)
        for d, x in enumerate(self.grid):
            place = at.detach()[..., d]
            outside = outside | (place < x.detach()[0]) | (place > x.detach()[-1])
        if self.bounds_error:
            must_hold(~outside, _outside, at)
        by_axes = kind in ("cubic", "pchip")
        made = self._by_axes(at, kind, orders) if by_axes else self._by_corners(at, kind)
        if self.bounds_error or self.fill_value is None:
            return made
        shape = (*outside.shape, *[1] * (made.ndim - outside.ndim))
        beyond = ad.as_tensor(self.fill_value, dtype=made.dtype)
        return ad.where(outside.reshape(shape), beyond, made)

    def _orders(self, nu: Sequence[int] | None, kind: str) -> list[int]:
        """Of derivatives, along each axis."""
        if nu is None:
            return [0] * len(self.grid)
        if kind not in ("cubic", "pchip"):
            raise ValueError(
                f"RegularGridInterpolator: nu is for 'cubic' and 'pchip', not {kind!r}\n"
                "  fix: differentiate by the places: adjoint.func.grad, or backward()"
            )
        orders = [int(order) for order in nu]
        if len(orders) != len(self.grid) or min(orders) < 0:
            raise ValueError(
                f"RegularGridInterpolator: nu is an order for each of {len(self.grid)} axes, not "
                f"negative, got {nu!r}"
            )
        return orders

    def _places(self, xi: Any) -> Tensor:
        if isinstance(xi, tuple):
            xi = ad.stack(ad.broadcast_tensors(*(as_float(x) for x in xi)), -1)
        at = as_float(xi).to(self.grid[0].dtype)
        n = len(self.grid)
        if at.ndim == 1 and n > 1:
            at = at[None]
        elif n == 1 and (at.ndim == 0 or at.shape[-1] != 1):
            at = at[..., None]
        if at.shape[-1] != n:
            raise ValueError(
                f"RegularGridInterpolator: places have {at.shape[-1]} coordinates, the grid {n} "
                f"axes"
            )
        return at

    def _by_corners(self, at: Tensor, kind: str) -> Tensor:
        cells, shares = [], []
        for d, x in enumerate(self.grid):
            k = found(x, at[..., d])
            left, right = rows(x, k), rows(x, k + 1)
            share = (at[..., d] - left) / (right - left)
            if kind == "nearest":
                share = (share > 0.5).to(share.dtype)
            cells.append(k)
            shares.append(share)
        more = [1] * (self.values.ndim - len(self.grid))
        total: Tensor | None = None
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            weight = ad.ones_like(shares[0])
            for side, share in zip(corner, shares, strict=True):
                weight = weight * (share if side else 1 - share)
            index = tuple(k + side for k, side in zip(cells, corner, strict=True))
            term = weight.reshape((*weight.shape, *more)) * self.values[index]
            total = term if total is None else total + term
        assert total is not None
        return total

    def _by_axes(self, at: Tensor, kind: str, orders: list[int]) -> Tensor:
        """The last axis first, at every place; then the next, each place in its own values."""
        make = CubicSpline if kind == "cubic" else PchipInterpolator
        places = at.reshape(-1, len(self.grid))

        def value(place: Tensor) -> Tensor:
            values = self.values
            for d in reversed(range(len(self.grid))):
                values = make(self.grid[d], values, axis=d)(place[d], orders[d])
            return values

        more = self.values.shape[len(self.grid) :]
        whole = ad.vmap(value)(places) if len(places) else self.values.new_zeros((0, *more))
        return whole.reshape((*at.shape[:-1], *whole.shape[1:]))


def _check(method: str) -> str:
    if method not in _METHODS:
        raise ValueError(
            f"RegularGridInterpolator: method is one of {', '.join(_METHODS)}, got {method!r}"
        )
    return method


def _outside(inside: Tensor, at: Tensor) -> Exception:
    k = int((~inside).flatten().nonzero()[0, 0])
    places = at.reshape(-1, at.shape[-1])
    where = places[k].tolist() if len(places) == inside.numel() else "a place"
    return ValueError(
        f"RegularGridInterpolator: {where} lies outside of the grid\n"
        "  fix: bounds_error=False with fill_value= a number, or None to go on beyond"
    )


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = float("nan"),
) -> Tensor:
    """Interpolate on a grid at once; see `RegularGridInterpolator`."""
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
