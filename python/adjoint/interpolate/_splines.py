"""Cubics between nodes, given by values and slopes there."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold

from ._nodes import as_float, found, moved, nodes_of, rows
from ._tridiagonal import solve_tridiagonal

__all__ = ["CubicSpline", "PchipInterpolator"]


class _Cubics:
    """Hermite's cubics: what the classes share."""

    _name = ""

    def __init__(self, x: Any, y: Any, axis: int, extrapolate: Any) -> None:
        self.x, values = nodes_of(self._name, x), as_float(y)
        self._axis = axis % max(values.ndim, 1)
        if values.ndim == 0 or values.shape[self._axis] != self.x.numel():
            raise ValueError(
                f"{self._name}: the values {list(values.shape)} do not have {self.x.numel()} along "
                f"axis {axis}, as many as there are nodes"
            )
        self._y = values.movedim(self._axis, 0)
        if extrapolate not in (None, True, False, "periodic"):
            raise ValueError(
                f"{self._name}: extrapolate is True, False, 'periodic' or None, got {extrapolate!r}"
            )
        self.extrapolate = True if extrapolate is None else extrapolate
        h = self.x.diff()
        self._h = h.reshape((-1, *[1] * (self._y.ndim - 1)))
        self._secants = self._y.diff(dim=0) / self._h
        self._slopes = self._found_slopes()

    def _found_slopes(self) -> Tensor:
        raise NotImplementedError

    def _coefficients(self) -> list[Tensor]:
        """Of the powers of the distance from the left node, from the constant on."""
        a, b = self._slopes[:-1], self._slopes[1:]
        third = (a + b - 2 * self._secants) / self._h
        return [self._y[:-1], a, (self._secants - a) / self._h - third, third / self._h]

    @property
    def c(self) -> Tensor:
        """SciPy's coefficients: of the powers from the third down, in each interval."""
        return ad.stack(self._coefficients()[::-1])

    def __call__(self, x: Any, nu: int = 0) -> Tensor:
        """The values at places, or their derivative of order ``nu``."""
        at = as_float(x).to(self.x.dtype)
        if self.extrapolate == "periodic":
            at = at - self._turns(at) * (self.x[-1] - self.x[0])
        k = found(self.x, at)
        d = (at - rows(self.x, k)).reshape((*at.shape, *[1] * (self._y.ndim - 1)))
        made: Tensor | None = None
        coefficients = self._coefficients()
        for power in range(3, nu - 1, -1):
            weight = 1.0
            for factor in range(power - nu + 1, power + 1):
                weight *= factor
            term = weight * rows(coefficients[power], k)
            made = term if made is None else made * d + term
        if made is None:
            made = ad.zeros_like(rows(coefficients[0], k))
        return moved(self._or_nan(made, at), at.ndim, self._axis)

    def _turns(self, at: Tensor) -> Tensor:
        """How many periods a place is away."""
        turns: Tensor = ad.floor((at - self.x[0]) / (self.x[-1] - self.x[0])).detach()
        return turns

    def _or_nan(self, made: Tensor, at: Tensor) -> Tensor:
        """NaN outside of the nodes, unless the curve goes on there."""
        if self.extrapolate:
            return made
        outside = (at < self.x[0]) | (at > self.x[-1])
        return ad.where(outside.reshape((*at.shape, *[1] * (self._y.ndim - 1))), float("nan"), made)

    def derivative(self, nu: int = 1) -> Any:
        """The derivative of order ``nu``, as a function."""
        return lambda x: self(x, nu)

    def integrate(self, a: Any, b: Any) -> Tensor:
        """The integral from ``a`` to ``b``."""
        return self._primitive(as_float(b)) - self._primitive(as_float(a))

    def _primitive(self, at: Tensor) -> Tensor:
        at, turns = at.to(self.x.dtype), None
        if self.extrapolate == "periodic":
            turns = self._turns(at)
            at = at - turns * (self.x[-1] - self.x[0])
        parts = self._coefficients()
        k = found(self.x, at)

        def up_to(d: Tensor, c: list[Tensor]) -> Tensor:
            return d * (c[0] + d * (c[1] / 2 + d * (c[2] / 3 + d * c[3] / 4)))

        whole = up_to(self._h, parts).cumsum(0)
        before = ad.cat([ad.zeros_like(whole[:1]), whole])
        d = (at - rows(self.x, k)).reshape((*at.shape, *[1] * (self._y.ndim - 1)))
        here = up_to(d, [rows(c, k) for c in parts])
        made = self._or_nan(rows(before, k) + here, at)
        if turns is not None:
            made = made + turns.reshape((*at.shape, *[1] * (self._y.ndim - 1))) * before[-1]
        return moved(made, at.ndim, self._axis)


