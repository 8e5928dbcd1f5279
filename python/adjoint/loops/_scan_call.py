"""One call of `scan`: which of the ways there are its steps run.

As a program, recorded once; as an instruction of a program that is being recorded; inside a
transform on the plain parts of its tensors; or as Python. Read _step.py for the recording, _loop.py
for the node that runs it.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint.autograd.forward_ad import set_fwd_grad_enabled
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

from ._carry import Carry, as_argument, as_variable, in_order, tensor_of, without
from ._drawn_numbers import DrawnNumbers
from ._failing import in_step
from ._forward_over_reverse import with_history
from ._loop import place_of, run_loop
from ._memory import Memory
from ._rehearsal import Rehearsal
from ._run import LoopRun
from ._step import Step, record, record_inside, tell
from ._transformed import (
    Form,
    Unsuited,
    apart,
    count_of,
    rows_apart,
    rows_together,
    together,
)

__all__ = ["run_scan"]

_UNROLLED = 3  # steps that become a part of a program around them, rather than an instruction
_REMEMBERED = 4  # recordings of one function for one kind of arguments
_FUNCTIONS = 16  # functions whose recordings are remembered
# A recording holds its function (what it depends on is compared), and tensors: it is kept for
# functions that come again, and for few of them. One that is made anew in each call does not.
_recorded: dict[FunctionType, dict[Any, deque[Any]]] = {}
_seen: weakref.WeakSet[FunctionType] = weakref.WeakSet()


def _scan_with(
    step: Any, init: Any, xs: Any, count: int, reverse: bool, memory: Memory, users: Any
) -> tuple[Any, Any]:
    rows, xs_spec = _tree.flatten(xs)
    return run_scan(step, init, rows, xs_spec, count, reverse, memory, users)


def run_scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    rows: list[Tensor],
    xs_spec: _tree.Spec | None,
    count: int,
    reverse: bool,
    kept: Memory,
    users: Callable[..., Any] | None = None,
    by_parts: bool = False,
    before: int = 0,
) -> tuple[Any, Any]:
    carry = Carry("scan()", init)
    call = _Call(step, carry, xs_spec, bool(reverse), count, kept, users, by_parts, before)
    if count == 0:
        return call.nothing(rows)
    inside = _core._is_recording()
    # A recording around this one has been refused, or calls an external: its walk is still on.
    watched = not inside and current_walk() is not None
    mode = _core._loop_mode()
    if watched or mode == 2 or count == 1:
        return call.as_python(rows)
    if mode == 1 and not by_parts:
        return call.in_transform(rows)
    if inside and count > _UNROLLED:
        return call.as_instruction(rows)
    if inside:
        return call.as_python(rows)
    return call.natively(rows)


def run_as_instruction(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: list[Tensor],
    rows: list[Tensor],
    apart: list[Tensor],
    changed: list[Tensor],
    may_call: bool,
    count: int,
    users: Callable[..., Any],
    before: int,
) -> tuple[list[Tensor], list[Tensor], dict[int, int]] | None:
    """Run the steps of a loop as one instruction of the program that is recorded.

    None if that cannot be: then nothing has happened. An error of the step is raised. The step must
    not read tensors that are apart, and call Python only if it may. It may draw random numbers; of
    what it would change in place, it has been given copies. Returned are the last carry, the
    stacked outputs, and by its number the output that is also carried on.
    """
    walk = current_walk()
    if walk is None or walk.has_effects():
        return None
    carry = Carry("a loop", init)
    _, xs_spec = _tree.flatten(rows)
    call = _Call(step, carry, xs_spec, False, count, Memory(), users, False, before)
    call._keeps_copies = True
    rows = [in_order(t) for t in rows]
    rehearsal, numbers = Rehearsal(), DrawnNumbers()
    made = None
    try:
        with rehearsal, numbers:
            _, _, made = call._rehearsed(rows, as_variable, may_draw=True)
    finally:
        numbers.put_back()
        if not isinstance(made, Step) or walk.has_effects():
            rehearsal.undo()
            made = None
    if not isinstance(made, Step) or not _gives_its_own(made):
        return None
    others = {id(t) for t in apart}
    if any(id(t) in others for t in made.reached):
        return None
    if made.forward.calls_python() and not may_call:
        return None
    if not _core._unrecorded(lambda: made.may_get_copies(changed)):
        return None
    reached = [t for t in made.reached if _core._is_made_here(t)]
    _core._unrecorded(lambda: made.keep(reached))
    try:
        last, outputs = call._by_loop(made, carry.tensors, rows)
    except BaseException:  # the plain loop goes on, and draws them itself
        numbers.put_back()
        raise
    following, given = made.form[:2]
    both = {k: given.index(at) for k, at in enumerate(following) if at >= 0 and at in given}
    return last, outputs, both


def _gives_its_own(step: Step) -> bool:
    """Whether what a step gives is different tensors, none of them a row or from outside the loop.

    Others have gradients that are added in another order than in the plain loop.
    """
    following, outputs = step.form[:2]
    inside = all(~k < step.carries for k in (*following, *outputs))
    apart = all(len({*some}) == len(some) for some in (following, outputs))
    return inside and apart and _ends_in_new(following)


def _ends_in_new(following: list[int]) -> bool:
    """Whether each carry is made by a step, or was some steps ago: not the same ones in turns."""
    for k in range(len(following)):
        at, steps = following[k], 0
        while at < 0 and steps <= len(following):
            at, steps = following[~at], steps + 1
        if at < 0:
            return False
    return True


class _Call:
    """One call of `scan`."""

    def __init__(
        self,
        step: Callable[[Any, Any], tuple[Any, Any]],
        carry: Carry,
        xs_spec: _tree.Spec | None,
        reverse: bool,
        count: int,
        memory: Memory,
        users: Callable[..., Any] | None,
        by_parts: bool,
        before: int,
    ) -> None:
        self._by_parts = by_parts
        self._keeps_copies = False
        self._before = before  # steps of the user's loop that have run apart
        self._users = users or step  # the user's function, which the step may be written around
        self._step, self._carry, self._xs_spec = step, carry, xs_spec
        self._reverse, self._count, self._memory = reverse, count, memory
        self._ys_spec: _tree.Spec | None = None
        self._ys_leaves = 0
        self._none: list[int] = []  # leaves of outputs that are None

    def natively(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the steps as a program, if it can be one."""
        carry, users_rows = self._carry.tensors, rows
        given = [as_argument(t) for t in carry]
        rows = [in_order(t) for t in rows]
        versions = [_version_of(t) for t in rows]
        first = [t[self._row(0)] for t in rows]
        key = self._carry.spec, self._xs_spec, _core._call_mode()
        step = self._known_step(key, [*given, *first])
        if step is None:
            with DrawnNumbers() as numbers, self._told(0):
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
                if self._by_parts:
                    raise Unsuited(result)
                self._write_back(users_rows, rows, versions)
                return self.plainly(result[: len(carry)], users_rows, 1, [result[len(carry) :]])
            numbers.put_back()
            step = made
            if _core._loop_mode() == 0:
                self._remember(
                    key, step, [t for t, s in zip(given, carry, strict=True) if s.is_leaf]
                )
        return self._by_loop(step, carry, rows)

    def _write_back(self, own: list[Tensor], read: list[Tensor], versions: list[int]) -> None:
        """Change the first row of the user's inputs, where the step has changed that of a copy."""
        for t, there, before in zip(own, read, versions, strict=True):
            if there is not t and _version_of(there) != before:
                t[self._row(0)].copy_(there[self._row(0)])

    def _by_loop(self, step: Step, carry: list[Tensor], rows: list[Tensor]) -> tuple[Any, Any]:
        if _core._unrecorded(lambda: _is_read_twice(carry, step.reached)):
            return self._first_apart(step, carry, rows)
        loop = self._loop_of(step, self._count)
        found = run_loop(loop, [in_order(t) for t in carry], rows)
        return self._carry.built(found[: len(carry)]), self._ys(found[len(carry) :])

    def _first_apart(self, step: Step, carry: list[Tensor], rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the first step as Python, where it reads a tensor in two places.

        All that it adds to the gradient of that tensor is one sum in the plain loop.
        """
        size, left = len(carry), self._count - 1
        with self._told(0):
            result = self._one_step(carry, [t[self._row(0)] for t in rows])
        self._carry.check_first()
        rest = [t.narrow(0, 0 if self._reverse else 1, left) for t in rows]
        found = run_loop(self._loop_of(step, left), [in_order(t) for t in result[:size]], rest)
        pairs = zip(result[size:], found[size:], strict=True)
        return self._carry.built(found[:size]), self._ys([self._joined([y], ys) for y, ys in pairs])

    def _joined(self, first: list[Tensor], rest: Tensor) -> Tensor:
        """The outputs of steps that ran apart, and those of the ones after them."""
        stacked = ad.stack(first[::-1] if self._reverse else first)
        return ad.cat((rest, stacked) if self._reverse else (stacked, rest))

    def _loop_of(self, step: Step, count: int) -> LoopRun:
        found = LoopRun(
            step,
            len(self._carry.tensors),
            count,
            self._reverse,
            self._memory,
            self._last_steps(count)._again,
            self._one_step,
            functools.partial(_scan_with, users=self._users),
            self._before + self._count - count,
        )
        found.keeps_copies = self._keeps_copies
        return found

    def as_instruction(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the steps as one instruction of the program that is recorded, if that can be."""
        carry, given = self._carry.tensors, rows
        rows = [in_order(t) for t in rows]
        versions = [_version_of(t) for t in rows]
        walk = current_walk()
        with Rehearsal() as rehearsal, DrawnNumbers() as numbers:
            own, result, made = self._rehearsed(rows)
        if walk is not None and walk.has_effects():  # which must not happen twice
            _core._refuse_recording(walk.refusals[0].reason)
            result = without(own, result)
            if self._by_parts:
                raise Unsuited(result)
            self._write_back(given, rows, versions)
            return self.plainly(result[: len(carry)], given, 1, [result[len(carry) :]])
        numbers.put_back()
        if isinstance(made, Refused):
            rehearsal.undo()
            return self.as_python(given)
        return self._by_loop(made, carry, rows)

    def _rehearsed(
        self,
        rows: list[Tensor],
        taken: Callable[[Tensor], Tensor] = as_argument,
        may_draw: bool = False,
    ) -> tuple[list[Tensor], list[Tensor], Step | Refused]:
        """Call the step, to have it recorded: its arguments that need no gradient, what it gave."""
        carry = self._carry.tensors

        def recorded() -> tuple[list[Tensor], list[Tensor], Step | Refused]:
            given = [taken(t) for t in carry]
            first = [t[self._row(0)] for t in rows]
            with self._told(0):
                result, made = record_inside(
                    self._step,
                    self._arguments(given, first),
                    [*given, *first],
                    len(given),
                    lambda r: Carry.own(self._flat(r), [*given, *first]),
                    may_draw,
                )
            own = [t for t, start in zip(given, carry, strict=True) if not start.requires_grad]
            return own, result, made

        found: tuple[list[Tensor], list[Tensor], Step | Refused] = _core._unrecorded(recorded)
        return found

    def in_transform(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run the steps on the plain tensors that those of a transform consist of."""
        carry, ys, done = self._carry.first(), [], 0
        forms = [apart(t)[1] for t in carry]
        while done < self._count:
            with self._told(done):
                result = self._one_step(carry, [t[self._row(done)] for t in rows])
            if not done:
                self._carry.check_first()
            carry, before = result[: len(carry)], forms
            ys.append(result[len(carry) :])
            done += 1
            forms = [apart(t)[1] for t in carry]
            if forms == before:
                break
        if self._count - done < 2:
            return self.plainly(carry, rows, done, ys)
        numbers = DrawnNumbers()
        try:
            with numbers:
                carry, more = self._rest_by_parts(carry, forms, rows, done)
        except Unsuited as found:
            if found.result is not None:
                ys.append(found.result[len(carry) :])
                return self.plainly(found.result[: len(carry)], rows, done + 1, ys)
            numbers.put_back()
            rest = self._rest_with_tangents(carry, forms, rows, done)
            if rest is None:
                return self.plainly(carry, rows, done, ys)
            carry, more = rest
        columns = zip(zip(*ys, strict=True), more, strict=True)
        return self._carry.built(carry), self._ys([self._joined([*a], b) for a, b in columns])

    def _rest_by_parts(
        self, carry: list[Tensor], forms: list[Form], rows: list[Tensor], done: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        left = self._count - done
        taken = [rows_apart(t.narrow(0, 0 if self._reverse else done, left)) for t in rows]
        ys_forms: list[Form] = []

        def step(parts: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            given, xs = iter(parts), iter(row)
            result = self._one_step(
                [together(form, given) for form in forms],
                [together(form, xs) for _, form in taken],
            )
            pieces = [apart(t) for t in result]
            if [form for _, form in pieces[: len(forms)]] != forms:
                raise Unsuited
            ys_forms[:] = [form for _, form in pieces[len(forms) :]]
            following, outputs = (
                [p for parts, _ in some for p in parts]
                for some in (pieces[: len(forms)], pieces[len(forms) :])
            )
            return following, outputs

        parts = [p for t in carry for p in apart(t)[0]]
        stacked = [p for ps, _ in taken for p in ps]
        _, spec = _tree.flatten(stacked)
        try:
            found, outputs = run_scan(
                step,
                parts,
                stacked,
                spec,
                left,
                self._reverse,
                self._memory,
                self._users,
                by_parts=True,
                before=self._before + done,
            )
        except Unsuited as unsuited:
            if unsuited.result is not None:  # one step has run
                there = iter(unsuited.result)
                unsuited.result = [together(form, there) for form in (*forms, *ys_forms)]
            raise
        given, pieces = iter(found), iter(outputs)
        last = [together(form, given) for form in forms]
        ys = [
            rows_together(form, [next(pieces) for _ in range(count_of(form))]) for form in ys_forms
        ]
        return last, ys

    def _rest_with_tangents(
        self, carry: list[Tensor], forms: list[Form], rows: list[Tensor], done: int
    ) -> tuple[list[Tensor], list[Tensor]] | None:
        """The same where the loop is differentiated before forward mode is over, or None.

        The step has been recorded on parts: it has no effects.
        """
        if _core._current_dual_level() < 0 or not _core.is_grad_enabled() or _core._is_recording():
            return None
        left, given = self._count - done, [in_order(t) for t in carry]
        rest = [in_order(t.narrow(0, 0 if self._reverse else done, left)) for t in rows]
        with set_fwd_grad_enabled(False):
            first = [
                *(as_argument(t) for t in given),
                *(t[-1 if self._reverse else 0] for t in rest),
            ]
            _, made = record(
                self._step,
                self._arguments(first[: len(carry)], first[len(carry) :]),
                first,
                len(carry),
                lambda r: Carry.own(self._flat(r), first),
                self._users,
            )
        if isinstance(made, Refused):
            return None
        loop = self._loop_of(made, left)
        try:
            with ad.no_grad():
                last, ys = self._rest_by_parts(carry, forms, rows, done)
        except Unsuited:
            return None
        found = with_history(loop, [*given, *rest, *made.reached], [*last, *ys])
        return None if found is None else (found[: len(carry)], found[len(carry) :])

    def _one_step(self, carry: list[Tensor], row: list[Tensor]) -> list[Tensor]:
        return self._flat(self._step(*self._arguments(carry, row)))

    def _known_step(self, key: Any, tensors: list[Tensor]) -> Step | None:
        """The recording of an earlier scan that does the same."""
        if not isinstance(self._step, FunctionType):
            return None
        table = _recorded.get(self._step)
        step: Step
        for step, ys in (table or {}).get(key, ()):
            if step.serves(tensors):
                self._ys_spec, self._ys_leaves, self._none = ys
                return step
        return None

    def _remember(self, key: Any, step: Step, stand_ins: list[Tensor]) -> None:
        function = self._step
        if not isinstance(function, FunctionType) or step.has_history(stand_ins):
            return
        if function in _seen or "<locals>" not in function.__qualname__:
            known = _recorded[function] = _recorded.pop(function, {})  # the latest last
            for old in [*_recorded][:-_FUNCTIONS]:
                _recorded.pop(old, None)
            table = known.setdefault(key, deque(maxlen=_REMEMBERED))
            for old, ys in [entry for entry in table if entry[0].is_retired()]:
                step.expect(old)
                table.remove((old, ys))
            table.appendleft((step, (self._ys_spec, self._ys_leaves, self._none)))
        _seen.add(function)

    def _last_steps(self, count: int) -> _Call:
        """The same call of so many steps, where others have run apart."""
        if count == self._count:
            return self
        rest = copy.copy(self)
        rest._count, rest._before = count, self._before + self._count - count
        return rest

    def _again(self, tensors: list[Tensor], carries: int, rows: int) -> list[Tensor]:
        """The plain loop, for derivatives of derivatives."""
        carry, ys = self._loop(tensors[:carries], tensors[carries : carries + rows], 0, [])
        return [*carry, *ys]

    def as_python(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """Run all steps as Python."""
        found = self.plainly(self._carry.first(), rows, 0, [])
        self._carry.check_first()
        return found

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
            with self._told(at):
                result = self._one_step(carry, row)
            carry = result[:size]
            ys.append(result[size:])
        if self._reverse:
            ys.reverse()
        return carry, [ad.stack(column) for column in zip(*ys, strict=True)]

    def nothing(self, rows: list[Tensor]) -> tuple[Any, Any]:
        """No step: what the outputs would be is found out with a row of zeros.

        It draws no random numbers and changes no tensors.
        """
        carry = self._carry.tensors

        def outputs() -> list[tuple[Any, Any]]:
            row = [ad.zeros(t.shape[1:], dtype=t.dtype) for t in rows]
            result = self._flat(self._step(*self._arguments(self._carry.first(), row)))
            return [(t.shape, t.dtype) for t in result[len(carry) :]]

        rehearsal, numbers = Rehearsal(), DrawnNumbers()
        try:
            with ad.no_grad(), rehearsal, numbers:
                forms = _core._unrecorded(outputs)
        except Exception as error:
            error.add_note(
                "in a scan of no steps, which calls its step once, with a row of zeros, to see "
                "what the outputs would be; fix: leave the scan out where there are no steps"
            )
            raise
        finally:
            rehearsal.undo()
            numbers.put_back()
        ys = [ad.empty((0, *shape), dtype=dtype) for shape, dtype in forms]
        return self._carry.built(carry), self._ys(ys)

    def _told(self, step: int) -> in_step:
        return in_step(self._before + step, self._users)

    # -- structures --------------------------------------------------------------------------------

    def _row(self, step: int) -> int:
        return self._count - 1 - step if self._reverse else step

    def _arguments(self, carry: list[Tensor], row: list[Tensor]) -> tuple[Any, Any]:
        x = None if self._xs_spec is None else _tree.unflatten(self._xs_spec, row)
        return self._carry.built(carry), x

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


def _version_of(t: Tensor) -> int:
    """The version, of which a recording takes no notice."""
    found: int = _core._unrecorded(lambda: t._version)
    return found


def _is_read_twice(carry: list[Tensor], reached: list[Tensor]) -> bool:
    """Whether a tensor that is differentiated by is a first carry, and another or reached too."""
    if not _core.is_grad_enabled() or _core._loop_mode():
        return False
    first = [place_of(t) for t in carry if t.requires_grad]
    if not first:
        return False
    others = [place_of(t) for t in reached if t.requires_grad]
    return len({*first}) < len(first) or not {*first}.isdisjoint(others)
