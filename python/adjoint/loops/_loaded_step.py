"""A step of a loop from a file: its programs, without the recording that made them.

Nothing of a file is believed. What a program takes and gives is what its ops say (`Described`);
here all numbers that connect programs with one another are compared with that, so that a loop which
is put together can be run. Which gradients meet in a step is computed, not read (_step_forms.py).
Read next: _loop_files.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint.compiler._exchange import Described, Tables

from ._step_forms import Backward, Flags, StepForms

__all__ = ["LoadedStep", "check", "flags", "index", "like"]

Form = tuple[list[int], Any]  # shape and dtype


def check(good: bool, what: str) -> None:
    """Raise where a file says what cannot be."""
    if not good:
        raise ValueError(what)


def index(value: Any, count: int) -> int:
    """A number that is one of so many."""
    check(type(value) is int and 0 <= value < count, f"{value!r} is not one of {count}")
    found: int = value
    return found


def flags(value: Any, count: int) -> Flags:
    """So many answers."""
    good = isinstance(value, list) and len(value) == count and all(type(v) is bool for v in value)
    check(good, f"{count} answers are expected")
    return tuple(value)


def like(form: Any) -> Form:
    """Shape and dtype of a register."""
    shape, _, dtype = form
    return list(shape), dtype


class LoadedStep(StepForms):
    """A step that another process has recorded.

    Attributes
    ----------
    forward, form, kept, held
        Those of a step that was recorded here: see `Step`.
    reached
        What it reads from outside, besides its arguments: shape and dtype of each.
    results
        The same of the next carry and the outputs.
    """

    def __init__(self, data: Any, tables: Tables) -> None:
        made = Described(data["forward"], tables)
        outputs, self._forms = made.outputs, {}
        self.reached: list[Any] = [_form_of(one) for one in data["reached"]]
        self.held = [index(k, len(self.reached)) for k in data["held"]]
        given = len(made.inputs) - len(self.held)
        self.carries = index(data["carries"], given + 1)
        self.rows = given - self.carries
        self.inputs = [*(like(form) for form in made.inputs[:given]), *self.reached]
        check(
            [like(form) for form in made.inputs[given:]] == [self.reached[k] for k in self.held],
            "a step reads what is not given to it",
        )
        check(None not in outputs, "a step has an output less")
        self.kept = index(data["kept"], len(outputs) + 1)
        own = len(outputs) - self.kept
        self._outputs = [like(form) for form in outputs]
        self._kept_forms = outputs[own:]
        self._arguments = made.inputs[:given]
        self.by = _increasing(data["by"], len(self.inputs))
        self.differentiable = _increasing(data["differentiable"], own)
        self._take_sources(data["sources"], own, bool(data["stops"]))
        self.forward = made.build()
        check(not self.forward.changes(), "a step has effects")
        _core._program_given(self.forward, given)
        self._programs: dict[tuple[Flags, Flags], Backward] = {}
        for one in data["programs"]:
            self._add_backward(one, tables)

    def _take_sources(self, sources: Any, own: int, stops: bool) -> None:
        given = self.carries + self.rows
        held = {k: given + at for at, k in enumerate(self.held)}
        places = []
        for k in sources:
            check(type(k) is int and -len(self.inputs) <= k < own, f"there is no result {k!r}")
            known = k >= 0 or ~k < given or ~k - given in held
            check(known, "a step returns what it does not read")
            places.append(k if k >= 0 or ~k < given else ~held[~k - given])
        self.sources: list[int] = list(sources)
        self.results = [self._outputs[k] if k >= 0 else self.inputs[~k] for k in self.sources]
        check(len(places) >= self.carries, "a step returns no carry")
        check(
            self.results[: self.carries] == self.inputs[: self.carries],
            "a carry of a loop changes its form",
        )
        check(not stops or len(places) == self.carries + 1, "a loop has no condition")
        rows = places[self.carries :]
        self.form = (places[: self.carries], rows, own, 0 if stops else -1)

    def _add_backward(self, data: Any, tables: Tables) -> None:
        outputs = flags(data["outputs"], len(self.differentiable))
        sums = flags(data["sums"], len(self.by))
        made = Described(data["program"], tables)
        arriving = [
            *(self._outputs[k] for k, on in zip(self.differentiable, outputs, strict=True) if on),
            *(self.inputs[k] for k, on in zip(self.by, sums, strict=True) if on),
        ]
        count = len(arriving)
        values, held, there = self._values(data, tables)
        kept = [index(k, len(there)) for k in data["kept"]]
        check(
            [like(form) for form in made.inputs[:count]] == arriving
            and made.inputs[count:] == [there[k] for k in kept],
            "a backward program of a step takes other tensors than its function",
        )
        gives = [form is not None for form in made.outputs]
        check(len(gives) == len(self.inputs), "a backward program of a step gives other tensors")
        for form, given in zip(made.outputs, self.inputs, strict=True):
            check(form is None or like(form) == given, "a gradient has another form")
        program = made.build()
        check(not program.changes(), "a step has effects")
        _core._program_given(program, count)
        self._programs[outputs, sums] = Backward(program, [], kept, gives, values, held)

    def _values(self, data: Any, tables: Tables) -> tuple[Any, list[int], list[Any]]:
        """A program for what a backward program reads, if it is not kept; what there is to read."""
        if data["values"] is None:
            return None, [], self._kept_forms
        made = Described(data["values"], tables)
        given = len(self._arguments)
        held = [index(k, len(self.reached)) for k in data["held"]]
        check(
            made.inputs[:given] == self._arguments == self._kept_forms[:given]
            and [like(form) for form in made.inputs[given:]] == [self.reached[k] for k in held]
            and None not in made.outputs,
            "the values of a step are computed from what is not there",
        )
        program = made.build()
        check(not (program.draws() or program.changes()), "a step has effects")
        _core._program_given(program, given)
        return program, held, made.outputs

    def _program_for(self, outputs: Flags, sums: Flags) -> Backward:
        found = self._programs.get((outputs, sums))
        check(found is not None, "a backward program of a step is missing")
        assert found is not None
        return dataclasses.replace(found)

    def _inputs(self) -> int:
        return len(self.inputs)

    def rooms(self, count: int) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each output, for so many rows."""
        return [((count, *shape), dtype) for shape, dtype in self.results[self.carries :]]


def _form_of(data: Any) -> Form:
    shape, name = data
    dtype = getattr(_core, name, None) if type(name) is str else None
    good = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    check(good and isinstance(dtype, _core.dtype), f"{data!r} is not the form of a tensor")
    return shape, dtype


def _increasing(numbers: Sequence[Any], count: int) -> list[int]:
    found = [index(k, count) for k in numbers]
    check(len({*found}) == len(found), "a place is named twice")
    return found
