"""`scan`: a loop whose body is recorded once, and runs natively in both directions."""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

from ._carry import Carry, as_argument, tensor_of, without
from ._loop import run_loop
from ._memory import Memory, memory_of
from ._run import LoopRun
from ._step import Step, record, record_inside, tell

__all__ = ["scan"]

_UNROLLED = 3  # steps that become a part of a program around them, rather than an instruction
_REMEMBERED = 4  # recordings of one function for one kind of arguments
_recorded: weakref.WeakKeyDictionary[Any, dict[Any, deque[Any]]] = weakref.WeakKeyDictionary()


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    memory: str = "all",
    snapshots: int | None = None,
    disk: Any = None,
) -> tuple[Any, Any]:
    """Run a step over the rows of inputs, and hand a state from each step to the next.

    It is this loop, with gradients that are the same to the last bit::

        ys = []
        for x in xs:
            carry, y = step(carry, x)
            ys.append(y)
        return carry, stack(ys)

    The step is recorded once, whatever the length, and runs without Python in both directions.
    What cannot be recorded runs as Python, and says so.

    Parameters
    ----------
    step
        ``step(carry, x)`` returns the next carry and an output. Both may be tensors or structures
        of tensors; the carry keeps its structure, shapes and dtypes. The output may be None.
    init
        The first carry. Numbers in it become tensors.
    xs
        Inputs, stacked along their first axis: a tensor, a structure of tensors, or None.
    length
        The number of steps; needed where there are no `xs`.
    reverse
        Go from the last row to the first.
    memory
        What is kept for the backward pass. "all": what each step saves. "sqrt": the states of
        about as many steps as the root of their number. A size, such as "500MB": as much as fits.
        What is not kept is computed again.
    snapshots
        Keep so many states, that at the start included, and run as few steps again as possible.
    disk
        A folder for the states that are kept; they are removed after the backward pass.

    Returns
    -------
    carry
        After the last step.
    ys
        The outputs, stacked in the order of `xs`.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, requires_grad=True)
    >>> def swing(state, _):
    ...     x, v = state
    ...     v = v - 0.01 * k * x
    ...     x = x + 0.01 * v
    ...     return (x, v), x
    >>> (x, v), path = ad.scan(swing, (1.0, 0.0), length=1000)
    >>> path.shape
    torch.Size([1000])
    >>> ad.autograd.grad(path.square().sum(), k)
    (tensor(...),)
    """
    rows, xs_spec, count = _rows_of(xs, length)
    return _run(
        step, init, rows, xs_spec, count, reverse, memory_of(memory, snapshots, disk, count)
    )


def _scan_with(
    step: Any, init: Any, xs: Any, count: int, reverse: bool, memory: Memory, users: Any
) -> tuple[Any, Any]:
    rows, xs_spec = _tree.flatten(xs)
    return _run(step, init, rows, xs_spec, count, reverse, memory, users)


def _run(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    rows: list[Tensor],
    xs_spec: _tree.Spec,
    count: int,
    reverse: bool,
    kept: Memory,
    users: Callable[..., Any] | None = None,
) -> tuple[Any, Any]:
    carry = Carry("scan()", init)
    call = _Call(step, carry, xs_spec, bool(reverse), count, kept, users)
    if count == 0:
        return call.nothing(rows)
    inside = _core._is_recording()
    if _core._loop_mode() or count == 1:
        return call.plainly(carry.tensors, rows, 0, [])
    if inside and count > _UNROLLED:
        return call.as_instruction(rows)
    if inside:
        return call.plainly(carry.tensors, rows, 0, [])
    return call.natively(rows)


