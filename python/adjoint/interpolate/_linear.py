"""Straight lines between nodes, and steps."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold

from ._nodes import as_float, found, moved, nodes_of, rows

__all__ = ["interp", "interp1d"]

_STEPS = ("nearest", "previous", "next")
_SAME = (("linear", "slinear"), ("previous", "zero"))  # other names of SciPy's


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    """Interpolate linearly, as `numpy.interp` does; beyond the nodes lie the values at the ends.

    Differentiable by the places ``x``, the nodes ``xp`` and the values ``fp``.

    Examples
    --------
    >>> import adjoint as ad
    >>> fp = ad.tensor([0.0, 1.0, 4.0], requires_grad=True)
    >>> ad.interpolate.interp(1.5, [0.0, 1.0, 2.0], fp)
    tensor(2.5000, dtype=torch.float64, grad_fn=<...>)
    """
    nodes, values, at = nodes_of("interp", xp), as_float(fp), as_float(x)
    if values.shape != nodes.shape:
        raise ValueError(
            f"interp(): there are {list(values.shape)} values for {nodes.numel()} nodes"
        )
    made = _line(nodes, values, at.clamp(nodes.detach()[0], nodes.detach()[-1]), 0)
    for end, outside in ((left, at < nodes[0]), (right, at > nodes[-1])):
        if end is not None:
            made = ad.where(outside, ad.as_tensor(end, dtype=made.dtype), made)
    return made


def _line(x: Tensor, y: Tensor, at: Tensor, axis: int) -> Tensor:
    """On the line of the interval of each place; the nodes' axis becomes those of the places."""
    y = y.movedim(axis, 0)
    k = found(x, at)
    left, right, low, high = rows(x, k), rows(x, k + 1), rows(y, k), rows(y, k + 1)
    share = ((at - left) / (right - left)).reshape((*at.shape, *[1] * (y.ndim - 1)))
    made = low + share * (high - low)
    return moved(made, at.ndim, axis)


class interp1d:
    """A function through samples along one axis, as SciPy's class of this name.

    Parameters
    ----------
    x, y
        Nodes, and values with as many along ``axis``.
    kind
        ``"linear"``, ``"cubic"`` (a spline), ``"nearest"``, ``"previous"``, ``"next"``.
    axis
        Of the values.
    bounds_error
        Whether places outside of the nodes are refused; by default unless ``fill_value`` is given.
    fill_value
        The value outside, a pair for below and above, or ``"extrapolate"``; NaN if places outside
        are not refused and nothing is given.
    copy, assume_sorted
        SciPy's, without effect: nothing is changed, and nodes must increase.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: str = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = None,
        assume_sorted: bool = False,
    ) -> None:
        self._x, self._y = nodes_of("interp1d", x), as_float(y)
        self._axis = axis % max(self._y.ndim, 1)
        if self._y.ndim == 0 or self._y.shape[self._axis] != self._x.numel():
            raise ValueError(
                f"interp1d: the values {list(self._y.shape)} do not have {self._x.numel()} along "
                f"axis {axis}, as many as there are nodes"
            )
        kind = next((name for name, same in _SAME if kind == same), kind)
        if kind not in ("linear", "cubic", *_STEPS):
            raise ValueError(
                f"interp1d: there is no kind {kind!r}; there are 'linear', 'cubic', "
                f"{', '.join(map(repr, _STEPS))}"
            )
        self._kind = kind
        self._goes_on = isinstance(fill_value, str) and fill_value == "extrapolate"
        self._refuses = fill_value is None if bounds_error is None else bounds_error
        pair = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
        if len(pair) != 2:
            raise ValueError(f"interp1d: fill_value is (below, above), got {len(pair)} values")
        self._fill = pair
        self._spline: Any = None
        if kind == "cubic":
            from ._splines import CubicSpline

            self._spline = CubicSpline(self._x, self._y, axis=self._axis)

    def __call__(self, x: Any) -> Tensor:
        """The values at places; their axes take that of the nodes."""
        at = as_float(x).to(self._x.dtype)
        low, high = self._x[0].detach(), self._x[-1].detach()
        outside = (at.detach() < low) | (at.detach() > high)
        if self._refuses:
            must_hold(~outside, _outside, low, high)
        made = self._inside(at)
        if self._goes_on or self._refuses:
            return made
        shape = [1] * made.ndim
        shape[self._axis : self._axis + at.ndim] = list(at.shape)
        for fill, beyond in zip(self._fill, (at.detach() < low, at.detach() > high), strict=True):
            value = ad.as_tensor(float("nan") if fill is None else fill, dtype=made.dtype)
            made = ad.where(beyond.reshape(shape), value, made)
        return made

    def _inside(self, at: Tensor) -> Tensor:
        if self._spline is not None:
            made: Tensor = self._spline(at)
            return made
        if self._kind == "linear":
            return _line(self._x, self._y, at, self._axis)
        k = found(self._x, at)
        left, right = rows(self._x.detach(), k), rows(self._x.detach(), k + 1)
        if self._kind == "nearest":
            k = k + (at > (left + right) / 2).long()
        elif self._kind == "previous":
            k = k + (at >= right).long()
        else:
            k = k + (at > left).long()
        return moved(rows(self._y.movedim(self._axis, 0), k), at.ndim, self._axis)


def _outside(inside: Tensor, low: Tensor, high: Tensor) -> Exception:
    return ValueError(
        f"interp1d: a place lies outside of the nodes, from {float(low.max()):g} to "
        f"{float(high.min()):g}\n  fix: give fill_value= a number, or 'extrapolate'"
    )
