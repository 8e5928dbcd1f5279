"""The iterator that a loop gets, which may hand its steps to a scan."""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType
from typing import Any

from adjoint import _core
from adjoint.compiler._visible import is_own
from adjoint.compiler._walk import Walk, current_walk

from . import _frames
from ._between import Between, Unlike
from ._bytecode import ForLoop, loops_around
from ._items import KINDS, left_of
from ._rest import Rest
from ._rows import can_stand_for

__all__ = ["FEWEST", "decisions", "look"]

FEWEST = 16  # steps that are left
decisions: deque[str] = deque(maxlen=64)  # what became of loops, the latest last
# What steps, and the scan of them, may raise. Those of signals are others as a rule, and go on.
_ORDINARY = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, NameError),
    *(ReferenceError, RuntimeError, TypeError, ValueError),
)
# Names by which code asks for the graph, or for memory: there a scan makes something else.
_ASKING = frozenset(
    (
        *("_base", "_cdata", "_is_view", "_version", "data_ptr", "grad_fn", "metadata"),
        *("next_functions", "output_nr", "storage", "storage_offset", "untyped_storage"),
    )
)
_RECORDERS = frozenset(("_record", "record", "record_inside"))


def look() -> None:
    """Watch the loops that the program is in."""
    walk = current_walk()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and walk is not None and _frames.understood():
        if not _ASKING.isdisjoint(walk.names()):
            return
        if not is_own(frame.f_code.co_filename):
            if not _ASKING.isdisjoint(frame.f_code.co_names):
                return
            for loop in loops_around(frame.f_code, frame.f_lasti):
                _watch(frame, loop, walk)
        elif frame.f_code.co_name in _RECORDERS:
            return
        frame = frame.f_back


def _watch(frame: FrameType, loop: ForLoop, walk: Walk) -> None:
    def made(iterator: Any) -> Takeover | None:
        left = left_of(iterator)
        if left is None or len(left) < FEWEST or not can_stand_for(left, loop):
            return None
        return Takeover(loop, iterator, walk)

    if loop.target is not None:
        _frames.swap(frame, loop.depth, KINDS, made)


class Takeover:
    """An iterator in place of another one."""

    def __init__(self, loop: ForLoop, iterator: Any, walk: Walk) -> None:
        self._loop, self._walk = loop, walk
        self._iterators = [iterator]  # of which the last gives the items
        self._watches = True
        self._before: Between | None = None
        self._ran = 0  # code, before that step
        self._done, self._tries = 0, 2

    def __iter__(self) -> Takeover:
        return self

    def __next__(self) -> Any:
        if self._watches:
            self._look_between_steps(sys._getframe(1))
        self._done += 1
        return next(self._iterators[-1])

    def _look_between_steps(self, frame: FrameType) -> None:
        paused = _core._walk_pause(True)
        try:
            if not self._goes_on():
                self._let_go()
            elif self._before is None:
                left = left_of(self._iterators[-1])
                if left is not None and len(left) >= FEWEST:
                    item = [one for column in left.columns() for one in column.next_items()]
                    self._before = Between(frame, self._loop, self._walk, item)
                    self._ran = len(self._walk.ran())
                else:
                    self._let_go()
            else:
                self._take_over(frame, self._before)
        except Unlike as unlike:
            decisions.append(str(unlike))
            self._tries -= 1
            self._before = None
            if not self._tries:
                self._let_go()
        except _ORDINARY as error:  # whatever went wrong here, the loop can go on
            decisions.append(repr(error))
            self._let_go()
        finally:
            _core._walk_pause(paused)

    def _goes_on(self) -> bool:
        usual = _core._is_recording() and not (_core._loop_mode() or _core._autocast_modes())
        return usual and current_walk() is self._walk

    def _let_go(self) -> None:
        self._watches, self._before = False, None

    def _take_over(self, frame: FrameType, before: Between) -> None:
        left = left_of(self._iterators[-1])
        if left is not None and len(left) >= FEWEST:
            now = Between(frame, self._loop, None)
            if len(self._walk.ran()) != self._ran:  # which may reach more than was looked at
                raise Unlike("it runs code that had not run before")
            before.check(now)
            for fold in {Rest.fold_of(before, now, left): None, 1: None}:
                rest = Rest(frame, before, now, left, self._done, fold)
                if rest.run(frame, self._walk, self._iterators, iter([*left[rest.count :]])):
                    decisions.append("taken over")
                    break
        self._let_go()
