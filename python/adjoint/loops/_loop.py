"""A loop of a recorded step as one node of the graph.

The node is a custom function: `_run` has the steps, `_kept` what is kept of them for the backward
pass; inside a recording, both directions are instructions of it (`_recorded_loop`). Derivatives of
derivatives go by way of loops forward and backward (`_backward_scan`), or of the plain loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._recording import placeholder_pass
from adjoint._transforming import Transform
from adjoint.autograd import Function, enable_grad
from adjoint.autograd._backward import gradients_between
from adjoint.compiler._recorded import Refused

from ._backward_scan import backward_by_scan
from ._carry import in_order
from ._kept import Kept
from ._progress import bar_for
from ._recorded_loop import RecordedBackward, RecordedForward, behind
from ._run import ENDLESS, Gradients, LoopRun
from ._states import State
from ._step import tell
from ._transformed import Unsuited, apart, can_have_gradients, is_transformed, linearly

__all__ = ["WholeLoop", "distinct", "loop_backward", "loop_forward", "place_of", "run_loop"]


def run_loop(loop: LoopRun, carry: list[Tensor], xs: list[Tensor]) -> list[Tensor]:
    """The carry after all steps, and the stacked outputs."""
    reached, mode = loop.step.reached, _core._loop_mode()
    if mode:
        loop.transform = Transform()
        # A value that was taken out of a batch may still have the tangents that ride beside it.
        carry, xs, reached = ([apart(t)[0][0] for t in some] for some in (carry, xs, reached))
    tensors = [*carry, *xs, *reached]
    needs = _core.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if needs and mode and not can_have_gradients(tensors):
        raise Unsuited
    # As a function: what can be called is not searched for tensors.
    found: tuple[Tensor, ...] = Loop.apply(lambda: loop, needs, *tensors)
    return list(found)


class Loop(Function):
    """A loop in the graph."""

    @staticmethod
    def forward(
        ctx: Any, the_loop: Callable[[], LoopRun], needs: bool, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        loop = the_loop()
        ctx.given = None
        if loop.keeps_copies and needs and _core._is_recording():
            ctx.given = _core._unrecorded(lambda: [(t, t._version) for t in tensors])
            tensors = tuple(t.clone() if _core._is_made_here(t) else t for t in tensors)
        ctx.start = _core._unrecorded(lambda: loop.state([]))
        ctx.set_materialize_grads(False)
        ctx.loop, ctx.kept = loop, None
        if _core._is_recording():
            run = RecordedForward(WholeLoop(loop), needs)
            *results, token = _core._host_call(run, list(tensors))
            ctx.save_for_backward(*tensors, token)
        else:
            results, ctx.kept = loop_forward(loop, needs, tensors)
            ctx.save_for_backward(*tensors)
        results = [t.detach() for t in results]
        on = loop.step.have_gradients(ctx.needs_input_grad[2:])
        ctx.mark_non_differentiable(*(t for t, has in zip(results, on, strict=False) if not has))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        loop: LoopRun = ctx.loop
        tensors, token = list(ctx.saved_tensors), None
        if ctx.kept is None:
            token = tensors.pop()
        needs = ctx.needs_input_grad[2:]
        usual = _is_usual([*tensors, *grads])
        sums = _sums_of(loop, needs, grads) if usual else None
        # A backward pass on placeholders belongs to a step around this loop, which has asked.
        if loop.transform is not None and not placeholder_pass.get():
            loop.transform.check_derivative(usual)
        by_samples = loop.transform is not None and not usual
        if _core.is_grad_enabled() or not (usual or by_samples):
            tensors = _given(ctx, tensors)
            return (None, None, *_once_more(loop, ctx.start, tensors, grads, needs, sums))
        if _core._is_recording() and token is None:
            _core._refuse_recording("a loop from outside the function is differentiated")

        def run(given: Sequence[Any]) -> list[Tensor | None]:
            if _core._is_recording() and token is not None:
                return _recorded_backward(loop, token, tensors, given, needs, sums)
            kept = ctx.kept if token is None else behind(token)
            return loop_backward(kept, tensors, given, needs, sums)

        try:
            found = linearly(run, grads) if by_samples else run(grads)
        except Refused as refused:  # the recording is too old for these gradients: see _step.py
            tell("the backward pass of a loop", refused)
            tensors = _given(ctx, tensors)
            found = _once_more(loop, ctx.start, tensors, grads, needs, sums)
        return (None, None, *found)


def _given(ctx: Any, copies: list[Tensor]) -> list[Tensor]:
    """What the loop was given, with its history, where copies have been saved."""
    if ctx.given is None:
        return copies
    if _core._unrecorded(lambda: any(t._version != version for t, version in ctx.given)):
        raise RuntimeError(
            "a loop that was recorded by compile() is differentiated in a way that runs its steps "
            "again, and a tensor that they read was changed in place since; fix: differentiate "
            "twice in another call of the compiled function, or use x = x + y instead of x += y"
        )
    return [t for t, _ in ctx.given]


def _sums_of(
    loop: LoopRun, needs: Sequence[bool], grads: Sequence[Any]
) -> list[Tensor | None] | None:
    """The sums so far for the first carry and what is reached: see the note in _step.py."""
    if all(g is None for g in grads):
        return None
    rows = range(loop.carries, len(needs) - len(loop.step.reached))
    return [_core._take_sum(k) if on and k not in rows else None for k, on in enumerate(needs)]


def _is_usual(tensors: Sequence[Any]) -> bool:
    """Whether programs can run here, on these tensors."""
    mode = _core._loop_mode()
    return mode == 0 or (
        mode == 1 and not any(t is not None and is_transformed(t) for t in tensors)
    )


def loop_forward(
    the_loop: LoopRun, needs: bool, tensors: Sequence[Tensor]
) -> tuple[list[Tensor], Kept | None]:
    """The results of all steps, and what is kept for the backward pass."""
    carry, xs, reached = the_loop.split(tensors)
    loop = the_loop.on(reached)
    ys = the_loop.stacks()
    kept = Kept(loop) if needs else None
    if not loop.has_length:
        if kept is not None:
            return kept.forward_until(carry), kept
        found, _, _ = loop.until(carry, [None], 0, ENDLESS)
        return found, None
    with bar_for("loop", loop.count) as loop.bar:
        if kept is not None:
            found = kept.forward(carry, xs, ys)
        elif loop.memory.resume:
            states = Kept(loop)
            found = states.forward(carry, xs, ys)
            states.drop()
        else:
            found = loop.advance(carry, xs, ys, 0, loop.count)
    loop.bar = None
    return [*found, *ys], kept


def loop_backward(
    kept: Kept,
    tensors: Sequence[Tensor],
    grads: Sequence[Any],
    needs: Sequence[bool],
    sums: Sequence[Tensor | None] | None = None,
) -> list[Tensor | None]:
    """The gradients of the first carry, the inputs, and what is reached, added to sums so far."""
    loop = kept.loop
    _, xs, reached = loop.split(tensors)
    wanted = needs[loop.carries :]
    x_grads = [_core.zeros_like(x) if on else None for x, on in zip(xs, wanted, strict=False)]
    ys = [None if t is None else in_order(t) for t in grads[loop.carries :]]
    if not loop.has_length:
        ys = [None]  # the condition has none
    sums = [None] * len(tensors) if sums is None else sums
    before, there = list(sums[: loop.carries]), list(sums[len(tensors) - len(reached) :])
    g = Gradients(list(grads[: loop.carries]), ys, x_grads, before, there)
    with bar_for("loop, backward", loop.count) as loop.bar:
        kept.backward(g, xs)
    loop.bar = None
    return [t if on else None for t, on in zip(g.found(), needs, strict=True)]


def _recorded_backward(
    loop: LoopRun,
    token: Tensor,
    tensors: list[Tensor],
    grads: Sequence[Any],
    needs: Sequence[bool],
    sums: Sequence[Tensor | None] | None,
) -> list[Tensor | None]:
    """The same as an instruction of the program that is recorded."""
    arriving = [*grads, *(sums or ())]
    there = [g is not None for g in arriving]
    step = RecordedBackward(WholeLoop(loop), len(tensors), there, needs)
    return step.record(token, tensors, arriving)


class WholeLoop:
    """All steps of a scan, as an instruction of a program."""

    def __init__(self, loop: LoopRun) -> None:
        self.loop = loop

    def forward(self, needs: bool, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The results, and what is left for the backward pass."""
        return loop_forward(self.loop, needs, tensors)

    def backward(
        self, left: Any, tensors: Sequence[Tensor], arrived: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of the first carry, the inputs, and what is reached."""
        results = len(self.loop.step.sources)
        sums = arrived[results:] or None
        return loop_backward(left, tensors, arrived[:results], needs, sums)

    @property
    def draws(self) -> bool:
        """Whether its steps draw random numbers."""
        return self.loop.draws

    def has_left(self, left: Any) -> bool:
        """Whether this is what such a loop leaves."""
        return isinstance(left, Kept) and left.loop.step is self.loop.step

    def meet_all(self, there: Sequence[bool]) -> None:
        """Have all backward programs for gradients that arrive so."""
        step, carries = self.loop.step, self.loop.carries
        results, reached = len(step.sources), len(step.reached)
        sums = tuple(there[results:])
        first = sums[:carries] if any(sums[:carries]) else ()
        so_far = sums[len(sums) - reached :] if sums else (False,) * reached
        carry, ys = tuple(there[:carries]), tuple(there[carries:results])
        step.meet_all(self.loop.count, carry, so_far, ys, first)


def _once_more(
    loop: LoopRun,
    start: State,
    tensors: list[Tensor],
    grads: tuple[Any, ...],
    needs: tuple[bool, ...],
    sums: Sequence[Tensor | None] | None,
) -> list[Any]:
    """Gradients from another run of the steps, with a graph of their own if gradients are on."""
    if loop.draws and _core._is_recording():
        _core._refuse_recording(
            "a loop that draws random numbers is differentiated in a way that runs its steps again"
        )
    with loop.step_again():
        if loop.can_be_scanned():
            return backward_by_scan(loop, tensors, grads, needs, sums)
        return _by_plain_loop(loop, start, tensors, grads, needs, sums)


def place_of(t: Tensor) -> Any:
    """Where the gradient of a tensor goes, as a key."""
    return id(t) if t.grad_fn is None else (id(t.grad_fn), t.output_nr)


def distinct(places: list[int], tensors: Sequence[Tensor]) -> list[int]:
    """The places of tensors, each tensor once: the gradient of one belongs to one place."""
    seen: dict[Any, int] = {}
    for k in places:
        seen.setdefault(place_of(tensors[k]), k)
    return list(seen.values())


def _by_plain_loop(
    loop: LoopRun,
    start: State,
    tensors: list[Tensor],
    grads: tuple[Any, ...],
    needs: tuple[bool, ...],
    sums: Sequence[Tensor | None] | None,
) -> list[Any]:
    graph, now = _core.is_grad_enabled(), loop.state([])
    loop.go_back_to(start)  # to the random numbers of the call
    rows = len(tensors) - loop.carries - len(loop.step.reached)
    try:
        with enable_grad():
            results = loop.again(tensors, loop.carries, rows)
    finally:
        loop.go_back_to(now)
    asked = [(t, g) for t, g in zip(results, grads, strict=True) if g is not None]
    wanted = distinct([k for k, on in enumerate(needs) if on], tensors)
    so_far = zip(tensors, sums or (), strict=False)
    asked += [(t, total) for t, total in so_far if total is not None]
    with enable_grad():
        found = gradients_between(asked, [tensors[k] for k in wanted], graph, graph)
    result: list[Any] = [None] * len(tensors)
    for k, g in zip(wanted, found, strict=True):
        result[k] = g
    return result
