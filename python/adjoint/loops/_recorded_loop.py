"""A loop inside a recording: one instruction forward, and one backward.

Where a scan is called in a function that is compiled, or in the step of another scan, its steps are
not taken down one by one. The loop is a host call (`adjoint._core._host_call`), which a program
repeats; what it leaves for its backward pass is the last result of that call.

Note [What a loop leaves, as a tensor]: a program hands tensors from its forward to its backward
part, and a loop around it keeps memory alone of them. So what is left stands behind the memory of a
tensor: a buffer that has a number in it, and is alive as long as anybody holds that memory.

What is called is a `Body`, and numbers: no closure, so that a program in a file can say what it is
(_loop_files.py).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._recorded import Refused

__all__ = ["Body", "RecordedBackward", "RecordedForward", "behind", "in_front_of"]

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
    held = _there.get(number)
    if number and held is None:
        raise RuntimeError("a program runs a loop backward that has left nothing for that")
    return None if held is None else held.thing


class Body(Protocol):
    """What runs as one instruction: a scan, a loop until a condition fails, one of two branches."""

    def forward(self, needs: bool, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The results, and what is left for the backward pass."""

    def backward(
        self, left: Any, tensors: Sequence[Tensor], arrived: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of tensors, of those that arrive for results, and of sums so far."""

    def has_left(self, left: Any) -> bool:
        """Whether this is what such a loop leaves."""

    def meet_all(self, there: Sequence[bool]) -> None:
        """Have all backward programs for gradients that arrive so."""

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, from the default generator."""


class RecordedForward:
    """All steps of a loop, as a program calls them.

    Parameters
    ----------
    body
        What runs.
    needs
        Whether there is a backward pass.
    """

    def __init__(self, body: Body, needs: bool) -> None:
        self.body, self.needs = body, needs
        self.draws_random_numbers = body.draws  # which a program asks (src/program/capture)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results, and the tensor in front of what is left."""
        results, left = self.body.forward(self.needs, tensors)
        return [*_core._own_memory(results, tensors), in_front_of(left)]


class RecordedBackward:
    """All steps of a loop backward, as a program calls them.

    Parameters
    ----------
    body
        What runs.
    count
        How many tensors it was called with, without a condition.
    arriving
        By gradient of a result, and by sum so far: whether it is there.
    needs
        By tensor: whether a gradient is wanted.

    Attributes
    ----------
    gives
        The tensors that get a gradient, the same in each call; None before the first one.
    """

    def __init__(
        self, body: Body, count: int, arriving: Sequence[bool], needs: Sequence[bool]
    ) -> None:
        self.body, self.count = body, count
        self.arriving, self.needs = list(arriving), list(needs)
        self.gives: list[int] | None = None

    def record(
        self, token: Tensor, tensors: Sequence[Tensor], arriving: Sequence[Any]
    ) -> list[Tensor | None]:
        """Call it as an instruction of the program that is recorded."""
        with contextlib.suppress(Refused):  # which it is then in the run that comes there, if any
            _core._unrecorded(lambda: self.body.meet_all(self.arriving))
        operands = [token, *tensors, *(g for g in arriving if g is not None)]
        made = _core._host_call(self, operands)
        assert self.gives is not None
        result: list[Tensor | None] = [None] * self.count
        for k, t in zip(self.gives, made, strict=True):
            result[k] = t
        return result

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The gradients that are there."""
        token, *others = tensors
        left = behind(token)
        if not self.body.has_left(left):
            raise RuntimeError("a program runs a loop backward with what another one has left")
        there = iter(others[self.count :])
        arrived = [next(there) if on else None for on in self.arriving]
        found = self.body.backward(left, others[: self.count], arrived, self.needs)
        if self.gives is None:
            self.gives = [k for k, t in enumerate(found) if t is not None]
        made: list[Tensor] = _core._own_memory(
            [t for k in self.gives if (t := found[k]) is not None], tensors
        )
        return made
