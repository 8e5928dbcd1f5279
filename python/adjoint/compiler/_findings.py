"""`Findings`: what a watch has noted so far, and what of it counts.

Note [Objects of the run]. What a run makes itself it may read and change as it likes: only what was
there before counts. Python's collector keeps new objects in a generation of their own, which
the watch empties when it starts and keeps from being emptied until it ends; an object is of the run
if it stands there. Whatever goes wrong with that (a program that calls the collector) errs to the
safe side. Dicts of plain values and arrays are not known to the collector: they are taken to be
of the run unless they were reached from something that was there before.

So reads and changes are noted with the object they are about, which keeps it alive, and `settle`
decides about them later, many at once. Objects that are seen when they are made need no decision:
the core knows their addresses (`is_made`). They may die, but whatever stands at that address later
was made by the run as well. Read next: `_steps`, which finds them.
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

from adjoint import Tensor
from adjoint.compiler._guards import Guard, Where
from adjoint.compiler._lookups import Place
from adjoint.compiler._operands import is_made
from adjoint.compiler._snapshots import (
    Snapshot,
    TooLarge,
    is_array,
    is_changeable,
    is_lasting,
    is_value,
)

__all__ = ["REPEAT", "Findings", "Refusal"]

REPEAT = "which a replay would not repeat"
_PENDING = 20_000  # when so much is noted, it is decided about


class Refusal(NamedTuple):
    """Why a run cannot be replayed, and the line that says so."""

    reason: str
    where: str


class _Read(NamedTuple):
    """A place that was read: guarded if its owner was there before."""

    owner: Any
    place: Place
    snapshot: Snapshot | None
    where: Where | None


class _Change(NamedTuple):
    """Something that changes `owner`, or cannot be compared: refused if that was there before."""

    owner: Any
    reason: str  # {} stands for the expression
    where: Where | None


_ALWAYS: Any = object()  # the owner of what counts whatever was there before


class Findings:
    """Reads and changes, first noted and then decided about."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.refusals: list[Refusal] = []
        self._pending: list[_Read | _Change] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._covered: dict[int, Any] = {}  # containers that are part of a guard
        self._reached: dict[int, Any] = {}  # containers that were there before

    # -- noting ----------------------------------------------------------------------------------

    def has(self, kind: str, holder: Any, key: Any) -> bool:
        """Whether such a place was noted."""
        return (kind, id(holder), key) in self._seen

    def covers(self, container: Any) -> bool:
        """Whether all of a container is compared already."""
        return id(container) in self._covered

    def cover(self, container: Any) -> None:
        """Say that what is read of a container is noted elsewhere."""
        self._covered[id(container)] = container

    def read(self, place: Place, where: Where | None) -> None:
        """Note a place: now what stands in it, later whether its owner was there before."""
        key = (place.kind, id(place.holder), place.key)
        if key in self._seen or is_made(place.owner):
            return
        self._seen.add(key)
        snapshot = None
        if place.kind in ("attr", "item", "cell", "whole"):
            try:
                snapshot = self._snapshot(place.value)
            except TooLarge as error:
                for thing in (place.owner, place.value):
                    self._note(_Change(thing, f"{{}} {error}", where))
                return
        self._note(_Read(place.owner, place, snapshot, where))

    def whole(self, container: Any, owner: Any, where: Where | None) -> None:
        """Note a container that was reached in a way no place stands for."""
        self.read(Place("whole", container, None, container, owner), where)

    def change(self, owner: Any, reason: str, where: Where | None) -> None:
        """Note a change of `owner`, to be refused if that was there before."""
        if not is_made(owner):
            self._note(_Change(owner, reason, where))

    def refuse(self, reason: str, where: Where | None) -> None:
        """Note what is refused whatever was there before."""
        self._note(_Change(_ALWAYS, reason, where))

    def was_there(self, container: Any) -> None:
        """Say that a container was there before."""
        self._reached[id(container)] = container

    def _note(self, one: _Read | _Change) -> None:
        self._pending.append(one)
        if len(self._pending) > _PENDING:
            self.settle()

    def _snapshot(self, value: Any) -> Snapshot | None:
        if not (is_value(value) or is_changeable(value)):
            return None
        try:
            snapshot = Snapshot(value)
        except TooLarge:
            if is_lasting(value):
                return None  # the same object is the same value
            raise
        for container in snapshot.containers():
            self._covered[id(container)] = container
        return snapshot

    def forget(self) -> None:
        """Keep the guards and refusals only."""
        self._pending.clear()
        self._seen.clear()
        self._covered.clear()
        self._reached.clear()

    # -- deciding --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Decide about everything noted so far. Note [Objects of the run]."""
        pending, self._pending = self._pending, []
        young = {*map(id, gc.get_objects(generation=0))}
        for one in pending:
            if isinstance(one, _Change):
                if self._counts(one.owner, young):
                    self._add_refusal(one)
            elif self._counts(one.owner, young):
                self._keep(one)
            else:
                self._keep_parts(one, young)
        # Objects of the run may be gone soon, and their addresses be those of others.
        kept = [guard.place for guard in self.guards]
        self._seen = {(place.kind, id(place.holder), place.key) for place in kept}
        self._covered = dict(self._reached)

    def _counts(self, thing: Any, young: set[int]) -> bool:
        if thing is _ALWAYS or id(thing) in self._reached:
            return True
        if gc.is_tracked(thing):
            return id(thing) not in young
        return not (isinstance(thing, dict | bytearray) or is_array(thing))

    def _keep(self, one: _Read) -> None:
        if one.snapshot is not None:
            for container in one.snapshot.containers():
                self._reached[id(container)] = container
        elif one.place.kind == "keys":
            self._reached[id(one.place.holder)] = one.place.holder
        self.guards.append(Guard(one.place, one.snapshot, one.where))

    def _keep_parts(self, one: _Read, young: set[int]) -> None:
        """An object of the run may hold containers that were there before."""
        for container in one.snapshot.containers() if one.snapshot is not None else ():
            if self._counts(container, young) and ("whole", id(container), None) not in self._seen:
                self._seen.add(("whole", id(container), None))
                place = Place("whole", container, None, container, container)
                self._keep(_Read(container, place, Snapshot(container), one.where))

    def _add_refusal(self, one: _Change) -> None:
        text = "" if one.where is None else one.where.text()
        reason = one.reason.replace("{}", text or ("an argument" if one.where is None else "this"))
        refusal = Refusal(reason, "" if one.where is None else one.where.place())
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def drop_changed(self) -> None:
        """Refuse what changed during the run although no one was seen to change it.

        `functional_call` puts other tensors into a module for the time of a call: they are those of
        its arguments, and need no guard.
        """
        kept = []
        for guard in self.guards if not self.refusals else ():
            if guard.holds():
                kept.append(guard)
            elif not (guard.place.kind == "item" and isinstance(guard.place.value, Tensor)):
                where = "" if guard.where is None else guard.where.place()
                reason = f"{guard.name()} changed during the call, {REPEAT}"
                self.refusals.append(Refusal(reason, where))
        self.guards = kept
