"""What the solvers of this folder share: counting, stopping, showing where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import everywhere, is_batched

__all__ = ["Iteration", "Stop", "norm"]


class Stop(Exception):
    """Raised by a solver that cannot go on: why, where, and the residual there."""

    def __init__(self, reason: str, x: Tensor, r: Tensor) -> None:
        super().__init__(reason)
        self.reason, self.x, self.r = reason, x, r


def norm(v: Tensor) -> Tensor:
    """The Euclidean norm of a vector."""
    return ad.linalg.vector_norm(v)


class Iteration:
    """One run of a solver.

    Attributes
    ----------
    tolerance
        Of the last step, relative to each unknown.
    evaluations, jacobians, steps
        How many there were.
    """

    def __init__(
        self, name: str, dtype: Any, tolerance: float | None, most: int, callback: Any = None
    ) -> None:
        self._name, self._most, self._callback = name, most, callback
        self._eps = ad.finfo(dtype).eps
        # Newton's method squares the error of its last step; others have about as many digits as
        # this.
        self.tolerance = self._eps**0.75 if tolerance is None else float(tolerance)
        self.rounding = self._eps**0.5  # a step of Newton's method that leaves no more than eps
        self.smallest = ad.tensor(self._eps, dtype=dtype)
        self.evaluations = self.jacobians = self.steps = 0
        self._sizes: Tensor | None = None
        self._last: Tensor | None = None
        self._bar = CallsBar(name)

    def call(self, residual: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The residual at ``x``."""
        self.evaluations += 1
        return residual(x)

    def goes_on(self, done: Tensor, x: Tensor, r: Tensor) -> bool:
        """Whether there is a next step; counts it. Raises `Stop` at the last allowed."""
        if everywhere(done):
            return False
        if not everywhere(done | ad.isfinite(norm(r))):
            raise Stop("the residual is not finite there", x, r)
        if self.steps == self._most:
            raise Stop(f"{self._most} steps were not enough", x, r)
        if self._callback is not None and self.steps:
            self._callback(x, r)
        self.steps += 1
        self._show(r)
        return True

    def is_short(self, step: Tensor, x: Tensor, gain: float = 0.9) -> Tensor:
        """Whether a step is below the tolerance, and so the last.

        Unknowns may have units of any size: a step is measured by the largest that each has been.
        Those that are zero but for rounding never settle so. Then the step is short beside all of
        them, and no longer shrinks by the ``gain`` of a step.
        """
        sizes = ad.maximum(x.abs(), (x - step).abs())
        self._sizes = sizes if self._sizes is None else ad.maximum(self._sizes, sizes)
        each = (step.abs() / ad.where(self._sizes > 0, self._sizes, 1.0)).max()
        short = each <= self.tolerance
        if self._last is not None:
            whole = norm(step) <= self.tolerance * norm(self._sizes)
            short = short | (whole & (each >= gain * self._last))
        self._last = each
        return short

    def has_settled(self, step: Tensor) -> Tensor:
        """Whether the step that led here was short, too, beside the largest that x has been."""
        assert self._sizes is not None
        settled: Tensor = norm(step) <= self.tolerance**0.5 * norm(self._sizes)
        return settled

    def is_rounding(self, size: Tensor, x: Tensor) -> Tensor:
        """Whether a residual is as small as the rounding of ``x`` makes it, for a slope of one."""
        return size <= 4 * self._eps * (1 + norm(x))

    def _show(self, r: Tensor) -> None:
        if self._bar.is_shown:
            size = "" if is_batched(r) else f", residual {float(norm(r)):.2g}"
            self._bar.count(f"{self._name}{size}")
        else:
            self._bar.count()

    def end(self) -> None:
        """Take the line away."""
        self._bar.stop()
