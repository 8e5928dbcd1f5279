"""`while_loop` inside a recording: an instruction of the program, as a scan is.

Whether there is a first step depends on values, too. So the loop is what happens by a condition: it
runs until its own one fails, or not at all (`Cond` in _cond.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd import enable_grad
from adjoint.autograd._backward import gradients_between
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

from ._carry import Carry
from ._cond import Cond
from ._drawn_numbers import DrawnNumbers
from ._kept import Kept
from ._loop import distinct, loop_backward, loop_forward
from ._memory import Memory
from ._rehearsal import Rehearsal
from ._run import LoopRun
from ._step import record_inside

__all__ = ["Until", "recorded_while"]


def recorded_while(
    on: Tensor,
    step: Callable[[Any], tuple[Any, Any]],
    carry: Carry,
    given: list[Tensor],
    finish: Callable[[Any], list[Tensor]],
    again: Callable[[list[Tensor], int, int], list[Tensor]],
    memory: Memory,
) -> list[Tensor] | None:
    """The last state, as a result of one instruction; None where the loop has to run as Python."""
    walk = current_walk()
    if walk is not None and walk.has_effects():
        _core._refuse_recording(walk.refusals[0].reason)
        return None

    def record() -> Any:
        try:
            return record_inside(step, (carry.built(given),), given, len(given), finish)
        except Exception:  # which the loop itself raises, if it comes there
            return None, Refused("it raises an error", "")

    with Rehearsal() as rehearsal, DrawnNumbers() as numbers:
        _, made = _core._unrecorded(record)
    numbers.put_back()
    if walk is not None and walk.has_effects():
        walk._take_back()  # they happen when the loop runs
        made = Refused(*walk.refusals[0])
    if isinstance(made, Refused):
        rehearsal.undo()
        return None
    made.ends_by_output()
    loop = LoopRun(made, len(given), None, False, memory, again)
    found = Cond.apply(lambda: Until(loop), on, *carry.tensors, *made.reached)
    return list(found)


class Until:
    """The loop, where there is a first step, and what it starts from otherwise."""

    def __init__(self, loop: LoopRun) -> None:
        self.loop = loop

    def forward(self, needs: bool, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The last state, and what is left for the backward pass."""
        on, *others = tensors
        carry, _, reached = self.loop.split(others)
        if not bool(on):
            return carry, (False, None)
        given = [*(t.contiguous() for t in carry), *reached]
        found, kept = loop_forward(self.loop, needs, given)
        return found, (True, kept)

    def backward(
        self, left: Any, tensors: Sequence[Tensor], grads: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of the first state and of what is reached: zeros where there is none."""
        ran, kept = left
        found: list[Tensor | None] = [*grads, *[None] * (len(tensors) - len(grads))]
        if ran:
            found = loop_backward(kept, tensors, grads, needs)
        return [
            None if not on else _core.zeros_like(t) if g is None else g
            for t, g, on in zip(tensors, found, needs, strict=True)
        ]

    @property
    def draws(self) -> bool:
        """Whether its steps draw random numbers."""
        return bool(self.loop.step.forward.draws())

    def has_left(self, left: Any) -> bool:
        """Whether this is what such a loop leaves."""
        if not isinstance(left, tuple) or not isinstance(left[0], bool):
            return False
        kept = left[1]
        return not left[0] or (isinstance(kept, Kept) and kept.loop.step is self.loop.step)

    def meet_all(self, there: Sequence[bool]) -> None:
        """Have all backward programs for gradients that arrive so."""
        step = self.loop.step
        step.meet_all(None, tuple(there), (False,) * len(step.reached), (False,))

    def once_more(
        self, ran: bool, tensors: list[Tensor], grads: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients by way of the loop as Python, with a graph where gradients are on."""
        result: list[Tensor | None] = [None] * len(tensors)
        if not ran:
            return [*grads, *result[len(grads) :]]
        graph = _core.is_grad_enabled()
        places = distinct([k for k, on in enumerate(needs) if on], tensors)
        with enable_grad():
            last = self.loop.again(tensors, self.loop.carries, 0)
            asked = [(t, g) for t, g in zip(last, grads, strict=True) if g is not None]
            made = gradients_between(asked, [tensors[k] for k in places], graph, graph)
        for k, g in zip(places, made, strict=True):
            result[k] = g
        return result

    def have_gradients(self, needs: Sequence[bool]) -> list[bool]:
        """By part of the state: whether it depends on what needs a gradient.

        Where the loop has no step it is the part that it starts from.
        """
        by_steps = self.loop.step.have_gradients(needs)[: self.loop.carries]
        return [has or was for has, was in zip(by_steps, needs, strict=False)]
