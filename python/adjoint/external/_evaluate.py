"""Calling the user's function: once, or many times together on workers.

`Evaluation` is what a user says of it, `Evaluator` does it for one function. A *job* is
``(args, kwargs, where)``; ``where`` tells which input was perturbed and is only asked for when
something goes wrong. Read next: _workers.py.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from adjoint._apart import call_apart
from adjoint._evaluated import evaluated
from adjoint._progress import Bar, is_seen
from adjoint.numeric._errors import EvaluationError

from ._cache import Cached
from ._workers import Workers, call, check_workers

__all__ = ["Evaluation", "Evaluator", "Job"]

Job = tuple[list[Any], dict[str, Any], Callable[[], str]]

_SILENT = 2.0  # seconds before a progress bar is shown unasked


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Where and how the evaluations for a derivative run: ``evaluate=`` of `external`.

    Parameters
    ----------
    workers
        None (here, one after the other), a number of processes, ``"threads"``, or any
        `concurrent.futures.Executor`.
    timeout
        Seconds that an evaluation may take on a worker.
    retries
        How often an evaluation that failed, hung or lost its process is tried again.
    progress
        Whether to show a progress bar; None for one after two seconds, on a terminal.
    cache
        A folder in which results are kept, by what the function is and what it was given: an
        evaluation that was made before, in this or in another run of the program, is read instead.
        By joblib, which the extra ``adjoint[cache]`` installs.

    Examples
    --------
    >>> import adjoint as ad
    >>> threads = ad.Evaluation(workers="threads", retries=1)
    >>> f = ad.external(lambda x: x**2, derivative="central", step=0.5, evaluate=threads)
    >>> x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    >>> f(x).sum().backward()
    >>> x.grad
    tensor([2., 4.], dtype=torch.float64)
    """

    workers: Any = None
    timeout: float | None = None
    retries: int = 0
    progress: bool | None = None
    cache: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries= must not be negative, got {self.retries}")
        check_workers(self.workers, self.timeout)


class Evaluator:
    """A function with how it is called: on which workers, how often, how long."""

    def __init__(self, function: Any, name: str, evaluation: Evaluation, mode: str) -> None:
        self.fresh = function
        self.function = function if evaluation.cache is None else Cached(function, evaluation.cache)
        self.name = name
        self.workers = Workers(evaluation.workers, evaluation.timeout)
        self.retries = evaluation.retries
        self.progress = evaluation.progress
        self.mode = mode
        self.count = 0  # evaluations so far

    def one(
        self, args: list[Any], kwargs: dict[str, Any], where: str = "", here: bool = False
    ) -> Any:
        """Evaluate once: here, unless a time limit needs a worker that can be ended."""
        if here:
            return self._alone(args, kwargs, where, here)
        known = evaluated.get()
        if known is None:
            return self._alone(args, kwargs, where, here)
        return known.call(self, args, kwargs, lambda: self._alone(args, kwargs, where, here))

    def _alone(self, args: list[Any], kwargs: dict[str, Any], where: str, here: bool) -> Any:
        if here or self.workers.timeout is None or self.workers.serial:
            return _number(self._tried(args, kwargs, self.mode, lambda: where, here))
        (result,) = self.many([(args, kwargs, lambda: where or "the input")], 1)
        return result

    def direct(self, args: list[Any]) -> Any:
        """Evaluate once, here, a function that takes arrays, without retries."""
        known = evaluated.get()
        if known is None:
            return self._directly(args)
        return known.call(self, args, {}, lambda: self._directly(args))

    def _directly(self, args: list[Any]) -> Any:
        self.count += 1
        try:
            return _number(call_apart(self.function, args))
        except Exception as error:
            self._explain(error, "")

    def _bar(self, total: int) -> Bar:
        return Bar(f"derivative of {self.name}", total, stays=True)

    def many(
        self,
        jobs: Iterable[Job],
        total: int,
        extra: str = "",
        meanwhile: Callable[[], None] | None = None,
    ) -> Generator[Any, None, None]:
        """Evaluate many times; the results come in order.

        ``meanwhile`` is called once: before, or here while workers make the first evaluations.
        """
        mode = self.mode + extra
        results: Generator[Any, None, None]
        if self.workers.serial:
            if meanwhile is not None:
                meanwhile()
            results = (self._tried(args, kwargs, mode, where) for args, kwargs, where in jobs)
        else:
            self.count += total
            results = self.workers.stream(
                self.function, jobs, mode, self.retries, self.name, meanwhile
            )
        bar = self._bar(total) if self.progress else None
        start, unasked = time.perf_counter(), self.progress is None
        try:
            with contextlib.closing(results):
                for done, result in enumerate(results, 1):
                    if unasked and time.perf_counter() - start > _SILENT:
                        unasked = False
                        bar = self._bar(total) if is_seen() else None
                    if bar is not None:
                        bar.show(done)
                    yield _number(result)
        finally:
            if bar is not None:
                bar.stop()

    def _tried(
        self,
        args: list[Any],
        kwargs: dict[str, Any],
        mode: str,
        where: Callable[[], str],
        fresh: bool = False,
    ) -> Any:
        """One evaluation, here, again if it fails; ``fresh``, if it must not be a kept one."""
        self.count += 1
        function = self.fresh if fresh else self.function
        for left in range(self.retries, -1, -1):
            try:
                if not mode:
                    return call_apart(function, args, kwargs)
                return call(function, args, kwargs, mode)
            except Exception as error:
                if not left:
                    self._explain(error, where())
        raise AssertionError("unreachable")

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


def _number(result: Any) -> Any:
    """A whole number is a float that happened to be whole, as max(0, x) is below zero."""
    return float(result) if type(result) is int else result
