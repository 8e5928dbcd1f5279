"""Solvers inside a recording: `adjoint.compile`, or the step of a loop.

How many steps a solver takes depends on values, so it cannot be taken down step by step. What it
evaluates can: each function becomes a program of its own, and the solver is one instruction (a host
call) that runs these programs, on the tensors that the functions read where it is met. So nothing
of the user's Python runs in a replay. The derivative of the answer consists of operations that are
recorded as usual (`_implicit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import Batch, batch_of
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

__all__ = ["Inside", "Program", "is_inside", "program_of"]

Solve = Callable[[list[Callable[..., Any]], list[Tensor]], Sequence[Tensor]]


def is_inside() -> bool:
    """Whether a recording is under way, and nothing besides but transforms."""
    return bool(_core._is_recording()) and _core._loop_mode() < 2


class Program:
    """A recorded function of tensors.

    Attributes
    ----------
    reached
        The tensors that it reads besides its arguments.
    """

    def __init__(self, step: Any, is_single: bool) -> None:
        self.reached: list[Tensor] = step.reached
        self._program, self._held, self._is_single = step.forward, step.held, is_single
        outputs = dict(step.made.from_outputs)
        self._places = [outputs[place] for place in sorted(outputs)]

    def on(self, reached: Sequence[Tensor]) -> Callable[..., Any]:
        """The function, where it reads these tensors."""
        program, places = self._program, self._places
        held = [reached[k] for k in self._held]
        if self._is_single:
            (place,) = places
            return lambda *given: program.run(given, held)[place]

        def run(*given: Tensor) -> list[Tensor]:
            found = program.run(given, held)
            return [found[place] for place in places]

        return run


def program_of(function: Callable[..., Any], *like: Tensor) -> Program | None:
    """A function of tensors of these forms as a program; None where it cannot be one."""
    from adjoint.loops._drawn_numbers import DrawnNumbers
    from adjoint.loops._rehearsal import Rehearsal
    from adjoint.loops._step import record_inside

    walk = current_walk()
    if walk is not None and walk.has_effects():
        return None
    is_single: list[bool] = []

    def finish(result: Any) -> list[Tensor]:
        is_single.append(isinstance(result, Tensor))
        return [t.clone() for t in ([result] if is_single[0] else result)]

    def record() -> Any:
        given = [t.detach().clone() for t in like]
        try:
            with _values_only():
                return record_inside(function, given, given, 0, finish)[1]
        except Exception:  # which the solver meets itself, and raises
            return Refused("it raises an error", "")

    with Rehearsal() as rehearsal, DrawnNumbers() as numbers:
        made = _core._unrecorded(record)
    numbers.put_back()
    if walk is not None and walk.has_effects():
        walk._take_back()  # they happen when the solver runs
        made = Refused(*walk.refusals[0])
    if isinstance(made, Refused):
        rehearsal.undo()
        return None
    return Program(made, is_single[0])


class Inside:
    """A place in a recording where a solver is called; maybe for all samples of a `vmap`.

    Programs know nothing of transforms: they are handed all samples, and no tangents.

    Parameters
    ----------
    function, start
        What gives a value that has the samples of the problem.
    others
        Tensors that may have samples, too.
    """

    def __init__(
        self, function: Callable[[Tensor], Tensor], start: Tensor, *others: Tensor
    ) -> None:
        def find() -> Batch:
            with _values_only():
                return batch_of(function(start), *others)

        self._batch: Batch = _core._unrecorded(find)
        self._programs: list[Program] = []

    @property
    def has_samples(self) -> bool:
        """Whether it is met inside of a `vmap`."""
        return bool(self._batch.levels)

    def takes(self, functions: Sequence[tuple[Callable[..., Any], Sequence[Tensor]]]) -> bool:
        """Record functions, each with tensors like its arguments; whether all could be."""
        for function, like in functions:
            given = [_packed(self._whole(t)) for t in like]
            made = program_of(self._of_all(function), *given)
            if made is None:
                return False
            self._programs.append(made)
        return True

    def solved(self, solve: Solve, *operands: Tensor) -> list[Tensor]:
        """What ``solve(functions, operands)`` gives, as an instruction of the program around."""
        programs, first, depth = self._programs, len(operands), len(self._batch.levels)

        def run(tensors: Sequence[Tensor]) -> list[Tensor]:
            functions, at = [], first
            for program in programs:
                following = at + len(program.reached)
                functions.append(program.on(tensors[at:following]))
                at = following

            def each(*given: Tensor) -> list[Tensor]:
                batch = batch_of(*given)
                return list(solve([_of_samples(f, batch) for f in functions], list(given)))

            for _ in range(depth):
                each = ad.vmap(each)
            with ad.no_grad():
                found = each(*tensors[:first])
            made: list[Tensor] = _core._own_memory(list(found), tensors)
            return made

        given = [self._whole(t).contiguous() for t in operands]
        found = _core._host_call(run, [*given, *(t for p in programs for t in p.reached)])
        return [self._batch.each(t) for t in found]

    def _whole(self, t: Tensor) -> Tensor:
        with _values_only():
            return self._batch.whole(t.detach())

    def _of_all(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of one sample as one of all samples."""

        def of_all(*whole: Tensor) -> Any:
            made = function(*(self._batch.each(t) for t in whole))
            return self._whole(made) if isinstance(made, Tensor) else list(map(self._whole, made))

        return of_all


def _of_samples(function: Callable[..., Any], batch: Batch) -> Callable[..., Any]:
    """A function of all samples as one of each of them."""
    if not batch.levels:
        return function

    def of_each(*given: Tensor) -> Any:
        made = function(*(_packed(batch.whole(t)) for t in given))
        return batch.each(made) if isinstance(made, Tensor) else [batch.each(t) for t in made]

    return of_each


def _packed(t: Tensor) -> Tensor:
    """A tensor with the strides of its shape, along axes of length one as well."""
    t = t.contiguous()
    return t.clone(memory_format=ad.contiguous_format) if 1 in t.shape else t


class _values_only:
    """For the length of a ``with`` block, nothing is differentiated in either mode."""

    def __enter__(self) -> None:
        self._grad = ad.is_grad_enabled()
        self._tangents = _core._is_fwd_grad_enabled()
        _core._set_grad_enabled(False)
        _core._set_fwd_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        _core._set_fwd_grad_enabled(self._tangents)
        _core._set_grad_enabled(self._grad)
