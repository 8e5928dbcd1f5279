"""`checkpoint_loop`: a Python loop whose steps are run again for its gradient.

Note [Pieces within pieces]: `checkpoint` keeps the arguments of a call, and runs it once more in
the backward pass. A loop of n steps is a piece and a rest; the piece, when it is run again, is a
loop itself, and so on down to one step. With the split of binomial checkpointing (`_schedule`) no
more than so many states are there at any time, and the least number of steps is run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor

from ._carry import Carry, tensor_of
from ._failing import in_step
from ._schedule import split

__all__ = ["checkpoint_loop"]


def checkpoint_loop(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    *,
    snapshots: int | None = None,
) -> tuple[Any, Any]:
    """Run a Python loop, and keep no more than some of its states for the backward pass.

    For steps that cannot be recorded, so that `scan` would keep all that they save: they branch on
    values, change Python objects, call other libraries. The backward pass runs steps again, as few
    times as there can be; so a step must do the same each time.

    Parameters
    ----------
    step
        ``step(carry, x)`` returns the next carry and an output, as for `scan`.
    init
        The first carry. Numbers in it become tensors.
    xs
        What the steps get: a tensor, of which each gets a row; a list or tuple of anything; or
        None.
    length
        The number of steps; needed where there are no `xs`.
    snapshots
        How many states are kept, that at the start included; by default, the root of the number of
        steps.

    Returns
    -------
    carry
        After the last step.
    ys
        The outputs, stacked.

    See Also
    --------
    scan : for steps that can be recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(0.9, requires_grad=True)
    >>> def step(x, _):
    ...     if x > 1:
    ...         return x * a, None
    ...     return x + a, None
    >>> last, _ = ad.checkpoint_loop(step, 5.0, length=100, snapshots=5)
    >>> ad.autograd.grad(last, a)
    (tensor(...),)
    """
    rows = _rows(xs, length)
    carry = Carry("checkpoint_loop()", init)
    if snapshots is None:
        snapshots = max(math.isqrt(len(rows)), 1)
    if isinstance(snapshots, bool) or not isinstance(snapshots, int) or snapshots < 1:
        raise ValueError(f"snapshots={snapshots!r}: a number of states from 1 on is expected")
    loop = _Loop(step, carry, rows)
    if not rows:
        return carry.built(carry.tensors), None
    found = loop.run(carry.first(), 0, len(rows), snapshots)
    carry.check_first()
    ys = [ad.stack(column) for column in zip(*_in_groups(found[1], len(rows)), strict=True)]
    return carry.built(found[0]), loop.outputs(ys)


class _Loop:
    """The steps of one call."""

    def __init__(self, step: Callable[..., Any], carry: Carry, rows: Sequence[Any]) -> None:
        self._step, self._carry, self._rows = step, carry, rows
        self._spec: _tree.Spec | None = None
        self._none: list[bool] = []

    def run(
        self, state: list[Tensor], first: int, last: int, room: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The steps from the first to before the last, with so many states: carry, and outputs."""
        ys: list[Tensor] = []
        while last - first > 1 and room > 0 and _core.is_grad_enabled():
            middle = first + (split(last - first, room) if room > 1 else last - first - 1)
            state, more = self._piece(state, first, middle, room)
            ys += more
            first, room = middle, max(room - 1, 1)
        for at in range(first, last):
            state, more = self._once(state, at)
            ys += more
        return state, ys

    def _piece(
        self, state: list[Tensor], first: int, last: int, room: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        from adjoint.utils.checkpoint import checkpoint

        if last - first == 1:  # what is kept is its argument, as of any piece

            def run(*given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
                return self._once(list(given), first)
        else:

            def run(*given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
                return self.run(list(given), first, last, room)

        found: tuple[list[Tensor], list[Tensor]] = checkpoint(run, *state, use_reentrant=False)
        return found

    def _once(self, state: list[Tensor], at: int) -> tuple[list[Tensor], list[Tensor]]:
        with in_step(at, self._step):
            return self._flat(self._step(self._carry.built(state), self._rows[at]))

    def _flat(self, result: Any) -> tuple[list[Tensor], list[Tensor]]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                "the step of a checkpoint_loop returns a pair, the next carry and an output, not "
                f"{result!r}; fix: return carry, None where there is no output"
            )
        leaves, spec = _tree.flatten(result[1])
        if self._spec is None:
            self._spec, self._none = spec, [leaf is None for leaf in leaves]
        elif spec != self._spec:
            raise ValueError(
                "the step of a checkpoint_loop returned an output of the structure "
                f"{self._spec} and then one of the structure {spec}"
            )
        return self._carry.flat(result[0]), [tensor_of(x) for x in leaves if x is not None]

    def outputs(self, stacks: list[Tensor]) -> Any:
        """The structure of the outputs."""
        assert self._spec is not None
        there = iter(stacks)
        return _tree.unflatten(self._spec, [None if none else next(there) for none in self._none])


def _in_groups(ys: list[Tensor], count: int) -> list[list[Tensor]]:
    size = len(ys) // count
    return [ys[k * size : (k + 1) * size] for k in range(count)]


def _rows(xs: Any, length: int | None) -> Sequence[Any]:
    if xs is None:
        if length is None:
            raise ValueError("checkpoint_loop() needs `length` where there are no `xs`")
        if length < 0:
            raise ValueError(f"checkpoint_loop(): length {length} is negative")
        return [None] * length
    if not isinstance(xs, Tensor | list | tuple):
        raise TypeError(
            f"checkpoint_loop(): xs is a tensor, a list or a tuple, not {type(xs).__name__}"
        )
    if isinstance(xs, Tensor) and xs.dim() == 0:
        raise ValueError("checkpoint_loop(): xs is a scalar, which has no rows")
    if length is not None and length != len(xs):
        raise ValueError(f"checkpoint_loop(): xs has {len(xs)} rows and length {length}")
    return list(xs) if isinstance(xs, Tensor) else xs
