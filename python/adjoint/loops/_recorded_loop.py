"""A loop inside a recording: one instruction forward, and one backward.

Where a scan is called in a function that is compiled, or in the step of another scan, its steps are
not taken down one by one. The loop is a host call (`adjoint._core._host_call`), which a program
repeats; what it leaves for its backward pass is the last result of that call.

Note [What a loop leaves, as a tensor]: a program hands tensors from its forward to its backward
part, and a loop around it keeps memory alone of them. So what is left stands behind the memory of a
tensor: a buffer that has a number in it, and is alive as long as anybody holds that memory.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor

__all__ = ["RecordedBackward", "RecordedForward", "behind", "in_front_of"]

_numbers = itertools.count(1)
_there: weakref.WeakValueDictionary[int, _Held] = weakref.WeakValueDictionary()


class _Held(bytearray):
    thing: Any


def in_front_of(thing: Any) -> Tensor:
    """A tensor whose memory keeps an object alive."""
    if thing is None:
        return _core.zeros(1, dtype=ad.int64)
    number = next(_numbers)
    held = _Held(number.to_bytes(8, sys.byteorder))
    held.thing = thing
    _there[number] = held
    return ad.frombuffer(held, dtype=ad.int64)


def behind(token: Tensor) -> Any:
    """The object."""
    number = int(token.item())
    return _there[number].thing if number else None


class RecordedForward:
    """All steps of a loop, as a program calls them.

    Parameters
    ----------
    run
        Gives results for tensors, and what is left for the backward pass.
    """

    def __init__(self, run: Callable[[Sequence[Tensor]], tuple[list[Tensor], Any]]) -> None:
        self._run = run

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results, and the tensor in front of what is left."""
        results, left = self._run(tensors)
        return [*_core._own_memory(results, tensors), in_front_of(left)]


class RecordedBackward:
    """All steps of a loop backward, as a program calls them.

    Parameters
    ----------
    run
        Gives gradients, or None for some, for what the loop has left and tensors.

    Attributes
    ----------
    there
        By gradient: whether it is there. The same in each call.
    """

    def __init__(self, run: Callable[[Any, Sequence[Tensor]], list[Tensor | None]]) -> None:
        self._run = run
        self.there: list[bool] = []

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The gradients that are there."""
        token, *others = tensors
        found = self._run(behind(token), others)
        self.there = [t is not None for t in found]
        made: list[Tensor] = _core._own_memory([t for t in found if t is not None], tensors)
        return made

    def spread(self, found: list[Tensor]) -> list[Tensor | None]:
        """The gradients that are there, with None for the others."""
        each = iter(found)
        return [next(each) if on else None for on in self.there]
