"""Loops as data for files, and back: what a program says of a loop that it calls.

Programs of steps stand in a table, each after those of the loops inside it; an instruction has its
number there, how many steps run, and which gradients arrive. Read next: _loaded_step.py, for what
becomes of a step; compiler/_exchange.py, for the programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint.compiler._exchange import Tables, to_data

from ._branches import Branches
from ._loaded_step import LoadedStep, check, flags, index
from ._loop import WholeLoop
from ._memory import Memory
from ._recorded_loop import RecordedBackward, RecordedForward
from ._recorded_while import Until
from ._run import LoopRun
from ._step import Step

__all__ = ["call_data", "call_from", "step_from"]

_MOST = 1 << 40  # steps, and bytes that a loop may keep
_TOKEN = ([1], ad.int64)


# -- to data ---------------------------------------------------------------------------------------


def call_data(run: Any, tables: Tables) -> Any:
    """What an instruction calls; None where it is not a loop."""
    if not isinstance(run, RecordedForward | RecordedBackward):
        return None
    data = {"body": _body_data(run.body, tables), "needs": run.needs}
    if isinstance(run, RecordedBackward):
        data |= {"count": run.count, "arriving": run.arriving, "gives": run.gives}
    return data


def _body_data(body: Any, tables: Tables) -> Any:
    if isinstance(body, Branches):
        return {
            "cond": [_loop_data(body.loops[on], tables) for on in (False, True)],
            "operands": body.operands,
        }
    kind = "until" if isinstance(body, Until) else "scan"
    return {kind: _loop_data(body.loop, tables)}


def _loop_data(loop: LoopRun, tables: Tables) -> Any:
    if loop.memory.resume or loop.memory.beside:
        raise ValueError(
            "a loop has resume=True, whose states are found by what the loop is in this process; "
            "fix: save it without that"
        )
    return {
        "step": _number_of(loop.step, tables),
        "count": loop.count if loop.has_length else None,
        "reverse": loop.reverse,
        "memory": list(dataclasses.astuple(loop.memory)[:4]),
    }


def _number_of(step: Step, tables: Tables) -> int:
    """Where a step stands in the table; it is put there, if it is not yet."""
    found = tables.numbers.get(id(step))
    if found is None:
        data = _step_data(step, tables)
        tables.steps.append(data)
        found = tables.numbers[id(step)] = len(tables.steps) - 1
        tables.alive.append(step)
    return found


def _step_data(step: Step, tables: Tables) -> Any:
    programs = []
    for (outputs, sums), one in step.programs_in_use().items():
        programs.append(
            {
                "outputs": list(outputs),
                "sums": list(sums),
                "program": to_data(one.program, tables),
                "kept": one.kept,
                "values": None if one.values is None else to_data(one.values, tables),
                "held": one.held,
            }
        )
    return {
        "carries": step.carries,
        "forward": to_data(step.forward, tables),
        "reached": [[list(t.shape), str(t.dtype).rpartition(".")[2]] for t in step.reached],
        "held": step.held,
        "kept": step.kept,
        "sources": step.sources,
        "by": step.by,
        "differentiable": step.differentiable,
        "stops": step.form[3] >= 0,
        "programs": programs,
    }


# -- from data -------------------------------------------------------------------------------------


def step_from(data: Any, tables: Tables) -> LoadedStep:
    """A step of the table, whose loops inside it are there already."""
    return LoadedStep(data, tables)


def call_from(data: Any, tables: Tables, reads: Sequence[Tensor]) -> tuple[Any, list[Any]]:
    """What an instruction calls, and the forms of what that gives: shapes and dtypes.

    Raises
    ------
    Exception
        Of whatever kind: these are not the operands of such a loop.
    """
    body, loops = _body_from(data["body"], tables)
    given = [(list(t.shape), t.dtype) for t in reads]
    if "arriving" in data:
        return _backward_from(data, body, loops, given)
    if not isinstance(body, WholeLoop):
        check(bool(given) and all(size == 1 for size in given[0][0]), "a loop has no condition")
        given = given[1:]
    results = _results(body, loops, given)
    check(type(data["needs"]) is bool, "a loop does not say what it keeps")
    return RecordedForward(body, data["needs"]), [*results, _TOKEN]


def _body_from(data: Any, tables: Tables) -> tuple[Any, list[LoopRun]]:
    if "cond" in data:
        loops = [_loop_from(one, tables) for one in data["cond"]]
        check(len(loops) == 2, "there are two branches")
        good = all(loop.carries == 0 and loop.count == 1 and loop.has_length for loop in loops)
        check(good, "a branch is a loop of one step")
        operands = index(data["operands"], 1 + min(loop.step.rows for loop in loops))
        check(all(loop.step.rows == operands for loop in loops), "branches take other operands")
        return Branches({False: loops[0], True: loops[1]}, operands), loops
    loop = _loop_from(data["until" if "until" in data else "scan"], tables)
    if "until" in data:
        good = not loop.has_length and loop.step.form[3] == 0 and loop.step.rows == 0
        check(good, "a loop until a condition fails has none")
        return Until(loop), [loop]
    check(loop.has_length and loop.step.form[3] == -1, "a scan has a length")
    return WholeLoop(loop), [loop]


def _loop_from(data: Any, tables: Tables) -> LoopRun:
    step: Any = tables.steps[index(data["step"], len(tables.steps))]
    count, has_length = data["count"], data["count"] is not None
    if has_length:
        check(index(count, _MOST) > 0, "a loop has no steps")
    memory = _memory_from(data["memory"], has_length)
    if memory.folder is not None:
        tables.folders.append(memory.folder)
    return LoopRun(step, step.carries, count, bool(data["reverse"]), memory, _no_function)


def _memory_from(data: Any, has_length: bool) -> Memory:
    block, states, budget, folder = data
    check(index(block, _MOST) > 0, "a block of a loop has no steps")
    if states is not None:
        check(index(states, _MOST) >= has_length, "a loop keeps no state")
    if budget is not None:
        index(budget, _MOST)
    check(folder is None or type(folder) is str, "a folder has no name")
    return Memory(block, states, budget, folder)


def _loaded(loop: LoopRun) -> LoadedStep:
    step: Any = loop.step
    assert isinstance(step, LoadedStep)
    return step


def _no_function(tensors: list[Tensor], carries: int, rows: int) -> list[Tensor]:
    raise AssertionError("there is no function")


def _results(body: Any, loops: list[LoopRun], given: list[Any]) -> list[Any]:
    """The forms of the results for tensors of these forms, which are compared with the steps."""
    if isinstance(body, Branches):
        first, second = (_loaded(loop).results for loop in loops)
        check(first == second, "branches have other results")
        size = body.operands + sum(len(loop.step.reached) for loop in loops)
        check(len(given) == size, "a loop takes another number of tensors")
        for on, loop in body.loops.items():
            taken = [given[k] for k in body.places(on)]
            check(taken == _loaded(loop).inputs, "a branch takes other tensors")
        return list(first)
    (loop,) = loops
    step = _loaded(loop)
    before = step.carries + step.rows
    stacked = [([loop.count, *shape], dtype) for shape, dtype in step.inputs[step.carries : before]]
    taken = [*step.inputs[: step.carries], *stacked, *step.reached]
    check(given == taken, "a loop takes other tensors")
    rows = step.rooms(loop.count) if loop.has_length else []
    return [*step.results[: step.carries], *((list(shape), dtype) for shape, dtype in rows)]


def _backward_from(
    data: Any, body: Any, loops: list[LoopRun], given: list[Any]
) -> tuple[Any, list[Any]]:
    count = index(data["count"], len(given))
    check(given[0] == _TOKEN, "a loop backward is not told what it has left")
    tensors = given[1 : 1 + count]
    results = _results(body, loops, tensors)
    sums = isinstance(body, WholeLoop) and len(data["arriving"]) > len(results)
    may_arrive = [*results, *(tensors if sums else ())]
    arriving = flags(data["arriving"], len(may_arrive))
    arrived = [form for form, on in zip(may_arrive, arriving, strict=True) if on]
    check(given[1 + count :] == arrived, "other gradients arrive than a loop has results")
    needs = flags(data["needs"], count)
    gives = [index(k, count) for k in data["gives"]]
    check(len({*gives}) == len(gives) and all(needs[k] for k in gives), "a gradient is not needed")
    body.meet_all(arriving)
    made = RecordedBackward(body, count, arriving, needs)
    made.gives = gives
    return made, [tensors[k] for k in gives]
