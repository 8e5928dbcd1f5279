"""The equation ``M y' = f(t, y)`` on vectors: its slope, its mass matrix, its derivative matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._colouring import Pattern
from adjoint._core import Tensor
from adjoint.func import jacfwd, jvp, vmap

__all__ = ["Held", "Slope", "System", "columns_by_groups", "sparse_columns"]

Slope = Callable[[Tensor, Tensor], Tensor]


class Groups(NamedTuple):
    """Columns of a matrix that share no row: the group of each column, and how many there are."""

    of_column: Tensor
    number: int


class System:
    """What is solved.

    Attributes
    ----------
    slope
        ``f(t, y)``.
    mass
        ``M``, or None where it is the identity.
    """

    def __init__(
        self,
        slope: Slope,
        mass: Tensor | None = None,
        matrix: Slope | None = None,
        groups: Groups | None = None,
        pattern: Tensor | None = None,
    ) -> None:
        self.slope, self.mass, self._matrix = slope, mass, matrix
        self._groups, self._pattern = groups, pattern

    def without_history(self) -> System:
        """The same, with values alone: for passes that only choose steps."""
        return _Values(self)

    def matrix(self, t: Tensor, y: Tensor) -> Tensor:
        """The derivative of the slope by the state."""
        if self._matrix is not None:
            return self._matrix(t, y)
        if self._groups is not None and self._pattern is not None:
            return columns_by_groups(lambda v: self.slope(t, v), y, self._groups, self._pattern)
        found: Tensor = jacfwd(lambda v: self.slope(t, v))(y)
        return found

    def by_time(self, t: Tensor, y: Tensor) -> Tensor:
        """The derivative of the slope by time."""
        found: Tensor = jvp(lambda s: self.slope(s, y), (t,), (ad.ones_like(t),))[1]
        return found

    def massed(self, v: Tensor) -> Tensor:
        """``M v``."""
        return v if self.mass is None else self.mass @ v

    def mass_matrix(self, y: Tensor) -> Tensor:
        """``M``."""
        return ad.eye(y.numel(), dtype=y.dtype) if self.mass is None else self.mass

    def rate(self, t: Tensor, y: Tensor) -> Tensor:
        """``y'``; where ``M`` is singular, that of the part which it determines."""
        f = self.slope(t, y)
        return f if self.mass is None else ad.linalg.pinv(self.mass) @ f

    @property
    def has_given_matrix(self) -> bool:
        """Whether the matrix, or its pattern, was given."""
        return self._matrix is not None or self._groups is not None

    def matrix_error(self, t: Tensor, y: Tensor) -> Tensor:
        """How far the matrix is from the derivative of the slope, relative to its size."""
        exact: Tensor = jacfwd(lambda v: self.slope(t, v))(y)
        given = self.matrix(t, y)
        if given.shape != exact.shape:
            raise ValueError(
                f"solve_ivp(): jac has the shape {list(given.shape)}, not {list(exact.shape)}"
            )
        size = (exact.abs().amax() + given.abs().amax()).clamp(min=1e-300)
        return (given - exact).abs().amax() / size

    def beside(self, t: Tensor, y: Tensor) -> Tensor:
        """The part of the slope that no ``y'`` can bring about, beside the columns of ``M``."""
        f, mass = self.slope(t, y), self.mass_matrix(y)
        rest = f - mass @ (ad.linalg.pinv(mass) @ f)
        return rest.abs().amax() / (1 + f.abs().amax())


class _Values(System):
    """A system without history and tangents."""

    def __init__(self, of: System) -> None:
        def slope(t: Tensor, y: Tensor) -> Tensor:
            return of.slope(t, y).detach()

        super().__init__(slope, None if of.mass is None else of.mass.detach())
        self._of = of

    def matrix(self, t: Tensor, y: Tensor) -> Tensor:
        return self._of.matrix(t, y).detach()

    def by_time(self, t: Tensor, y: Tensor) -> Tensor:
        return self._of.by_time(t, y).detach()


class Held(System):
    """A system whose state stays what it is for those samples of a `vmap` that are done.

    Their slope is asked for at ``(t, y)`` alone, where it is finite, and not used. With a singular
    mass matrix the equations without derivatives hold the state.
    """

    def __init__(self, of: System, done: Tensor, t: Tensor, y: Tensor) -> None:
        self._of, self._done, self._t, self._y = of, done, t, y
        self._beside: Tensor | None = None
        if of.mass is not None:
            mass = of.mass.detach()
            self._beside = mass @ ad.linalg.pinv(mass) - ad.eye(mass.shape[0], dtype=mass.dtype)

        def slope(s: Tensor, v: Tensor) -> Tensor:
            at, state = self._where(s, v)
            still = ad.zeros_like(v) if self._beside is None else self._beside @ (v - y)
            return ad.where(done, still, of.slope(at, state))

        super().__init__(slope, of.mass)

    def _where(self, t: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return ad.where(self._done, self._t, t), ad.where(self._done, self._y, y)

    def matrix(self, t: Tensor, y: Tensor) -> Tensor:
        moving = self._of.matrix(*self._where(t, y))
        still = ad.zeros_like(moving) if self._beside is None else self._beside
        return ad.where(self._done, still, moving)

    def by_time(self, t: Tensor, y: Tensor) -> Tensor:
        return ad.where(self._done, 0.0, self._of.by_time(*self._where(t, y)))


def columns_by_groups(
    f: Callable[[Tensor], Tensor], x: Tensor, groups: Groups, pattern: Tensor
) -> Tensor:
    """The derivative of a function, by one direction for each group of columns."""
    seeds = (groups.of_column == ad.arange(groups.number)[:, None]).to(x.dtype)

    def along(v: Tensor) -> Tensor:
        moved: Tensor = jvp(f, (x,), (v,))[1]
        return moved

    columns = vmap(along)(seeds).index_select(0, groups.of_column)
    return ad.where(pattern, columns.mT, 0.0)


def sparse_columns(given: Any) -> tuple[Groups, Tensor]:
    """The groups of columns of a sparsity pattern, and the pattern as a matrix of bools."""
    pattern = Pattern.of(given, "jac_sparsity=")
    # Made from lists, as programs do not take memory of NumPy's.
    size = pattern.shape[0] * pattern.shape[1]
    places = ad.tensor((pattern.rows * pattern.shape[1] + pattern.columns).tolist())
    filled = ad.zeros(size, dtype=ad.bool).index_fill(0, places, True).reshape(pattern.shape)
    colours = pattern.column_colours
    of_column = ad.tensor(colours.clip(min=0).tolist())
    return Groups(of_column, int(colours.max()) + 1), filled
