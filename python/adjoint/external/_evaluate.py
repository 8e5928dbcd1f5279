"""Calling the user's function: once, or many times together on workers.

A *point* is ``(args, kwargs, where)``; ``where`` tells which input was perturbed and is only asked
for when something goes wrong. Read next: _workers.py.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint._core import Tensor

from ._errors import EvaluationError
from ._progress import Progress
from ._workers import Workers

__all__ = ["Evaluator", "Point"]

Point = tuple[list[Any], dict[str, Any], Callable[[], str]]


def call(function: Any, args: list[Any], kwargs: dict[str, Any], mode: str) -> Any:
    """Call the function; the same in this process and in a worker.

    ``mode`` holds "t" if it takes tensors, "w" if it may write into its arguments, "c" if losing
    an imaginary part is an error.
    """
    if "t" in mode or "w" in mode:
        args, kwargs = _map(args, kwargs, mode)
    if "c" not in mode:
        return function(*args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        return function(*args, **kwargs)


def _map(args: list[Any], kwargs: dict[str, Any], mode: str) -> tuple[Any, Any]:
    import adjoint

    leaves, spec = _tree.flatten((tuple(args), kwargs))
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, (np.ndarray, np.generic)) and "t" in mode:
            leaves[k] = adjoint.tensor(np.asarray(leaf))
        elif isinstance(leaf, np.ndarray):
            leaves[k] = leaf.copy()
    mapped: tuple[Any, Any] = _tree.unflatten(spec, leaves)
    return mapped


class Evaluator:
    """A function with how it is called: on which workers, how often, how long."""

    def __init__(
        self, function: Any, name: str, workers: Workers, retries: int, mode: str, progress: Any
    ) -> None:
        self.function = function
        self.name = name
        self.workers = workers
        self.retries = retries
        self.mode = mode
        self.progress = progress
        self.count = 0  # evaluations so far
        self.reuses = False  # whether it was seen to return the same memory in each call

    def one(self, args: list[Any], kwargs: dict[str, Any], where: str = "") -> Any:
        """Evaluate once, here."""
        self.count += 1
        for left in range(self.retries, -1, -1):
            try:
                return call(self.function, args, kwargs, self.mode)
            except Exception as error:
                if not left:
                    self._explain(error, where)
        raise AssertionError("unreachable")

    def direct(self, args: list[Any]) -> Any:
        """Evaluate once, here, a function that takes arrays, without retries."""
        self.count += 1
        try:
            return self.function(*args)
        except Exception as error:
            self._explain(error, "")

    def many(
        self,
        points: Iterable[Point],
        total: int,
        extra: str = "",
        meanwhile: Callable[[], None] | None = None,
    ) -> Generator[Any, None, None]:
        """Evaluate at many points; the results come in order.

        ``meanwhile`` is called once: before, or here while workers make the first evaluations.
        """
        mode = self.mode + extra
        with Progress(self.name, total, self.progress) as progress:
            if self.workers.serial:
                if meanwhile is not None:
                    meanwhile()
                yield from progress.each(self._serial(points, mode))
            else:
                self.count += total
                results = self.workers.stream(
                    self.function, points, mode, self.retries, self.name, meanwhile
                )
                yield from progress.each(results)

    def _serial(self, points: Iterable[Point], mode: str) -> Iterator[Any]:
        for args, kwargs, where in points:
            self.count += 1
            for left in range(self.retries, -1, -1):
                try:
                    yield call(self.function, args, kwargs, mode)
                    break
                except GeneratorExit:
                    raise
                except Exception as error:
                    if not left:
                        self._explain(error, where())

    def _explain(self, error: Exception, where: str) -> None:
        """Raise the function's own error, with a note of what was being evaluated."""
        if isinstance(error, EvaluationError) and error.where:
            raise error
        if where:
            raise EvaluationError(
                f"{self.name} failed at {where}: {type(error).__name__}: {error}", where
            ) from error
        if "read-only" in str(error):
            told = (
                f"{self.name} changes its argument, which is the memory of a tensor, or needed for "
                "the derivative.\n"
                "  fix: external(..., writable=True) hands it copies that it may change"
            )
            if type(error) in (ValueError, TypeError, RuntimeError):  # plain: a message, no more
                error.args = (f"{error}: {told}",)
            else:
                error.add_note(told)
        if "t" not in self.mode and "must be Tensor, not numpy" in str(error):
            error.add_note(
                f"{self.name} is given NumPy arrays.\n"
                "  fix: external(..., arrays='tensor') gives it adjoint tensors; a function of "
                "adjoint operations alone needs no external at all"
            )
        raise error


def timed(evaluator: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, float]:
    """One evaluation and how long it took."""
    start = time.perf_counter()
    result = evaluator.one(args, kwargs)
    return result, time.perf_counter() - start


def is_tensor(value: Any) -> bool:
    """Whether a value is an adjoint tensor."""
    return isinstance(value, Tensor)
