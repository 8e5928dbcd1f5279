"""Difference methods as objects: what each costs, how exact it is, what it can do, how it is run.

`Method` is what `derivative=` of an external takes. `Stencil` is the kind that moves a coordinate
to a few places and combines the values there; such a method serves patterns of coordinates that
move together (elementwise functions, sparse Jacobians, batches) as well, without knowing of them.
Read next: _central.py for one of them, _plan.py for how an external uses it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ._jacobians import Dense, Jacobian
from ._point import Matrix, Move, Point, Values, Vector
from ._steps import Steps
from ._tiny_elements import recover

if TYPE_CHECKING:
    from ._bends import Bends
    from ._plan import Plan

__all__ = ["METHODS", "Method", "Stencil", "resolve"]

METHODS: dict[str, type[Method]] = {}  # by name, filled by the class statements


class Method(abc.ABC):
    """How derivatives are made of evaluations near the input.

    A subclass with a ``name`` in its class statement can be asked for by it: ``derivative="name"``.
    It states what it can do in the class attributes below, and defines `evaluations`, `error` and
    `jacobian`. Settings are dataclass fields; one object may serve any number of functions.

    Attributes
    ----------
    name
        What ``derivative=`` calls the method.
    order
        The power of the step that the truncation error is proportional to: 1 for forward, 2 for
        central differences. The best relative step is ``noise**(1 / (order + 1))``.
    at_most
        Whether `evaluations` is a bound: the method stops when it is done.
    checks
        Evaluations that its first derivative makes to verify what it relies on.
    needs_complex
        Whether the function is evaluated at complex numbers.
    directional
        Whether one direction, for a jvp, takes two evaluations instead of a whole Jacobian.
    repeatable
        Whether derivatives at neighbouring inputs can be compared, for second derivatives.
    directional_check
        Whether its Jacobians are compared with a difference along one direction.
    flat
        Whether second derivatives are zero.
    recovers
        Whether elements that are tiny in their array are stepped again (_tiny_elements.py).
    """

    name: ClassVar[str] = ""
    order: ClassVar[int] = 2
    at_most: ClassVar[bool] = False
    checks: ClassVar[int] = 0
    needs_complex: ClassVar[bool] = False
    directional: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True
    recovers: ClassVar[bool] = False
    directional_check: ClassVar[bool] = False
    flat: ClassVar[bool] = False

    # The settings that most have; a method without one of them keeps the default.
    step: Any = None
    scale: Any = None
    probe: bool = True
    seed: int = 0

    def __init_subclass__(cls, *, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if name:
            cls.name = name
            METHODS[name] = cls

    def __repr__(self) -> str:
        changed = [f"{k}={v!r}" for k, v in self.settings().items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def settings(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        found = ((f.name, getattr(self, f.name), f.default) for f in _fields(type(self)))
        return {k: v for k, v, default in found if v is not default and not _equal(v, default)}

    @abc.abstractmethod
    def evaluations(self, inputs: int) -> int:
        """How many evaluations the Jacobian by so many inputs takes."""

    @abc.abstractmethod
    def error(self, noise: float) -> float:
        """The relative error to expect in an entry, for outputs that are known up to ``noise``."""

    @abc.abstractmethod
    def jacobian(self, point: Point, steps: Steps, plan: Plan) -> Jacobian:
        """The Jacobian; ``plan`` keeps what is learnt of the function for later ones."""


def _fields(kind: Any) -> Sequence[Any]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b


class Stencil(Method):
    """A derivative by one coordinate, from the values at a few places on its axis.

    A subclass defines `offsets`, `ends` and `combine`.

    Attributes
    ----------
    offsets
        The places, counted in steps, where there is room on both sides.
    """

    offsets: ClassVar[tuple[int, ...]] = ()
    recovers: ClassVar[bool] = True
    directional_check: ClassVar[bool] = True

    @abc.abstractmethod
    def ends(self, steps: Steps) -> tuple[Vector, ...]:
        """The values that each coordinate is moved to, inside its bounds."""

    @abc.abstractmethod
    def combine(self, distances: Sequence[Any], values: Sequence[Any], y: Any) -> Any:
        """The derivative from the values at the ends, which are so far from x; at x it is ``y``."""

    def width(self, distances: Sequence[Any]) -> Any:
        """The distance between the places whose values are subtracted."""
        return np.abs(distances[0] - (*distances, 0.0)[1])

    def evaluations(self, inputs: int) -> int:
        """One for each place."""
        return len(self.offsets) * inputs

    def jacobian(self, point: Point, steps: Steps, plan: Plan) -> Dense:
        """Every input on its own."""
        ends = self.ends(steps)
        matrix = self.columns(point, ends, bends=plan.bends)
        recover(self, point, steps, matrix, self.width([end - point.x for end in ends]))
        return Dense(matrix)

    def columns(
        self,
        point: Values,
        ends: Sequence[Vector],
        checked: bool = True,
        bends: Bends | None = None,
    ) -> Matrix:
        """A column for each input, from the values at its ends."""
        x, y, count = point.x, point.y, len(ends)
        indices = np.repeat(np.arange(x.size), count).tolist()
        moves: Iterator[Move] = zip(indices, np.stack(ends, 1).reshape(-1), strict=True)
        matrix = np.empty((y.size, x.size))
        distances = [end - x for end in ends]
        values = point.values(moves, count * x.size, checked)
        # The last one is asked for, too: that lets the evaluations finish.
        for i, found in enumerate(zip(*[values] * count, strict=True)):
            apart = [d[i] for d in distances]
            matrix[:, i] = self.combine(apart, found, y)
            if bends is not None:
                bends.note(i, i, apart, found, matrix[:, i], y)
        return matrix


def resolve(derivative: Any, short: Mapping[str, Any]) -> Method:
    """The method that ``derivative=`` asks for, by name or as an object.

    ``short`` are settings that were given beside a name; those that it has no use for are ignored.
    """
    given = {k: v for k, v in short.items() if v is not None}
    if isinstance(derivative, Method):
        for name, value in given.items():
            fix = f"omit {name}=, which {type(derivative).__name__} does not have"
            if name in _known(type(derivative), given):
                settings = {**derivative.settings(), name: value}
                fix = f"derivative={type(derivative)(**settings)!r}"
            raise ValueError(f"{name}= and derivative={derivative!r} are both given; fix: {fix}")
        return derivative
    import adjoint.differences  # noqa: F401 - all methods have made themselves known then

    if not isinstance(derivative, str) or derivative not in METHODS:
        names = ", ".join(map(repr, sorted(METHODS)))
        raise ValueError(
            f"derivative= is one of {names}, or a method of ad.differences; got {derivative!r}"
        )
    for other in METHODS.values() if given else ():
        other(**_known(other, given))  # who has a setting judges its value, beside any name
    return METHODS[derivative](**_known(METHODS[derivative], given))


def _known(kind: type[Method], given: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name for f in _fields(kind)}
    return {k: v for k, v in given.items() if k in known}
