"""The steps of a loop that are left, as a scan: read _takeover.py first."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._guards import ABSENT
from adjoint.compiler._names import place_of
from adjoint.compiler._walk import Walk
from adjoint.loops._drawn_numbers import DrawnNumbers
from adjoint.loops._scan_call import run_as_instruction

from . import _frames
from ._between import Between, Form, Unlike, facts
from ._in_place import copies, outdate
from ._items import Items
from ._memory import have_memory_apart, share_no_memory
from ._rows import Proxy, Rows
from ._step_code import OneStep

__all__ = ["Rest"]


_ENOUGH = 80  # instructions that are worth a round
_MOST = 64  # steps of a round


class Rest:
    """The steps that are left.

    Where they are small, several make one round, a step of the scan, for that takes some time
    beside its instructions, too.

    Parameters
    ----------
    before, now
        The program before the last step that ran, and after it.
    left
        The items that are left.
    done
        How many steps have run.

    Attributes
    ----------
    count
        How many of them a scan can run: the last is not among them, whose values stay.
    """

    def __init__(
        self, frame: FrameType, before: Between, now: Between, left: Items, done: int, fold: int
    ) -> None:
        loop = now.loop
        self._rounds, self._fold = (len(left) - 1) // fold, fold
        self.count = self._rounds * fold
        self._done, self._before = done, before
        self._place = place_of(loop.code, loop.line)
        self._known = False  # what the step gives
        (item,) = left[self.count - 1 : self.count]
        self._items = {k: v for k, v in _parts(loop.target, item) if k not in loop.used}
        self._lists = {k: now.values[k] for k in sorted(now.appended)}
        new = {k: held[before.appended[k] :] for k, held in self._lists.items()}
        self._outputs = [Form.of(some) for some in new.values()]
        if not all(_is_plain(t) for one in self._outputs for t in one.tensors()):
            raise Unlike("it appends tensors that are not contiguous, or conjugates")
        self._rows = [Rows(frame, loop, left[k : self.count : fold]) for k in range(fold)]
        self._written = self._rows[0].written()
        self._whole = Rows(frame, loop, left[: self.count]) if self._written else self._rows[0]
        if not before.changed.keys() >= {*self._written}:
            raise Unlike("it has not written a row")
        self._changed = {k: t for k, t in before.changed.items() if k not in self._written}
        self._changed_facts = [facts(t) for t in self._changed.values()]
        self._carried = {
            k: form.since(before.forms[k])
            for k, form in sorted(now.forms.items())
            if k not in before.changed
        }
        carried = [t for form in self._carried.values() for t in form.tensors()]
        self._check_apart(carried, before.other_tensors(), left)
        self._proxies = {name: Proxy(name) for name in self._rows[0].names()}
        self._read = {
            name: self._proxies.get(name, now.values[name])
            for name in sorted(loop.read)
            if now.values[name] is not ABSENT
            and name not in now.appended
            and name not in self._changed
        }
        self._users = _core._frame_function(frame)
        shared = {
            place: self._proxies.get(_frames.name_at(frame, place), held)
            for place, held in now.shared.items()
        }
        given = [*self._carried, *self._read, *self._lists, *self._changed]
        wanted = [*self._carried, *self._changed]
        self._step = OneStep(loop, self._users, shared, self._proxies, given, wanted)

    def _check_apart(self, carried: list[Tensor], others: list[Tensor], left: Items) -> None:
        """See that no tensor has two places, and that what is changed is not read otherwise."""
        places = [*map(id, carried)]
        if len({*places}) < len(places) or not {*places}.isdisjoint(map(id, others)):
            raise Unlike("two of its tensors are one")
        items = [t for column in left.columns() for t in column.tensors()]
        if not share_no_memory([*self._before.changed.values()], [*carried, *others, *items]):
            raise Unlike("it changes memory that it reads in another way")

    @staticmethod
    def fold_of(before: Between, now: Between, left: Items) -> int:
        """How many steps make a round."""
        fold = _ENOUGH // max(1, now.size - before.size)
        return int(max(1, min(fold, _MOST, (len(left) - 1) // 8)))

    def run(self, frame: FrameType, walk: Walk, iterators: list[Any], after: Any) -> bool:
        """Run them, and give the frame what they leave; whether it could be done.

        What the loop goes over after that becomes the last of its iterators.
        """
        walk.takes_for(self._step.code, frame.f_code)
        self._walk = weakref.ref(walk)
        init = [t for form in self._carried.values() for t in form.tensors()]
        init += copies([*self._changed.values()])
        stacked = [t for rows in self._rows for t in rows.stacked()]
        apart = [t for rows in self._rows for t in rows.apart()]
        numbers = DrawnNumbers()
        found = run_as_instruction(
            *(self._one_round, init, stacked, apart, [*self._before.changed.values()]),
            self._fold == 1,
            *(self._rounds, self._users, self._done),
        )
        if found is None:
            return False
        try:
            self._give(frame, *found, (iterators, [after]))
        except BaseException:  # the plain loop goes on, and draws for itself
            _core._refuse_recording("what a loop leaves could not be given to its variables")
            numbers.put_back()
            raise
        return True

    def _give(
        self,
        frame: FrameType,
        carry: list[Tensor],
        outputs: list[Tensor],
        both: dict[int, int],
        items: tuple[list[Any], Any],
    ) -> None:
        """Give the frame what the steps leave."""
        outputs, written = self._rows_apart(outputs)
        columns = [[row.clone() for row in stacked.unbind(0)] for stacked in outputs]
        states = [*carry, *(t for column in columns for t in column)]
        several = len(states) + len(written) > 1
        self._mark(states if several else [])
        for k, column in both.items():  # one tensor in the loop, which gets one gradient
            carry[k] = columns[column][-1]
        values = {**self._items, **self._values(carry)}
        lists = [*self._appended(columns), items]
        changed = [*self._changed.values()]
        tensors = [*zip(changed, carry[len(carry) - len(changed) :], strict=True)]
        tensors += [self._whole.to_write(k, t) for k, t in zip(self._written, written, strict=True)]
        self._forget()
        _frames.change(frame, values, lists, tensors)
        self._mark(changed if several else [])

    def _rows_apart(self, outputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs that are appended, and rows to write, of all steps: these come last."""
        count = len(self._written)
        own = len(outputs) - self._fold * count
        columns = [outputs[own + k :: count] for k in range(count)]
        if self._fold == 1:
            return outputs[:own], [column[0] for column in columns]
        return outputs[:own], [ad.stack(column, 1).flatten(0, 1) for column in columns]

    def _are_alike(self, carry: Sequence[Tensor]) -> bool:
        given = iter(carry)
        return all(
            form.is_like([*islice(given, len(form.places))]) for form in self._carried.values()
        ) and all(facts(t) == form for t, form in zip(given, self._changed_facts, strict=True))

    def _values(self, tensors: Sequence[Tensor]) -> dict[str, Any]:
        found, at = {}, 0
        for name, form in self._carried.items():
            size = len(form.places)
            found[name] = form.with_tensors(tensors[at : at + size])
            at += size
        return found

    def _one_round(
        self, carry: list[Tensor], row: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        walk = self._walk() if self._known else None
        if walk is not None and walk.may_run_again and not walk.is_over:
            _core._ask_state_of_loop()
            raise RuntimeError(f"the loop at {self._place} is differentiated twice")
        if self._known and not self._before.is_kept():
            raise RuntimeError(
                f"the loop at {self._place} was recorded by compile(), and a second derivative of "
                "the call that was recorded runs its steps again: but what they read has been "
                "changed since then; fix: differentiate twice in another call of the compiled "
                "function, or write an ad.scan"
            )
        own = len(carry) - len(self._changed_facts)
        carry = [*carry[:own], *copies(carry[own:])]
        outputs: list[Tensor] = []
        written: list[Tensor] = []
        given, start = iter(row), carry
        if not self._known and not self._are_alike(carry):
            raise Unlike("a tensor cannot stand for what is carried")
        for rows in self._rows:
            item = rows.take([next(given) for _ in range(rows.count)])
            carry, appended, made = self._one_step(carry, rows, item)
            outputs, written = outputs + appended, written + made
        if not self._known:
            others, changed = [*row, *self._before.other_tensors()], carry[own:]
            if not have_memory_apart(start, [*others, *changed], carry, outputs + written):
                raise Unlike("it appends tensors that share memory")
            if not share_no_memory(changed, [*carry[:own], *others]):
                raise Unlike("it hands memory on that it changes")
            if [*map(facts, changed)] != self._changed_facts:
                raise Unlike("a tensor changes its form")
            outdate(changed)
        return carry, [*outputs, *written]

    def _one_step(
        self, carry: list[Tensor], rows: Rows, item: Any
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The next carry, what is appended, and rows that are written."""
        lists: list[list[Any]] = [[] for _ in self._outputs]
        for proxy in self._proxies.values():
            proxy.rows = rows
        changed = carry[len(carry) - len(self._changed_facts) :]
        given = [*self._values(carry).values(), *self._read.values(), *lists, *changed]
        last = self._step(given, item)
        written = rows.made()
        if rows.has_failed:
            raise Unlike("it takes or writes rows that it had not before")
        rows.let_go()
        own = len(self._carried)
        if any(t is not one for t, one in zip(changed, last[own:], strict=True)):
            raise Unlike("it lets a tensor go that it changes")
        following = self._flat(self._carried.values(), last[:own])
        return [*following, *changed], self._flat(self._outputs, lists), written

    def _flat(self, forms: Any, values: Sequence[Any]) -> list[Tensor]:
        return [
            t
            for form, value in zip(forms, values, strict=True)
            for t in form.tensors_of(value, self._known)
        ]

    def _mark(self, states: Sequence[Tensor]) -> None:
        """Nobody can be told the gradient of a state of which others were made unseen."""
        for node in _core._unrecorded(lambda: [t.grad_fn for t in states]):
            if node is not None:
                node._state_of_loop = self._place  # type: ignore[attr-defined]

    def _appended(self, columns: list[list[Tensor]]) -> list[tuple[list[Any], Any]]:
        """Lists, and what the steps would have appended to them."""
        found: list[tuple[list[Any], Any]] = [(held, []) for held in self._lists.values()]
        each = len(columns) // self._fold
        for k in range(self.count):
            at = k % self._fold * each
            row = [column[k // self._fold] for column in columns[at : at + each]]
            for (_, new), form in zip(found, self._outputs, strict=True):
                new.extend(form.with_tensors(row[: len(form.places)]))
                del row[: len(form.places)]
        return found

    def _forget(self) -> None:
        """Hold nothing of the program any more but what a step reads."""
        self._known = True
        self._lists, self._changed = {}, {}
        for rows in (*self._rows, self._whole):
            rows.forget()
        self._before.forget()
        for form in (*self._carried.values(), *self._outputs):
            for k in form.places:
                form.leaves[k] = None


def _parts(target: Any, item: Any) -> Iterator[tuple[str, int]]:
    """The variables that become numbers of an item."""
    if isinstance(target, tuple):
        for name, part in zip(target, item, strict=True):
            yield from _parts(name, part)
    elif type(item) is int:
        yield target, item


def _is_plain(t: Tensor) -> bool:
    return bool(_core._unrecorded(lambda: t.is_contiguous() and not (t.is_conj() or t.is_neg())))
