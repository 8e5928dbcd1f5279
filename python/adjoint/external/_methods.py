"""The choices of ``derivative=``: what each costs, how exact it is, and how it is run.

Read next: the file of each method; docs/guides/externals.md explains when to choose which.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._colouring import SamplePattern, coloured, verify_pattern
from ._complex_step import complex_step, verify_analytic
from ._differences import central, forward
from ._elementwise import elementwise, verify_elementwise
from ._jacobian import Jacobian
from ._probe import probe
from ._problem import Problem
from ._repeats import verify_repeats
from ._richardson import ROUNDS, richardson
from ._spsa import spsa
from ._steps import Steps

if TYPE_CHECKING:
    from ._evaluate import Evaluator
    from ._external import External

__all__ = ["NAMES", "evaluations", "jacobian_error", "numerical_jacobian", "watched"]

NAMES = ("forward", "central", "complex-step", "richardson", "spsa")


def evaluations(external: External, inputs: int, arrays: int, colours: int | None) -> int:
    """How many evaluations a Jacobian takes after the first call's checks; richardson: at most."""
    per = {"forward": 1, "complex-step": 1, "richardson": 2 * ROUNDS}.get(external.derivative, 2)
    if external.derivative == "spsa":
        return 2 * external.directions
    if external.elementwise:
        return per * arrays
    return per * (inputs if colours is None else colours)


def jacobian_error(external: External, noise: float) -> float:
    """The relative error to expect in an entry: the noise of a difference of Jacobians."""
    if external.exact:
        return noise
    power = {"forward": 0.5, "complex-step": 1.0, "richardson": 0.8}.get(external.derivative, 2 / 3)
    return float(noise**power)


class Watch:
    """What became known of the Jacobians by differences that were computed meanwhile."""

    def __init__(self) -> None:
        self.error = 0.0  # the largest relative error to expect in one
        self._before: dict[Evaluator, int] = {}

    def see(self, external: External, noise: float) -> None:
        """Note one Jacobian."""
        self.error = max(self.error, jacobian_error(external, noise))
        self._before.setdefault(external.evaluator, external.evaluator.count)

    @property
    def evaluations(self) -> int:
        """Of all externals concerned, since the first derivative of each."""
        return sum(e.count - before for e, before in self._before.items())


_watches: list[Watch] = []


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Watches all externals, for `check`."""
    watch = Watch()
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


def numerical_jacobian(
    external: External, problem: Problem, steps: Steps, batch: tuple[int, ...] = ()
) -> Jacobian:
    """The Jacobian of a problem by the external's method; ``batch`` are its axes of samples."""
    for watch in _watches:
        watch.see(external, steps.noise)
    rng = np.random.default_rng(external.seed)
    kind, names = external.derivative, " ".join(problem.inputs.names)
    settled = not external.probes or not np.isnan(steps.given).any()
    if kind in ("forward", "central") and settled:
        # Nothing else is found out first: workers need not wait for it.
        problem.meanwhile = functools.partial(verify_repeats, external, problem, steps)
    else:
        verify_repeats(external, problem, steps)
    if external.elementwise:
        return _elementwise(external, problem, steps)
    if kind in ("forward", "central") and _has_samples(problem, batch):
        return _samples(external, problem, steps, rng, math.prod(batch))
    if external.sparsity is not None:
        return _sparse(external, problem, steps, rng)
    if kind == "complex-step":
        found = complex_step(problem, steps)
        if f"analytic {names}" not in external.verified:
            verify_analytic(problem, steps, found, rng)
            external.verified.add(f"analytic {names}")
        return found
    probe(external, problem, steps)
    if kind == "richardson":
        matrix, external.error = richardson(problem, steps)
        return matrix
    if kind == "spsa":
        return spsa(problem, steps, external.directions, external.rng)
    return forward(problem, steps) if kind == "forward" else central(problem, steps)


def _has_samples(problem: Problem, batch: tuple[int, ...]) -> bool:
    shapes = [*problem.inputs.shapes, *problem.outputs.shapes]
    sizes = [*problem.inputs.sizes, *problem.outputs.sizes]
    return bool(batch) and all(sizes) and all(s[: len(batch)] == batch for s in shapes)


def _samples(external: External, problem: Problem, steps: Steps, rng: Any, count: int) -> Jacobian:
    """The samples of a batch move together, one coordinate of each at a time."""
    probe(external, problem, steps)
    order = 1 if external.derivative == "forward" else 2
    found = coloured(problem, steps, SamplePattern(problem, count), order)
    key = f"batched {' '.join(problem.inputs.names)}"
    if key not in external.verified and count > 1:
        verify_pattern(problem, steps, found, rng, batched=True)
        external.verified.add(key)
    return found


def _elementwise(external: External, problem: Problem, steps: Steps) -> Jacobian:
    names = problem.inputs.names
    if not external.verified.issuperset(f"elementwise {name}" for name in names):
        verify_elementwise(problem, steps)
        # Of a single element nothing was learned.
        sizes = zip(names, problem.inputs.sizes, strict=True)
        external.verified.update(f"elementwise {name}" for name, size in sizes if size > 1)
    probe(external, problem, steps)
    return elementwise(problem, steps, 1 if external.derivative == "forward" else 2)


def _sparse(external: External, problem: Problem, steps: Steps, rng: Any) -> Jacobian:
    pattern = external.pattern(problem)
    probe(external, problem, steps)
    found = coloured(problem, steps, pattern, 1 if external.derivative == "forward" else 2)
    key = f"sparsity {' '.join(problem.inputs.names)}"
    if key not in external.verified:
        verify_pattern(problem, steps, found, rng)
        external.verified.add(key)
    return found
