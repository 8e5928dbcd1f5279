"""What instructions call, as data for files, and back.

A program calls Python where it has a loop that runs as one instruction, a solver, an external.
Loops are made of programs, and so of data; checks of `solve_ivp` have a name. All else is refused,
by words that say what to do.
Read next: loops/_loop_files.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint._core import Tensor
from adjoint._recording import CheckedCall

if TYPE_CHECKING:
    from ._exchange import Tables

__all__ = ["host_data", "host_from"]

# By name: where a check is, how many tensors it takes, which one it hands on, what else it takes.
_SOLUTION = "adjoint.integrate._recorded"
CHECKS: dict[str, tuple[str, str, int, int, list[type]]] = {
    "integrate.begins": (_SOLUTION, "check_beginning", 5, 0, []),
    "integrate.arrives": (_SOLUTION, "check_end", 5, 2, [int, str, bool]),
}


def host_data(run: Any, tables: Tables) -> Any:
    """What an instruction calls, as numbers, texts, lists and dicts.

    Raises
    ------
    ValueError
        It is not data.
    """
    from adjoint.loops._loop_files import call_data

    if isinstance(run, CheckedCall) and run.name in CHECKS:
        return {"check": [run.name, *run.data]}
    found = call_data(run, tables)
    if found is None:
        raise ValueError(_why_not(run))
    return {"loop": found}


def host_from(data: Any, tables: Tables, reads: Sequence[Tensor]) -> tuple[Any, list[Any]]:
    """What an instruction calls with such operands, and shapes and dtypes of what that gives.

    Raises
    ------
    Exception
        Of whatever kind: there is no such call.
    """
    from adjoint.loops._loop_files import call_from

    ((kind, inside),) = data.items()
    if kind == "check":
        return _check_from(inside, reads)
    if kind != "loop":
        raise ValueError(f"{kind!r} is nothing that a program calls")
    return call_from(inside, tables, reads)


def _check_from(data: Any, reads: Sequence[Tensor]) -> tuple[Any, list[Any]]:
    name, *more = data
    module, function, count, like, kinds = CHECKS[name]
    if [type(one) for one in more] != kinds or len(reads) != count:
        raise ValueError(f"a check ({name}) is given something else")
    check = getattr(importlib.import_module(module), function)
    result = reads[like]
    return CheckedCall(name, check, like, *more), [(list(result.shape), result.dtype)]


def _why_not(run: Any) -> str:
    room = (getattr(run, "__module__", None) or type(run).__module__).split(".")
    if room[:2] == ["adjoint", "external"]:
        return (
            "it calls an external, which is Python of this process; fix: call the external outside "
            "of the function, and pass what it gives as an argument"
        )
    if room[0] == "adjoint":
        return (
            f"it runs something of adjoint.{room[1]} as Python (a solver, or a check of values); "
            "fix: compile and save the functions that are given to it"
        )
    return (
        "it calls Python (a callback); fix: call it outside of the function, and pass what it "
        "gives as an argument"
    )
