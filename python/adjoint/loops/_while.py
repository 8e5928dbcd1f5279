"""`while_loop`: a loop that ends by a condition, recorded once and run natively."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

from ._carry import Carry, as_argument, in_order, without
from ._cond import only_where, taken_by_sample
from ._drawn_numbers import DrawnNumbers
from ._failing import in_step
from ._loop import run_loop
from ._memory import memory_of
from ._recorded_while import recorded_while
from ._run import LoopRun
from ._step import record, tell
from ._transformed import apart

__all__ = ["while_loop"]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Any,
    *,
    memory: str = "all",
    snapshots: int | None = None,
    disk: Any = None,
) -> Any:
    """Replace a state by what a function makes of it, as long as a condition holds.

    It is this loop, with its gradients::

        while cond_fn(*state):
            state = body_fn(*state)

    Condition and body are recorded once, and run without Python in both directions. What cannot be
    recorded runs as Python, and says so. Inside `vmap` steps run as Python, until no sample goes
    on; a sample that has ended stays what it is.

    Parameters
    ----------
    cond_fn
        Tells whether to go on: a tensor of one bool.
    body_fn
        Returns the next state, of the same structure, shapes and dtypes.
    carried_inputs
        The first state. A tuple or a list is handed over as several arguments, any other structure
        as one.
    memory, snapshots, disk
        What is kept for the backward pass: see `scan`. The length is not known beforehand; where
        states are kept they are spread evenly over the steps so far.

    Returns
    -------
    The last state; a tuple, if the first one was a tuple or a list.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(2.0, requires_grad=True)
    >>> def newton(x):
    ...     return (x + a / x) / 2
    >>> (root,) = ad.while_loop(lambda x: (x * x - a).abs() > 1e-6, newton, (ad.tensor(1.0),))
    >>> root, *ad.autograd.grad(root, a)
    (tensor(1.4142, grad_fn=...), tensor(0.3536))
    """
    several = type(carried_inputs) in (tuple, list)
    init = tuple(carried_inputs) if several else carried_inputs
    carry = Carry("while_loop()", init)
    kept = memory_of(memory, snapshots, disk, None)

    def goes_on(state: Any) -> Any:
        return cond_fn(*state) if several else cond_fn(state)

    def following(state: Any) -> Any:
        made = body_fn(*state) if several else body_fn(state)
        if not several:
            return made
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def step(state: Any) -> tuple[Any, Any]:
        state = following(state)
        carry.leaves(state)  # before the condition meets what it was not written for
        return state, goes_on(state)

    def plainly(state: list[Tensor], on: Any, done: int = 0) -> list[Tensor]:
        while not _is_batched(on) and bool(on):
            with in_step(done, body_fn):
                state = carry.flat(following(carry.built(state)))
                on = goes_on(carry.built(state))
            done += 1
        return by_sample(state, on, done) if _is_batched(on) else state

    def from_start(on: Any) -> list[Tensor]:
        found = plainly(carry.first(), on)
        carry.check_first()
        return found

    def by_sample(state: list[Tensor], on: Any, done: int) -> list[Tensor]:
        # Until no sample goes on; those that have ended stay what they are.
        while isinstance(on, Tensor) and bool(apart(on)[0][0].any()):
            with in_step(done, body_fn):
                given = [only_where(on, t) for t in state]
                after = carry.flat(following(carry.built(given)))
                state = [taken_by_sample(on, a, b) for a, b in zip(after, state, strict=True)]
                on = on.reshape(()) & goes_on(carry.built(state))
            done += 1
        return state

    first = carry.tensors
    on = goes_on(carry.built(first))
    if isinstance(on, int | float) and not isinstance(on, bool):
        raise TypeError(
            f"while_loop(): the condition is a bool, or a tensor of one, not {type(on).__name__}"
        )
    mode, inside = _core._loop_mode(), _core._is_recording()
    usual = not (mode or inside) and current_walk() is None
    if usual and not isinstance(on, Tensor):
        tell("a while_loop", Refused("the condition is not a tensor", ""))
    inside = inside and mode == 0 and isinstance(on, Tensor)
    if not inside and (not usual or not isinstance(on, Tensor) or not bool(on)):
        return carry.built(from_start(on))

    def finish(result: Any) -> list[Tensor]:
        state, flag = result
        found = carry.flat(state)
        if not isinstance(flag, Tensor):
            _core._refuse_recording("the condition is not a tensor")
            flag = ad.tensor(bool(flag))
        return carry.own([*found, flag], given)

    def again(tensors: list[Tensor], carries: int, rows: int) -> list[Tensor]:
        return plainly(tensors[:carries], True)

    given = _core._unrecorded(lambda: [as_argument(t) for t in first])
    if inside:
        assert isinstance(on, Tensor)
        found = recorded_while(on, step, carry, given, finish, again, kept)
        return carry.built(from_start(on)) if found is None else carry.built(found)
    with DrawnNumbers() as numbers, in_step(0, body_fn):
        result, made = record(step, (carry.built(given),), given, len(given), finish)
    if isinstance(made, Refused):
        tell("a while_loop", made)
        own = [t for t, start in zip(given, first, strict=True) if not start.requires_grad]
        result = without(own, result)
        return carry.built(plainly(result[:-1], result[-1], 1))
    numbers.put_back()
    made.ends_by_output()
    loop = LoopRun(made, len(given), None, False, kept, again)
    found = run_loop(loop, [in_order(t) for t in first], [])
    return carry.built(found)


def _is_batched(on: Any) -> bool:
    return isinstance(on, Tensor) and _core._batch_level((on,)) > 0