class CubicSpline(_Cubics):
    """The cubic spline through samples: twice continuously differentiable, as SciPy's.

    Differentiable by nodes, values and places.

    Parameters
    ----------
    x, y
        Nodes, and values with as many along ``axis``.
    axis
        Of the values.
    bc_type
        At the ends: ``"not-a-knot"``, ``"natural"``, ``"clamped"``, ``"periodic"``; or a pair of
        these or of ``(order, value)`` with order 1 or 2.
    extrapolate
        Whether the last cubics go on; else values outside are NaN. ``"periodic"`` repeats the
        curve, and is what None says of periodic ends.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.linspace(0, 3, 7, dtype=ad.float64)
    >>> spline = ad.interpolate.CubicSpline(x, x**3)  # which it reproduces
    >>> spline(1.7), spline(1.7, 1)
    (tensor(4.9130, dtype=torch.float64), tensor(8.6700, dtype=torch.float64))
    """

    _name = "CubicSpline"

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
        if len(pair) != 2 or ("periodic" in pair and pair != ("periodic", "periodic")):
            raise ValueError(
                f"CubicSpline: bc_type is a name or a pair of conditions, got {bc_type!r}"
            )
        self._ends = pair
        if extrapolate is None and pair[0] == "periodic":
            extrapolate = "periodic"
        super().__init__(x, y, axis, extrapolate)

    def _found_slopes(self) -> Tensor:
        n = self.x.numel()
        h, secant = self._h, self._secants
        if self._ends[0] == "periodic":
            return self._periodic()
        if n == 2 and self._ends == ("not-a-knot", "not-a-knot"):
            return ad.cat([secant, secant])
        if n == 3 and self._ends == ("not-a-knot", "not-a-knot"):
            return self._parabola()
        left = self._end(self._ends[0], h, secant, 1)
        right = self._end(self._ends[1], h.flip(0), secant.flip(0), -1)
        below = ad.cat([h[1:], right[1]])
        above = ad.cat([left[1], h[:-1]])
        inner = 2 * (h[1:] + h[:-1])
        diagonal = ad.cat([left[0], inner, right[0]])
        sums = 3 * (h[1:] * secant[:-1] + h[:-1] * secant[1:])
        given = ad.cat([left[2], sums, right[2]])
        flat = solve_tridiagonal(
            below.flatten(), diagonal.flatten(), above.flatten(), given.reshape(n, -1)
        )
        return flat.reshape(self._y.shape)

    def _end(self, kind: Any, h: Tensor, secant: Tensor, sign: int) -> tuple[Tensor, ...]:
        """The equation at an end, seen from there: its slope, the next one, and what they give."""
        one = ad.ones_like(h[:1])
        if kind in ("natural", "clamped"):
            kind = (2, 0.0) if kind == "natural" else (1, 0.0)
        if kind == "not-a-knot":
            if len(h) == 1:
                return one, one, 2 * secant[:1]
            a, b = h[:1], h[1:2]
            given = ((3 * a + 2 * b) * b * secant[:1] + a * a * secant[1:2]) / (a + b)
            return b, a + b, given
        if not (isinstance(kind, (tuple, list)) and len(kind) == 2 and kind[0] in (1, 2)):
            raise ValueError(f"CubicSpline: there is no condition {kind!r}")
        value = as_float(kind[1]).to(secant.dtype) * ad.ones_like(secant[:1])
        if kind[0] == 1:
            return one, 0 * one, value
        return 2 * one, one, 3 * secant[:1] - sign * value * h[:1] / 2

    def _parabola(self) -> Tensor:
        """Through three nodes: not a knot leaves one cubic, of which the parabola is taken."""
        h, secant = self._h, self._secants
        bend = (secant[1] - secant[0]) / (h[0] + h[1])
        first = secant[0] - bend * h[0]
        return ad.stack([first, first + 2 * bend * h[0], secant[1] + bend * h[1]])

    def _periodic(self) -> Tensor:
        n = self.x.numel()
        gap = (self._y[0] - self._y[-1]).detach().abs().max()
        must_hold(gap <= 1e-10 * self._y.detach().abs().max(), _is_open)
        h, secant = self._h, self._secants
        before, s_before = h.roll(1, 0), secant.roll(1, 0)
        m = n - 1
        given = (3 * (h * s_before + before * secant)).reshape(m, -1)
        a, b, c = h.flatten(), (2 * (h + before)).flatten(), before.flatten()
        # Row k: h_k m_{k-1} + 2 (h_{k-1} + h_k) m_k + h_{k-1} m_{k+1}, the ends joined.
        k = ad.arange(m)
        matrix = ad.zeros(m, m, dtype=h.dtype)
        for column, entries in (((k - 1) % m, a), (k, b), ((k + 1) % m, c)):
            matrix = matrix.index_put((k, column), entries, accumulate=True)
        slopes = ad.linalg.solve(matrix, given).reshape(m, *self._y.shape[1:])
        return ad.cat([slopes, slopes[:1]])


def _is_open(closed: Tensor) -> Exception:
    return ValueError("CubicSpline: the first and the last value of a periodic spline must agree")


class PchipInterpolator(_Cubics):
    """Cubics that are monotone where the samples are (Fritsch and Carlson), as SciPy's.

    Differentiable by nodes, values and places; at nodes where the samples turn, the slope is zero
    and stays so.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.0, 1.0, 2.0, 3.0])
    >>> ad.interpolate.PchipInterpolator(x, [0.0, 0.0, 1.0, 1.0])(1.5)
    tensor(0.5000, dtype=torch.float64)
    """

    _name = "PchipInterpolator"

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        super().__init__(x, y, axis, extrapolate)

    def _found_slopes(self) -> Tensor:
        h, secant = self._h, self._secants
        if len(h) == 1:
            return ad.cat([secant, secant])
        a, b = secant[:-1], secant[1:]
        first, second = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
        same = a * b > 0
        # Divide by ones where it is not used: no NaN in its derivative.
        safe_a, safe_b = ad.where(same, a, 1.0), ad.where(same, b, 1.0)
        inner = ad.where(same, (first + second) / (first / safe_a + second / safe_b), 0.0)
        left = self._end(h[0], h[1], secant[0], secant[1])
        right = self._end(h[-1], h[-2], secant[-1], secant[-2])
        return ad.cat([left[None], inner, right[None]])

    @staticmethod
    def _end(h: Tensor, k: Tensor, near: Tensor, far: Tensor) -> Tensor:
        slope = ((2 * h + k) * near - h * far) / (h + k)
        slope = ad.where(slope * near <= 0, 0.0, slope)
        steep = (near * far < 0) & (slope.abs() > 3 * near.abs())
        return ad.where(steep, 3 * near, slope)
