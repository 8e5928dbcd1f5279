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
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

__all__ = ["Program", "is_inside", "program_of", "programs_of", "solved_inside"]

Solve = Callable[[list[Callable[..., Any]], list[Tensor]], Sequence[Tensor]]


def is_inside() -> bool:
    """Whether a recording is under way, and no transform."""
    return bool(_core._is_recording()) and not _core._loop_mode()


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
    from adjoint.loops._step import record_inside

    walk = current_walk()
    if walk is not None and walk.has_effects():
        return None
    is_single: list[bool] = []

    def finish(result: Any) -> list[Tensor]:
        is_single.append(isinstance(result, Tensor))
        return [t.clone() for t in ([result] if is_single[0] else result)]

    def record() -> Any:
        state = _core.default_generator.get_state()
        given = [t.detach().clone() for t in like]
        try:
            with ad.no_grad():
                return record_inside(function, given, given, 0, finish)[1]
        except Exception:  # which the solver meets itself, and raises
            return Refused("it raises an error", "")
        finally:
            _core.default_generator.set_state(state)

    made = _core._unrecorded(record)
    if walk is not None and walk.has_effects():
        walk._take_back()  # they happen when the solver runs
        return None
    return None if isinstance(made, Refused) else Program(made, is_single[0])


def programs_of(
    functions: Sequence[tuple[Callable[..., Any], Sequence[Tensor]]],
) -> list[Program] | None:
    """Functions, each with tensors like its arguments, as programs; None if one cannot be."""
    made: list[Program] = []
    for function, like in functions:
        program = program_of(function, *like)
        if program is None:
            return None
        made.append(program)
    return made


def solved_inside(programs: list[Program], operands: Sequence[Tensor], solve: Solve) -> Any:
    """What ``solve(functions, operands)`` gives, as an instruction of the program around."""
    first = len(operands)

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        functions, at = [], first
        for program in programs:
            following = at + len(program.reached)
            functions.append(program.on(tensors[at:following]))
            at = following
        with ad.no_grad():
            found = solve(functions, list(tensors[:first]))
        made: list[Tensor] = _core._own_memory(list(found), tensors)
        return made

    return _core._host_call(run, [*operands, *(t for p in programs for t in p.reached)])
