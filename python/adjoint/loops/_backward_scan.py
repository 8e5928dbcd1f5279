"""The backward pass of a loop as a loop of its own, which can be differentiated again.

A scan forward gives the state before each step; a second scan goes back over them, and carries the
gradients. Its step runs the step of the loop, and differentiates it. So a second derivative is
again two loops of recorded steps, and what holds for scans (transforms, recordings, memory) holds
for it. Where gradients come or go from one step to the next (the last step, the first) steps run
by themselves. Sums are those of the native backward pass, in its order: see _step.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd import enable_grad
from adjoint.autograd._backward import gradients_between

from ._run import LoopRun
from ._step_forms import Arrivals

__all__ = ["backward_by_scan"]

Rows = Sequence[Tensor]
Maybe = list[Tensor | None]


def backward_by_scan(
    loop: LoopRun,
    tensors: list[Tensor],
    grads: Sequence[Any],
    needs: Sequence[bool],
    sums: Sequence[Tensor | None] | None = None,
) -> Maybe:
    """The gradients of a loop's tensors, with a graph of their own where gradients are recorded.

    They are added to sums so far, where there are some.
    """
    so_far: Maybe = [None] * len(tensors) if sums is None else list(sums)
    return _Pass(loop, tensors, grads, needs, so_far).run()


class _Pass:
    """One backward pass."""

    def __init__(
        self,
        loop: LoopRun,
        tensors: list[Tensor],
        grads: Sequence[Any],
        needs: Sequence[bool],
        so_far: Maybe,
    ) -> None:
        self._loop, self._step = loop, loop.step
        carry, self._xs, _ = loop.split(tensors)
        self._reached = loop.step.reached
        self._needs = needs
        later = loop.step.have_gradients(needs)
        self._varies = [needs[k] or later[k] for k in range(loop.carries)]
        self._states = self._all_states(carry)
        self._carry: Maybe = list(grads[: loop.carries])
        self._first = so_far[: loop.carries]
        self._sums: Maybe = so_far[len(tensors) - len(self._reached) :]
        self._ys: Maybe = list(grads[loop.carries :])
        self._x_grads: list[tuple[int, Maybe]] = []  # stacked, of how many steps, the last first

    def _all_states(self, carry: list[Tensor]) -> list[Tensor]:
        loop, one = self._loop, self._loop.one
        assert one is not None

        def step(state: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            return one(state, x)[: loop.carries], list(state)

        _, states = loop.scan(step, carry, self._xs, loop.count, loop.reverse)
        found: list[Tensor] = states
        return found

    def run(self) -> Maybe:
        """All steps, from the last to the first."""
        at, count = self._loop.count, self._loop.count
        while at > 0:
            is_last, has_earlier = at == count, at > 1
            low = at - 1 if is_last else 1 if has_earlier else 0
            there = self._there()
            first = () if has_earlier else tuple(t is not None for t in self._first)
            arrivals = self._step.arrivals(*there, is_last, has_earlier, first)
            if not arrivals.sources:
                self._carry = [None] * len(self._carry)
                self._x_grads.append((at - low, [None] * len(self._xs)))
                at = low
                continue
            self._single(at - 1, arrivals)
            at -= 1
            if at - low > 1 and self._there() == there:
                self._several(low, at, arrivals)
                at = low
        found = [*self._carry, *self._all_x_grads(), *self._sums]
        return [t if on else None for t, on in zip(found, self._needs, strict=True)]

    def _there(self) -> tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]:
        carry, sums, ys = (
            tuple(t is not None for t in ts) for ts in (self._carry, self._sums, self._ys)
        )
        return carry, sums, ys

    # -- steps -------------------------------------------------------------------------------------

    def _row(self, step: int) -> int:
        return self._loop.count - 1 - step if self._loop.reverse else step

    def _single(self, step: int, arrivals: Arrivals) -> None:
        rows = [t[self._row(step)] for t in (*self._states, *self._xs)]
        ys = [None if t is None else t[self._row(step)] for t in self._ys]
        if step:
            before = [None if t is None else t[self._row(step - 1)] for t in self._ys]
        else:
            before, ys = ys, [*ys, *self._first]
        carry, sums, x_grads = self._back(arrivals, self._carry, self._sums, rows, ys, before)
        self._carry, self._sums = carry, sums
        self._x_grads.append((1, [None if t is None else t.unsqueeze(0) for t in x_grads]))

    def _several(self, low: int, high: int, arrivals: Arrivals) -> None:
        """The steps from `low` to before `high`, in all of which the same gradients are there."""
        carried = [k for k, t in enumerate(self._carry) if t is not None]
        summed = [k for k, t in enumerate(self._sums) if t is not None]
        given = [k for k, t in enumerate(self._ys) if t is not None]
        written: list[int] = []
        shape = len(self._carry), len(self._sums), len(self._ys)

        def step(g: Any, row: Any) -> Any:
            carry, sums = _spread(shape[0], carried, g[0]), _spread(shape[1], summed, g[1])
            ys, before = (_spread(shape[2], given, part) for part in row[1:])
            carry, sums, x_grads = self._back(arrivals, carry, sums, row[0], ys, before)
            written[:] = [k for k, t in enumerate(x_grads) if t is not None]
            following = [carry[k] for k in carried], [sums[k] for k in summed]
            return following, [x_grads[k] for k in written]

        def rows(t: Any, first: int, last: int) -> Any:
            count = self._loop.count
            start = count - last if self._loop.reverse else first
            return t.narrow(0, start, last - first)

        there = [self._ys[k] for k in given]
        earlier = low - 1 if low else low  # where there is no step before, nobody asks
        xs = (
            [rows(t, low, high) for t in (*self._states, *self._xs)],
            [rows(t, low, high) for t in there],
            [rows(t, earlier, earlier + high - low) for t in there],
        )
        init = [self._carry[k] for k in carried], [self._sums[k] for k in summed]
        (carry, sums), x_grads = self._loop.scan(step, init, xs, high - low, not self._loop.reverse)
        self._carry, self._sums = _spread(shape[0], carried, carry), _spread(shape[1], summed, sums)
        self._x_grads.append((high - low, _spread(len(self._xs), written, x_grads)))

    def _back(
        self, arrivals: Arrivals, carry: Maybe, sums: Maybe, rows: Rows, ys: Maybe, before: Maybe
    ) -> tuple[Maybe, Maybe, Maybe]:
        """One step backward: gradients of the carry, sums of what is reached, of the row."""
        step, graph, carries = self._step, _core.is_grad_enabled(), self._loop.carries
        assert self._loop.one is not None
        with enable_grad():
            # What needs no gradient stays what it is: a stand-in would be a leaf of the gradient's
            # own graph.
            inputs = [t.view_as(t) if t.requires_grad else t for t in rows[carries:]]
            states = zip(rows[:carries], self._varies, strict=True)
            known = [_variable(t) if on else t for t, on in states] + [*inputs, *self._reached]
            result = self._loop.one(known[:carries], known[carries : len(rows)])
            made = {k: t for k, t in zip(step.sources, result, strict=True) if k >= 0}
            asked = []
            for source, (total, of_carry, of_ys) in zip(
                arrivals.sources, arrivals.sums, strict=True
            ):
                parts = [sums[total]] if total >= 0 else []
                parts += [carry[k] for k in of_carry]
                parts += [ys[k] if k >= 0 else before[~k] for k in of_ys]
                target = made[source] if source >= 0 else known[~source]
                if target.requires_grad:
                    asked.append((target, _sum(parts)))
            # The state was computed from what is reached, too: this pass ends at the state.
            by = [k for k in step.by if known[k].requires_grad]
            found = gradients_between(asked, [known[k] for k in by], graph, graph)
        all_grads = _spread(len(known), by, found)
        # A branch that was not taken gives nothing. It is zero then, as in the native pass: which
        # gradients there are must follow from those that arrive, not from the values of a step.
        given = step.given_by(arrivals.sources)
        for k in by:
            if all_grads[k] is None and k in given:
                all_grads[k] = ad.zeros_like(known[k])
        return all_grads[:carries], all_grads[len(rows) :], all_grads[carries : len(rows)]

    def _all_x_grads(self) -> Maybe:
        found: Maybe = []
        groups = self._x_grads if self._loop.reverse else self._x_grads[::-1]
        for k, x in enumerate(self._xs):
            if all(part[k] is None for _, part in groups):
                found.append(None)
                continue
            parts = [(size, part[k]) for size, part in groups]
            found.append(ad.cat([_zeros(size, x) if t is None else t for size, t in parts]))
        return found


def _zeros(rows: int, like: Tensor) -> Tensor:
    return ad.zeros((rows, *like.shape[1:]), dtype=like.dtype)


def _variable(t: Tensor) -> Tensor:
    """A row that is differentiated by."""
    if t.requires_grad:
        return t.view_as(t)
    if not (t.is_floating_point() or t.is_complex()):
        return t
    # Its tangents stay: they lead to those of the gradient.
    if _core._batch_level((t,)):
        return _core._variable(t, False)
    return _core._detached(t).requires_grad_()


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _spread(size: int, places: Sequence[int], values: Sequence[Any]) -> Maybe:
    found: Maybe = [None] * size
    for k, value in zip(places, values, strict=True):
        found[k] = value
    return found
