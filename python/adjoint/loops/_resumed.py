"""States of a loop that outlive its process: the same loop goes on from them in another one.

What is the same is told by a fingerprint, the name of the folder: of the program of the step, of
all tensors that the loop is given or reads, of the random numbers it starts with, of the places of
its states, and of adjoint. A step that is not data (it calls an external, another loop) has none.

There is a file for each state. Besides, as a loop has more results than its last carry: the rows of
outputs between two states, the state at the end, and the gradients where the backward pass has come
to a state of the forward one, with the rows for the inputs. A file appears whole, and is believed
if its digest is right; so after a power cut, too. Files are written by one thread, in order.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._exchange import Tables, to_data
from adjoint.compiler._fingerprints import content_print
from adjoint.compiler._recorded import Refused

from ._lasting_folders import claim
from ._memory import Memory
from ._run import Gradients, LoopRun
from ._states import DiskStates, State
from ._step_forms import Backward

__all__ = ["GradientFiles", "ResumedStates", "fingerprint", "resumed_states"]

Rows = Callable[[Tensor, int, int], Tensor]


# -- fingerprints ----------------------------------------------------------------------------------


def fingerprint(loop: LoopRun, tensors: Sequence[Tensor], memory: Memory) -> str:
    """What stands for all that a loop does.

    Raises
    ------
    ValueError
        Its step is not data.
    """
    facts = (
        ad.__version__,
        _core.instruction_set(),
        _program_print(loop.step.forward),
        loop.step.form,
        (loop.carries, loop.count, loop.reverse),
        (memory.block, memory.states),
    )
    return content_print(repr(facts), [*tensors, *loop.state([]).numbers])[:32]


def _program_print(program: Any) -> str:
    if program.calls_python():
        raise ValueError("its step calls Python (an external, another loop)")
    tables = Tables([])
    data = to_data(program, tables)
    return content_print(json.dumps(data), tables.constants)


# -- files -----------------------------------------------------------------------------------------


def _write(path: str, text: str, lists: dict[str, list[Tensor | None]]) -> None:
    digest = content_print(text, [t for some in lists.values() for t in some])
    ad.save({"text": text, "digest": digest, **lists}, path)


def _read(path: str) -> dict[str, Any] | None:
    """What a file holds; None if there is none that is whole."""
    try:
        found = ad.load(path)
        text, digest = found.pop("text"), found.pop("digest")
        good = content_print(text, [t for some in found.values() for t in some]) == digest
    except Exception:  # of whatever kind: it is damaged
        return None
    return {"text": text, **found} if good else None


def resumed_states(
    loop: LoopRun, tensors: Sequence[Tensor], memory: Memory
) -> tuple[ResumedStates | None, str]:
    """The states of a loop that outlive its process, or why there are none."""
    assert memory.folder is not None
    try:
        name = fingerprint(loop, tensors, memory)
    except ValueError as error:
        return None, str(error)
    found = claim(memory.folder, name)
    if found is None:
        return None, "the same loop runs in this folder at the moment"
    return ResumedStates(*found), ""


class ResumedStates(DiskStates):
    """States by place, in files that outlive the process.

    Parameters
    ----------
    folder, lock
        Where they are, and the lock on it.
    """

    def __init__(self, folder: str, lock: int) -> None:
        super().__init__(folder)
        self._lock = lock
        self._end.detach()
        self._end = weakref.finalize(self, _remove, folder, self._thread, lock)
        self._end.atexit = False
        for name in os.listdir(folder):
            if name.startswith("."):  # that was being written
                os.remove(os.path.join(folder, name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.pt")

    def write(self, name: str, text: str = "", **lists: list[Tensor | None]) -> Future[None]:
        """Write a file, while the loop goes on."""
        return self._thread.submit(_write, self._path(name), text, lists)

    def read(self, name: str) -> dict[str, Any] | None:
        """What a file holds, if there is one that is whole."""
        return _read(self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file, after what is being written."""
        self._thread.submit(os.remove, self._path(name))

    def put(self, place: int, state: State) -> None:
        """Write a state, while the loop goes on."""
        name = f"state-{place}"
        self._there[place] = self._path(name), self._write_state(name, state)

    def finish(self, state: State) -> None:
        """Write the state after all steps."""
        self._write_state("end", state)

    def _write_state(self, name: str, state: State) -> Future[None]:
        # Copies: some are the user's, who may change them before they are written.
        carry: list[Any] = [t.detach().clone() for t in state.carry]
        return self.write(name, carry=carry, numbers=[*state.numbers])

    def take_up(self, stops: list[int], last: int) -> tuple[int, State | None]:
        """Take over the states of an earlier process: the furthest place, and its state.

        Parameters
        ----------
        stops
            The places of the forward pass that outputs are there for, from 0 on.
        last
            The place after all steps.
        """
        end = self.read("end") if stops[-1] == last else None
        newest: dict[str, Any] | None = None
        for name in os.listdir(self._folder):
            kind, _, number = name.removesuffix(".pt").partition("-")
            if kind != "state":
                continue
            place = int(number)
            found = self.read(f"state-{place}") if end is not None or place in stops else None
            if found is None:
                os.remove(os.path.join(self._folder, name))
                continue
            if place > max(self._there, default=0):
                newest = found
            done: Future[None] = Future()
            done.set_result(None)
            self._there[place] = self._path(f"state-{place}"), done
        if end is not None:
            return last, State(end["carry"], end["numbers"])
        if newest is None:
            return 0, None
        return max(self._there), State(newest["carry"], newest["numbers"])

    def leave(self) -> None:
        """Let go of the folder, and leave what is in it."""
        if self._end.detach() is None:
            return
        self._there.clear()
        self._ahead.clear()
        self._thread.shutdown(wait=True)
        os.close(self._lock)


