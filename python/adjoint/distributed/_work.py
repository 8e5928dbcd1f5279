"""`Work`: an operation under way between ranks, and the future of its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from adjoint._core import _ForeignCall
from adjoint.distributed._board import DIFFERENT
from adjoint.distributed._ends import who_left
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._library import give_up_finalizing, mpi
from adjoint.futures import Future

if TYPE_CHECKING:
    from adjoint.distributed._group import ProcessGroup

__all__ = ["Received", "Work"]

_SAME_CALLS = "let all ranks make the same calls in the same order"
_DIFFERENT = (
    "the ranks gave tensors of different sizes or dtypes, or different operations.\n  fix: "
    + _SAME_CALLS
)
_LOOK = 0.5  # seconds between two looks for ranks that have left


class Work:
    """An operation under way: ``wait()`` for it before its tensors are read or changed."""

    operation = 0  # the number of a collective operation in its group, from 1

    def __init__(
        self,
        what: str,
        group: ProcessGroup,
        calls: list[_ForeignCall],
        held: Any,
        result: list[Any],
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._what = what
        self._group = group
        self._calls = calls
        self._held = held  # memory that MPI reads and writes until then
        self._result = result
        self._finish = finish
        self._error: Exception | None = None
        self._over = False
        self._future: _WorkFuture | None = None

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until it is done; True. Raise an error of MPI's, or when the time is over."""
        if not self._over:
            seconds = _seconds(timeout, self._group._seconds)
            for call in self._calls:
                self._wait_for(call, seconds)
                self._check(call)
            self._end()
        if self._error is not None:
            raise self._error
        return True

    def _wait_for(self, call: _ForeignCall, limit: float) -> None:
        end = time.monotonic() + limit
        left = limit
        while not call.wait(min(left, _LOOK)):
            number = self._group._number
            if number and self.operation and (gone := who_left(number, self.operation)) is not None:
                self._fail(self._abandoned(gone))
            left = end - time.monotonic()
            if left <= 0:
                self._fail(self._too_late(limit))

    def _check(self, call: _ForeignCall) -> None:
        if code := call.code():
            why = _DIFFERENT if code == DIFFERENT else mpi().Get_error_string(code)
            self._fail(f"{self._what} failed: {why}")

    def _too_late(self, seconds: float) -> str:
        others = self._group.size() - 1
        return (
            f"{self._what} on rank {self._group.rank()} waited {seconds:g} s for {others} other "
            f"rank{'s' * (others != 1)}: slower, ended, or without this call.\n  fix: "
            f"{_SAME_CALLS}, or raise timeout= of init_process_group"
        )

    def _abandoned(self, rank: int) -> str:
        return (
            f"{self._what} on rank {self._group.rank()} waited for rank {rank}, which has left: it "
            f"has ended, or destroyed the group.\n  fix: {_SAME_CALLS}; where one has less data, "
            "use DistributedSampler, or DistributedDataParallel's join()"
        )

    def _fail(self, text: str) -> None:
        give_up_finalizing()
        self._group._broken = text
        self._over = True
        self._error = DistBackendError(text)
        raise self._error

    def _end(self) -> None:
        finish, self._finish = self._finish, None
        self._over = True
        self._held = None
        if finish is not None:
            finish()

    def _arrived(self) -> bool:
        return self._over or all(call.done() for call in self._calls)

    def is_completed(self) -> bool:
        """Whether it is done."""
        if not self._over and self._arrived():
            self.wait()
        return self._over

    def is_success(self) -> bool:
        """Whether it is done, without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """The error that it ended with."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that hold the result."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """Wait until it is done."""
        self.wait()

    block_current_stream = synchronize

    def source_rank(self) -> int:
        """Who sent what was received."""
        raise RuntimeError(f"{self._what} has no single source; fix: recv returns it")

    def get_future(self) -> Future[list[Any]]:
        """A future of the tensors that hold the result."""
        if self._future is None:
            self._future = _WorkFuture(self)
        return self._future


class Received(Work):
    """What one message brings, whose sender is known."""

    source = -1

    def source_rank(self) -> int:
        """Who sent it."""
        return self.source


def _seconds(timeout: timedelta | float | None, default: float) -> float:
    if timeout is None:
        return default
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds > 0 else default


class _WorkFuture(Future[list[Any]]):
    """The future of a `Work`: whoever waits for it, or for what is made of it, drives the work."""

    def __init__(self, work: Any, made: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._work = work
        self._made = made
        self._settling = False

    def done(self) -> bool:
        """Whether the result is there."""
        if not super().done() and not self._settling and self._work._arrived():
            self._settle()
        return super().done()

    def wait(self) -> list[Any]:
        """The result, as soon as it is there."""
        if not super().done():
            self._settle()
        return self.value()

    def _settle(self) -> None:
        self._settling = True  # setting the result asks whether it is there
        try:
            result = self._work.result() if self._made is None else self._made()
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def then(self, callback: Callable[[Future[list[Any]]], Any]) -> Future[Any]:
        """A future of what the function makes of this one, when somebody waits for that."""

        def make() -> Any:
            self.wait()
            return callback(self)

        return _WorkFuture(self._work, make)