class _Call:
    """One call of `scan`."""

    def __init__(
        self,
        step: Callable[[Any, Any], tuple[Any, Any]],
        carry: Carry,
        xs_spec: _tree.Spec,
        reverse: bool,
        count: int,
        memory: Memory,
        users: Callable[..., Any] | None,
    ) -> None:
        self._users = users or step  # the user's function, which the step may be written around
        self._step, self._carry, self._xs_spec = step, carry, xs_spec
        self._reverse, self._count, self._memory = reverse, count, memory
        self._ys_spec: _tree.Spec | None = None
        self._ys_leaves = 0
        self._none: list[int] = []  # leaves of outputs that are None

    def natively(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the steps as a program, if it can be one."""
        carry = self._carry.tensors
        given = [as_argument(t) for t in carry]
        rows = [t.contiguous() for t in rows]
        first = [t[self._row(0)] for t in rows]
        key = self._carry.spec, self._xs_spec, _core._call_mode()
        step = self._known_step(key, [*given, *first])
        if step is None:
            numbers = _core.default_generator.get_state()
            result, made = record(
                self._step,
                self._arguments(given, first),
                [*given, *first],
                len(given),
                lambda r: Carry.own(self._flat(r), [*given, *first]),
                self._users,
            )
            own = [t for t, start in zip(given, carry, strict=True) if not start.requires_grad]
            if isinstance(made, Refused):
                tell("the step of a scan", made)
                result = without(own, result)
                return self.plainly(result[: len(carry)], rows, 1, [result[len(carry) :]])
            _core.default_generator.set_state(numbers)
            step = made
            self._remember(key, step, [t for t, s in zip(given, carry, strict=True) if s.is_leaf])
        return self._by_loop(step, carry, rows)

    def _by_loop(self, step: Step, carry: list[Tensor], rows: list[Tensor]) -> tuple[Any, Any]:
        loop = LoopRun(
            step,
            len(carry),
            self._count,
            self._reverse,
            self._memory,
            self._again,
            lambda state, row: self._flat(self._step(*self._arguments(state, row))),
            functools.partial(_scan_with, users=self._users),
        )
        found = run_loop(loop, [t.contiguous() for t in carry], rows)
        return self._carry.built(found[: len(carry)]), self._ys(found[len(carry) :])

    def as_instruction(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the steps as one instruction of the program that is recorded, if that can be."""
        carry = self._carry.tensors
        rows = [t.contiguous() for t in rows]
        numbers = _core._unrecorded(_core.default_generator.get_state)
        walk = current_walk()

        def recorded() -> tuple[list[Tensor], list[Tensor], Step | Refused]:
            given = [as_argument(t) for t in carry]
            first = [t[self._row(0)] for t in rows]
            result, made = record_inside(
                self._step,
                self._arguments(given, first),
                [*given, *first],
                len(given),
                lambda r: Carry.own(self._flat(r), [*given, *first]),
            )
            own = [t for t, start in zip(given, carry, strict=True) if not start.requires_grad]
            return own, result, made

        own, result, made = _core._unrecorded(recorded)
        if walk is not None and walk.has_effects():  # which must not happen twice
            _core._refuse_recording(walk.refusals[0].reason)
            result = without(own, result)
            return self.plainly(result[: len(carry)], rows, 1, [result[len(carry) :]])
        _core._unrecorded(lambda: _core.default_generator.set_state(numbers))
        if isinstance(made, Refused):
            return self.plainly(carry, rows, 0, [])
        return self._by_loop(made, carry, rows)

    def _known_step(self, key: Any, tensors: list[Tensor]) -> Step | None:
        """The recording of an earlier scan that does the same."""
        table = _recorded.get(self._step) if _is_remembered(self._step) else None
        step: Step
        for step, ys in (table or {}).get(key, ()):
            if step.serves(tensors):
                self._ys_spec, self._ys_leaves, self._none = ys
                return step
        return None

    def _remember(self, key: Any, step: Step, stand_ins: list[Tensor]) -> None:
        if _is_remembered(self._step) and not step.has_history(stand_ins):
            table = _recorded.setdefault(self._step, {}).setdefault(key, deque(maxlen=_REMEMBERED))
            for old, ys in [entry for entry in table if entry[0].is_retired()]:
                step.expect(old)
                table.remove((old, ys))
            table.appendleft((step, (self._ys_spec, self._ys_leaves, self._none)))

    def _again(self, tensors: list[Tensor], carries: int, rows: int) -> list[Tensor]:
        """The plain loop, for derivatives of derivatives."""
        carry, ys = self._loop(tensors[:carries], tensors[carries : carries + rows], 0, [])
        return [*carry, *ys]

    def plainly(
        self, carry: list[Tensor], rows: list[Tensor], done: int, ys: list[list[Tensor]]
    ) -> tuple[Any, Any]:
        """Run the steps that are left as Python."""
        carry, stacked = self._loop(carry, rows, done, ys)
        return self._carry.built(carry), self._ys(stacked)

    def _loop(
        self, carry: list[Tensor], rows: list[Tensor], done: int, ys: list[list[Tensor]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        size = len(carry)
        for at in range(done, self._count):
            row = [t[self._row(at)] for t in rows]
            result = self._flat(self._step(*self._arguments(carry, row)))
            carry = result[:size]
            ys.append(result[size:])
        if self._reverse:
            ys.reverse()
        return carry, [ad.stack(column) for column in zip(*ys, strict=True)]

    def nothing(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """No step: what the outputs would be is found out with a row of zeros."""
        carry = self._carry.tensors
        with ad.no_grad():
            row = [ad.zeros(t.shape[1:], dtype=t.dtype) for t in rows]
            result = self._flat(self._step(*self._arguments(carry, row)))
        ys = [t.new_empty((0, *t.shape)) for t in result[len(carry) :]]
        return self._carry.built(carry), self._ys(ys)

    # -- structures --------------------------------------------------------------------------------

    def _row(self, step: int) -> int:
        return self._count - 1 - step if self._reverse else step

    def _arguments(self, carry: list[Tensor], row: list[Tensor]) -> tuple[Any, Any]:
        return self._carry.built(carry), _tree.unflatten(self._xs_spec, row)

    def _ys(self, tensors: list[Tensor]) -> Any:
        assert self._ys_spec is not None
        there = iter(tensors)
        leaves = [None if k in self._none else next(there) for k in range(self._ys_leaves)]
        return _tree.unflatten(self._ys_spec, leaves)

    def _flat(self, result: Any) -> list[Tensor]:
        """The tensors of a result: the next carry, and then the outputs."""
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"the step of a scan returns a pair, the next carry and an output, not {result!r}; "
                "fix: return carry, None where there is no output"
            )
        found = self._carry.flat(result[0])
        outputs, ys_spec = _tree.flatten(result[1])
        if self._ys_spec is None:
            self._ys_spec, self._ys_leaves = ys_spec, len(outputs)
            self._none = [k for k, leaf in enumerate(outputs) if leaf is None]
        elif ys_spec != self._ys_spec:
            raise ValueError(
                f"the step of a scan returned an output of the structure {self._ys_spec} and then "
                f"one of the structure {ys_spec}"
            )
        return found + [tensor_of(leaf) for leaf in outputs if leaf is not None]


def _is_remembered(function: Any) -> bool:
    return isinstance(function, FunctionType)


def _rows_of(xs: Any, length: int | None) -> tuple[list[Tensor], _tree.Spec, int]:
    leaves, spec = _tree.flatten(xs)
    if xs is None:
        leaves, spec = _tree.flatten(())
        if length is None:
            raise ValueError("scan() needs `length` where there are no `xs`")
    names = _tree.paths(spec, "xs")
    for name, leaf in zip(names, leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise TypeError(f"scan(): {name} is {type(leaf).__name__}, not a tensor")
        if leaf.dim() == 0:
            raise ValueError(f"scan(): {name} is a scalar, which has no rows")
    sizes = {leaf.shape[0]: name for name, leaf in zip(names, leaves, strict=True)}
    if length is not None:
        sizes.setdefault(int(length), "length")
    if len(sizes) > 1:
        (a, first), (b, second), *_ = sizes.items()
        raise ValueError(f"scan(): {first} has {a} rows and {second} {b}")
    count = next(iter(sizes), 0)
    if count < 0:
        raise ValueError(f"scan(): length {count} is negative")
    return leaves, spec, count