def _remove(folder: str, thread: ThreadPoolExecutor, lock: int) -> None:
    thread.shutdown(wait=True, cancel_futures=True)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


class GradientFiles:
    """How far a backward pass has come, in files.

    They are for the gradients that have arrived, and for the backward programs of the step, which
    a function of the user's may have a part in: both are compared.

    Parameters
    ----------
    states
        Those of the loop.
    loop, gradients
        The pass.
    stops
        The places that are told of: those of the forward pass, the end first.
    rows
        The rows of a stack between two places.
    """

    def __init__(
        self,
        states: ResumedStates,
        loop: LoopRun,
        gradients: Gradients,
        stops: list[int],
        rows: Rows,
    ) -> None:
        self._states, self._loop, self._g = states, loop, gradients
        self._stops, self._rows = stops, rows
        self._name = "gradients-" + content_print("", gradients.arriving())[:16]
        self._prints: dict[Any, str | None] = {}
        self._last = ""

    def take_up(self) -> int:
        """The place that an earlier process came to; gradients become what they were there."""
        for place in self._stops[:0:-1]:
            found = self._states.read(f"{self._name}-{place}")
            if found is None:
                continue
            told = json.loads(found["text"])
            if self._are_ours(told["programs"]) and self._take_rows(place):
                self._g.go_on(found["carry"], found["reached"], told["written"])
                self._last = f"{self._name}-{place}"
                return place
        return self._stops[0]

    def _take_rows(self, first: int) -> bool:
        """Take over the rows for inputs, of all steps from a place on, if they are there."""
        stacks = [x for x in self._g.xs if x is not None]
        for before, place in pairwise(self._stops if stacks else []):
            if place < first:
                break
            found = self._states.read(f"{self._name}-rows-{place}")
            if found is None:
                for x in stacks:
                    x.zero_()
                return False
            for x, rows in zip(stacks, found["rows"], strict=True):
                self._rows(x, place, before).copy_(rows)
        return True

    def _are_ours(self, programs: Any) -> bool:
        """Whether this process would run the same programs."""
        try:
            return all(
                self._print(self._loop.step.backward_for(*_key(key))) == known
                for key, known in programs
            )
        except Refused:
            return False

    def note(self, place: int) -> None:
        """The pass has come to a place."""
        if place not in self._stops:
            return
        programs = [[key, self._print(form)] for key, form in self._loop.step.used()]
        if any(known is None for _, known in programs):
            return
        before = self._stops[self._stops.index(place) - 1]
        rows = [self._rows(x, place, before).clone() for x in self._g.xs if x is not None]
        if rows:
            self._states.write(f"{self._name}-rows-{place}", rows=[*rows])
        carry, reached, written = self._g.so_far()
        text = json.dumps({"programs": programs, "written": written})
        self._states.write(f"{self._name}-{place}", text, carry=carry, reached=reached)
        if self._last:
            self._states.remove(self._last)
        self._last = f"{self._name}-{place}"

    def _print(self, form: Backward) -> str | None:
        """The fingerprint of what runs; None if that is not data."""
        if form.program is None:
            return "none"
        if id(form) not in self._prints:
            self._prints[id(form)] = _backward_print(form)
        return self._prints[id(form)]


def _backward_print(form: Backward) -> str | None:
    parts = [form.program] if form.values is None else [form.program, form.values]
    try:
        programs = [_program_print(part) for part in parts]
    except ValueError:
        return None
    facts = programs, form.arriving, form.kept, form.gives, form.held
    return content_print(repr(facts), [])


def _key(key: Any) -> Any:
    return tuple(tuple(part) if isinstance(part, list) else part for part in key)
